"""The judge among the annotators: who agrees with whom, and may it replace one of them?

Figures are `optimize.statistics.ceiling`'s, on the outputs that the judge was measured on.
"""

import itertools
from typing import Any

import numpy as np

from data.types import LabelledSet
from optimize.figures import json_number, value_cell
from optimize.items import AnnotationsError, Matrix, Vector, annotation_matrix
from optimize.measuring.scored import Scored
from optimize.statistics.ceiling import alternative_test, human_ceiling, krippendorff_alpha
from optimize.statistics.levels import level_statistic, read_rows
from optimize.statistics.scale import nearest_ratings


def people_figures(judged: Scored, seed: int) -> dict[str, Any] | None:
    """What `verify --json` prints under "people"; None where annotators or scores are not known.

    `share_of_ceiling` is what the judge reaches of what annotators reach among themselves, and
    `passed` the verdict of the alternative-annotator test (null where the judge's scale is not
    people's). `agreement` holds each annotator beside the judge, and every two annotators: the
    share of equal labels, and rho.
    """
    if not judged.outputs or len(judged.outputs) != len(judged.items):
        return None
    labelled = LabelledSet(name="the labels", sha256="", outputs=judged.outputs)
    try:
        ratings, names = annotation_matrix(labelled, judged.dimension)
        ceiling = human_ceiling(
            judged.scores,
            ratings,
            judged.documents,
            rng=np.random.default_rng(seed),
            level=judged.level,
            system=judged.systems if judged.level == "system" else None,
        )
    except (AnnotationsError, ValueError):
        return None  # labels without annotators, or none of their outputs has a score
    one_scale = judged.within_scale or not judged.scale
    test = alternative_test(judged.scores, ratings, judged.documents) if one_scale else None
    return {
        "dimension": judged.dimension,
        "winning_rate": test and json_number(test.winning_rate),
        "advantage_probability": test and json_number(test.advantage_probability),
        "passed": test and test.passed,
        "annotators": [
            {
                "annotator": names[advantage.annotator],
                "judge": advantage.judge,
                "human": advantage.human,
                "p_value": advantage.p_value,
                "won": advantage.won,
                "n_outputs": advantage.n_outputs,
            }
            for advantage in (test.annotators if test else ())
        ],
        "n_annotators_left_out": test and test.n_annotators_left_out,
        "n_failed": int(np.isnan(judged.scores).sum()),
        "ceiling": value_cell(ceiling.human, ceiling.human_interval),
        "judge_under_ceiling": value_cell(ceiling.judge, ceiling.judge_interval),
        "share_of_ceiling": value_cell(ceiling.share, ceiling.share_interval),
        "n_documents": ceiling.n_documents,
        "n_documents_with_rho": ceiling.n_defined,
        "why_no_share": ceiling.why or None,
        "alpha": json_number(krippendorff_alpha(ratings)),
        "agreement": _agreement(judged, ratings, names),
    }


def _agreement(judged: Scored, ratings: Matrix, names: tuple[str, ...]) -> dict[str, Any]:
    """The judge beside each annotator, and every two annotators beside each other."""
    scores = judged.scores
    if judged.within_scale:
        # A mean of several replies is equal to the rating that it is nearest to.
        rounded = np.full(scores.size, np.nan)
        scored = ~np.isnan(scores)
        rounded[scored] = nearest_ratings(scores[scored], judged.scale)
    else:
        rounded = scores
    pairs = itertools.combinations(range(len(names)), 2)
    return {
        "judge": [
            {
                "annotator": name,
                "equal": _equal(rounded, column),
                "rho": json_number(_rho(judged, scores, column)),
            }
            for name, column in zip(names, ratings.T, strict=True)
        ],
        "annotators": [
            {
                "annotators": [names[a], names[b]],
                "equal": _equal(ratings[:, a], ratings[:, b]),
                # Of two people neither is the judge: either way round, and the mean.
                "rho": json_number(
                    (
                        _rho(judged, ratings[:, a], ratings[:, b])
                        + _rho(judged, ratings[:, b], ratings[:, a])
                    )
                    / 2
                ),
            }
            for a, b in pairs
        ],
    }


def _equal(a: Vector, b: Vector) -> float | None:
    """The share of outputs that both gave the same label, of those that both labelled."""
    both = ~np.isnan(a + b)
    return json_number(float(np.isclose(a[both], b[both]).mean())) if both.any() else None


def _rho(judged: Scored, judge: Vector, annotator: Vector) -> float:
    """Rho of two vectors at the level that the judge was measured at."""
    rated = ~np.isnan(annotator)
    rows = read_rows(
        judge[rated],
        annotator[rated],
        np.array(judged.documents)[rated],
        np.array(judged.systems)[rated],
    )
    if not rows.n_documents:
        return float("nan")
    statistic = level_statistic(rows, judged.level, "spearman")
    return float(statistic(np.ones((1, rows.n_documents)))[0])
