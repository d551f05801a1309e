"""The command `plan`: which documents to label next, and how many."""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.labels.readers import read_items, read_labels
from judges.labels.rows import SAMPLING
from judges.labels.types import LabelError, LabelledSet
from judges.tables.atomic_write import write_atomically
from judges.terminal import print_error
from optimize.estimate import SCALE, Sample, label_bounds
from optimize.figures.as_json import FLAT, Cell, figure_json
from optimize.figures.as_text import TOO_FEW, counted, figure_text, wrapped
from optimize.inputs.flags import (
    MAP_HELP,
    VALUES_HELP,
    Bounds,
    Outcome,
    Parser,
    SettingsError,
    bounds_of,
    run,
    values_of,
)
from optimize.inputs.labelled import PASS_FAIL, find_subject, only_dimension
from optimize.items import Item, Items, Vector, choose_level
from optimize.measuring.capacity import Decision, missing_for_intervals
from optimize.measuring.exports import read_scores
from optimize.measuring.floors import read_floors
from optimize.measuring.scored import are_shares
from optimize.statistics.corrected import labels_needed
from optimize.statistics.correlations import correlation
from optimize.statistics.intervals import FEW_DOCUMENTS, Figure, stream
from optimize.statistics.two_values import FEW_OUTPUTS, two_values

