"""Plans that turn replies into a score: one reply, the mean of n replies, or weighted ratings."""

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Literal, get_args

from dspy_judges.errors import OptionError
from judges.answer import answer_patterns
from judges.decisions import DECISION_SAMPLING, read_option_probabilities, typed_question
from judges.judgement import Judgement, NoScoreError
from judges.prompt import (
    LONG_REASONING,
    PAIR_ANSWERS,
    FieldValue,
    Prompt,
    Reasoning,
    choice_number,
    reasoning_of,
    verdict_words_of,
)
from judges.protocol import (
    FatalModelError,
    Model,
    Reply,
    Sampling,
    is_decision_model,
    is_embedded,
    is_reasoning_model,
)
from judges.reading import read_reply

PlanKind = Literal["one", "mean", "weighted"]
MAX_SAMPLES = 100
# The default `max_tokens` of replies without, and with, reasoning in steps or questions.
SHORT_REPLY_TOKENS, LONG_REPLY_TOKENS = 512, 1024
# The tokens of an average reply by the form of reasoning, and of a reasoning model's thoughts.
REPLY_TOKENS: Mapping[Reasoning, int] = {"none": 4, "brief": 60, "steps": 200, "questions": 220}
THOUGHT_TOKENS = 400
# Tokens of the answer to one question, with its header.
TOKENS_PER_ANSWER = 9
# The number of alternatives to ask for at each token: the most that OpenAI's API allows.
N_TOKEN_ALTERNATIVES = 20
# Maps white space in the notation of raw tokenizer vocabularies to plain white space.
_RAW_BLANK_MAP = str.maketrans("Ġ▁Ċ", "  \n")
# Characters that a token may have around the rating.
_TOKEN_PADDING = " \t\r\n*_\"'`()[]:.,"
# The largest possible sum of a token's probabilities, which are rounded.
MAX_PROBABILITY_SUM = 1.01


class NoProbabilitiesError(FatalModelError):
    """The plan needs log-probabilities, and the model does not give any; this ends the run."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the plan 'weighted' needs log-probabilities of ratings, and {reason}; use the plan "
            "'one' (a single reply) or 'mean' (--plan mean --samples 20)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How replies become a score.

    Args:
        kind: "one" takes the rating of a single reply, "mean" the mean over several replies.
            "weighted" takes one reply and weights each rating by its token's probability (G-Eval,
            arXiv:2303.16634, equation 1); the model has to give log-probabilities.
        samples: The number of replies for a mean, 1 to 100; 1 for the other kinds.
        temperature: The temperature of the replies, 0 or more; None for the model's own.

    Raises:
        OptionError: The kind is unknown, or cannot have this number of samples.
    """

    kind: PlanKind
    samples: int = 1
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(PlanKind):
            raise OptionError(f"plan {self.kind!r}: choose from {', '.join(get_args(PlanKind))}")
        if not 1 <= self.samples <= (MAX_SAMPLES if self.kind == "mean" else 1):
            raise OptionError(
                f"the plan {self.kind!r} cannot have {self.samples} samples; 'mean' takes 1 to "
                f"{MAX_SAMPLES}, and every other plan takes 1"
            )


ONE_REPLY_PLAN, WEIGHTED_PLAN = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyContent:
    """What was read from one reply: the rating, verdict or choice as a number, and its free text.

    `distribution_by_field` maps each field's name to the probability of each number that its answer
    can be; the rating, verdict or choice is last. Without token probabilities, the answer that was
    given has the probability 1.
    """

    answer_number: float
    free_text: str | None
    distribution_by_field: dict[str, dict[float, float]]

    @property
    def answer_distribution(self) -> dict[float, float]:
        """The distribution of the rating, verdict or choice."""
        return list(self.distribution_by_field.values())[-1]


def default_plan(model: Model) -> SamplingPlan:
    """Return the default plan for a model, at the model's own temperature if that is set."""
    plan = default_plan_for_name(model.name if is_decision_model(model.name) else model.endpoint)
    return replace(plan, temperature=getattr(model, "temperature", plan.temperature))


