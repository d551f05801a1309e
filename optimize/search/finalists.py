"""What an optimizer ends with is scored on dev, and the gate chooses.

A finalist that shows all labels is cross-fitted there: versions of it that do not show a document
judge that document.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from judges.client import BudgetSpentError
from judges.prompt import Prompt
from optimize.figures import DIGITS, json_number
from optimize.items import Items, Vector
from optimize.search.candidates import EVERYTHING, Candidate, DemoSet, draw_demo_set
from optimize.search.evaluator import (
    Evaluator,
    SearchBudgetSpentError,
    SearchOptions,
    SearchProblem,
    contrast,
    informative_documents,
    objective,
)
from optimize.search.gate import (
    RISK,
    Choice,
    ComparedCandidate,
    Shortfall,
    choose,
    too_dear,
    undecided,
)
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Contrast, mean_of_differences
from optimize.statistics.levels import Level

FOLDS = 4


class CrossFit:
    """Cross-fitting for a judge whose demonstrations are all labels of train and dev.

    It may judge none of these documents itself, so each is judged by a version of it that does not
    show the document's fold.
    """

    def __init__(self, everything: Items, seed: Prompt, options: SearchOptions) -> None:
        self._everything, self._seed, self._options = everything, seed, options
        names = everything.documents
        order = stream(options.seed, "parts", "documents").permutation(len(names))
        self._fold_of = {names[index]: place % FOLDS for place, index in enumerate(order)}

    @cached_property
    def full_demo_set(self) -> DemoSet:
        """Everything that can be shown, or the largest set where that is too much."""
        return self._largest(self._everything)

    def _largest(self, items: Items) -> DemoSet:
        """All of the items that can be shown, or as many of all levels as a prompt takes."""
        return draw_demo_set(
            items,
            self._seed,
            max(self._options.demo_sizes, default=0),
            stream(self._options.seed, EVERYTHING),
            max_characters=self._options.longest_demos,
        )

    @cached_property
    def is_feasible(self) -> bool:
        """Whether everything can be shown, and each version shows something."""
        if self.full_demo_set.kind != EVERYTHING or len(self._everything.documents) < 2 * FOLDS:
            return False
        return all(demo_set.demos for demo_set in self._fold_demo_sets)

    @cached_property
    def _fold_demo_sets(self) -> list[DemoSet]:
        demo_sets = []
        for fold in range(FOLDS):
            names = [name for name, name_fold in self._fold_of.items() if name_fold != fold]
            pool = self._everything.of_documents(names)
            demo_sets.append(self._largest(pool))
        return demo_sets

    def is_needed_for(self, candidate: Candidate) -> bool:
        """Whether versions stand in for the candidate."""
        return candidate.demo_set.kind == EVERYTHING and self.is_feasible

    def note(self, candidate: Candidate) -> str | None:
        """Who judges train and dev for the candidate, in a sentence; None where it does itself."""
        if not self.is_needed_for(candidate):
            return None
        return "on dev, versions of the tuned judge that do not show the document stand in for it"

    def scores(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        evaluator.budget.check(self.cost(evaluator, candidate, items))
        scores = np.empty(len(items))
        for judge, rows in self._rows_by_judge(candidate, items):
            scores[rows] = evaluator.scores(judge, items.of_rows(rows))
        return scores

    def cost(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> float:
        """What scoring these items would cost."""
        return sum(
            evaluator.cost(judge, items.of_rows(rows))
            for judge, rows in self._rows_by_judge(candidate, items)
        )

    def known(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = {
            item.id
            for judge, rows in self._rows_by_judge(candidate, items)
            for item in evaluator.known(judge, items.of_rows(rows)).items
        }
        return Items(tuple(item for item in items.items if item.id in known))

    def _fold(self, candidate: Candidate, document: str) -> int | None:
        """Which version judges the document; None where the candidate itself may."""
        return self._fold_of.get(document) if self.is_needed_for(candidate) else None

    def _rows_by_judge(
        self, candidate: Candidate, items: Items
    ) -> list[tuple[Candidate, list[int]]]:
        """Who judges which rows."""
        rows: dict[int | None, list[int]] = {}
        for row, item in enumerate(items.items):
            rows.setdefault(self._fold(candidate, item.document_id), []).append(row)
        judges = {
            fold: candidate
            if fold is None
            else replace(candidate, demo_set=self._fold_demo_sets[fold])
            for fold in rows
        }
        return [(judges[fold], fold_rows) for fold, fold_rows in rows.items()]


def affordable_part(
    items: Items, documents: Iterable[str], limit: float, cost: Callable[[Items], float]
) -> Items:
    """The items of the first of these documents, as many as cost no more than the limit."""
    affordable = []
    for document in documents:
        limit -= cost(items.of_documents([document]))
        if limit < 0:
            break
        affordable.append(document)
    return items.of_documents(affordable)


def affordable_documents(
    evaluator: Evaluator, cross_fit: CrossFit, judges: Sequence[Candidate], dev: Items, level: Level
) -> Items:
    """The dev documents that all these judges can be scored on within the budget.

    Those that can tell judges apart come first.
    """

    def cost(part: Items) -> float:
        return sum(cross_fit.cost(evaluator, judge, part) for judge in judges)

    documents = dict.fromkeys((*informative_documents(dev, level), *dev.documents))
    return affordable_part(dev, documents, evaluator.budget.left, cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalistScores:
    """A candidate's and the untuned judge's scores for items that the candidate was not shown."""

    items: Items
    candidate: Vector
    seed: Vector

    def contrast(self, level: Level) -> Contrast:
        return contrast(self.candidate, self.seed, self.items, level)

    def value(self, level: Level) -> float:
        """The candidate's own objective there."""
        return objective(self.candidate, self.items, level)

    def pooled_with(self, more: "FinalistScores") -> "FinalistScores":
        """Both together."""
        return FinalistScores(
            items=Items((*self.items.items, *more.items.items)),
            candidate=np.concatenate([self.candidate, more.candidate]),
            seed=np.concatenate([self.seed, more.seed]),
        )