NAME = "dspy-judges plan"
# Fewer labelled documents say too little of what an interval takes; so many come first.
FEWEST, FIRST_ROUND = 20, 30
# Shares of fails to plan for where no labels tell it.
FAILS = (0.05, 0.2, 0.5)


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="Which documents to label next, and how many, so that the true rate or mean\n"
        "and the judge's agreement with people have intervals of a width. They are\n"
        "written in random order: labels of the first so many will do.",
    )
    add = command_parser.add_argument
    repeatable: Any = {"action": "append", "default": []}
    add("file", metavar="FILE", help="all outputs")
    add("--labels", metavar="FILE", help="labels so far, by the same ids")
    add("--scores", metavar="FILE", help="the judge's scores for all")
    add("--dimension", metavar="NAME", help="what is labelled, if labels are on several")
    add("--scale", metavar="LOW-HIGH", help=SCALE)
    add("--target-width", metavar="W", type=float, default=0.1, help="of the intervals (0.1)")
    for name in ("tpr", "tnr"):
        about = f"plan a decision about this floor of {name.upper()}, not a width"
        add(f"--min-{name}", type=float, metavar="X", help=about)
    add("--out", metavar="FILE", type=Path, help="the documents to label (FILE.next.jsonl)")
    add("--map", metavar="NAME=COLUMN", help=MAP_HELP, **repeatable)
    add("--values", metavar="WORD=N,...", help=VALUES_HELP, **repeatable)
    add("--seed", type=int, default=0, metavar="N", help="of the draw (0)")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """A figure of the labels so far, and how many more documents give it the target width.

    Without an interval they are about to give it one. None where all that are left do not.
    """

    figure: Figure
    more_documents: int | None

    @property
    def width(self) -> float | None:
        return 2 * self.figure.interval.reach if self.figure.interval else None

    def to_json(self) -> Cell:
        cells = figure_json(self.figure, None)
        return {**cells, "width": self.width, "more_documents": self.more_documents}


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """The file of the documents to label, its outputs, and the command that labels them."""

    out: str
    n_outputs: int
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How many documents are labelled, what more would bring, and the `n_next` to label next.

    `figures` is empty where labels with scores are too few to plan by, and where `decisions` about
    floors are planned. The documents to label stand in the `file`, if there are any.
    """

    data: Mapping[str, str]
    dimension: str
    n_documents: int
    n_labelled: int
    target_width: float
    figures: Mapping[str, PlannedFigure]
    decisions: Sequence[Decision] | None = None
    n_next: int
    drawn: str = "at random"
    file: NextFile | None = field(default=None, metadata=FLAT)


def plan(flags: argparse.Namespace) -> Outcome:
    """Plan further labels, and write the documents to label, if any."""
    if not 0 < flags.target_width < math.inf:
        raise SettingsError(f"--target-width {flags.target_width:g}: a number above 0 is wanted")
    floors, (labelled, dimension) = read_floors(flags), _read(flags)
    score = _scores(flags.scores, labelled, dimension)
    sample = Sample.of(labelled, labelled.outputs, dimension, score)
    documents, done = np.unique(sample.document), np.unique(sample.document[sample.has_label])
    left = np.setdiff1d(documents, done)
    figures: dict[str, PlannedFigure] = {}
    decisions = [Decision.of(floors, share) for share in FAILS] if floors else []
    n_ready = np.unique(sample.document[~np.isnan(sample.label + score)]).size
    n = FIRST_ROUND - n_ready
    if n_ready >= FEWEST:
        bounds = label_bounds(flags, labelled, dimension, sample)
        if floors:
            decisions = [Decision.of(floors, _share_of_fails(sample, bounds))]
            needed = next(iter(decisions[0].n_labels.values())) or math.inf
            missing = needed - np.count_nonzero(sample.has_label)
            n = math.ceil(min(left.size, max(0, missing * documents.size / score.size)))
        else:
            figures = figures_of(sample, bounds, flags.target_width)
            more = [figure.more_documents for figure in figures.values()]
            n = max((m for m in more if m), default=left.size if None in more else 0)
    # In random order, so that any first part is drawn at random, too.
    drawn = stream(flags.seed, "plan", left.size).permutation(left)[:n].tolist()
    # Where earlier labels have weights, these take them too.
    n_from = left.size if np.ptp(sample.weight) else 0
    result = PlanResult(
        data={"name": labelled.name, "sha256": labelled.sha256},
        dimension=dimension,
        n_documents=documents.size,
        n_labelled=done.size,
        target_width=flags.target_width,
        figures=figures,
        decisions=decisions or None,
        n_next=len(drawn),
        file=_write(flags, labelled, drawn, n_from) if drawn else None,
    )
    return Outcome(result, lines(result))


def _share_of_fails(sample: Sample, bounds: Bounds) -> float:
    """The share of fails, without ties; SettingsError for labels that are no pass and fail."""
    if bounds != (0, 1) or not sample.is_two_valued:
        raise SettingsError("--min-tpr and --min-tnr are of labels that say pass or fail")
    known = sample.has_label & (sample.label != 0.5)
    return float(np.average(1 - sample.label[known], weights=sample.weight[known]))


def _read(flags: argparse.Namespace) -> tuple[LabelledSet, str]:
    """All outputs with the labels so far, and the dimension of these."""
    names, wanted = mapping(flags.map) or None, flags.dimension
    items = read_items(flags.file, map=names)
    assert isinstance(items, LabelledSet)
    # Labels may also stand in the file itself.
    source = flags.labels or (flags.file if items.reading.ratings else None)
    if not source:
        return items, wanted or ""
    bounds = bounds_of(flags.scale)
    labelled = read_labels(
        source,
        dimensions=wanted and [wanted],
        scales=bounds and {"*": bounds},
        texts=(),
        values=values_of(flags.values),
    )
    outputs = {output.id: output for output in items.outputs}
    for rated in labelled.outputs:
        if rated.ratings and (own := outputs.get(rated.id)):
            outputs[own.id] = replace(own, ratings=rated.ratings, weight=rated.weight)
    if missing := [o.id for o in labelled.outputs if o.ratings and o.id not in outputs]:
        raise LabelError(f"{source}: {min(missing)!r} is labelled, and {flags.file} lacks it")
    return replace(
        items,
        outputs=tuple(outputs.values()),
        words=labelled.words,
        scales=labelled.scales,
        reading=labelled.reading,
    ), only_dimension(labelled)


def _scores(named: str | None, labelled: LabelledSet, dimension: str) -> Vector:
    """The judge's scores, NaN where it gave none; without a judge the same for all."""
    if named is None:
        return np.zeros(len(labelled.outputs))
    if not dimension:
        raise SettingsError("--scores needs --dimension NAME where no labels name it")
    metric, file = split_name(named)
    by_id = read_scores(Path(file), dimension, labelled, print_error, metric)
    scores = np.array([by_id.get(output.id, math.nan) for output in labelled.outputs])
    if np.isnan(scores).all():
        raise LabelError(f"{file}: no output of {labelled.name} has a score")
    return scores


