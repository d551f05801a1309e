"""Plan what a tuning run spends: the cost of a judgement times the number of judgements.

The cost of the final measurement is reserved first, and the search may spend what remains. The plan
is made before a run, and again at its start, after the cost of a judgement was measured. With a
model that costs money, the default limit is the cost of a usual search (`_usual_work`). The
expected spending of the optimizer "rank" follows from the same work.
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
from optimize.search.budget import CALLS, DOLLARS, Pricing, SearchBudget, Tokens
from optimize.search.evaluator import ITEMS_FOR_MEAN_COST
from optimize.search.evidence import expected_evidence_length
from optimize.search.optimizer import MAX_FINALISTS, OPTIMIZERS
from optimize.search.problem import N_PROPOSALS, SearchOptions, informative_documents
from optimize.search.proposer import MAX_PROPOSAL_TOKENS
from optimize.search.questions import MAX_OUTPUTS_ASKED, QUESTION_TEST_COST, QUESTION_TEST_SHARE
from optimize.search.race import MAX_RACE_DOCUMENTS, min_race_documents
from optimize.search.rank_search import MIN_ROUNDS, smallest_round_cost
from optimize.search.two_fold_search import FINALISTS_COST, MAX_TEST_SHARE
from optimize.tuning.models import PROBES, PROPOSALS, SEARCH, TEST, total_spending
from optimize.tuning.preparation import PreparedRun

N_ITEMS_SAMPLED = 20  # labelled outputs from which the average length of a prompt is estimated
PROPOSER_CHARACTERS = 10_000  # of a proposer's prompt, without the labelled texts that it quotes
PROPOSAL_THOUGHT_TOKENS = 1500  # assumed, of a reasoning model before it writes a proposal
# The assumed prices of input and output tokens, relative to each other, if no price is known.
ASSUMED_TOKEN_PRICE = Price(per_token_in=1.0, per_token_out=4.0)
# If a free proposer is used with a paid judge, a proposal gets this price instead of 0, because the
# search divides by the cost of a proposal.
MIN_PROPOSAL_PRICE = 1e-9
N_HALVES = 2  # the search is run on each half of the labels that are not held out
# In a usual search with a language model, each output that candidates race on is judged USUAL_RACES
# times. A judgement by a candidate, which shows demonstrations or reasons, costs USUAL_PRICE_RATIO
# times as much as one by the untuned judge.
USUAL_RACES, USUAL_PRICE_RATIO = 20, 2.5
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
# Judging dev and test with a candidate costs at most MAX_CANDIDATE_SHARE of the limit, or at most
# MAX_CANDIDATE_RATIO times as much as the untuned judge if that is more, so that it can reason.
MAX_CANDIDATE_SHARE, MAX_CANDIDATE_RATIO = 0.2, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may spend, and what it is expected to spend. Costs are in the unit of `pricing`.

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
        if self.pricing.unit != DOLLARS:
            return None
        return self.run.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """Return calls and dollars to reserve for the final measurement and for a step's `cost`."""
        pricing = self.pricing
        n_calls = cost / pricing.untuned_cost * pricing.calls_per_item + self.reserved_calls
        return n_calls, self.reserved_cost + cost if pricing.unit == DOLLARS else 0.0


