"""What requirements-judges.txt installs: judging by table and in code, and lines for the rest."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from openai_server import OpenAIServer

from dspy_judges.libraries import LEFT_OUT, OF_TUNING

ROOT = Path(__file__).parents[1]
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
REQUIREMENTS = [
    line
    for line in (ROOT / "requirements-judges.txt").read_text().splitlines()
    if not line.startswith("#")
]
# With what pip brings with them (tools/judges_only.py installs them), by their modules' names.
MODULES = (
    *("aiohappyeyeballs", "aiohttp", "aiosignal", "attr", "attrs", "cachetools", "frozenlist"),
    *("idna", "msgspec", "multidict", "numpy", "propcache", "typing_extensions", "yaml", "yarl"),
    *("data", "dspy_judges", "judges", "optimize"),
)
COMMANDS = """
import json, sys
from dspy_judges.__main__ import main
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    print(json.dumps(["code", code]), file=sys.stderr, flush=True)
"""
ROWS = [
    {"document": "The council met on Monday and closed the bridge.", "summary": "A bridge closed."},
    {"document": "Rain fell for three days.", "summary": "It rained for three days."},
]
PAIR = {"prompt": "How do I boil an egg?", "response_a": "Boil it.", "response_b": "Cats purr."}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of nothing but the modules that such an install has."""
    folder = tmp_path_factory.mktemp("library")
    for name in MODULES:
        spec = find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        file = Path(spec.origin)
        part = file.parent if file.name == "__init__.py" else file
        (folder / part.name).symlink_to(part)
    for shared in Path(np.__file__).parents[1].glob("numpy.libs"):
        (folder / shared.name).symlink_to(shared)
    return folder


def python(library: Path, code: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(library: Path, cwd: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Each command's exit code and what it printed on stderr."""
    done = python(library, COMMANDS, json.dumps(commands), cwd=cwd)
    assert done.returncode == 0, done.stderr
    ended, said = [], list[str]()
    for line in done.stderr.splitlines():
        if line.startswith('["code", '):
            ended.append((json.loads(line)[1], "\n".join(said)))
            said = []
        else:
            said.append(line)
    return ended


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "pairs.jsonl").write_text(3 * (json.dumps(PAIR) + "\n"))
    return tmp_path


def test_every_requirement_is_one_of_the_whole_projects() -> None:
    assert set(REQUIREMENTS) < set(DEPENDENCIES)


def test_every_other_dependency_has_a_line_for_where_it_is_missing() -> None:
    named = {requirement for requirement, _ in LEFT_OUT.values()} - {"pyarrow"}  # datasets' own
    assert named < set(DEPENDENCIES)
    of_tuning = {line for line in DEPENDENCIES if any(line.startswith(name) for name in OF_TUNING)}
    assert len(of_tuning) == len(OF_TUNING)
    assert set(DEPENDENCIES) == {*REQUIREMENTS, *named, *of_tuning}


def test_the_judges_alone_judge_tables_by_the_embedded_model_and_by_an_endpoint(
    library: Path, tables: Path, openai_server: OpenAIServer
) -> None:
    asking = ["--lm", "openai/judge-1", "--api-base", openai_server.url]
    ended = run(
        library,
        tables,
        ["score", "relevance", "fluency", "--data", "rows.jsonl", "--out", "scored.csv"],
        ["score", "relevance", "--data", "scored.csv", "--out", "asked.jsonl", *asking],
        ["winrate", "dialogue_helpful", "--data", "pairs.jsonl", "--out", "verdicts.jsonl"],
        ["list"],
        ["show", "relevance"],
        ["export", "relevance", "--to", "openai-messages"],
        ["check", "--help"],
        ["score", "--help"],
    )
    assert [code for code, _ in ended] == [0] * 8, ended
    assert (tables / "scored.csv").read_text().count("\n") == 3
    (first, second) = map(json.loads, (tables / "asked.jsonl").read_text().splitlines())
    for row in (first, second):
        assert row["judgements"]["relevance"]["failure"] is None
    assert len((tables / "verdicts.jsonl").read_text().splitlines()) == 3


MISSING = {
    "score relevance --data rows.jsonl --out s.parquet": "Parquet files need pyarrow",
    "score relevance --data rows.parquet --out s.csv": "Parquet files need pyarrow",
    "score relevance --data rows.jsonl --out s.xlsx": "Excel workbooks need openpyxl",
    "score relevance --data rows.xlsx --out s.csv": "Excel workbooks need openpyxl",
    "check hf:owner/name": "Hugging Face data sets need datasets",
    "score relevance --data rows.jsonl --out s.csv --lm anthropic/claude": "DSPy programs, and mod",
    "tune --dimension relevance": "tuning, measuring and reports need scipy",
    "verify relevance --data rows.jsonl --map relevance=stars": "tuning, measuring and reports ne",
    "report runs/relevance-001": "tuning, measuring and reports need jinja2",
    "panel --help": "tuning, measuring and reports need scipy",
    "completion bash": "completion needs shtab",
}


def test_what_is_missing_is_one_line_with_the_command_that_brings_it(
    library: Path, tables: Path
) -> None:
    (tables / "rows.parquet").touch()
    (tables / "rows.xlsx").touch()
    (tables / "rows.jsonl").write_text(
        "".join(json.dumps(row | {"stars": 3}) + "\n" for row in ROWS)
    )
    for words, (code, said) in zip(
        MISSING, run(library, tables, *map(str.split, MISSING)), strict=True
    ):
        # No row was judged, and paid for, before the line.
        assert code == 1, (words, said)
        assert "judging: 2" not in said
        assert "Traceback" not in said
        assert f": {MISSING[words]}" in said.splitlines()[-1]
        assert said.endswith("pip install . in the project's checkout")


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("judges.load('relevance').program()", "pip install 'dspy-ai>="),
        ("judges.RatingJudge", "pip install 'dspy-ai>="),
        ("judges.load('relevance').score([])", "DataFrames need pandas, which is not installed"),
        ("optimize.measure({}, dimension='x')", "tuning, measuring and reports need"),
    ],
)
def test_in_code_the_error_says_the_same(
    library: Path, tmp_path: Path, expression: str, line: str
) -> None:
    done = python(library, f"import judges, optimize\n{expression}", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("dspy_judges.errors.MissingExtraError: ")
    assert line in last