def default_plan_for_name(lm: str) -> SamplingPlan:
    """Return the default plan for a name: weighted for embedded and decision models, else one."""
    return WEIGHTED_PLAN if is_embedded(lm) or is_decision_model(lm) else ONE_REPLY_PLAN


def sampling_for(plan: SamplingPlan, prompt: Prompt, *, seed: int = 0, lm: str = "") -> Sampling:
    """Return the sampling parameters for a plan; reasoning in steps or questions gets more tokens.

    Raises NoProbabilitiesError if the plan is "weighted" and a rating may be two tokens, such as
    10: the probability of the token "1" is then not the probability of the rating 1.
    """
    if is_decision_model(lm):
        return DECISION_SAMPLING
    if lm and plan.kind == "weighted" and not is_embedded(lm):
        ratings = [
            choice for choice in prompt.answer_field.allowed_values if isinstance(choice, int)
        ]
        for rating in ratings:
            if rating not in range(10):
                raise NoProbabilitiesError(f"{rating} on this scale may be several tokens")
    has_long_reply = reasoning_of(prompt.output_fields) in LONG_REASONING
    return Sampling(
        temperature=plan.temperature,
        n=plan.samples,
        seed=seed,
        max_tokens=LONG_REPLY_TOKENS if has_long_reply else SHORT_REPLY_TOKENS,
        top_logprobs=N_TOKEN_ALTERNATIVES if plan.kind == "weighted" else 0,
    )


def estimate_reply_tokens(prompt: Prompt, lm: str = "") -> int:
    """Estimate the tokens of a reply with its thoughts; 0 for a decision model."""
    if is_decision_model(lm):
        return 0
    n_tokens = REPLY_TOKENS[reasoning_of(prompt.output_fields)]
    if is_reasoning_model(lm):
        n_tokens += THOUGHT_TOKENS
    if prompt.question_fields:
        n_tokens += TOKENS_PER_ANSWER * len(prompt.choice_fields)
    return n_tokens


def read_text_reply(
    plan: SamplingPlan, prompt: Prompt, reply: Reply, names: Collection[str] = ()
) -> ReplyContent:
    """Read one reply. One of the dimension's `names` may stand before the answer: "Accuracy: 4".

    Raises NoScoreError if the reply states no clear answer, and NoProbabilitiesError if the plan is
    "weighted" and the reply has no log-probabilities.
    """
    values, position_by_name = read_reply(
        reply.text, prompt.output_fields, is_truncated=reply.is_truncated, names=names
    )
    is_weighted = plan.kind == "weighted"
    if is_weighted and not any(token.top_logprobs for token in reply.tokens):
        raise NoProbabilitiesError("the model gives no log-probabilities")
    distributions: dict[str, dict[float, float]] = {}
    for field in prompt.choice_fields:
        choice, probabilities = values[field.name], {values[field.name]: 1.0}
        if is_weighted:
            position = position_by_name[field.name][0]
            probabilities = _choice_probabilities(reply, position, choice, field.allowed_values)
        distributions[field.name] = {
            choice_number(each, field.allowed_values): p for each, p in probabilities.items()
        }
    value = choice_number(values[prompt.answer_field.name], prompt.answer_field.allowed_values)
    free_texts = [str(values[output.name]) for output in prompt.output_fields if not output.choices]
    free_text = "\n".join(filter(None, free_texts)) or None
    return ReplyContent(
        answer_number=value, free_text=free_text, distribution_by_field=distributions
    )


def read_decision_reply(prompt: Prompt, reply: Reply) -> ReplyContent:
    """Read the reply of a decision model; raises NoScoreError if an answer cannot be used."""
    answers = read_option_probabilities(
        {field.name: typed_question(field) for field in prompt.choice_fields}, reply
    )
    distributions: dict[str, dict[float, float]] = {}
    for field in prompt.choice_fields:
        # A question's options have the order of the choices: a verdict's good word comes first.
        numbers = [choice_number(choice, field.allowed_values) for choice in field.allowed_values]
        distributions[field.name] = dict(zip(numbers, answers[field.name].values(), strict=True))
    distribution = distributions[prompt.answer_field.name]
    likeliest = max(distribution, key=distribution.__getitem__)
    return ReplyContent(
        answer_number=likeliest, free_text=None, distribution_by_field=distributions
    )


