"""Optimizers: functions that take a `SearchProblem` and return an `Exploration` with finalists.

An optimizer learns from `problem.train`, within the budget of `problem.evaluator`. It is called
once for each half of the labels, and its finalists are tested on the other half
(`optimize.search.gate`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Generic, Literal, TypeVar

import numpy as np

from judges.prompt import Field, Prompt
from optimize.figures.as_json import JsonObject, to_json
from optimize.inputs.flags import SettingsError
from optimize.items import Items, Vector
from optimize.search.candidates import EVERYTHING, Candidate, DemoSet, draw_demo_set
from optimize.search.evaluator import Evaluator, SearchOptions, SearchProblem
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import stream

# Upper bound on the candidates of one search that are tested on documents held out from them.
N_FINALISTS = 3
# How many versions of a judge that shows all labels are tested; each leaves out one fold.
FOLDS = 4


def largest_demo_set(items: Items, untuned: Prompt, options: SearchOptions) -> DemoSet:
    """The demonstrations of all items, or a balanced selection if a prompt may not show so many."""
    rng = stream(options.seed, EVERYTHING)
    longest = options.longest_demos
    return draw_demo_set(items, untuned, options.max_demos, rng, max_characters=longest)


class CrossFit:
    """Tests a judge that shows all labels: each fold is scored by a version that leaves it out.

    Attributes:
        demo_set: The demonstrations of the judge itself, made from train and dev.
    """

    def __init__(self, everything: Items, untuned: Prompt, options: SearchOptions) -> None:
        self._everything, self._untuned, self._options = everything, untuned, options
        names = everything.documents
        order = stream(options.seed, "parts", "documents").permutation(len(names))
        self._fold_of = {names[index]: place % FOLDS for place, index in enumerate(order)}
        self.demo_set = largest_demo_set(everything, untuned, options)

    @cached_property
    def is_feasible(self) -> bool:
        """Whether a prompt can show all labels, and every version has demonstrations."""
        if self.demo_set.kind != EVERYTHING or len(self._everything.documents) < 2 * FOLDS:
            return False
        return all(demo_set.demos for demo_set in self._demo_sets.values())

    @cached_property
    def _demo_sets(self) -> dict[int, DemoSet]:
        """Each version's demonstrations, by the number of the fold that it leaves out."""
        items = self._everything
        rest = {
            fold: items.of_rows(np.flatnonzero(~in_fold)) for fold, in_fold in self._folds(items)
        }
        return {n: largest_demo_set(rest[n], self._untuned, self._options) for n in rest}

    def _folds(self, items: Items) -> Iterator[tuple[int, Mask]]:
        """Yield the number of each fold with a mask of the items in it."""
        folds = np.array([self._fold_of[name] for name in items.document_ids])
        return ((fold, folds == fold) for fold in set(folds.tolist()))

    def verdicts(self, scores: Vector, items: Items) -> Vector:
        """Verdicts in the items' order; each fold has the threshold learned on the other folds."""
        passes = np.empty(len(items))
        for _, in_fold in self._folds(items):
            passes[in_fold] = verdicts(
                scores[in_fold], best_threshold(scores[~in_fold], items.human[~in_fold])
            )
        return passes

    def scores(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order, each by the version that does not show the document."""
        scores = np.empty(len(items))
        for fold, in_fold in self._folds(items):
            version = replace(candidate, demo_set=self._demo_sets[fold])
            scores[in_fold] = evaluator.scores(version, items.of_rows(np.flatnonzero(in_fold)))
        return scores


# The names of the untuned and the tuned judge in JSON.
JudgeName = Literal["seed", "tuned"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge(Generic[T]):
    """A value for the untuned judge, and one for the tuned judge."""

    untuned: T
    tuned: T

    def __iter__(self) -> Iterator[T]:
        return iter((self.untuned, self.tuned))

    def of(self, judge: JudgeName) -> T:
        return self.tuned if judge == "tuned" else self.untuned

    def map(self, function: Callable[[T], U]) -> "ByJudge[U]":
        """The function's results for both."""
        return ByJudge(untuned=function(self.untuned), tuned=function(self.tuned))

    def to_json(self) -> JsonObject:
        return {"seed_judge": to_json(self.untuned), "tuned_judge": to_json(self.tuned)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """How far the last round of a search improved the best candidate, measured on train.

    Attributes:
        gain: The gain of the round.
        error: The standard error of the gain.
        cost: The cost of the round, in the budget's unit.
        is_final: Whether the search ended because a further round would not pay; false if the
            budget ended it.
    """

    gain: float
    error: float
    cost: float
    is_final: bool

    @classmethod
    def of_both(cls, halves: Sequence["LastRound | None"]) -> "LastRound | None":
        """The mean gain and error of both halves' last rounds, and the sum of their costs.

        None if no half had a round.
        """
        rounds = [half for half in halves if half]
        if not rounds:
            return None
        return cls(
            gain=sum(each.gain for each in rounds) / len(rounds),
            error=sum(each.error for each in rounds) / len(rounds),
            cost=sum(each.cost for each in rounds),
            is_final=all(each.is_final for each in rounds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The result of an optimizer.

    Attributes:
        finalists: Candidates to test on the other half, best first.
        candidate_ids: The ids of all candidates that were scored.
        cross_fit: The test of a finalist that shows labels of dev as well; None if none does.
        n_too_expensive: How many candidates beat the untuned judge on train but cost too much.
        last_round: The last round, if the optimizer works in rounds.
        questions: Questions that the proposer wrote after it had seen train.
        is_starved: Whether the budget could not pay for any proposal.
    """

    finalists: Sequence[Candidate] = ()
    candidate_ids: Collection[str] = ()
    cross_fit: CrossFit | None = None
    n_too_expensive: int = 0
    last_round: LastRound | None = None
    questions: Sequence[Field] = ()
    is_starved: bool = False


Optimizer = Callable[[SearchProblem], Exploration]
# A module is imported only when its optimizer is used: importing both takes half a second.
OPTIMIZERS = {
    "rank": "optimize.search.rank_search:explore",
    "gepa": "optimize.search.gepa:explore",
}


def optimizer_name(optimizer: str | Optimizer) -> str:
    """The name by which `find_optimizer` finds the optimizer.

    Raises SettingsError if the optimizer is a function that is not at the top of a module.
    """
    if isinstance(optimizer, str):
        return optimizer
    name = f"{optimizer.__module__}:{getattr(optimizer, '__qualname__', '')}"
    if find_optimizer(name) is not optimizer:
        raise SettingsError(f"optimizer {name}: give a function at the top of a module")
    return name


def find_optimizer(name: str) -> Optimizer:
    """The optimizer called "rank" or "gepa", or the function that MODULE:FUNCTION names.

    Raises SettingsError if there is no optimizer or function of this name.
    """
    module, _, function = OPTIMIZERS.get(name, name).partition(":")
    if not function:
        choices = ", ".join(OPTIMIZERS)
        raise SettingsError(f"--optimizer {name!r}: choose {choices}, or name MODULE:FUNCTION")
    try:
        optimizer: Optimizer = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"--optimizer {name}: {error}") from error
    return optimizer
