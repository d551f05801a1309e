"""The command `estimate`: people's mean label, estimated from few labels and many judgements."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.estimate:command"))  # before other imports; `start` says why

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from judges.cli.flags import READING_FLAGS, Parser, add_flags
from judges.labels.types import LabelError
from judges.labels.values import Scale
from judges.tables.problems import count_text
from judges.terminal import print_error, wrap_lines
from optimize.figures.as_json import JsonObject, fields_json
from optimize.figures.as_text import figure_text, number_text
from optimize.inputs.flags import CommandOutcome, run_and_print
from optimize.inputs.labelled import LabelSource
from optimize.measuring.asking import Task
from optimize.measuring.partial_labels import (
    estimate_mean_label,
    find_label_scale,
    label_mask,
    labels_are_verdicts,
    unlabelled_systems,
)
from optimize.measuring.scored import ScoredItems, are_fractions
from optimize.statistics.intervals import IntervalEstimate
from optimize.statistics.mean_estimates import (
    MeanEstimate,
    SystemDifference,
    n_labels_for_width,
    system_differences,
)
from optimize.task_flags import read_judgements_by_id, read_task_on_all_outputs


def parser() -> Parser:
    command_parser = Parser(
        prog="dspy-judges estimate",
        description="Estimate the mean label that people would give to all outputs (for pass and\n"
        "fail, the share of passes) from few labels and many judgements. The labelled\n"
        "outputs must be a random sample, or have sampling weights.",
    )
    add_flags(command_parser, "--data", required=True, help="all outputs, some of them with labels")
    help_text = "a judge's scores for all outputs"
    command_parser.add_argument("--scores", required=True, metavar="FILE", help=help_text)
    add_flags(command_parser, "--annotations", *READING_FLAGS, "--dimension", "--scale")
    add_flags(command_parser, "--json", "--quiet")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The estimated mean label over all outputs (`overall`), and over each system's outputs.

    If `is_rate`, the mean is the share of passes. A system with labels on fewer than two documents
    has no estimate (None). If there are `unlabelled_systems`, the labelled outputs are hardly a
    random sample. Each of the `differences` names the system with the higher mean first.
    """

    data_identity: Mapping[str, str]
    dimension: str
    scale: Scale
    is_rate: bool
    is_weighted: bool
    overall: MeanEstimate
    estimate_by_system: Mapping[str, MeanEstimate | None]
    unlabelled_systems: Sequence[str]
    differences: Sequence[SystemDifference]

    def to_json(self) -> JsonObject:
        systems = self.estimate_by_system.items()
        return {
            "data": self.data_identity,
            "dimension": self.dimension,
            "scale": self.scale,
            "weighted": self.is_weighted,
            "estimates": {"mean": _estimate_json(self.overall)},
            "systems": {name: figures and _estimate_json(figures) for name, figures in systems},
            "unlabelled_systems": [*self.unlabelled_systems],
            "differences": [
                {**fields_json(pair, "estimate", decimals=None), **_estimate_json(pair.estimate)}
                for pair in self.differences
            ],
        }


def estimate(flags: Namespace) -> CommandOutcome:
    """Estimate the mean label, over all outputs and by system, from the files that flags name."""
    source = LabelSource.from_flags(flags)
    task = read_task_on_all_outputs(source, flags.dimension)
    scored_items = _read_scores(flags, task)
    items, labels = scored_items.items, scored_items.labels
    scale = find_label_scale(scored_items, scale=source.scale, dimension_spec=flags.dimension)
    has_rates = are_fractions(scored_items.scores) and labels_are_verdicts(scored_items)
    is_rate = scale == (0, 1) and has_rates

    def estimate_mean(outputs: ScoredItems) -> MeanEstimate:
        estimate = estimate_mean_label(outputs, scale)
        if not is_rate:
            return estimate
        # The judge's rate is its share of passes, not the mean of its scores.
        return replace(estimate, judge_only=float(np.nanmean(outputs.verdicts)))

    try:
        overall = estimate_mean(scored_items)
    except ValueError as error:
        raise LabelError(f"{labels.name}: {error}") from error
    estimate_by_system: dict[str, MeanEstimate | None] = dict.fromkeys(items.systems)
    for name in items.systems:
        with suppress(ValueError):  # too few labels
            outputs = scored_items.of_ids({item.id for item in items if item.system == name})
            estimate_by_system[name] = estimate_mean(outputs)
    mean_by_system = {name: one.value for name, one in estimate_by_system.items() if one}
    best_first = sorted(mean_by_system, key=mean_by_system.__getitem__, reverse=True)
    vectors = scored_items.human, scored_items.scores, items.document_ids, items.system_ids
    result = EstimateResult(
        data_identity={"name": labels.name, "sha256": labels.sha256},
        dimension=task.dimension,
        scale=scale,
        is_rate=is_rate,
        is_weighted=np.unique(items.weights[label_mask(scored_items)]).size > 1,
        overall=overall,
        estimate_by_system=estimate_by_system,
        unlabelled_systems=unlabelled_systems(scored_items),
        differences=system_differences(best_first, *vectors, weight=items.weights, bounds=scale),
    )
    return CommandOutcome(result.to_json(), estimate_lines(result))


