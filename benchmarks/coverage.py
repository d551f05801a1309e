"""How often 95 % intervals hold the truth: python benchmarks/coverage.py [--simulations 1000].

Every simulation draws documents anew: clustered, tied, with 5 % failed judgements; at system level
it draws the systems, too. The truth is what 20,000 such documents show (100,000 for estimates), at
system level 4,000 systems on 2,000 documents. Printed: the share of intervals that hold the truth;
* where it is not within 93-97 %.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "optimize"))

import simulated_systems as across
import test_estimate
import test_intervals

import optimize

LEVELS = {"dataset": optimize.dataset_level, "summary": optimize.summary_level}
Rows = Mapping[str, np.ndarray]


def measured(rows: Rows, level: str, **shared: Any) -> tuple[Any, Any]:
    """One judge's correlation, and the paired difference between two."""
    a, b, human, document = (rows[name] for name in ("a", "b", "human", "document"))
    systems = {"system": rows["system"]} if level == "system" else {}
    gap = optimize.paired_difference(a, b, human, document, level=level, **systems, **shared)
    if level == "system":
        return optimize.system_level(a, human, rows["system"], document, **shared), gap
    return LEVELS[level](a, human, document, **shared), gap


def within(level: str, coefficient: str, documents: int, simulations: int) -> np.ndarray:
    """Coverage of one judge's interval and of the difference, with eight given systems."""
    rng = np.random.default_rng(11)
    rows = test_intervals.outputs(np.random.default_rng(1), 20_000)
    both = ~np.isnan(rows["a"] + rows["b"])
    few = {"coefficient": coefficient, "rng": rng, "resamples": 2}
    known = {name: values[both] for name, values in rows.items()}
    truths = measured(rows, level, **few)[0].value, measured(known, level, **few)[1].value
    draws = (test_intervals.outputs(rng, documents) for _ in range(simulations))
    return held(draws, level, truths, coefficient=coefficient, rng=rng)


def among_systems(coefficient: str, systems: int, documents: int, simulations: int) -> np.ndarray:
    """The same at system level, where systems are drawn as well."""
    rng = np.random.default_rng(11)
    a, b = across.truth(coefficient)
    draws = (
        across.answers(rng, across.systems(rng, systems), documents) for _ in range(simulations)
    )
    return held(draws, "system", (a, a - b), coefficient=coefficient, rng=rng)


def held(
    draws: Iterator[Rows], level: str, truths: tuple[float, float], **shared: Any
) -> np.ndarray:
    """The shares of intervals that exist and hold the truth; rounding keeps no truth of 1 out."""
    hits = []
    for rows in draws:
        intervals = [one.interval for one in measured(rows, level, resamples=500, **shared)]
        hits.append(
            [
                one is not None and one.low - 1e-9 <= truth <= one.high + 1e-9
                for one, truth in zip(intervals, truths, strict=True)
            ]
        )
    return np.mean(hits, axis=0)


def estimates(labelled: int, simulations: int) -> Iterator[tuple[str, float]]:
    """Coverage of each kind of corrected estimate."""
    for of in test_estimate.ESTIMATES:
        rng = np.random.default_rng(12)
        everything = test_estimate.pool(np.random.default_rng(1), 100_000, 100_000)
        truth = of(everything).labels_only
        intervals = [
            of(test_estimate.pool(rng, 200, labelled)).interval for _ in range(simulations)
        ]
        share = np.mean([one is not None and truth in one for one in intervals])
        yield of.__name__.removeprefix("of_"), float(share)


def share_text(share: float) -> str:
    return f"{share:.1%}{' ' if 0.93 <= share <= 0.97 else '*'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    simulations = parser.parse_args().simulations
    print("level, coefficient, systems, documents: interval, difference")
    for coefficient in ("spearman", "pearson", "kendall"):
        for level in LEVELS:
            for documents in (20, 30, 60, 100):
                shares = within(level, coefficient, documents, simulations)
                print(level, coefficient, 8, documents, *map(share_text, shares), flush=True)
        for systems in (8, 16, 32):
            for documents in (20, 100):
                shares = among_systems(coefficient, systems, documents, simulations)
                print("system", coefficient, systems, documents, *map(share_text, shares))
    for labelled in (20, 30, 50, 100):
        found = (f"{name} {share_text(share)}" for name, share in estimates(labelled, simulations))
        print(f"estimates, {labelled} labelled documents:", *found, flush=True)


if __name__ == "__main__":
    main()
