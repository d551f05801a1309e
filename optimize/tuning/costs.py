"""What a judgement and a proposal cost in a tuning run.

A run is planned in calls if the judge's model is free, if its price is unknown, or if the user
limits only the calls; otherwise it is planned in dollars. The price of a judgement is estimated
from the length of the labelled texts, or measured on a few rows.
"""

from dataclasses import dataclass

from judges.client import CHARACTERS_PER_TOKEN, Price, estimate_tokens, gives_n_replies
from judges.decisions import fill_template_for, template_for
from judges.protocol import REASONING_FACTOR, is_decision, is_embedded, is_reasoning
from judges.scoring import n_reply_tokens
from optimize.search.budget import CostUnit, Pricing
from optimize.search.evidence import expected_evidence_length
from optimize.search.proposer import MAX_PROPOSAL_TOKENS
from optimize.tuning.preparation import Labels, PreparedRun
from optimize.tuning.settings import Settings

# The numbers of tokens in a prompt and in its reply.
PromptAndReplyTokens = tuple[float, float]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of a judgement and of a proposal, in `unit`.

    `pricing` has the price of a judgement, and `proposal_price` the price of the proposer's tokens;
    None if each proposal costs 1.
    """

    unit: CostUnit
    is_free: bool
    pricing: Pricing
    proposal_tokens: PromptAndReplyTokens
    proposal_price: Price | None = None
    proposal_cost: float = 1.0
    worst_proposal_cost: float = 1.0

    @property
    def judgement_cost(self) -> float:
        """The cost of the untuned judge's judgement of one output."""
        return self.pricing.item_calls if self.unit == "calls" else self.pricing.untuned_price


def costs_of(
    prepared: PreparedRun, native_n: bool | None, measured: PromptAndReplyTokens | None
) -> Costs:
    """Return the costs in a run; for `native_n` and `measured`, see `plan_budget`."""
    settings, pricing = prepared.settings, _pricing(prepared, native_n, measured)
    price, limits_calls = settings.judge.price, settings.max_calls and settings.max_cost is None
    tokens, most_tokens = _proposal_tokens(settings, prepared.labels)
    is_free = price is not None and price.is_free
    if price is None or is_free or limits_calls:
        return Costs(unit="calls", is_free=is_free, pricing=pricing, proposal_tokens=tokens)
    proposal_price = settings.proposer.price or price
    return Costs(
        unit="dollars",
        is_free=False,
        pricing=pricing,
        proposal_tokens=tokens,
        proposal_price=proposal_price,
        proposal_cost=max(MIN_PROPOSAL_COST, proposal_price.cost(*tokens)),
        worst_proposal_cost=proposal_price.cost(*most_tokens),
    )


def _pricing(
    prepared: PreparedRun, native_n: bool | None, measured: PromptAndReplyTokens | None
) -> Pricing:
    settings, lm, price = prepared.settings, prepared.settings.lm, prepared.settings.judge.price
    n_orders = 2 if settings.pairwise else 1
    n_replies = n_orders * (settings.samples or 1)
    one_call_per_order = gives_n_replies(lm) if native_n is None else native_n
    n_calls = n_orders if one_call_per_order else n_replies
    tokens_in, tokens_out = measured or _estimate_tokens(prepared, n_calls, n_replies)
    return Pricing(
        price=price or ASSUMED_TOKEN_PRICE,
        price_per_call=price is not None and price.is_free,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        item_calls=n_calls,
        item_replies=0 if is_decision(lm) else n_replies,  # decision models write no text
    )


def _estimate_tokens(prepared: PreparedRun, n_calls: int, n_replies: int) -> PromptAndReplyTokens:
    """Estimate the untuned judge's tokens for one output from the length of its prompts."""
    train, lm = prepared.labels.train, prepared.settings.lm
    if is_embedded(lm):  # its tokens cost nothing
        return 0, 0
    template = template_for(lm, prepared.untuned)
    sample = train.items[:: max(1, len(train) // N_ITEMS_SAMPLED)]
    prompts = (fill_template_for(lm, template, item.texts) for item in sample)
    tokens_in = sum(map(estimate_tokens, prompts)) / len(sample)
    return tokens_in * n_calls, n_reply_tokens(prepared.untuned, lm) * n_replies


def _proposal_tokens(
    settings: Settings, labels: Labels
) -> tuple[PromptAndReplyTokens, PromptAndReplyTokens]:
    """Return the expected and the largest numbers of tokens of a proposal.

    The reply usually has half of REPLY_TOKENS or less. A prompt has at most a token for each
    character.
    """
    lm, max_tokens = settings.proposer.lm, settings.proposer.max_tokens
    if is_embedded(lm):  # the embedded model writes no proposals
        return (0, 0), (0, 0)
    n_characters = PROPOSER_CHARACTERS + expected_evidence_length(labels.train)
    tokens_out = MAX_PROPOSAL_TOKENS / 2 + PROPOSAL_THOUGHT_TOKENS * is_reasoning(lm)
    most_out = max_tokens or MAX_PROPOSAL_TOKENS * (REASONING_FACTOR if is_reasoning(lm) else 1)
    return (n_characters / CHARACTERS_PER_TOKEN, tokens_out), (n_characters, most_out)
