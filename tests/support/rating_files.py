"""People's ratings and a judge's scores of documents by systems: items, rows and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from files import write_jsonl

from optimize.items import Item, Items

Table = Sequence[Sequence[float | None]]


def rated_items(human: Sequence[Sequence[float]]) -> Items:
    """Items of these labels, a list of systems for each document."""
    return Items(
        tuple(
            Item(id=f"{d}-{s}", document_id=f"d{d:03}", system=f"s{s}", texts={}, human=label)
            for d, labels in enumerate(human)
            for s, label in enumerate(labels)
        )
    )


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


def score_flags(**scores_by_judge: Table) -> list[str]:
    """Flags for recorded judges of `charm`, each in a file of its name."""
    paths = [write_scores(f"{name}.jsonl", scores) for name, scores in scores_by_judge.items()]
    return [word for path in paths for word in ("--scores", path)]


def rating_flags(people: Table, **scores_by_judge: Table) -> list[str]:
    """Flags for people's ratings on `charm`, and for recorded judges."""
    data = ["--dimension", "charm", "--data", write_ratings("labels.jsonl", people)]
    return [*data, *score_flags(**scores_by_judge)]


def verdict_flags(
    people: Sequence[float] | None,
    *,
    outputs_per_document: int = 1,
    **scores_by_judge: Sequence[float | None],
) -> list[str]:
    """Flags for recorded judges of pass (1) or fail (0), and for people's labels, if there are."""
    n_outputs = len(next(iter(scores_by_judge.values())))
    rows: list[dict[str, object]] = [
        {"id": f"r{n}", "group": f"d{n // outputs_per_document}", "output": f"Because {n}."}
        for n in range(n_outputs)
    ]
    for row, label in zip(rows, people or (), strict=bool(people)):
        row["safe"] = label
    flags = ["--dimension", "safe", "--data", write_jsonl("rows.jsonl", rows)]
    for name, scores in scores_by_judge.items():
        records = [{"id": f"r{n}", "score": score} for n, score in enumerate(scores)]
        flags += ["--scores", write_jsonl(f"{name}.jsonl", records)]
    return flags


def weather_rows(
    documents: int,
    systems: int,
    dimension: str = "relevance",
    texts: tuple[str, str] = ("document", "summary"),
) -> list[dict[str, Any]]:
    """Rows of a small label file, rated 1 to 3 in turn; the texts go by these names."""
    source, output = texts
    return [
        {
            "id": f"d{d}s{s}",
            "group": f"d{d}",
            "system": f"s{s}",
            source: f"Talk number {d}, on the weather in town {d}.",
            output: f"Reply {s}. " + "It rained, and then it cleared up. " * s,
            dimension: 1 + (s + d) % 3,
        }
        for d in range(documents)
        for s in range(systems)
    ]
