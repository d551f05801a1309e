"""The report's charts: each one self-contained SVG by matplotlib, with an accessible name.

Colours are handed to the page as CSS variables, so that one drawing serves light, dark and print.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from optimize.figures import abbreviated_names, with_interval
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins that matplotlib draws with; the page's style sheet says what they look like.
INK, FAINT, ACCENT, SECOND = "#010203", "#040506", "#070809", "#0a0b0c"
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
}
# Inches; the page shows it as wide as a phone and up to a third wider than a column of text needs.
WIDTH = 4.8
MAX_SYSTEMS = 40
MAX_POINTS = 3000

Places = NDArray[np.intp]
# A figure and its interval, where there is one.
Point = tuple[float, Interval | None]


def scatter(
    judge: Vector,
    human: Vector,
    name: str,
    rng: np.random.Generator,
    scale: tuple[float, float] | None = None,
) -> str:
    """Human rating against judge score, jittered, with marginals; failed outputs are absent.

    Where both sides share a `scale` (its ends), so do the axes, and the diagonal is drawn.
    """
    from matplotlib.ticker import MaxNLocator

    scored = ~np.isnan(judge)
    judge, human = judge[scored], human[scored]
    points = np.sort(rng.permutation(human.size)[:MAX_POINTS])

    def draw(figure: "Figure") -> None:
        grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 5), wspace=0.04)
        main = figure.add_subplot(grid[1, 0])
        alpha = float(np.clip(20 / np.sqrt(max(points.size, 1)), 0.15, 0.6))
        x, y = _jittered(human, rng)[points], _jittered(judge, rng)[points]
        main.scatter(x, y, s=12, color=ACCENT, alpha=alpha, lw=0)
        main.set_xlabel("mean human rating")
        main.set_ylabel("judge's score")
        top = figure.add_subplot(grid[0, 0], sharex=main)
        top.hist(human, bins=24, color=FAINT)
        side = figure.add_subplot(grid[1, 1], sharey=main)
        side.hist(judge, bins=24, orientation="horizontal", color=FAINT)
        for marginal in (top, side):
            marginal.axis("off")
        _plain(main)
        if scale is not None:
            margin = 0.06 * (scale[1] - scale[0])
            limits = scale[0] - margin, scale[1] + margin
            main.set(xlim=limits, ylim=limits)
            for axis in (main.xaxis, main.yaxis):
                axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=scale[1] <= 10))
            main.plot(scale, scale, color=SECOND, lw=1.2, ls="--")

    label = f"{name}: judge's score against mean human rating for {human.size} outputs"
    return _svg(draw, label, 4.0)


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
    rhos = np.sort(rhos[~np.isnan(rhos)])

    def draw(axes: "Axes") -> None:
        positions = np.arange(rhos.size)
        if rhos.size <= 80:
            axes.bar(positions, rhos, width=0.85, color=ACCENT)
        else:
            axes.fill_between(positions, rhos, step="mid", color=ACCENT, lw=0)
        axes.axhline(mean, color=SECOND, lw=1.5)
        axes.axhline(0, color=INK, lw=0.8)
        axes.set_xlabel("documents, from least to most agreement")
        axes.set_ylabel("Spearman's rho")
        axes.set_xticks([])

    below = int((rhos < 0).sum())
    label = (
        f"{name}: Spearman's rho within each of {rhos.size} documents, mean {mean:.3f}, "
        f"{below} below zero"
    )
    return _svg(_single(draw), label, 2.6)


def systems(
    names: Sequence[str],
    judge: Vector,
    judge_interval: NDArray[np.float64],
    human: Vector,
    name: str,
) -> str:
    """Each system's mean judge score with its interval (rows: low, high) beside people's mean.

    Past forty systems, the forty on which judge and people differ most in rank.
    """
    ranks = np.argsort(np.argsort(human)) - np.argsort(np.argsort(judge))
    farthest = np.argsort(-np.abs(ranks), kind="stable")[:MAX_SYSTEMS]
    order = farthest[np.argsort(human[farthest], kind="stable")]

    def draw(axes: "Axes") -> None:
        positions = np.arange(len(order))
        errors = np.abs(judge_interval[order].T - judge[order])
        axes.errorbar(
            judge[order], positions, xerr=errors, fmt="o", ms=4, color=ACCENT, lw=1.2, label="judge"
        )
        axes.plot(human[order], positions, "D", ms=4, color=SECOND, label="people")
        axes.set_yticks(positions, abbreviated([names[i] for i in order]))
        axes.set_ylim(-0.7, len(order) - 0.3)
        axes.set_xlabel("mean rating")
        _legend(axes, 2)

    label = f"{name}: mean judge score and mean human rating of {len(names)} systems"
    return _svg(_single(draw), label, 1.2 + 0.24 * len(order))


def confusion(judge: Places, human: Places, labels: Sequence[str], name: str) -> str:
    """Counts of outputs by their index in `labels` of people's (columns) and judge's (rows)."""
    from matplotlib.patches import Rectangle

    counts = np.zeros((len(labels), len(labels)), dtype=int)
    np.add.at(counts, (judge, human), 1)

    def draw(axes: "Axes") -> None:
        share = counts / max(counts.max(), 1)
        for row, column in np.ndindex(counts.shape):
            square = Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, color=ACCENT, lw=0)
            square.set_alpha(0.08 + 0.62 * float(share[row, column]))
            axes.add_patch(square)
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
    return _svg(_single(draw), label, 4.0)


def forest(
    rows: Mapping[str, tuple[Point | None, Point | None]], sides: tuple[str, str], xlabel: str
) -> str:
    """Two judges on each split, with intervals: the first hollow, the second filled."""
    styles = ((SECOND, "none"), (ACCENT, ACCENT))

    def draw(axes: "Axes") -> None:
        for position, pair in enumerate(reversed(list(rows.values()))):
            for point, offset, (colour, fill) in zip(pair, (0.14, -0.14), styles, strict=True):
                if point is None:
                    continue
                value, interval = point
                if interval is not None:
                    axes.plot(
                        _ends(interval),
                        (position + offset, position + offset),
                        color=colour,
                        lw=1.6,
                    )
                axes.plot(
                    value, position + offset, "o", ms=6, color=colour, markerfacecolor=fill, mew=1.6
                )
        for side, (colour, fill) in zip(sides, styles, strict=True):
            axes.plot([], [], "o", ms=6, color=colour, markerfacecolor=fill, mew=1.6, label=side)
        axes.axvline(0, color=FAINT, lw=0.8)
        axes.set_yticks(range(len(rows)), abbreviated(list(reversed(list(rows)))))
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel(xlabel)
        _legend(axes, 2)

    description = "; ".join(
        f"{split}: {_described(dict(zip(sides, pair, strict=True)))}"
        for split, pair in rows.items()
    )
    return _svg(_single(draw), f"{xlabel}: {description}", 1.1 + 0.5 * len(rows))


def bars(rows: Mapping[str, Point], xlabel: str, name: str) -> str:
    """Labelled horizontal bars, such as the judge beside its human ceiling."""

    def draw(axes: "Axes") -> None:
        for position, _, (value, interval) in _placed(axes, rows, 28):
            axes.barh(position, value, color=ACCENT, height=0.55, alpha=0.75, lw=0)
            if interval is not None:
                axes.plot(_ends(interval), (position, position), color=INK, lw=1.4)
            right = max(value, interval.high if interval else value, 0)
            _note(axes, f"{value:.3f}", (right, position), (5, 0), va="center")
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel(xlabel)
        axes.axvline(0, color=INK, lw=0.8)
        axes.margins(x=0.18)

    return _svg(_single(draw), f"{name}: {_described(rows)}", 0.9 + 0.34 * len(rows))


def shares(rows: Mapping[str, Point], xlabel: str, name: str, people: str) -> str:
    """Shares of pairs with their intervals, beside a coin's half; the first one is filled.

    `people` is the row that is theirs.
    """

    def draw(axes: "Axes") -> None:
        ends = [end for value, interval in rows.values() for end in _span(value, interval)]
        axes.set_xlim(min(0.45, min(ends) - 0.03), 1.0)
        for position, key, (value, interval) in _placed(axes, rows, 24):
            colour = SECOND if key == people else ACCENT
            fill = colour if position == len(rows) - 1 else "none"
            axes.plot(_span(value, interval), (position, position), color=colour, lw=2)
            axes.plot(value, position, "o", ms=7, color=colour, markerfacecolor=fill, mew=1.6)
            _note(axes, f"{value:.0%}", (value, position), (0, 7), ha="center")
        axes.axvline(0.5, color=FAINT, lw=1.2, ls="--")
        _note(axes, "a coin", (0.5, len(rows) - 0.5), (3, 0))
        axes.set_ylim(-0.5, len(rows) - 0.15)
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.set_xlabel(xlabel)

    return _svg(_single(draw), f"{name}, {xlabel}: {_described(rows)}", 1.1 + 0.42 * len(rows))


def _placed(
    axes: "Axes", rows: Mapping[str, Point], length: int
) -> Iterator[tuple[int, str, Point]]:
    """Name the rows on the y-axis, from top to bottom, and yield each one's place, name, point."""
    places = range(len(rows))[::-1]
    axes.set_yticks(places, abbreviated(list(rows), length))
    yield from zip(places, rows, rows.values(), strict=True)


