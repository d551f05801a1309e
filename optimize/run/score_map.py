"""Whether the shipped judge carries a map onto people's scale: learned on train, held to dev."""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMapChoice:
    """The map, or None and why; mean absolute errors are on dev, of the scores as they are."""

    score_map: MonotoneMap | None
    why: str
    n_train: int = 0
    n_dev: int = 0
    error: float = np.nan
    mapped_error: float = np.nan

    def to_json(self) -> dict[str, Any]:
        return {
            "used": self.score_map is not None,
            "why": self.why,
            "n_train": self.n_train,
            "n_dev": self.n_dev,
            "dev_mean_absolute_error": {
                "raw": json_number(self.error, DIGITS),
                "mapped": json_number(self.mapped_error, DIGITS),
            },
        }


def choose_score_map(
    run: ActiveRun, evaluator: Evaluator, result: SearchResult
) -> ScoreMapChoice | None:
    """Learn it from what has been scored on train already, and ask nothing; None for pairs.

    Outputs of documents that the judge shows as demonstrations are left out, unless versions stand
    in for it that do not show them.
    """
    subject, labels = run.prepared.subject, run.prepared.labels
    if not isinstance(subject, Dimension):
        return None
    shipped = result.tuned if result.choice.ship else run.seed
    (train, train_scores), (dev, dev_scores) = (
        _scored(evaluator, result, shipped, items) for items in (labels.train, labels.dev)
    )
    counts = {"n_train": len(train), "n_dev": len(dev)}
    if min(len(train), len(dev)) < MIN_OUTPUTS or len(dev.documents) < MIN_DOCUMENTS:
        why = (
            f"no score map: the shipped judge has scored {len(train)} outputs of train and "
            f"{len(dev)} of dev; {MIN_OUTPUTS} of each are the least"
        )
        return ScoreMapChoice(score_map=None, why=why, **counts)
    scale = run.prepared.settings.scale
    score_map = fit_score_map(
        train_scores,
        train.human,
        judge_ends=(subject.scale[0], subject.scale[-1]),
        human_ends=label_bounds(subject, scale),
    )
    if score_map is None:
        why = "no score map: on train, all scores or all ratings are alike"
        return ScoreMapChoice(score_map=None, why=why, **counts)
    raw = np.abs(dev_scores - dev.human)
    mapped = np.abs(np.array(score_map.all([float(x) for x in dev_scores])) - dev.human)
    gains = np.array([float((raw - mapped)[rows].mean()) for rows in dev.places.values()])
    error = gains.std(ddof=1) / np.sqrt(gains.size)
    helps = bool(gains.mean() > error)
    figures = (
        f"mean absolute error on dev {raw.mean():.3f} as they are, {mapped.mean():.3f} mapped "
        f"(n={len(dev)} outputs)"
    )
    why = (
        f"scores are put on people's scale, in the same order: {figures}"
        if helps
        else f"no score map: it gains no more than its standard error: {figures}"
    )
    return ScoreMapChoice(
        score_map=score_map if helps else None,
        why=why,
        error=float(raw.mean()),
        mapped_error=float(mapped.mean()),
        **counts,
    )


def _scored(
    evaluator: Evaluator, result: SearchResult, shipped: Candidate, items: Items
) -> tuple[Items, Vector]:
    """The items that have a score by the judge, which learned nothing from them; the scores."""
    cross_fit = result.cross_fit
    known = cross_fit.known(evaluator, shipped, items)
    if not cross_fit.is_needed_for(shipped):
        shown = {tuple(map(str, demo.values())) for demo in shipped.demo_set.demos}
        texts = {text for values in shown for text in values}
        taught = {
            item.document_id
            for item in known.items
            if all(text in texts for text in item.texts.values())
        }
        known = known.of_documents([name for name in known.documents if name not in taught])
    scores = cross_fit.scores(evaluator, shipped, known) if len(known) else np.empty(0)
    rows = np.flatnonzero(~np.isnan(scores))
    return known.of_rows([int(row) for row in rows]), scores[rows]
