"""What a plan of labels is worth: python benchmarks/plan.py [--repetitions 500].

Verdicts of people and a judge are simulated anew in every repetition, so that the truth is known.
Printed are documents in all (median), width and coverage where a plan from 40 random documents is
followed, and how many repetitions reach the width: for the rate, then for the judge's balanced
accuracy. Coverage is the share of 95 % intervals that hold the truth: * is outside 93-97 %.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from optimize.estimate import Sample
from optimize.items import Indices, Vector
from optimize.plan import figures_of

PILOT, DOCUMENTS, MANY = 40, 1000, 50_000
# So wide that nothing more is needed: where no plan is made.
ANY = 100.0
# Where the quality of outputs, with a variance of one, passes.
CUTS = {"50%": 0.0, "80%": -0.842, "95%": -1.645}
# Label, score and document of each output of so many documents.
World = Callable[[np.random.Generator, int], tuple[Vector, Vector, Indices]]
Cells = list[dict[str, Any]]


def simulated(
    rng: np.random.Generator, documents: int, *, cut: float, noise: float, outputs: int
) -> tuple[Vector, Vector, Indices]:
    """A quarter of an output's quality is its document's; people are sure of nine tenths."""
    document = np.repeat(np.arange(documents), outputs)
    n, shared = document.size, rng.normal(size=documents)[document]
    quality = 0.95 * (0.5 * shared + 0.866 * rng.normal(size=n))
    label = quality + 0.312 * rng.normal(size=n) > cut
    judge = quality + noise * rng.normal(size=n) > cut * np.hypot(0.95, noise)
    return label.astype(float), judge.astype(float), document


def figures(vectors: tuple[Vector, Vector, Indices], n: int, target: float) -> list[dict[str, Any]]:
    """The cells of `plan` where the first `n` documents are labelled: the rate's comes first."""
    label, score, document = vectors
    known, weight = np.where(document < n, label, np.nan), np.ones(label.size)
    outputs = Sample(label=known, score=score, document=document, system=document, weight=weight)
    planned = figures_of(outputs, (0, 1), target)
    return [figure.to_json() for figure in planned.values()]


@cache
def truth(world: World) -> Vector:
    outputs = world(np.random.default_rng(1), MANY)
    return np.array([cell["value"] for cell in figures(outputs, MANY, ANY)])


def summary(cells: Cells, value: float) -> tuple[float, str]:
    """The mean width and the coverage."""
    sides = [(c["low"], c["high"]) for c in cells if c["low"] is not None]
    low, high = np.array(sides or [[np.nan] * 2]).T
    share = np.mean((low - 1e-9 <= value) & (value <= high + 1e-9))
    text = f"{share:.3f}{' ' if 0.93 <= share <= 0.97 else '*'}"
    return float(np.mean(high - low)), text


def targets(world: World, target: float, repetitions: int) -> Iterator[str]:
    """Of either figure: documents in all (median), width reached, coverage; how many reach it.

    Where fails are too few for an interval, it is planned again with the labels that give one.
    """
    for place in (0, 1):
        reached, numbers = Cells(), list[int]()
        for repetition in range(repetitions):
            outputs, n = world(np.random.default_rng((3, repetition)), DOCUMENTS), PILOT
            while more := (cell := figures(outputs, n, target)[place])["more_documents"]:
                n += more
                if cell["low"] is not None:
                    break
            if more is not None:
                reached.append(figures(outputs, n, target)[place])
                numbers.append(n)
        width, share = summary(reached, truth(world)[place])
        number = float(np.median(numbers or [0]))
        yield f"{number:.0f} {width:.3f} {share} ({len(reached) / repetitions:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    flags = parser.parse_args()
    began = time.monotonic()
    worlds: dict[str, World] = {
        f"{share} pass, {word} judge, {outputs} a document": partial(
            simulated, cut=cut, noise=noise, outputs=outputs
        )
        for share, cut in CUTS.items()
        for word, noise in (("good", 0.4), ("poor", 1.5))
        for outputs in (1, 4)
    }
    for name, world in worlds.items():
        for target in (0.1, 0.15):
            cells = targets(world, target, flags.repetitions)
            print(f"{name}, {target}", *cells, sep=" | ", flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
