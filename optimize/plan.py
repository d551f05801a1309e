"""The command `plan`: how many documents to label next, and which."""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.labels.readers import read_items, read_labels
from judges.labels.rows import SAMPLING
from judges.labels.types import LabelError, LabelledSet
from judges.tables.atomic_write import write_atomically
from judges.terminal import print_error
from optimize.estimate import SCALE_HELP, Sample, label_bounds
from optimize.figures.as_json import FLAT, JsonObject, figure_json
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
# With fewer labelled documents, a plan would be too uncertain; a first round draws more than that.
FEWEST, FIRST_ROUND = 20, 30
# The shares of fails to plan for if no labels tell the share.
FAILS = (0.05, 0.2, 0.5)


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="How many documents to label next, and which, so that the true rate or mean\n"
        "and the judge's agreement with people have intervals of a given width. They are\n"
        "written in random order: it is fine to label only the first ones.",
    )
    add = command_parser.add_argument
    add_list = partial(add, action="append", default=[])
    add("file", metavar="FILE", help="all outputs")
    add("--labels", metavar="FILE", help="labels so far, by the same ids")
    add("--scores", metavar="FILE", help="the judge's scores for all")
    add("--dimension", metavar="NAME", help="what is labelled, if labels are on several")
    add("--scale", metavar="LOW-HIGH", help=SCALE_HELP)
    add(
        "--target-width",
        metavar="W",
        type=float,
        default=0.1,
        help="wanted interval width (0.1)",
    )
    for name in ("tpr", "tnr"):
        help_text = f"plan a decision about this floor of {name.upper()}, not a width"
        add(f"--min-{name}", type=float, metavar="X", help=help_text)
    add("--out", metavar="FILE", type=Path, help="the documents to label (FILE.next.jsonl)")
    add_list("--map", metavar="NAME=COLUMN", help=MAP_HELP)
    add_list("--values", metavar="WORD=N,...", help=VALUES_HELP)
    add("--seed", type=int, default=0, metavar="N", help="of the draw (0)")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Print a plan; returns 0, or 1 if it failed, 2 for wrong usage, 130 if interrupted."""
    return run(NAME, parser().parse_args(arguments), plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """A figure on the labels so far, and how many more documents give it the target width.

    If the figure has no interval yet, `more_documents` gives it one of any width. It is None if all
    documents that are left do not suffice.
    """

    figure: Figure
    more_documents: int | None

    @property
    def width(self) -> float | None:
        return 2 * self.figure.interval.half_width if self.figure.interval else None

    def to_json(self) -> JsonObject:
        record = figure_json(self.figure, None)
        return {**record, "width": self.width, "more_documents": self.more_documents}


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """The file with the documents to label (`out`), and the command that labels them (`next`)."""

    out: str
    n_outputs: int
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How many documents are labelled, what further labels would bring, and what to label next.

    `figures` is empty if there are too few labels with scores for a plan, and if `decisions` about
    floors are planned. `file` holds the `n_next` documents to label, if there are any.
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
    """Plan further labels, and write the documents to label if there are any."""
    if not 0 < flags.target_width < math.inf:
        raise SettingsError(f"--target-width {flags.target_width:g}: a number above 0 is wanted")
    floors, (labelled, dimension) = read_floors(flags), _read_labels(flags)
    score = _scores(flags.scores, labelled, dimension)
    sample = Sample.of(labelled, labelled.outputs, dimension, score)
    documents = np.unique(sample.document)
    labelled_documents = np.unique(sample.document[sample.has_label])
    unlabelled = np.setdiff1d(documents, labelled_documents)
    figures: dict[str, PlannedFigure] = {}
    decisions = [Decision.of(floors, share) for share in FAILS] if floors else []
    n_ready = np.unique(sample.document[~np.isnan(sample.label + score)]).size
    n = FIRST_ROUND - n_ready
    if n_ready >= FEWEST:
        bounds = label_bounds(flags, labelled, dimension, sample)
        if floors:
            decisions = [Decision.of(floors, _share_of_fails(sample, bounds))]
            needed = next(iter(decisions[0].n_labels.values())) or math.inf
            n_missing = needed - np.count_nonzero(sample.has_label)
            n = math.ceil(min(unlabelled.size, max(0, n_missing * documents.size / score.size)))
        else:
            figures = figures_of(sample, bounds, flags.target_width)
            more = [figure.more_documents for figure in figures.values()]
            n = max((m for m in more if m), default=unlabelled.size if None in more else 0)
    # In random order, so that the first of them are a random part, too.
    drawn = stream(flags.seed, "plan", unlabelled.size).permutation(unlabelled)[:n].tolist()
    # If earlier labels have weights, new ones need them as well.
    n_from = unlabelled.size if np.ptp(sample.weight) else 0
    result = PlanResult(
        data={"name": labelled.name, "sha256": labelled.sha256},
        dimension=dimension,
        n_documents=documents.size,
        n_labelled=labelled_documents.size,
        target_width=flags.target_width,
        figures=figures,
        decisions=decisions or None,
        n_next=len(drawn),
        file=_write(flags, labelled, drawn, n_from) if drawn else None,
    )
    return Outcome(result, lines(result))


def _share_of_fails(sample: Sample, bounds: Bounds) -> float:
    """The share of fails, without ties; raises SettingsError if labels are not pass and fail."""
    if bounds != (0, 1) or not sample.is_two_valued:
        raise SettingsError("--min-tpr and --min-tnr need labels that say pass or fail")
    is_decided = sample.has_label & (sample.label != 0.5)
    return float(np.average(1 - sample.label[is_decided], weights=sample.weight[is_decided]))


def _read_labels(flags: argparse.Namespace) -> tuple[LabelledSet, str]:
    """All outputs with the labels so far, and the labels' dimension."""
    columns, dimension = mapping(flags.map) or None, flags.dimension
    items = read_items(flags.file, map=columns)
    assert isinstance(items, LabelledSet)
    # The file of outputs may have labels itself.
    source = flags.labels or (flags.file if items.reading.ratings else None)
    if not source:
        return items, dimension or ""
    bounds = bounds_of(flags.scale)
    labelled = read_labels(
        source,
        dimensions=dimension and [dimension],
        scales=bounds and {"*": bounds},
        texts=(),
        values=values_of(flags.values),
    )
    outputs = {output.id: output for output in items.outputs}
    for labelled_output in labelled.outputs:
        if labelled_output.ratings and (output := outputs.get(labelled_output.id)):
            outputs[output.id] = replace(
                output, ratings=labelled_output.ratings, weight=labelled_output.weight
            )
    rated_ids = {output.id for output in labelled.outputs if output.ratings}
    if unknown_ids := rated_ids - outputs.keys():
        raise LabelError(f"{source}: {min(unknown_ids)!r} is labelled, and {flags.file} lacks it")
    return replace(
        items,
        outputs=tuple(outputs.values()),
        words=labelled.words,
        scales=labelled.scales,
        reading=labelled.reading,
    ), only_dimension(labelled)


