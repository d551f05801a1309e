"""The code on docs/engines.md, which tests run as it stands."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
from openai_server import OpenAIServer

import judges
from judges.scoring import ONE_REPLY_PLAN

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
LM = "openai/gpt-4.1-mini"
ROWS: list[dict[str, Any]] = [
    {"id": i, "document": f"Room {i} is closed.", "summary": f"It is room {i}."} for i in range(40)
]
ROWS[7] = {"id": 7, "document": "Nothing to judge.", "summary": None}


def code_under(heading: str) -> str:
    """The Python of a section, down to the next heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"# {heading}\n")[2]
    blocks = re.findall(r"```python\n(.*?)```", re.split(r"^##", section, flags=re.M)[0], re.S)
    assert blocks, heading
    return "".join(blocks)


def prepare(server: OpenAIServer, judge: judges.Judge | None = None) -> list[dict[str, Any]]:
    """Write the judge and the rows that the page names; returns the judgements of our client."""
    server.models = ("gpt-4.1-mini",)
    judge = judge or judges.load("relevance", lm=LM).with_plan(ONE_REPLY_PLAN)
    Path("runs/relevance-001").mkdir(parents=True)
    judge.save("runs/relevance-001/judge.json")
    pd.DataFrame(ROWS).to_parquet("rows.parquet")
    results = [(each.score, each.failure) for each in judge.judge_all(ROWS)]
    server.log.clear()
    return [
        {"id": row["id"], "score": None if failure else score, "failure": failure}
        for row, (score, failure) in zip(ROWS, results, strict=True)
    ]


def in_order(path: str) -> list[dict[str, Any]]:
    """What was written, in the order of the rows."""
    frame = pd.read_parquet(path).sort_values("id")
    columns = zip(frame["id"], frame["relevance"], frame["relevance_failure"], strict=True)
    return [
        {"id": n, "score": None if pd.isna(s) else s, "failure": None if pd.isna(f) else f}
        for n, s, f in columns
    ]
