"""The report's charts, as positions that the page's template draws: no script, no library.

Two have a row for each judge, with a mark at its figure and a line over its interval. The third
counts outputs by what the judge and people gave them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from optimize.figures.as_text import TOO_FEW, number_text, share_text
from optimize.measuring.scored import Scored
from optimize.statistics.intervals import Figure

# A scale of more ratings is counted in so many bands.
MAX_RATINGS, BANDS = 12, 10
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
class CountChart:
    """How many outputs the judge (rows, the best on top) and people (columns) gave each rating."""

    labels: Sequence[str]
    counts: Sequence[tuple[str, Sequence[tuple[int, float]]]]
    caption: str


def shares(figures: Mapping[str, Figure]) -> RowChart | None:
    """How often each judge does as people do, beside a coin; None where no share is known."""
    known = {name: each for name, each in figures.items() if not math.isnan(each.value)}
    caption = (
        "The share of pairs that are ordered as people order them. The line over each mark is the "
        "95% interval; the dashed line is a coin, 50%."
    )
    words = map(_share_words, known.values())
    return _row_chart(known, words, share_text, caption, line=0.5)


def costs(figures: Mapping[str, tuple[Figure, str]], symbol: str) -> RowChart | None:
    """Each judge's figure with its interval, and what 1,000 rows cost; None without a figure."""
    known = {name: each for name, (each, _) in figures.items() if not math.isnan(each.value)}
    words = (f"{number_text(each.value)}, {figures[name][1]}" for name, each in known.items())
    caption = f"Each judge's {symbol} with its 95% interval, and the cost of 1,000 rows."
    return _row_chart(known, words, lambda value: f"{value:g}", caption)


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
    held: list[float] = [*values, *chain(*ends), *([] if line is None else [line, 1.0])]
    room = MARGIN * (max(held) - min(held)) or 0.5
    start, length = min(held) - room, max(held) - min(held) + 2 * room

    def percent(value: float) -> float:
        return round(100 * (value - start) / length, 2)

    # Three to six round numbers stand on the axis.
    size = 10.0 ** np.floor(np.log10(length / 5))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= length / 5)
    places = np.arange(np.ceil(start / step), np.floor((start + length) / step) + 1) * step
    return RowChart(
        rows=[
            (name, percent(value), [*map(percent, own)], text)
            for name, value, own, text in zip(known, values, ends, words, strict=True)
        ],
        ticks=[(percent(place), tick(round(float(place), 6) + 0.0)) for place in places],
        caption=caption,
        line=None if line is None else percent(line),
    )


def ratings(scored: Scored) -> CountChart | None:
    """Outputs by both sides' ratings, each rounded to the nearest; of pairs by the preferences.

    None where people did not rate on the judge's scale.
    """
    judged = ~np.isnan(scored.scores)
    comparable = scored.is_pairs or scored.is_binary or scored.within_scale
    if not judged.any() or not comparable:
        return None
    sides = (scored.scores[judged], scored.human[judged])
    if scored.is_pairs:
        labels, places = ["B", "tie", "A"], [np.sign(side).astype(int) + 1 for side in sides]
        what = "Pairs by what the judge and people preferred"
    elif scored.is_binary:
        labels, places = ["fail", "pass"], [(s >= 0.5).astype(int) for s in sides]
        what = "Outputs by what the judge and people said"
    else:
        scale = np.array(scored.scale)
        bands = np.array_split(scale, len(scale) if len(scale) <= MAX_RATINGS else BANDS)
        labels = [str(b[0]) if len(b) == 1 else f"{b[0]}–{b[-1]}" for b in bands]
        middles = np.array([(a[-1] + b[0]) / 2 for a, b in pairwise(bands)])
        places = [np.searchsorted(middles, side, side="right") for side in sides]
        what = "Outputs by the rating that the judge and people gave, rounded"
    counts = np.zeros((len(labels), len(labels)), int)
    np.add.at(counts, (places[0], places[1]), 1)
    alike = f"{np.trace(counts):,} of {counts.sum():,} are alike, on the diagonal"
    shade = counts / counts.max()
    return CountChart(
        labels=labels,
        counts=[
            (label, [(int(n), float(share)) for n, share in zip(row, shades, strict=True)])
            for label, row, shades in zip(labels, counts, shade, strict=True)
        ][::-1],
        caption=f"{what}: {alike}. Rows are the judge, columns people.",
    )


def _share_words(share: Figure) -> str:
    if share.interval is None:
        return f"{share_text(share.value)}, {TOO_FEW}"
    ends = f"{share_text(share.interval.low)} to {share_text(share.interval.high)}"
    return f"{share_text(share.value)} ({ends})"
