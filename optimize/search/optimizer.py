"""What an optimizer is: a function that learns from train and ends with finalists.

It takes a `SearchProblem` and returns an `Exploration`, within the budget of the problem's
evaluator. It is called twice, once for either half of the labels; what it never sees decides
whether its finalists ship (`optimize.search.gate`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module

import numpy as np

from judges.prompt import Prompt
from optimize.inputs.flags import SettingsError
from optimize.items import Items, Vector
from optimize.search.candidates import EVERYTHING, Candidate, DemoSet, draw_demo_set
from optimize.search.evaluator import (
    Evaluator,
    SearchOptions,
    SearchProblem,
)
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import stream

# How many candidates of a search meet documents held out from them.
N_FINALISTS = 3
# Versions of a judge that shows all labels.
FOLDS = 4


def largest_demo_set(items: Items, untuned: Prompt, options: SearchOptions) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    rng = stream(options.seed, EVERYTHING)
    longest = options.longest_demos
    return draw_demo_set(items, untuned, options.max_demos, rng, max_characters=longest)


class CrossFit:
    """Versions of a judge that shows all labels of train and dev, each without a fold of them."""

    def __init__(self, everything: Items, untuned: Prompt, options: SearchOptions) -> None:
        self._everything, self._untuned, self._options = everything, untuned, options
        names = everything.documents
        order = stream(options.seed, "parts", "documents").permutation(len(names))
        self._fold_of = {names[index]: place % FOLDS for place, index in enumerate(order)}
        self.demo_set = largest_demo_set(everything, untuned, options)

    @cached_property
    def is_feasible(self) -> bool:
        """Whether everything can be shown, and each version shows something."""
        if self.demo_set.kind != EVERYTHING or len(self._everything.documents) < 2 * FOLDS:
            return False
        return all(demo_set.demos for demo_set in self._demo_sets.values())

    @cached_property
    def _demo_sets(self) -> dict[int, DemoSet]:
        """What the version without each fold shows."""
        others = (
            (fold, self._everything.of_rows(np.flatnonzero(~own).tolist()))
            for fold, own in self._folds(self._everything)
        )
        return {n: largest_demo_set(rest, self._untuned, self._options) for n, rest in others}

    def _folds(self, items: Items) -> Iterator[tuple[int, Mask]]:
        """Each fold, and which items are of it."""
        folds = np.array([self._fold_of[name] for name in items.document_ids])
        return ((fold, folds == fold) for fold in set(folds.tolist()))

    def verdicts(self, scores: Vector, items: Items) -> Vector:
        """Verdicts in the items' order, each by the threshold that the other folds teach."""
        passes = np.empty(len(items))
        for _, own in self._folds(items):
            passes[own] = verdicts(scores[own], best_threshold(scores[~own], items.human[~own]))
        return passes

    def scores(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order, each by the version that does not show its document.

        Raises SearchBudgetSpentError where they cannot be paid.
        """
        scores = np.empty(len(items))
        for fold, own in self._folds(items):
            version = replace(candidate, demo_set=self._demo_sets[fold])
            scores[own] = evaluator.scores(version, items.of_rows(np.flatnonzero(own).tolist()))
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """What a search's last round brought: by how much the best candidate on train became better.

    `error` is the standard error of its gain there; `cost` is in the budget's unit. `is_final`: the
    search ended since the round gained less than the error, and not for want of money.
    """

    gain: float
    error: float
    cost: float
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What an optimizer ends with: finalists, best first.

    `tried` are the ids of all candidates scored. `n_too_dear` candidates did better than the
    untuned judge on train and cost too much to be finalists. With `cross_fit` the one finalist
    shows labels of dev as well, and versions of it are judged. `last_round` is None where rounds
    are not counted.
    """

    finalists: Sequence[Candidate]
    tried: Collection[str]
    cross_fit: CrossFit | None = None
    n_too_dear: int = 0
    last_round: LastRound | None = None


Optimizer = Callable[[SearchProblem], Exploration]
# They are imported when they are chosen, since DSPy takes half a second.
OPTIMIZERS = {
    "rank": "optimize.search.rank_search:explore",
    "gepa": "optimize.search.gepa:explore",
}


def optimizer_name(optimizer: str | Optimizer) -> str:
    """Return the name by which `find_optimizer` finds an optimizer again.

    Raises:
        SettingsError: It is a function that no module has at its top.
    """
    if isinstance(optimizer, str):
        return optimizer
    name = f"{optimizer.__module__}:{getattr(optimizer, '__qualname__', '')}"
    if find_optimizer(name) is not optimizer:
        raise SettingsError(f"optimizer {name}: give a function at the top of a module")
    return name


def find_optimizer(name: str) -> Optimizer:
    """Return the optimizer of a name, or the function that MODULE:FUNCTION names.

    Raises:
        SettingsError: There is no such optimizer.
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
