"""Plan what a tuning run spends: the cost of a judgement times the number of judgements.

The cost of the final measurement is reserved first, and the search may spend what remains. The plan
is made before a run, and again at its start, after the cost of a judgement was measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dspy_judges.errors import SettingsError, option_name
from judges.client import CHARACTERS_PER_TOKEN, Spending
from judges.prompt import MAX_DEMOS
from judges.protocol import is_embedded
from optimize.measuring.injection import ATTACKS, N_PROBED_OUTPUTS
from optimize.search.budget import Pricing, SearchBudget
from optimize.search.optimizer import MAX_FINALISTS, OPTIMIZERS
from optimize.search.problem import SearchOptions
from optimize.search.questions import MAX_OUTPUTS_ASKED, QUESTION_TEST_COST, QUESTION_TEST_SHARE
from optimize.search.race import MAX_RACE_DOCUMENTS
from optimize.search.rank_search import (
    FINALIST_COST,
    FIRST_ROUND_COST,
    MAX_DEV_SHARE,
    UNTUNED_BUDGET_SHARE,
)
from optimize.tuning.models import PROBES, PROPOSALS, SEARCH, TEST, total_spending
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.pricing import PromptAndReplyTokens, plan_pricing, proposal_tokens

# The default limit of a run with a free model, in calls: FREE_CALLS, or FREE_CALLS_PER_OUTPUT times
# the number of labelled outputs if that is larger.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
# The default limit of a run with a paid model lets the search judge train this many times at the
# untuned judge's cost; outputs of train beyond MAX_RACE_OUTPUTS are not counted.
DEFAULT_RACES, MAX_RACE_OUTPUTS = 24, 300
# The usual work of a search: how often each output of train is judged to compare candidates, the
# cost of such a judgement divided by the untuned judge's, and the number of proposals.
USUAL_RACES, USUAL_PRICE_RATIO, USUAL_PROPOSALS = 25, 2.0, 20
# The assumed duration of a call and of a proposal in seconds, and the largest average number of
# calls in flight.
CALL_SECONDS, PROPOSAL_SECONDS, MAX_IN_FLIGHT = 1.5, 30, 24
# Upper bounds on the number of demonstrations and on their characters in total, for the embedded
# model and for all other models. The embedded model has only the bounds of a frozen judge.
MAX_FREE_DEMOS, MAX_FREE_DEMO_CHARACTERS = MAX_DEMOS, 3_000_000
MAX_PAID_DEMOS, MAX_PAID_DEMO_CHARACTERS = 64, 120_000
# The smallest useful limit pays for judging dev and test with this many finalists, for judging
# train this many times, and for this many proposals.
MIN_FINALISTS, MIN_RACES, MIN_PROPOSALS = 1.5, 3, 4
# The share of --max-calls that is kept for repeating calls whose replies could not be read, and the
# share of --max-cost that is kept for prompts that are longer than estimated.
SPARE_CALLS_SHARE, SPARE_COST_SHARE = 0.05, 0.06
# A step of the search may exceed its estimated cost by this share of the limit.
SLACK_SHARE = 0.02
# A candidate has so few demonstrations that judging dev and test with it costs at most this share
# of the limit. If fewer than MIN_DEMOS fit, prompts get none. A candidate may always cost
# MAX_CANDIDATE_RATIO times as much as the untuned judge, so that it can write its reasoning.
MAX_CANDIDATE_SHARE, MIN_DEMOS, MAX_CANDIDATE_RATIO = 0.2, 4, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may spend, and what it is expected to spend, in the unit of `pricing`.

    The whole run may spend `limit`. `reserved_cost` and `reserved_calls` are kept for the final
    measurement. `expected_by_purpose` has the expected spending for each purpose.
    """

    run: PreparedRun
    search_budget: SearchBudget
    search_options: SearchOptions
    limit: float
    reserved_cost: float
    reserved_calls: int
    expected_by_purpose: Sequence[Spending]

    @property
    def pricing(self) -> Pricing:
        return self.search_budget.pricing

    @property
    def expected_total(self) -> Spending | None:
        """The expected spending; None for a user's optimizer, whose calls cannot be planned."""
        can_be_planned = self.run.settings.optimizer in OPTIMIZERS
        return total_spending(self.expected_by_purpose, "expected") if can_be_planned else None

    @property
    def expected_minutes(self) -> float:
        """The expected duration of the run in minutes."""
        calls_by_purpose = {row.purpose: row.calls for row in self.expected_by_purpose}
        n_proposals = calls_by_purpose.pop(PROPOSALS, 0)
        judge_seconds = sum(calls_by_purpose.values()) / self.calls_in_flight * CALL_SECONDS
        proposal_seconds = n_proposals / self.search_options.n_proposals * PROPOSAL_SECONDS
        return (judge_seconds + proposal_seconds) / 60

    @property
    def calls_in_flight(self) -> int:
        """The expected average number of calls in flight."""
        return min(self.run.settings.concurrency, MAX_IN_FLIGHT)

    @property
    def limit_in_dollars(self) -> float | None:
        """The user's limit in dollars, else the planned limit; None if costs are not in dollars."""
        if self.pricing.budget_unit != "dollars":
            return None
        return self.run.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """Return the calls and dollars to set aside: for the final measurement, and for `cost`."""
        calls = cost / self.pricing.untuned_cost * self.pricing.calls_per_item + self.reserved_calls
        return calls, self.reserved_cost + cost if self.pricing.budget_unit == "dollars" else 0.0


