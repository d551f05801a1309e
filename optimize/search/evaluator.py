"""What a search works with: labels, a judge of candidates, a budget in one unit, the objective.

A judgement always has a price: dollars; tokens read where no price is known; or 1 a call of a model
that costs nothing. Each item is asked for once a candidate.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from dspy_judges.errors import JudgesError
from judges.client import CHARACTERS_PER_TOKEN, Client, Price
from judges.judgement import AnyJudgement, Preference
from judges.prompt import Prompt, Reasoning
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

# After so many items a candidate's cost is what they took, and no estimate.
ITEMS_MEASURED = 12

# What a search maximises: Spearman's rho at a level, or balanced accuracy over all outputs.
Goal = Level | Literal["balanced"]
Unit = Literal["calls", "dollars", "tokens"]
FREE = Price(per_token_in=0, per_token_out=0)
# A race of candidates meets at most so many documents of train.
MAX_RACE_DOCUMENTS = 48
# Documents of the commoner label for each of the rarer: with more the error of balanced accuracy
# falls by 6 % or less.
N_COMMONER = 2


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement, and the tokens that it took, whoever paid for them."""

    judgement: AnyJudgement
    tokens_in: int = 0
    tokens_out: int = 0


def reason_of(judgement: AnyJudgement) -> str:
    """What the judge wrote before its answer."""
    reason = judgement.comparison if isinstance(judgement, Preference) else judgement.rationale
    return reason or ""


# Judges the items with the prompt, in order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[Judged]]


class SearchBudgetSpentError(JudgesError):
    """The search may not spend what it would need next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What judging an item costs: its tokens, and `per_call` for each call.

    `tokens_in` and `tokens_out` are the untuned judge's for one item, over all of its `calls` and
    `replies`.
    """

    price: Price = FREE
    per_call: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    calls: int = 1
    replies: int = 1

    @property
    def of_seed(self) -> float:
        return self.cost(self.tokens_in, self.tokens_out)

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """What judging an item costs with so many tokens."""
        return self.price.cost(tokens_in, tokens_out) + self.per_call * self.calls

    def estimate(self, prompt: Prompt, untuned: Prompt) -> float:
        """What an item costs under the prompt, by its length beside the untuned one's."""
        characters = (_static_characters(prompt) - _static_characters(untuned)) * self.calls
        tokens = (reply_tokens(prompt) - reply_tokens(untuned)) * self.replies
        extra = self.price.cost(characters / CHARACTERS_PER_TOKEN, tokens)
        return max(self.of_seed / 2, self.of_seed + extra)


def _static_characters(prompt: Prompt) -> int:
    """The characters of what a prompt says of every item: all but the texts."""
    demos = sum(len(str(value)) for demo in prompt.demos for value in demo.values())
    return len(prompt.instruction) + demos + sum(len(field.description) for field in prompt.fields)