def plan_budget(
    run: PreparedRun, native_n: bool | None = None, measured_tokens: Tokens | None = None
) -> RunBudget:
    """Plan what a tuning run spends.

    `native_n` says whether the judge's model gives n replies to one call; by default, the model's
    name decides. `measured_tokens` are the tokens (input, output) that a judgement took; by
    default, they are estimated. Raises SettingsError if nothing is measured yet and the user's
    limit is too small to be useful.
    """
    settings, pricing = run.settings, _plan_pricing(run, native_n, measured_tokens)
    limit = _run_limit(run, pricing, has_begun=measured_tokens is not None)
    max_item_price = MAX_CANDIDATE_RATIO * pricing.untuned_price
    if pricing.unit == DOLLARS:
        n_judged = max(1, len(run.dev) + run.n_held_out)
        max_item_price = max(max_item_price, MAX_CANDIDATE_SHARE * limit / n_judged)
    # Held-out items are judged twice: by the untuned judge and by the tuned judge.
    test_cost = run.n_held_out * (pricing.untuned_cost + pricing.item_cost(max_item_price))
    n_probes = len(ATTACKS) * min(N_PROBED_OUTPUTS, len(run.held_out.test))
    probes_cost = n_probes * pricing.untuned_cost
    probes_are_free = is_embedded(settings.lm) and test_cost + probes_cost <= limit
    if not (settings.probes or probes_are_free):
        n_probes, probes_cost = 0, 0.0
    reserved_cost = min(test_cost + probes_cost, pricing.unit.max_reserved_share * limit)
    search_budget = SearchBudget(
        limit - reserved_cost, pricing, allowed_excess=pricing.unit.excess_share * limit
    )
    return RunBudget(
        run=run,
        search_budget=search_budget,
        search_options=_search_options(run, pricing, max_item_price),
        limit=limit,
        reserved_cost=reserved_cost,
        reserved_calls=(2 * run.n_held_out + n_probes) * pricing.calls_per_item,
        expected_by_purpose=_expected_by_purpose(run, search_budget, n_probes),
    )


def _plan_pricing(
    run: PreparedRun, native_n: bool | None = None, measured_tokens: Tokens | None = None
) -> Pricing:
    """Return the prices of a run. The parameters are those of `plan_budget`.

    Dollars are counted unless the model is free, its price is unknown, or only calls are limited.
    """
    settings = run.settings
    n_orders = 2 if settings.pairwise else 1
    n_replies = n_orders * (settings.samples or 1)
    gives_all_replies = gives_n_replies(settings.lm) if native_n is None else native_n
    n_calls = n_orders if gives_all_replies else n_replies
    untuned_tokens = measured_tokens or _estimate_tokens(run, n_calls, n_replies)
    judge_price = settings.judge_model.price
    if judge_price is not None and judge_price.cost(*untuned_tokens) == 0:
        judge_price = FREE  # for example, only replies have a price, and decision models write none
    only_calls_limited = settings.max_calls is not None and settings.max_cost is None
    has_price = judge_price is not None and not judge_price.is_free
    unit = DOLLARS if has_price and not only_calls_limited else CALLS
    proposal_price = settings.proposer_model.price or judge_price or ASSUMED_TOKEN_PRICE
    price_of_proposal = max(MIN_PROPOSAL_PRICE, proposal_price.cost(*_proposal_tokens(run)))
    return Pricing(
        unit=unit,
        judge_price=judge_price or ASSUMED_TOKEN_PRICE,
        untuned_tokens=untuned_tokens,
        calls_per_item=n_calls,
        replies_per_item=0 if is_decision_model(settings.lm) else n_replies,
        proposal_price=proposal_price,
        proposal_cost=unit.cost(1, price_of_proposal),
    )


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


def _proposal_tokens(run: PreparedRun) -> Tokens:
    """Return the expected tokens of a proposal, which is assumed to be half as long as it may be.

    The embedded model writes no proposals.
    """
    lm = run.settings.proposer_model.lm
    if is_embedded(lm):
        return 0, 0
    thought_tokens = PROPOSAL_THOUGHT_TOKENS if is_reasoning_model(lm) else 0
    reply_tokens = MAX_PROPOSAL_TOKENS / 2 + thought_tokens
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(run.train)
    return n_characters / CHARACTERS_PER_TOKEN, reply_tokens


def _max_proposal_tokens(run: PreparedRun) -> Tokens:
    """Return the most tokens of a proposal: each character of its prompt may be a token."""
    proposer = run.settings.proposer_model
    max_reply_tokens = max_tokens_factor(proposer.lm) * MAX_PROPOSAL_TOKENS
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(run.train)
    return n_characters, proposer.max_tokens or max_reply_tokens