def judgement_from_contents(
    plan: SamplingPlan, samples: Sequence[ReplyContent], failures: Sequence[str] = ()
) -> Judgement:
    """Return the judgement from the replies that were read; `failures` says why others were not."""
    if not samples:
        return Judgement.failed([*failures, "no reply"][0], unparsable=len(failures))
    answers = mean_answers(samples)
    distribution = {}
    for rating in sorted(set().union(*(sample.answer_distribution for sample in samples))):
        total = math.fsum(sample.answer_distribution.get(rating, 0.0) for sample in samples)
        distribution[int(rating)] = total / len(samples)
    return Judgement(
        score=list(answers.values())[-1],
        rating=int(samples[0].answer_number) if len(samples) == 1 else None,
        distribution=None if plan.kind == "one" else distribution,
        rationale=next((sample.free_text for sample in samples if sample.free_text), None),
        samples=len(samples),
        unparsable=len(failures),
        answers=answers if len(answers) > 1 else None,
    )


def mean_answers(samples: Sequence[ReplyContent]) -> dict[str, float]:
    """Return the mean of each answer over the samples, by field; the rating or verdict is last."""
    expectations: dict[str, list[float]] = {}
    for sample in samples:
        for name, distribution in sample.distribution_by_field.items():
            expectation = math.fsum(number * p for number, p in distribution.items())
            expectations.setdefault(name, []).append(expectation)
    return {name: math.fsum(values) / len(samples) for name, values in expectations.items()}


def _choice_probabilities(
    reply: Reply, position: int, value: FieldValue, choices: tuple[FieldValue, ...]
) -> dict[FieldValue, float]:
    """Return the choices' probabilities at the token of `value`; NoScoreError without any."""
    token_texts = [token.text.translate(_RAW_BLANK_MAP) for token in reply.tokens]
    # The tokens may include white space, or an end-of-turn token, that the reply's text lacks.
    reply_start = "".join(token_texts).find(reply.text)
    token_ends = accumulate(map(len, token_texts))
    tokens = zip(reply.tokens, token_ends, strict=True)
    token = next((token for token, end in tokens if end - reply_start > position), None)
    if token is None or reply_start < 0 or _choice_of_token(token.text, choices) != value:
        raise NoScoreError(f"no single token of the reply is the answer {value!r}")
    # The minimum keeps an impossible log-probability from overflowing; a NaN fails the comparison.
    top_probability = sum(math.exp(min(logprob, 1.0)) for logprob in token.top_logprobs.values())
    if not top_probability <= MAX_PROBABILITY_SUM:
        raise NoScoreError("the log-probabilities of a token are impossible")
    probability_sums = dict.fromkeys(choices, 0.0)
    for text, logprob in token.top_logprobs.items():
        if (choice := _choice_of_token(text, choices)) is not None:
            probability_sums[choice] += math.exp(logprob)
    total = math.fsum(probability_sums.values())
    if total <= 0:
        raise NoScoreError("none of the choices is among the likeliest tokens")
    return {choice: p / total for choice, p in probability_sums.items()}


@lru_cache(maxsize=4096)
def _choice_of_token(token: str, choices: tuple[FieldValue, ...]) -> FieldValue | None:
    """Return the choice of a token: a digit, a number word, or the start of a verdict's word."""
    text = unicodedata.normalize("NFKC", token.translate(_RAW_BLANK_MAP)).strip(_TOKEN_PADDING)
    if choices == PAIR_ANSWERS:  # the token "a" is usually an article
        return text if text in PAIR_ANSWERS else None
    text, choice_by_text = text.lower(), answer_patterns(choices, False).choice_by_text
    if text in choice_by_text:
        return choice_by_text[text]
    words = [
        word for word in verdict_words_of(choices) if text and str(word).lower().startswith(text)
    ]
    return words[0] if len(words) == 1 else None
