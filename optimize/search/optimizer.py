"""Optimizers: functions that take a `SearchProblem` and return an `Exploration` with finalists.

An optimizer learns from `problem.train`, within the budget of `problem.evaluator`. It is called
once for each half of the labels, and its finalists are tested on the other half.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name

import numpy as np

from dspy_judges.errors import SettingsError, option_name
from judges.prompt import Field
from optimize.search.candidates import Candidate
from optimize.search.cross_validation import CrossValidation
from optimize.search.problem import SearchProblem

MAX_FINALISTS = 3  # candidates from one half of the labels that are tested on the other half


@dataclass(frozen=True, slots=True)
class LastRound:
    """How much the last round of a search improved the best candidate, measured on train.

    `standard_error` is that of the best candidate. `is_final` is false if a limit ended the search.
    """

    gain: float
    standard_error: float = field(metadata={"json": "error"})
    cost: float
    is_final: bool

    @classmethod
    def combine(cls, last_rounds: Iterable["LastRound | None"]) -> "LastRound | None":
        """Return the mean gain, mean standard error and total cost of both halves' last rounds."""
        rounds = list(filter(None, last_rounds))
        if not rounds:
            return None
        gains_and_errors = [(each.gain, each.standard_error) for each in rounds]
        gain, standard_error = np.mean(gains_and_errors, axis=0).tolist()
        cost = float(sum(each.cost for each in rounds))
        return cls(gain, standard_error, cost, all(each.is_final for each in rounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The result of an optimizer: finalists, best first, and the ids of all scored candidates.

    `cross_validation` tests a finalist whose demonstrations are from dev as well as train.
    `questions` are the questions that the proposer wrote. `limit_reached` is true if the limit was
    too small for any proposal, or for judging dev and test with a better candidate.
    """

    finalists: Sequence[Candidate] = ()
    candidate_ids: Collection[str] = ()
    cross_validation: CrossValidation | None = None
    last_round: LastRound | None = None
    questions: Sequence[Field] = ()
    limit_reached: bool = False


Optimizer = Callable[[SearchProblem], Exploration]
# Optimizers that ask the proposer for questions. The search reserves the cost of testing these.
QUESTION_WRITERS: set[Optimizer] = set()


def writes_questions(optimizer: Optimizer) -> Optimizer:
    """Decorate an optimizer that asks the proposer for questions."""
    QUESTION_WRITERS.add(optimizer)
    return optimizer


# Optimizers are named by strings and imported on use, because the imports take half a second.
OPTIMIZERS = {"rank": "optimize.search.rank_search:explore", "gepa": "optimize.search.gepa:explore"}


def optimizer_name(optimizer: str | Optimizer) -> str:
    """Return the name by which `find_optimizer` finds the optimizer, or raise SettingsError."""
    if isinstance(optimizer, str):
        return optimizer
    module_name = getattr(optimizer, "__module__", "")
    function_name = getattr(optimizer, "__qualname__", repr(optimizer))
    if getattr(sys.modules.get(module_name), function_name, None) is not optimizer:
        raise SettingsError(
            f"optimizer {module_name}:{function_name}: define it with def at the top of a module, "
            "so that a run that continues finds it by this name"
        )
    return f"{module_name}:{function_name}"


def find_optimizer(name: str) -> Optimizer:
    """Find "rank", "gepa" or MODULE:FUNCTION; raise SettingsError for any other name."""
    try:
        optimizer: Optimizer = resolve_name(OPTIMIZERS.get(name, name))
        if callable(optimizer):
            return optimizer
        fault = f"{name} is not a function"
    except (ImportError, AttributeError, ValueError) as error:
        fault = str(error)
    names = ", ".join(OPTIMIZERS)
    raise SettingsError(
        f"{option_name('optimizer', name)}: {fault}; choose {names}, or name MODULE:FUNCTION"
    )
