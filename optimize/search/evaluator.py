"""The parts of a search problem: labels, an evaluator of candidates, a budget and an objective.

Each judgement has a cost in the budget's unit: dollars, tokens if the model's price is unknown, or
calls if the model is free. The evaluator judges each item only once with the same candidate.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Literal

import numpy as np

from dspy_judges.errors import JudgesError
from judges.client import CHARACTERS_PER_TOKEN, BudgetSpentError, Client, Price
from judges.client.prices import FREE
from judges.judgement import AnyJudgement, Preference
from judges.prompt import Field, Prompt, Reasoning
from judges.scoring import reply_tokens
from optimize.figures.as_json import DIGITS, json_number
from optimize.inputs.flags import MOST_FAILED, RISK
from optimize.items import Item, Items, Vector
from optimize.search.candidates import Candidate, word_runs
from optimize.statistics.balanced import (
    balanced_accuracy,
    balanced_contrast,
    best_threshold,
    verdicts,
)
from optimize.statistics.correlations import Level, contrast_judges, rho
from optimize.statistics.intervals import Contrast

# From this many items on, a candidate's cost is measured instead of estimated.
ITEMS_MEASURED = 12

# What a search maximises: Spearman's rho at a level, or balanced accuracy over all outputs.
Goal = Level | Literal["balanced"]
Unit = Literal["calls", "dollars", "tokens"]
# Upper bound on the documents of train in a race of candidates.
MAX_RACE_DOCUMENTS = 48
# How many documents with the commoner label are judged for each one with the rarer label. More of
# them would lower the error of balanced accuracy by 6 % at most.
COMMONER_PER_RARER = 2


@dataclass(frozen=True, slots=True)
class ItemJudgement:
    """An item's judgement and the tokens that it took, also if the reply was kept from earlier."""

    judgement: AnyJudgement
    tokens_in: int = 0
    tokens_out: int = 0


def reason_of(judgement: AnyJudgement) -> str:
    """The reason that the judge wrote before its answer; "" if it wrote none."""
    reason = judgement.comparison if isinstance(judgement, Preference) else judgement.rationale
    return reason or ""


# A function that judges items with a prompt, in order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemJudgement]]


class SearchBudgetSpentError(JudgesError):
    """The next step of the search costs more than is left of its budget."""


# The errors that end a search: its own budget or the budget of the models is spent.
BUDGET_ERRORS = SearchBudgetSpentError, BudgetSpentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The cost of judging one item, in the budget's unit.

    Attributes:
        price: The price of tokens.
        per_call: The cost of each call, in addition to its tokens.
        tokens_in: Input tokens of the untuned judge for one item, over all calls.
        tokens_out: Output tokens of the untuned judge for one item, over all replies.
        calls: The calls for one item.
        replies: The replies for one item.
    """

    price: Price = FREE
    per_call: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    calls: int = 1
    replies: int = 1

    @property
    def untuned_cost(self) -> float:
        """The cost of judging one item with the untuned judge."""
        return self.cost(self.tokens_in, self.tokens_out)

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """The cost of judging one item with this many tokens."""
        return self.price.cost(tokens_in, tokens_out) + self.per_call * self.calls

    def estimate(self, prompt: Prompt, untuned: Prompt) -> float:
        """Estimate the cost of judging one item with a prompt from its length.

        The estimate is the untuned judge's cost, adjusted for the difference in length between
        the prompt and the `untuned` prompt.
        """
        characters = (_static_characters(prompt) - _static_characters(untuned)) * self.calls
        tokens = (reply_tokens(prompt) - reply_tokens(untuned)) * self.replies
        extra = self.price.cost(characters / CHARACTERS_PER_TOKEN, tokens)
        return max(self.untuned_cost / 2, self.untuned_cost + extra)


def _static_characters(prompt: Prompt) -> int:
    """The number of characters of a prompt that are the same for every item."""
    demos = sum(len(str(value)) for demo in prompt.demos for value in demo.values())
    return len(prompt.instruction) + demos + sum(len(field.description) for field in prompt.fields)


@dataclass(slots=True)
class SearchBudget:
    """What a search may spend and has spent. Replies kept from an earlier start count as well.

    Attributes:
        limit: What the search may spend, less what is reserved.
        unit: The unit of all costs.
        slack: How far a step may exceed the limit, because costs are only estimated.
        proposal: The expected cost of a request for an instruction.
        proposal_price: The price of the proposer's tokens; None if each request counts 1.
        set_aside: Reserves an amount in the models' own budget too; called with `reserved`.
        reserved: What is reserved for later steps.
        total_cost: What has been spent so far.
        calls: The calls to both models so far.
    """

    limit: float
    unit: Unit = "calls"
    slack: float = 0
    proposal: float = 1
    proposal_price: Price | None = None
    set_aside: Callable[[float], None] = lambda cost: None
    reserved: float = 0
    total_cost: float = 0
    calls: int = 0

    @property
    def remaining(self) -> float:
        return self.limit - self.total_cost

    def check(self, cost: float) -> None:
        """Raise SearchBudgetSpentError if the cost exceeds what remains."""
        if cost > self.remaining + self.slack:
            raise SearchBudgetSpentError(
                f"the next step takes {cost:.4g} {self.unit}, and {max(0, self.remaining):.4g} "
                "are left"
            )

    def charge_proposal(self, tokens_in: int, tokens_out: int) -> None:
        """Charge an answered request for an instruction, at most what remains."""
        price = self.proposal_price
        cost = 1.0 if price is None else price.cost(tokens_in, tokens_out)
        self.total_cost += min(max(0, self.remaining), cost)
        self.calls += 1
        # Some proposers write more hidden reasoning than was estimated.
        self.proposal = max(self.proposal, cost)

    @contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Reserve this cost for later steps: the limit is lower inside the block."""
        self._reserve(cost)
        try:
            yield
        finally:
            self._reserve(-cost)

    def _reserve(self, cost: float) -> None:
        self.limit -= cost
        self.reserved += cost
        self.set_aside(self.reserved)


