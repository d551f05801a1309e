"""What a new user tells or gives a command wrong: one line, exit 1 or 2, and nothing written."""

import shlex
from pathlib import Path

import pytest
from command_runs import Result, run
from files import csv_of, file_of, read_jsonl, write_jsonl
from rating_files import weather_rows, write_ratings, write_scores

from judges.__main__ import main as judges_command
from optimize.__main__ import command as tune
from optimize.check import command as data_command
from optimize.compare import command as compare
from optimize.verify import command as verify

ROWS = weather_rows(6, 3)
CSV = csv_of([*ROWS[0]], *(row.values() for row in ROWS))


DEFINITION = "{name: liveliness, definition: how lively it is, inputs: [response], scale: [1, 3]}"


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """A folder with labels, recorded scores and replies, and definitions of which one is empty."""
    write_jsonl("in.jsonl", ROWS)
    file_of("id,document,summary,relevance\na,Text.,Short.,3\n", "in.csv")
    rated = "Text.,Short.,1,good\nText.,Longer.,2,bad\n"
    file_of(f"document,summary,helpful,label\n{rated}", "two.csv")
    file_of(CSV + csv_of(ROWS[0].values()), "twice.csv")
    file_of("", "e.yaml")
    file_of(DEFINITION, "own.yaml")
    write_jsonl("own.jsonl", weather_rows(12, 4, "liveliness", ("context", "response")))
    write_jsonl("one.jsonl", [{"id": "d0s0", "summary": "S.", "charm": 2, "fluency": 3}])
    write_scores("scores.jsonl", [[1, 2, 3]] * 3)
    write_ratings("charm.jsonl", [[1, 2, 3]] * 3)
    replies = [{"id": "d0s0", "dimension": "fluency", "replies": [reply]} for reply in ("1", "5")]
    write_jsonl("replies.jsonl", replies)


