"""The judge beside people, output by output, document by document, system by system."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optimize.report.drawing import ACCENT, FAINT, INK, SECOND, plain, shortened, single, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

Vector = NDArray[np.float64]
MOST_SYSTEMS = 40
MOST_POINTS = 3000


def scatter(judge: Vector, human: Vector, name: str, rng: np.random.Generator) -> str:
    """Human rating against judge score, jittered, with marginals; failed outputs are absent."""
    seen = ~np.isnan(judge)
    judge, human = judge[seen], human[seen]
    drawn = np.sort(rng.permutation(human.size)[:MOST_POINTS])

    def draw(figure: "Figure") -> None:
        grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 5), wspace=0.04)
        main = figure.add_subplot(grid[1, 0])
        alpha = float(np.clip(20 / np.sqrt(max(drawn.size, 1)), 0.15, 0.6))
        x, y = _jittered(human, rng)[drawn], _jittered(judge, rng)[drawn]
        main.scatter(x, y, s=12, color=ACCENT, alpha=alpha, lw=0)
        main.set_xlabel("mean human rating")
        main.set_ylabel("judge's score")
        top = figure.add_subplot(grid[0, 0], sharex=main)
        top.hist(human, bins=24, color=FAINT)
        side = figure.add_subplot(grid[1, 1], sharey=main)
        side.hist(judge, bins=24, orientation="horizontal", color=FAINT)
        for marginal in (top, side):
            marginal.axis("off")
        plain(main)

    label = f"{name}: judge's score against mean human rating for {human.size} outputs"
    return svg(draw, label, 4.0)


def _jittered(values: Vector, rng: np.random.Generator) -> Vector:
    """Where values repeat, they are moved apart by a fraction of the distance between two."""
    distinct = np.unique(values)
    if distinct.size < 2:
        return values + rng.normal(0, 0.05, values.size)
    if 3 * distinct.size > values.size:
        return values
    step = float(np.median(np.diff(distinct)))
    return values + rng.uniform(-0.3 * step, 0.3 * step, values.size)


def per_document(rhos: Vector, mean: float, name: str) -> str:
    """How the rank agreement varies between documents; undefined documents are absent."""
    known = np.sort(rhos[~np.isnan(rhos)])

    def draw(axes: "Axes") -> None:
        places = np.arange(known.size)
        if known.size <= 80:
            axes.bar(places, known, width=0.85, color=ACCENT)
        else:
            axes.fill_between(places, known, step="mid", color=ACCENT, lw=0)
        axes.axhline(mean, color=SECOND, lw=1.5)
        axes.axhline(0, color=INK, lw=0.8)
        axes.set_xlabel("documents, from least to most agreement")
        axes.set_ylabel("Spearman's rho")
        axes.set_xticks([])

    below = int((known < 0).sum())
    label = (
        f"{name}: Spearman's rho within each of {known.size} documents, mean {mean:.3f}, "
        f"{below} below zero"
    )
    return svg(single(draw), label, 2.6)


def systems(
    names: Sequence[str],
    judge: Vector,
    judge_interval: NDArray[np.float64],
    human: Vector,
    name: str,
) -> str:
    """Each system's mean judge score with its interval (rows: low, high) beside people's mean.

    Past forty systems, the forty on which judge and people differ most in place.
    """
    ranks = np.argsort(np.argsort(human)) - np.argsort(np.argsort(judge))
    kept = np.argsort(-np.abs(ranks), kind="stable")[:MOST_SYSTEMS]
    order = kept[np.argsort(human[kept], kind="stable")]

    def draw(axes: "Axes") -> None:
        places = np.arange(len(order))
        errors = np.abs(judge_interval[order].T - judge[order])
        axes.errorbar(
            judge[order], places, xerr=errors, fmt="o", ms=4, color=ACCENT, lw=1.2, label="judge"
        )
        axes.plot(human[order], places, "D", ms=4, color=SECOND, label="people")
        axes.set_yticks(places, [shortened(names[i]) for i in order])
        axes.set_ylim(-0.7, len(order) - 0.3)
        axes.set_xlabel("mean rating")
        axes.figure.legend(loc="outside upper right", ncols=2, frameon=False, labelcolor=INK)

    label = f"{name}: mean judge score and mean human rating of {len(names)} systems"
    return svg(single(draw), label, 1.2 + 0.24 * len(order))


def confusion(counts: NDArray[np.int_], labels: Sequence[str], name: str) -> str:
    """Counts of outputs by what people (columns) and the judge (rows) said."""

    def draw(axes: "Axes") -> None:
        share = counts / max(counts.max(), 1)
        for row, column in np.ndindex(counts.shape):
            axes.add_patch(_square(column, row, alpha=0.08 + 0.62 * float(share[row, column])))
            if len(labels) <= 12:
                axes.text(
                    column, row, str(counts[row, column]), ha="center", va="center", color=INK
                )
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_ylim(-0.5, len(labels) - 0.5)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_yticks(range(len(labels)), labels)
        axes.set_xlabel("people")
        axes.set_ylabel("judge")

    exact = int(np.trace(counts))
    label = f"{name}: judge and people, {exact} of {counts.sum()} alike, on the diagonal"
    return svg(single(draw), label, 4.0)


def _square(column: int, row: int, alpha: float) -> "Rectangle":
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, color=ACCENT, alpha=alpha, lw=0)