@dataclass(kw_only=True)
class Evaluator:
    """Judges items with candidates, charges the budget, and keeps the judgements.

    `untuned` is the prompt that candidates change.
    """

    untuned: Prompt
    judge: JudgeItems
    budget: SearchBudget
    pricing: Pricing
    _judgements: defaultdict[str, dict[str, ItemJudgement]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def item_cost(self, candidate: Candidate) -> float:
        """The cost of judging one item with the candidate: measured, else estimated."""
        judgements = self._judgements[candidate.id].values()
        if len(judgements) >= ITEMS_MEASURED:
            return sum(map(self._cost_of, judgements)) / len(judgements)
        return self.pricing.estimate(candidate.prompt(self.untuned), self.untuned)

    def cost(self, candidate: Candidate, items: Items) -> float:
        """The cost of scoring these items; items that have been scored cost nothing."""
        n_fresh = len(items) - len(self.scored_items(candidate, items))
        return n_fresh * self.item_cost(candidate) if n_fresh else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Score the items with the candidate, in their order; NaN if the judge failed.

        Raises SearchBudgetSpentError if this costs more than is left of the budget.
        """
        judgements = self._judgements[candidate.id]
        fresh = [item for item in items.items if item.id not in judgements]
        if fresh:
            self.budget.check(len(fresh) * self.item_cost(candidate))
            replies = self.judge(candidate.prompt(self.untuned), fresh)
            for item, judged in zip(fresh, replies, strict=True):
                judgements[item.id] = judged
                self.budget.total_cost += self._cost_of(judged)
                self.budget.calls += self.pricing.calls
        return self.scores_so_far(candidate, items)

    def _cost_of(self, judged: ItemJudgement) -> float:
        return self.pricing.cost(judged.tokens_in, judged.tokens_out)

    def scored_items(self, candidate: Candidate, items: Items) -> Items:
        """The items that the candidate has already been scored on."""
        earlier = self._judgements[candidate.id]
        return Items(tuple(item for item in items.items if item.id in earlier))

    def scores_so_far(self, candidate: Candidate, items: Items) -> Vector:
        """The scores so far, in the items' order, without a call; NaN if there is none yet."""
        scored = self.scored_items(candidate, items)
        pairs = zip(scored.items, self.judgements(candidate, scored), strict=True)
        scores = {item.id: judgement.score for item, judgement in pairs}
        return np.array([scores.get(item.id, math.nan) for item in items.items], float)

    def judgements(self, candidate: Candidate, items: Items) -> tuple[AnyJudgement, ...]:
        """The judgements, scored by the candidate's weights; all items must have been scored."""
        earlier = self._judgements[candidate.id]
        judgements = tuple(earlier[item.id].judgement for item in items.items)
        if candidate.weights is None:
            return judgements
        choices = candidate.prompt(self.untuned).choices
        return tuple(each.rescored(choices, candidate.weights) for each in judgements)


def informative_documents(items: Items, goal: Goal) -> tuple[str, ...]:
    """The documents that can tell judges apart, in an order in which the first few can do so too.

    At summary level these are the documents whose outputs have different labels. For balanced
    accuracy, if each document has only one label, documents with either label alternate. At most
    twice as many have the commoner label, because the rarer one limits what balanced accuracy can
    tell. If no document can tell judges apart, all are returned.
    """
    varied = [name for name, rows in items.document_rows.items() if np.ptp(items.human[rows]) > 0]
    if goal == "summary":
        return tuple(varied) or items.documents
    if goal != "balanced" or varied or np.ptp(items.human) == 0:
        return items.documents
    by_label: list[list[str]] = [[], []]
    for name, rows in items.document_rows.items():
        by_label[int(items.human[rows[0]] >= 0.5)].append(name)
    rarer, commoner = sorted(by_label, key=len)
    turns = zip_longest(rarer, commoner[: COMMONER_PER_RARER * len(rarer)])
    return tuple(name for turn in turns for name in turn if name is not None)


def first_documents(
    items: Items, goal: Goal, limit: float, cost: Callable[[Items], float]
) -> Items:
    """The items of as many documents as the limit pays for; informative documents come first."""
    chosen: list[str] = []
    for document in dict.fromkeys((*informative_documents(items, goal), *items.documents)):
        limit -= cost(items.of_documents([document]))
        if limit < 0:
            break
        chosen.append(document)
    return items.of_documents(chosen)


def objective(scores: Vector, items: Items, goal: Goal) -> float:
    """Spearman's rho at the goal's level, or balanced accuracy; NaN if it is undefined.

    For balanced accuracy, scores other than 0 and 1 become verdicts at the threshold that is best
    for these items. This flatters the judge, so use it on train only.
    """
    if goal == "balanced":
        return balanced_accuracy(_verdicts(scores, items), items.human)
    return rho(goal, scores, items.human, items.document_ids, items.system_ids)


def contrast(scores: Vector, base: Vector, items: Items, goal: Goal) -> Contrast:
    """The objective of `scores` minus the objective of `base`, on the items that both score."""
    if goal == "balanced":
        sides = _verdicts(scores, items), _verdicts(base, items)
        return balanced_contrast(*sides, items.human, items.document_ids)
    return contrast_judges(
        scores, base, items.human, items.document_ids, items.system_ids, level=goal
    )


def is_reliable(scores: Vector, base: Vector) -> bool:
    """Whether a judge fails on few of the outputs, or on at most as many as the judge `base`."""
    share, base_share = (
        np.isnan(vector).mean() if len(vector) else 0.0 for vector in (scores, base)
    )
    return bool(share <= max(MOST_FAILED, base_share))


def _verdicts(scores: Vector, items: Items) -> Vector:
    return verdicts(scores, best_threshold(scores, items.human))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of a search, most of which are upper bounds.

    Attributes:
        seed: The seed of every random draw.
        rounds: Upper bound on the rounds of the rank search.
        proposals: How many instructions a round asks for.
        max_demos: Upper bound on the demonstrations in a prompt.
        longest_demos: Upper bound on their characters, since every later call pays for them.
        max_item_cost: Upper bound on the cost of judging one item, in the budget's unit.
        reasoning: Forms of reasoning to try in addition to the untuned judge's own.
        risk: The chance that a judge ships although it is no better than the untuned one.
    """

    seed: int = 0
    rounds: int = 8
    proposals: int = 4
    max_demos: int = 16
    longest_demos: int = 40_000
    max_item_cost: float = math.inf
    reasoning: tuple[Reasoning, ...] = ()
    risk: float = RISK


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """The task of an optimizer: find a prompt that judges outputs as people do.

    Attributes:
        evaluator: Judges items with candidates, within its budget.
        proposer: The language model that writes instructions; None if there is none.
        questions: Questions that candidates may ask; those most likely to help come first.
        new_questions: Whether candidates may ask questions that the untuned judge does not ask.
        train: The labelled items to learn from.
        dev: The labelled items on which the finalists are tested.
        goal: What to maximise.
        options: Bounds of the search.
        record_trial: Called with the fields of each trial.
        print_line: Called with each line for the user.
    """

    evaluator: Evaluator
    proposer: Client | None = None
    questions: tuple[Field, ...] = ()
    new_questions: bool = True
    train: Items
    dev: Items
    goal: Goal
    options: SearchOptions = field(default_factory=SearchOptions)
    record_trial: Callable[..., object] = lambda stage, round_number, **fields: None
    print_line: Callable[[str], object] = lambda line: None

    def threshold(self, candidate: Candidate, items: Items) -> float:
        """The best threshold for the candidate's scores so far on these items.

        If the goal is not balanced accuracy, it is the candidate's own threshold.
        """
        if self.goal != "balanced":
            return candidate.threshold
        return best_threshold(self.evaluator.scores_so_far(candidate, items), items.human)

    @cached_property
    def untuned(self) -> Candidate:
        """The untuned judge as a candidate."""
        return Candidate(instruction=self.evaluator.untuned.instruction)

    @cached_property
    def labelled(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))

    @cached_property
    def text_hashes(self) -> set[int]:
        """Hashes of the word runs in all labelled texts; no instruction may copy one."""
        texts = {text for item in self.labelled.items for text in item.texts.values()}
        return {run for text in texts for run in word_runs(text)}

    def record(self, stage: str, round_number: int | None = None, **fields: object) -> None:
        """Record a trial with the number of calls so far."""
        self.record_trial(stage, round_number, **fields, calls=self.evaluator.budget.calls)

    def record_candidate(
        self, stage: str, candidate: Candidate, round_number: int | None = None, **figures: float
    ) -> None:
        """Record a candidate with its figures; NaN and infinity are recorded as null."""
        self.record(
            stage,
            round_number,
            candidate=candidate.id,
            instruction=candidate.instruction,
            demos=list(candidate.demo_set.ids),
            how=candidate.demo_set.kind,
            reasoning=candidate.reasoning,
            questions=[field.name for field in candidate.questions or ()],
            **{
                name: value if isinstance(value, int) else json_number(value, DIGITS)
                for name, value in figures.items()
            },
        )
