"""Figures side by side: splits, ceilings, attacks, and the search's trials."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from optimize.report.drawing import ACCENT, FAINT, INK, SECOND, shortened, single, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ends = tuple[float, float] | None
# (value, interval) of one thing, NaN-free.
Figure = tuple[float, Ends]


def forest(
    rows: Mapping[str, tuple[Figure | None, Figure | None]], sides: tuple[str, str], xlabel: str
) -> str:
    """Two judges on each split, with intervals: the first hollow, the second filled."""

    def draw(axes: "Axes") -> None:
        for place, pair in enumerate(reversed(list(rows.values()))):
            for one, up, colour, fill in zip(
                pair, (0.14, -0.14), (SECOND, ACCENT), ("none", ACCENT), strict=True
            ):
                if one is None:
                    continue
                value, ends = one
                if ends is not None:
                    axes.plot(ends, (place + up, place + up), color=colour, lw=1.6)
                axes.plot(value, place + up, "o", ms=6, color=colour, markerfacecolor=fill, mew=1.6)
        for side, colour, fill in zip(sides, (SECOND, ACCENT), ("none", ACCENT), strict=True):
            axes.plot([], [], "o", ms=6, color=colour, markerfacecolor=fill, mew=1.6, label=side)
        axes.axvline(0, color=FAINT, lw=0.8)
        axes.set_yticks(range(len(rows)), list(reversed(list(rows))))
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel(xlabel)
        axes.figure.legend(loc="outside upper right", ncols=2, frameon=False, labelcolor=INK)

    told = "; ".join(
        f"{split}: "
        + ", ".join(f"{side} {said(one)}" for side, one in zip(sides, pair, strict=True))
        for split, pair in rows.items()
    )
    return svg(single(draw), f"{xlabel}: {told}", 1.1 + 0.5 * len(rows))


def bars(rows: Mapping[str, Figure], xlabel: str, name: str) -> str:
    """Labelled horizontal bars, such as the judge beside its human ceiling."""

    def draw(axes: "Axes") -> None:
        for place, (value, ends) in zip(range(len(rows))[::-1], rows.values(), strict=True):
            axes.barh(place, value, color=ACCENT, height=0.55, alpha=0.75, lw=0)
            if ends is not None:
                axes.plot(ends, (place, place), color=INK, lw=1.4)
            right = max(value, ends[1] if ends else value, 0)
            axes.annotate(
                f"{value:.3f}",
                (right, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=INK,
            )
        axes.set_yticks(range(len(rows))[::-1], [shortened(key, 28) for key in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel(xlabel)
        axes.axvline(0, color=INK, lw=0.8)
        axes.margins(x=0.18)

    told = ", ".join(f"{key} {said(one)}" for key, one in rows.items())
    return svg(single(draw), f"{name}: {told}", 0.9 + 0.34 * len(rows))


def shifts(rows: Mapping[str, Figure], control: str, xlabel: str, name: str) -> str:
    """How far each attack moves the scores, with intervals; the control's line is hollow."""

    def draw(axes: "Axes") -> None:
        for place, (key, (value, ends)) in zip(range(len(rows))[::-1], rows.items(), strict=True):
            colour, fill = (SECOND, "none") if key == control else (ACCENT, ACCENT)
            if ends is not None:
                axes.plot(ends, (place, place), color=colour, lw=1.4)
            axes.plot(value, place, "o", ms=5, color=colour, markerfacecolor=fill, mew=1.4)
        axes.axvline(0, color=INK, lw=0.8)
        axes.set_yticks(range(len(rows))[::-1], [shortened(key, 28) for key in rows])
        axes.set_xlabel(xlabel)

    told = ", ".join(f"{key} {said(one)}" for key, one in rows.items())
    return svg(single(draw), f"{name}: {told}", 0.9 + 0.24 * len(rows))


def search_path(calls: Sequence[int], rhos: Sequence[float], seed: float, name: str) -> str:
    """The best rho so far over judge calls spent, beside every trial."""
    best = np.maximum.accumulate(np.asarray(rhos, dtype=float))

    def draw(axes: "Axes") -> None:
        axes.plot(calls, rhos, "o", ms=3.5, color=FAINT, label="a trial")
        axes.step(calls, best, where="post", color=ACCENT, lw=1.8, label="best so far")
        axes.axhline(seed, color=SECOND, lw=1.2, ls="--", label="seed")
        axes.set_xlabel("judge calls")
        axes.set_ylabel("rho less the seed's" if seed == 0 else "rho in the search")
        axes.figure.legend(loc="outside upper right", ncols=3, frameon=False, labelcolor=INK)

    label = f"{name}: rho of {len(rhos)} trials over the calls spent, best {best.max():.3f}"
    return svg(single(draw), label, 2.8)


def said(one: Figure | None) -> str:
    if one is None:
        return "undefined"
    value, ends = one
    return f"{value:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")
