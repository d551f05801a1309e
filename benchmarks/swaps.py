"""How often a swap passes: python benchmarks/swaps.py [--simulations 1000].

A new judge is worse than the old one by exactly the margin, so that at most 5 of 100 may pass; and,
in brackets, as good, which is the power. Ratings have Spearman's rho at summary level with four
outputs a document, at dataset level with one. Judges of two values are right on .8 of passes and of
fails, those of pairs on .8. With --changed, a random part of the outputs that change is labelled
(verify --changed). With --recorded, recorded judges of SummEval swap at a rating of 4. No model is
asked. README.md explains the judges and columns.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from summeval import MODELS, QUALITIES, SUMMEVAL, recorded_ratings

from optimize.measuring.changed_swap import gain_contributions, interval_on_these_rows
from optimize.measuring.swap import judge_contrast, swap_outcome
from optimize.statistics.correlations import Level, correlation
from optimize.statistics.intervals import Interval, cautious_interval
from optimize.statistics.rows import scored_rows

MARGINS = (0.03, 0.1)
DOCUMENTS = (60, 120, 240)
LABELLED = (30, 100, 10_000)
ALIKE = 0.7
SIZE = 80_000  # documents of the sample that says what a loss of rho takes
Sides = tuple[np.ndarray, np.ndarray, np.ndarray]
World = Callable[[Generator, int, float], Sides]


def ratings(
    rng: Generator, documents: int, extra: float, *, outputs: int, share: float, noise: float = 1
) -> Sides:
    """New and old scores and people's: the new judge's noise is larger by `extra`."""
    shape = (documents, outputs)
    truth = rng.normal(0, 0.5, (documents, 1)) + rng.normal(0, 0.85, shape)
    human = np.clip(np.round(3 + truth + rng.normal(0, 0.4, shape)), 1, 5)
    old, new = (np.round(2 * (truth + n * rng.normal(size=shape))) for n in (noise, noise + extra))
    return np.where(rng.random(shape) < share, new, old), old, human


def lost(rng: Generator, documents: int, extra: float, *, outputs: int, share: float) -> Sides:
    """The same of judges with less noise; the new one scores a share of documents at random.

    On `share` of the outputs of the others it errs by itself, as much as the old one.
    """
    new, old, human = (
        side.reshape(documents, outputs)
        for side in ratings(rng, documents, 0, outputs=outputs, share=share, noise=0.4)
    )
    gone = rng.random((documents, 1)) < extra
    return np.where(gone, np.round(2 * rng.normal(size=human.shape)), new), old, human


def draws(rng: Generator, shape: tuple[int, int], alike: float) -> np.ndarray:
    """Uniform numbers; two outputs of a document have one and the same with this probability."""
    shared = np.broadcast_to(rng.random((shape[0], 1)), shape)
    return np.where(rng.random(shape) < alike**0.5, shared, rng.random(shape))


def choices(
    rng: Generator,
    documents: int,
    loss: float,
    *,
    outputs: int,
    share: float,
    low: float,
    alike: float = 0,
) -> Sides:
    """Verdicts of judges that are right on .8, and on less by the loss; `low` is the other label.

    A fifth of the labels are it; of pairs (-1) half.
    """
    shape = (documents, outputs)
    labels, right, own, differs, lost = (draws(rng, shape, alike) for _ in range(5))
    human = np.where(labels < (0.5 if low else 0.2), low, 1.0)
    old = right < 0.8
    new = np.where(differs < share, own < 0.8, old) & (lost >= loss / 0.8)
    return *(np.where(right, human, 1 + low - human) for right in (new, old)), human


def extra_for(loss: float, level: Level, world: World, high: float) -> float:
    """The extra noise, or share of documents, that costs so much rho, by bisection to `high`."""

    def value(extra: float) -> float:
        new, _, human = world(np.random.default_rng(0), SIZE, extra)
        document = np.arange(human.size) // human.shape[1]
        return correlation(level, new.ravel(), human.ravel(), document).value

    target, low = value(0) - loss, 0.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) > target else (low, middle)
    return (low + high) / 2


def side(scores: np.ndarray, human: np.ndarray, level: Level) -> Any:
    """What a difference takes of one judge's measured scores."""
    return SimpleNamespace(
        scores=scores.ravel(),
        verdicts=scores.ravel(),
        human=human.ravel(),
        document_ids=(documents := np.arange(human.size) // human.shape[1]),
        system_ids=None,
        rows=scored_rows(scores.ravel(), human.ravel(), documents),
        level=level,
        is_pairwise=-1 in human,
        has_verdicts=0 in human,
    )


def passes(interval: Interval | None, margin: float) -> bool:
    return swap_outcome(interval, margin) in ("better", "not worse")


def lines(simulations: int) -> Iterator[str]:
    worlds: list[tuple[str, Level, Any]] = [
        ("ratings, 4 outputs", "summary", partial(ratings, outputs=4)),
        ("ratings, 1 output", "dataset", partial(ratings, outputs=1)),
        *(
            (f"ratings, {outputs} outputs, {level}", level, partial(lost, outputs=outputs))
            for level in ("summary", "dataset")
            for outputs in (4, 16)
        ),
        ("two values, 4 outputs", "dataset", partial(choices, outputs=4, low=0)),
        ("two values, 4 alike", "dataset", partial(choices, outputs=4, low=0, alike=ALIKE)),
        ("two values, 1 output", "dataset", partial(choices, outputs=1, low=0)),
        ("pairs", "dataset", partial(choices, outputs=1, low=-1)),
        ("pairs, 4 alike", "dataset", partial(choices, outputs=4, low=-1, alike=ALIKE)),
    ]
    yield f"| margin | labels | new judge | {' | '.join(f'{n} documents' for n in DOCUMENTS)} |"
    yield "|---|---|---|" + "---|" * len(DOCUMENTS)
    for margin in MARGINS:
        for name, level, make in worlds:
            kinds = [("akin", 3 * margin), ("apart", 1.0)]
            if make.func is lost:
                kinds = [("lost", 3 * margin)]
            elif "alike" in make.keywords:
                kinds.append(("same", 0.0))
            for word, share in kinds:
                world, cells = partial(make, share=share), []
                high = 1.0 if make.func is lost else 30.0
                loss = margin if make.func is choices else extra_for(margin, level, world, high)
                for n in DOCUMENTS:
                    rng, passed = np.random.default_rng([n, round(1000 * margin)]), []
                    for worse in [loss, 0] * simulations:
                        *both, human = world(rng, n, worse)
                        sides = (side(each, human, level) for each in both)
                        contrast, possible = judge_contrast(*sides)
                        interval = None
                        if possible is not None:
                            interval = cautious_interval(contrast.contributions, possible)
                        passed.append(passes(interval, margin))
                    cells.append(f"{np.mean(passed[::2]):.3f} ({np.mean(passed[1::2]):.2f})")
                yield f"| {margin:g} | {name} | {word} | {' | '.join(cells)} |"


def changed_lines(simulations: int) -> Iterator[str]:
    """Swaps by labels of changed outputs: false passes, power, and coverage of these outputs."""
    yield f"| labels | documents | change | {' | '.join(f'{n} labelled' for n in LABELLED)} |"
    yield "|---|---|---|" + "---|" * len(LABELLED)
    for outputs, alike in ((1, 0.0), (4, 0.0), (4, ALIKE)):
        for n_documents in DOCUMENTS[1:]:
            for share in (0.15, 0.45, 1.0):
                make = partial(choices, outputs=outputs, low=0, share=share, alike=alike)
                cells, moved = [], []
                for n in LABELLED:
                    rng, passed, held = np.random.default_rng([n_documents, n]), [], []
                    for worse in [MARGINS[0], 0] * simulations:
                        new, old, human = (side.ravel() for side in make(rng, n_documents, worse))
                        changed, gain = new != old, (new == human) - (old == human).astype(float)
                        drawn = rng.permutation(np.flatnonzero(changed))[:n]
                        known = np.full(gain.size, np.nan)
                        known[drawn] = gain[drawn]
                        document = np.arange(gain.size) // outputs
                        interval = cautious_interval(*gain_contributions(known, changed, document))
                        passed.append(passes(interval, MARGINS[0]))
                        here = interval_on_these_rows(known, changed)
                        value = gain.mean()
                        held.append(here and here.low - 1e-9 <= value <= here.high + 1e-9)
                        moved.append(changed.mean())
                    power = f"({np.mean(passed[1::2]):.2f})"
                    cells.append(f"{np.mean(passed[::2]):.3f} {power} here {np.mean(held):.3f}")
                name = f"{outputs} {'alike' if alike else 'output' + 's' * (outputs > 1)}"
                yield f"| {name} | {n_documents} | {np.mean(moved):.2f} | {' | '.join(cells)} |"


def recorded_lines(draws: int = 2000) -> Iterator[str]:
    """Errors of the difference in accuracy on SummEval, by labels at random and of changed ones."""
    heads = (
        "labels | error at random | error on changed | labels at random for that | times as many"
    )
    yield f"| judges | dimension | change | difference | {heads} |"
    yield "|---" * 9 + "|"
    texts = pd.read_json(SUMMEVAL, lines=True)
    rng, ratings = np.random.default_rng(0), {name: recorded_ratings(name) for name in MODELS}
    for dimension, (old, new) in itertools.product(QUALITIES, itertools.combinations(MODELS, 2)):
        people = np.array([rating[dimension] >= 4 for rating in texts["ratings"]])
        a, b = (
            np.array([ratings[name][text][dimension] >= 4 for text in texts["summary"]])
            for name in (old, new)
        )
        gain, changed = (b == people) * 1.0 - (a == people), np.flatnonzero(a != b)
        n, share = min(200, changed.size), changed.size / gain.size
        at_random = np.std([rng.choice(gain, n, replace=False).mean() for _ in range(draws)])
        on_changed = np.std(
            [share * rng.choice(gain[changed], n, replace=False).mean() for _ in range(draws)]
        )
        # The variance of the mean of m of N values is s^2 (1 / m - 1 / N).
        needed = 1 / (on_changed**2 / gain.var(ddof=1) + 1 / gain.size)
        yield (
            f"| {new} for {old} | {dimension} | {share:.2f} | {gain.mean():+.3f} | {n} "
            f"| {at_random:.3f} | {on_changed:.3f} | {needed:.0f} | {needed / n:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--changed", action="store_true", help="labels of changed outputs alone")
    parser.add_argument("--recorded", action="store_true", help="recorded judges of SummEval")
    flags = parser.parse_args()
    rows = changed_lines(flags.simulations) if flags.changed else lines(flags.simulations)
    if flags.recorded:
        rows = recorded_lines()
    for line in rows:
        print(line, flush=True)


if __name__ == "__main__":
    main()
