"""How often 95 % intervals contain the truth: python benchmarks/interval_coverage.py.

`--only systems` prints differences of systems, means of the given outputs, and how many pairs of
SummEval's systems they tell apart; `--only intervals` all other intervals.

Every simulation draws documents anew (at system level systems, too): clustered, tied, three
annotators, 5 % failed judgements. The truth is the figure on very many. Printed is the share of
intervals that contain the truth, of those that are not withheld: * is outside 93-97 %, "none" where
more than nine of ten are withheld.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from summeval import MODELS, labelled, recorded

from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level, correlation, system_level
from optimize.statistics.human import one_annotator
from optimize.statistics.intervals import Interval, Matrix, Vector
from optimize.statistics.mean_estimates import MeanEstimate, estimate_mean, system_differences
from optimize.statistics.plain_agreement import (
    compare_scales,
    contrast_pair_accuracy,
    pairwise_accuracy,
    preference_accuracy,
)
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import verdict_agreement

Figures = Mapping[str, tuple[float, Interval | None]]
Cuts = tuple[float, ...]
# Where the ratings of a scale begin, of a quality that is about normal.
EVEN, MOSTLY_5 = (-1.3, -0.5, 0.5, 1.3), (-2.2, -1.9, -1.5, -0.8)
MOST_PASS = (-1.28,)
# Judges a and b, what each annotator gave and their mean, document and system.
Rows = tuple[Vector, Vector, Matrix, Vector, Vector, Vector]


def draw_rows(
    rng: np.random.Generator, cuts: Cuts, documents: int, outputs: int, spread: float = 0.0
) -> Rows:
    """So many outputs of each document, each by another system; `spread` is that of systems."""
    document, system = np.repeat(np.arange(documents), outputs), np.tile(range(outputs), documents)
    n = document.size
    better, favoured = spread * rng.normal(size=(2, outputs))[:, system]
    level, taste = 0.5 * rng.normal(size=(2, documents))[:, document]
    quality = better + level + 0.75 * rng.normal(size=n)

    def rated(noise: float, shift: Vector | float = 0.0) -> Vector:
        return 1.0 + np.searchsorted(cuts, quality + shift + noise * rng.normal(size=n))

    a, b = rated(0.4, taste + favoured / 2), rated(1.0, 0.2)
    ratings = np.stack([rated(0.5) for _ in range(3)], axis=1)
    for judge in (a, b):
        judge[rng.random(n) < 0.05] = np.nan
    return a, b, ratings, ratings.mean(axis=1).round(9), document, system


def document_figures(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """Every figure of `n` documents that has an interval."""
    a, b, ratings, human, document, _ = draw_rows(rng, cuts, n, outputs)
    estimates: dict[str, Any] = {}
    levels: tuple[Level, ...] = ("summary", "dataset")
    for level in levels if outputs > 1 else levels[1:]:
        for name, judge in (("a", a), ("b", b)):
            estimates[f"{level} rho of {name}"] = correlation(level, judge, human, document)
        gap = contrast_judges(a, b, human, document, level=level)
        estimates[f"{level} rho, a less b"] = gap
        estimates[f"{level} pairs ordered alike"] = pairwise_accuracy(
            scored_rows(a, human, document), level=level
        )
        people = one_annotator(a, ratings, document, level=level)
        if people:
            estimates[f"{level} one annotator"] = people.annotator
            estimates[f"{level} judge less annotator"] = people.gap
    shift = compare_scales(scored_rows(a, human, document))
    if shift:
        estimates["mean less people's"] = shift.shift, shift.shift_interval
    return values_and_intervals(estimates)


def verdict_figures(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """Rates of a judge that passes or fails so many outputs of each document."""
    judge, _, ratings, _, document, _ = draw_rows(rng, cuts, n, outputs)
    card = verdict_agreement(scored_rows(judge - 1, ratings[:, 0] - 1, document))
    rates = ("tpr", "tnr", "balanced_accuracy", "kappa")
    return values_and_intervals({name: getattr(card, name) for name in rates})


def pair_figures(cuts: Cuts, rng: np.random.Generator, n: int) -> Figures:
    """Accuracy on three pairs of each document."""
    a, b, _, human, document, _ = draw_rows(rng, cuts, n, 6)
    a, b, human = (side[::2] - side[1::2] for side in (a, b, human))
    document = document[::2]
    estimates = {
        "accuracy": preference_accuracy(scored_rows(a, human, document)),
        "accuracy, a less b": contrast_pair_accuracy(a, b, human, document),
    }
    return values_and_intervals(estimates)


def system_figures(documents: int, rng: np.random.Generator, n: int) -> Figures:
    """Figures of `n` systems."""
    a, b, _, human, document, system = draw_rows(rng, EVEN, documents, n, spread=0.4)
    gap = contrast_judges(a, b, human, document, system, level="system")
    estimates = {"rho of a": system_level(a, human, system, document), "rho, a less b": gap}
    return values_and_intervals(estimates)


def difference_figures(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """System b less a, and means of the given outputs (less their truth); `n` of 120 labelled.

    Either system gives so many outputs of a document. Those of a are the worse of two.
    """
    documents = max(n, 120)
    _, b, ratings, _, document, _ = draw_rows(rng, cuts, documents, 3 * outputs)
    triples = np.stack([b, ratings[:, 0]]).reshape(2, -1, 3)
    two = np.stack([triples[:, :, 1:].min(axis=2), triples[:, :, 0]], axis=2).reshape(2, -1)
    scores, human, document = *two, np.repeat(document[::3], 2)
    system, weight = np.tile(["a", "b"], document.size // 2), np.ones(document.size)
    some = np.where(np.isin(document, rng.choice(documents, n, replace=False)), human, np.nan)
    scale: dict[str, Any] = {"bounds": (1.0, 1.0 + len(cuts))}
    places = (scores, document, system)
    gap, all_known = (
        system_differences(("b", "a"), labels, *places, weight=weight, **scale)[0].estimate
        for labels in (some, human)
    )
    mean, truth = estimate_mean(some, scores, document, **scale), human[~np.isnan(scores)].mean()

    def error_on_given(estimate: MeanEstimate, truth: float) -> tuple[float, Interval | None]:
        ends = estimate.given_interval
        return estimate.value - truth, ends and Interval(ends.low - truth, ends.high - truth)

    estimates = {
        "b less a, of outputs like these": gap,
        "b less a, of the given ones": error_on_given(gap, all_known.value),
        "mean of the given ones": error_on_given(mean, truth),
        "mean of outputs like these": mean,
    }
    return values_and_intervals(estimates)


def print_separated_pairs(draws: int) -> None:
    """Print the shares of pairs of SummEval's systems told apart on 40 of 100 documents."""
    rows = labelled("relevance")
    document, system = rows["group"].to_numpy(), rows["system"].to_numpy()
    human, weight, names = rows["human"].to_numpy(), np.ones(len(rows)), np.unique(system).tolist()
    truth = {name: human[system == name].mean() for name in names}
    for model in MODELS:
        scores = rows["id"].map(recorded(model)["relevance"]).to_numpy()
        rng, counts = np.random.default_rng(5), []
        for _ in range(draws):
            chosen = rng.choice(np.unique(document), 40, replace=False)
            some = np.where(np.isin(document, chosen), human, np.nan)
            sides, scale = (some, scores, document), {"bounds": (1.0, 5.0)}
            means = {
                n: estimate_mean(*(side[system == n] for side in sides), **scale) for n in names
            }
            for each in system_differences(names, *sides, system, weight=weight, **scale):
                figure, gap = each.estimate, truth[each.system] - truth[each.subtracted_system]
                pair = each.system, each.subtracted_system
                one, other = (means[name].interval for name in pair)
                given = figure.given_interval
                intervals = figure.interval, figure.labels_only.interval, each.simultaneous_interval
                apart = [0 not in interval for interval in (*intervals, given)]
                overlap = max(one.low, other.low) <= min(one.high, other.high)
                counts.append([apart[0], not overlap, *apart[1:], gap in given])
        print(f"  {model:<16}", *(f"{share:.3f}" for share in np.mean(counts, axis=0)), flush=True)


