"""How often 95 % intervals hold the truth: python benchmarks/coverage.py [--simulations 1000].

Every simulation draws documents anew: clustered, tied, with 5 % failed judgements. The truth is
what 20,000 such documents show (100,000 for estimates). Printed: the share of intervals that hold
it.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import test_estimate
import test_intervals

from optimize.agreement import Level, dataset_level, summary_level, system_level
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Coefficient
from optimize.statistics.difference import paired_difference

SYSTEMS = 8
LEVELS = {"dataset": dataset_level, "summary": summary_level}


def correlations(
    level: Level, coefficient: Coefficient, documents: int, simulations: int
) -> tuple[float, float]:
    """Coverage of one judge's interval, and of the paired difference between two."""
    rng = np.random.default_rng(11)
    rows = test_intervals.outputs(np.random.default_rng(1), 20_000, SYSTEMS)
    both = ~np.isnan(rows["a"] + rows["b"])
    a, b = (measure(level, coefficient, rows, judge, both) for judge in "ab")
    truth = measure(level, coefficient, rows, "a", ~np.isnan(rows["a"])), a - b
    hits = np.zeros(2)
    for _ in range(simulations):
        rows = test_intervals.outputs(rng, documents, SYSTEMS)
        system = np.tile(np.arange(SYSTEMS), documents)
        shared = {"coefficient": coefficient, "rng": rng, "resamples": 500}
        intervals = (
            alone(level, rows["a"], rows, system, shared),
            paired_difference(
                rows["a"],
                rows["b"],
                rows["human"],
                rows["document"],
                level=level,
                system=system,
                **shared,
            ).interval,
        )
        hits += [
            interval is not None and value in interval
            for value, interval in zip(truth, intervals, strict=True)
        ]
    value, gap = hits / simulations
    return float(value), float(gap)


def alone(level, judge, rows, system, shared) -> Interval | None:
    """One judge's interval."""
    if level == "system":
        return system_level(judge, rows["human"], system, rows["document"], **shared).interval
    return LEVELS[level](judge, rows["human"], rows["document"], **shared).interval


def measure(level, coefficient, rows, judge, some) -> float:
    """One judge's value on some outputs."""
    scores, human = rows[judge][some], rows["human"][some]
    if level == "system":
        system = np.tile(np.arange(SYSTEMS), rows["human"].size // SYSTEMS)[some]
        return system_level(scores, human, system, coefficient=coefficient).value
    return LEVELS[level](scores, human, rows["document"][some], coefficient=coefficient).value


def estimates(labelled: int, simulations: int) -> dict[str, float]:
    """Coverage of each kind of corrected estimate."""
    shares = {}
    for of in test_estimate.ESTIMATES:
        rng = np.random.default_rng(12)
        everything = test_estimate.pool(np.random.default_rng(1), 100_000, 100_000)
        truth = of(everything).labels_only
        found = [of(test_estimate.pool(rng, 200, labelled)) for _ in range(simulations)]
        held = [one.interval is not None and truth in one.interval for one in found]
        shares[of.__name__.removeprefix("of_")] = float(np.mean(held))
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    simulations = parser.parse_args().simulations
    start = time.perf_counter()
    print(f"{'level':9}{'coefficient':12}{'documents':>10}{'interval':>10}{'difference':>12}")
    for level in ("dataset", "summary", "system"):
        for coefficient in ("spearman", "pearson", "kendall"):
            for documents in (20, 30, 60, 100):
                alone, gap = correlations(level, coefficient, documents, simulations)
                print(f"{level:9}{coefficient:12}{documents:>10}{alone:>10.1%}{gap:>12.1%}")
    print(f"\n{'labelled documents':20}" + "".join(f"{k:>12}" for k in estimates(20, 2)))
    for labelled in (20, 30, 50, 100):
        shares = estimates(labelled, simulations).values()
        print(f"{labelled:<20}" + "".join(f"{share:>12.1%}" for share in shares))
    print(f"\n{simulations} simulations each, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
