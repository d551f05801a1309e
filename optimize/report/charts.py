"""The report's charts, as positions that the page's template draws: no script, no library."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from judges.judgement import Preference
from optimize.figures.as_text import number_text, share_text
from optimize.measuring.scored import Scored
from optimize.statistics.intervals import Figure, IntervalEstimate, Vector

# Outputs that are drawn, evenly over all.
MAX_DOTS = 1000
# Room at both ends of an axis, as a share of its length.
MARGIN = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """Rows of (name, mark, ends of the interval, figure in words); `line` is a coin's place.

    Places are in percent of the axis; a row without an interval has no ends.
    """

    rows: Sequence[tuple[str, float, Sequence[float], str]]
    ticks: Sequence[tuple[float, str]]
    caption: str
    line: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixChart:
    """How many outputs people (rows) and the judge (columns) gave each word, passes first.

    `rows` has people's word, then (count, share of the row) for each word of the judge.
    """

    words: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[int, str, float]]]]
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


Chart = RowChart | MatrixChart | DotChart


def pictures(scored: Scored) -> list[Chart]:
    """The pictures of one judge: of verdicts, of ratings, or of pairs; and of its systems."""
    if np.isnan(scored.scores).all():
        return []
    if scored.is_pairs:
        return _pairs(scored)
    return [_matrix(scored) if scored.is_binary else _ratings(scored), *_systems(scored)]


def _matrix(scored: Scored) -> MatrixChart:
    people, judge, words = scored.human, scored.passes, scored.words
    rows = []
    for value, word in zip((1, 0), words, strict=True):
        counts = [int(((people == value) & (judge == said)).sum()) for said in (1, 0)]
        shares = [count / max(1, sum(counts)) for count in counts]
        rows.append((word, [(n, f"{s:.0%}", s) for n, s in zip(counts, shares, strict=True)]))
    caption = "Outputs by what people and the judge say; shares are of what people say."
    return MatrixChart(words=words, rows=rows, caption=caption)


def _ratings(scored: Scored) -> DotChart:
    rows = np.flatnonzero(~np.isnan(scored.scores))
    shown = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_DOTS)).astype(int)]
    some = f" {shown.size:,} of {rows.size:,} are drawn." if shown.size < rows.size else ""
    what = f"Each dot is an output.{some}"
    return _dots(scored, scored.human[shown], scored.scores[shown], [""] * shown.size, what)


def _systems(scored: Scored) -> list[DotChart]:
    """People's mean of each system beside the judge's, where there are systems."""
    systems = np.array(scored.systems)
    judge = scored.passes if scored.is_binary else scored.scores
    names = [n for n in scored.items.systems if not np.isnan(judge[systems == n]).all()]
    if len(names) < 2:
        return []
    people = np.array([scored.human[systems == name].mean() for name in names])
    means = np.array([np.nanmean(judge[systems == name]) for name in names])
    what = f"Each dot is a system's {'share of passes' if scored.is_binary else 'mean'}."
    return [_dots(scored, people, means, names, what)]


def _dots(
    scored: Scored, people: Vector, judge: Vector, names: Sequence[str], what: str
) -> DotChart:
    """Both sides on one scale with its diagonal, or each on its own where they share none."""
    is_one = scored.is_binary or scored.within_scale
    both = np.concatenate([people, judge])
    x_axis, y_axis = (_Axis.of(each) for each in ((both, both) if is_one else (people, judge)))
    spread = float(np.sqrt(np.mean((judge - people) ** 2)))
    ends = (x_axis.start, x_axis.start + x_axis.length)
    corners = [(end, end + side * spread) for side in (1, -1) for end in ends[::side]]
    if is_one:
        what += " On the line both say the same; the band is the usual distance from it."
    return DotChart(
        dots=[
            (x_axis.percent(x), y_axis.percent(y), name)
            for x, y, name in zip(people, judge, names, strict=True)
        ],
        x_ticks=x_axis.ticks(number_of),
        y_ticks=y_axis.ticks(number_of),
        band=[(x_axis.percent(x), y_axis.percent(y)) for x, y in corners] if is_one else [],
        caption=what,
    )


def _pairs(scored: Scored) -> list[Chart]:
    """How often the judge decides as people do, by how clear they are and by what came first."""
    human, judge = scored.human, scored.scores
    verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
    orders = np.array([(each.margin_ab, each.margin_ba) for each in verdicts])
    people = np.abs(human)
    parts = {
        "annotators agree": (judge, people == 1),
        "annotators differ": (judge, (people > 0) & (people < 1)),
        "A shown first": (orders[:, 0], people > 0),
        "B shown first": (orders[:, 1], people > 0),
    }
    shares, words = dict[str, Figure](), list[str]()
    for name, (margin, rows) in parts.items():
        answered = rows & ~np.isnan(margin)
        if n := int(answered.sum()):
            right = (1 + np.sign(margin[answered]) * np.sign(human[answered])) / 2
            shares[name] = IntervalEstimate(float(right.mean()), None)
            words.append(f"{right.mean():.0%} of {n:,}")
    caption = "Pairs decided as people do, a tie being half right; the dashed line is a coin."
    chart = _row_chart(shares, words, share_text, caption, line=0.5)
    return [chart] if chart else []


def costs(figures: Mapping[str, tuple[Figure, str]], symbol: str) -> RowChart | None:
    """Each judge's figure with its interval, and what 1,000 rows cost; None without a figure."""
    known = {name: each for name, (each, _) in figures.items() if not math.isnan(each.value)}
    words = (f"{number_text(each.value)}, {figures[name][1]}" for name, each in known.items())
    caption = f"Each judge's {symbol} with its 95% interval, and the cost of 1,000 rows."
    return _row_chart(known, words, number_of, caption)


def _row_chart(
    known: Mapping[str, Figure],
    words: Iterable[str],
    tick: Callable[[float], str],
    caption: str,
    line: float | None = None,
) -> RowChart | None:
    if not known:
        return None
    values = [each.value for each in known.values()]
    intervals = [each.interval for each in known.values()]
    ends = [[interval.low, interval.high] if interval else [] for interval in intervals]
    axis = _Axis.of([*values, *chain(*ends), *([] if line is None else [line, 1.0])])
    return RowChart(
        rows=[
            (name, axis.percent(value), [*map(axis.percent, own)], text)
            for name, value, own, text in zip(known, values, ends, words, strict=True)
        ],
        ticks=axis.ticks(tick),
        caption=caption,
        line=None if line is None else axis.percent(line),
    )


class _Axis(NamedTuple):
    """Where an axis starts, and how long it is, with room at both ends."""

    start: float
    length: float

    @classmethod
    def of(cls, held: Iterable[float]) -> "_Axis":
        held = [*map(float, held)]
        room = MARGIN * (max(held) - min(held)) or 0.5
        return cls(min(held) - room, max(held) - min(held) + 2 * room)

    def percent(self, value: float) -> float:
        return round(100 * (float(value) - self.start) / self.length, 2)

    def ticks(self, text: Callable[[float], str]) -> list[tuple[float, str]]:
        """Three to six round numbers."""
        start, length = self
        size = 10.0 ** np.floor(np.log10(length / 5))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= length / 5)
        places = np.arange(np.ceil(start / step), np.floor((start + length) / step) + 1) * step
        return [(self.percent(place), text(round(float(place), 6) + 0.0)) for place in places]


def number_of(value: float) -> str:
    return f"{value:g}"
