"""The command `plan`: how many documents to label next, and which."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))  # before other imports; `start` says why

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dspy_judges.errors import ExistsError, SettingsError
from judges.cli.flags import READING_FLAGS, Parser, add_flags, parse_float
from judges.judgement import AnyJudgement, Judgement
from judges.labels.readers import read_labelled_items
from judges.labels.types import LabelledSet
from judges.labels.values import Scale
from judges.tables.atomic_write import write_atomically
from judges.tables.problems import count_text, joined_names
from judges.terminal import print_note, print_notes, wrap_lines
from optimize.figures.as_json import JsonObject, figure_json, to_json
from optimize.figures.as_text import TOO_FEW_FOR_INTERVAL, command_text, figure_text
from optimize.inputs.flags import CommandOutcome, read_floors, run_and_print
from optimize.inputs.labelled import LabelSource
from optimize.inputs.subjects import dimension_name
from optimize.items import choose_level, n_missing_for_intervals
from optimize.measuring.asking import Task
from optimize.measuring.partial_labels import (
    estimate_mean_label,
    find_label_scale,
    label_mask,
    labels_are_verdicts,
)
from optimize.measuring.scored import ScoredItems, are_fractions
from optimize.statistics.correlations import correlation
from optimize.statistics.floor import LabelsNeeded, labels_needed_for_floors
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Figure, Mask, random_generator
from optimize.statistics.mean_estimates import n_labels_for_width
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, verdict_agreement
from optimize.task_flags import read_judgements_by_id, read_task_on_all_outputs, task_on_all_outputs

# Figures on fewer labelled documents are too uncertain to plan from. Then the plan is a first round
# of random documents.
MIN_LABELLED_DOCUMENTS, FIRST_ROUND_DOCUMENTS = 20, 30
# The shares of fails that a plan assumes while the labels are too few to estimate the share.
ASSUMED_FAIL_SHARES = (0.05, 0.2, 0.5)


def parser() -> Parser:
    command_parser = Parser(
        prog="dspy-judges plan",
        description="How many documents to label next, and which, so that the true rate or mean\n"
        "and the judge's agreement with people have intervals of a given width. They are\n"
        "written in random order: it is fine to label only the first ones.",
    )
    add = command_parser.add_argument
    add("file", metavar="FILE", help="a file with all outputs")
    add("--labels", metavar="FILE", help="the labels so far, with the same ids as FILE")
    add("--scores", metavar="FILE", help="a judge's scores for all outputs")
    add_flags(command_parser, *READING_FLAGS, "--dimension", "--scale", "--json", "--quiet")
    add("--target-width", metavar="W", type=parse_float, default=0.1, help="wanted width (0.1)")
    for name in ("tpr", "tnr"):
        help_text = f"plan to decide if {name.upper()} is above X, instead of a width"
        add(f"--min-{name}", type=parse_float, metavar="X", help=help_text)
    add("--out", metavar="FILE", type=Path, help="the documents to label (FILE.next.jsonl)")
    add_flags(command_parser, "--seed")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """A figure on the labels so far, and how many more labelled documents it needs.

    `n_more_documents` more documents narrow its interval to the target width, or give an interval
    where there is none. The number is None if even all unlabelled documents are too few.
    """

    figure: Figure
    n_more_documents: int | None

    @property
    def width(self) -> float | None:
        return 2 * self.figure.interval.half_width if self.figure.interval else None

    def to_json(self) -> JsonObject:
        record = figure_json(self.figure, None)
        return {**record, "width": self.width, "more_documents": self.n_more_documents}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """A labelling plan: how many documents are labelled, how many more are needed, and for what.

    `figures` is empty if too few labelled documents have scores. It is also empty if the user set
    floors: then `label_needs` says how many labels decide about the floors. `other_labels` is the
    file of the labels so far, if the next labels go into another file.
    """

    data: Mapping[str, str]
    dimension: str
    n_documents: int
    n_labelled: int
    n_all_outputs: int
    n_labelled_outputs: int
    target_width: float
    figures: Mapping[str, PlannedFigure]
    label_needs: list[LabelsNeeded] | None = field(default=None, metadata={"json": "decisions"})
    n_documents_to_label: int = field(default=0, metadata={"json": "n_next"})
    draw_method: str = field(default="at random", metadata={"json": "drawn"})
    file_to_label: str | None = field(default=None, metadata={"json": "out"})
    n_outputs_to_label: int | None = field(default=None, metadata={"json": "n_outputs"})
    next_command: str | None = field(default=None, metadata={"json": "next"})
    other_labels: str | None = None


def plan(flags: argparse.Namespace) -> CommandOutcome:
    """Plan how many documents to label next, and write a file with these documents."""
    if not 0 < flags.target_width < math.inf:
        raise SettingsError(f"--target-width {flags.target_width:g}: a number above 0 is wanted")
    label_source = LabelSource.of(
        flags.file, map=flags.map, values=flags.values, annotations=flags.labels, scale=flags.scale
    )
    flags.scale = label_source.scale  # a mapping file may name it
    floors, task = read_floors(flags), _read_labels_so_far(flags, label_source)
    scored_items, labels = _read_scores(flags, task), task.labels
    assert isinstance(labels, LabelledSet)
    labelled_items = _of_mask(scored_items, label_mask(scored_items))
    documents, labelled_documents = scored_items.items.documents, labelled_items.items.documents
    n_scored = len(_of_mask(labelled_items, ~np.isnan(labelled_items.scores)).items.documents)
    figures, label_needs = dict[str, PlannedFigure](), list[LabelsNeeded]()
    if n_scored >= MIN_LABELLED_DOCUMENTS:
        scale = find_label_scale(scored_items, scale=flags.scale, dimension_spec=flags.dimension)
        if floors:
            label_needs = [_labels_for_floors(labelled_items, scale, floors)]
        else:
            figures = plan_figures(scored_items, scale, flags.target_width)
    elif floors:
        label_needs = [labels_needed_for_floors(floors, share) for share in ASSUMED_FAIL_SHARES]
    result = PlanResult(
        data={"name": labels.name, "sha256": labels.sha256},
        dimension=task.dimension,
        n_documents=len(documents),
        n_labelled=len(labelled_documents),
        n_all_outputs=len(scored_items.items),
        n_labelled_outputs=len(labelled_items.items),
        target_width=flags.target_width,
        figures=figures,
        label_needs=label_needs or None,
    )
    # The order is random, so that the first documents alone are a random sample, too.
    unlabelled_documents = np.setdiff1d(documents, labelled_documents)
    rng = random_generator(flags.seed, "plan", unlabelled_documents.size)
    n_to_label = _n_documents_to_label(result, n_scored)
    if drawn_documents := rng.permutation(unlabelled_documents)[:n_to_label].tolist():
        result = _with_next_step(flags, labels, drawn_documents, result)
    return CommandOutcome(to_json(result), plan_lines(result))


def _n_documents_to_label(result: PlanResult, n_scored: int) -> int:
    """Return how many documents to label next, if `n_scored` labelled documents have scores."""
    n_left = result.n_documents - result.n_labelled
    if n_scored < MIN_LABELLED_DOCUMENTS:
        return min(FIRST_ROUND_DOCUMENTS - n_scored, n_left)
    if result.label_needs:
        n_labels = next(iter(result.label_needs[0].n_labels.values()))
        if n_labels is None:
            return n_left
        n_missing = max(0, n_labels - result.n_labelled_outputs)
        return min(math.ceil(n_missing * result.n_documents / result.n_all_outputs), n_left)
    numbers = [planned.n_more_documents for planned in result.figures.values()]
    # If all documents are too few for every figure that needs more, all are labelled.
    return max(filter(None, numbers), default=n_left if None in numbers else 0)


def _of_mask(scored_items: ScoredItems, mask: Mask) -> ScoredItems:
    return scored_items.of_rows(np.flatnonzero(mask).tolist())


def _read_scores(flags: argparse.Namespace, task: Task) -> ScoredItems:
    """Return all outputs with the scores of --scores; without it, all have the same score."""
    if task.items().is_weighted:
        raise SettingsError(
            f"{task.labels.name}: its documents were drawn with unequal chances, and plan "
            "draws at random: draw further documents as these were drawn, and give them a "
            "sampling_weight"
        )
    if flags.scores and not task.dimension:
        raise SettingsError("--scores needs --dimension NAME if no labels name it")
    judgement = Judgement.failed("no score") if flags.scores else Judgement(score=0.0)
    judgement_by_id: dict[str, AnyJudgement]
    judgement_by_id = dict.fromkeys((item.id for item in task.labels.items), judgement)
    if flags.scores:
        judgement_by_id |= read_judgements_by_id(flags.scores, task)
    return task.match_judgements("scores", judgement_by_id, None)


def _labels_for_floors(
    labelled_items: ScoredItems, label_scale: Scale, floors: Mapping[str, float]
) -> LabelsNeeded:
    """Return how many labels decide about the floors, if fails stay as frequent as so far."""
    if label_scale != (0, 1) or not labels_are_verdicts(labelled_items):
        raise SettingsError("--min-tpr and --min-tnr need labels that say pass or fail")
    is_decided = labelled_items.human != 0.5
    return labels_needed_for_floors(floors, float(1 - labelled_items.human[is_decided].mean()))


def _read_labels_so_far(flags: argparse.Namespace, label_source: LabelSource) -> Task:
    """Return a task on all outputs with the labels so far; its dimension is "" if unknown."""
    if not flags.labels:
        options = replace(label_source.options, reads_labels=False)
        outputs = read_labelled_items(flags.file, options, item_kind="outputs")
        assert isinstance(outputs, LabelledSet)
        if not outputs.reading.ratings:
            print_notes(outputs.notes)
            if unread_columns := outputs.reading.unread:
                print_note(f"note: no labels are read from {joined_names(unread_columns)}")
            dimension = dimension_name(flags.dimension) if flags.dimension else ""
            return task_on_all_outputs(outputs, dimension)
    return read_task_on_all_outputs(label_source, flags.dimension)


def plan_figures(
    scored_items: ScoredItems, label_scale: Scale, target_width: float
) -> dict[str, PlannedFigure]:
    """Return the mean label and the judge's agreement, and how many more documents each needs."""
    labelled_items = _of_mask(scored_items, label_mask(scored_items))
    n_labelled = len(labelled_items.items.documents)
    n_unlabelled = len(scored_items.items.documents) - n_labelled
    is_rate = label_scale == (0, 1) and labels_are_verdicts(scored_items)
    mean = estimate_mean_label(scored_items, label_scale)
    figures: dict[str, Figure] = {"true rate" if is_rate else "true mean": mean}
    n_missing_by_figure, n_for_interval = dict[str, int](), MIN_DOCUMENTS_FOR_INTERVAL
    scores = scored_items.scores
    if np.nanmax(scores) > np.nanmin(scores):
        if is_rate:  # leave out the outputs whose annotators are tied
            labelled_items = _of_mask(labelled_items, labelled_items.human != 0.5)
        items, level = labelled_items.items, choose_level(labelled_items.items)
        vectors = labelled_items.scores, labelled_items.human, labelled_items.document_ids
        if is_rate and are_fractions(scores):
            n_for_interval, rates = MIN_OUTPUTS_FOR_RATES, verdict_agreement(scored_rows(*vectors))
            n_missing_by_figure = n_missing_for_intervals(items, level, has_verdicts=True)
            n_missing_by_figure["balanced accuracy"] = max(n_missing_by_figure.values())
            figures["balanced accuracy"] = rates.balanced_accuracy
            figures |= {"TPR": rates.tpr, "TNR": rates.tnr}
        else:
            n_missing_by_figure = n_missing_for_intervals(items, level, has_verdicts=False)
            figures[f"{level}-level rho"] = correlation(level, *vectors)
    planned_figures: dict[str, PlannedFigure] = {}
    for name, figure in figures.items():
        n_more = math.inf
        if figure.interval:
            n_more = n_labelled * ((2 * figure.interval.half_width / target_width) ** 2 - 1)
        elif n_missing := n_missing_by_figure.get(name):
            n_more = n_missing * n_labelled / max(1, n_for_interval - n_missing)
        if figure is mean and n_more > 0:
            n_labels_needed = n_labels_for_width(mean, target_width) or math.inf
            n_more = max(1, n_labels_needed * n_labelled / mean.n_labels - n_labelled)
        n_more_documents = None if n_more > n_unlabelled else max(0, math.ceil(n_more))
        planned_figures[name] = PlannedFigure(figure=figure, n_more_documents=n_more_documents)
    return planned_figures


