"""Optimizers: functions that take a `SearchProblem` and return an `Exploration` with finalists.

An optimizer learns from `problem.train`, within the budget of `problem.evaluator`. It is called
once for each half of the labels, and its finalists are tested on the other half.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Generic, Literal, TypeVar

import numpy as np

from dspy_judges.errors import option_name
from judges.prompt import Field
from optimize.figures.as_json import JsonObject, to_json
from optimize.inputs.flags import SettingsError
from optimize.items import Items
from optimize.search.candidates import DEMOS_OF_ALL_OUTPUTS, Candidate, DemoSet, draw_demo_set
from optimize.search.problem import SearchProblem
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.intervals import Vector, stream

# Upper bound on the finalists of one search: candidates that are tested on held-out documents.
MAX_FINALISTS = 3
# A judge that shows all labels as demonstrations is tested in this many versions, each of which
# leaves out one fold.
N_FOLDS = 4


def largest_demo_set(items: Items, problem: SearchProblem) -> DemoSet:
    """Make as many demonstrations as the prompt may show, with all ratings equally often."""
    prompt, options = problem.evaluator.untuned, problem.options
    rng, longest = stream(options.seed, DEMOS_OF_ALL_OUTPUTS), options.max_demo_characters
    return draw_demo_set(items, prompt, options.max_demos, rng, max_characters=longest)


class CrossValidation:
    """The cross-validation of a judge that shows all labels of train and dev as demonstrations.

    Each fold of documents is scored by a version of the judge that does not show the fold.
    `demo_set` are the judge's own demonstrations.
    """

    def __init__(self, problem: SearchProblem) -> None:
        self._problem, names = problem, problem.train_and_dev.documents
        order = stream(problem.options.seed, "parts", "documents").permutation(len(names))
        self._fold_of = {names[index]: position % N_FOLDS for position, index in enumerate(order)}
        self.demo_set = largest_demo_set(problem.train_and_dev, problem)
        shows_everything = self.demo_set.kind == DEMOS_OF_ALL_OUTPUTS
        self.is_feasible = shows_everything and len(names) >= 2 * N_FOLDS

    @cached_property
    def _demo_sets(self) -> list[DemoSet]:
        """The demonstrations of each version, by the number of the fold that is left out."""
        demo_sets = []
        for left_out in range(N_FOLDS):
            names = [name for name, fold in self._fold_of.items() if fold != left_out]
            items = self._problem.train_and_dev.of_documents(names)
            demo_sets.append(largest_demo_set(items, self._problem))
        return demo_sets

    def judge(self, candidate: Candidate, items: Items) -> tuple[Candidate, Vector]:
        """Return the candidate with its threshold, and its scores or verdicts on the items.

        A verdict is decided by a threshold that is learned on all other folds.
        """
        evaluator = self._problem.evaluator
        folds = np.array([self._fold_of[name] for name in items.document_ids])
        scores = np.empty(len(items))
        if candidate.demo_set.demos:
            for fold, demo_set in enumerate(self._demo_sets):
                items_in_fold = items.of_rows(np.flatnonzero(folds == fold))
                version = replace(candidate, demo_set=demo_set)
                scores[folds == fold] = evaluator.scores(version, items_in_fold)
        else:
            scores = evaluator.scores(candidate, items)
        if self._problem.goal != "balanced":
            return candidate, scores
        fold_verdicts = np.empty(len(items))
        for fold in range(N_FOLDS):
            others = folds != fold
            threshold = best_threshold(scores[others], items.human[others])
            fold_verdicts[~others] = verdicts(scores[~others], threshold)
        return replace(candidate, threshold=best_threshold(scores, items.human)), fold_verdicts


# The names in JSON of the untuned judge ("seed") and the tuned judge.
JudgeName = Literal["seed", "tuned"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge(Generic[T]):
    """A pair of values, for the untuned judge and for the tuned judge."""

    untuned: T
    tuned: T

    def __iter__(self) -> Iterator[T]:
        return iter((self.untuned, self.tuned))

    def of(self, judge: JudgeName) -> T:
        return self.tuned if judge == "tuned" else self.untuned

    def map(self, function: Callable[[T], U]) -> "ByJudge[U]":
        return ByJudge(untuned=function(self.untuned), tuned=function(self.tuned))

    def to_json(self) -> JsonObject:
        return {"seed_judge": to_json(self.untuned), "tuned_judge": to_json(self.tuned)}


@dataclass(frozen=True, slots=True)
class LastRound:
    """How much the last round of a search improved the best candidate, measured on train.

    `error` is the standard error of the best candidate's gain. `is_final` is false if a limit ended
    the search.
    """

    gain: float
    error: float
    cost: float
    is_final: bool

    @classmethod
    def combine(cls, halves: Sequence["LastRound | None"]) -> "LastRound | None":
        """Return mean gain, mean error and the sum of the costs; None if no half had a round."""
        rounds = list(filter(None, halves))
        if not rounds:
            return None
        gain, error, cost = np.mean([(each.gain, each.error, each.cost) for each in rounds], axis=0)
        is_final = all(each.is_final for each in rounds)
        return cls(float(gain), float(error), float(len(rounds) * cost), is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The result of an optimizer: finalists, best first, and the ids of all scored candidates.

    `cross_validation` tests a finalist whose demonstrations are from dev as well as train.
    `questions` are those that the proposer wrote from train. `limit_reached` is true if the limit
    was too small for proposals, or for a test of better candidates.
    """

    finalists: Sequence[Candidate] = ()
    candidate_ids: Collection[str] = ()
    cross_validation: CrossValidation | None = None
    last_round: LastRound | None = None
    questions: Sequence[Field] = ()
    limit_reached: bool = False


Optimizer = Callable[[SearchProblem], Exploration]
# The optimizers that ask the proposer for questions. The search reserves the cost of their test.
QUESTION_WRITERS: set[Optimizer] = set()


def writes_questions(optimizer: Optimizer) -> Optimizer:
    """Declare, as a decorator, that an optimizer asks the proposer for questions."""
    QUESTION_WRITERS.add(optimizer)
    return optimizer


# Optimizers are named by strings and imported on use, because the imports take half a second.
OPTIMIZERS = {
    "rank": "optimize.search.rank_search:explore",
    "gepa": "optimize.search.gepa:explore",
}


def optimizer_name(optimizer: str | Optimizer) -> str:
    """Return an optimizer's name; raise SettingsError if `find_optimizer` cannot find that name."""
    if isinstance(optimizer, str):
        return optimizer
    module, function = optimizer.__module__, getattr(optimizer, "__qualname__", "")
    if getattr(sys.modules.get(module), function, None) is not optimizer:
        raise SettingsError(
            f"optimizer {module}:{function}: define it with def at the top of a module, so that a "
            "run that continues finds it by this name"
        )
    return f"{module}:{function}"


def find_optimizer(name: str) -> Optimizer:
    """Find "rank", "gepa" or MODULE:FUNCTION; raises SettingsError for any other name."""
    module, _, function = OPTIMIZERS.get(name, name).partition(":")
    if not function:
        option, choices = option_name("optimizer", repr(name)), ", ".join(OPTIMIZERS)
        raise SettingsError(f"{option}: choose {choices}, or name MODULE:FUNCTION")
    try:
        optimizer: Optimizer = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{option_name('optimizer', name)}: {error}") from error
    return optimizer
