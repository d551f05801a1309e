"""How sure the gate is: python benchmarks/gate.py [--simulations 400] [--risk .1].

Judges that are equally good: the seed and three finalists rate what people rate, with noise of one
size. `error` is the gate's standard error of the first finalist's gain, beside the true standard
deviation of that gain over the simulations; `shipped` the share in which the best of the three is
shipped, nominally the risk. Documents have two outputs at dataset level ("pairs": one), and one
output of each system at system level; some of the noise is a document's own. Sparse: the finalists
are the seed with 3 % of its scores moved by a point (16 systems), at summary level, so that few
documents differ at all. The last lines have three or six equal gains of .1 and zeros else.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from optimize.items import Item, Items
from optimize.search.evaluator import contrast
from optimize.search.gate import RISK, ComparedCandidate, choose
from optimize.statistics.difference import mean_of_differences
from optimize.statistics.levels import Level

FINALISTS = 3
DOCUMENTS = (60, 120, 240, 400)
FEW = (4, 8, 20, 40)
Scores = list[np.ndarray]
World = Callable[[np.random.Generator, int], tuple[Items, Scores]]


def split(human: np.ndarray) -> Items:
    """Items of (documents, systems) ratings."""
    return Items(
        tuple(
            Item(id=f"{d}-{s}", document_id=f"{d:04}", system=f"s{s}", texts={}, human=value)
            for d, row in enumerate(human)
            for s, value in enumerate(map(float, row))
        )
    )


def rated(outputs: int, quality: float, noise: float) -> World:
    """Ratings 1-5 of documents and systems that differ, and judges with noise of two kinds."""

    def draw(rng: np.random.Generator, documents: int) -> tuple[Items, Scores]:
        shape = (documents, outputs)
        truth = rng.normal(0, quality, outputs) + rng.normal(0, 0.5, (documents, 1))
        truth = truth + rng.normal(0, 0.8, shape)
        human = np.clip(np.round(3 + truth + rng.normal(0, 0.4, shape)), 1, 5)
        judges = [
            np.round(
                2 * (truth + noise * (rng.normal(size=shape) + rng.normal(size=(documents, 1)) / 2))
            )
            for _ in range(1 + FINALISTS)
        ]
        return split(human), [judge.ravel() for judge in judges]

    return draw


def moved(rng: np.random.Generator, documents: int) -> tuple[Items, Scores]:
    """A seed that rates 1-5, and finalists that differ from it in 3 % of the scores."""
    shape = (documents, 16)
    truth = rng.normal(size=shape)
    human = np.clip(np.round(3 + truth), 1, 5)
    seed = np.clip(np.round(3 + truth + rng.normal(size=shape)), 1, 5)
    finalists = [
        seed + rng.choice([-1, 1], shape) * (rng.random(shape) < 0.03) for _ in range(FINALISTS)
    ]
    return split(human), [seed.ravel(), *(one.ravel() for one in finalists)]


def simulate(
    draw: World, level: Level, documents: int, simulations: int, risk: float
) -> tuple[float, ...]:
    """True standard deviation, the gate's root mean square error, and the share shipped."""
    rng = np.random.default_rng(documents)
    values, errors, shipped = [], [], 0
    for _ in range(simulations):
        items, (seed, *finalists) = draw(rng, documents)
        gaps = [contrast(scores, seed, items, level) for scores in finalists]
        nothing = mean_of_differences(np.zeros(len(items.documents)), items.documents)
        compared = [
            ComparedCandidate(
                gain=gap,
                dev_gain=gap,
                failure_reduction=nothing,
                failure_rate=0.0,
                seed_failure_rate=0.0,
            )
            for gap in gaps
        ]
        shipped += choose(compared, FINALISTS, rng, risk=risk).ship
        values.append(gaps[0].value)
        errors.append(gaps[0].error)
    error = float(np.sqrt(np.mean(np.square(errors))))
    return float(np.std(values)), error, shipped / simulations


def few_gains(number: int, documents: int, risk: float) -> bool:
    """Whether so many gains of .1, and zeros else, ship."""
    differences = np.zeros(documents)
    differences[:number] = 0.1
    gap = mean_of_differences(differences, [str(place) for place in range(documents)])
    nothing = mean_of_differences(np.zeros(documents), gap.documents)
    one = ComparedCandidate(
        gain=gap,
        dev_gain=gap,
        failure_reduction=nothing,
        failure_rate=0.0,
        seed_failure_rate=0.0,
    )
    return choose([one], 1, np.random.default_rng(0), risk=risk).ship


def lines(simulations: int, risk: float) -> Iterator[str]:
    yield "| world | level | documents | simulations | true SD | error | SD / error | shipped |"
    yield "|---|---|---|---|---|---|---|---|"
    # More where one takes less time: 10 % of 400 has a standard error of 1.5 %.
    worlds: list[tuple[str, Level, World, tuple[int, ...], int]] = [
        ("pairs", "dataset", rated(1, 0.0, 1.0), DOCUMENTS, 4),
        ("two outputs", "dataset", rated(2, 0.3, 1.0), DOCUMENTS, 3),
        ("12 systems", "system", rated(12, 0.3, 1.5), DOCUMENTS, 1),
        ("sparse", "summary", moved, FEW, 4),
    ]
    for name, level, draw, sizes, times in worlds:
        for documents in sizes:
            number = times * simulations
            spread, error, shipped = simulate(draw, level, documents, number, risk)
            yield (
                f"| {name} | {level} | {documents} | {number:,} | {spread:.4f} | {error:.4f} | "
                f"{spread / error:.2f} | {shipped:.3f} |"
            )
    for number in (3, 6):
        rows_text = ", ".join(
            f"{n}: {'ships' if few_gains(number, n, risk) else 'kept'}" for n in (12, 20, 40)
        )
        yield f"{number} equal gains, zeros else, by documents: {rows_text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--risk", type=float, default=RISK)
    flags = parser.parse_args()
    began = time.monotonic()
    for line in lines(flags.simulations, flags.risk):
        print(line, flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
