"""The prices of a tuning run: of a judgement and of a proposal.

The price of a judgement is estimated from the length of the labelled texts, or measured on a few
rows at the start of a run.
"""

from judges.client import CHARACTERS_PER_TOKEN, Price, estimate_tokens, gives_n_replies
from judges.decisions import fill_template, template_for_model
from judges.protocol import is_decision_model, is_embedded, is_reasoning_model, max_tokens_factor
from judges.scoring import estimate_reply_tokens
from optimize.search.budget import Pricing, Tokens
from optimize.search.evidence import expected_evidence_length
from optimize.search.proposer import MAX_PROPOSAL_TOKENS
from optimize.tuning.preparation import PreparedRun

# The number of labelled outputs from which the average length of a prompt is estimated.
N_ITEMS_SAMPLED = 20
# The length of a proposer's prompt in characters, without the labelled texts that it quotes.
PROPOSER_CHARACTERS = 10_000
# The assumed number of reasoning tokens that a reasoning model writes before a proposal.
PROPOSAL_THOUGHT_TOKENS = 1500
# The assumed prices of input and output tokens, relative to each other, if no price is known.
ASSUMED_TOKEN_PRICE = Price(per_token_in=1.0, per_token_out=4.0)
# If a free proposer is used with a paid judge, a proposal gets this cost instead of 0, because the
# search divides by the cost of a proposal.
MIN_PROPOSAL_COST = 1e-9


def plan_pricing(
    run: PreparedRun, native_n: bool | None = None, measured_tokens: Tokens | None = None
) -> Pricing:
    """Return the prices of a run; for `native_n` and `measured_tokens`, see `plan_budget`."""
    settings, lm = run.settings, run.settings.lm
    n_orders = 2 if settings.pairwise else 1
    n_replies = n_orders * (settings.samples or 1)
    gives_all_replies = gives_n_replies(lm) if native_n is None else native_n
    n_calls = n_orders if gives_all_replies else n_replies
    judge_price = settings.judge_model.price
    only_calls_limited = settings.max_calls is not None and settings.max_cost is None
    # Dollars are counted unless the model is free, its price is unknown, or only calls are limited.
    is_in_dollars = not (judge_price is None or judge_price.is_free or only_calls_limited)
    proposal_price = settings.proposer_model.price or judge_price or ASSUMED_TOKEN_PRICE
    proposal_cost = 1.0
    if is_in_dollars:
        proposal_cost = max(MIN_PROPOSAL_COST, proposal_price.cost(*proposal_tokens(run)))
    return Pricing(
        is_in_dollars=is_in_dollars,
        judge_price=judge_price or ASSUMED_TOKEN_PRICE,
        untuned_tokens=measured_tokens or _estimate_tokens(run, n_calls, n_replies),
        calls_per_item=n_calls,
        replies_per_item=0 if is_decision_model(lm) else n_replies,  # decision models write no text
        proposal_price=proposal_price,
        proposal_cost=proposal_cost,
    )


def _estimate_tokens(run: PreparedRun, n_calls: int, n_replies: int) -> Tokens:
    """Estimate the untuned judge's tokens for one output from the length of its prompts."""
    train, lm = run.labels.train, run.settings.lm
    if is_embedded(lm):  # its tokens cost nothing
        return 0, 0
    template = template_for_model(lm, run.untuned_prompt)
    sampled_items = train.items[:: max(1, len(train) // N_ITEMS_SAMPLED)]
    prompts = (fill_template(lm, template, item.texts) for item in sampled_items)
    tokens_in = sum(map(estimate_tokens, prompts)) / len(sampled_items)
    return tokens_in * n_calls, estimate_reply_tokens(run.untuned_prompt, lm) * n_replies


def proposal_tokens(run: PreparedRun, *, at_worst: bool = False) -> Tokens:
    """Return the expected tokens of a proposal, or the largest possible number (`at_worst`)."""
    proposer = run.settings.proposer_model
    if is_embedded(proposer.lm):  # the embedded model writes no proposals
        return 0, 0
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(run.labels.train)
    if at_worst:  # each character of the prompt is a token
        max_reply_tokens = max_tokens_factor(proposer.lm) * MAX_PROPOSAL_TOKENS
        return n_characters, proposer.max_tokens or max_reply_tokens
    # A reply usually has half of the tokens that it may have.
    thought_tokens = PROPOSAL_THOUGHT_TOKENS if is_reasoning_model(proposer.lm) else 0
    reply_tokens = MAX_PROPOSAL_TOKENS / 2 + thought_tokens
    return n_characters / CHARACTERS_PER_TOKEN, reply_tokens
