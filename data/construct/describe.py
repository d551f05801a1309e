"""Count the starter set, and show how its constructed ratings are spread."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from statistics import fmean

from scipy.stats import spearmanr

from data.construct.build import Row, output_rows, pair_rows
from data.construct.documents import KINDS, read_sources
from data.construct.systems import SYSTEMS

DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
Measure = Callable[[Row], float]


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
        marks = row["ratings"]
        assert isinstance(marks, dict)
        return float(marks[dimension])

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
        marks = [rating(dimension)(row) for row in outputs]
        bins = Counter(int(mark) for mark in marks)
        rho = within_documents(outputs, rating(dimension), n_words)
        counts = "".join(f"{bins[mark]:6}" for mark in range(1, 6))
        yield f"{dimension:12} {fmean(marks):6.2f}{counts} {rho:+17.2f}"
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