def _span(value: float, interval: Interval | None) -> tuple[float, float]:
    return _ends(interval) if interval else (value, value)


def shifts(rows: Mapping[str, Point], control: str, xlabel: str, name: str) -> str:
    """How far each attack moves the scores, with intervals; the control's line is hollow."""

    def draw(axes: "Axes") -> None:
        for position, key, (value, interval) in _placed(axes, rows, 28):
            colour, fill = (SECOND, "none") if key == control else (ACCENT, ACCENT)
            if interval is not None:
                axes.plot(_ends(interval), (position, position), color=colour, lw=1.4)
            axes.plot(value, position, "o", ms=5, color=colour, markerfacecolor=fill, mew=1.4)
        axes.axvline(0, color=INK, lw=0.8)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel(xlabel)

    return _svg(_single(draw), f"{name}: {_described(rows)}", 0.9 + 0.24 * len(rows))


def search_path(calls: Sequence[int], rhos: Sequence[float], seed: float, name: str) -> str:
    """The best rho so far over judge calls spent, beside every trial."""
    best = np.maximum.accumulate(np.asarray(rhos, dtype=float))

    def draw(axes: "Axes") -> None:
        axes.plot(calls, rhos, "o", ms=3.5, color=FAINT, label="a trial")
        axes.step(calls, best, where="post", color=ACCENT, lw=1.8, label="best so far")
        axes.axhline(seed, color=SECOND, lw=1.2, ls="--", label="seed")
        axes.set_xlabel("judge calls")
        axes.set_ylabel("rho less the seed's" if seed == 0 else "rho in the search")
        _legend(axes, 3)

    label = f"{name}: rho of {len(rhos)} trials over the calls spent, best {best.max():.3f}"
    return _svg(_single(draw), label, 2.8)


