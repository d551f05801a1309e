"""`SearchProblem`, which an optimizer solves, and its parts: evaluator, budget and objective.

Costs are in dollars, or tokens if the price of the model is unknown, or calls if the model is free.
The evaluator keeps all judgements, so a candidate never judges the same item twice.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
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
from optimize.items import Item, Items
from optimize.search.candidates import Candidate, word_runs
from optimize.statistics.balanced import (
    balanced_accuracy,
    balanced_contrast,
    best_threshold,
    verdicts,
)
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level, rho
from optimize.statistics.intervals import Contrast, Vector

# After this many items, a candidate's cost per item is their mean cost, and no estimate.
ITEMS_MEASURED = 12

# The metric that a search maximises: Spearman's rho at one of the three levels ("summary",
# "dataset" or "system"), or balanced accuracy over all outputs.
Goal = Level | Literal["balanced"]
Unit = Literal["calls", "dollars", "tokens"]
# At most so many documents with the commoner label are judged for each with the rarer label. More
# would lower the standard error of balanced accuracy by 6 % at most.
COMMONER_PER_RARER = 2


@dataclass(frozen=True, slots=True)
class ItemJudgement:
    """The judgement of an item, and the tokens of its requests and replies, even if cached."""

    judgement: AnyJudgement
    tokens_in: int = 0
    tokens_out: int = 0


def reason_of(judgement: AnyJudgement) -> str:
    """The reason that the judge wrote before its answer; "" if the judge wrote no reason."""
    reason = judgement.comparison if isinstance(judgement, Preference) else judgement.rationale
    return reason or ""


# A function that judges items with a prompt and returns the judgements in the items' order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemJudgement]]


class SearchBudgetSpentError(JudgesError):
    """Raised if the next step of the search costs more than is left of the search's budget."""


