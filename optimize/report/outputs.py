"""Single outputs: where judge and people disagree most, and where the judge gave no score."""

import numpy as np
from numpy.typing import NDArray

from data.types import LabelledOutput
from optimize.report import page
from optimize.run.judged_split import JudgedSplit, disagreements

MOST = 20
SHOWN_TEXT = 1500
SHOWN_REASON = 300


def worst(evidence: JudgedSplit) -> list[str]:
    """The outputs on which the judge's place is farthest from people's, with their texts."""
    told_apart = _told_apart(evidence)
    everything = disagreements(evidence, len(evidence.items))
    found = [(index, gap) for index, gap in everything if told_apart[index]][:MOST]
    if not found:
        return [page.paragraph("No disagreement can be told from these labels and scores.")]
    where = "its document's outputs" if evidence.level == "summary" else "all outputs"
    told = (
        "Farthest apart first; a margin runs from 1 (A) to -1 (B). Open one to read it."
        if evidence.verdicts
        else f"Farthest apart first: how many places the judge ranks an output too high or too low "
        f"among {where}. Open one to read it."
    )
    steps = _steps(evidence)
    return [
        page.paragraph(told, "soft"),
        *(_one(evidence, index, gap, int(steps[index])) for index, gap in found),
    ]


def _told_apart(evidence: JudgedSplit) -> NDArray[np.bool_]:
    """Whether people tell an output from others of its document (over all: from any other)."""
    if evidence.verdicts:
        return np.ones(evidence.human.size, dtype=bool)
    groups = evidence.documents if evidence.level == "summary" else [""] * evidence.human.size
    codes = np.unique(groups, return_inverse=True)[1]
    most, least = np.full((2, codes.max(initial=0) + 1), [[-np.inf], [np.inf]])
    np.maximum.at(most, codes, evidence.human)
    np.minimum.at(least, codes, evidence.human)
    apart: NDArray[np.bool_] = (most > least)[codes]
    return apart


def _steps(evidence: JudgedSplit) -> NDArray[np.intp]:
    """How many places there are between the first and the last, for every output."""
    scored = ~np.isnan(evidence.scores)
    if evidence.level != "summary":
        return np.full(scored.size, scored.sum() - 1)
    codes = np.unique(evidence.documents, return_inverse=True)[1]
    steps: NDArray[np.intp] = np.bincount(codes, scored).astype(np.intp)[codes] - 1
    return steps


def _one(evidence: JudgedSplit, index: int, gap: float, steps: int) -> str:
    item = evidence.items.items[index]
    score = float(evidence.scores[index])
    side = "too high" if gap > 0 else "too low"
    place = (
        f"judge {score:.2f}, people {item.human:.2f}"
        if evidence.verdicts
        else f"{side} by {round(abs(gap) * steps, 1):g} of {steps:,} places: judge {score:.2f}, "
        f"people {item.human:.2f}"
    )
    inner = []
    if comment := evidence.comment(index):
        inner.append(page.paragraph(f"The judge: {comment}"))
    if marks := _marks(evidence, index):
        inner.append(page.paragraph(marks, "soft"))
    for name, text in evidence.texts(index).items():
        inner += [page.paragraph(name, "label"), page.block(shortened(text))]
    return page.folded(place, inner, item.id)


def _marks(evidence: JudgedSplit, index: int) -> str:
    if len(evidence.labelled) != len(evidence.items):
        return ""
    person = evidence.labelled[index]
    if isinstance(person, LabelledOutput):
        marks = person.ratings.get(evidence.dimension, ())
        names = person.annotators.get(evidence.dimension, ())
        if len(marks) < 2:
            return ""
        said = (
            [f"{name} {mark:g}" for name, mark in zip(names, marks, strict=True)]
            if len(names) == len(marks)
            else [f"{mark:g}" for mark in marks]
        )
        return f"People's ratings: {', '.join(said)}"
    return f"People's votes: {', '.join(person.votes)}"


def failed(evidence: JudgedSplit) -> list[str]:
    """Every failed judgement, up to twenty; the count is always whole."""
    failures = evidence.failures
    unit = "pair" if evidence.verdicts else "output"
    what = "preference" if evidence.verdicts else "score"
    if not failures:
        return [page.paragraph(f"Every {unit} has a {what}.")]
    rows = [(name, _cut(why, SHOWN_REASON)) for name, why in list(failures.items())[:MOST]]
    told = (
        f"{len(failures):,} of {len(evidence.items):,} {unit}s have no {what}. They are missing: "
    )
    told += "left out of every figure and counted, never 0."
    if len(failures) > MOST:
        told += f" The first {MOST}:"
    return [page.table((unit, "why"), rows, told)]


def shortened(text: str) -> str:
    cut = len(text) - SHOWN_TEXT
    return text if cut <= 0 else f"{text[:SHOWN_TEXT]} … ({cut:,} more characters)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
