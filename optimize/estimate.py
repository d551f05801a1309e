"""The command `estimate`: means as people would give them, from few labels and many judgements."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.dimension import Dimension
from judges.labels.flags import pop_scale
from judges.labels.readers import read_labels
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from judges.terminal import print_error
from optimize.figures.as_json import Cell, fields_json
from optimize.figures.as_text import counted, figure_text, number_text
from optimize.inputs.flags import (
    Bounds,
    Outcome,
    Parser,
    add_label_flags,
    bounds_of,
    run,
    values_of,
)
from optimize.inputs.labelled import find_subject, only_dimension
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
SCALE = "of the labels, where neither their file nor the dimension tells it"


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="Means as people would give them, from few labels and many judgements; of\n"
        "pass or fail the true rate. The labelled outputs must be a random part of all,\n"
        "or have the weights that `dspy-judges plan` gave them.",
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="all outputs, with what labels they have")
    add("--annotations", metavar="FILE", help="their labels, if in a file of their own")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all")
    add("--dimension", metavar="NAME", help="what was rated, if labels are on several")
    add("--scale", metavar="LOW-HIGH", help=SCALE)
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Outputs as vectors: people's labels and the judge's scores, NaN where there is none."""

    label: Vector
    score: Vector
    document: NDArray[Any]
    system: NDArray[Any]
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
        """Whether labels are passes, fails and ties of the two."""
        return bool(np.isin(self.label[self.has_label], (0, 0.5, 1)).all())

    def of_rows(self, rows: Mask) -> "Sample":
        return Sample(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def mean(self, bounds: Bounds) -> Estimate:
        """The mean label (see `mean_score`); raises ValueError."""
        sides = self.label, self.score, self.document
        return mean_score(*sides, weight=self.weight, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The mean over all outputs, and each system's; None with labels on fewer than two documents.

    `differences` are of every two systems, the higher mean first. `scale` holds the ends of the
    labels' scale. `weighted`: the labels count unequally.
    """

    data: LabelledSet
    dimension: str
    scale: Bounds
    weighted: bool
    overall: Estimate
    systems: Mapping[str, Estimate | None]
    differences: Sequence[SystemDifference]

    def to_json(self) -> Cell:
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
    """Read the labels and the scores that flags name, and estimate every mean."""
    bounds = bounds_of(flags.scale)
    labelled = read_labels(
        flags.data,
        map=mapping(flags.map),
        dimensions=flags.dimension and [flags.dimension],
        scales=bounds and {"*": bounds},
        texts=(),
        annotations=flags.annotations,
        values=values_of(flags.values),
    )
    dimension = only_dimension(labelled)
    metric, file = split_name(flags.scores)
    sample = _judged(labelled, Path(file), dimension, metric)
    bounds = label_bounds(flags, labelled, dimension, sample)
    is_rate = bounds == (0, 1) and are_shares(sample.score) and sample.is_two_valued

    def mean_of(part: Sample) -> Estimate:
        mean = part.mean(bounds)
        # Alone, a judge passes what it passes.
        passes = float(np.nanmean(verdicts(part.score))) if is_rate else mean.judge_only
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


def _judged(labelled: LabelledSet, scores: Path, dimension: str, metric: str) -> Sample:
    """The outputs that have a record."""
    scores_by_id = read_scores(scores, dimension, labelled, print_error, metric)
    outputs = [output for output in labelled.outputs if output.id in scores_by_id]
    if not outputs:
        raise LabelError(f"{scores.name}: no id is that of an output in {labelled.name}")
    unjudged, unknown = len(labelled.outputs) - len(outputs), len(scores_by_id) - len(outputs)
    if unknown and all(output.ratings.get(dimension) for output in outputs):
        raise LabelError(
            f"{labelled.name}: {unknown:,} scores are of outputs that it lacks; --data needs all "
            "outputs, with empty labels where nobody gave one, or the labels by --annotations FILE"
        )
    if unjudged or unknown:
        print_error(f"{unjudged} outputs have no score and {unknown} scores no output: left out")
    score = np.array([scores_by_id[output.id] for output in outputs])
    return Sample.of(labelled, outputs, dimension, score)


def label_bounds(
    flags: argparse.Namespace, labelled: LabelledSet, name: str, sample: Sample
) -> Bounds:
    """The ends of the labels' scale by --scale, the file, its two words, or the dimension.

    Labels themselves do not tell them, as all may lie at one end: LabelError.
    """
    known, subject = sample.label[sample.has_label], find_subject(name)
    low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
    bounds = bounds_of(flags.scale) or pop_scale(mapping(flags.map)) or labelled.scales.get(name)
    if bounds is None and name in labelled.words:
        bounds = 0.0, 1.0
    # Labels and scores of 1 at most may be of a scale from 0 to 1, whatever is usual.
    elif bounds is None and isinstance(subject, Dimension):
        own = subject.scale[0], subject.scale[-1]
        bounds = own if max(high, np.nanmax(sample.score, initial=0)) > 1 or own[1] == 1 else None
    if bounds is None or low < bounds[0] or bounds[1] < high:
        raise LabelError(
            f"{labelled.name}: labels on {name} run from {low:g} to {high:g}, and which scale they "
            "are on is not known: add --scale LOW-HIGH, as in --scale 1-5"
        )
    return bounds


def _half_width(estimate: Estimate) -> tuple[float | None, int | None]:
    """Half of today's width, and how many more labels give it; None where nothing does."""
    target = estimate.interval.reach if estimate.interval else None
    needed = labels_needed(estimate, target) if target else None
    return target, None if needed is None else max(needed - estimate.n_labels, 0)


def _estimate_json(estimate: Estimate) -> Cell:
    """What --json prints of an estimate, in all digits."""
    target, more = _half_width(estimate)
    cells = fields_json(estimate, "label_sd", "agreement", digits=None)
    return {**cells, "target_width": target, "more_labels_needed": more}


def lines(result: EstimateResult) -> list[str]:
    """All outputs in five lines, then a line a system, each beside the one with the best mean."""
    overall = result.overall
    n_given = overall.n_labels + overall.n_judgements
    what = "true rate" if result.scale == (0.0, 1.0) else "true mean"
    text_lines = [
        f"{result.dimension}: {what} of outputs like these {figure_text(overall)}, if the labelled "
        "ones are a random part",
        f"  n={overall.n_labels} labels, {overall.n_judgements} judgements, "
        f"{overall.n_documents} documents ({overall.n_failed} failed)",
        f"  labels alone {figure_text(overall.labels_only)}; the judge alone "
        f"{number_text(overall.judge_only)}",
    ]
    if result.weighted:
        text_lines.append("  Weighted: documents were drawn with unequal chances.")
    target, more = _half_width(overall)
    if target:
        half = "Labels of all would not halve the interval."
        if more is not None:
            half = f"An interval half as wide takes {counted(more, 'more label')}."
        text_lines.append(f"  {half}")
    of_given = IntervalEstimate(overall.value, overall.given_interval)
    text_lines.append(f"  of these {n_given:,} outputs themselves {figure_text(of_given)}")
    gaps = result.differences
    beside_best = {each.less: each for each in gaps if each.system == gaps[0].system}
    for name, each in result.systems.items():
        figure = "too few labels (two documents or more are needed)"
        if each is not None:
            figure = f"{figure_text(each)} n={each.n_labels} labels"
        if gap := beside_best.get(name):
            apart = IntervalEstimate(gap.estimate.value, gap.together_interval)
            figure += f"; {gap.system} less {name} {figure_text(apart, signed=True)}"
        text_lines.append(f"{name}: {figure}")
    if gaps:
        text_lines.append("Differences are on shared documents, and their intervals hold together.")
    return text_lines


if __name__ == "__main__":
    sys.exit(start("optimize.estimate:command"))
