"""The judge beside people in charts; a sentence in place of one that cannot be drawn."""

import numpy as np

from optimize.figures import CONVENTIONS
from optimize.report import charts, page
from optimize.run.judged_split import JudgedSplit
from optimize.search.chance import stream
from optimize.statistics.coefficients import Vector
from optimize.statistics.errors import on_scale
from optimize.statistics.levels import PRIMARY, counted_values, read_rows

SIDES = ("B", "tie", "A")
# A longer scale is drawn in bands.
MOST_RATINGS_DRAWN, BANDS = 12, 10


def pictures(evidence: JudgedSplit, seed: int) -> list[str]:
    """The charts of one judge on one split."""
    if np.isnan(evidence.scores).all():
        return [page.paragraph("The judge gave no score at all, so there is nothing to draw.")]
    if evidence.verdicts:
        told = "Pairs by what people and the judge preferred; on the diagonal, the same."
        return [page.figure(_choices(evidence), told)]
    scored = int((~np.isnan(evidence.scores)).sum())
    drawn_of = f" ({charts.MOST_POINTS:,} of {scored:,} drawn)"
    if scored <= charts.MOST_POINTS:
        drawn_of = ""
    drawn = [
        page.figure(
            charts.scatter(
                evidence.scores,
                evidence.human,
                evidence.dimension,
                stream(seed, "report", "jitter"),
            ),
            f"Each point is one output{drawn_of}; where numbers repeat, points are moved apart a "
            "little.",
        )
    ]
    if evidence.on_scale:
        told = (
            "Outputs by rating, both sides rounded to the nearest on the judge's scale; on the "
            "diagonal both say the same."
        )
        drawn.append(page.figure(_ratings(evidence), told))
    parts = [page.beside(drawn)]
    if evidence.scale and not evidence.on_scale:
        parts.append(
            page.paragraph(
                "People rated on another scale than the judge, so ratings are not set side by side "
                "and only the order is compared.",
                "soft",
            )
        )
    return [*parts, page.beside(["".join(_documents(evidence)), "".join(_systems(evidence, seed))])]


def _ratings(evidence: JudgedSplit) -> str:
    """Judge against people, rating by rating; a longer scale, such as 0 to 100, in ten bands."""
    seen = ~np.isnan(evidence.scores)
    scale = list(evidence.scale)
    bands = np.array_split(scale, len(scale) if len(scale) <= MOST_RATINGS_DRAWN else BANDS)
    band_of = {int(rating): place for place, band in enumerate(bands) for rating in band}
    counts = np.zeros((len(bands), len(bands)), dtype=int)
    for judge, human in zip(
        on_scale(evidence.scores[seen], scale), on_scale(evidence.human[seen], scale), strict=True
    ):
        counts[band_of[int(judge)], band_of[int(human)]] += 1
    labels = [str(band[0]) if len(band) == 1 else f"{band[0]}–{band[-1]}" for band in bands]
    return charts.confusion(counts, labels, evidence.dimension)


def _choices(evidence: JudgedSplit) -> str:
    seen = ~np.isnan(evidence.scores)
    counts = np.zeros((3, 3), dtype=int)
    for judge, human in zip(evidence.scores[seen], evidence.human[seen], strict=True):
        counts[int(np.sign(judge)) + 1, int(np.sign(human)) + 1] += 1
    return charts.confusion(counts, SIDES, evidence.dimension)


def _documents(evidence: JudgedSplit) -> list[str]:
    head = page.heading("Document by document", 3)
    rows = read_rows(evidence.scores, evidence.human, evidence.documents)
    values, counted = counted_values(rows, "spearman", PRIMARY)
    known = values[counted > 0]
    if known.size < 2:
        few = "Fewer than two documents have a rho, so they are not drawn."
        return [head, page.paragraph(few, "soft")]
    drawn = charts.per_document(known, float(known.mean()), evidence.dimension)
    left_out = values.size - known.size
    without = f" {CONVENTIONS[PRIMARY].capitalize()}."
    without += f" {left_out} that people rate alike, or with one score, are left out." * (
        left_out > 0
    )
    return [
        head,
        page.figure(drawn, f"Each bar is one document, the line is their mean.{without}"),
    ]


def _systems(evidence: JudgedSplit, seed: int) -> list[str]:
    head = page.heading("System by system", 3)
    names = sorted({name for name in evidence.systems if name})
    if len(names) < 2:
        few = "The labels name fewer than two systems, so there are none to compare."
        return [head, page.paragraph(few, "soft")]
    systems, rng = np.array(evidence.systems), stream(seed, "report", "systems")
    judge, human, around, kept = [], [], [], []
    for name in names:
        mine = (systems == name) & ~np.isnan(evidence.scores)
        if not mine.any():
            continue
        kept.append(name)
        judge.append(evidence.scores[mine].mean())
        human.append(evidence.human[mine].mean())
        around.append(_drawn_means(evidence.scores[mine], rng))
    if len(kept) < 2:
        return [head, page.paragraph("Fewer than two systems have a score.", "soft")]
    drawn = charts.systems(
        kept, np.array(judge), np.array(around), np.array(human), evidence.dimension
    )
    told = "Mean over the split's outputs, best by people on top; the judge's with a 95 % interval."
    if len(kept) > charts.MOST_SYSTEMS:
        told += f" Of {len(kept)} systems, those on which judge and people differ most."
    return [head, page.figure(drawn, told)]


def _drawn_means(scores: Vector, rng: np.random.Generator) -> Vector:
    drawn = scores[rng.integers(0, scores.size, (1000, scores.size))].mean(axis=1)
    ends: Vector = np.quantile(drawn, (0.025, 0.975))
    return ends
