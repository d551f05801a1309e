"""The report's charts: vectors in, one self-contained SVG with an accessible name out.

Drawn by matplotlib. Colours are handed to the page as CSS variables, so that one drawing serves
light, dark and print.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

Vector = NDArray[np.float64]

# Stand-ins that matplotlib draws with; the page's style sheet says what they look like.
INK, FAINT, ACCENT, SECOND = "#010203", "#040506", "#070809", "#0a0b0c"
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
}


def scatter(judge: Vector, human: Vector, name: str, rng: np.random.Generator) -> str:
    """Human rating against judge score, jittered, with marginals; failed outputs are absent."""
    seen = ~np.isnan(judge)
    judge, human = judge[seen], human[seen]

    def draw(figure: "Figure") -> None:
        grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 5), wspace=0.04)
        main = figure.add_subplot(grid[1, 0])
        spread = 0.02 * (np.ptp(human) or 1.0)
        main.scatter(
            human + rng.normal(0, spread, human.size), judge, s=9, color=ACCENT, alpha=0.45, lw=0
        )
        main.set_xlabel("mean human rating")
        main.set_ylabel("judge's score")
        top = figure.add_subplot(grid[0, 0], sharex=main)
        top.hist(human, bins=24, color=FAINT)
        side = figure.add_subplot(grid[1, 1], sharey=main)
        side.hist(judge, bins=24, orientation="horizontal", color=FAINT)
        for marginal in (top, side):
            marginal.axis("off")
        _plain(main)

    label = f"{name}: judge's score against mean human rating for {human.size} outputs"
    return _svg(draw, label, (6.0, 4.6))


def per_document(rhos: Vector, mean: float, name: str) -> str:
    """How the rank agreement varies between documents; undefined documents are absent."""
    known = np.sort(rhos[~np.isnan(rhos)])

    def draw(axes: "Axes") -> None:
        axes.bar(np.arange(known.size), known, width=0.85, color=ACCENT)
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
    return _svg(_single(draw), label, (6.0, 3.0))


def systems(
    names: Sequence[str],
    judge: Vector,
    judge_interval: NDArray[np.float64],
    human: Vector,
    name: str,
) -> str:
    """Each system's mean judge score with its interval (rows: low, high) beside people's mean."""
    order = np.argsort(human)

    def draw(axes: "Axes") -> None:
        places = np.arange(len(names))
        errors = np.abs(judge_interval[order].T - judge[order])
        axes.errorbar(
            judge[order], places, xerr=errors, fmt="o", ms=4, color=ACCENT, lw=1.2, label="judge"
        )
        axes.plot(human[order], places, "D", ms=4, color=SECOND, label="people")
        axes.set_yticks(places, [names[i][:28] for i in order])
        axes.set_xlabel("mean rating")
        axes.legend(frameon=False, labelcolor=INK)

    label = f"{name}: mean judge score and mean human rating of {len(names)} systems"
    return _svg(_single(draw), label, (6.0, 1.2 + 0.26 * len(names)))


def search_path(calls: Sequence[int], dev: Sequence[float], seed: float, name: str) -> str:
    """The best dev rho so far over judge calls spent, beside every trial."""
    best = np.maximum.accumulate(np.asarray(dev, dtype=float))

    def draw(axes: "Axes") -> None:
        axes.plot(calls, dev, "o", ms=3.5, color=FAINT, label="a trial")
        axes.step(calls, best, where="post", color=ACCENT, lw=1.8, label="best so far")
        axes.axhline(seed, color=SECOND, lw=1.2, ls="--", label="seed")
        axes.set_xlabel("judge calls")
        axes.set_ylabel("rho in the search")
        axes.legend(frameon=False, labelcolor=INK)

    label = f"{name}: Spearman's rho of {len(dev)} trials over the calls spent"
    return _svg(_single(draw), label, (6.0, 3.0))


def confusion(judge: Vector, human: Vector, scale: Sequence[int], name: str) -> str:
    """Counts of outputs by nearest scale rating of people (columns) and judge (rows)."""
    seen = ~np.isnan(judge)
    ratings = np.asarray(scale, dtype=float)

    def place(values: Vector) -> NDArray[np.intp]:
        nearest: NDArray[np.intp] = np.abs(values[:, None] - ratings[None, :]).argmin(axis=1)
        return nearest

    counts = np.zeros((ratings.size, ratings.size), dtype=int)
    np.add.at(counts, (place(judge[seen]), place(human[seen])), 1)

    def draw(axes: "Axes") -> None:
        share = counts / max(counts.max(), 1)
        for row, column in np.ndindex(counts.shape):
            axes.add_patch(_square(column, row, alpha=0.08 + 0.72 * float(share[row, column])))
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=INK)
        axes.set_xlim(-0.5, ratings.size - 0.5)
        axes.set_ylim(-0.5, ratings.size - 0.5)
        axes.set_xticks(range(ratings.size), [str(rating) for rating in scale])
        axes.set_yticks(range(ratings.size), [str(rating) for rating in scale])
        axes.set_xlabel("people, nearest rating")
        axes.set_ylabel("judge, nearest rating")

    exact = int(np.trace(counts))
    label = (
        f"{name}: nearest ratings of judge and people, {exact} of {counts.sum()} on the diagonal"
    )
    return _svg(_single(draw), label, (4.6, 4.0))


def bars(values: Mapping[str, float], xlabel: str, name: str) -> str:
    """Labelled horizontal bars, such as the judge beside its human ceiling."""

    def draw(axes: "Axes") -> None:
        places = np.arange(len(values))[::-1]
        axes.barh(places, list(values.values()), color=ACCENT, height=0.6)
        axes.set_yticks(places, list(values))
        for place, value in zip(places, values.values(), strict=True):
            axes.text(max(value, 0), place, f" {value:.3f}", va="center", color=INK)
        axes.set_xlabel(xlabel)
        axes.axvline(0, color=INK, lw=0.8)
        axes.margins(x=0.15)

    told = ", ".join(f"{key} {value:.3f}" for key, value in values.items())
    return _svg(_single(draw), f"{name}: {told}", (6.0, 0.9 + 0.45 * len(values)))


def _square(column: int, row: int, alpha: float) -> "Rectangle":
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, color=ACCENT, alpha=alpha, lw=0)


def _single(draw: "Callable[[Axes], None]") -> "Callable[[Figure], None]":
    def whole(figure: "Figure") -> None:
        axes = figure.add_subplot()
        draw(axes)
        _plain(axes)

    return whole


def _plain(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def _svg(draw: "Callable[[Figure], None]", label: str, size: tuple[float, float]) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",
        # Element ids come from the salt: unique on the page, equal on every run.
        "svg.hashsalt": label,
        "font.size": 10,
        "font.family": "sans-serif",
    }
    with mpl.rc_context(style):  # type: ignore[arg-type]
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        sheet = io.StringIO()
        figure.savefig(sheet, format="svg", transparent=True, metadata={"Date": None})
    drawing = sheet.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    for stand_in, variable in VARIABLES.items():
        drawing = drawing.replace(stand_in, variable)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"font-family: [^;\"]*", "font-family: inherit", drawing)
    drawing = re.sub(r"font: (\d+)px [^;\"]*", r"font-size: \1px", drawing)
    head = re.match(r"<svg[^>]*>", drawing)
    assert head is not None
    box = re.search(r'viewBox="[^"]*"', head.group())
    assert box is not None
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-label={quoteattr(label)}><title>{escape(label)}</title>'
    )
    return opened + drawing[head.end() :]
