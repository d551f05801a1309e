"""A folder with tables to judge, and what the local server says of their rows: a plugin."""

from pathlib import Path

import pytest
from behaving_model import rate
from files import csv_of, file_of, write_jsonl
from openai_replies import follow
from openai_server import OpenAIServer

import judges

LM = ("--lm", "openai/judge-1")


@pytest.fixture
def table_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a table of 6 rows in it, as JSONL and as CSV."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(i), "document": f"d{i}", "summary": f"s{i}"} for i in range(6)]
    write_jsonl("in.jsonl", rows)
    file_of(csv_of([*rows[0]], *(row.values() for row in rows)), "in.csv")
    return tmp_path


@pytest.fixture
def pairs(table_folder: Path, openai_server: OpenAIServer) -> str:
    """A file of six pairs, of which A is the good one, which the server prefers."""
    openai_server.judge = lambda body: rate(body["messages"][-1]["content"])
    rows = [
        {"id": i, "prompt": f"p{i // 2}", "response_a": "good", "response_b": f"bad{'!' * i}"}
        for i in range(6)
    ]
    write_jsonl("pairs.jsonl", rows)
    return "pairs.jsonl"


def score_of(name: str, i: int) -> float:
    """What the local server says of the table's row."""
    judge = judges.load(name)
    texts = {text: f"{text[0]}{i}" for text in judge.texts}
    return float(follow({"messages": judge.prompt.messages(texts)}))