def figures_of(sample: Sample, bounds: Bounds, target: float) -> dict[str, PlannedFigure]:
    """The mean and the judge's agreement by name; a judge with one score for all has none."""
    part = sample.of_rows(sample.has_label)
    n, n_all = np.unique(part.document).size, np.unique(sample.document).size
    is_rate, mean = bounds == (0, 1) and sample.is_two_valued, sample.mean(bounds)
    figures: dict[str, Figure] = {"true rate" if is_rate else "true mean": mean}
    lacks, least = dict[str, int](), FEW_DOCUMENTS
    if np.nanmax(sample.score) > np.nanmin(sample.score):
        if is_rate:  # without those on which annotators are tied
            part = part.of_rows(part.label != 0.5)
        own = (
            Item(id="", document_id=str(document), system=None, texts={}, human=human)
            for document, human in zip(part.document, part.label, strict=True)
        )
        items = Items(tuple(own))
        level, words = choose_level(items), None
        sides = part.score, part.label, part.document
        if is_rate and are_shares(sample.score):
            card, words, least = two_values(*sides, weight=part.weight), PASS_FAIL, FEW_OUTPUTS
            figures |= {"balanced accuracy": card.balanced_accuracy}
            figures |= {"TPR": card.tpr, "TNR": card.tnr}
        else:
            figures[f"{level}-level rho"] = correlation(level, *sides, weight=part.weight)
        lacks = missing_for_intervals(items, words, level)
    planned: dict[str, PlannedFigure] = {}
    for name, figure in figures.items():
        more = math.inf
        if figure.interval:
            more = max(0, n * (2 * figure.interval.reach / target) ** 2 - n)
            if figure is mean and more:
                needed = labels_needed(mean, target) or math.inf
                more = max(1, needed * n / mean.n_labels - n)
        elif lack := lacks.get(name, max(lacks.values(), default=0)):
            more = lack * n / max(1, least - lack)
        n_more = None if more > n_all - n else math.ceil(more)
        planned[name] = PlannedFigure(figure=figure, more_documents=n_more)
    return planned


def _write(
    flags: argparse.Namespace, labelled: LabelledSet, drawn: Sequence[str], n_from: int
) -> NextFile:
    """Write whole documents in the order drawn.

    With `n_from` they have the weights of documents drawn from so many.
    """
    file, name = Path(flags.file), flags.dimension or "".join(labelled.dimensions) or "NAME"
    out = flags.out or file.with_suffix(".next.jsonl")
    of_document: dict[str, list[Cell]] = {document: [] for document in drawn}
    draw = dict(zip(SAMPLING, (n_from / len(drawn), n_from), strict=True)) if n_from else {}
    for output in labelled.outputs:
        if output.document_id in of_document:
            of_document[output.document_id].append(output.row | draw)
    written = [row for rows in of_document.values() for row in rows]
    content = "".join(f"{json.dumps(row)}\n" for row in written).encode()
    if not (out.is_file() and out.read_bytes() == content):
        write_atomically(out, content)
    scale = flags.scale or "-".join(f"{end:g}" for end in labelled.scales.get(name, ()))
    if not scale and name in {*labelled.dimensions} - labelled.words.keys():
        scale = "" if find_subject(name) else "LOW-HIGH"
    # Only a file of the page's own form can grow by the page.
    grows = flags.labels and "rating" in labelled.reading.ratings
    labels = flags.labels if grows else str(file.with_suffix(f".{name}.jsonl"))
    words = ["dspy-judges", "label", str(out), "--dimension", name]
    words += ["--scale", scale] if scale else []
    command = shlex.join([*words, "--out", labels])
    return NextFile(out=str(out), n_outputs=len(written), next=command)


def lines(result: PlanResult) -> list[str]:
    """How many are labelled, a line a figure, what was written, and the command that comes next."""
    left = result.n_documents - result.n_labelled
    labelled = f"{result.n_labelled:,} of {counted(result.n_documents, 'document')} labelled"
    fewest = f"{FEWEST} with scores" if result.n_labelled >= FEWEST else FEWEST
    texts = [f"{labelled}; a plan takes {fewest}, so a random round comes first."]
    if decisions := result.decisions or ():
        texts = [texts[0]] if len(decisions) > 1 else [f"{labelled}."]
        texts += [f"{each}." for each in decisions]
    if result.figures:
        texts = [f"{labelled}; how many more give a width of {result.target_width:g}:"]
    texts += [_figure_line(name, each, left) for name, each in result.figures.items()]
    if (file := result.file) is None:
        return wrapped(*texts, f"Nothing {'more' if left else 'is left'} to label.")
    counts = f"{counted(result.n_next, 'document')}, {counted(file.n_outputs, 'output')}"
    return [*wrapped(*texts, f"{file.out}: {counts}, drawn {result.drawn}; next:"), file.next]


def _figure_line(name: str, planned: PlannedFigure, left: int) -> str:
    width, more = planned.width, planned.more_documents
    now = TOO_FEW if width is None else f"width {width:.3f}"
    if more is None:
        then = f"not by all {left:,} left" if left else "not reached"
    elif more == 0:
        then = "reached"
    else:
        then = f"about {more:,} more" + (" for one" if width is None else "")
    return f"{name:<17}  {figure_text(planned.figure)}, {now}: {then}"


if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))
