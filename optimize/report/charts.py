"""The report's charts: each one self-contained SVG by matplotlib, with an accessible name.

Colours are handed to the page as CSS variables, so that one drawing serves light, dark and print.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from optimize.figures import abbreviated_names, with_interval
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def scatter(judge: Vector, human: Vector, name: str, rng: np.random.Generator) -> str:
    """Human rating against judge score, jittered; failed outputs are absent."""
    scored = ~np.isnan(judge)
    judge, human = judge[scored], human[scored]
    points = np.sort(rng.permutation(human.size)[:MAX_POINTS])

    def draw(axes: "Axes") -> None:
        alpha = float(np.clip(20 / np.sqrt(max(points.size, 1)), 0.15, 0.6))
        x, y = _jittered(human, rng)[points], _jittered(judge, rng)[points]
        axes.scatter(x, y, s=12, color=ACCENT, alpha=alpha, lw=0)
        axes.set_xlabel("mean human rating")
        axes.set_ylabel("judge's score")

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


def systems(names: Sequence[str], judge: Vector, human: Vector, name: str) -> str:
    """Each system's mean judge score beside people's mean.

    Past forty systems, the forty on which judge and people differ most in rank.
    """
    ranks = np.argsort(np.argsort(human)) - np.argsort(np.argsort(judge))
    farthest = np.argsort(-np.abs(ranks), kind="stable")[:MAX_SYSTEMS]
    order = farthest[np.argsort(human[farthest], kind="stable")]

    def draw(axes: "Axes") -> None:
        positions = np.arange(len(order))
        axes.plot(judge[order], positions, "o", ms=5, color=ACCENT, label="judge")
        axes.plot(human[order], positions, "D", ms=5, color=SECOND, label="people")
        axes.set_yticks(positions, abbreviated([names[i] for i in order]))
        axes.set_ylim(-0.7, len(order) - 0.3)
        axes.set_xlabel("mean rating")
        _legend(axes, 2)

    label = f"{name}: mean judge score and mean human rating of {len(names)} systems"
    return _svg(draw, label, 1.2 + 0.24 * len(order))


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
    return _svg(draw, label, 4.0)


def shares(rows: Mapping[str, Point], xlabel: str, name: str, people: str) -> str:
    """Shares of pairs with their intervals, beside a coin's half; the first one is filled.

    `people` is the row that is theirs.
    """

    def draw(axes: "Axes") -> None:
        ends = [end for value, interval in rows.values() for end in _span(value, interval)]
        axes.set_xlim(min(0.45, min(ends) - 0.03), 1.0)
        axes.set_yticks(range(len(rows))[::-1], abbreviated(list(rows), 24))
        for position, (key, (value, interval)) in enumerate(reversed(list(rows.items()))):
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

    return _svg(draw, f"{name}, {xlabel}: {_described(rows)}", 1.1 + 0.42 * len(rows))


def _span(value: float, interval: Interval | None) -> tuple[float, float]:
    return _ends(interval) if interval else (value, value)


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
    return _svg(draw, f"{ylabel} over {xlabel}: {described}", 3.2)


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


def _svg(draw: "Callable[[Axes], None]", label: str, height: float) -> str:
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
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        _plain(axes)
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