@dataclass(slots=True)
class SearchBudget:
    """What a search may spend, in `unit`; replies of an earlier start count too.

    `set_aside` keeps so much of what the models' own budget really has left for what comes after.
    `slack` is by how much more may be spent, since what a call will cost is an estimate; `proposal`
    is what having an instruction proposed may cost, and `proposal_price` what its tokens do (None:
    it counts 1); `calls` counts the calls of both models.
    """

    limit: float
    unit: Unit = "calls"
    slack: float = 0
    proposal: float = 1
    proposal_price: Price | None = None
    set_aside: Callable[[float], None] = lambda cost: None
    spent: float = 0
    calls: int = 0

    @property
    def left(self) -> float:
        return self.limit - self.spent

    def check(self, cost: float) -> None:
        """Raise SearchBudgetSpentError where so much is not left."""
        if cost > self.left + self.slack:
            raise SearchBudgetSpentError(
                f"{cost:.4g} {self.unit} are needed and {max(0, self.left):.4g} left"
            )

    def charge_proposal(self, tokens_in: int, tokens_out: int) -> None:
        """Count a request to a proposer that was answered: it is paid, whatever was left."""
        price = self.proposal_price
        cost = 1.0 if price is None else price.cost(tokens_in, tokens_out)
        self.spent += min(max(0, self.left), cost)
        self.calls += 1
        # Some proposers think for longer than was expected of them.
        self.proposal = max(self.proposal, cost)

    @contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Keep so much for what comes after."""
        self.limit -= cost
        self.set_aside(cost)
        try:
            yield
        finally:
            self.limit += cost
            self.set_aside(0)


@dataclass(kw_only=True)
class Evaluator:
    """Where candidates meet items; `untuned` is the prompt before tuning."""

    untuned: Prompt
    judge: JudgeItems
    budget: SearchBudget
    pricing: Pricing
    _judged: dict[str, dict[str, Judged]] = field(default_factory=dict, init=False)

    def item_cost(self, candidate: Candidate) -> float:
        """What an item costs with the candidate: as measured, else by the prompt's length."""
        judged = self._judged.get(candidate.id, {}).values()
        if len(judged) >= ITEMS_MEASURED:
            return self._cost_of(judged) / len(judged)
        return self.pricing.estimate(candidate.prompt(self.untuned), self.untuned)

    def cost(self, candidate: Candidate, items: Items) -> float:
        """What scoring these items would cost; those that have been scored are free."""
        known = self._judged.get(candidate.id, {})
        n_fresh = sum(item.id not in known for item in items.items)
        return n_fresh * self.item_cost(candidate) if n_fresh else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        known = self._judged.setdefault(candidate.id, {})
        fresh = [item for item in items.items if item.id not in known]
        if fresh:
            self.budget.check(len(fresh) * self.item_cost(candidate))
            judged = self.judge(candidate.prompt(self.untuned), fresh)
            for item, one in zip(fresh, judged, strict=True):
                known[item.id] = one
                self.budget.spent += self._cost_of([one])
                self.budget.calls += self.pricing.calls
        return self.known_scores(candidate, items)

    def _cost_of(self, judged: Iterable[Judged]) -> float:
        """What these judgements have cost."""
        return sum(self.pricing.cost(one.tokens_in, one.tokens_out) for one in judged)

    def known(self, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = self._judged.get(candidate.id, {})
        return Items(tuple(item for item in items.items if item.id in known))

    def known_scores(self, candidate: Candidate, items: Items) -> Vector:
        """The scores so far, NaN where there is none; asks nothing."""
        known = self._judged.get(candidate.id, {})
        scores = {name: one.judgement.score for name, one in known.items()}
        return np.array([scores.get(item.id, math.nan) for item in items.items], float)

    def judgements(self, candidate: Candidate, items: Items) -> tuple[AnyJudgement, ...]:
        """The judgements behind the scores, in the items' order; all have been scored."""
        known = self._judged[candidate.id]
        return tuple(known[item.id].judgement for item in items.items)


def informative_documents(items: Items, goal: Goal) -> tuple[str, ...]:
    """The documents that can tell judges apart, in an order whose beginnings can, too.

    At summary level those that people do not rate alike. Of documents that all pass or all fail,
    either in turn, until the rarer have run out and twice as many of the commoner are in: balanced
    accuracy rests on the rarer. All documents where there is none, so that a search ends for
    another reason.
    """
    varied = [name for name, rows in items.places.items() if np.ptp(items.human[rows]) > 0]
    if goal == "summary":
        return tuple(varied) or items.documents
    if goal != "balanced" or varied or np.ptp(items.human) == 0:
        return items.documents
    by_label: list[list[str]] = [[], []]
    for name, rows in items.places.items():
        by_label[int(items.human[rows[0]] >= 0.5)].append(name)
    rarer, commoner = sorted(by_label, key=len)
    turns = zip_longest(rarer, commoner[: N_COMMONER * len(rarer)])
    return tuple(name for turn in turns for name in turn if name is not None)


def objective(scores: Vector, items: Items, goal: Goal) -> float:
    """The level's Spearman rho, as `optimize.summary_level` and its like; NaN where undefined.

    Balanced accuracy takes scores that are no verdicts yet at the threshold that is best for these
    very items, which is right on train alone.
    """
    if goal == "balanced":
        return balanced_accuracy(_verdicts(scores, items), items.human)
    return rho(goal, scores, items.human, items.document_ids, items.system_ids)


def contrast(scores: Vector, base: Vector, items: Items, goal: Goal) -> Contrast:
    """How much better the scores are than `base`, where both have a score (see `objective`)."""
    if goal == "balanced":
        passes, of_base = _verdicts(scores, items), _verdicts(base, items)
        return balanced_contrast(passes, of_base, items.human, items.document_ids)
    return contrast_judges(
        scores, base, items.human, items.document_ids, items.system_ids, level=goal
    )


def is_reliable(scores: Vector, base: Vector) -> bool:
    """Whether a judge fails on few of the outputs, or on no more than `base`."""
    failed, base_failed = (np.isnan(side).mean() if len(side) else 0.0 for side in (scores, base))
    return bool(failed <= max(MOST_FAILED, base_failed))


def _verdicts(scores: Vector, items: Items) -> Vector:
    return verdicts(scores, best_threshold(scores, items.human))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How wide and how long to search.

    A set of demonstrations holds at most `max_demos` and so many characters of texts: every later
    call pays for them again. `max_item_cost` is what an item may cost with the dearest candidate,
    in the budget's unit; `reasoning` are the forms that may be tried beside the untuned judge's
    own. A search has at most so many `rounds`. `risk` is the chance that a judge ships which is no
    better than the untuned one.
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
    """Find instructions and demonstrations on `train` that judge `dev` as people do.

    An optimizer spends the evaluator's budget. `proposer` is a language model that writes
    instructions (None: only demonstrations are tried). `record_trial` takes each trial's fields as
    it is made, and `print_line` a line for the user.
    """

    evaluator: Evaluator
    proposer: Client | None = None
    train: Items
    dev: Items
    goal: Goal
    options: SearchOptions = field(default_factory=SearchOptions)
    record_trial: Callable[..., object] = lambda stage, round_number, **fields: None
    print_line: Callable[[str], object] = lambda line: None

    def threshold(self, candidate: Candidate, items: Items) -> float:
        """What its scores of the items, so far as they are known, teach of where a pass begins."""
        if self.goal != "balanced":
            return candidate.threshold
        return best_threshold(self.evaluator.known_scores(candidate, items), items.human)

    @cached_property
    def untuned(self) -> Candidate:
        """The untuned judge."""
        return Candidate(instruction=self.evaluator.untuned.instruction)

    @cached_property
    def labelled(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))

    @cached_property
    def runs(self) -> set[int]:
        """The labelled texts' runs of words, which no instruction may copy."""
        texts = {text for item in self.labelled.items for text in item.texts.values()}
        return {run for text in texts for run in word_runs(text)}

    def record(self, stage: str, round_number: int | None = None, **fields: Any) -> None:
        """Write a trial down, with the calls spent by then."""
        self.record_trial(stage, round_number, **fields, calls=self.evaluator.budget.calls)

    def record_candidate(
        self, stage: str, candidate: Candidate, round_number: int | None = None, **figures: float
    ) -> None:
        """Write down what a candidate reached; a figure that does not exist is null."""
        self.record(
            stage,
            round_number,
            candidate=candidate.id,
            instruction=candidate.instruction,
            demos=list(candidate.demo_set.ids),
            how=candidate.demo_set.kind,
            reasoning=candidate.reasoning,
            **{
                name: value if isinstance(value, int) else json_number(value, DIGITS)
                for name, value in figures.items()
            },
        )
