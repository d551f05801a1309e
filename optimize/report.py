"""The report of a run or a verification: one HTML page that a person can read and quote."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judges.prompt import Prompt
from optimize import charts, page
from optimize.agreement import Correlation, dataset_level, summary_level, system_level
from optimize.evidence import Evidence, disagreements
from optimize.figures import interval_of, one_line, shown
from optimize.levels import document_values, read_rows

SHOWN_TEXT = 1500


def scorecard(lines: Sequence[tuple[str, str, Mapping[str, Any] | None]]) -> str:
    """A row for each (judge, split, C) of summary.json; None where the split does not exist."""
    rows = [
        (
            judge,
            split,
            f"{c['level']}-level {c['coefficient']}",
            shown(c["value"]),
            interval_of(c["low"], c["high"]),
            str(c["n_outputs"]),
            str(c["n_documents"]),
            str(c["n_undefined"]),
            str(c["n_failed"]),
        )
        for judge, split, c in lines
        if c is not None
    ]
    head = ("judge", "split", "figure", "value", "95 % interval", "outputs", "documents",
            "undefined", "failed")  # fmt: skip
    return page.table(head, rows, "Every figure with its level, coefficient, interval and counts.")


def all_levels(evidence: Evidence, rng: np.random.Generator) -> list[str]:
    """Each level and coefficient on this split, undefined documents left out and counted as 0."""
    found: list[tuple[str, Correlation]] = []
    for coefficient in ("spearman", "kendall", "pearson"):
        judge, human, documents = evidence.scores, evidence.human, evidence.documents
        for undefined in ("left_out", "zero"):
            c = summary_level(
                judge, human, documents, coefficient=coefficient, undefined=undefined, rng=rng
            )
            found.append((f"undefined {undefined.replace('_', ' ')}", c))
        found.append(("", dataset_level(judge, human, documents, coefficient=coefficient, rng=rng)))
        if len(set(evidence.systems)) > 1:
            systems = evidence.systems
            c = system_level(judge, human, systems, documents, coefficient=coefficient, rng=rng)
            found.append(("", c))
    rows = [
        (
            f"{c.level}-level {c.coefficient}",
            note,
            shown(c.value),
            interval_of(c.interval.low, c.interval.high) if c.interval else "none",
            str(c.n_outputs),
            str(c.n_documents),
            str(c.n_undefined),
        )
        for note, c in found
    ]
    head = ("figure", "convention", "value", "95 % interval", "outputs", "documents", "undefined")
    return [page.heading(f"All levels, {evidence.split} split"), page.table(head, rows)]


def pictures(evidence: Evidence, scale: Sequence[int], rng: np.random.Generator) -> list[str]:
    """The charts of one judge on one split; a sentence in place of one that cannot be drawn."""
    name, judge, human = evidence.dimension, evidence.scores, evidence.human
    if np.isnan(judge).all():
        return [page.paragraph("The judge gave no score at all, so there is nothing to draw.")]
    parts = [
        page.heading("Judge and people"),
        page.figure(
            charts.scatter(judge, human, name, rng),
            "Each point is one output; human ratings are jittered a little.",
        ),
    ]
    if scale:
        parts.append(
            page.figure(
                charts.confusion(judge, human, scale, name),
                "Both sides rounded to the nearest rating of the judge's scale.",
            )
        )
    parts += _documents(evidence) + _systems(evidence, rng)
    return parts


def _documents(evidence: Evidence) -> list[str]:
    rows = read_rows(evidence.scores, evidence.human, evidence.documents)
    values = document_values(rows, "spearman")[0]
    known = values[~np.isnan(values)]
    if known.size < 2:
        return [page.paragraph("Fewer than two documents have a rho of their own.", "soft")]
    drawn = charts.per_document(values, float(known.mean()), evidence.dimension)
    left_out = values.size - known.size
    told = f"One bar a document; {left_out} undefined left out. The line is their mean."
    return [page.heading("Document by document"), page.figure(drawn, told)]


def _systems(evidence: Evidence, rng: np.random.Generator) -> list[str]:
    names = sorted({name for name in evidence.systems if name})
    if len(names) < 2:
        return []
    systems = np.array(evidence.systems)
    judge, human, around = [], [], []
    for name in names:
        mine = (systems == name) & ~np.isnan(evidence.scores)
        scores = evidence.scores[mine]
        if not scores.size:
            return [page.paragraph(f"System {name} has no score, so systems are not drawn.")]
        drawn = scores[rng.integers(0, scores.size, (1000, scores.size))].mean(axis=1)
        judge.append(scores.mean())
        human.append(evidence.human[mine].mean())
        around.append(np.quantile(drawn, (0.025, 0.975)))
    chart = charts.systems(
        names, np.array(judge), np.array(around), np.array(human), evidence.dimension
    )
    told = "Mean over the split's outputs; the judge's with a 95 % bootstrap interval."
    return [page.heading("System by system"), page.figure(chart, told)]


def worst(evidence: Evidence, most: int = 20) -> list[str]:
    """The outputs on which the judge's place is farthest from people's, with their texts."""
    parts = [page.heading("Where judge and people disagree most")]
    found = disagreements(evidence, most)
    if not found:
        return [*parts, page.paragraph("Nowhere on this split.")]
    for index, gap in found:
        item = evidence.items.items[index]
        side = "too high" if gap > 0 else "too low"
        summary = (
            f"{item.id}: {side} by {abs(gap):.0%} of the places; "
            f"judge {shown(float(evidence.scores[index]))}, people {shown(item.human)}"
        )
        inner = []
        if item.id in evidence.comments:
            inner.append(page.paragraph(f"The judge: {evidence.comments[item.id]}"))
        if evidence.marks:
            marks = ", ".join(f"{mark:g}" for mark in evidence.marks[index])
            inner.append(page.paragraph(f"People's ratings: {marks}", "soft"))
        for name, text in item.texts.items():
            inner += [page.paragraph(name, "soft"), page.block(_shortened(text))]
        parts.append(page.folded(summary, inner))
    return parts


def failed(evidence: Evidence, most: int = 20) -> list[str]:
    """Every reason of a failed judgement, up to `most`; the count is always whole."""
    if not evidence.failures:
        return []
    rows = [(name, why) for name, why in list(evidence.failures.items())[:most]]
    told = f"{len(evidence.failures)} outputs have no score; they are missing, not 0."
    table = page.table(("output", "why"), rows, told)
    return [page.heading("Failed judgements"), table]


def prompts(seed: Prompt, tuned: Prompt) -> list[str]:
    """What the optimizer changed: the instruction word by word, and the demonstrations."""
    parts = [page.heading("Seed and tuned prompt")]
    if seed == tuned:
        return [*parts, page.paragraph("They are the same."), page.block(tuned.instruction)]
    parts.append(page.difference(seed.instruction, tuned.instruction))
    parts.append(page.paragraph(f"Demonstrations: {len(seed.demos)} before, {len(tuned.demos)}."))
    for number, demo in enumerate(tuned.demos, 1):
        inner = [
            part
            for name, value in demo.items()
            for part in (page.paragraph(name, "soft"), page.block(_shortened(str(value))))
        ]
        parts.append(page.folded(f"Demonstration {number}", inner))
    return parts


def search_path(trials: Sequence[tuple[int, float]], seed: float, name: str) -> list[str]:
    """Rho in the search over calls spent: (calls, rho) a trial."""
    told = [(calls, rho) for calls, rho in trials if not math.isnan(rho)]
    if len(told) < 2 or math.isnan(seed):
        return [page.paragraph("Too few trials to draw the search.", "soft")]
    calls, rhos = zip(*told, strict=True)
    drawn = charts.search_path(calls, rhos, seed, name)
    return [
        page.heading("The search"),
        page.figure(drawn, "Each trial on the documents it was raced on; dev decides afterwards."),
    ]


def headline(c: Mapping[str, Any], name: str) -> str:
    return page.paragraph(one_line(name, c), "verdict")


def _shortened(text: str) -> str:
    cut = len(text) - SHOWN_TEXT
    return text if cut <= 0 else f"{text[:SHOWN_TEXT]} … ({cut} more characters)"
