"""People's ratings and a judge's scores of documents by systems, in files."""

from collections.abc import Sequence
from pathlib import Path

from jsonl import write_jsonl

Table = Sequence[Sequence[float | None]]


def write_ratings(path: Path | str, human: Table) -> str:
    """Write ratings on `charm`, a list of systems for each document; returns the path."""
    rows = [
        {
            "id": f"d{d}s{s}",
            "group": f"d{d}",
            "system": f"s{s}",
            "document": f"Text {d}.",
            "summary": f"Summary {s} of {d}.",
            "ratings": {"charm": rating},
        }
        for d, ratings in enumerate(human)
        for s, rating in enumerate(ratings)
    ]
    return write_jsonl(path, rows)


def write_scores(path: Path | str, judge: Table) -> str:
    """Write scores on `charm` of the same outputs; returns the path."""
    rows = [
        {"id": f"d{d}s{s}", "dimension": "charm", "score": score}
        for d, scores in enumerate(judge)
        for s, score in enumerate(scores)
    ]
    return write_jsonl(path, rows)