def pareto(rows: Mapping[str, tuple[float, Point, bool]], xlabel: str, ylabel: str) -> str:
    """Figures over cost: each row's cost, point with interval, and whether it is on the front.

    Rows are known by the first word of their keys. Costs are on a logarithmic scale, on which 0
    has a place of its own.
    """

    def draw(axes: "Axes") -> None:
        front = sorted((cost, point[0]) for cost, point, on_front in rows.values() if on_front)
        axes.plot(*zip(*front, strict=True), color=ACCENT, lw=1.2, drawstyle="steps-post")
        for key, (cost, (value, interval), on_front) in rows.items():
            colour, fill = (ACCENT, ACCENT) if on_front else (SECOND, "none")
            if interval is not None:
                axes.plot((cost, cost), _ends(interval), color=colour, lw=1.2, alpha=0.6)
            axes.plot(cost, value, "o", ms=6, color=colour, markerfacecolor=fill, mew=1.6)
            _note(axes, _printable(key.partition(" ")[0]), (cost, value), (6, 3))
        costs = [cost for cost, _, _ in rows.values() if cost > 0]
        if costs:
            axes.set_xscale("symlog", linthresh=min(costs), linscale=0.4)
            axes.set_xlim(left=-0.1 * min(costs) if len(costs) < len(rows) else min(costs) / 1.6)
            axes.set_xticks(*_cost_ticks(costs, len(costs) < len(rows)))
            axes.minorticks_off()
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.margins(x=0.1, y=0.12)

    described = _described({key: point for key, (_, point, _) in rows.items()})
    return _svg(_single(draw), f"{ylabel} over {xlabel}: {described}", 3.2)