def _usual_work(run: PreparedRun) -> tuple[float, int]:
    """Return the numbers of judgements and proposals of a search that no limit ends."""
    n_learning_items = len(run.train_and_dev)
    if is_embedded(run.settings.lm):  # the untuned judge, and the judge that shows all labels
        return 2 * n_learning_items, 0
    race_share = min(1.0, MAX_RACE_DOCUMENTS / len(run.train.documents))
    n_judgements = (
        USUAL_RACES * race_share * len(run.train)
        + (1 + MAX_FINALISTS) * n_learning_items
        + QUESTION_TEST_COST * min(n_learning_items, N_HALVES * MAX_OUTPUTS_ASKED)
    )
    if is_embedded(run.settings.proposer_model.lm):
        return n_judgements, 0
    # A usual search ends after the fewest rounds. A round that compares forms of reasoning asks for
    # no instructions.
    n_rounds = MIN_ROUNDS - bool(run.settings.reasoning_to_try)
    return n_judgements, N_HALVES * n_rounds * N_PROPOSALS


def _expected_search(run: PreparedRun, budget: SearchBudget) -> tuple[float, float, float]:
    """Return the expected numbers of judgements and proposals, and the price of a judgement.

    The price is a multiple of the untuned judge's price. In the rank search, each round asks for
    its proposals first, and later rounds judge more outputs with dearer candidates. So with a share
    of the usual cost, it still asks for all proposals, and makes about the square root of this
    share of the usual judgements.
    """
    pricing, settings = budget.pricing, run.settings
    if settings.optimizer not in OPTIMIZERS:
        return 0.0, 0.0, 1.0  # the calls of a user's optimizer cannot be planned
    if settings.optimizer == "gepa":
        # It spends its whole budget, and judges about half of train for each proposal.
        n_outputs = len(run.train) / 2
        n_proposals = budget.limit / (budget.proposal_cost + n_outputs * pricing.untuned_cost)
        return n_outputs * n_proposals, n_proposals, 1.0
    n_judgements, n_usual_proposals = _usual_work(run)
    price_ratio = 1.0 if is_embedded(settings.lm) else USUAL_PRICE_RATIO
    item_cost = pricing.item_cost(price_ratio * pricing.untuned_price)
    usual_cost = n_judgements * item_cost + n_usual_proposals * budget.proposal_cost
    search_cost = min(usual_cost, budget.limit)
    n_proposals = min(n_usual_proposals, search_cost / 2 / budget.proposal_cost)
    judging_cost = search_cost - n_proposals * budget.proposal_cost
    if pricing.unit == CALLS:  # dearer candidates take no more calls
        return judging_cost / item_cost, n_proposals, price_ratio
    n_judgements *= math.sqrt(search_cost / usual_cost)
    n_judgements = min(n_judgements, judging_cost / pricing.untuned_cost)
    return n_judgements, n_proposals, judging_cost / (n_judgements * pricing.untuned_cost)


def _expected_by_purpose(run: PreparedRun, budget: SearchBudget, n_probes: int) -> list[Spending]:
    pricing, n_calls = budget.pricing, budget.pricing.calls_per_item
    n_judgements, n_proposals, price_ratio = _expected_search(run, budget)
    tokens_in, tokens_out = tokens = pricing.untuned_tokens
    searched_tokens = price_ratio * tokens_in, price_ratio * tokens_out
    judge_price, proposer_price = run.settings.judge_model.price, run.settings.proposer_model.price
    rows = [
        _spending(SEARCH, n_judgements, n_calls, searched_tokens, judge_price),
        _spending(PROPOSALS, n_proposals, 1, _proposal_tokens(run), proposer_price),
        _spending(TEST, 2 * run.n_held_out, n_calls, tokens, judge_price),
        _spending(PROBES, n_probes, n_calls, tokens, judge_price),
    ]
    return [row for row in rows if row.calls]


