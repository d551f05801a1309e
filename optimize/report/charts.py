"""The report's charts, as positions in percent, which the page's template draws as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from judges.judgement import Preference
from optimize.figures.as_text import number_text, share_text
from optimize.measuring.scored import Scored
from optimize.report.answer import Table
from optimize.statistics.intervals import Figure, Vector

# Upper bound on the dots; if there are more outputs, a regular sample is drawn.
MAX_DOTS = 1000
# The margin at both ends of an axis, as a share of the range of values.
MARGIN = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """A chart with a row for each figure; positions are in percent of the axis.

    A row has a name, a mark, the two ends of the interval (if there is one), and a text.
    """

    rows: Sequence[tuple[str, float, Sequence[float], str]]
    ticks: Sequence[tuple[float, str]]
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart:
    """A chart of dots (x, y, name): people's value is x, the judge's is y, in percent of the axes.

    `band` has the corners of a band around the diagonal, if both use the same scale.
    """

    dots: Sequence[tuple[float, float, str]]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    band: Sequence[tuple[float, float]]
    caption: str


Chart = RowChart | DotChart


def dot_charts(scored: Scored) -> list[DotChart]:
    """Charts of a judge's ratings against people's, and of system means; none for pairs."""
    if scored.is_pairs or np.isnan(scored.scores).all():
        return []
    return [*([] if scored.is_binary else [_rating_chart(scored)]), *_system_charts(scored)]


def count_table(scored: Scored) -> Table:
    """A table of how often the judge decides as people do; without rows for ratings."""
    if scored.is_pairs:
        return _pair_table(scored)
    rows = []
    for people, word in zip((1, 0), scored.words, strict=True) if scored.is_binary else ():
        judge = scored.passes[scored.human == people]
        numbers = [int((judge == verdict).sum()) for verdict in (1, 0)]
        total = max(1, sum(numbers))
        rows.append((word, *(f"{number:,} ({share_text(number / total)})" for number in numbers)))
    head = ("people say", *(f"the judge says {word}" for word in scored.words))
    return Table(head, rows, "Outputs by what people and the judge say." if rows else "")


def _rating_chart(scored: Scored) -> DotChart:
    rows = np.flatnonzero(~np.isnan(scored.scores))
    shown = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_DOTS)).astype(int)]
    caption = "Each dot is an output."
    if shown.size < rows.size:
        caption += f" {shown.size:,} of {rows.size:,} are drawn."
    return _dot_chart(scored, scored.human[shown], scored.scores[shown], [""] * shown.size, caption)


def _system_charts(scored: Scored) -> list[DotChart]:
    """A chart of people's and the judge's mean for each system, if there are two or more."""
    systems = np.array(scored.systems)
    judge = scored.passes if scored.is_binary else scored.scores
    names = [n for n in scored.items.systems if not np.isnan(judge[systems == n]).all()]
    if len(names) < 2:
        return []
    people = np.array([scored.human[systems == name].mean() for name in names])
    means = np.array([np.nanmean(judge[systems == name]) for name in names])
    caption = f"Each dot is a system's {'share of passes' if scored.is_binary else 'mean'}."
    return [_dot_chart(scored, people, means, names, caption)]


def _dot_chart(
    scored: Scored, people: Vector, judge: Vector, names: Sequence[str], caption: str
) -> DotChart:
    """Draw people and judge on one scale with a diagonal, or on two axes if scales differ."""
    x_axis, y_axis, band = _Axis.of(people), _Axis.of(judge), list[tuple[float, float]]()
    if scored.is_binary or scored.within_scale:
        x_axis = y_axis = _Axis.of([*people, *judge])
        spread = 100 * float(np.sqrt(np.mean((judge - people) ** 2))) / x_axis.length
        band = [(0, spread), (100, 100 + spread), (100, 100 - spread), (0, -spread)]
        caption += " On the line, judge and people agree; the band is the usual distance from it."
    return DotChart(
        dots=[
            (x_axis.percent(x), y_axis.percent(y), name)
            for x, y, name in zip(people, judge, names, strict=True)
        ],
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        band=band,
        caption=caption,
    )


def _pair_table(scored: Scored) -> Table:
    """How often the judge decides as people do, by annotators' agreement and by order."""
    human, clear = scored.human, np.abs(scored.human)
    verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
    first_a, first_b = np.array([(each.margin_ab, each.margin_ba) for each in verdicts]).T
    parts = {
        "annotators agree": (scored.scores, clear == 1),
        "annotators differ": (scored.scores, (clear > 0) & (clear < 1)),
        "A shown first": (first_a, clear > 0),
        "B shown first": (first_b, clear > 0),
    }
    rows = []
    for name, (margin, chosen) in parts.items():
        answered = chosen & ~np.isnan(margin)
        if answered.any():
            right = (1 + np.sign(margin[answered] * human[answered])) / 2
            rows.append((name, share_text(right.mean()), f"{right.size:,}"))
    caption = "Pairs decided as people do; a tie is half right, and a coin reaches 50%."
    return Table(("pairs where", "as people do", "pairs"), rows, caption)


def cost_charts(rows: Sequence[tuple[str, Figure, str]], symbol: str) -> list[RowChart]:
    """A chart of judges with their figures and prices; `rows` has name, figure and price."""
    defined = [row for row in rows if not math.isnan(row[1].value)]
    if not defined:
        return []
    figures = [figure for _, figure, _ in defined]
    ends = [(each.interval.low, each.interval.high) if each.interval else () for each in figures]
    axis = _Axis.of([*(figure.value for figure in figures), *chain(*ends)])
    chart = RowChart(
        rows=[
            (
                name,
                axis.percent(figure.value),
                [*map(axis.percent, interval)],
                f"{number_text(figure.value)}, {price}",
            )
            for (name, figure, price), interval in zip(defined, ends, strict=True)
        ],
        ticks=axis.ticks(),
        caption=f"Each judge's {symbol} with its 95% interval, and the cost of 1,000 rows.",
    )
    return [chart]


class _Axis(NamedTuple):
    """The start and the length of an axis, with a margin at both ends."""

    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float] | Vector) -> "_Axis":
        low, high = float(min(values)), float(max(values))
        margin = MARGIN * (high - low) or 0.5
        return cls(low - margin, high - low + 2 * margin)

    def percent(self, value: float) -> float:
        return round(100 * (float(value) - self.start) / self.length, 2)

    def ticks(self) -> list[tuple[float, str]]:
        """The positions and texts of three to six round numbers."""
        start, length = self
        size = 10.0 ** np.floor(np.log10(length / 5))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= length / 5)
        places = np.arange(np.ceil(start / step), np.floor((start + length) / step) + 1) * step
        return [(self.percent(place), f"{round(float(place), 6) + 0.0:g}") for place in places]
