"""The ladder of folders in docs/DESIGN.md, checked import by import; files and errors."""

import ast
import re
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

from dspy_judges.errors import JudgesError

ROOT = Path(__file__).parents[1]
PACKAGES = ("judges", "optimize", "data", "dspy_judges")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports_of(path: Path) -> set[str]:
    """Our modules that a file imports anywhere, also inside functions and for types alone."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_files_import_downwards_and_in_no_circle():
    assert LADDER.keys() <= MODULES.keys()
    # A package's own __init__ only re-exports, lazily: it stands above all its files.
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    pairs = {(module, other) for module in graph for other in graph[module]}
    above = [pair for pair in pairs if rung(pair[1]) < rung(pair[0]) and pair[0] not in PACKAGES]
    assert above == []
    # A circle of files on one line is a CycleError, which names them.
    TopologicalSorter(graph).prepare()


def test_every_file_says_its_job_in_its_first_line():
    silent = [p for p in FILES if not p.read_text(encoding="utf-8").startswith(('"""', 'r"""'))]
    assert silent == []
    assert not {path.stem for path in FILES} & {"utils", "helpers", "common", "base", "misc"}


def test_every_error_has_a_root_that_commands_report():
    values = [value for name in MODULES for value in vars(import_module(name)).values()]
    classes = {value for value in values if isinstance(value, type) and value.__module__ in MODULES}
    errors = {each for each in classes if issubclass(each, Exception) and each.__name__[0] != "_"}
    assert len(errors) > 20
    assert {e for e in errors if not issubclass(e, (JudgesError, OSError, Warning))} == set()
