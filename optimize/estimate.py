"""The command `estimate`: the mean that people would give, from few labels and many judgements."""

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
    Outcome,
    Parser,
    add_label_flags,
    bounds_of,
    run,
)
from optimize.inputs.labelled import LabelSource, find_subject, only_dimension
from optimize.measuring.exports import read_scores
from optimize.measuring.scored import are_shares
from optimize.statistics.balanced import verdicts
from optimize.statistics.corrected import (
    Estimate,
    SystemDifference,
    labels_needed,
    mean_score,
    system_differences,
)
from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import IntervalEstimate, Vector

NAME = "dspy-judges estimate"
SCALE_HELP = "the labels' scale, if neither their file nor the dimension tells it"


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="The mean that people would give, from few labels and many judgements; for\n"
        "pass or fail the true rate. The labelled outputs must be a random part of all,\n"
        "or have the weights that `dspy-judges plan` gave them.",
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="all outputs, with what labels they have")
    add("--annotations", metavar="FILE", help="their labels, if in a file of their own")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all")
    add("--dimension", metavar="NAME", help="what was rated, if labels are on several")
    add("--scale", metavar="LOW-HIGH", help=SCALE_HELP)
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Print the estimates; returns 0, or 1 if it failed, 2 for wrong usage, 130 if interrupted."""
    return run(NAME, parser().parse_args(arguments), estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Outputs as vectors: people's labels and the judge's scores, NaN if missing."""

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
        """Whether labels are passes, fails, and ties between both."""
        return bool(np.isin(self.label[self.has_label], (0, 0.5, 1)).all())

    def of_rows(self, rows: Mask) -> "Sample":
        return Sample(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def mean(self, bounds: Bounds) -> Estimate:
        """The estimated mean label; raises ValueError for too few labels (see `mean_score`)."""
        vectors = self.label, self.score, self.document
        return mean_score(*vectors, weight=self.weight, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The estimated mean over all outputs (`overall`), and that of each system.

    A system with labels on fewer than two documents has None. `differences` compares every two
    systems, the one with the higher mean first. `scale` holds the ends of the labels' scale.
    `weighted` says whether labels have unequal weights.
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
            "systems": {name: each and _estimate_json(each) for name, each in self.systems.items()},
            "differences": [
                {**fields_json(each, "estimate", digits=None), **_estimate_json(each.estimate)}
                for each in self.differences
            ],
        }


def estimate(flags: argparse.Namespace) -> Outcome:
    """Read the labels and scores that flags name, and estimate every mean."""
    bounds = bounds_of(flags.scale)
    labelled = LabelSource.of(flags).outputs(
        dimensions=flags.dimension and [flags.dimension], scales=bounds and {"*": bounds}
    )
    dimension = only_dimension(labelled)
    metric, file = split_name(flags.scores)
    sample = _read_sample(labelled, Path(file), dimension, metric)
    bounds = label_bounds(flags, labelled, dimension, sample)
    is_rate = bounds == (0, 1) and are_shares(sample.score) and sample.is_two_valued

    def mean_of(sample_part: Sample) -> Estimate:
        mean = sample_part.mean(bounds)
        # For pass or fail, the judge's own rate is the share of its verdicts, not of its scores.
        passes = float(np.nanmean(verdicts(sample_part.score))) if is_rate else mean.judge_only
        return replace(mean, judge_only=passes)

    try:
        overall = mean_of(sample)
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    by_system: dict[str, Estimate | None] = {}
    for name in sorted(set(sample.system.tolist()) - {""}):
        by_system[name] = None
        with suppress(ValueError):
            by_system[name] = mean_of(sample.of_rows(sample.system == name))
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
    """The outputs that have a score, as vectors."""
    scores_by_id = read_scores(path, dimension, labelled, print_error, metric)
    outputs = [output for output in labelled.outputs if output.id in scores_by_id]
    if not outputs:
        raise LabelError(f"{path.name}: no id is that of an output in {labelled.name}")
    n_without_score = len(labelled.outputs) - len(outputs)
    n_unknown = len(scores_by_id) - len(outputs)
    if n_unknown and all(output.ratings.get(dimension) for output in outputs):
        raise LabelError(
            f"{labelled.name}: {n_unknown:,} scores are of outputs that it lacks; --data needs all "
            "outputs, with empty labels where nobody gave one, or the labels by --annotations FILE"
        )
    if n_without_score or n_unknown:
        print_error(
            f"{n_without_score} outputs have no score, and {n_unknown} scores have no output: both "
            "are left out"
        )
    score = np.array([scores_by_id[output.id] for output in outputs])
    return Sample.of(labelled, outputs, dimension, score)


def label_bounds(
    flags: argparse.Namespace, labelled: LabelledSet, name: str, sample: Sample
) -> Bounds:
    """The ends of the labels' scale, from --scale, the file, its two words, or the dimension.

    Raises LabelError if none of these tells the scale. The labels cannot tell it, since all of them
    may be at one end.
    """
    labels, subject = sample.label[sample.has_label], find_subject(name)
    low, high = (labels.min(), labels.max()) if labels.size else (0.0, 0.0)
    bounds = bounds_of(flags.scale) or pop_scale(mapping(flags.map)) or labelled.scales.get(name)
    if bounds is None and name in labelled.words:
        bounds = 0.0, 1.0
    # If no label or score exceeds 1, the scale may be 0 to 1, whatever the dimension's own scale
    # is.
    elif bounds is None and isinstance(subject, Dimension):
        dimension_bounds = subject.scale[0], subject.scale[-1]
        bounds = (
            dimension_bounds
            if max(high, np.nanmax(sample.score, initial=0)) > 1 or dimension_bounds[1] == 1
            else None
        )
    if bounds is None or low < bounds[0] or bounds[1] < high:
        raise LabelError(
            f"{labelled.name}: labels on {name} run from {low:g} to {high:g}, and which scale they "
            "are on is not known: add --scale LOW-HIGH, as in --scale 1-5"
        )
    return bounds


def _halved_width(estimate: Estimate) -> tuple[float | None, int | None]:
    """Half of the interval's width, and how many more labels give that width.

    The width is None without an interval, the number if no number of labels suffices.
    """
    target = estimate.interval.half_width if estimate.interval else None
    needed = labels_needed(estimate, target) if target else None
    return target, None if needed is None else max(needed - estimate.n_labels, 0)


def _estimate_json(estimate: Estimate) -> JsonObject:
    """What --json prints for an estimate, without rounding."""
    target, more = _halved_width(estimate)
    record = fields_json(estimate, "label_sd", "agreement", digits=None)
    return {**record, "target_width": target, "more_labels_needed": more}


def lines(result: EstimateResult) -> list[str]:
    """Five lines on all outputs, then a line for each system and its gap to the best system."""
    overall = result.overall
    n_given = overall.n_labels + overall.n_judgements
    figure_name = "true rate" if result.scale == (0.0, 1.0) else "true mean"
    text_lines = [
        f"{result.dimension}: {figure_name} of outputs like these {figure_text(overall)}, if the "
        "labelled ones are a random part",
        f"  n={overall.n_labels} labels, {overall.n_judgements} judgements, "
        f"{overall.n_documents} documents ({overall.n_failed} failed)",
        f"  labels alone {figure_text(overall.labels_only)}; the judge alone "
        f"{number_text(overall.judge_only)}",
    ]
    if result.weighted:
        text_lines.append("  Weighted: documents were drawn with unequal chances.")
    target, n_more = _halved_width(overall)
    if target:
        text = "Labels on all outputs would not halve the interval."
        if n_more is not None:
            text = f"An interval half as wide takes {counted(n_more, 'more label')}."
        text_lines.append(f"  {text}")
    given_estimate = IntervalEstimate(overall.value, overall.given_interval)
    text_lines.append(f"  of these {n_given:,} outputs themselves {figure_text(given_estimate)}")
    differences = result.differences
    gap_to_best = {each.less: each for each in differences if each.system == differences[0].system}
    for name, each in result.systems.items():
        figure = "too few labels (two documents or more are needed)"
        if each is not None:
            figure = f"{figure_text(each)} n={each.n_labels} labels"
        if gap := gap_to_best.get(name):
            gap_estimate = IntervalEstimate(gap.estimate.value, gap.together_interval)
            figure += f"; {gap.system} less {name} {figure_text(gap_estimate, signed=True)}"
        text_lines.append(f"{name}: {figure}")
    if differences:
        text_lines.append("Differences are on shared documents, and their intervals hold together.")
    return text_lines


if __name__ == "__main__":
    sys.exit(start("optimize.estimate:command"))
