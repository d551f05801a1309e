"""Outputs that a judge scored and people labelled in part: their flags, vectors and scale."""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judges.cli.flags import Flags, split_name
from judges.dimension import Dimension
from judges.labels.cells import without_keys
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from judges.labels.values import Scale
from judges.tables.problems import count_text
from judges.terminal import print_note
from optimize.inputs.flags import add_reading_flags, parse_label_scale
from optimize.inputs.labelled import LabelSource, only_dimension
from optimize.inputs.subjects import dimension_name, find_subject
from optimize.measuring.exports import read_any_scores
from optimize.statistics.intervals import Mask, Vector
from optimize.statistics.mean_estimates import MeanEstimate, estimate_mean

# Labels do not count as a random sample if the chance that a random sample would leave as many
# systems without a label is smaller than this.
MAX_CHANCE_OF_RANDOM_SAMPLE = 0.01


def add_partial_label_flags(group: Flags, *, needs_scores: bool) -> None:
    """Add the flags that say how the labels are read, and where the judge's scores are."""
    add = group.add_argument
    help_text = "the judge's scores for all outputs"
    add("--scores", metavar="FILE", required=needs_scores, help=help_text)
    add("--dimension", metavar="NAME", help="what was rated, if labels are on several dimensions")
    help_text = "the labels' scale, if neither the file nor the dimension has it"
    add("--scale", metavar="LOW-HIGH", help=help_text)
    add_reading_flags(group)
    add("--json", action="store_true", help="print everything as JSON")


def read_rated_outputs(
    flags: argparse.Namespace, label_source: LabelSource
) -> tuple[LabelledSet, str]:
    """Read outputs with labels on --dimension, else on the only dimension, and its name."""
    bounds = parse_label_scale(flags.scale)
    labelled = label_source.read_outputs(
        dimensions=flags.dimension and [dimension_name(flags.dimension)],
        scales=bounds and {"*": bounds},
    )
    dimension = only_dimension(labelled)
    if dimension in labelled.words:
        rated_outputs = [output for output in labelled.outputs if dimension in output.ratings]
        if n_tied := sum(labelled.label(output, dimension) == 0.5 for output in rated_outputs):
            ties = count_text(n_tied, "output")
            print_note(f"note: annotators are tied on {ties}, each of which counts half a pass")
    for note in labelled.notes:
        print_note(f"note: {note}")
    return labelled, dimension


def read_scores_by_id(spec: str, labelled: LabelledSet, dimension: str) -> dict[str, float]:
    """Read the file of --scores, without the rows that the judge was tuned on and errs less on."""
    metric, file = split_name(spec)
    recording = read_any_scores(Path(file), dimension, labelled, metric)
    if recording.tuned_ids:
        n_scores = count_text(len(recording.tuned_ids), "score")
        print_note(f"note: {n_scores} left out: the judge was tuned on them")
    judgements = without_keys(recording.judgements, recording.tuned_ids)
    if judgements.keys().isdisjoint(output.id for output in labelled.outputs):
        raise LabelError(f"{Path(file).name}: no id is the id of an output in {labelled.name}")
    return {item_id: judgement.score for item_id, judgement in judgements.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialLabels:
    """Outputs as vectors: labels and scores (NaN if missing), documents, systems and weights."""

    label: Vector
    score: Vector
    document: NDArray[np.generic]
    system: NDArray[np.generic]
    weight: Vector

    @classmethod
    def from_outputs(
        cls,
        labelled: LabelledSet,
        outputs: Sequence[LabelledOutput],
        dimension: str,
        scores: Mapping[str, float],
    ) -> "PartialLabels":
        """Return the vectors of these outputs; `scores` has the judge's scores by id."""
        label = [
            labelled.label(output, dimension) if output.ratings.get(dimension) else np.nan
            for output in outputs
        ]
        return cls(
            label=np.array(label, dtype=float),
            score=np.array([scores.get(output.id, np.nan) for output in outputs]),
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

    @property
    def unlabelled_systems(self) -> list[str]:
        """The systems without a label, if a random sample of as many labels would hardly miss them.

        A random label misses systems that have the share s of the outputs with probability 1 - s.
        The chance is summed over all sets of as many systems, as if labels were independent.
        """
        names = sorted({*self.system.tolist()} - {""})
        labelled_names = {*self.system[self.has_label].tolist()}
        missing = [name for name in names if name not in labelled_names]
        share_with_label = 1 - float(np.isin(self.system, missing).mean())
        n_labels, n_sets = int(self.has_label.sum()), math.comb(len(names), len(missing))
        chance = n_sets * share_with_label**n_labels
        return missing if chance < MAX_CHANCE_OF_RANDOM_SAMPLE else []

    def select(self, rows: Mask) -> "PartialLabels":
        vectors = {vector.name: getattr(self, vector.name)[rows] for vector in fields(self)}
        return PartialLabels(**vectors)

    def mean(self, bounds: Scale) -> MeanEstimate:
        """Estimate the mean label; raises ValueError for too few labels (see `estimate_mean`)."""
        vectors = self.label, self.score, self.document
        return estimate_mean(*vectors, weight=self.weight, bounds=bounds)


def label_bounds(
    flags: argparse.Namespace, labelled: LabelledSet, dimension: str, sample: PartialLabels
) -> Scale:
    """Return the ends of the labels' scale, by --scale, file or dimension; 0 and 1 for words.

    The ends are not taken from the labels, since all labels may be near one end of the scale.
    """
    labels, subject = sample.label[sample.has_label], find_subject(flags.dimension or dimension)
    low, high = (labels.min(), labels.max()) if labels.size else (0.0, 0.0)
    bounds = parse_label_scale(flags.scale) or labelled.scales.get(dimension)
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
