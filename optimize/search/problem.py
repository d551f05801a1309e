"""What a search is given: labels, a model to score candidates with, limits, and a log of trials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from judges.client import Client
from judges.prompt import Reasoning
from optimize.figures import DIGITS, json_number
from optimize.items import Items
from optimize.search.candidates import Candidate, TextGuard
from optimize.search.choices import RISK
from optimize.search.evaluator import Evaluator
from optimize.statistics.correlations import Level

# Instructions tried before, with the rho that each reached, best first.
History = Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How wide and how long to search.

    `max_item_cost` is what an item may cost with the dearest candidate, in the budget's unit;
    `reasoning` are the forms of reasoning that may be tried beside the untuned judge's own. `risk`
    is the chance that a judge which is no better than the untuned one ships.
    """

    seed: int = 0
    rounds: int = 8
    proposals: int = 4
    # Sets of demonstrations drawn in a round, and how many demonstrations they may show.
    demo_sets: int = 2
    demo_sizes: tuple[int, ...] = (4, 8, 16)
    # Characters of demonstrated texts: every later call pays for them again.
    longest_demos: int = 40_000
    # How many candidates of a DSPy optimizer meet dev.
    finalists: int = 3
    # Rounds without a new leader before the search ends.
    patience: int = 3
    max_item_cost: float = math.inf
    reasoning: tuple[Reasoning, ...] = ()
    risk: float = RISK


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """Find instructions and demonstrations on `train` that rank `dev` as people do.

    An optimizer spends the evaluator's budget, and records every trial. `proposer` is a language
    model that writes instructions (None: only demonstrations are tried). `record_trial` takes each
    trial's fields as it is made, and `print_line` a line for the user.
    """

    evaluator: Evaluator
    proposer: Client | None = None
    train: Items
    dev: Items
    level: Level
    options: SearchOptions = SearchOptions()
    record_trial: Callable[..., object] = lambda stage, round_number, **fields: None
    print_line: Callable[[str], object] = lambda line: None

    @cached_property
    def seed(self) -> Candidate:
        """The untuned judge."""
        return Candidate(instruction=self.evaluator.seed.instruction)

    @cached_property
    def labelled(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))

    @cached_property
    def guard(self) -> TextGuard:
        return TextGuard(text for item in self.labelled.items for text in item.texts.values())

    def record(self, stage: str, round_number: int | None = None, **fields: Any) -> None:
        """Write a trial down, with the calls spent by then."""
        self.record_trial(stage, round_number, **fields, calls=self.evaluator.budget.calls)

    def record_candidate(
        self,
        stage: str,
        candidate: Candidate,
        round_number: int | None = None,
        *,
        rung: int | None = None,
        **figures: float,
    ) -> None:
        """Write down what a candidate reached; a figure that does not exist is null."""
        fields: dict[str, Any] = {} if rung is None else {"rung": rung}
        if candidate.reasoning is not None:
            fields["reasoning"] = candidate.reasoning
        self.record(
            stage,
            round_number,
            **fields,
            candidate=candidate.id,
            instruction=candidate.instruction,
            demos=list(candidate.demo_set.ids),
            how=candidate.demo_set.kind,
            **{
                name: value if isinstance(value, int) else json_number(value, DIGITS)
                for name, value in figures.items()
            },
        )
