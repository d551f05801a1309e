"""A page's charts, which its template draws as SVG, and its tables of counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from judges.judgement import Preference
from optimize.figures.as_text import number_text, share_text
from optimize.measuring.scored import ScoredItems
from optimize.report.answer import ReportTable
from optimize.statistics.intervals import Figure, Interval, Vector

# The largest number of dots in a chart. If there are more outputs, evenly spaced ones are drawn.
MAX_DOTS = 1000
# The empty space at each end of an axis, as a share of the range of its values.
AXIS_MARGIN = 0.06
Ticks = list[tuple[float, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart:
    """A scatter plot: a dot has people's value (x), the judge's value (y) and a name, or "".

    The values are positions in percent of each axis. If people and the judge use the same scale,
    both axes are the same, and a diagonal is drawn.
    """

    dots: Sequence[tuple[float, float, str]]
    x_ticks: Ticks
    y_ticks: Ticks
    has_diagonal: bool
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalChart:
    """A chart with a row for each judge: its name, its figure as text, and three positions.

    The positions are the interval's low end, the figure and the high end, in percent of the axis.
    """

    rows: Sequence[tuple[str, str, Sequence[float]]]
    ticks: Ticks
    caption: str


def interval_charts(figure_by_name: Mapping[str, Figure], figure_name: str) -> list[IntervalChart]:
    """Return a chart of the judges' figures with intervals; no chart if all figures are NaN."""
    points_by_name = {}
    for name, figure in figure_by_name.items():
        if not isnan(figure.value):
            interval = figure.interval or Interval(figure.value, figure.value)
            points_by_name[name] = interval.low, figure.value, interval.high
    if not points_by_name:
        return []
    points = np.array([*points_by_name.values()])
    positions, ticks = _positions(points, points)
    figure_texts = [number_text(figure_by_name[name].value) for name in points_by_name]
    rows = [*zip(points_by_name, figure_texts, positions.tolist(), strict=True)]
    caption = f"Each judge's {figure_name} with its 95% interval."
    return [IntervalChart(rows=rows, ticks=ticks, caption=caption)]


def dot_charts(scored_items: ScoredItems) -> list[DotChart]:
    """Return scatter plots of outputs and of systems, judge against people; none for pairs."""
    rows = np.flatnonzero(~np.isnan(scored_items.scores))
    if scored_items.is_pairwise or not rows.size:
        return []
    if scored_items.has_verdicts:
        return _system_charts(scored_items)
    drawn_rows = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_DOTS)).astype(int)]
    caption = "Each dot is an output."
    if drawn_rows.size < rows.size:
        caption += f" {drawn_rows.size:,} of {rows.size:,} are drawn."
    human, scores = scored_items.human[drawn_rows], scored_items.scores[drawn_rows]
    output_chart = _dot_chart(scored_items, human, scores, [""] * drawn_rows.size, caption)
    return [output_chart, *_system_charts(scored_items)]


def _system_charts(scored_items: ScoredItems) -> list[DotChart]:
    """Return a chart of each system's mean by people and by the judge, for two or more systems."""
    judge, mean_name = scored_items.scores, "mean"
    if scored_items.has_verdicts:
        judge, mean_name = scored_items.verdicts, "share of passes"
    values, systems = np.stack([scored_items.human, judge]), np.array(scored_items.system_ids)
    means_by_system = {}
    for name in scored_items.items.systems:
        # People's mean, too, is over outputs that the judge has scored, as in system-level rho.
        is_drawn = (systems == name) & ~np.isnan(judge)
        if is_drawn.any():
            weights = scored_items.items.weights[is_drawn]
            means_by_system[name] = np.average(values[:, is_drawn], axis=1, weights=weights)
    if len(means_by_system) < 2:
        return []
    human_means, judge_means = np.transpose([*means_by_system.values()])
    caption = f"Each dot is a system's {mean_name}."
    return [_dot_chart(scored_items, human_means, judge_means, [*means_by_system], caption)]