def content() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


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
TUNE_OWN = "tune --dimension own.yaml --data own.jsonl"
VERIFY = "verify --data one.jsonl"
COMPARE = "compare --dimension charm --data charm.jsonl"
OLD = "--against old=relevance"
POINT = "write a decimal point and no comma, as in 0.8"
READ = "say how a file is read: name the file (--data)"
ABOUT = "relevance is about 'relevance' (rating)"
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
        ("nope", 2, "no command 'nope'"),
        ("tune in.csv", 2, "unrecognized arguments: in.csv; did you mean --data in.csv?"),
        (f"{TUNE} --data in.csv --data two.csv", 2, "in.csv and two.csv: the flag takes one file;"),
        ("verify relevance --data twice.csv", 1, "row 20, field 'id': 'd0s0' is the id of"),
        (f"{TUNE} --data in.csv --map relevance=r", 1, "your column with --map relevance=COLUMN"),
        # Nearly a column's name, beside a column called label.
        ("tune --dimension helpfull --data two.csv --dry-run", 2, "(did you mean helpful?)"),
        (f"{TUNE} --scale 0-1000", 2, "at most 101 whole numbers; with --scale any"),
        ("tune", 2, "--dimension NAME or --pairwise NAME"),
        # A dimension that a file has alone need not be named.
        ("tune --data own.jsonl", 2, "no judge 'liveliness' in the catalogue: say in one line"),
        ("tune --dimension relevanse", 2, "relevance"),
        ("tune --dimension missing.yaml", 1, "missing.yaml"),
        ("tune --dimension own.jsonl", 2, "is a file: did you mean --data own.jsonl?"),
        ("tune --dimension own.yaml --data nowhere.jsonl", 1, "nowhere.jsonl"),
        ("tune --pairwise own.yaml --data own.jsonl", 2, "--dimension"),
        ("tune --pairwise 'a=b' --data own.jsonl --annotations v.csv", 2, "v.csv: votes on pairs"),
        (f"{TUNE_OWN} --max-tokens proposer=x", 2, "proposer='x': expected a whole number"),
        (f"{TUNE_OWN} --api-base http://me:word@host/v1", 2, "OPENAI_API_KEY"),
        (f"{TUNE_OWN} --out own.yaml", 1, "own.yaml: File exists"),
        (f"{TUNE_OWN} --out /proc/none/run", 1, "/proc/none: No such file"),
        (f"{TUNE_OWN} --max-calls 3", 2, "--max-calls 3"),
        (f"{TUNE_OWN} --optimizer gepa", 2, "--optimizer gepa: name a language model"),
        (f"{TUNE_OWN} --proposer-lm openai/m", 2, "--proposer-lm: the embedded model cannot"),
        (f"{TUNE_OWN} --max-cost 1,50", 2, f"'1,50': expected a number; {POINT}"),
        ("score fluency --data two.csv --max-cost 1,50", 2, f"a number, 0 or more; {POINT}"),
        ("verify relevance --min-tpr 0,8", 2, f"'0,8': must be a number; {POINT}"),
        ("plan two.csv --target-width 0,1", 2, f"'0,1': must be a number; {POINT}"),
        ("verify", 2, "JUDGE, --replies FILE or --scores FILE"),
        ("verify relevanse", 2, "relevance"),
        ("verify relevance --scores scores.jsonl", 2, "one thing to verify"),
        ("verify --scores scores.jsonl", 2, "--dimension NAME"),
        ("verify relevance --dimension fluency", 2, ABOUT),
        ("verify relevance --pairwise relevance", 2, ABOUT),
        ("verify relevance --map relevance=mine", 2, READ),
        ("verify relevance --values up=1", 2, READ),
        ("verify relevance --annotations a.jsonl", 2, READ),
        ("verify relevance --data starter_pairs", 1, "starter_pairs: holds pairs of outputs"),
        (f"{VERIFY} --scores none.jsonl --dimension charm", 1, "none.jsonl"),
        (f"{VERIFY} --scores scores.jsonl --dimension wit", 1, "field 'wit'"),
        (f"{VERIFY} --replies replies.jsonl --dimension fluency", 1, "'d0s0' is recorded twice"),
        (f"{VERIFY} --scores scores.jsonl --dimension fluency --scale 1-2", 1, "3 is off the"),
        ("verify relevance --margin .1", 2, "need --against OLD"),
        ("verify relevance --looks 2", 2, "it needs a floor"),
        ("verify relevance --min-spearman .1 --looks 101", 2, "it needs a floor"),
        (f"verify relevance {OLD} --margin 1", 2, "between 0 and 1"),
        (f"verify relevance {OLD} --all", 2, "measure one judge"),
        (f"verify relevance {OLD} --min-spearman 0", 2, "measure one judge"),
        ("verify relevance --against relevance", 2, "two judges are called relevance"),
        ("verify relevance --against ''", 2, "no judge ''"),
        ("verify --against relevance", 2, "name one new judge"),
        ("verify relevance a=coherence --against relevance", 2, "name one new judge"),
        (f"{COMPARE} --scores scores.jsonl --scores scores.jsonl", 2, "two judges are called sco"),
        (f"{COMPARE} --scores scores.jsonl", 2, "name two judges or more"),
        (f"{COMPARE} --lm embedded --lm openai/x", 2, "or a JUDGE (a run folder"),
        ("compare --lm embedded --lm openai/x", 2, "or a JUDGE (a run folder"),
        ("compare --dimension relevance --lm embedded fluency", 2, "is about 'fluency'"),
        ("compare --dimension tldr_concise --lm embedded", 2, "is about 'tldr_concise' (pairwise)"),
        ("compare --dimension relevance --lm gpt-5 --lm embedded --dry-run", 1, BARE),
    ],
)
def test_wrong_usage_is_one_line_and_writes_over_nothing(line, code, reason):
    before = content()
    result = run_line(line)
    assert (result.code, result.stdout, "Traceback" in result.stderr) == (code, "", False)
    assert reason in result.last
    assert "me:word" not in result.stderr
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
