"""Estimates from a judge's scores of all outputs and people's labels on some of the outputs."""

import math

import numpy as np

from judges.dimension import Dimension
from judges.labels.types import LabelError, LabelledSet
from judges.labels.values import Scale
from optimize.inputs.flags import parse_scale
from optimize.inputs.subjects import find_subject
from optimize.measuring.scored import ScoredItems
from optimize.statistics.intervals import Mask
from optimize.statistics.mean_estimates import MeanEstimate, estimate_mean

# Labels on a random sample of outputs may leave out some systems. Labels do not count as random
# if a random sample leaves out so many systems with a smaller chance than this.
MAX_CHANCE_OF_RANDOM_SAMPLE = 0.01


def label_mask(scored_items: ScoredItems) -> Mask:
    """Return which outputs have a label; a missing label is NaN."""
    return ~np.isnan(scored_items.human)


def labels_are_verdicts(scored_items: ScoredItems) -> bool:
    """Return whether labels are passes (1), fails (0) and ties of annotators (0.5) only."""
    return bool(np.isin(scored_items.human[label_mask(scored_items)], (0, 0.5, 1)).all())


def unlabelled_systems(scored_items: ScoredItems) -> list[str]:
    """Return the systems without a label; none if this can happen by chance in a random sample.

    n random labels leave out systems that have the share s of the outputs with probability
    (1 - s)^n. The chance is this times the number of ways to choose as many systems.
    """
    system_ids, has_label = np.array(scored_items.system_ids), label_mask(scored_items)
    systems = scored_items.items.systems
    missing_systems = [name for name in systems if not has_label[system_ids == name].any()]
    others_share = 1 - float(np.isin(system_ids, missing_systems).mean())
    chance = math.comb(len(systems), len(missing_systems)) * others_share ** int(has_label.sum())
    return missing_systems if chance < MAX_CHANCE_OF_RANDOM_SAMPLE else []


def estimate_mean_label(scored_items: ScoredItems, scale: Scale) -> MeanEstimate:
    """Estimate the mean label of all outputs; raises ValueError if too few have a label."""
    vectors = scored_items.human, scored_items.scores, scored_items.document_ids
    return estimate_mean(*vectors, weight=scored_items.items.weights, bounds=scale)


def find_label_scale(
    scored_items: ScoredItems, *, scale: str | None, dimension_spec: str | None
) -> Scale:
    """Return the ends of the scale in --scale, else in the labels' file, else of the dimension.

    The ends are 0 and 1 for labels in words. They are not taken from the labels, since all labels
    may be near one end. `dimension_spec` is that of --dimension. Raises LabelError if the scale
    is unknown, or if a label lies outside the scale.
    """
    labels, dimension = scored_items.labels, scored_items.dimension
    assert isinstance(labels, LabelledSet)
    subject = find_subject(dimension_spec or dimension)
    ratings = scored_items.human[label_mask(scored_items)]
    lowest, highest = (ratings.min(), ratings.max()) if ratings.size else (0.0, 0.0)
    ends = parse_scale(scale) or labels.scales.get(dimension)
    if ends is None and dimension in labels.words:
        ends = 0.0, 1.0
    if ends is None and isinstance(subject, Dimension):
        # If no label or score exceeds 1, people may have used 0 to 1, not the dimension's scale.
        highest_number = max(highest, np.nanmax(scored_items.scores, initial=0))
        if highest_number > 1 or subject.scale[-1] == 1:
            ends = subject.scale[0], subject.scale[-1]
    if ends is None or lowest < ends[0] or ends[1] < highest:
        raise LabelError(
            f"{labels.name}: labels on {dimension} run from {lowest:g} to {highest:g}, and "
            "their scale is not known: add --scale LOW-HIGH, as in --scale 1-5"
        )
    return ends
