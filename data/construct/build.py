"""Build the starter set's rows: every system's output for every document, and the pairs."""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from data.construct.compose import Summary, compose, text
from data.construct.documents import STARTER, Source, read_sources
from data.construct.pairs import choose, preferred, votes
from data.construct.rate import ratings
from data.construct.systems import SYSTEMS

SEED = 20
Row = dict[str, object]


def summarize(source: Source, seed: int = SEED) -> dict[str, Summary]:
    """Every system's summary of one document; no two are alike."""
    summaries: dict[str, Summary] = {}
    for system, profile in SYSTEMS.items():
        rng = random.Random(f"{seed}/{source.id}/{system}")
        summary = compose(source, profile, rng)
        while text(summary) in map(text, summaries.values()):
            summary = compose(source, profile, rng)
        summaries[system] = summary
    return summaries


def output_rows(sources: Iterable[Source]) -> list[Row]:
    return [
        {
            "id": f"{source.id}/{system}",
            "group": source.id,
            "system": system,
            "kind": source.kind,
            "document": source.document,
            "summary": text(summary),
            "ratings": ratings(source, summary),
        }
        for source in sources
        for system, summary in summarize(source).items()
    ]


def pair_rows(sources: Iterable[Source]) -> list[Row]:
    return [row for source in sources for row in _pairs(source, summarize(source))]


def _pairs(source: Source, summaries: Mapping[str, Summary]) -> Iterable[Row]:
    rng = random.Random(f"{SEED}/{source.id}/pairs")
    for a, b in choose(source, summaries, rng):
        cast = votes(source, summaries[a], summaries[b])
        yield {
            "id": f"{source.id}/{a}-{b}",
            "group": source.id,
            "post": source.document,
            "summary_a": text(summaries[a]),
            "summary_b": text(summaries[b]),
            "system_a": a,
            "system_b": b,
            "preferred": preferred(cast),
            "votes": list(cast),
        }


def files() -> dict[Path, str]:
    """The files that ship, and what belongs in them."""
    sources = read_sources()
    return {
        STARTER / "outputs.jsonl": _lines(output_rows(sources)),
        STARTER / "pairs.jsonl": _lines(pair_rows(sources)),
    }


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