def _scores(spec: str | None, labelled: LabelledSet, dimension: str) -> Vector:
    """The judge's scores, NaN for missing ones; without a judge, 0 for all outputs."""
    if spec is None:
        return np.zeros(len(labelled.outputs))
    if not dimension:
        raise SettingsError("--scores needs --dimension NAME where no labels name it")
    metric, file = split_name(spec)
    by_id = read_scores(Path(file), dimension, labelled, print_error, metric)
    scores = np.array([by_id.get(output.id, math.nan) for output in labelled.outputs])
    if np.isnan(scores).all():
        raise LabelError(f"{file}: no output of {labelled.name} has a score")
    return scores


def figures_of(sample: Sample, bounds: Bounds, target: float) -> dict[str, PlannedFigure]:
    """The mean, and figures of the judge's agreement if its scores vary, by name."""
    labelled_part = sample.of_rows(sample.has_label)
    n, n_all = np.unique(labelled_part.document).size, np.unique(sample.document).size
    is_rate, mean = bounds == (0, 1) and sample.is_two_valued, sample.mean(bounds)
    figures: dict[str, Figure] = {"true rate" if is_rate else "true mean": mean}
    missing_by_figure, fewest = dict[str, int](), FEW_DOCUMENTS
    if np.nanmax(sample.score) > np.nanmin(sample.score):
        if is_rate:  # leave out outputs on which annotators are tied
            labelled_part = labelled_part.of_rows(labelled_part.label != 0.5)
        scored_items = (
            Item(id="", document_id=str(document), system=None, texts={}, human=human)
            for document, human in zip(labelled_part.document, labelled_part.label, strict=True)
        )
        items = Items(tuple(scored_items))
        level, words = choose_level(items), None
        vectors = labelled_part.score, labelled_part.label, labelled_part.document
        if is_rate and are_shares(sample.score):
            words, fewest = PASS_FAIL, FEW_OUTPUTS
            binary_figures = two_values(*vectors, weight=labelled_part.weight)
            figures |= {"balanced accuracy": binary_figures.balanced_accuracy}
            figures |= {"TPR": binary_figures.tpr, "TNR": binary_figures.tnr}
        else:
            figures[f"{level}-level rho"] = correlation(
                level, *vectors, weight=labelled_part.weight
            )
        missing_by_figure = missing_for_intervals(items, words, level)
    planned: dict[str, PlannedFigure] = {}
    for name, figure in figures.items():
        more = math.inf
        if figure.interval:
            more = max(0, n * (2 * figure.interval.half_width / target) ** 2 - n)
            if figure is mean and more:
                needed = labels_needed(mean, target) or math.inf
                more = max(1, needed * n / mean.n_labels - n)
        elif n_missing := missing_by_figure.get(name, max(missing_by_figure.values(), default=0)):
            more = n_missing * n / max(1, fewest - n_missing)
        n_more = None if more > n_all - n else math.ceil(more)
        planned[name] = PlannedFigure(figure=figure, more_documents=n_more)
    return planned