def plan_budget(
    run: PreparedRun,
    native_n: bool | None = None,
    measured_tokens: PromptAndReplyTokens | None = None,
) -> RunBudget:
    """Plan what a tuning run spends.

    `native_n` says whether the judge's model gives n replies to one call; by default, the model's
    name decides. `measured_tokens` are the tokens (input, output) that a judgement took; by
    default, they are estimated. Raises SettingsError if nothing is measured yet and the user's
    limit is too small to be useful.
    """
    settings, labels = run.settings, run.labels
    pricing = plan_pricing(run, native_n, measured_tokens)
    item_cost, n_held_out = pricing.untuned_cost, labels.n_held_out
    is_in_dollars = pricing.budget_unit == "dollars"
    limit = _run_limit(run, pricing, has_begun=measured_tokens is not None)
    max_item_price = (1.0 if pricing.is_free else MAX_CANDIDATE_RATIO) * pricing.untuned_price
    affordable_price = max_item_price
    if is_in_dollars:
        # At this price of judging one item, dev and test just fit into their share of the limit.
        affordable_price = MAX_CANDIDATE_SHARE * limit / max(1, len(labels.dev) + n_held_out)
    search_options = _search_options(run, pricing, affordable_price)
    if search_options.max_demos:
        max_item_price = max(max_item_price, affordable_price)
    # The untuned judge and the tuned one judge the held-out items.
    reserved_cost = n_held_out * (item_cost + (max_item_price if is_in_dollars else item_cost))
    n_probes = len(ATTACKS) * min(N_PROBED_OUTPUTS, len(labels.held_out.test))
    n_probe_calls = n_probes * pricing.calls_per_item
    probes_are_free = is_embedded(settings.lm) and reserved_cost + n_probe_calls <= limit
    if not (settings.probes or probes_are_free):
        n_probes = 0
    max_reserved_share = 1.0 if pricing.is_free else 0.5
    reserved_cost = min(reserved_cost + n_probes * item_cost, max_reserved_share * limit)
    slack = SLACK_SHARE * limit if is_in_dollars else 0.0
    search_budget = SearchBudget(limit - reserved_cost, pricing, slack)
    return RunBudget(
        run=run,
        search_budget=search_budget,
        search_options=replace(search_options, max_item_price=max_item_price),
        limit=limit,
        reserved_cost=reserved_cost,
        reserved_calls=(2 * n_held_out + n_probes) * pricing.calls_per_item,
        expected_by_purpose=_expected_by_purpose(run, search_budget, n_probes),
    )


