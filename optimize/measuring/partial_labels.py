"""Outputs that a judge scored, and of which people labelled a part: read them, as vectors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judges.cli.flags import split_named_value
from judges.dimension import Dimension
from judges.labels.cells import without_keys
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from judges.labels.values import Scale
from judges.tables.problems import count_text
from judges.terminal import print_note
from optimize.inputs.flags import parse_scale
from optimize.inputs.labelled import LabelSource, only_dimension
from optimize.inputs.subjects import dimension_name, find_subject
from optimize.measuring.exports import read_any_scores
from optimize.statistics.intervals import Mask, Vector
from optimize.statistics.mean_estimates import MeanEstimate, estimate_mean

# A random sample of labels may leave systems without a label. If a sample would leave out as many
# systems with a smaller chance than this, the labels do not count as a random sample.
MAX_CHANCE_OF_RANDOM_SAMPLE = 0.01


def read_rated_outputs(
    label_source: LabelSource, dimension_spec: str | None
) -> tuple[LabelledSet, str]:
    """Read outputs with labels on the dimension of --dimension, else on the only dimension.

    Also returns the dimension's name. The set's notes say how many outputs count half a pass,
    because their annotators are tied.
    """
    label_scale = parse_scale(label_source.scale)
    labelled_set = label_source.read_outputs(
        dimensions=dimension_spec and [dimension_name(dimension_spec)],
        scales=label_scale and {"*": label_scale},
    )
    dimension = only_dimension(labelled_set)
    if dimension not in labelled_set.words:
        return labelled_set, dimension
    rated_outputs = [output for output in labelled_set.outputs if dimension in output.ratings]
    if n_tied := sum(labelled_set.label(output, dimension) == 0.5 for output in rated_outputs):
        outputs_text = count_text(n_tied, "output")
        note = f"annotators are tied on {outputs_text}, each of which counts half a pass"
        labelled_set = replace(labelled_set, notes=(note, *labelled_set.notes))
    return labelled_set, dimension


def read_scores_by_id(spec: str, labelled_set: LabelledSet, dimension: str) -> dict[str, float]:
    """Read the scores in the file of --scores, by the output's id.

    Scores of rows that the judge was tuned on are left out, since the judge errs less on them.
    """
    metric, file = split_named_value(spec)
    judgement_by_id, tuned_ids = read_any_scores(Path(file), dimension, labelled_set, metric)
    if tuned_ids:
        scores_text = count_text(len(tuned_ids), "score")
        print_note(f"note: {scores_text} left out: the judge was tuned on them")
    judgements = without_keys(judgement_by_id, tuned_ids)
    if judgements.keys().isdisjoint(output.id for output in labelled_set.outputs):
        raise LabelError(f"{Path(file).name}: no id is the id of an output in {labelled_set.name}")
    return {item_id: judgement.score for item_id, judgement in judgements.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialLabels:
    """Outputs as vectors: labels and scores (NaN if missing), documents, systems and weights."""

    labels: Vector
    scores: Vector
    document_ids: NDArray[np.generic]
    system_ids: NDArray[np.generic]
    weights: Vector

    @classmethod
    def from_outputs(
        cls,
        labelled_set: LabelledSet,
        outputs: Sequence[LabelledOutput],
        dimension: str,
        score_by_id: Mapping[str, float],
    ) -> "PartialLabels":
        """Return the vectors of these outputs, which are outputs of the set."""
        labels = np.full(len(outputs), np.nan)
        for row, output in enumerate(outputs):
            if output.ratings.get(dimension):
                labels[row] = labelled_set.label(output, dimension)
        return cls(
            labels=labels,
            scores=np.array([score_by_id.get(output.id, np.nan) for output in outputs]),
            document_ids=np.array([output.document_id for output in outputs]),
            system_ids=np.array([output.system or "" for output in outputs]),
            weights=np.array([output.weight for output in outputs]),
        )

    @property
    def has_label(self) -> Mask:
        return ~np.isnan(self.labels)

    @property
    def documents(self) -> NDArray[np.generic]:
        """The id of each document once, in sorted order."""
        return np.unique(self.document_ids)

    @property
    def unlabelled_documents(self) -> NDArray[np.generic]:
        return np.setdiff1d(self.documents, self.document_ids[self.has_label])

    @property
    def is_two_valued(self) -> bool:
        """Whether the labels are passes (1), fails (0) and ties of annotators (0.5) only."""
        return bool(np.isin(self.labels[self.has_label], (0, 0.5, 1)).all())

    @property
    def unlabelled_systems(self) -> list[str]:
        """The systems without a label; none if this can happen by chance in a random sample.

        A random label misses systems that have the share s of the outputs with probability 1 - s.
        The chance is summed over all sets of as many systems, as if labels were independent.
        """
        all_systems = {*self.system_ids.tolist()} - {""}
        unlabelled_systems = sorted(all_systems - {*self.system_ids[self.has_label].tolist()})
        other_share = 1 - float(np.isin(self.system_ids, unlabelled_systems).mean())
        n_sets = math.comb(len(all_systems), len(unlabelled_systems))
        chance = n_sets * other_share ** int(self.has_label.sum())
        return unlabelled_systems if chance < MAX_CHANCE_OF_RANDOM_SAMPLE else []

    def of_rows(self, rows: Mask) -> "PartialLabels":
        vectors = {vector.name: getattr(self, vector.name)[rows] for vector in fields(self)}
        return PartialLabels(**vectors)

    def estimate_mean(self, scale: Scale) -> MeanEstimate:
        """Estimate the mean label of all outputs; raises ValueError if too few have a label."""
        return estimate_mean(
            self.labels, self.scores, self.document_ids, weight=self.weights, bounds=scale
        )


def find_label_scale(
    labelled_set: LabelledSet,
    dimension: str,
    partial_labels: PartialLabels,
    *,
    scale: str | None,
    definition: str | None,
) -> Scale:
    """Return the ends of the labels' scale, by --scale, file or dimension; 0 and 1 for words.

    The ends are not taken from the labels, since all labels may be near one end of the scale.
    `definition` is the argument of --dimension. Raises LabelError if the scale is unknown, or if a
    label lies outside.
    """
    subject = find_subject(definition or dimension)
    labels = partial_labels.labels[partial_labels.has_label]
    lowest, highest = (labels.min(), labels.max()) if labels.size else (0.0, 0.0)
    ends = parse_scale(scale) or labelled_set.scales.get(dimension)
    if ends is None and dimension in labelled_set.words:
        ends = 0.0, 1.0
    if ends is None and isinstance(subject, Dimension):
        # If nothing exceeds 1, people may have used 0 to 1 in place of the dimension's scale.
        highest_number = max(highest, np.nanmax(partial_labels.scores, initial=0))
        if highest_number > 1 or subject.scale[-1] == 1:
            ends = subject.scale[0], subject.scale[-1]
    if ends is None or lowest < ends[0] or ends[1] < highest:
        raise LabelError(
            f"{labelled_set.name}: labels on {dimension} run from {lowest:g} to {highest:g}, and "
            "their scale is not known: add --scale LOW-HIGH, as in --scale 1-5"
        )
    return ends
