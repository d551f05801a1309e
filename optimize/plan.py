"""The command `plan`: how many documents to label next, and which."""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from dspy_judges.errors import ExistsError
from dspy_judges.startup import run as start
from judges.labels.readers import read_items
from judges.labels.types import LabelledSet
from judges.labels.values import Scale
from judges.tables.atomic_write import write_atomically
from judges.tables.problems import count_text
from judges.terminal import print_note
from optimize.figures.as_json import JsonObject, figure_json
from optimize.figures.as_text import TOO_FEW_FOR_INTERVAL, figure_text, wrap_lines
from optimize.inputs.flags import (
    CommandOutcome,
    CommandParser,
    SettingsError,
    read_floors,
    run_and_print,
)
from optimize.inputs.labelled import PASS_FAIL, LabelSource
from optimize.inputs.subjects import dimension_name, find_subject
from optimize.items import Items, choose_level, make_items
from optimize.measuring.capacity import (
    LabelsNeeded,
    labels_needed_for_floors,
    n_missing_for_intervals,
)
from optimize.measuring.partial_labels import (
    PartialLabels,
    add_partial_label_flags,
    find_label_scale,
    read_rated_outputs,
    read_scores_by_id,
)
from optimize.measuring.scored import are_fractions
from optimize.statistics.correlations import correlation
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Figure, random_generator
from optimize.statistics.mean_estimates import labels_needed
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, verdict_agreement

COMMAND_NAME = "dspy-judges plan"
# With fewer labelled documents than the minimum, figures are too uncertain to plan from; then a
# first round of documents is to be labelled.
MIN_LABELLED_DOCUMENTS, FIRST_ROUND_DOCUMENTS = 20, 30
# The shares of fails that a plan assumes while the labels are too few to estimate the share.
ASSUMED_FAIL_SHARES = (0.05, 0.2, 0.5)


def parser() -> argparse.ArgumentParser:
    command_parser = CommandParser(
        prog=COMMAND_NAME,
        description="How many documents to label next, and which, so that the true rate or mean\n"
        "and the judge's agreement with people have intervals of a given width. They are\n"
        "written in random order: it is fine to label only the first ones.",
    )
    add = command_parser.add_argument
    add("file", metavar="FILE", help="a file with all outputs")
    add("--labels", metavar="FILE", help="the labels so far, with the same ids as FILE")
    add_partial_label_flags(command_parser, needs_scores=False)
    command_parser.set_defaults(data=None, annotations=None)  # `LabelSource.from_flags` reads these
    help_text = "the wanted width of the intervals (0.1)"
    add("--target-width", metavar="W", type=float, default=0.1, help=help_text)
    for name in ("tpr", "tnr"):
        help_text = f"plan to decide if {name.upper()} is above X, instead of a width"
        add(f"--min-{name}", type=float, metavar="X", help=help_text)
    add("--out", metavar="FILE", type=Path, help="the documents to label (FILE.next.jsonl)")
    add("--seed", type=int, default=0, metavar="N", help="the seed of the draw (0)")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Run `dspy-judges plan`; returns 0, 1 after an error, 2 for wrong usage, 130 after Ctrl-C."""
    return run_and_print(COMMAND_NAME, parser().parse_args(arguments), plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """A figure on the labels so far, and how many more labelled documents it needs.

    With `more_documents` further documents, the interval has the target width. If there is no
    interval yet, that many documents give one. `more_documents` is None if even all unlabelled
    documents do not suffice.
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
class PlanResult:
    """A labelling plan: how many documents are labelled, how many more are needed, and for what.

    `figures` has the plan for each figure; it is empty if too few labelled documents have scores,
    or if `labels_needed` for floors are planned instead. `out` is the file with the `n_next`
    documents to label, and `next` the command that labels them; both are None if there is nothing
    to label. `other_labels` is the file of the labels so far, if `next` writes the new labels to
    another file.
    """

    data: Mapping[str, str]
    dimension: str
    n_documents: int
    n_labelled: int
    target_width: float
    figures: Mapping[str, PlannedFigure]
    labels_needed: Sequence[LabelsNeeded] | None = field(
        default=None, metadata={"json": "decisions"}
    )
    n_next: int = 0
    drawn: str = "at random"
    out: str | None = None
    n_outputs: int | None = None
    next: str | None = None
    other_labels: str | None = None


