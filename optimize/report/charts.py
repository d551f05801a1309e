"""The data of a page's charts, which its template draws as SVG; positions are in percent."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import numpy as np

from judges.judgement import Preference
from optimize.figures.as_text import number_text, share_text
from optimize.measuring.scored import ScoredItems
from optimize.report.answer import ReportTable
from optimize.statistics.intervals import Figure, Vector

# Upper bound on the dots in a chart: of more outputs, evenly spaced outputs are drawn.
MAX_DOTS = 1000
# The empty space at each end of an axis, as a share of the range of its values.
AXIS_MARGIN = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """A chart with a row for each judge: its name, figure, interval, and the figure as text.

    The figure and the ends of the interval are positions in percent of the axis. A row without an
    interval has no ends.
    """

    rows: Sequence[tuple[str, float, Sequence[float], str]]
    ticks: Sequence[tuple[float, str]]
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart:
    """A scatter plot: a dot has people's value (x), the judge's value (y) and a name, or "".

    Positions are in percent of the axes. `band` has the corners of a band around the diagonal; it
    is empty if people and the judge use different scales.
    """

    dots: Sequence[tuple[float, float, str]]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    band: Sequence[tuple[float, float]]
    caption: str


Chart = RowChart | DotChart


def dot_charts(scored: ScoredItems) -> list[DotChart]:
    """Return scatter plots of judge against people, by output and by system; none for pairs."""
    rows = np.flatnonzero(~np.isnan(scored.scores))
    if scored.is_pairs or not rows.size:
        return []
    if scored.has_verdicts:
        return _system_charts(scored)
    drawn = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_DOTS)).astype(int)]
    caption = "Each dot is an output."
    if drawn.size < rows.size:
        caption += f" {drawn.size:,} of {rows.size:,} are drawn."
    human, scores = scored.human[drawn], scored.scores[drawn]
    outputs = _dot_chart(scored, human, scores, [""] * drawn.size, caption)
    return [outputs, *_system_charts(scored)]


def count_table(scored: ScoredItems) -> ReportTable:
    """Return a table of how often the judge decides as people do; it has no rows for ratings."""
    if scored.is_pairs:
        return _pair_table(scored)
    if not scored.has_verdicts:
        return ReportTable((), ())
    rows = []
    for label, word in zip((1, 0), scored.verdict_words, strict=True):
        verdicts = scored.passes[scored.human == label]
        n_passes, n_fails = int((verdicts == 1).sum()), int((verdicts == 0).sum())
        total = max(1, n_passes + n_fails)
        cells = (f"{count:,} ({share_text(count / total)})" for count in (n_passes, n_fails))
        rows.append((word, *cells))
    header = ("people say", *(f"the judge says {word}" for word in scored.verdict_words))
    return ReportTable(header, rows, "Outputs by what people and the judge say.")


def _system_charts(scored: ScoredItems) -> list[DotChart]:
    """Return a chart of people's and the judge's mean for each system, if there are two or more."""
    judge, mean_name = scored.scores, "mean"
    if scored.has_verdicts:
        judge, mean_name = scored.passes, "share of passes"
    systems, weights, means = np.array(scored.systems), scored.items.weights, []
    for name in scored.items.systems:
        # Like the system-level rho, both means are over the outputs that the judge has scored.
        rows = (systems == name) & ~np.isnan(judge)
        if rows.any():
            human_mean, judge_mean = (
                np.average(side[rows], weights=weights[rows]) for side in (scored.human, judge)
            )
            means.append((name, human_mean, judge_mean))
    if len(means) < 2:
        return []
    names, human_means, judge_means = zip(*means, strict=True)
    caption = f"Each dot is a system's {mean_name}."
    return [_dot_chart(scored, np.array(human_means), np.array(judge_means), names, caption)]


def _dot_chart(
    scored: ScoredItems,
    human_values: Vector,
    judge_values: Vector,
    names: Sequence[str],
    caption: str,
) -> DotChart:
    """Return a scatter plot with the same scale on both axes and a diagonal, or with two scales."""
    x_axis, y_axis = _Axis.of(human_values), _Axis.of(judge_values)
    band: list[tuple[float, float]] = []
    if scored.has_verdicts or scored.is_within_scale:
        x_axis = y_axis = _Axis.of([*human_values, *judge_values])
        distance = 100 * float(np.sqrt(np.mean((judge_values - human_values) ** 2))) / x_axis.length
        band = [(0, distance), (100, 100 + distance), (100, 100 - distance), (0, -distance)]
        caption += " On the line, judge and people agree; the band shows their usual distance."
    return DotChart(
        dots=[
            (x_axis.percent(x), y_axis.percent(y), name)
            for x, y, name in zip(human_values, judge_values, names, strict=True)
        ],
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        band=band,
        caption=caption,
    )


def _pair_table(scored: ScoredItems) -> ReportTable:
    """Return how often the judge decides as people do, by annotators' agreement and by order."""
    human, majority = scored.human, np.abs(scored.human)
    preferences = [pair for pair in scored.judgements if isinstance(pair, Preference)]
    margins_ab, margins_ba = np.array([(pair.margin_ab, pair.margin_ba) for pair in preferences]).T
    subsets = {
        "annotators agree": (scored.scores, majority == 1),
        "annotators differ": (scored.scores, (majority > 0) & (majority < 1)),
        "A shown first": (margins_ab, majority > 0),
        "B shown first": (margins_ba, majority > 0),
    }
    rows = []
    for name, (margins, is_in_subset) in subsets.items():
        is_counted = is_in_subset & ~np.isnan(margins)
        if is_counted.any():
            credit = (1 + np.sign(margins[is_counted] * human[is_counted])) / 2
            rows.append((name, share_text(credit.mean()), f"{credit.size:,}"))
    caption = "Pairs decided as people do; a tie is half right, and a coin reaches 50%."
    return ReportTable(("subset of pairs", "decided as people do", "pairs"), rows, caption)


def figure_charts(judges: Sequence[tuple[str, Figure]], figure_name: str) -> list[RowChart]:
    """Return a chart of the judges' names and figures; empty if no figure is defined."""
    rows = [
        (name, figure, (figure.interval.low, figure.interval.high) if figure.interval else ())
        for name, figure in judges
        if not isnan(figure.value)
    ]
    if not rows:
        return []
    axis = _Axis.of([value for _, figure, ends in rows for value in (figure.value, *ends)])
    positions = [
        (name, axis.percent(figure.value), [*map(axis.percent, ends)], number_text(figure.value))
        for name, figure, ends in rows
    ]
    caption = f"Each judge's {figure_name} with its 95% interval."
    return [RowChart(rows=positions, ticks=axis.ticks(), caption=caption)]


class _Axis(NamedTuple):
    """The value at the start of an axis, and the length of the axis."""

    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float] | Vector) -> "_Axis":
        low, high = float(min(values)), float(max(values))
        margin = AXIS_MARGIN * (high - low) or 0.5
        return cls(low - margin, high - low + 2 * margin)

    def percent(self, value: float) -> float:
        return round(100 * (float(value) - self.start) / self.length, 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the positions and labels of three to six ticks at round numbers."""
        start, length = self
        power_of_ten = 10.0 ** np.floor(np.log10(length / 5))
        steps = (power_of_ten * factor for factor in (1, 2, 5, 10))
        step = next(step for step in steps if step >= length / 5)
        tick_values = np.arange(np.ceil(start / step), np.floor((start + length) / step) + 1) * step
        return [(self.percent(value), f"{round(float(value), 6) + 0.0:g}") for value in tick_values]
