"""The pages: links and anchors, the site's map, what README has to say; that a site is built."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest
from label_files import file_of
from processes import run_python

import judges.testing
import optimize.testing
from judges import read_subject

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "notebooks", "data/starter")),
]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Its headings as the site's builder makes anchors of them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", one, flags=re.A).strip().lower())
        for one in headings
    }


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_on_a_page_is_dead(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


def test_readme_is_short_and_says_what_a_reader_must_know() -> None:
    assert len(README.splitlines()) <= 150
    words = " ".join(README.split())
    for claim in (
        "pip install -c constraints.txt . && python -m optimize --dimension relevance",
        "pip install -c constraints.txt -e '.[test]' && tests/check",
        "ratings are *constructed* from known faults, not given by people",
        "a small *statistical* model, not a language model",
        "When not to use it",
    ):
        assert claim in words
    starter = (ROOT / "data" / "starter" / "README.md").read_text(encoding="utf-8")
    assert re.match("[^\n]*constructed[^\n]*no person", starter)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-c constraints.txt -e '.[test]'" in ci
    assert "tests/check" in ci


def blocks(language: str) -> list[tuple[str, str]]:
    """Each page's blocks of code in a language."""
    return [
        (str(page.relative_to(ROOT)), block)
        for page in [ROOT / "README.md", *PAGES]
        for block in re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]


@pytest.mark.usefixtures("here")
def test_each_definition_on_a_page_is_one_that_judges_read() -> None:
    definitions = [block for _, block in blocks("yaml") if "definition:" in block]
    assert len(definitions) == 5
    for block in definitions:
        subject = read_subject(str(file_of(block, "mine.yaml")))
        assert f"name: {subject.name}\n" in block


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_code_on_a_page_is_python(page: str, block: str) -> None:
    ast.parse(dedent(block))


def test_the_api_page_has_every_public_name_by_its_home() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    homes = {
        f"{module.__name__}.{name}"
        for module in (judges.testing, optimize.testing)
        for name in vars(module)
        if name.endswith("Contract")
    }
    for package in ("judges", "judges/labels", "optimize"):
        tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        homes |= {
            f"{node.module}.{each.name}" for node in imports for each in node.names if each.asname
        }
    assert set(re.findall(r"^::: (\S+)$", page, re.MULTILINE)) == homes


@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="the extra `docs` is not installed")
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    built = run_python(
        "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path, cwd=ROOT
    )
    assert built.returncode == 0, built.stderr
    pages = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")]
    assert len(pages) >= len(PAGES)
    fetched = {
        address
        for page in pages
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page)
        for address in re.findall(r"(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)", tag)
    }
    assert not fetched
