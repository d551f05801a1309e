"""Plan what a tuning run spends: the cost of a judgement times the number of judgements.

The cost of the final measurement is reserved first, and the search may spend what remains. The plan
is made before a run, and again at its start, after the cost of a judgement was measured. The
expected spending and the default limit follow from the work of a usual search (`_usual_work`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dspy_judges.errors import SettingsError, option_name
from judges.client import CHARACTERS_PER_TOKEN, Price, Spending, estimate_tokens, gives_n_replies
from judges.client.prices import FREE
from judges.decisions import fill_template, template_for_model
from judges.prompt import MAX_DEMOS
from judges.protocol import is_decision_model, is_embedded, is_reasoning_model, max_tokens_factor
from judges.scoring import estimate_reply_tokens
from optimize.measuring.injection import ATTACKS, N_PROBED_OUTPUTS
from optimize.search.budget import Pricing, SearchBudget, Tokens
from optimize.search.evidence import expected_evidence_length
from optimize.search.optimizer import MAX_FINALISTS, OPTIMIZERS
from optimize.search.problem import SearchOptions
from optimize.search.proposer import MAX_PROPOSAL_TOKENS
from optimize.search.questions import MAX_OUTPUTS_ASKED, QUESTION_TEST_COST
from optimize.search.race import MAX_RACE_DOCUMENTS
from optimize.search.rank_search import first_round_cost
from optimize.search.two_fold_search import FINALISTS_COST, smallest_budget
from optimize.tuning.models import PROBES, PROPOSALS, SEARCH, TEST, total_spending
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.settings import Settings

N_ITEMS_SAMPLED = 20  # labelled outputs from which the average length of a prompt is estimated
PROPOSER_CHARACTERS = 10_000  # of a proposer's prompt, without the labelled texts that it quotes
PROPOSAL_THOUGHT_TOKENS = 1500  # assumed, of a reasoning model before it writes a proposal
# The assumed prices of input and output tokens, relative to each other, if no price is known.
ASSUMED_TOKEN_PRICE = Price(per_token_in=1.0, per_token_out=4.0)
# If a free proposer is used with a paid judge, a proposal gets this cost instead of 0, because the
# search divides by the cost of a proposal.
MIN_PROPOSAL_COST = 1e-9
# In a usual search with a language model, each output that candidates race on is judged USUAL_RACES
# times, and the proposer is asked USUAL_PROPOSALS times. A judgement by a candidate, which shows
# demonstrations or reasons, costs USUAL_PRICE_RATIO times as much as one by the untuned judge.
USUAL_RACES, USUAL_PROPOSALS, USUAL_PRICE_RATIO = 20, 16, 2.5
MIN_WORK_SHARE = 1 / 6  # the share of a usual search's judgements that the smallest limit buys
# The default limit of a run with a free model, in calls: FREE_CALLS, or FREE_CALLS_PER_OUTPUT times
# the number of labelled outputs if that is larger.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
# The assumed duration of a call and of a proposal in seconds, and the largest average number of
# calls in flight.
CALL_SECONDS, PROPOSAL_SECONDS, MAX_IN_FLIGHT = 1.5, 30, 24
# Upper bounds on the number of demonstrations and on their characters in total, for the embedded
# model and for all other models. The embedded model can use as many as a frozen judge can have.
EMBEDDED_DEMO_BOUNDS, DEMO_BOUNDS = (MAX_DEMOS, 3_000_000), (64, 120_000)
# The share of --max-calls that is reserved for repeating calls whose replies could not be read, and
# the share of --max-cost that is reserved for prompts that are longer than estimated.
SPARE_CALLS_SHARE, SPARE_COST_SHARE = 0.05, 0.06
SLACK_SHARE = 0.02  # of the limit; a step of the search may exceed its estimated cost by this much
# Judging dev and test with a candidate costs at most MAX_CANDIDATE_SHARE of the limit, or at most
# MAX_CANDIDATE_RATIO times as much as the untuned judge if that is more, so that it can reason.
MAX_CANDIDATE_SHARE, MAX_CANDIDATE_RATIO = 0.2, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may spend, and what it is expected to spend, in the unit of `pricing`.

    The whole run may spend `limit`. The final measurement may spend `reserved_cost` and make
    `reserved_calls`. `expected_by_purpose` has the expected spending for each purpose.
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
        if not self.pricing.is_in_dollars:
            return None
        return self.run.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """Return calls and dollars to reserve for the final measurement and for a step's `cost`."""
        calls = cost / self.pricing.untuned_cost * self.pricing.calls_per_item + self.reserved_calls
        return calls, self.reserved_cost + cost if self.pricing.is_in_dollars else 0.0