def _write(
    flags: argparse.Namespace, labelled: LabelledSet, drawn: Sequence[str], n_from: int
) -> NextFile:
    """Write all outputs of the drawn documents, in the order drawn.

    With `n_from`, rows get the weight of a document that was drawn from this many documents.
    """
    out = flags.out or Path(flags.file).with_suffix(".next.jsonl")
    rows_by_document: dict[str, list[JsonObject]] = {document: [] for document in drawn}
    sampling = dict(zip(SAMPLING, (n_from / len(drawn), n_from), strict=True)) if n_from else {}
    for output in labelled.outputs:
        if output.document_id in rows_by_document:
            rows_by_document[output.document_id].append(output.row | sampling)
    rows = [row for document_rows in rows_by_document.values() for row in document_rows]
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if not (out.is_file() and out.read_bytes() == content):
        write_atomically(out, content)
    return NextFile(out=str(out), n_outputs=len(rows), next=_label_command(flags, labelled, out))


def _label_command(flags: argparse.Namespace, labelled: LabelledSet, file: Path) -> str:
    """The command that labels the outputs of a file."""
    name = flags.dimension or "".join(labelled.dimensions) or "NAME"
    scale = flags.scale or "-".join(f"{end:g}" for end in labelled.scales.get(name, ()))
    if not scale and name in {*labelled.dimensions} - labelled.words.keys():
        scale = "" if find_subject(name) else "LOW-HIGH"
    # New labels can only be added to a file in the form that the label page writes.
    can_grow = flags.labels and "rating" in labelled.reading.ratings
    labels = flags.labels if can_grow else str(Path(flags.file).with_suffix(f".{name}.jsonl"))
    words = ["dspy-judges", "label", str(file), "--dimension", name]
    words += ["--scale", scale] if scale else []
    return shlex.join([*words, "--out", labels])


def lines(result: PlanResult) -> list[str]:
    """Lines on what is labelled, each figure, the file that was written, and the next command."""
    n_left = result.n_documents - result.n_labelled
    labelled = f"{result.n_labelled:,} of {counted(result.n_documents, 'document')} labelled"
    fewest = f"{FEWEST} with scores" if result.n_labelled >= FEWEST else FEWEST
    texts = [f"{labelled}; a plan needs {fewest}, so a random round comes first."]
    if decisions := result.decisions or ():
        texts = [texts[0]] if len(decisions) > 1 else [f"{labelled}."]
        texts += [f"{each}." for each in decisions]
    if result.figures:
        texts = [f"{labelled}; how many more give a width of {result.target_width:g}:"]
    texts += [_figure_line(name, each, n_left) for name, each in result.figures.items()]
    if (file := result.file) is None:
        return wrapped(*texts, f"Nothing {'more' if n_left else 'is left'} to label.")
    counts = f"{counted(result.n_next, 'document')}, {counted(file.n_outputs, 'output')}"
    return [*wrapped(*texts, f"{file.out}: {counts}, drawn {result.drawn}; next:"), file.next]


def _figure_line(name: str, planned: PlannedFigure, n_left: int) -> str:
    width, n_more = planned.width, planned.more_documents
    current = TOO_FEW if width is None else f"width {width:.3f}"
    if n_more is None:
        outlook = f"not by all {n_left:,} left" if n_left else "not reached"
    elif n_more == 0:
        outlook = "reached"
    else:
        outlook = f"about {n_more:,} more" + (" for one" if width is None else "")
    return f"{name:<17}  {figure_text(planned.figure)}, {current}: {outlook}"


if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))