def _read_scores(flags: Namespace, task: Task) -> ScoredItems:
    """Return all outputs that have a score; most of these outputs have no label."""
    judgement_by_id = read_judgements_by_id(flags.scores, task)
    scored_items = task.match_judgements("scores", judgement_by_id, None)
    n_without_score, n_without_output = scored_items.n_unjudged, scored_items.n_unlabelled
    if n_without_output and label_mask(scored_items).all() and flags.annotations is None:
        raise LabelError(
            f"{task.labels.name}: {n_without_output:,} scores are of outputs that the file "
            "lacks; --data needs all outputs (labels may be empty), or add --annotations FILE"
        )
    if n_without_score:
        print_error(f"left out: {count_text(n_without_score, 'output')} without a score")
    if n_without_output:
        print_error(f"left out: {count_text(n_without_output, 'score')} without an output")
    return scored_items


def _labels_to_halve_interval(estimate: MeanEstimate) -> int | None:
    """Return how many more labels halve the interval's width; None if no number does."""
    n_needed = n_labels_for_width(estimate, estimate.interval.half_width)
    return None if n_needed is None else max(n_needed - estimate.n_labels, 0)


def _estimate_json(estimate: MeanEstimate) -> JsonObject:
    record = fields_json(estimate, "label_sd", "agreement", decimals=None)
    target_width = estimate.interval.half_width or None
    n_more_labels = _labels_to_halve_interval(estimate) if target_width else None
    return {**record, "target_width": target_width, "more_labels_needed": n_more_labels}


def estimate_lines(result: EstimateResult) -> list[str]:
    """Return lines on all outputs, then one for each system, compared with the best system."""
    overall = result.overall
    figure_name = "true rate" if result.is_rate else "true mean"
    labels_only, judge_only = figure_text(overall.labels_only), number_text(overall.judge_only)
    lines = [
        f"{result.dimension}: {figure_name} of outputs like these {figure_text(overall)}",
        "  if the labelled outputs are a random sample",
        f"  {overall.n_labels:,} outputs with labels, {overall.n_judgements:,} without, "
        f"{overall.n_documents:,} documents ({overall.n_failed:,} not judged)",
        f"  labels alone {labels_only}; the judge alone {judge_only}",
    ]
    if result.is_weighted:
        lines.append("  Weighted: documents were drawn with unequal chances.")
    if n_unlabelled := len(result.unlabelled_systems):
        systems_text = count_text(len(result.estimate_by_system), "system")
        lines.append(
            f"  Warning: {n_unlabelled:,} of {systems_text} have no label, so this is no random "
            "sample: trust only the systems' own estimates."
        )
    if overall.interval.half_width:
        line = "  Even labels on all outputs would not halve the interval."
        if (n_more_labels := _labels_to_halve_interval(overall)) is not None:
            line = f"  An interval half as wide takes {count_text(n_more_labels, 'more label')}."
        lines.append(line)
    n_outputs = overall.n_labels + overall.n_judgements
    mean_of_these = IntervalEstimate(overall.value, overall.given_interval)
    lines.append(f"  of these {n_outputs:,} outputs themselves {figure_text(mean_of_these)}")
    # The first difference is between the best system and another system.
    differences = result.differences
    best = differences[0].system if differences else ""
    pair_by_system = {pair.subtracted_system: pair for pair in differences if pair.system == best}
    for name, system_estimate in result.estimate_by_system.items():
        line = f"{name}: too few labels (at least two documents need labels)"
        if system_estimate is not None:
            labels_text = count_text(system_estimate.n_labels, "label")
            line = f"{name}: {figure_text(system_estimate)}, {labels_text}"
        if pair := pair_by_system.get(name):
            difference = IntervalEstimate(pair.estimate.value, pair.simultaneous_interval)
            line += f"; {best} less {name} {figure_text(difference, signed=True)}"
        lines.append(line)
    if differences:
        lines.append("Differences are on shared documents; all their intervals hold at once.")
    return wrap_lines(*lines)