def plan_budget(
    run: PreparedRun, native_n: bool | None = None, measured_tokens: Tokens | None = None
) -> RunBudget:
    """Plan what a tuning run spends.

    `native_n` says whether the judge's model gives n replies to one call; by default, the model's
    name decides. `measured_tokens` are the tokens (input, output) that a judgement took; by
    default, they are estimated. Raises SettingsError if nothing is measured yet and the user's
    limit is too small to be useful.
    """
    settings = run.settings
    pricing = _plan_pricing(run, native_n, measured_tokens)
    limit = _run_limit(run, pricing, has_begun=measured_tokens is not None)
    item_cost, n_held_out = pricing.untuned_cost, run.n_held_out
    max_item_price = (1.0 if pricing.is_free else MAX_CANDIDATE_RATIO) * pricing.untuned_price
    if pricing.is_in_dollars:
        n_judged = max(1, len(run.dev) + n_held_out)
        max_item_price = max(max_item_price, MAX_CANDIDATE_SHARE * limit / n_judged)
    # Held-out items are judged twice: by the untuned judge and by the tuned judge.
    max_item_cost = max_item_price if pricing.is_in_dollars else item_cost
    reserved_cost = n_held_out * (item_cost + max_item_cost)
    n_probes = len(ATTACKS) * min(N_PROBED_OUTPUTS, len(run.held_out.test))
    probes_are_free = is_embedded(settings.lm) and reserved_cost + n_probes * item_cost <= limit
    if not (settings.probes or probes_are_free):
        n_probes = 0
    max_reserved_share = 1.0 if pricing.is_free else 0.5
    reserved_cost = min(reserved_cost + n_probes * item_cost, max_reserved_share * limit)
    slack = SLACK_SHARE * limit if pricing.is_in_dollars else 0.0
    search_budget = SearchBudget(limit - reserved_cost, pricing, slack)
    return RunBudget(
        run=run,
        search_budget=search_budget,
        search_options=_search_options(run, pricing, max_item_price),
        limit=limit,
        reserved_cost=reserved_cost,
        reserved_calls=(2 * n_held_out + n_probes) * pricing.calls_per_item,
        expected_by_purpose=_expected_by_purpose(run, search_budget, n_probes),
    )


def _plan_pricing(
    run: PreparedRun, native_n: bool | None = None, measured_tokens: Tokens | None = None
) -> Pricing:
    settings, (n_calls, n_replies) = run.settings, _calls_and_replies(run.settings, native_n)
    untuned_tokens = measured_tokens or _estimate_tokens(run, n_calls, n_replies)
    judge_price = settings.judge_model.price
    if judge_price is not None and judge_price.cost(*untuned_tokens) == 0:
        judge_price = FREE  # for example, only replies have a price, and decision models write none
    only_calls_limited = settings.max_calls is not None and settings.max_cost is None
    # Dollars are counted unless the model is free, its price is unknown, or only calls are limited.
    is_in_dollars = not (judge_price is None or judge_price.is_free or only_calls_limited)
    proposal_price = settings.proposer_model.price or judge_price or ASSUMED_TOKEN_PRICE
    proposal_cost = 1.0
    if is_in_dollars:
        proposal_cost = max(MIN_PROPOSAL_COST, proposal_price.cost(*_proposal_tokens(run)))
    return Pricing(
        is_in_dollars=is_in_dollars,
        judge_price=judge_price or ASSUMED_TOKEN_PRICE,
        untuned_tokens=untuned_tokens,
        calls_per_item=n_calls,
        replies_per_item=0 if is_decision_model(settings.lm) else n_replies,
        proposal_price=proposal_price,
        proposal_cost=proposal_cost,
    )


def _calls_and_replies(settings: Settings, native_n: bool | None) -> tuple[int, int]:
    """Return the numbers of calls and of replies that it takes to judge one item."""
    n_orders = 2 if settings.pairwise else 1
    n_replies = n_orders * (settings.samples or 1)
    gives_all_replies = gives_n_replies(settings.lm) if native_n is None else native_n
    return n_orders if gives_all_replies else n_replies, n_replies