def _spending(
    purpose: str, n_times: float, calls_each: int, tokens_each: Tokens, price: Price | None
) -> Spending:
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
    smallest_limit, limits = _smallest_limit(run, pricing), list[float]()
    call_cost = pricing.untuned_cost / pricing.calls_per_item
    for unit in (CALLS, DOLLARS):
        user_limit = getattr(run.settings, unit.limit_setting)
        if user_limit is None or (unit == DOLLARS and pricing.unit == CALLS):
            continue  # dollars cannot limit a free model
        # What a call or a dollar of the user's limit pays for, in the unit of `pricing`.
        cost_per_unit = (1 - unit.spare_share) * (call_cost if unit == CALLS else 1.0)
        limits.append(user_limit * cost_per_unit)
        # A run that has begun goes on, even if judgements prove dearer than estimated.
        if limits[-1] < smallest_limit and not has_begun:
            needed_limit = math.ceil(smallest_limit / cost_per_unit * 10**unit.n_decimals)
            raise SettingsError(
                f"{option_name(unit.limit_setting, f'{user_limit:g}')}: too little to learn "
                f"anything from {len(run.all_items)} labels; the smallest useful limit is "
                + option_name(unit.limit_setting, f"{needed_limit / 10**unit.n_decimals:g}")
            )
    return min(limits, default=max(smallest_limit, _default_limit(run, pricing)))


def _default_limit(run: PreparedRun, pricing: Pricing) -> float:
    """Return the cost of a usual search whose candidates cost no more than the untuned judge.

    With dearer candidates, the search ends earlier. With a free model, the limit is only to end it.
    """
    if pricing.is_free:
        n_items = FREE_CALLS_PER_OUTPUT * len(run.all_items)
        return max(FREE_CALLS, n_items * pricing.untuned_cost)
    n_judgements, n_proposals = _usual_work(run)
    n_judgements += 2 * run.n_held_out
    return n_judgements * pricing.untuned_cost + n_proposals * pricing.proposal_cost


def _smallest_limit(run: PreparedRun, pricing: Pricing) -> float:
    """Return the smallest limit with which a half proposes, races and tests a candidate.

    What a user's optimizer needs is not known, so its limit only has to pay for the test, and for
    measuring the price of a judgement.
    """
    item_cost, (n_judgements, n_proposals) = pricing.untuned_cost, _usual_work(run)
    max_item_cost = pricing.item_cost(MAX_CANDIDATE_RATIO * pricing.untuned_price)
    test_cost = run.n_held_out * (item_cost + max_item_cost)
    cost_to_measure_price = 0.0 if pricing.is_free else ITEMS_FOR_MEAN_COST * item_cost
    if run.settings.optimizer not in OPTIMIZERS:
        return test_cost + cost_to_measure_price
    round_cost = 0.0
    if n_proposals:
        # About as many items are judged on either half before a candidate can be dropped.
        n_documents = min_race_documents(len(informative_documents(run.dev, run.goal)))
        n_items = n_documents * len(run.dev) / len(run.dev.documents)
        round_cost = smallest_round_cost(n_items, item_cost, N_PROPOSALS * pricing.proposal_cost)
        # A proposal is booked at its largest possible cost until its reply has come.
        max_price = pricing.proposal_price.cost(*_max_proposal_tokens(run))
        round_cost = max(round_cost, pricing.unit.cost(1, max_price))
    n_asked = min(len(run.train_and_dev), N_HALVES * MAX_OUTPUTS_ASKED)
    # The tests of finalists and questions are reserved, up to a share of the budget. If the first
    # half's budget is too small for a round, the second half has the whole budget.
    tests_cost = (FINALISTS_COST * len(run.dev) + QUESTION_TEST_COST * n_asked) * item_cost
    share_for_round = (1 - QUESTION_TEST_SHARE) * (1 - MAX_TEST_SHARE)
    search_cost = min(round_cost + tests_cost, round_cost / share_for_round)
    search_cost += cost_to_measure_price
    return test_cost + max(search_cost, MIN_WORK_SHARE * n_judgements * item_cost)


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