def _expected_by_purpose(run: PreparedRun, budget: SearchBudget, n_probes: int) -> list[Spending]:
    """Return what a run usually spends for each purpose."""
    settings, pricing = run.settings, budget.pricing
    n_judgements, price_ratio, n_proposals = _usual_search(run, budget)
    judge_tokens = pricing.untuned_tokens_in, pricing.untuned_tokens_out
    search_tokens = price_ratio * judge_tokens[0], price_ratio * judge_tokens[1]
    judge_price, proposer_price = settings.judge_model.price, settings.proposer_model.price
    # For each purpose, the number of judgements or proposals, and what one of them takes.
    work_by_purpose = [
        (SEARCH, n_judgements, pricing.calls_per_item, search_tokens, judge_price),
        (PROPOSALS, n_proposals, 1, pricing.proposal_tokens, proposer_price),
        (TEST, 2 * run.labels.n_held_out, pricing.calls_per_item, judge_tokens, judge_price),
        (PROBES, n_probes, pricing.calls_per_item, judge_tokens, judge_price),
    ]
    spending = []
    for purpose, number, n_calls, n_tokens, price in work_by_purpose:
        tokens_in, tokens_out = round(number * n_tokens[0]), round(number * n_tokens[1])
        row = Spending(
            purpose=purpose,
            calls=round(number * n_calls),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=None if price is None else price.cost(tokens_in, tokens_out),
        )
        spending.append(row)
    return [row for row in spending if row.calls]


def _usual_search(run: PreparedRun, search_budget: SearchBudget) -> tuple[float, float, int]:
    """Return the judgements of a usual search, their price in untuned ones, and its proposals."""
    settings, labels = run.settings, run.labels
    item_cost, limit = search_budget.pricing.untuned_cost, search_budget.limit
    n_learning_items = len(labels.train_and_dev)
    if settings.optimizer not in OPTIMIZERS:
        return 0, 1.0, 0  # a user's optimizer may make any number of calls
    if is_embedded(settings.lm) and settings.optimizer == "rank":
        return min(2 * n_learning_items, limit / item_cost), 1.0, 0
    n_proposals = 0
    if not is_embedded(settings.proposer_model.lm):
        # Proposals take at most half of the budget.
        n_proposals = min(USUAL_PROPOSALS, int(limit / 2 / search_budget.proposal_cost))
    n_affordable = (limit - n_proposals * search_budget.proposal_cost) / item_cost
    if settings.optimizer != "rank":
        return n_affordable, 1.0, n_proposals
    race_share = min(1.0, MAX_RACE_DOCUMENTS / len(labels.train.documents))
    n_usual = (
        USUAL_RACES * (race_share * len(labels.train))
        + (1 + MAX_FINALISTS) * n_learning_items
        + QUESTION_TEST_COST * min(n_learning_items, 2 * MAX_OUTPUTS_ASKED)
    )
    price_ratio = USUAL_PRICE_RATIO
    if search_budget.pricing.budget_unit == "dollars":
        price_ratio = min(USUAL_PRICE_RATIO, max(1.0, n_affordable / n_usual))
        n_affordable /= price_ratio
    return min(n_usual, n_affordable), price_ratio, n_proposals


