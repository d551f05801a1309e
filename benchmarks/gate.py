"""What the gate ships: python benchmarks/gate.py [--simulations 2000] [--risk .1].

The first table has judges that are equally good, so that `shipped` is nominally the risk: either
half of the labels has a judge of its own, as after a search on the other half. All judges see the
truth with noise of one size, some of it a document's own. The second has judges that gain .05 or
.10 rho at summary level, and in brackets what `power` promises. The third has labels of two values,
one or four outputs a document: equal judges, and a tuned one whose balanced accuracy is higher by
.05 or .10. Nothing is asked of a model.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.special import ndtri

from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import objective
from optimize.search.gate import RISK, Finalist, power, verdict
from optimize.statistics.correlations import Level

DOCUMENTS = (12, 30, 60, 240)
LABELLED = (12, 24, 40, 60, 120)
# Of labelled documents so many are train and dev.
DECIDING_SHARE = 0.75


def split(human: np.ndarray, first: int) -> Items:
    """Items of (documents, systems) ratings, the documents numbered from `first`."""
    return Items(
        tuple(
            Item(id=f"{d}-{s}", document_id=f"{d:04}", system=f"s{s}", texts={}, human=value)
            for d, row in enumerate(human, first)
            for s, value in enumerate(map(float, row))
        )
    )


def halves(
    rng: np.random.Generator, documents: int, outputs: int, noise: tuple[float, float]
) -> list[Finalist]:
    """A judge for either half, beside the untuned one, with (untuned, tuned) noise."""
    quality, finalists = rng.normal(0, 0.3, outputs), []
    for first, last in ((0, documents // 2), (documents // 2, documents)):
        shape = (last - first, outputs)
        truth = quality + rng.normal(0, 0.5, (shape[0], 1)) + rng.normal(0, 0.8, shape)
        human = np.clip(np.round(3 + truth + rng.normal(0, 0.4, shape)), 1, 5)
        seed, scores = (
            np.round(
                2 * (truth + one * (rng.normal(size=shape) + rng.normal(size=(shape[0], 1)) / 2))
            )
            for one in noise
        )
        finalists.append(
            Finalist(
                candidate=Candidate(instruction=""),
                items=split(human, first),
                scores=scores.ravel(),
                seed=seed.ravel(),
            )
        )
    return finalists


def shipped(
    documents: int,
    outputs: int,
    level: Level,
    simulations: int,
    risk: float,
    noise: tuple[float, float] = (1.3, 1.3),
) -> float:
    """The share of simulations in which the tuned judges ship."""
    rng = np.random.default_rng([documents, outputs])
    return float(
        np.mean(
            [
                verdict(halves(rng, documents, outputs, noise), level, rng, risk).ship
                for _ in range(simulations)
            ]
        )
    )


def noise_for(gain: float, outputs: int) -> tuple[float, float]:
    """The tuned judge's noise at which its rho is higher by so much, found by bisection."""

    def rho(noise: float) -> float:
        rng = np.random.default_rng(0)
        (half, _) = halves(rng, 2000, outputs, (noise, noise))
        return objective(half.scores, half.items, "summary")

    target, low, high = rho(1.3) + gain, 0.3, 1.3
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if rho(middle) > target else (low, middle)
    return 1.3, (low + high) / 2


def passing(
    rng: np.random.Generator, rows: int, outputs: int, fails: float, gain: float
) -> list[Finalist]:
    """Verdicts of an untuned judge with a TPR and TNR of .7 and of one with more, on either half.

    Both see an output alike in part, so that they differ on about a quarter.
    """
    finalists, size = [], rows // outputs // 2
    for first in (0, size):
        human = (rng.random((size, outputs)) >= fails).astype(float)
        seen = (rng.normal(size=human.shape) + rng.normal(size=(size, 1)) / 2) / 1.25**0.5
        passes = []
        for right in (0.7, 0.7 + gain):
            own = (seen + rng.normal(size=human.shape)) / 2**0.5
            passes.append(np.where(human == 1, own < ndtri(right), own > ndtri(right)))
        seed, scores = (each.astype(float).ravel() for each in passes)
        finalists.append(
            Finalist(
                candidate=Candidate(instruction=""),
                items=split(human, first),
                scores=scores,
                seed=seed,
            )
        )
    return finalists


def of_two_values(simulations: int, risk: float) -> Iterator[str]:
    rows = (40, 120, 400)
    yield f"| two values: fails | outputs | gain | {' | '.join(f'{n} rows' for n in rows)} |"
    yield "|---|---|---|" + "---|" * len(rows)
    for fails, outputs, gain in product((0.05, 0.2, 0.5), (1, 4), (0, 0.05, 0.1)):
        cells = []
        for n in rows:
            rng = np.random.default_rng([n, outputs, round(100 * fails)])
            choices = (
                verdict(passing(rng, n, outputs, fails, gain), "balanced", rng, risk)
                for _ in range(simulations)
            )
            cells.append(f"{np.mean([choice.ship for choice in choices]):.3f}")
        yield f"| {fails:.2f} | {outputs} | {gain:.2f} | {' | '.join(cells)} |"


def lines(simulations: int, risk: float) -> Iterator[str]:
    yield f"| equal judges, level | outputs | {' | '.join(f'{n} documents' for n in DOCUMENTS)} |"
    yield "|---|---|" + "---|" * len(DOCUMENTS)
    worlds: list[tuple[Level, int]] = [
        ("summary", 4),
        ("summary", 16),
        ("dataset", 1),
        ("dataset", 4),
        ("system", 16),
    ]
    for level, outputs in worlds:
        shares = [shipped(n, outputs, level, simulations, risk) for n in DOCUMENTS]
        yield f"| {level} | {outputs} | {' | '.join(f'{share:.3f}' for share in shares)} |"
    yield ""
    yield f"| gain | outputs | {' | '.join(f'{n} labelled' for n in LABELLED)} |"
    yield "|---|---|" + "---|" * len(LABELLED)
    for gain in (0.05, 0.1):
        for outputs in (4, 8):
            noise, cells = noise_for(gain, outputs), []
            for labelled in LABELLED:
                n = round(DECIDING_SHARE * labelled)
                share = shipped(n, outputs, "summary", simulations // 4, risk, noise)
                cells.append(f"{share:.2f} ({power(n, outputs, gain, risk):.2f})")
            yield f"| {gain:.2f} | {outputs} | {' | '.join(cells)} |"
    yield ""
    yield from of_two_values(simulations, risk)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--risk", type=float, default=RISK)
    flags = parser.parse_args()
    began = time.monotonic()
    for line in lines(flags.simulations, flags.risk):
        print(line, flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