def plan(flags: argparse.Namespace) -> CommandOutcome:
    """Plan how many documents to label next, and write a file with these documents."""
    if not 0 < flags.target_width < math.inf:
        raise SettingsError(f"--target-width {flags.target_width:g}: a number above 0 is wanted")
    floors, (labelled, dimension) = read_floors(flags), _read_labels_so_far(flags)
    scores = dict.fromkeys((output.id for output in labelled.outputs), 0.0)
    if flags.scores:
        if not dimension:
            raise SettingsError("--scores needs --dimension NAME if no labels name it")
        scores = read_scores_by_id(flags.scores, labelled, dimension)
    sample = PartialLabels.from_outputs(labelled, labelled.outputs, dimension, scores)
    if np.ptp(sample.weights):
        raise SettingsError(
            f"{labelled.name}: its documents were drawn with unequal chances, and plan draws at "
            "random: draw further documents as these were drawn, and give them a sampling_weight"
        )
    documents = np.unique(sample.document_ids)
    labelled_documents = np.unique(sample.document_ids[sample.has_label])
    unlabelled_documents = np.setdiff1d(documents, labelled_documents)
    is_complete = ~np.isnan(sample.labels + sample.scores)
    n_labelled_and_scored = np.unique(sample.document_ids[is_complete]).size
    figures: dict[str, PlannedFigure] = {}
    needed = (
        [labels_needed_for_floors(floors, share) for share in ASSUMED_FAIL_SHARES] if floors else []
    )
    if n_labelled_and_scored < MIN_LABELLED_DOCUMENTS:
        n_to_label = FIRST_ROUND_DOCUMENTS - n_labelled_and_scored
    elif floors:
        needed = [
            _labels_for_floors(sample, _label_scale(flags, labelled, dimension, sample), floors)
        ]
        n_labels = next(iter(needed[0].n_labels.values())) or math.inf
        n_missing = max(0, n_labels - np.count_nonzero(sample.has_label))
        documents_per_output = documents.size / sample.scores.size
        n_to_label = math.ceil(min(unlabelled_documents.size, n_missing * documents_per_output))
    else:
        bounds = _label_scale(flags, labelled, dimension, sample)
        figures = plan_figures(sample, make_items(labelled, dimension), bounds, flags.target_width)
        more_by_figure = [figure.more_documents for figure in figures.values()]
        n_if_unreachable = unlabelled_documents.size if None in more_by_figure else 0
        n_to_label = max(filter(None, more_by_figure), default=n_if_unreachable)
    result = PlanResult(
        data={"name": labelled.name, "sha256": labelled.sha256},
        dimension=dimension,
        n_documents=documents.size,
        n_labelled=labelled_documents.size,
        target_width=flags.target_width,
        figures=figures,
        labels_needed=needed or None,
    )
    # The order is random, so that people who label only the first documents still have a random
    # sample.
    rng = random_generator(flags.seed, "plan", unlabelled_documents.size)
    shuffled_documents = rng.permutation(unlabelled_documents)
    if drawn_documents := shuffled_documents[:n_to_label].tolist():
        result = _write_documents(flags, labelled, drawn_documents, result)
    return CommandOutcome(result, plan_lines(result))


def _labels_for_floors(
    sample: PartialLabels, bounds: Scale, floors: Mapping[str, float]
) -> LabelsNeeded:
    if bounds != (0, 1) or not sample.is_two_valued:
        raise SettingsError("--min-tpr and --min-tnr need labels that say pass or fail")
    verdicts = sample.labels[sample.has_label & (sample.labels != 0.5)]
    return labels_needed_for_floors(floors, float(1 - verdicts.mean()))