# The errors that end a search: the budget of the search, or the budget of the models, is spent.
BUDGET_ERRORS = SearchBudgetSpentError, BudgetSpentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The cost of judging one item, in the budget's unit.

    One item takes `calls` calls with `replies` replies, as a call may return several. The untuned
    judge takes `tokens_in` and `tokens_out` for them together. A call costs `per_call` in addition
    to its tokens.
    """

    price: Price = FREE
    per_call: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    calls: int = 1
    replies: int = 1

    @property
    def untuned_cost(self) -> float:
        return self.cost(self.tokens_in, self.tokens_out)

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """The cost of judging one item with this many input and output tokens."""
        return self.price.cost(tokens_in, tokens_out) + self.per_call * self.calls

    def estimate(self, prompt: Prompt, untuned: Prompt) -> float:
        """Estimate the cost of judging one item, from how much longer the prompt is than `untuned`.

        It is at least half the untuned judge's cost.
        """
        extra_characters = (_static_characters(prompt) - _static_characters(untuned)) * self.calls
        extra_tokens = (reply_tokens(prompt) - reply_tokens(untuned)) * self.replies
        extra_cost = self.price.cost(extra_characters / CHARACTERS_PER_TOKEN, extra_tokens)
        return max(self.untuned_cost / 2, self.untuned_cost + extra_cost)


def _static_characters(prompt: Prompt) -> int:
    """The number of characters in the part of a prompt that is the same for every item."""
    demo_values = chain.from_iterable(demo.values() for demo in prompt.demos)
    n_demo_characters = sum(map(len, map(str, demo_values)))
    descriptions = "".join(field.description for field in prompt.fields)
    return len(prompt.instruction) + n_demo_characters + len(descriptions)


@dataclass(slots=True)
class SearchBudget:
    """The budget of a search: its limit, and the cost so far, with what earlier starts paid for.

    Attributes:
        limit: The upper bound on the cost, minus the amount that is reserved.
        slack: By how much a step may exceed the limit, because its cost is only an estimate.
        proposal: The expected cost of asking the proposer for one instruction.
        proposal_price: The price of the proposer's tokens; None if each request costs 1.
        set_aside: Reserves the amount `reserved` in the budget of the models, too.
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
            needed, left = map(self._amount_text, (cost, max(0, self.remaining)))
            raise SearchBudgetSpentError(
                f"the next step of the search costs {needed}, but only {left} are left"
            )

    def _amount_text(self, cost: float) -> str:
        return f"${cost:.4f}" if self.unit == "dollars" else f"{cost:,.0f} {self.unit}"

    def charge_proposal(self, tokens_in: int, tokens_out: int) -> None:
        """Add the cost of an answered request to the proposer, but at most what remains."""
        price = self.proposal_price
        cost = 1.0 if price is None else price.cost(tokens_in, tokens_out)
        self.total_cost += min(max(0, self.remaining), cost)
        self.calls += 1
        # Some models write more hidden reasoning than estimated.
        self.proposal = max(self.proposal, cost)

    @contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Lower the limit by `cost` inside a `with` block, to keep the amount for later steps."""
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
    """Judges items with candidates, charges the budget, and keeps the judgements."""

    untuned: Prompt
    judge: JudgeItems
    budget: SearchBudget
    pricing: Pricing
    _judgements: defaultdict[str, dict[str, ItemJudgement]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def item_cost(self, candidate: Candidate) -> float:
        """The cost of judging one item with the candidate: measured if possible, else estimated."""
        judgements = self._judgements[candidate.id].values()
        if len(judgements) >= ITEMS_MEASURED:
            return sum(map(self._cost_of, judgements)) / len(judgements)
        return self.pricing.estimate(candidate.prompt(self.untuned), self.untuned)

    def cost(self, candidate: Candidate, items: Items) -> float:
        """The cost of scoring these items. Items that the candidate has scored cost nothing."""
        n_unscored = len(items) - len(self.scored_items(candidate, items))
        return n_unscored * self.item_cost(candidate) if n_unscored else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """The scores of the candidate's judgements; NaN if the judge failed."""
        return np.array([judgement.score for judgement in self.judgements(candidate, items)], float)

    def _cost_of(self, judgement: ItemJudgement) -> float:
        return self.pricing.cost(judgement.tokens_in, judgement.tokens_out)

    def scored_items(self, candidate: Candidate, items: Items) -> Items:
        """Select the items that the candidate has already been scored on."""
        judgements = self._judgements[candidate.id]
        return Items(tuple(item for item in items.items if item.id in judgements))

    def scores_so_far(self, candidate: Candidate, items: Items) -> Vector:
        """The scores that are known without a new call; NaN if an item has no score yet."""
        scored = self.scored_items(candidate, items)
        ids = [item.id for item in scored.items]
        scores = dict(zip(ids, self.scores(candidate, scored).tolist(), strict=True))
        return np.array([scores.get(item.id, math.nan) for item in items.items], float)

    def judgements(self, candidate: Candidate, items: Items) -> tuple[AnyJudgement, ...]:
        """Judge the items with the candidate, and apply the candidate's answer weights.

        Items that the candidate has judged are not judged again. Raises SearchBudgetSpentError if
        judging costs more than is left of the budget.
        """
        item_judgements = self._judgements[candidate.id]
        unjudged = [item for item in items.items if item.id not in item_judgements]
        if unjudged:
            self.budget.check(len(unjudged) * self.item_cost(candidate))
            new_judgements = self.judge(candidate.prompt(self.untuned), unjudged)
            for item, judgement in zip(unjudged, new_judgements, strict=True):
                item_judgements[item.id] = judgement
                self.budget.total_cost += self._cost_of(judgement)
                self.budget.calls += self.pricing.calls
        judgements = tuple(item_judgements[item.id].judgement for item in items.items)
        if candidate.weights is None:
            return judgements
        choices = candidate.prompt(self.untuned).choices
        return tuple(judgement.rescored(choices, candidate.weights) for judgement in judgements)


def informative_documents(items: Items, goal: Goal) -> tuple[str, ...]:
    """The ids of the documents that can tell judges apart, sorted so that the first few can, too.

    At summary level, these are the documents whose outputs have different labels. For balanced
    accuracy, if every document has only one label, the labels alternate, and at most twice as many
    documents have the commoner label, because the rarer label limits the precision. In all other
    cases, and if no document can tell judges apart, all documents are returned.
    """
    varied_documents = [
        name for name, rows in items.document_rows.items() if np.ptp(items.human[rows]) > 0
    ]
    informative: Iterable[str] = varied_documents if goal == "summary" else ()
    if goal == "balanced" and not varied_documents:
        by_label: list[list[str]] = [[], []]
        for name, rows in items.document_rows.items():
            by_label[int(items.human[rows[0]] >= 0.5)].append(name)
        rarer, commoner = sorted(by_label, key=len)
        alternating = zip_longest(rarer, commoner[: COMMONER_PER_RARER * len(rarer)])
        informative = filter(None, chain.from_iterable(alternating))
    return tuple(informative) or items.documents


