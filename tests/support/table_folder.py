"""A folder with tables to judge, and a scripted model that judges them: a plugin."""

import csv
import json
from pathlib import Path

import pytest
from jsonl import write_jsonl
from scripted_model import Scripted, rating_of

import judges


@pytest.fixture
def table_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a table of 6 rows in it, as JSONL and as CSV."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(i), "document": f"d{i}", "summary": f"s{i}"} for i in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path("in.jsonl").write_text(lines, encoding="utf-8")
    with Path("in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What every model's name opens."""
    model = Scripted()
    monkeypatch.setattr("judges.client.session.open_model", lambda lm, api_base=None: model)
    return model


@pytest.fixture
def pairs(table_folder: Path) -> str:
    """A file of six pairs, of which A is the good one."""
    rows = [
        {"id": i, "prompt": f"p{i // 2}", "response_a": "good", "response_b": f"bad{'!' * i}"}
        for i in range(6)
    ]
    write_jsonl("pairs.jsonl", rows)
    return "pairs.jsonl"


def wanted(name: str, i: int) -> float:
    """What the scripted model says of the table's row."""
    judge = judges.load(name)
    texts = {text: f"{text[0]}{i}" for text in judge.texts}
    return float(rating_of(judge.prompt.messages(texts)[-1]["content"]))