def _read_labels_so_far(flags: argparse.Namespace) -> tuple[LabelledSet, str]:
    """Return all outputs with the labels so far, and the dimension's name ("" if unknown)."""
    label_source = replace(LabelSource.from_flags(flags), data=flags.file, annotations=flags.labels)
    if not flags.labels:
        outputs = read_items(flags.file, map=label_source.columns_by_name)
        assert isinstance(outputs, LabelledSet)
        if not outputs.reading.ratings:
            return outputs, dimension_name(flags.dimension) if flags.dimension else ""
    labelled, dimension = read_rated_outputs(label_source, flags.dimension)
    for note in labelled.notes:
        print_note(f"note: {note}")
    return labelled, dimension


def _label_scale(
    flags: argparse.Namespace, labelled: LabelledSet, dimension: str, sample: PartialLabels
) -> Scale:
    subject = find_subject(flags.dimension or dimension)
    return find_label_scale(labelled, dimension, sample, scale=flags.scale, subject=subject)


def plan_figures(
    sample: PartialLabels, items: Items, bounds: Scale, target: float
) -> dict[str, PlannedFigure]:
    """Return how many more documents the mean label and the judge's agreement need."""
    labelled_part = sample.of_rows(sample.has_label)
    n_labelled = np.unique(labelled_part.document_ids).size
    n_unlabelled = np.unique(sample.document_ids).size - n_labelled
    is_rate, mean = bounds == (0, 1) and sample.is_two_valued, sample.estimate_mean(bounds)
    figures: dict[str, Figure] = {"true rate" if is_rate else "true mean": mean}
    missing_by_figure, n_for_interval = dict[str, int](), MIN_DOCUMENTS_FOR_INTERVAL
    if np.nanmax(sample.scores) > np.nanmin(sample.scores):
        if is_rate:  # leave out the outputs whose annotators are tied
            labelled_part = labelled_part.of_rows(labelled_part.labels != 0.5)
            items = items.of_rows(np.flatnonzero(items.human != 0.5).tolist())
        score_label_document = (
            labelled_part.scores,
            labelled_part.labels,
            labelled_part.document_ids,
        )
        level = choose_level(items)
        if is_rate and are_fractions(sample.scores):
            n_for_interval = MIN_OUTPUTS_FOR_RATES
            rates = verdict_agreement(*score_label_document)
            figures |= {"balanced accuracy": rates.balanced_accuracy}
            figures |= {"TPR": rates.tpr, "TNR": rates.tnr}
            missing_by_figure = n_missing_for_intervals(items, PASS_FAIL, level)
            missing_by_figure["balanced accuracy"] = max(missing_by_figure.values())
        else:
            figures[f"{level}-level rho"] = correlation(level, *score_label_document)
            missing_by_figure = n_missing_for_intervals(items, None, level)
    planned_figures: dict[str, PlannedFigure] = {}
    for name, figure in figures.items():
        n_more = math.inf
        if figure.interval:
            n_more = n_labelled * ((2 * figure.interval.half_width / target) ** 2 - 1)
            if figure is mean and n_more > 0:
                n_needed = labels_needed(mean, target) or math.inf
                n_more = max(1, n_needed * n_labelled / mean.n_labels - n_labelled)
        elif n_missing := missing_by_figure[name]:
            n_more = n_missing * n_labelled / max(1, n_for_interval - n_missing)
        more_documents = None if n_more > n_unlabelled else max(0, math.ceil(n_more))
        planned_figures[name] = PlannedFigure(figure=figure, more_documents=more_documents)
    return planned_figures