def first_documents(
    items: Items, goal: Goal, limit: float, cost: Callable[[Items], float]
) -> Items:
    """The items of as many documents as cost at most `limit`, informative documents first."""
    names = list(dict.fromkeys((*informative_documents(items, goal), *items.documents)))
    costs = np.cumsum([cost(items.of_documents([name])) for name in names])
    return items.of_documents(names[: int((costs <= limit).sum())])


def objective(scores: Vector, items: Items, goal: Goal) -> float:
    """Spearman's rho at the goal's level, or balanced accuracy; NaN if the metric is undefined.

    Scores other than 0 and 1 become verdicts by the threshold that is best on these same items,
    which is biased upwards, so use it on train only.
    """
    if goal == "balanced":
        return balanced_accuracy(_verdicts(scores, items), items.human)
    return rho(goal, scores, items.human, items.document_ids, items.system_ids)


def contrast(scores: Vector, base: Vector, items: Items, goal: Goal) -> Contrast:
    """The objective of `scores` minus the objective of `base`, on items without NaN in either."""
    if goal == "balanced":
        both_verdicts = _verdicts(scores, items), _verdicts(base, items)
        return balanced_contrast(*both_verdicts, items.human, items.document_ids)
    return contrast_judges(
        scores, base, items.human, items.document_ids, items.system_ids, level=goal
    )


def is_reliable(scores: Vector, base: Vector) -> bool:
    """Whether a judge fails (NaN) on few outputs, or on no more than the judge of `base`."""
    n_failed, n_base_failed = np.isnan([scores, base]).sum(axis=1)
    return bool(n_failed <= max(MOST_FAILED * len(scores), n_base_failed))


def _verdicts(scores: Vector, items: Items) -> Vector:
    return verdicts(scores, best_threshold(scores, items.human))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of a search, most of which are upper bounds.

    The proposer is asked for `proposals` instructions in a round. All demonstrations in a prompt
    have at most `longest_demos` characters. `reasoning` has the forms of reasoning to try besides
    the untuned judge's. A judge ships with the probability `risk` although it is no better.
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

    The optimizer learns from `train`, and its finalists are tested on `dev`; `test_reserve` is how
    much the budget reserves for that test. `proposer` is the language model that writes
    instructions. Candidates may ask the `questions`, of which the most promising come first;
    without `new_questions`, only those of the untuned judge.
    """

    evaluator: Evaluator
    proposer: Client | None = None
    questions: tuple[Field, ...] = ()
    new_questions: bool = True
    train: Items
    dev: Items
    goal: Goal
    options: SearchOptions = field(default_factory=SearchOptions)
    test_reserve: float = 0
    record_trial: Callable[..., object] = lambda stage, round_number, **fields: None
    print_line: Callable[[str], object] = lambda line: None

    def threshold(self, candidate: Candidate, items: Items) -> float:
        """For balanced accuracy, the best threshold for the candidate's scores so far."""
        if self.goal != "balanced":
            return candidate.threshold
        return best_threshold(self.evaluator.scores_so_far(candidate, items), items.human)

    def decided(self, scores: Vector, threshold: float) -> Vector:
        """The verdicts with this threshold if the goal is balanced accuracy; else the scores."""
        return verdicts(scores, threshold) if self.goal == "balanced" else scores

    @cached_property
    def untuned(self) -> Candidate:
        return Candidate(instruction=self.evaluator.untuned.instruction)

    @cached_property
    def labelled(self) -> Items:
        return Items((*self.train.items, *self.dev.items))

    @cached_property
    def text_hashes(self) -> set[int]:
        """The hashes of all word runs in the labelled texts, which no instruction may copy."""
        texts = {text for item in self.labelled.items for text in item.texts.values()}
        return {run for text in texts for run in word_runs(text)}

    def record(self, stage: str, round_number: int | None = None, **fields: object) -> None:
        """Record a trial, with the number of calls so far."""
        self.record_trial(stage, round_number, **fields, calls=self.evaluator.budget.calls)

    def record_candidate(
        self, stage: str, candidate: Candidate, round_number: int | None = None, **figures: float
    ) -> None:
        """Record a candidate with its metrics. NaN and infinity are recorded as null."""
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
