"""The prices of a tuning run: the tokens of a judgement and of a proposal, and what these cost."""

from judges.client import CHARACTERS_PER_TOKEN, Price, estimate_tokens, gives_n_replies
from judges.client.prices import FREE
from judges.decisions import fill_template, template_for_model
from judges.protocol import is_decision_model, is_embedded, is_reasoning_model, max_tokens_factor
from judges.scoring import estimate_reply_tokens
from optimize.search.budget import CALLS, DOLLARS, Pricing, Tokens
from optimize.search.evidence import expected_evidence_length
from optimize.search.proposer import MAX_PROPOSAL_TOKENS
from optimize.tuning.preparation import PreparedRun

N_ITEMS_SAMPLED = 20  # labelled outputs from which the average length of a prompt is estimated
PROPOSER_CHARACTERS = 10_000  # of a proposer's prompt, without the labelled texts that it quotes
PROPOSAL_THOUGHT_TOKENS = 1500  # assumed, of a reasoning model before it writes a proposal
# The assumed prices of input and output tokens, relative to each other, if no price is known.
ASSUMED_TOKEN_PRICE = Price(per_token_in=1.0, per_token_out=4.0)
# If a free proposer is used with a paid judge, a proposal gets this price instead of 0, because the
# search divides by the cost of a proposal.
MIN_PROPOSAL_PRICE = 1e-9


def plan_pricing(
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
    price_of_proposal = max(MIN_PROPOSAL_PRICE, proposal_price.cost(*proposal_tokens(run)))
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


def proposal_tokens(run: PreparedRun) -> Tokens:
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


def max_proposal_tokens(run: PreparedRun) -> Tokens:
    """Return the most tokens of a proposal: each character of its prompt may be a token."""
    proposer = run.settings.proposer_model
    max_reply_tokens = max_tokens_factor(proposer.lm) * MAX_PROPOSAL_TOKENS
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(run.train)
    return n_characters, proposer.max_tokens or max_reply_tokens
