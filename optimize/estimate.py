"""The command `estimate`: people's mean label, estimated from few labels and many judgements."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dspy_judges.startup import run as start
from judges.labels.types import LabelError, LabelledSet
from judges.labels.values import Scale
from judges.tables.problems import count_text
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject, fields_json
from optimize.figures.as_text import figure_text, number_text
from optimize.inputs.flags import CommandOutcome, CommandParser, run_and_print
from optimize.inputs.labelled import LabelSource
from optimize.measuring.partial_labels import (
    PartialLabels,
    add_partial_label_flags,
    label_bounds,
    read_rated_outputs,
    read_scores_by_id,
)
from optimize.measuring.scored import are_fractions
from optimize.statistics.balanced import verdicts
from optimize.statistics.intervals import IntervalEstimate
from optimize.statistics.mean_estimates import (
    MeanEstimate,
    SystemDifference,
    labels_needed,
    system_differences,
)

COMMAND_NAME = "dspy-judges estimate"


def parser() -> argparse.ArgumentParser:
    command_parser = CommandParser(
        prog=COMMAND_NAME,
        description="Estimate the mean label that people would give to all outputs (for pass and\n"
        "fail, the share of passes) from few labels and many judgements. The labelled\n"
        "outputs must be a random sample, or have sampling weights.",
    )
    add = command_parser.add_argument
    help_text = "all outputs, some of them with labels"
    add("--data", metavar="FILE", required=True, help=help_text)
    add("--annotations", metavar="FILE", help="the labels, if they are in a separate file")
    add_partial_label_flags(command_parser, needs_scores=True)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Print the estimates; returns 0, 1 after an error, 2 for wrong usage, 130 after Ctrl-C."""
    return run_and_print(COMMAND_NAME, parser().parse_args(arguments), estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The estimated mean label over all outputs (`overall`), and over each system's outputs.

    If `is_rate`, labels and scores say pass or fail, and the mean is the share of passes. A system
    with labels on fewer than two documents has no estimate (None). If there are
    `unlabelled_systems`, the labelled outputs are hardly a random sample. `differences` are between
    every two systems; the system with the higher mean is named first.
    """

    data: LabelledSet
    dimension: str
    scale: Scale
    is_rate: bool
    is_weighted: bool
    overall: MeanEstimate
    systems: Mapping[str, MeanEstimate | None]
    unlabelled_systems: Sequence[str]
    differences: Sequence[SystemDifference]

    def to_json(self) -> JsonObject:
        return {
            "data": {"name": self.data.name, "sha256": self.data.sha256},
            "dimension": self.dimension,
            "scale": self.scale,
            "weighted": self.is_weighted,
            "estimates": {"mean": _estimate_json(self.overall)},
            "systems": {name: item and _estimate_json(item) for name, item in self.systems.items()},
            "unlabelled_systems": [*self.unlabelled_systems],
            "differences": [
                {**fields_json(item, "estimate", decimals=None), **_estimate_json(item.estimate)}
                for item in self.differences
            ],
        }


def estimate(flags: argparse.Namespace) -> CommandOutcome:
    """Estimate the mean label, over all outputs and by system, from the files that flags name."""
    labelled, dimension = read_rated_outputs(flags, LabelSource.from_flags(flags))
    sample = _read_sample(flags, labelled, dimension)
    bounds = label_bounds(flags, labelled, dimension, sample)
    is_rate = bounds == (0, 1) and are_fractions(sample.score) and sample.is_two_valued

    def mean_of(sample_part: PartialLabels) -> MeanEstimate:
        mean = sample_part.mean(bounds)
        # For pass and fail, `judge_only` is the share of passes, not the mean of the scores.
        judge_only = float(np.nanmean(verdicts(sample_part.score))) if is_rate else mean.judge_only
        return replace(mean, judge_only=judge_only)

    try:
        overall = mean_of(sample)
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    systems = sorted(set(sample.system.tolist()) - {""})
    estimate_by_system: dict[str, MeanEstimate | None] = dict.fromkeys(systems)
    for name in systems:
        with suppress(ValueError):
            estimate_by_system[name] = mean_of(sample.select(sample.system == name))
    means = {name: each.value for name, each in estimate_by_system.items() if each}
    result = EstimateResult(
        data=labelled,
        dimension=dimension,
        scale=bounds,
        is_rate=is_rate,
        is_weighted=np.unique(sample.weight[sample.has_label]).size > 1,
        overall=overall,
        systems=estimate_by_system,
        unlabelled_systems=sample.unlabelled_systems,
        differences=system_differences(
            sorted(means, key=means.__getitem__, reverse=True),
            sample.label,
            sample.score,
            sample.document,
            sample.system,
            weight=sample.weight,
            bounds=bounds,
        ),
    )
    return CommandOutcome(result, estimate_lines(result))


def _read_sample(flags: argparse.Namespace, labelled: LabelledSet, dimension: str) -> PartialLabels:
    scores = read_scores_by_id(flags.scores, labelled, dimension)
    outputs = [output for output in labelled.outputs if output.id in scores]
    n_without_score = len(labelled.outputs) - len(outputs)
    n_unknown = len(scores) - len(outputs)
    is_complete = all(output.ratings.get(dimension) for output in outputs)
    if n_unknown and is_complete and flags.annotations is None:
        raise LabelError(
            f"{labelled.name}: {n_unknown:,} scores are of outputs that the file lacks; --data "
            "needs all outputs (with an empty label if nobody rated them), or add "
            "--annotations FILE"
        )
    if n_without_score:
        print_error(f"left out: {count_text(n_without_score, 'output')} without a score")
    if n_unknown:
        print_error(f"left out: {count_text(n_unknown, 'score')} without an output")
    return PartialLabels.from_outputs(labelled, outputs, dimension, scores)


def _labels_for_half_width(estimate: MeanEstimate) -> tuple[float | None, int | None]:
    """Return half the interval's width, and how many more labels make it so narrow, if known."""
    if not (target_width := estimate.interval.half_width):
        return None, None
    n_needed = labels_needed(estimate, target_width)
    return target_width, None if n_needed is None else max(n_needed - estimate.n_labels, 0)


def _estimate_json(estimate: MeanEstimate) -> JsonObject:
    target_width, n_more = _labels_for_half_width(estimate)
    record = fields_json(estimate, "label_sd", "agreement", decimals=None)
    return {**record, "target_width": target_width, "more_labels_needed": n_more}


def estimate_lines(result: EstimateResult) -> list[str]:
    """Return lines on all outputs, then one for each system, compared with the best system."""
    overall = result.overall
    figure_name = "true rate" if result.is_rate else "true mean"
    lines = [
        f"{result.dimension}: {figure_name} of outputs like these {figure_text(overall)}, if the "
        "labelled outputs are a random sample",
        f"  n={overall.n_labels} labels, {overall.n_judgements} judgements, "
        f"{overall.n_documents} documents ({overall.n_failed} failed)",
        f"  labels alone {figure_text(overall.labels_only)}; the judge alone "
        f"{number_text(overall.judge_only)}",
    ]
    if result.is_weighted:
        lines.append("  Weighted: documents were drawn with unequal chances.")
    if missing := result.unlabelled_systems:
        lines.append(
            f"  Warning: {len(missing):,} of {count_text(len(result.systems), 'system')} have no "
            "label, so this is no random sample: trust only the systems' own estimates."
        )
    target_width, n_more = _labels_for_half_width(overall)
    if n_more is not None:
        lines.append(f"  An interval half as wide takes {count_text(n_more, 'more label')}.")
    elif target_width:
        lines.append("  Even labels on all outputs would not halve the interval.")
    n_outputs = overall.n_labels + overall.n_judgements
    on_these = IntervalEstimate(overall.value, overall.given_interval)
    lines.append(f"  of these {n_outputs:,} outputs themselves {figure_text(on_these)}")
    # The first difference is between the best system and another system.
    best_system = result.differences[0].system if result.differences else ""
    from_best = {
        pair.subtracted_system: pair for pair in result.differences if pair.system == best_system
    }
    for name, system_estimate in result.systems.items():
        line = f"{name}: too few labels (two documents or more are needed)"
        if system_estimate is not None:
            line = f"{name}: {figure_text(system_estimate)} n={system_estimate.n_labels} labels"
        if difference := from_best.get(name):
            joint = IntervalEstimate(difference.estimate.value, difference.simultaneous_interval)
            line += f"; {best_system} less {name} {figure_text(joint, signed=True)}"
        lines.append(line)
    if result.differences:
        lines.append("Differences are on shared documents; their intervals hold all at once.")
    return lines


if __name__ == "__main__":
    sys.exit(start("optimize.estimate:command"))
