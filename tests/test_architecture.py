"""The arrows between the packages, and what a start-up may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("judges", "optimize", "data")
# judges use data for tables alone.
ARROWS = {("optimize", "judges"), ("optimize", "data"), ("judges", "data")}
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level packages a file imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_leaves_the_drawn_arrows(path: Path) -> None:
    here = path.relative_to(ROOT).parts[0]
    others = imported(path) & set(PACKAGES) - {here}
    assert {(here, other) for other in others} <= ARROWS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_says_its_job_in_its_first_line(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_a_bag_of_odds_and_ends(path: Path) -> None:
    assert path.stem not in {"utils", "helpers", "common", "base", "misc"}


def test_importing_judges_and_scoring_a_row_leaves_dspy_and_pandas_alone() -> None:
    script = (
        "import judges, sys\n"
        "judge = judges.load('relevance')\n"
        "one = judge(document='The council met on Monday and closed the bridge.',"
        " summary='The bridge is closed.')\n"
        "assert one.failure is None, one\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_error_of_ours_has_a_root_that_commands_tell_in_one_line() -> None:
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }
    rooted = {"JudgesError", "DataError", "OSError"}
    while new := {name for name, of in bases.items() if of & rooted} - rooted:
        rooted |= new
    assert {name for name in bases if not name.startswith("_")} <= rooted