def values_and_intervals(estimates: Mapping[str, Any]) -> Figures:
    """The value and interval of each."""
    return {n: f if isinstance(f, tuple) else (f.value, f.interval) for n, f in estimates.items()}


Draws = Callable[[np.random.Generator, int], Figures]


def coverage_hits(
    figures: Draws, truth: Figures, size: int, simulations: int
) -> dict[str, list[bool]]:
    """Whether the truth is in each interval that is not withheld, by figure."""
    rng = np.random.default_rng((2, size))
    hits: dict[str, list[bool]] = {name: [] for name in truth}
    for _ in range(simulations):
        for name, (_, interval) in figures(rng, size).items():
            if interval is not None:
                low, high = interval.low - 1e-9, interval.high + 1e-9
                hits[name].append(low <= truth[name][0] <= high)
    return hits


def print_table(
    title: str, figures: Draws, sizes: Sequence[int], many: int, simulations: int
) -> None:
    """The coverage of each figure, a column a size; the truth is the figure at size `many`."""
    print(title)
    truth = figures(np.random.default_rng(1), many)
    texts: dict[str, list[str]] = {name: [] for name in truth}
    for size in sizes:
        for name, held in coverage_hits(figures, truth, size, simulations).items():
            share = float(np.mean(held or [0]))
            text = f"{share:.3f}{' ' if 0.93 <= share <= 0.97 else '*'}"
            texts[name].append(text if len(held) >= simulations / 10 else " none ")
    for name, columns in texts.items():
        print(f"  {name:<31}", *columns, flush=True)


def all_tables() -> Iterator[tuple[str, str, Any, Sequence[int], int]]:
    """Of each table what --only names, the title, the figures, the sizes and the size of truth."""
    scales = {"1 to 5": EVEN, "mostly 5": MOSTLY_5, "90 % pass": MOST_PASS}
    for (name, cuts), outputs in product(scales.items(), (1, 3)):
        title = f"{name}, {outputs} outputs by each system; 30, 60, 100 of 120 labelled"
        yield "systems", title, partial(difference_figures, cuts, outputs), (30, 60, 100), 100_000
    for (name, cuts), outputs in product(scales.items(), (4, 1)):
        title = f"{name}, {outputs} outputs a document; 15, 30, 100 documents"
        yield "intervals", title, partial(document_figures, cuts, outputs), (15, 30, 100), 20_000
    for outputs in (4, 1):
        title = f"90 % pass, {outputs} outputs a document; 60, 120, 400 documents"
        of = partial(verdict_figures, MOST_PASS, outputs)
        yield "intervals", title, of, (60, 120, 400), 100_000
    of = partial(pair_figures, EVEN)
    yield "intervals", "pairs, three a document", of, (15, 30, 100), 20_000
    for n in (15, 100):
        title = f"15, 30, 100 systems on {n} documents"
        yield "intervals", title, partial(system_figures, n), (15, 30, 100), 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--only", choices=("intervals", "systems"))
    flags = parser.parse_args()
    for kind, *table in all_tables():
        if flags.only in (None, kind):
            print_table(*table, flags.simulations)
    if flags.only in (None, "systems"):
        print("told apart: paired, two intervals, labels alone, all together, given; coverage")
        print_separated_pairs(flags.simulations // 10)


if __name__ == "__main__":
    main()
