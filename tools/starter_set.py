"""Build, check or describe the starter set: every system's output for every document, and pairs.

A part of it has no labels, for a first try at giving some.

The ratings and votes are computed from known faults; `data/starter/README.md` explains them.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from scipy.stats import spearmanr
from starter.compose import Summary, compose, text
from starter.documents import KINDS, STARTER, Source, read_sources
from starter.rate import choose, preferred, ratings, votes
from starter.systems import SYSTEMS

SEED = 20
# In the set without labels: every third document, and three systems under names that tell nothing.
UNLABELLED = {"north": "mixed", "east": "careful", "west": "inventive"}
N_UNLABELLED = 10
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
Row = dict[str, object]
Measure = Callable[[Row], float]


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


def unlabelled_rows(sources: Sequence[Source]) -> list[Row]:
    rows = []
    for number, source in enumerate(sources[::3][:N_UNLABELLED], start=1):
        summaries = summarize(source)
        for name, system in UNLABELLED.items():
            texts = {"document": source.document, "summary": text(summaries[system])}
            rows.append({"id": f"{number}-{name}", "group": str(number), "system": name, **texts})
    return rows


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
        STARTER / "unlabelled.jsonl": _lines(unlabelled_rows(sources)),
    }


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def describe() -> str:
    """The tables that the starter README shows."""
    sources = read_sources()
    outputs, pairs = output_rows(sources), pair_rows(sources)
    return "\n".join([*_counts(outputs, pairs), "", *_spread(outputs), "", *_systems(outputs)])


def within_documents(rows: Sequence[Row], one: Measure, other: Measure) -> float:
    """Mean over documents of Spearman's rho across outputs; constant documents are left out."""
    rhos = []
    for document in dict.fromkeys(row["group"] for row in rows):
        group = [row for row in rows if row["group"] == document]
        x, y = [one(row) for row in group], [other(row) for row in group]
        if len(set(x)) > 1 and len(set(y)) > 1:
            rhos.append(float(spearmanr(x, y).statistic))
    return fmean(rhos)


def rating(dimension: str) -> Measure:
    def measure(row: Row) -> float:
        ratings_of_row = row["ratings"]
        assert isinstance(ratings_of_row, dict)
        return float(ratings_of_row[dimension])

    return measure


def n_words(row: Row) -> float:
    return float(len(str(row["summary"]).split()))


def longer_preferred(pairs: Sequence[Row]) -> float:
    """The share of decided pairs in which the longer summary is preferred."""
    decided = [row for row in pairs if row["preferred"] != "tie"]
    wins = [(_length(row, "a") > _length(row, "b")) == (row["preferred"] == "A") for row in decided]
    return fmean(wins)


def _length(row: Row, side: str) -> int:
    return len(str(row[f"summary_{side}"]).split())


def _counts(outputs: Sequence[Row], pairs: Sequence[Row]) -> Iterator[str]:
    documents = {str(row["group"]): str(row["kind"]) for row in outputs}
    kinds = Counter(documents.values())
    verdicts = Counter(str(row["preferred"]) for row in pairs)
    yield f"documents {len(documents)}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS)
    yield f"outputs   {len(outputs)}: {len(SYSTEMS)} systems"
    yield f"pairs     {len(pairs)}: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items()))
    yield f"          the longer summary is preferred in {longer_preferred(pairs):.0%}"


def _spread(outputs: Sequence[Row]) -> Iterator[str]:
    yield f"{'ratings':12}   mean  1-1¾  2-2¾  3-3¾  4-4¾     5   rho with length"
    for dimension in DIMENSIONS:
        values = [rating(dimension)(row) for row in outputs]
        bins = Counter(int(value) for value in values)
        rho = within_documents(outputs, rating(dimension), n_words)
        counts = "".join(f"{bins[value]:6}" for value in range(1, 6))
        yield f"{dimension:12} {fmean(values):6.2f}{counts} {rho:+17.2f}"
    yield "rho between dimensions, within documents:"
    for one, other in combinations(DIMENSIONS, 2):
        yield f"  {one}, {other} {within_documents(outputs, rating(one), rating(other)):+.2f}"


def _systems(outputs: Sequence[Row]) -> Iterator[str]:
    yield f"{'system':10} words  " + "  ".join(DIMENSIONS)
    for system in SYSTEMS:
        rows = [row for row in outputs if row["system"] == system]
        means = [fmean(map(rating(dimension), rows)) for dimension in DIMENSIONS]
        cells = (f"{m:{len(d)}.2f}" for m, d in zip(means, DIMENSIONS, strict=True))
        yield f"{system:10} {fmean(map(n_words, rows)):5.0f}  " + "  ".join(cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tools/starter_set.py",
        description="Check that the starter set's files are what its documents and faults make.",
    )
    parser.add_argument("--write", action="store_true", help="write the files instead")
    parser.add_argument("--describe", action="store_true", help="print counts and distributions")
    options = parser.parse_args(arguments)
    if options.describe:
        print(describe())
        return 0
    return _write() if options.write else _check()


def _write() -> int:
    for path, content in files().items():
        path.write_text(content, encoding="utf-8", newline="\n")
        print(f"{path}: {content.count(chr(10))} lines")
    return 0


def _check() -> int:
    for path, content in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            print(f"{path} is not what is built; --write writes it anew", file=sys.stderr)
            return 1
        print(f"{path}: as built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