def _cost_ticks(costs: Sequence[float], has_free: bool) -> tuple[list[float], list[str]]:
    """Powers of ten around the costs, and 0 where something is free."""
    low, high = (round(float(np.log10(end))) for end in (min(costs), max(costs)))
    ticks = [10.0**exponent for exponent in range(low, high + 1)]
    return (
        [0.0] * has_free + ticks,
        ["free"] * has_free + [f"\\${tick:g}" for tick in ticks],
    )


def _described(points: Mapping[str, Point | None]) -> str:
    """For a screen reader."""
    return ", ".join(
        f"{name} {'undefined' if point is None else with_interval(*point)}"
        for name, point in points.items()
    )


def _note(
    axes: "Axes", text: str, point: tuple[float, float], offset: tuple[int, int], **alignment: Any
) -> None:
    """Write beside a point; `offset` is in points of type."""
    options = {"textcoords": "offset points", "color": INK, **alignment}
    axes.annotate(text, point, xytext=offset, **options)


def _legend(axes: "Axes", columns: int) -> None:
    axes.figure.legend(loc="outside upper right", ncols=columns, frameon=False, labelcolor=INK)


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def _single(draw: "Callable[[Axes], None]") -> "Callable[[Figure], None]":
    """A figure of one chart."""

    def draw_figure(figure: "Figure") -> None:
        axes = figure.add_subplot()
        draw(axes)
        _plain(axes)

    return draw_figure


def _plain(axes: "Axes") -> None:
    """No frame on top and right, and axes in the colours of the page."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def abbreviated(names: Sequence[str], length: int = 22) -> list[str]:
    """Labels that leave room for the chart, and that matplotlib does not read as formulas."""
    return [_printable(name).replace("$", r"\$") for name in abbreviated_names(names, length)]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _styled(tag: str) -> str:
    """A tag in the page's colours and letters."""
    for stand_in, variable in VARIABLES.items():
        tag = tag.replace(stand_in, variable)
    # Every drawing numbers its groups from 1; no two things on a page may have one id.
    tag = re.sub(r'<g id="[^"]*"', "<g", tag)
    tag = re.sub(r"font-family: [^;\"]*", "font-family: inherit", tag)
    return re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)


def _svg(draw: "Callable[[Figure], None]", label: str, height: float, width: float = WIDTH) -> str:
    """Draw; `label` is what a screen reader says."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    label = _printable(label)
    style = {
        "svg.fonttype": "none",
        # Element ids come from the salt: unique on the page, equal on every run.
        "svg.hashsalt": label,
        "font.size": 9.5,
        "font.family": "sans-serif",
    }
    with mpl.rc_context(style), warnings.catch_warnings():  # type: ignore[arg-type]
        # The page's reader has fonts for names that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        sheet = io.StringIO()
        figure.savefig(sheet, format="svg", transparent=True, metadata={"Date": None})
    drawing = sheet.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<!--.*?-->", "", drawing, flags=re.DOTALL)
    # In tags alone: a system's name may read like any of this.
    drawing = re.sub(r"<[^>]*>", lambda tag: _styled(tag.group()), drawing)
    head = re.match(r"<svg[^>]*>", drawing)
    assert head is not None
    box = re.search(r'viewBox="[^"]*"', head.group())
    assert box is not None
    head_tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-label={quoteattr(label)}><title>{escape(label)}</title>'
    )
    return head_tag + drawing[head.end() :]