def _estimate_tokens(run: PreparedRun, n_calls: int, n_replies: int) -> Tokens:
    """Estimate the untuned judge's tokens for one output from the length of its prompts."""
    train, lm = run.train, run.settings.lm
    if is_embedded(lm):  # its tokens cost nothing
        return 0, 0
    template = template_for_model(lm, run.untuned_prompt)
    sampled_items = train.items[:: max(1, len(train) // N_ITEMS_SAMPLED)]
    prompts = (fill_template(lm, template, item.texts) for item in sampled_items)
    tokens_in = sum(map(estimate_tokens, prompts)) / len(sampled_items)
    return tokens_in * n_calls, estimate_reply_tokens(run.untuned_prompt, lm) * n_replies


def _proposal_tokens(run: PreparedRun, *, at_worst: bool = False) -> Tokens:
    """Return the expected tokens of a proposal; if `at_worst`, the most that are possible."""
    proposer = run.settings.proposer_model
    if is_embedded(proposer.lm):  # the embedded model writes no proposals
        return 0, 0
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(run.train)
    if at_worst:  # each character of the prompt is a token
        max_reply_tokens = max_tokens_factor(proposer.lm) * MAX_PROPOSAL_TOKENS
        return n_characters, proposer.max_tokens or max_reply_tokens
    # A proposal is assumed to be half as long as it may be.
    thought_tokens = PROPOSAL_THOUGHT_TOKENS if is_reasoning_model(proposer.lm) else 0
    reply_tokens = MAX_PROPOSAL_TOKENS / 2 + thought_tokens
    return n_characters / CHARACTERS_PER_TOKEN, reply_tokens


def _usual_work(run: PreparedRun) -> tuple[float, float]:
    """Return the numbers of judgements and proposals of a search that no limit ends."""
    n_learning_items = len(run.train_and_dev)
    if is_embedded(run.settings.lm):  # the untuned judge, and the judge that shows all labels
        return 2 * n_learning_items, 0
    race_share = min(1.0, MAX_RACE_DOCUMENTS / len(run.train.documents))
    n_judgements = (
        USUAL_RACES * race_share * len(run.train)
        + (1 + MAX_FINALISTS) * n_learning_items
        + QUESTION_TEST_COST * min(n_learning_items, 2 * MAX_OUTPUTS_ASKED)
    )
    return n_judgements, 0 if is_embedded(run.settings.proposer_model.lm) else USUAL_PROPOSALS


def _expected_search(run: PreparedRun, budget: SearchBudget) -> tuple[float, float, float]:
    """Return the expected numbers of judgements and proposals, and the price of a judgement.

    The price is a multiple of the untuned judge's price. GEPA spends its whole budget. In the rank
    search, later rounds judge more outputs with dearer candidates. So with a share of the usual
    cost, the search makes about the square root of this share of the usual judgements.
    """
    settings, pricing = run.settings, budget.pricing
    untuned_cost, proposal_cost = pricing.untuned_cost, budget.proposal_cost
    n_judgements, n_proposals = _usual_work(run)
    is_rank_search, price_ratio = settings.optimizer == "rank", 1.0
    if is_rank_search and not is_embedded(settings.lm):
        price_ratio = USUAL_PRICE_RATIO
    item_cost = (price_ratio if pricing.is_in_dollars else 1.0) * untuned_cost
    usual_cost = n_judgements * item_cost + n_proposals * proposal_cost
    search_cost = min(usual_cost, budget.limit) if is_rank_search else budget.limit
    work_share = search_cost / usual_cost
    if is_rank_search and pricing.is_in_dollars:
        work_share = math.sqrt(work_share)
    n_proposals = min(work_share * n_proposals, search_cost / 2 / proposal_cost)
    judging_cost = search_cost - n_proposals * proposal_cost
    n_judgements = min(work_share * n_judgements, judging_cost / untuned_cost)
    if pricing.is_in_dollars:
        price_ratio = judging_cost / (n_judgements * untuned_cost)
    return n_judgements, n_proposals, price_ratio


def _expected_by_purpose(run: PreparedRun, budget: SearchBudget, n_probes: int) -> list[Spending]:
    """Return what a run is expected to spend for each purpose; a user's optimizer counts as 0."""
    settings, pricing = run.settings, budget.pricing
    n_judgements, n_proposals, price_ratio = _expected_search(run, budget)
    if settings.optimizer not in OPTIMIZERS:
        n_judgements = n_proposals = 0  # a user's optimizer may make any number of calls
    tokens_in, tokens_out = pricing.untuned_tokens
    searched_tokens = price_ratio * tokens_in, price_ratio * tokens_out

    def judge_spending(purpose: str, n_items: float, tokens: Tokens) -> Spending:
        price = settings.judge_model.price
        return _spending(purpose, n_items, pricing.calls_per_item, tokens, price)

    proposer_price = settings.proposer_model.price
    spending_by_purpose = [
        judge_spending(SEARCH, n_judgements, searched_tokens),
        _spending(PROPOSALS, n_proposals, 1, _proposal_tokens(run), proposer_price),
        judge_spending(TEST, 2 * run.n_held_out, pricing.untuned_tokens),
        judge_spending(PROBES, n_probes, pricing.untuned_tokens),
    ]
    return [spending for spending in spending_by_purpose if spending.calls]


def _spending(
    purpose: str, n_times: float, calls_each: int, tokens_each: Tokens, price: Price | None
) -> Spending:
    """Return the spending on `n_times` judgements or proposals, of which each costs the same."""
    tokens_in, tokens_out = (round(n_times * n_tokens) for n_tokens in tokens_each)
    return Spending(
        purpose=purpose,
        calls=round(n_times * calls_each),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=None if price is None else price.cost(tokens_in, tokens_out),
    )


def _run_limit(run: PreparedRun, pricing: Pricing, *, has_begun: bool) -> float:
    """Return what a run may spend; SettingsError if the user's limit is too small to be useful."""
    settings, item_cost = run.settings, pricing.untuned_cost
    smallest_limit, default_limit = _planned_limits(run, pricing)
    # The cost that each call of the user's limit pays for: a share of the calls is reserved.
    cost_per_call = (1 - SPARE_CALLS_SHARE) * item_cost / pricing.calls_per_item
    max_cost = settings.max_cost if pricing.is_in_dollars else None
    limits = []
    for name, user_limit, cost_per_unit, n_decimals in (
        ("max_calls", settings.max_calls, cost_per_call, 0),
        ("max_cost", max_cost, 1 - SPARE_COST_SHARE, 2),
    ):
        if user_limit is None:
            continue
        limits.append(user_limit * cost_per_unit)
        # A run that has begun goes on, even if judgements prove dearer than estimated.
        if limits[-1] < smallest_limit and not has_begun:
            needed_limit = math.ceil(smallest_limit / cost_per_unit * 10**n_decimals)
            raise SettingsError(
                f"{option_name(name, f'{user_limit:g}')}: too little to learn anything from "
                f"{len(run.all_items)} labels; the smallest useful limit is "
                f"{option_name(name, f'{needed_limit / 10**n_decimals:g}')}"
            )
    return min(limits, default=default_limit)


def _planned_limits(run: PreparedRun, pricing: Pricing) -> tuple[float, float]:
    """Return the smallest useful limit, and the default limit.

    The default limit pays for a usual search with candidates that cost no more than the untuned
    judge. With dearer candidates, the search ends earlier.
    """
    item_cost = pricing.untuned_cost
    test_cost = run.n_held_out * item_cost
    if pricing.is_free:
        n_calls = FREE_CALLS_PER_OUTPUT * item_cost * len(run.all_items)
        return test_cost, max(FREE_CALLS, n_calls)
    n_judgements, n_proposals = _usual_work(run)
    proposal_cost = pricing.proposal_cost if n_proposals else 0.0
    max_proposal_cost, max_cost_ratio = proposal_cost, 1.0
    if pricing.is_in_dollars:
        max_proposal_cost = pricing.proposal_price.cost(*_proposal_tokens(run, at_worst=True))
        max_cost_ratio = MAX_CANDIDATE_RATIO
    round_cost = first_round_cost(run.train, item_cost, proposal_cost)
    n_asked = min(len(run.train_and_dev), 2 * MAX_OUTPUTS_ASKED)
    search_cost = smallest_budget(
        # A proposal is booked at its largest possible cost; the other half's budget may cover it.
        max(round_cost, max_proposal_cost / 2),
        FINALISTS_COST * len(run.dev) * item_cost,
        QUESTION_TEST_COST * n_asked * item_cost,
    )
    search_cost = max(search_cost, MIN_WORK_SHARE * n_judgements * item_cost)
    smallest_limit = (1 + max_cost_ratio) * test_cost + search_cost
    usual_cost = 2 * test_cost + n_judgements * item_cost + n_proposals * proposal_cost
    return smallest_limit, max(smallest_limit, usual_cost)


def _search_options(run: PreparedRun, pricing: Pricing, max_item_price: float) -> SearchOptions:
    settings = run.settings
    demo_bounds = EMBEDDED_DEMO_BOUNDS if is_embedded(settings.lm) else DEMO_BOUNDS
    max_demos, max_demo_characters = demo_bounds
    if settings.max_demos is not None:
        max_demos = min(max_demos, settings.max_demos)
    price_per_token = pricing.judge_price.per_token_in * pricing.calls_per_item
    if price_per_character := price_per_token / CHARACTERS_PER_TOKEN:
        price_for_demos = max_item_price - pricing.untuned_price
        max_demo_characters = min(max_demo_characters, int(price_for_demos / price_per_character))
    return SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        max_demos=max_demos,
        max_demo_characters=max_demo_characters,
        max_item_price=max_item_price,
        reasoning=settings.reasoning_to_try,
    )
