"""The pages: links and anchors, what README has to say, and code and commands as they stand."""

import argparse
import ast
import re
import shlex
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import dspy
import pytest
from command_runs import run
from files import file_of
from processes import run_python

import judges.testing
import optimize.testing
from dspy_judges.__main__ import COMMANDS, main
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
def test_no_link_on_a_page_is_dead(page):
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        # The site has the pages of docs/ alone.
        assert DOCS not in page.parents or DOCS in file.parents, f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


def test_the_site_leads_to_every_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert [page.name for page in PAGES if f"{page.relative_to(DOCS)}\n" not in navigation] == []


def test_readme_is_short_and_says_who_rated_the_starter_set():
    assert len(README.splitlines()) <= 150
    assert "ratings are *constructed* from known faults, not given by people" in README


def blocks(language: str) -> list[tuple[str, str]]:
    """Each page's blocks of code in a language."""
    return [
        (str(page.relative_to(ROOT)), block)
        for page in [ROOT / "README.md", *PAGES]
        for block in re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]


@pytest.mark.usefixtures("here")
def test_each_definition_on_a_page_is_one_that_judges_read():
    definitions = [block for _, block in blocks("yaml") if "definition:" in block]
    assert len(definitions) == 5
    for block in definitions:
        subject = read_subject(str(file_of(block, "mine.yaml")))
        assert f"name: {subject.name}\n" in block


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_code_on_a_page_is_python(page, block):
    ast.parse(dedent(block))


def test_the_api_page_has_every_public_name_by_its_home():
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
    public, _, extensions = page.partition("\n## Extensions\n")
    assert set(re.findall(r"^::: (\S+)$", public, re.MULTILINE)) == homes
    guide = (DOCS / "extend.md").read_text(encoding="utf-8")
    for names in re.findall("^from (?:judges|optimize)[.].* import (.*)$", guide, re.MULTILINE):
        for name in names.split(", "):
            assert re.search(rf"\b{name}\b", extensions) or name.endswith("Contract"), name


@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="the extra `docs` is not installed")
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    process = run_python(
        "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path, cwd=ROOT
    )
    assert process.returncode == 0, process.stderr
    built = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")]
    assert len(built) >= len(PAGES)
    assert not any(
        re.search(r"<(script|link|img|iframe)\b[^>]*=.?(https?:)?//", page) for page in built
    )


SCRIPTS = (ROOT / "benchmarks", ROOT / "notebooks")  # which have flags of their own
COMMAND_PAGES = {
    page: page.read_text(encoding="utf-8")
    for page in [*(folder / "README.md" for folder in (ROOT, *SCRIPTS)), *PAGES]
}
STARTED = re.compile(r"((?:dspy-judges|python -m (?:optimize|judges|data)\b)[^&>]*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def commands_in(text: str) -> Iterator[str]:
    """A page's commands: all in blocks, and those in sentences that have flags."""
    in_blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    in_sentences = re.findall(r"`((?:dspy-judges|python -m) [^`]* --[^`]*)`", text)
    for line in [*in_blocks.replace("\\\n", " ").splitlines(), *in_sentences]:
        # A comment begins after a blank: `--map id=#row` has none.
        for command in STARTED.findall(re.split(r"(?:^|\s)#", line)[0]):
            yield " ".join(command.split())


DOCUMENTED = {
    (page.name, command) for page, text in COMMAND_PAGES.items() for command in commands_in(text)
}


def word_and_arguments(command: str) -> list[str]:
    """As the console script takes it."""
    program, *rest = shlex.split(command.replace("$D", "relevance"))
    if program == "dspy-judges":
        return rest
    module, *rest = rest[1:]
    if module == "optimize":
        return ["tune", *rest]
    return [module.removeprefix("optimize."), *rest] if "." in module else rest


class ParsedError(Exception):
    """Ends a command once its parser has taken the words."""


@pytest.mark.parametrize(("page", "command"), sorted(DOCUMENTED))
def test_a_command_on_a_page_is_taken(page, command, monkeypatch):
    def then_stop(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parse_only(*arguments: Any, **options: Any) -> Any:
            parse(*arguments, **options)
            raise ParsedError

        return parse_only

    for name in ("parse_args", "parse_intermixed_args"):
        parse = getattr(argparse.ArgumentParser, name)
        monkeypatch.setattr(argparse.ArgumentParser, name, then_stop(parse))
    with pytest.raises(ParsedError):
        main(word_and_arguments(command))


def test_pages_name_no_flag_that_no_command_has():
    of_ours = {name for word in COMMANDS for name in FLAG.findall(run(main, word, "--help").stdout)}
    # mkdocs build --strict
    flags = of_ours | {"--version", "--strict"}
    for page, text in COMMAND_PAGES.items():
        assert page.parent in SCRIPTS or {*FLAG.findall(text)} <= flags, page.name


TONE = """\
name: tone
definition: how friendly the reply is
inputs: {query: the question, reply: the reply}
scale: [1, 5]
"""


@pytest.mark.usefixtures("here")
def test_the_pages_code_with_questions_runs():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import dataclasses\n.*?)```", page, re.DOTALL)
    file_of(TONE, "tone.yaml")
    names: dict[str, Any] = {"query": "When?", "reply": "On Monday, thank you."}
    exec(block, names)
    assert names["judge"].weights.slopes == {"thanks": 2.0, "rating": 0.5}
    assert isinstance(names["judge"].program(), dspy.Module)
