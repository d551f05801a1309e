"""A small world for the search: its best instruction and best demonstrations are known."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from behaving_model import Model

from judges.client.budget import Account, Budget
from judges.client.client import Client
from judges.judgement import Judgement
from judges.prompt import Prompt
from judges.protocol import Sampling
from optimize.items import Item, Items
from optimize.search.budget import Pricing, SearchBudget
from optimize.search.evaluator import Evaluator, ItemJudgement, JudgeItems
from optimize.search.optimizer import find_optimizer
from optimize.search.problem import Goal, SearchOptions, SearchProblem
from optimize.search.two_fold_search import SearchResult, two_fold_search
from optimize.statistics.intervals import random_generator
from optimize.testing import QUALITIES, WARMTH, rate_by_qualities, simulated_items

SEED = WARMTH.prompt()
judge = partial(rate_by_qualities, error_sd=0.4)


def world(documents: int, systems: int = 8, *, first: int = 0, seed: int = 0) -> Items:
    """Texts with six qualities, of which people value kindness and candour."""
    return simulated_items(documents, first, systems, seed)


def rate(items: Items, ratings: np.ndarray) -> Items:
    """The items with these ratings."""
    rated = zip(items, np.asarray(ratings, float).tolist(), strict=True)
    return Items(tuple(replace(item, human=rating) for item, rating in rated))


def shuffle(items: Items, seed: int) -> Items:
    """The same items, people's ratings permuted within each document."""
    rng = np.random.default_rng(seed)
    human = items.human.copy()
    for rows in items.rows_by_document.values():
        human[rows] = human[rng.permutation(rows)]
    return rate(items, human)


@dataclass(slots=True)
class Watch:
    """A judge that records each prompt and item that it is asked for.

    Its judgement fails where `fails` says so. After `stops_after` items it raises the exception
    of Ctrl-C. `by` makes the other judgements, by default `judge`.
    """

    fails: Callable[[Prompt, Item], bool] = lambda prompt, item: False
    stops_after: int | None = None
    by: JudgeItems = judge
    requests: list[tuple[Prompt, Item]] = field(default_factory=list)

    def __call__(self, prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
        self.requests += [(prompt, item) for item in items]
        if self.stops_after is not None and len(self.requests) > self.stops_after:
            raise KeyboardInterrupt
        failure = ItemJudgement(Judgement.failed("it cannot say"))
        return [
            failure if self.fails(prompt, item) else one
            for item, one in zip(items, self.by(prompt, items), strict=True)
        ]


def write_instruction(prompt: str, sampling: Sampling, before: int) -> str:
    """Names any two of three qualities, in our form or as JSON for DSPy's GEPA."""
    first, second = random_generator(1, sampling.seed, prompt).choice(
        QUALITIES[::2], 2, replace=False
    )
    text = f"Rate the {first} and the {second} of the text."
    if "Respond with a JSON object" in prompt:
        return json.dumps({"new_instruction": text})
    return f"[[ ## instruction ## ]]\n{text}"


class Search(NamedTuple):
    """What a search ends with, its trials, and where candidates met items."""

    result: SearchResult
    trials: list[dict[str, Any]]
    evaluator: Evaluator

    @property
    def budget(self) -> SearchBudget:
        return self.evaluator.budget

    def of_stage(self, stage: str) -> list[dict[str, Any]]:
        return [trial for trial in self.trials if trial["stage"] == stage]


def problem_of(
    train: Items,
    dev: Items,
    *,
    calls: float = 20_000,
    options: SearchOptions | None = None,
    by: JudgeItems = judge,
    goal: Goal = "summary",
    pricing: Pricing | None = None,
    proposer: Model | None = None,
    account: Account | None = None,
    trials: list[dict[str, Any]] | None = None,
    lines: list[str] | None = None,
) -> SearchProblem:
    """What a search is given; its trials and lines go to the lists."""
    records = [] if trials is None else trials
    budget = SearchBudget(calls, pricing or Pricing())
    return SearchProblem(
        evaluator=Evaluator(untuned_prompt=SEED, judge_items=by, budget=budget),
        proposer=proposer and Client(proposer, account=account or Budget().account()),
        train=train,
        dev=dev,
        goal=goal,
        options=options or SearchOptions(),
        add_record=lambda stage, number, **fields: records.append(
            {"stage": stage, "round": number, **fields}
        ),
        print_line=([] if lines is None else lines).append,
    )


def search(train: Items, dev: Items, *, optimizer: str = "rank", **settings: Any) -> Search:
    """A search of the optimizer; without a proposer only labels are shown."""
    trials: list[dict[str, Any]] = []
    problem = problem_of(train, dev, trials=trials, **settings)
    return Search(two_fold_search(find_optimizer(optimizer), problem), trials, problem.evaluator)


def written_search(train: Items, dev: Items, **settings: Any) -> Search:
    """A search whose instructions `write_instruction` writes."""
    return search(train, dev, proposer=Model(write_instruction), **settings)