def _with_next_step(
    flags: argparse.Namespace, labels: LabelledSet, documents: list[str], result: PlanResult
) -> PlanResult:
    """Write the documents to label, and return the plan with their file and the next command."""
    path: Path = flags.out or Path(flags.file).with_suffix(".next.jsonl")
    name = result.dimension or "NAME"
    label_file = str(Path(flags.file).with_suffix(f".{name}.jsonl"))
    if flags.labels:
        with Path(flags.labels).open("rb") as lines:
            # `label` can add labels to a file that it wrote, in which each label has its time.
            if b'"labelled_at": ' in lines.readline():
                label_file = flags.labels
    scale_text = flags.scale or "-".join(f"{end:g}" for end in labels.scales.get(name, ()))
    label_flags = {"dimension": flags.dimension or name, "scale": scale_text, "out": label_file}
    earlier_file = flags.labels or flags.file
    return replace(
        result,
        n_documents_to_label=len(documents),
        file_to_label=str(path),
        n_outputs_to_label=_write_documents(path, labels, documents),
        next_command=command_text("label", str(path), **label_flags),
        other_labels=earlier_file if result.n_labelled and label_file != earlier_file else None,
    )


def _write_documents(path: Path, labels: LabelledSet, documents: list[str]) -> int:
    """Write the outputs of these documents to a file; returns how many outputs were written."""
    position_of = {name: position for position, name in enumerate(documents)}
    outputs = [output for output in labels.outputs if output.document_id in position_of]
    outputs.sort(key=lambda output: position_of[output.document_id])
    file_bytes = "".join(f"{json.dumps(output.row)}\n" for output in outputs).encode()
    if path.exists() and not (path.is_file() and path.read_bytes() == file_bytes):
        raise ExistsError(f"{path} exists already; delete it, or name another --out")
    write_atomically(path, file_bytes, overwrite=True)
    return len(outputs)


