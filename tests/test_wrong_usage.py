"""What a new user tells or gives a command wrong: one line, exit 1 or 2, and nothing written."""

import shlex
from pathlib import Path

import pytest
from command_runs import Result, run
from jsonl import read_jsonl, write_jsonl
from label_files import csv_of, file_of
from rating_files import weather_rows

from judges.__main__ import main as judges_command
from optimize.__main__ import command as tune
from optimize.check import command as data_command
from optimize.compare import command as compare
from optimize.verify import command as verify

ROWS = weather_rows(6, 3)
CSV = csv_of([*ROWS[0]], *(row.values() for row in ROWS))


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """A folder with labels and an empty definition."""
    write_jsonl("in.jsonl", ROWS)
    file_of("id,document,summary,relevance\na,Text.,Short.,3\n", "in.csv")
    rated = "Text.,Short.,1,good\nText.,Longer.,2,bad\n"
    file_of(f"document,summary,helpful,label\n{rated}", "two.csv")
    file_of(CSV + csv_of(ROWS[0].values()), "twice.csv")
    file_of("", "e.yaml")


def content() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


COMMANDS = {"check": data_command, "tune": tune, "compare": compare, "verify": verify}


def run_line(line: str) -> Result:
    word, *words = shlex.split(line)
    command = COMMANDS.get(word)
    return run(command, *words) if command else run(judges_command, word, *words)


TO = "--data in.jsonl --out o.jsonl"
SCORE = f"score fluency {TO}"
NOWHERE = "--api-base http://127.0.0.1:9/v1"
OWN = f"{SCORE} --lm openai/own"
TUNE = "tune --dimension relevance"
BARE = "no model 'gpt-5': write embedded or PROVIDER/NAME"


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (f"score nope {TO}", 2, "no judge 'nope'"),
        ("score fluency --data x.csv --out o.csv", 1, "x.csv: does not exist"),
        ("score fluency --data in.jsonl", 2, "--out FILE is needed"),
        ("score fluency --data in.jsonl --out ./in.jsonl", 1, "in.jsonl exists already"),
        (f"score tldr_concise {TO}", 2, "use: dspy-judges winrate"),
        (f"score fluency fluency {TO}", 2, "two judges"),
        (f"score e.yaml {TO}", 1, "e.yaml: Expected `object`"),
        (f"{SCORE} --plan mean --samples 3 --temperature 0", 2, "draws the same reply every time"),
        (f"{SCORE} --api-key sk-planted-4f9c", 2, "--api-key; did you mean --api-key-env"),
        (f"{OWN} --max-cost 1 {NOWHERE}", 1, "max_cost needs the model's price"),
        (f"{OWN} --api-base http://me:word@host/v1", 2, "--api-base: holds a password or a key"),
        (OWN, 1, "OPENAI_API_KEY is not set"),
        ("nope", 2, "invalid choice: 'nope'"),
        ("tune in.csv", 2, "unrecognized arguments: in.csv; did you mean --data in.csv?"),
        (f"{TUNE} --data in.csv --data two.csv", 2, "in.csv and two.csv: the flag takes one file;"),
        ("verify relevance --data twice.csv", 1, "row 20, field 'id': 'd0s0' is the id of"),
        (f"{TUNE} --data in.csv --map relevance=r", 1, "your column with --map relevance=COLUMN"),
        # Nearly a column's name, beside a column called label.
        ("tune --dimension helpfull --data two.csv --dry-run", 2, "(did you mean helpful?)"),
        (f"{TUNE} --scale 0-1000", 2, "at most 101 whole numbers; with --scale any"),
        ("compare --dimension relevance --lm gpt-5 --lm embedded --dry-run", 1, BARE),
    ],
)
def test_wrong_usage_is_one_line_and_writes_over_nothing(line, code, reason):
    before = content()
    result = run_line(line)
    assert (result.code, result.stdout, "Traceback" in result.stderr) == (code, "", False)
    assert reason in result.last
    assert content() == before


def test_verbose_shows_where_an_error_arose():
    result = run_line("score fluency --data x.csv --out o.jsonl --verbose")
    assert (result.code, "Traceback" in result.stderr) == (1, True)


TRUNCATED = "cannot be read as utf-16-le (truncated data); save the file as UTF-8"


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", "holds no rows"),
        (CSV.encode("utf-16") + b"\n", TRUNCATED),
        (CSV.encode() + b'a,b,"c\n', "row 20: cannot be read"),
    ],
)
def test_a_faulty_file_is_one_line_and_leaves_nothing(raw, fault):
    file_of(raw, "x.csv")
    before = content()
    for line in (TUNE, "verify relevance", "score fluency --out o.jsonl"):
        result = run_line(f"{line} --data x.csv")
        assert (result.code, result.stderr.count("\n")) == (1, 1)
        assert ": x.csv" in result.stderr
        assert fault in result.stderr
        assert content() == before


def test_jsonl_has_null_for_nan_and_parquet_refuses_huge_numbers():
    write_jsonl("x.jsonl", [ROWS[0] | {"relevance": float("nan")}, *ROWS[1:]])
    assert run_line("score fluency --data x.jsonl --out o.jsonl").code == 0
    assert [row["relevance"] for row in read_jsonl("o.jsonl")].count(None) == 1
    write_jsonl("x.jsonl", [ROWS[0] | {"relevance": 10**400}, *ROWS[1:]])
    result = run_line("score fluency --data x.jsonl --out o.parquet")
    assert result.code == 1
    assert "the column 'relevance' holds values of several types" in result.last
    assert "write .csv or .jsonl" in result.last