def _write_documents(
    flags: argparse.Namespace,
    labelled: LabelledSet,
    drawn_documents: Sequence[str],
    result: PlanResult,
) -> PlanResult:
    """Write all outputs of the drawn documents; returns the plan with the file and next command."""
    out: Path = flags.out or Path(flags.file).with_suffix(".next.jsonl")
    rows_by_document: dict[str, list[str]] = {document: [] for document in drawn_documents}
    for output in labelled.outputs:
        if output.document_id in rows_by_document:
            rows_by_document[output.document_id].append(f"{json.dumps(output.row)}\n")
    rows = [*chain.from_iterable(rows_by_document.values())]
    content = "".join(rows).encode()
    if out.exists() and not (out.is_file() and out.read_bytes() == content):
        raise ExistsError(f"{out} exists already; delete it, or name another --out")
    write_atomically(out, content, overwrite=True)
    label_file, labels_so_far = _file_of_next_labels(flags, result), flags.labels or flags.file
    name = result.dimension or "NAME"
    words = ["dspy-judges", "label", str(out), "--dimension", flags.dimension or name]
    if scale := flags.scale or "-".join(f"{end:g}" for end in labelled.scales.get(name, ())):
        words += ["--scale", scale]
    return replace(
        result,
        n_next=len(drawn_documents),
        out=str(out),
        n_outputs=len(rows),
        next=shlex.join([*words, "--out", label_file]),
        other_labels=labels_so_far if result.n_labelled and label_file != labels_so_far else None,
    )


def _file_of_next_labels(flags: argparse.Namespace, result: PlanResult) -> str:
    """Return the file of the labels so far if `label` can add labels to it; else a new file."""
    if flags.labels and flags.labels.endswith(".jsonl"):
        with Path(flags.labels).open("rb") as lines:
            # Only `label` writes the time of each label.
            if b'"labelled_at": ' in lines.readline():
                return str(flags.labels)
    return str(Path(flags.file).with_suffix(f".{result.dimension or 'NAME'}.jsonl"))


def plan_lines(result: PlanResult) -> list[str]:
    """Return lines on labels, each figure, the written file, and the next command."""
    n_left = result.n_documents - result.n_labelled
    labelled_text = (
        f"{result.n_labelled:,} of {count_text(result.n_documents, 'document')} labelled"
    )
    labels_needed = result.labels_needed or ()
    if result.figures:
        sentences = [f"{labelled_text}; how many more give a width of {result.target_width:g}:"]
    elif len(labels_needed) == 1:
        sentences = [f"{labelled_text}."]
    else:
        with_scores = " with scores" * (result.n_labelled >= MIN_LABELLED_DOCUMENTS)
        need_text = f"a plan needs {MIN_LABELLED_DOCUMENTS}{with_scores}"
        sentences = [f"{labelled_text}; {need_text}, so a random round comes first."]
    sentences += [f"{each}." for each in labels_needed]
    for name, figure in result.figures.items():
        width, n_more = figure.width, figure.more_documents
        width_text = TOO_FEW_FOR_INTERVAL if width is None else f"width {width:.3f}"
        if n_more is None:
            outlook = f"not by all {n_left:,} left" if n_left else "not reached"
        elif n_more == 0:
            outlook = "reached"
        else:
            outlook = f"about {n_more:,} more" + (" for one" if width is None else "")
        sentences.append(f"{name:<17}  {figure_text(figure.figure)}, {width_text}: {outlook}")
    if not (result.next and result.n_outputs):
        return wrap_lines(*sentences, f"Nothing {'more' if n_left else 'is left'} to label.")
    if result.other_labels:
        sentences.append(
            "The next labels go into a file of their own. To use those in "
            f"{result.other_labels}, too, put the ids and labels of both into one file for "
            "--labels and --annotations."
        )
    counts = f"{count_text(result.n_next, 'document')}, {count_text(result.n_outputs, 'output')}"
    file_line = f"{result.out}: {counts}, drawn {result.drawn}; next:"
    return [*wrap_lines(*sentences, file_line), result.next]


if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))