def plan_lines(result: PlanResult) -> list[str]:
    n_left = result.n_documents - result.n_labelled
    documents_text = count_text(result.n_documents, "document")
    outputs_text = count_text(result.n_all_outputs, "output")
    sentences = [
        f"Labelled: {result.n_labelled:,} of {documents_text}, {result.n_labelled_outputs:,} of "
        f"{outputs_text}."
    ]
    label_needs = result.label_needs or ()
    if result.figures:
        sentences.append(f"More documents (outputs) for a width of {result.target_width:g}:")
    elif n_left and len(label_needs) != 1:
        with_scores = " with scores" if result.n_labelled >= MIN_LABELLED_DOCUMENTS else ""
        sentences.append(
            f"A plan needs {MIN_LABELLED_DOCUMENTS} labelled documents{with_scores}, so a random "
            "round comes first."
        )
    sentences += [f"{needed}." for needed in label_needs]
    sentences += [_figure_line(name, figure, result) for name, figure in result.figures.items()]
    if not (result.next_command and result.n_outputs_to_label):
        return wrap_lines(*sentences, f"Nothing {'more' if n_left else 'is left'} to label.")
    if result.other_labels:
        sentences.append(
            "The next labels go into a file of their own. To use those in "
            f"{result.other_labels}, too, put the ids and labels of both into one file for "
            "--labels and --annotations."
        )
    documents_text = count_text(result.n_documents_to_label, "document")
    outputs_text = count_text(result.n_outputs_to_label, "output")
    drawn_text = f"{documents_text}, {outputs_text}, drawn {result.draw_method}; next:"
    return [*wrap_lines(*sentences, f"{result.file_to_label}: {drawn_text}"), result.next_command]


def _figure_line(name: str, planned_figure: PlannedFigure, result: PlanResult) -> str:
    width, n_more = planned_figure.width, planned_figure.n_more_documents
    n_unlabelled = result.n_documents - result.n_labelled
    width_text = TOO_FEW_FOR_INTERVAL if width is None else f"width {width:.3f}"
    if n_more is None:
        need_text = f"not by all {n_unlabelled:,} left" if n_unlabelled else "not reached"
    elif n_more == 0:
        need_text = "reached"
    else:
        n_outputs = round(n_more * result.n_all_outputs / result.n_documents)
        need_text = f"about {n_more:,} ({n_outputs:,})" + (" for one" if width is None else "")
    return f"{name:<17}  {figure_text(planned_figure.figure)}, {width_text}: {need_text}"
