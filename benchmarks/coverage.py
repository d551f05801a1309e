"""How often 95 % intervals hold the truth: python benchmarks/coverage.py [--simulations 1000].

Every simulation draws documents anew: clustered, tied, with 5 % failed judgements; at system level
it draws the systems, too. The truth is what 20,000 such documents show (100,000 for estimates), at
system level 4,000 systems on 2,000 documents. "These" are system-level intervals for a given set
of systems, whose truth is what 2,000 documents show of them: ten sets take turns.
Printed: the share of intervals that hold the truth; * where it is not within 93-97 %.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import test_estimate
import test_intervals
import test_system_intervals as across

from optimize.statistics.agreement import dataset_level, summary_level, system_level
from optimize.statistics.coefficients import Coefficient, correlate
from optimize.statistics.difference import paired_difference
from optimize.statistics.levels import Level

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "pearson", "kendall")
SYSTEMS = 8
SETS = 10
LEVELS = {"dataset": dataset_level, "summary": summary_level}
Line = tuple[str, str, int, int, list[float]]


def within(level: Level, coefficient: Coefficient, documents: int, simulations: int) -> list[float]:
    """Coverage of one judge's interval, and of the paired difference between two."""
    rng = np.random.default_rng(11)
    rows = test_intervals.outputs(np.random.default_rng(1), 20_000, SYSTEMS)
    both = ~np.isnan(rows["a"] + rows["b"])
    a, b = (measure(level, coefficient, rows, judge, both) for judge in "ab")
    truth = measure(level, coefficient, rows, "a", ~np.isnan(rows["a"])), a - b
    hits = np.zeros(2)
    shared = {"coefficient": coefficient, "rng": rng, "resamples": 500}
    for _ in range(simulations):
        rows = test_intervals.outputs(rng, documents, SYSTEMS)
        human, document = rows["human"], rows["document"]
        alone = LEVELS[level](rows["a"], human, document, **shared).interval
        gap = paired_difference(rows["a"], rows["b"], human, document, level=level, **shared)
        hits += held((alone, gap.interval), truth)
    return list(hits / simulations)


def measure(level, coefficient, rows, judge, some) -> float:
    """One judge's value on some outputs."""
    scores, human = rows[judge][some], rows["human"][some]
    return LEVELS[level](scores, human, rows["document"][some], coefficient=coefficient).value


def among_systems(
    coefficient: Coefficient, systems: int, documents: int, simulations: int
) -> list[float]:
    """The same at system level, where systems are drawn as well."""
    rng = np.random.default_rng(11)
    a, b = across.truth(coefficient)
    hits = np.zeros(2)
    for _ in range(simulations):
        rows = across.answers(rng, across.systems(rng, systems), documents)
        hits += held(across.measured(rows, coefficient, rng, resamples=500), (a, a - b))
    return list(hits / simulations)


def these_systems(
    coefficient: Coefficient, systems: int, documents: int, simulations: int
) -> list[float]:
    """The same of intervals for given systems."""
    rng = np.random.default_rng(11)
    sets = [across.systems(rng, systems) for _ in range(SETS)]
    truths = []
    for of in sets:
        judge, human = across.means(across.answers(rng, of, 2000), "a", systems)
        truths.append(float(correlate(judge[None], human[None], coefficient)[0]))
    hits = 0
    for turn in range(simulations):
        rows = across.answers(rng, sets[turn % SETS], documents)
        estimate = system_level(
            rows["a"],
            rows["human"],
            rows["system"],
            rows["document"],
            coefficient=coefficient,
            draw_systems=False,
            rng=rng,
            resamples=500,
        )
        hits += held((estimate.interval,), (truths[turn % SETS],))[0]
    return [hits / simulations]


def held(intervals, truths) -> list[bool]:
    """Which intervals exist and hold the truth; rounding may not keep a truth of 1 out."""
    return [
        interval is not None and interval.low - 1e-9 <= truth <= interval.high + 1e-9
        for interval, truth in zip(intervals, truths, strict=True)
    ]


def correlations(simulations: int) -> Iterator[Line]:
    """Each level, coefficient and size."""
    for level in ("dataset", "summary"):
        for coefficient in COEFFICIENTS:
            for documents in (20, 30, 60, 100):
                shares = within(level, coefficient, documents, simulations)
                yield level, coefficient, SYSTEMS, documents, shares
    for name, coverage in (("system", among_systems), ("these", these_systems)):
        for coefficient in COEFFICIENTS:
            for systems in (8, 16, 32):
                for documents in (20, 100):
                    shares = coverage(coefficient, systems, documents, simulations)
                    yield name, coefficient, systems, documents, shares


def estimates(labelled: int, simulations: int) -> dict[str, float]:
    """Coverage of each kind of corrected estimate."""
    shares = {}
    for of in test_estimate.ESTIMATES:
        rng = np.random.default_rng(12)
        everything = test_estimate.pool(np.random.default_rng(1), 100_000, 100_000)
        truth = of(everything).labels_only
        estimates = [of(test_estimate.pool(rng, 200, labelled)) for _ in range(simulations)]
        held_it = [
            estimate.interval is not None and truth in estimate.interval for estimate in estimates
        ]
        shares[of.__name__.removeprefix("of_")] = float(np.mean(held_it))
    return shares


def share_text(share: float) -> str:
    """A share, marked where it is outside what is promised."""
    return f"{share:.1%}{' ' if 0.93 <= share <= 0.97 else '*'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    simulations = parser.parse_args().simulations
    start = time.perf_counter()
    print(
        f"{'level':9}{'coefficient':12}{'systems':>8}{'documents':>10}{'interval':>11}{'gap':>11}"
    )
    for level, coefficient, systems, documents, shares in correlations(simulations):
        columns = "".join(f"{share_text(share):>11}" for share in shares)
        print(f"{level:9}{coefficient:12}{systems:>8}{documents:>10}{columns}", flush=True)
    print(f"\n{'labelled documents':20}" + "".join(f"{k:>12}" for k in estimates(20, 2)))
    for labelled in (20, 30, 50, 100):
        shares = estimates(labelled, simulations).values()
        print(f"{labelled:<20}" + "".join(f"{share_text(share):>12}" for share in shares))
    print(f"\n{simulations} simulations each, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
