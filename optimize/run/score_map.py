"""Whether the shipped judge carries a map onto people's scale, by outputs it did not learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from judges.dimension import Dimension
from judges.monotone import MonotoneMap
from optimize.figures import DIGITS, json_number
from optimize.items import Items, Vector
from optimize.run.active_run import ActiveRun
from optimize.run.settings import label_bounds
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.search.finalists import SearchResult
from optimize.statistics.score_map import fit_score_map

MIN_OUTPUTS = 30
MIN_DOCUMENTS = 5
FOLDS = 5
# Of dev alone, so that as many are left to learn from where a fold is not.
MIN_ALONE = -(-MIN_OUTPUTS * FOLDS // (FOLDS - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMapChoice:
    """The map, or None and why; mean absolute errors are on dev, of the scores as they are."""

    score_map: MonotoneMap | None
    why: str
    learned_on: Literal["train", "dev"] | None = None
    n_learned: int = 0
    n_dev: int = 0
    error: float = np.nan
    mapped_error: float = np.nan

    def to_json(self) -> dict[str, Any]:
        return {
            "used": self.score_map is not None,
            "why": self.why,
            "learned_on": self.learned_on,
            "n_learned": self.n_learned,
            "n_dev": self.n_dev,
            "dev_mean_absolute_error": {
                "raw": json_number(self.error, DIGITS),
                "mapped": json_number(self.mapped_error, DIGITS),
            },
        }


def choose_score_map(
    run: ActiveRun, evaluator: Evaluator, result: SearchResult
) -> ScoreMapChoice | None:
    """Learn it from what has been scored already, and ask nothing; None for pairs.

    It is learned on train, and held to dev. A search that pays for its calls scores little of train
    by the judge that ships: then it is learned on dev, and held to those of dev's documents that
    it was not learned on, fold by fold. Outputs of documents that the judge shows as demonstrations
    are left out, unless versions stand in for it that do not show them.
    """
    subject, labels = run.prepared.subject, run.prepared.labels
    if not isinstance(subject, Dimension):
        return None
    shipped = result.tuned if result.choice.ship else run.seed
    (train, train_scores), (dev, dev_scores) = (
        _scored(evaluator, result, shipped, items) for items in (labels.train, labels.dev)
    )
    ends = {
        "judge_ends": (subject.scale[0], subject.scale[-1]),
        "human_ends": label_bounds(subject, run.prepared.settings.scale),
    }
    if len(dev.documents) < MIN_DOCUMENTS or not (
        min(len(train), len(dev)) >= MIN_OUTPUTS or len(dev) >= MIN_ALONE
    ):
        why = (
            f"no score map: the shipped judge has scored {len(train)} outputs of train and "
            f"{len(dev)} of dev; {MIN_OUTPUTS} of each are the least, or {MIN_ALONE} of dev"
        )
        return ScoreMapChoice(score_map=None, why=why, n_dev=len(dev))
    if len(train) >= MIN_OUTPUTS:
        score_map = fit_score_map(train_scores, train.human, **ends)
        mapped = None if score_map is None else np.array(score_map.all(dev_scores.tolist()))
        return choose("train", score_map, dev, dev_scores, mapped, n_learned=len(train))
    score_map = fit_score_map(dev_scores, dev.human, **ends)
    mapped = mapped_in_folds(dev, dev_scores, ends)
    return choose("dev", score_map, dev, dev_scores, mapped, n_learned=len(dev))


def mapped_in_folds(dev: Items, scores: Vector, ends: Mapping[str, Any]) -> Vector | None:
    """The scores of each fold's documents by the map of the others; None where there is none."""
    mapped = np.empty(len(dev))
    for fold in range(FOLDS):
        rows = np.concatenate([dev.places[name] for name in dev.documents[fold::FOLDS]])
        others = np.setdiff1d(np.arange(len(dev)), rows)
        score_map = fit_score_map(scores[others], dev.human[others], **ends)
        if score_map is None:
            return None
        mapped[rows] = score_map.all(scores[rows].tolist())
    return mapped


def choose(
    learned_on: Literal["train", "dev"],
    score_map: MonotoneMap | None,
    dev: Items,
    scores: Vector,
    mapped: Vector | None,
    *,
    n_learned: int,
) -> ScoreMapChoice:
    """The map, where it brings scores of dev's documents nearer to people by more than chance.

    `mapped` are `scores` as a map has them that was not learned on their documents; None: there is
    none.
    """
    if score_map is None or mapped is None:
        why = f"no score map: on {learned_on}, all scores or all ratings are alike"
        return ScoreMapChoice(
            score_map=None, why=why, learned_on=learned_on, n_learned=n_learned, n_dev=len(dev)
        )
    raw_errors, errors = np.abs(scores - dev.human), np.abs(mapped - dev.human)
    gains = np.array([float((raw_errors - errors)[rows].mean()) for rows in dev.places.values()])
    helps = bool(gains.mean() > gains.std(ddof=1) / np.sqrt(gains.size))
    held_out = "" if learned_on == "train" else ", by folds of documents"
    figures = (
        f"mean absolute error on dev{held_out} {raw_errors.mean():.3f} as they are, "
        f"{errors.mean():.3f} mapped (n={len(dev)} outputs)"
    )
    why = (
        f"scores are put on people's scale, in the same order: {figures}"
        if helps
        else f"no score map: it gains no more than its standard error: {figures}"
    )
    return ScoreMapChoice(
        score_map=score_map if helps else None,
        why=why,
        error=float(raw_errors.mean()),
        mapped_error=float(errors.mean()),
        learned_on=learned_on,
        n_learned=n_learned,
        n_dev=len(dev),
    )


def _scored(
    evaluator: Evaluator, result: SearchResult, shipped: Candidate, items: Items
) -> tuple[Items, Vector]:
    """The items that have a score by the judge, which learned nothing from them; the scores."""
    cross_fit = result.cross_fit
    known = cross_fit.known(evaluator, shipped, items)
    if not cross_fit.is_needed_for(shipped):
        demo_texts = {tuple(map(str, demo.values())) for demo in shipped.demo_set.demos}
        texts = {text for values in demo_texts for text in values}
        taught = {
            item.document_id
            for item in known.items
            if all(text in texts for text in item.texts.values())
        }
        known = known.of_documents([name for name in known.documents if name not in taught])
    scores = cross_fit.scores(evaluator, shipped, known) if len(known) else np.empty(0)
    rows = np.flatnonzero(~np.isnan(scores))
    return known.of_rows([int(row) for row in rows]), scores[rows]
