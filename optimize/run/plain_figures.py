"""A judge's figures in units that need no statistics: pairs ordered alike, means and spreads."""

from typing import Any

import numpy as np

from data.types import LabelledPair, LabelledSet
from optimize.figures import DIGITS, interval_cell, json_number, value_cell
from optimize.items import VOTES, AnnotationsError, Items, Vector, annotation_matrix
from optimize.measuring.scored import Scored
from optimize.run.evidence import RunEvidence
from optimize.search.objective import Level
from optimize.statistics.accuracy import (
    OrderAgreement,
    order_agreement,
    order_agreement_of_people,
    order_agreement_of_votes,
    pair_accuracy,
)
from optimize.statistics.scale import ScaleComparison, compare_scales


def order_figures(judged: Scored) -> dict[str, Any]:
    """The share of pairs that people order which the judge orders alike, as JSON has it.

    Of rated outputs, pairs are two outputs of one document (any two at dataset level); of pairs it
    is their accuracy. `two_people` is the share on which one annotator agrees with another, and
    `against_one` the judge's with that other one; null without several annotators.
    """
    figures = order_cell(judged.scores, judged.items, judged.level, pairs=bool(judged.verdicts))
    people = _people(judged)
    two_people, against_one = map(_share, people) if people else (None, None)
    return {**figures, "two_people": two_people, "against_one": against_one}


def order_cell(scores: Vector, items: Items, level: Level, *, pairs: bool) -> dict[str, Any]:
    """The first part of `order_figures`, from scores alone."""
    if not pairs:
        return _share(order_agreement(scores, items.human, items.document_ids, level=level))
    accuracy = pair_accuracy(scores, items.human, items.document_ids)
    return {
        **value_cell(accuracy.value, accuracy.interval, DIGITS),
        "n_pairs": accuracy.n_decided,
        "n_ties": accuracy.n_ties,
        "n_tied_by_people": len(items) - accuracy.n_failed - accuracy.n_decided,
        "n_documents": accuracy.n_documents,
    }


def _share(agreement: OrderAgreement) -> dict[str, Any]:
    return {
        **value_cell(agreement.value, agreement.interval, DIGITS),
        "n_pairs": agreement.n_pairs,
        "n_ties": agreement.n_ties,
        "n_tied_by_people": agreement.n_tied_by_people,
        "n_documents": agreement.n_documents,
    }


def _people(judged: Scored) -> tuple[OrderAgreement, OrderAgreement] | None:
    """Two people, and the judge against one of them; None where no two rated anything alike."""
    if len(judged.labelled) != len(judged.items):
        return None
    pairs = [label for label in judged.labelled if isinstance(label, LabelledPair)]
    if pairs:
        votes = [[VOTES[vote] for vote in pair.votes] for pair in pairs]
        people = order_agreement_of_votes(judged.scores, votes, judged.documents)
    else:
        try:
            labelled = LabelledSet(name="the data", sha256="", outputs=judged.outputs)
            ratings, _ = annotation_matrix(labelled, judged.dimension)
        except AnnotationsError:
            return None
        people = order_agreement_of_people(
            judged.scores, ratings, judged.documents, level=judged.level
        )
    return people if people[0].n_pairs else None


def scale_figures(judged: Scored) -> dict[str, Any] | None:
    """Means and standard deviations of scores and ratings; None where they share no scale."""
    if judged.verdicts or np.isnan(judged.scores).all() or not judged.within_scale:
        return None
    return scale_cell(compare_scales(judged.scores, judged.human, judged.documents))


def scale_cell(comparison: ScaleComparison) -> dict[str, Any]:
    """A comparison of means and spreads as JSON has it."""
    shift, spread = (
        {f"{name}_{end}": value for end, value in interval_cell(interval, DIGITS).items()}
        for name, interval in (
            ("shift", comparison.shift_interval),
            ("spread", comparison.spread_interval),
        )
    )
    return {
        "judge_mean": json_number(comparison.judge_mean, DIGITS),
        "human_mean": json_number(comparison.human_mean, DIGITS),
        "shift": json_number(comparison.shift, DIGITS),
        **shift,
        "judge_sd": json_number(comparison.judge_sd, DIGITS),
        "human_sd": json_number(comparison.human_sd, DIGITS),
        "spread": json_number(comparison.spread, DIGITS),
        **spread,
        "n_outputs": comparison.n_outputs,
        "n_documents": comparison.n_documents,
        "is_shifted": comparison.is_shifted,
        "is_spread_differently": comparison.is_spread_differently,
    }


def plain_figures(evidence: RunEvidence, shipped: str) -> dict[str, Any]:
    """`order` of both judges on each measured split and `scales` of the shipped one on test."""
    seed = evidence.judged["seed"]
    return {
        "order": {
            split: {
                f"{judge}_judge": order_figures(by_split[split])
                for judge, by_split in evidence.judged.items()
            }
            for split in seed
        },
        "scales": scale_figures(evidence.judged[shipped]["test"]),
    }