def _planned_limits(run: PreparedRun, pricing: Pricing) -> tuple[float, float]:
    """Return the smallest useful limit, and the default limit."""
    labels, item_cost = run.labels, pricing.untuned_cost
    test_cost, dev_cost = labels.n_held_out * item_cost, len(labels.dev) * item_cost
    if pricing.is_free:
        n_calls = FREE_CALLS_PER_OUTPUT * item_cost * len(labels.all_items)
        return test_cost, max(FREE_CALLS, n_calls)
    race_cost = min(len(labels.train), MAX_RACE_OUTPUTS) * item_cost
    n_question_outputs = min(len(labels.train_and_dev), 2 * MAX_OUTPUTS_ASKED)
    questions_cost = QUESTION_TEST_COST * n_question_outputs * item_cost
    finalists_cost = (1 + MIN_FINALISTS) * (test_cost + dev_cost)
    proposals_cost = MIN_PROPOSALS * pricing.proposal_cost
    smallest_limit = finalists_cost + MIN_RACES * race_cost + proposals_cost
    default_limit = smallest_limit + DEFAULT_RACES * race_cost + questions_cost
    if pricing.budget_unit == "dollars":
        # Before the first proposal, the untuned judge is scored. The limit must pay for this score,
        # for the proposal, and for what the search then reserves for test, questions and dev: their
        # full cost, or the largest shares of the budget that they may take.
        proposal_cost = pricing.proposal_price.cost(*proposal_tokens(run, at_worst=True))
        round_cost = proposal_cost + FIRST_ROUND_COST * UNTUNED_BUDGET_SHARE * race_cost
        dev_reserve = (1 + MAX_FINALISTS * FINALIST_COST) * dev_cost
        round_share = (1 - QUESTION_TEST_SHARE) * (1 - MAX_DEV_SHARE / 2)
        search_cost = min(round_cost + dev_reserve + questions_cost, round_cost / round_share)
        test_reserve = (1 + MAX_CANDIDATE_RATIO) * test_cost
        smallest_limit = max(smallest_limit, test_reserve + search_cost)
    return smallest_limit, default_limit


def _run_limit(run: PreparedRun, pricing: Pricing, *, has_begun: bool) -> float:
    """Return what a run may spend; SettingsError if the user's limit is too small to be useful."""
    settings = run.settings
    smallest_limit, default_limit = _planned_limits(run, pricing)
    # One call and one dollar of the user's limit, less the share that is kept as a reserve.
    cost_per_call = (1 - SPARE_CALLS_SHARE) * pricing.untuned_cost / pricing.calls_per_item
    cost_per_dollar = 1 - SPARE_COST_SHARE
    max_cost = settings.max_cost if pricing.budget_unit == "dollars" else None
    limits = []
    for name, user_limit, cost_per_unit, n_decimals in (
        ("max_calls", settings.max_calls, cost_per_call, 0),
        ("max_cost", max_cost, cost_per_dollar, 2),
    ):
        if user_limit is None:
            continue
        limit = user_limit * cost_per_unit
        # A run that has begun goes on, even if judgements prove dearer than estimated.
        if limit < smallest_limit and not has_begun:
            needed_limit = smallest_limit / cost_per_unit
            needed_limit = math.ceil(needed_limit * 10**n_decimals) / 10**n_decimals
            raise SettingsError(
                f"{option_name(name, f'{user_limit:g}')}: too little to learn anything from "
                f"{len(run.labels.all_items)} labels; the smallest useful limit is "
                f"{option_name(name, f'{needed_limit:g}')}"
            )
        limits.append(limit)
    return min(limits, default=default_limit)


def _search_options(run: PreparedRun, pricing: Pricing, max_item_price: float) -> SearchOptions:
    """Return the options of a search where judging one item may cost at most `max_item_price`."""
    settings, items = run.settings, run.labels.train.items
    max_demos, max_demo_characters = MAX_PAID_DEMOS, MAX_PAID_DEMO_CHARACTERS
    if is_embedded(settings.lm):
        max_demos, max_demo_characters = MAX_FREE_DEMOS, MAX_FREE_DEMO_CHARACTERS
    if settings.max_demos is not None:
        max_demos = min(max_demos, settings.max_demos)
    price_per_token = pricing.judge_price.per_token_in * pricing.calls_per_item
    if price_per_character := price_per_token / CHARACTERS_PER_TOKEN:
        price_for_demos = max(0.0, max_item_price - pricing.untuned_price)
        max_demo_characters = min(max_demo_characters, int(price_for_demos / price_per_character))
    n_characters = sum(len(text) for item in items for text in item.texts.values())
    needed_characters = min(MIN_DEMOS, max_demos) * n_characters / len(items)
    return SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        max_demos=max_demos if max_demo_characters >= needed_characters else 0,
        max_demo_characters=max_demo_characters,
        reasoning=settings.reasoning_to_try,
    )