def score_with_seed(
    problem: SearchProblem,
    cross_fit: CrossFit,
    candidates: Sequence[Candidate],
    items: Items,
    split: str,
) -> list[FinalistScores]:
    """Score candidates and untuned judge on the items, and record each candidate on `split`."""
    evaluator, seed, level = problem.evaluator, problem.seed, problem.level
    if not candidates:
        return []
    part = affordable_documents(evaluator, cross_fit, [seed, *candidates], items, level)
    seed_scores = evaluator.scores(seed, part)
    comparisons = []
    for candidate in candidates:
        scores = cross_fit.scores(evaluator, candidate, part)
        comparison = FinalistScores(items=part, candidate=scores, seed=seed_scores)
        comparisons.append(comparison)
        problem.record_candidate(
            split,
            candidate,
            value=comparison.value(level),
            gain=comparison.contrast(level).value,
            n_documents=len(part.documents),
        )
    return comparisons


def choose_finalist(
    on_dev: Sequence[FinalistScores],
    on_train: Mapping[int, FinalistScores],
    level: Level,
    costs: Sequence[float],
    n_tried: int,
    rng: np.random.Generator,
    shortfall: Shortfall | None = None,
    risk: float = RISK,
) -> Choice:
    """The gate's choice among the candidates.

    `on_train` holds, by index, those that train has not chosen, which may judge there, too; `costs`
    are what an item costs with each.
    """
    finalists = []
    for index, dev in enumerate(on_dev):
        pooled = dev.pooled_with(on_train[index]) if index in on_train else dev
        seed_failed, failed = np.isnan(pooled.seed), np.isnan(pooled.candidate)
        reductions = [
            float((seed_failed[rows] * 1.0 - failed[rows]).mean())
            for rows in pooled.items.places.values()
        ]
        finalists.append(
            ComparedCandidate(
                gain=pooled.contrast(level),
                dev_gain=dev.contrast(level),
                failure_reduction=mean_of_differences(np.array(reductions), pooled.items.documents),
                failure_rate=float(failed.mean()) if len(failed) else 0.0,
                seed_failure_rate=float(seed_failed.mean()) if len(failed) else 0.0,
                cost=costs[index],
            )
        )
    return choose(finalists, n_tried, rng, shortfall, risk)


def make_shortfall(
    problem: SearchProblem, candidates: Sequence[Candidate], on_dev: Sequence[FinalistScores]
) -> Shortfall:
    """How much better one candidate is than another on all that both have been scored on.

    On dev and train together, where neither shows the document: the race has chosen both alike.
    """
    evaluator = problem.evaluator

    def shortfall(better: int, worse: int) -> Contrast:
        pair = candidates[better], candidates[worse]
        train = evaluator.known(pair[0], evaluator.known(pair[1], problem.train))
        demo_documents = pair[0].documents | pair[1].documents
        train = train.of_documents([name for name in train.documents if name not in demo_documents])
        items = Items((*on_dev[better].items.items, *train.items))
        scores = [
            np.concatenate([on_dev[index].candidate, evaluator.known_scores(candidate, train)])
            for index, candidate in zip((better, worse), pair, strict=True)
        ]
        return contrast(scores[0], scores[1], items, problem.level)

    return shortfall


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What an optimizer ends with: finalists for dev, best first, and how they were made.

    `tried` are the ids of all candidates scored, `n_proposed` the instructions proposed, and `dev`
    the part of dev to choose on (None: as much as the budget reaches for). `n_too_dear` candidates
    did better than the untuned judge on train and cost too much to be finalists.
    """

    finalists: Sequence[Candidate]
    tried: Collection[str]
    n_proposed: int
    cross_fit: CrossFit
    dev: Items | None = None
    n_too_dear: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalistFigures:
    """A finalist on dev: rho, and its gain on the untuned judge with that gain's standard error.

    `item_cost` is what an item costs with it, in dollars or, where no price is known, tokens read.
    """

    candidate: Candidate
    value: float
    gain: float
    error: float
    item_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search ends with: the tuned judge, whether to ship it, and why.

    `cross_fit` tells who judges train and dev for a judge that shows them. Where calls cost money,
    `finalists` are the untuned judge and those that met dev. `on_dev` are those that did, at any
    cost.
    """

    tuned: Candidate
    cross_fit: CrossFit = field(compare=False, repr=False)
    choice: Choice
    n_tried: int
    n_proposed: int
    calls: int
    finalists: Sequence[FinalistFigures] = ()
    on_dev: Sequence[Candidate] = ()


