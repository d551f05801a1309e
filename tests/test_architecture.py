"""The ladder of folders in docs/DESIGN.md, checked import by import; what a start-up costs."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("judges", "optimize", "data", "dspy_judges")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports_of(path: Path) -> set[str]:
    """Our modules that a file imports anywhere, also inside functions and for types alone."""
    modules = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                modules.add(inner if inner in MODULES else str(node.module))
    return modules & set(MODULES)


DESIGN = (ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")
LINES = re.findall(r"```ladder\n(.*?)```", DESIGN, re.DOTALL)[0].splitlines()
# From the names that stand in the ladder to their lines, counted from the top.
LADDER = {name: i for i, line in enumerate(LINES) for name in line.partition("#")[0].split()}


def rung(module: str) -> int:
    """The line of the closest name that holds the module."""
    parts = module.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next(LADDER[name] for name in names if name in LADDER)


def test_a_file_imports_only_what_stands_on_its_line_of_the_ladder_or_below():
    assert LADDER.keys() <= MODULES.keys()
    # A package's own __init__ only re-exports, lazily: it stands above all its files.
    modules = MODULES.keys() - set(PACKAGES)
    pairs = {(module, other) for module in modules for other in imports_of(MODULES[module])}
    assert [pair for pair in pairs if rung(pair[1]) < rung(pair[0])] == []


def test_no_files_import_each_other_in_a_circle():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"in a circle: {' -> '.join(error.args[1])}")


def test_every_file_says_its_job_in_its_first_line_and_is_no_bag_of_odds_and_ends():
    silent = [p for p in FILES if not p.read_text(encoding="utf-8").startswith(('"""', 'r"""'))]
    assert silent == []
    assert not {path.stem for path in FILES} & {"utils", "helpers", "common", "base", "misc"}


def test_every_error_of_ours_has_a_root_that_commands_tell_in_one_line():
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }
    roots = {"JudgesError", "OSError"}
    while new := {name for name, of in bases.items() if of & roots} - roots:
        roots |= new
    assert {name for name in bases if not name.startswith("_")} <= roots
