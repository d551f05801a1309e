"""The command `estimate`: people's mean label, estimated from few labels and many judgements."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.dimension import Dimension
from judges.labels.flags import pop_scale
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject, fields_json
from optimize.figures.as_text import counted, figure_text, number_text
from optimize.inputs.flags import (
    Bounds,
    CommandParser,
    Outcome,
    add_label_flags,
    bounds_of,
    run,
)
from optimize.inputs.labelled import LabelSource, only_dimension
from optimize.inputs.subjects import find_subject
from optimize.measuring.exports import read_scores
from optimize.measuring.scored import are_shares
from optimize.statistics.balanced import verdicts
from optimize.statistics.corrected import (
    Estimate,
    SystemDifference,
    estimate_mean,
    labels_needed,
    system_differences,
)
from optimize.statistics.intervals import IntervalEstimate, Mask, Vector

NAME = "dspy-judges estimate"
SCALE_HELP = "the labels' scale, if neither the file nor the dimension has it"


def parser() -> argparse.ArgumentParser:
    command_parser = CommandParser(
        prog=NAME,
        description="Estimate the mean label that people would give to all outputs (for pass and\n"
        "fail, the share of passes) from few labels and many judgements. The labelled\n"
        "outputs must be a random sample, or have sampling weights.",
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="all outputs, some of them with labels")
    add("--annotations", metavar="FILE", help="the labels, if they are in a separate file")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all outputs")
    help_text = "what was rated, if the labels are on several dimensions"
    add("--dimension", metavar="NAME", help=help_text)
    add("--scale", metavar="LOW-HIGH", help=SCALE_HELP)
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Print the estimates; returns 0, or 1 if it failed, 2 for wrong usage, 130 if interrupted."""
    return run(NAME, parser().parse_args(arguments), estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Outputs as vectors: labels and scores (NaN if missing), documents, systems and weights."""

    label: Vector
    score: Vector
    document: NDArray[np.generic]
    system: NDArray[np.generic]
    weight: Vector

    @classmethod
    def of(
        cls, labelled: LabelledSet, outputs: Sequence[LabelledOutput], name: str, score: Vector
    ) -> "Sample":
        label = [labelled.label(o, name) if o.ratings.get(name) else np.nan for o in outputs]
        return cls(
            label=np.array(label, dtype=float),
            score=score,
            document=np.array([output.document_id for output in outputs]),
            system=np.array([output.system or "" for output in outputs]),
            weight=np.array([output.weight for output in outputs]),
        )

    @property
    def has_label(self) -> Mask:
        return ~np.isnan(self.label)

    @property
    def is_two_valued(self) -> bool:
        """Whether the labels are passes (1), fails (0) and ties of annotators (0.5) only."""
        return bool(np.isin(self.label[self.has_label], (0, 0.5, 1)).all())

    def select(self, rows: Mask) -> "Sample":
        return Sample(**{vector.name: getattr(self, vector.name)[rows] for vector in fields(self)})

    def mean(self, bounds: Bounds) -> Estimate:
        """The estimated mean label; raises ValueError for too few labels (see `estimate_mean`)."""
        vectors = self.label, self.score, self.document
        return estimate_mean(*vectors, weight=self.weight, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The estimated mean label over all outputs (`overall`), and over each system's outputs.

    A system with labels on fewer than two documents has no estimate (None). `differences` compares
    every two systems, and the system with the higher mean is named first.
    """

    data: LabelledSet
    dimension: str
    scale: Bounds
    weighted: bool
    overall: Estimate
    systems: Mapping[str, Estimate | None]
    differences: Sequence[SystemDifference]

    def to_json(self) -> JsonObject:
        return {
            "data": {"name": self.data.name, "sha256": self.data.sha256},
            "dimension": self.dimension,
            "scale": self.scale,
            "weighted": self.weighted,
            "estimates": {"mean": _estimate_json(self.overall)},
            "systems": {name: item and _estimate_json(item) for name, item in self.systems.items()},
            "differences": [
                {**fields_json(item, "estimate", digits=None), **_estimate_json(item.estimate)}
                for item in self.differences
            ],
        }


def estimate(flags: argparse.Namespace) -> Outcome:
    """Estimate the mean label, over all outputs and by system, from the files that flags name."""
    bounds = bounds_of(flags.scale)
    labelled = LabelSource.of(flags).outputs(
        dimensions=flags.dimension and [flags.dimension], scales=bounds and {"*": bounds}
    )
    dimension = only_dimension(labelled)
    metric, scores_file = split_name(flags.scores)
    sample = _read_sample(labelled, Path(scores_file), dimension, metric)
    bounds = label_bounds(flags, labelled, dimension, sample)
    is_rate = bounds == (0, 1) and are_shares(sample.score) and sample.is_two_valued

    def mean_of(sample_part: Sample) -> Estimate:
        mean = sample_part.mean(bounds)
        # For pass and fail, `judge_only` is the share of passes, not the mean of the scores.
        judge_only = float(np.nanmean(verdicts(sample_part.score))) if is_rate else mean.judge_only
        return replace(mean, judge_only=judge_only)

    try:
        overall = mean_of(sample)
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    by_system: dict[str, Estimate | None] = {}
    for name in sorted(set(sample.system.tolist()) - {""}):
        by_system[name] = None
        with suppress(ValueError):
            by_system[name] = mean_of(sample.select(sample.system == name))
    means = {name: each.value for name, each in by_system.items() if each}
    result = EstimateResult(
        data=labelled,
        dimension=dimension,
        scale=bounds,
        weighted=np.unique(sample.weight[sample.has_label]).size > 1,
        overall=overall,
        systems=by_system,
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
    return Outcome(result, lines(result))


def _read_sample(labelled: LabelledSet, path: Path, dimension: str, metric: str) -> Sample:
    """The outputs that have a score, as a `Sample`."""
    scores_by_id = read_scores(path, dimension, labelled, print_error, metric)
    outputs = [output for output in labelled.outputs if output.id in scores_by_id]
    if not outputs:
        raise LabelError(f"{path.name}: no id is the id of an output in {labelled.name}")
    n_without_score = len(labelled.outputs) - len(outputs)
    n_unknown = len(scores_by_id) - len(outputs)
    if n_unknown and all(output.ratings.get(dimension) for output in outputs):
        raise LabelError(
            f"{labelled.name}: {n_unknown:,} scores are of outputs that it lacks; --data needs all "
            "outputs (if nobody rated one, its label is empty), or add --annotations FILE"
        )
    if n_without_score or n_unknown:
        print_error(
            f"{n_without_score} outputs without a score and {n_unknown} scores without an output "
            "are left out"
        )
    scores = np.array([scores_by_id[output.id] for output in outputs])
    return Sample.of(labelled, outputs, dimension, scores)


def label_bounds(
    flags: argparse.Namespace, labelled: LabelledSet, dimension: str, sample: Sample
) -> Bounds:
    """The ends of the labels' scale, by --scale, the file or the dimension; 0 and 1 for words.

    Raises LabelError if the scale is unknown. It is not taken from the lowest and the highest
    label, since all labels may be near one end of the scale.
    """
    labels, subject = sample.label[sample.has_label], find_subject(dimension)
    low, high = (labels.min(), labels.max()) if labels.size else (0.0, 0.0)
    bounds = (
        bounds_of(flags.scale) or pop_scale(mapping(flags.map)) or labelled.scales.get(dimension)
    )
    if bounds is None and dimension in labelled.words:
        bounds = 0.0, 1.0
    if bounds is None and isinstance(subject, Dimension):
        # If nothing exceeds 1, people may have used 0 to 1 in place of the dimension's scale.
        highest = max(high, np.nanmax(sample.score, initial=0))
        if highest > 1 or subject.scale[-1] == 1:
            bounds = subject.scale[0], subject.scale[-1]
    if bounds is None or low < bounds[0] or bounds[1] < high:
        raise LabelError(
            f"{labelled.name}: labels on {dimension} run from {low:g} to {high:g}, and their "
            "scale is not known: add --scale LOW-HIGH, as in --scale 1-5"
        )
    return bounds


def _halved_width(estimate: Estimate) -> tuple[float | None, int | None]:
    """Half of the interval's width, and how many more labels would halve the interval.

    Without an interval, the width is None. The number is None if no number would suffice.
    """
    target_width = estimate.interval.half_width if estimate.interval else None
    n_needed = labels_needed(estimate, target_width) if target_width else None
    return target_width, None if n_needed is None else max(n_needed - estimate.n_labels, 0)


def _estimate_json(estimate: Estimate) -> JsonObject:
    """An estimate as JSON, without rounding."""
    target_width, n_more = _halved_width(estimate)
    record = fields_json(estimate, "label_sd", "agreement", digits=None)
    return {**record, "target_width": target_width, "more_labels_needed": n_more}


def lines(result: EstimateResult) -> list[str]:
    """Lines on all outputs, then a line for each system, with its difference from the best."""
    overall = result.overall
    figure_name = "true rate" if result.scale == (0.0, 1.0) else "true mean"
    text_lines = [
        f"{result.dimension}: {figure_name} of outputs like these {figure_text(overall)}, if the "
        "labelled outputs are a random sample",
        f"  n={overall.n_labels} labels, {overall.n_judgements} judgements, "
        f"{overall.n_documents} documents ({overall.n_failed} failed)",
        f"  labels alone {figure_text(overall.labels_only)}; the judge alone "
        f"{number_text(overall.judge_only)}",
    ]
    if result.weighted:
        text_lines.append("  Weighted: documents were drawn with unequal chances.")
    target_width, n_more = _halved_width(overall)
    if target_width:
        width_text = "Labels on all outputs would not halve the interval."
        if n_more is not None:
            width_text = f"An interval half as wide takes {counted(n_more, 'more label')}."
        text_lines.append(f"  {width_text}")
    n_outputs = overall.n_labels + overall.n_judgements
    on_these = IntervalEstimate(overall.value, overall.given_interval)
    text_lines.append(f"  of these {n_outputs:,} outputs themselves {figure_text(on_these)}")
    differences = result.differences
    best = differences[0].system if differences else ""
    difference_from_best = {pair.less: pair for pair in differences if pair.system == best}
    for name, system_estimate in result.systems.items():
        system_text = "too few labels (two documents or more are needed)"
        if system_estimate is not None:
            system_text = f"{figure_text(system_estimate)} n={system_estimate.n_labels} labels"
        if difference := difference_from_best.get(name):
            joint = IntervalEstimate(difference.estimate.value, difference.together_interval)
            system_text += f"; {difference.system} less {name} {figure_text(joint, signed=True)}"
        text_lines.append(f"{name}: {system_text}")
    if differences:
        text_lines.append("Differences are on shared documents; their intervals hold all at once.")
    return text_lines


if __name__ == "__main__":
    sys.exit(start("optimize.estimate:command"))