def choose_on_dev(problem: SearchProblem, exploration: Exploration) -> SearchResult:
    """Compare the finalists with the untuned judge on dev, and let the gate choose."""
    cross_fit, n_tried = exploration.cross_fit, len(exploration.tried)
    evaluator, level = problem.evaluator, problem.level
    finalists = affordable_finalists(problem, exploration)
    choice = undecided(n_tried)
    figures: Sequence[FinalistFigures] = ()
    with suppress(BudgetSpentError, SearchBudgetSpentError):
        dev = problem.dev if exploration.dev is None else exploration.dev
        on_dev = score_with_seed(problem, cross_fit, finalists, dev, "dev")
        # Train has chosen nothing of what shows everything, and may judge it too.
        on_train = {
            index: score_with_seed(problem, cross_fit, [finalist], problem.train, "train")[0]
            for index, finalist in enumerate(finalists)
            if cross_fit.is_needed_for(finalist)
        }
        n_tried = len({*exploration.tried, *(finalist.id for finalist in finalists)})
        rng = stream(problem.options.seed, "gate")
        shortfall = make_shortfall(problem, finalists, on_dev)
        costs = [evaluator.item_cost(finalist) for finalist in finalists]
        risk = problem.options.risk
        choice = choose_finalist(on_dev, on_train, level, costs, n_tried, rng, shortfall, risk)
        record_choice(problem, choice, finalists)
        if not evaluator.pricing.price.is_free:
            figures = finalist_figures(problem, finalists, on_dev)
        if not finalists and exploration.n_too_dear:
            choice = too_dear(exploration.n_too_dear, n_tried)
    return SearchResult(
        tuned=problem.seed if choice.best is None else finalists[choice.best],
        cross_fit=cross_fit,
        choice=choice,
        n_tried=n_tried,
        n_proposed=exploration.n_proposed,
        calls=evaluator.budget.calls,
        finalists=figures,
        on_dev=tuple(finalists),
    )


def record_choice(problem: SearchProblem, choice: Choice, finalists: Sequence[Candidate]) -> None:
    """Write the figures down that the choice rests on; none where there was none to choose."""
    gain = choice.gain
    if gain is None:
        return
    figures = {"value": gain.value, "low": gain.low, "high": gain.high, "error": gain.error}
    problem.record(
        "gate",
        candidate=None if choice.best is None else finalists[choice.best].id,
        figures={name: json_number(value, DIGITS) for name, value in figures.items()},
        n_documents=gain.n_documents,
        n_finalists=len(finalists),
        risk=problem.options.risk,
        ship=choice.ship,
    )


def affordable_finalists(problem: SearchProblem, exploration: Exploration) -> Sequence[Candidate]:
    """The first finalists that can all be scored on dev: none takes documents away.

    The first one stays, whatever it costs.
    """
    evaluator, dev = problem.evaluator, exploration.dev or problem.dev
    left = evaluator.budget.left - evaluator.cost(problem.seed, dev)
    affordable: list[Candidate] = []
    for finalist in exploration.finalists:
        cost = evaluator.cost(finalist, dev)
        if cost <= left or not affordable:
            affordable.append(finalist)
            left -= cost
    return affordable


def finalist_figures(
    problem: SearchProblem, candidates: Sequence[Candidate], on_dev: Sequence[FinalistScores]
) -> list[FinalistFigures]:
    """The untuned judge's figures on dev, then each finalist's."""
    level, evaluator = problem.level, problem.evaluator
    figures: list[FinalistFigures] = []
    for candidate, scores in zip(candidates, on_dev, strict=True):
        gain = scores.contrast(level)
        if not figures:
            seed_value = objective(scores.seed, scores.items, level)
            seed_cost = evaluator.item_cost(problem.seed)
            figures.append(
                FinalistFigures(
                    candidate=problem.seed, value=seed_value, gain=0, error=0, item_cost=seed_cost
                )
            )
        figures.append(
            FinalistFigures(
                candidate=candidate,
                value=scores.value(level),
                gain=gain.value,
                error=gain.error,
                item_cost=evaluator.item_cost(candidate),
            )
        )
    return figures
