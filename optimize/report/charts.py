"""The report's charts, as positions that the page's template draws: no script, no library."""

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

# Outputs that are drawn, evenly over all.
MAX_DOTS = 1000
# Room at both ends of an axis, as a share of its length.
MARGIN = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """Rows of (name, mark, ends of the interval, figure in words), in percent of the axis.

    A row without an interval has no ends.
    """

    rows: Sequence[tuple[str, float, Sequence[float], str]]
    ticks: Sequence[tuple[float, str]]
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart:
    """Dots of (x, y, name), people to the right and the judge upwards, in percent of the axes.

    `band` are the corners of the diagonal's spread, empty where the sides share no scale.
    """

    dots: Sequence[tuple[float, float, str]]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    band: Sequence[tuple[float, float]]
    caption: str


Chart = RowChart | DotChart


def pictures(scored: Scored) -> list[DotChart]:
    """The ratings of one judge beside people's, and its systems; none of pairs."""
    if scored.is_pairs or np.isnan(scored.scores).all():
        return []
    return [*([] if scored.is_binary else [_ratings(scored)]), *_systems(scored)]


def counts(scored: Scored) -> Table:
    """How often the judge decides as people do: by their word, or by how clear a pair is."""
    if scored.is_pairs:
        return _pairs(scored)
    rows = []
    for people, word in zip((1, 0), scored.words, strict=True) if scored.is_binary else ():
        judge = scored.passes[scored.human == people]
        numbers = [int((judge == verdict).sum()) for verdict in (1, 0)]
        total = max(1, sum(numbers))
        rows.append((word, *(f"{number:,} ({share_text(number / total)})" for number in numbers)))
    head = ("people say", *(f"the judge says {word}" for word in scored.words))
    return Table(head, rows, "Outputs by what people and the judge say." if rows else "")


def _ratings(scored: Scored) -> DotChart:
    rows = np.flatnonzero(~np.isnan(scored.scores))
    shown = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_DOTS)).astype(int)]
    caption = "Each dot is an output."
    if shown.size < rows.size:
        caption += f" {shown.size:,} of {rows.size:,} are drawn."
    return _dots(scored, scored.human[shown], scored.scores[shown], [""] * shown.size, caption)


def _systems(scored: Scored) -> list[DotChart]:
    """People's mean of each system beside the judge's, where there are systems."""
    systems = np.array(scored.systems)
    judge = scored.passes if scored.is_binary else scored.scores
    names = [n for n in scored.items.systems if not np.isnan(judge[systems == n]).all()]
    if len(names) < 2:
        return []
    people = np.array([scored.human[systems == name].mean() for name in names])
    means = np.array([np.nanmean(judge[systems == name]) for name in names])
    caption = f"Each dot is a system's {'share of passes' if scored.is_binary else 'mean'}."
    return [_dots(scored, people, means, names, caption)]


def _dots(
    scored: Scored, people: Vector, judge: Vector, names: Sequence[str], caption: str
) -> DotChart:
    """Both sides on one scale with its diagonal, or each on its own where they share none."""
    x_axis, y_axis, band = _Axis.of(people), _Axis.of(judge), list[tuple[float, float]]()
    if scored.is_binary or scored.within_scale:
        x_axis = y_axis = _Axis.of([*people, *judge])
        spread = 100 * float(np.sqrt(np.mean((judge - people) ** 2))) / x_axis.length
        band = [(0, spread), (100, 100 + spread), (100, 100 - spread), (0, -spread)]
        caption += " On the line both say the same; the band is the usual distance from it."
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


def _pairs(scored: Scored) -> Table:
    """By how clear people's choice is, and by what came first."""
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
    return Table(("where", "as people do", "pairs"), rows, caption)


def costs(rows: Sequence[tuple[str, Figure, str]], symbol: str) -> list[RowChart]:
    """Each judge's name, figure with its interval, and price; none without a figure."""
    known = [row for row in rows if not math.isnan(row[1].value)]
    if not known:
        return []
    figures = [figure for _, figure, _ in known]
    ends = [(one.interval.low, one.interval.high) if one.interval else () for one in figures]
    axis = _Axis.of([*(figure.value for figure in figures), *chain(*ends)])
    chart = RowChart(
        rows=[
            (
                name,
                axis.percent(figure.value),
                [*map(axis.percent, own)],
                f"{number_text(figure.value)}, {price}",
            )
            for (name, figure, price), own in zip(known, ends, strict=True)
        ],
        ticks=axis.ticks(),
        caption=f"Each judge's {symbol} with its 95% interval, and the cost of 1,000 rows.",
    )
    return [chart]


class _Axis(NamedTuple):
    """Where an axis starts, and how long it is, with room at both ends."""

    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float] | Vector) -> "_Axis":
        low, high = float(min(values)), float(max(values))
        room = MARGIN * (high - low) or 0.5
        return cls(low - room, high - low + 2 * room)

    def percent(self, value: float) -> float:
        return round(100 * (float(value) - self.start) / self.length, 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Three to six round numbers."""
        start, length = self
        size = 10.0 ** np.floor(np.log10(length / 5))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= length / 5)
        places = np.arange(np.ceil(start / step), np.floor((start + length) / step) + 1) * step
        return [(self.percent(place), f"{round(float(place), 6) + 0.0:g}") for place in places]