def _dot_chart(
    scored_items: ScoredItems, human: Vector, judge: Vector, names: Sequence[str], caption: str
) -> DotChart:
    x_values, y_values = human, judge
    has_diagonal = scored_items.has_verdicts or scored_items.is_within_scale
    if has_diagonal:
        x_values = y_values = np.concatenate([human, judge])
        caption += " On the line, judge and people agree."
    (x, x_ticks), (y, y_ticks) = _positions(human, x_values), _positions(judge, y_values)
    return DotChart(
        dots=[*zip(x.tolist(), y.tolist(), names, strict=True)],
        x_ticks=x_ticks,
        y_ticks=y_ticks,
        has_diagonal=has_diagonal,
        caption=caption,
    )


def _positions(values: Vector, value_range: Vector) -> tuple[Vector, Ticks]:
    """Return the positions of values, in percent of an axis over `value_range`, and its ticks."""
    margin = AXIS_MARGIN * np.ptp(value_range) or 0.5
    start, end = value_range.min() - margin, value_range.max() + margin
    min_tick_step = (end - start) / 5
    power_of_ten = 10.0 ** np.floor(np.log10(min_tick_step))
    tick_step = next(power_of_ten * k for k in (1, 2, 5, 10) if power_of_ten * k >= min_tick_step)
    tick_values = np.arange(np.ceil(start / tick_step), np.floor(end / tick_step) + 1) * tick_step
    percent_per_unit = 100 / (end - start)
    tick_positions = np.round((tick_values - start) * percent_per_unit, 2).tolist()
    tick_texts = [f"{round(value, 6) + 0.0:g}" for value in tick_values.tolist()]
    positions = np.round((values - start) * percent_per_unit, 2)
    return positions, [*zip(tick_positions, tick_texts, strict=True)]


def count_table(scored_items: ScoredItems) -> ReportTable:
    """Return a table of how often the judge decides as people do; the table of ratings is empty."""
    if scored_items.is_pairwise:
        return _pair_table(scored_items)
    if not scored_items.has_verdicts:
        return ReportTable((), ())
    rows = []
    for label, word in zip((1, 0), scored_items.verdict_words, strict=True):
        verdicts = scored_items.verdicts[scored_items.human == label]
        counts = [int((verdicts == verdict).sum()) for verdict in (1, 0)]
        total = max(1, sum(counts))
        rows.append((word, *(f"{count:,} ({share_text(count / total)})" for count in counts)))
    header = ("people say", *(f"the judge says {word}" for word in scored_items.verdict_words))
    return ReportTable(header, rows, "Outputs by the verdicts of people and judge.")


def _pair_table(scored_items: ScoredItems) -> ReportTable:
    """Return how often the judge prefers what people prefer, for each of four sets of pairs."""
    human, majority_size = scored_items.human, np.abs(scored_items.human)
    preferences = [pair for pair in scored_items.judgements if isinstance(pair, Preference)]
    margins_ab, margins_ba = np.array([(pair.margin_ab, pair.margin_ba) for pair in preferences]).T
    subsets = {
        "annotators agree": (scored_items.scores, majority_size == 1),
        "annotators differ": (scored_items.scores, (majority_size > 0) & (majority_size < 1)),
        "A shown first": (margins_ab, majority_size > 0),
        "B shown first": (margins_ba, majority_size > 0),
    }
    rows = []
    for name, (margins, is_in_subset) in subsets.items():
        is_counted = is_in_subset & ~np.isnan(margins)
        if is_counted.any():
            credits = (1 + np.sign(margins[is_counted] * human[is_counted])) / 2
            rows.append((name, share_text(credits.mean()), f"{credits.size:,}"))
    caption = "Pairs decided as people do; a tie is half right, and a coin reaches 50%."
    return ReportTable(("subset of pairs", "decided as people do", "pairs"), rows, caption)
