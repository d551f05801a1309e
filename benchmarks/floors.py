"""How often a judge passes its floors: python benchmarks/floors.py [--simulations 500].

`--only offered` prints how often an equally good judge passes, on as many new labels, the floors
that `verify` offers for it. `--only looks` prints how often a judge at its floor passes `verify
--looks N` in any look, and in brackets how often a better one does. README.md explains the tables.
"""

import argparse
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from interval_coverage import EVEN, MOSTLY_5, Cuts
from numpy.random import Generator
from swaps import ALIKE, draws

from optimize.statistics.correlations import Level, correlation
from optimize.statistics.floor import interval_for_looks, suggested_floors
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import verdict_agreement

SIZES: list[int] = np.geomspace(40, 400, 8).round().astype(int).tolist()
# How many looks there are, and for how many each is taken.
LOOKS = ((1, 1), (2, 2), (4, 4), (8, 8), (4, 1), (8, 1))
MANY = 800_000  # documents of the sample that says what a judge's rho is
# A judge's figure on the first documents of some, by how many these are, drawn anew.
Draw = Callable[[Generator, int], Any]


def pass_shares(of: Callable[[Generator, int], Any], simulations: int) -> str:
    """How often floors are offered at 60, 120, 400 labels, and how often they hold again."""
    texts = []
    for n in (60, 120, 400):
        rng, passes = np.random.default_rng((3, n)), []
        for _ in range(simulations):
            (floors, _), (_, again) = of(rng, n), of(rng, n)
            ends = [each.interval.low if each.interval else -1.0 for each in again]
            if floors:
                passes.append(all(map(operator.ge, ends, floors.values())))
        share = f"{np.mean(passes):.3f}" if len(passes) >= simulations / 10 else " none"
        texts.append(f"{share} of {len(passes) / simulations:4.0%}")
    return "  ".join(texts)


def measure_rho(noise: float, cuts: Cuts, outputs: int, rng: Generator, n: int) -> Any:
    """The rho of a judge on `n` documents; no interval where that may be chance."""
    rho = rho_by_size(noise, cuts, outputs, rng, n)(n)
    shown = rho if rho.interval and rho.interval.low > 0 else replace(rho, interval=None)
    return suggested_floors(shown), [shown]


def measure_rates(
    rates: Sequence[float], outputs: int, alike: float, rng: Generator, n: int
) -> Any:
    """Both rates of a judge on `n` documents; none where its balanced accuracy may be a coin's."""
    base, tpr, tnr = rates
    labels, right = (draws(rng, (n, outputs), alike).ravel() for _ in range(2))
    people = labels < base
    judge = np.where(people, right < tpr, right >= tnr)
    card = verdict_agreement(scored_rows(judge, people, np.arange(n * outputs) // outputs))
    balanced = card.balanced_accuracy.interval
    is_known = balanced is not None and balanced.low > 0.5
    return suggested_floors(card) if is_known else {}, [card.tpr, card.tnr]


def print_floors(simulations: int) -> None:
    """Print how often equally good judges hold the floors, and how often some are offered."""
    print("floors held again, where offered; 60, 120, 400 documents")
    for name, cuts in {"1 to 5": EVEN, "mostly 5": MOSTLY_5}.items():
        for outputs, noise in product((1, 4), (0.3, 1.0, 2.0)):
            passes = pass_shares(partial(measure_rho, noise, cuts, outputs), simulations)
            judge = f"rho, {name}, {outputs} a document, noise {noise}"
            print(f"  {judge:<40}", passes, flush=True)
    half, most = ((0.5, 0.9, 0.8), (0.5, 0.8, 0.7)), ((0.8, 0.9, 0.8), (0.8, 0.95, 0.6))
    for rates in (*half, *most, (0.9, 0.97, 0.8)):
        for outputs, alike in ((1, 0), (4, 0), (4, 0.7), (8, 0.7)):
            passes = pass_shares(partial(measure_rates, rates, outputs, alike), simulations)
            name = "pass {}, TPR {}, TNR {}".format(*rates)
            name += f", {outputs} {'alike ' if alike else ''}a document"
            print(f"  {name:<46}", passes, flush=True)


def passes_any_look(draw: Draw, least: float, rng: Generator) -> list[bool]:
    """Whether a new judge reaches its floor in any of the looks."""
    figure = cache(draw(rng, SIZES[-1]))
    passes = []
    for looks, taken in LOOKS:
        sizes = SIZES[8 // looks - 1 :: 8 // looks]
        ends = [interval_for_looks(figure(size), taken) for size in sizes]
        passes.append(any(end is not None and end.low >= least for end in ends))
    return passes


def rate_by_size(share: float, outputs: int, alike: float, rng: Generator, n: int) -> Any:
    """A judge's TPR on the first documents of `n`, by how many these are."""
    right = (draws(rng, (n, outputs), alike) < share).ravel()
    columns = right, np.ones(right.size), np.arange(right.size) // outputs

    def first(documents: int) -> Any:
        rows = scored_rows(*(column[: documents * outputs] for column in columns))
        return verdict_agreement(rows).tpr

    return first


def rho_by_size(noise: float, cuts: Cuts, outputs: int, rng: Generator, n: int) -> Any:
    """A judge's rho on the first documents of `n`, by how many these are."""
    quality = rng.normal(size=n * outputs)
    judge, human = (
        np.searchsorted(cuts, quality + spread * rng.normal(size=n * outputs))
        for spread in (noise, 0.5)
    )
    columns = judge, human, np.repeat(np.arange(n), outputs)
    level: Level = "summary" if outputs > 1 else "dataset"

    def first(documents: int) -> Any:
        return correlation(level, *(column[: documents * outputs] for column in columns))

    return first


def judges_at_floors() -> dict[str, tuple[Draw, Draw, float]]:
    """Judges at a floor and above it, and the floor."""
    judges: dict[str, tuple[Draw, Draw, float]] = {}
    for outputs, alike, good in ((1, 0, 0.86), (4, 0, 0.83), (4, ALIKE, 0.85)):
        at, above = (partial(rate_by_size, share, outputs, alike) for share in (0.8, good))
        judges[f"TPR .8, {outputs} {'alike ' if alike else ''}a document"] = at, above, 0.8
    for outputs, noise in product((1, 4), (0.5, 1.5)):
        at, above = (partial(rho_by_size, each, EVEN, outputs) for each in (noise, 0.8 * noise))
        floor, better = (of(np.random.default_rng(1), MANY)(MANY).value for of in (at, above))
        judges[f"rho {floor:.2f} ({better:.2f}), {outputs} a document"] = at, above, floor
    return judges


def print_looks(simulations: int) -> None:
    """Print how often judges at a floor and (in brackets) above it pass, by the number of looks."""
    print("| floor | 1 look | 2 looks | 4 looks | 8 looks | 4 as one | 8 as one |")
    print("|---" * 7 + "|")
    for name, (at, above, floor) in judges_at_floors().items():
        false, power = (
            np.mean([passes_any_look(of, floor, rng) for _ in range(simulations)], axis=0)
            for of, rng in ((at, np.random.default_rng(4)), (above, np.random.default_rng(4)))
        )
        cells = [f"{a:.3f} ({b:.2f})" for a, b in zip(false[:4], power[:4], strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {false[4]:.3f} | {false[5]:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--only", choices=("offered", "looks"))
    flags = parser.parse_args()
    if flags.only in (None, "offered"):
        print_floors(flags.simulations)
    if flags.only in (None, "looks"):
        print_looks(flags.simulations)


if __name__ == "__main__":
    main()
