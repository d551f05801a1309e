"""How replies become a score: one reply, the mean of n, or ratings weighted by probabilities."""

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
from judges.prompt import LONG_REASONING, Field, FieldValue, Prompt, Reasoning
from judges.protocol import (
    FatalModelError,
    Model,
    ModelTraits,
    Reply,
    Sampling,
    Token,
    is_decision_model,
    is_embedded,
    is_reasoning_model,
)
from judges.reading import read_reply

PlanKind = Literal["one", "mean", "weighted"]
MAX_SAMPLES = 100
# The default `max_tokens` of a reply: the larger one is for reasoning in steps or questions.
SHORT_REPLY_MAX_TOKENS, LONG_REPLY_MAX_TOKENS = 512, 1024
# The tokens of an average reply, by the kind of reasoning in it.
REPLY_TOKENS: Mapping[Reasoning, int] = {"none": 4, "brief": 60, "steps": 200, "questions": 220}
# The tokens that a reasoning model thinks before an average reply.
THOUGHT_TOKENS = 400
# The tokens of the answer to one question, with its header.
TOKENS_PER_ANSWER = 9
# The number of likeliest tokens to ask for at each position: the most that OpenAI's API allows.
N_TOKEN_ALTERNATIVES = 20
# Maps white space in the notation of raw tokenizer vocabularies to plain white space.
_RAW_BLANK_MAP = str.maketrans("Ġ▁Ċ", "  \n")
# Characters that a token may have around the rating.
_TOKEN_PADDING = " \t\r\n*_\"'`()[]:.,"
# The largest sum of a token's probabilities; it is above 1, since models round probabilities.
MAX_PROBABILITY_SUM = 1.01


class NoProbabilitiesError(FatalModelError):
    """Ends a run whose plan needs log-probabilities, if the model gives none."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the plan 'weighted' needs log-probabilities of ratings, and {reason}; use the plan "
            "'one' or 'mean' (tune and score take --plan mean --samples 20)"
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


@dataclass(frozen=True, slots=True)
class ReplyContent:
    """What was read from one reply: the rating, verdict or choice as a number, and its free text.

    `distributions` has the probability of each number that the answer of a field can be; the
    rating, verdict or choice is last. Without token probabilities, the stated answer
    has the probability 1.
    """

    answer_number: float
    free_text: str | None
    distributions: dict[str, dict[float, float]]  # by field

    @property
    def answer_distribution(self) -> dict[float, float]:
        """The distribution of the rating, verdict or choice."""
        return list(self.distributions.values())[-1]


def default_plan(model: Model) -> SamplingPlan:
    """Return the default plan for a model, with the model's own temperature if it has one."""
    plan = default_plan_for_name(model.name if is_decision_model(model.name) else model.endpoint)
    return replace(plan, temperature=ModelTraits.of(model).temperature)


def default_plan_for_name(lm: str) -> SamplingPlan:
    """Return the default plan: weighted for the embedded and decision models, else one reply."""
    return WEIGHTED_PLAN if is_embedded(lm) or is_decision_model(lm) else ONE_REPLY_PLAN


def sampling_for(plan: SamplingPlan, prompt: Prompt, *, seed: int = 0, lm: str = "") -> Sampling:
    """Return the sampling parameters for a plan; `lm` is the model's name or endpoint, if known.

    Raises NoProbabilitiesError if the plan is "weighted" and a rating may be two tokens, such as
    10: the probability of the token "1" is then not the probability of the rating 1.
    """
    if is_decision_model(lm):
        return DECISION_SAMPLING
    is_weighted = plan.kind == "weighted"
    if lm and is_weighted and not is_embedded(lm):
        for rating in prompt.answer_field.allowed_values:
            if isinstance(rating, int) and rating not in range(10):
                raise NoProbabilitiesError(f"{rating} on this scale may be several tokens")
    has_long_reply = prompt.reasoning in LONG_REASONING
    return Sampling(
        temperature=plan.temperature,
        n=plan.samples,
        seed=seed,
        max_tokens=LONG_REPLY_MAX_TOKENS if has_long_reply else SHORT_REPLY_MAX_TOKENS,
        top_logprobs=N_TOKEN_ALTERNATIVES if is_weighted else 0,
    )


def estimate_reply_tokens(prompt: Prompt, lm: str = "") -> int:
    """Estimate the tokens of a reply with its thoughts; 0 if the model returns no text."""
    if is_decision_model(lm):
        return 0
    n_tokens = REPLY_TOKENS[prompt.reasoning]
    if is_reasoning_model(lm):
        n_tokens += THOUGHT_TOKENS
    if prompt.question_fields:
        n_tokens += TOKENS_PER_ANSWER * len(prompt.choices)
    return n_tokens


def read_text_reply(
    plan: SamplingPlan, prompt: Prompt, reply: Reply, dimension_names: Collection[str] = ()
) -> ReplyContent:
    """Read a chat model's reply. A name of the dimension may stand before the answer: "Tone: 4".

    Raises NoScoreError if the reply states no clear answer, and NoProbabilitiesError if the plan is
    "weighted" and the reply has no log-probabilities.
    """
    values, positions = read_reply(reply.text, prompt, reply.is_truncated, dimension_names)
    is_weighted = plan.kind == "weighted"
    if is_weighted and not any(token.top_logprobs for token in reply.tokens):
        raise NoProbabilitiesError("the model gives no log-probabilities")
    distributions: dict[str, dict[float, float]] = {}
    for field in prompt.choices:
        choice, numbers = values[field.name], field.number_by_choice
        probabilities = {choice: 1.0}
        if is_weighted:
            probabilities = _token_probabilities(reply, positions[field.name], choice, field)
        distributions[field.name] = {numbers[choice]: p for choice, p in probabilities.items()}
    answer_field = prompt.answer_field
    answer_number = answer_field.number_by_choice[values[answer_field.name]]
    free_texts = [str(values[field.name]) for field in prompt.output_fields if not field.choices]
    free_text = "\n".join(filter(None, free_texts)) or None
    return ReplyContent(answer_number, free_text, distributions)


def read_decision_reply(prompt: Prompt, reply: Reply) -> ReplyContent:
    """Read the reply of a decision model; raises NoScoreError if an answer cannot be used."""
    questions = {field.name: typed_question(field) for field in prompt.choices}
    probabilities_by_question = read_option_probabilities(questions, reply)
    distributions: dict[str, dict[float, float]] = {}
    for field in prompt.choices:
        # The options have the order of the choices: a verdict's good word comes first.
        numbers, probabilities = field.number_by_choice, probabilities_by_question[field.name]
        distributions[field.name] = dict(zip(numbers.values(), probabilities.values(), strict=True))
    distribution = distributions[prompt.answer_field.name]
    return ReplyContent(max(distribution, key=distribution.__getitem__), None, distributions)


def judgement_from_contents(
    plan: SamplingPlan, contents: Sequence[ReplyContent], failures: Sequence[str] = ()
) -> Judgement:
    """Return the judgement from the replies that were read; `failures` says why others were not."""
    if not contents:
        return Judgement.failed([*failures, "no reply"][0], unparsable=len(failures))
    answers, distribution = mean_answers(contents), dict[int, float]()
    distributions = [content.answer_distribution for content in contents]
    for rating in sorted(set().union(*distributions)):
        probabilities = [probability.get(rating, 0.0) for probability in distributions]
        distribution[int(rating)] = math.fsum(probabilities) / len(contents)
    return Judgement(
        score=list(answers.values())[-1],
        rating=int(contents[0].answer_number) if len(contents) == 1 else None,
        distribution=None if plan.kind == "one" else distribution,
        rationale=next((content.free_text for content in contents if content.free_text), None),
        samples=len(contents),
        unparsable=len(failures),
        answers=answers if len(answers) > 1 else None,
    )


def mean_answers(contents: Sequence[ReplyContent]) -> dict[str, float]:
    """Return the mean of each answer over the replies, by field; the rating or verdict is last."""
    mean_by_field = {}
    for name in contents[0].distributions if contents else ():
        distributions = [content.distributions[name] for content in contents]
        expectations = [math.fsum(n * p for n, p in shares.items()) for shares in distributions]
        mean_by_field[name] = math.fsum(expectations) / len(contents)
    return mean_by_field


def _token_probabilities(
    reply: Reply, position: int, choice: FieldValue, field: Field
) -> dict[FieldValue, float]:
    """Return the probability of each choice; the token at `position` must state `choice`."""
    token = _token_at(reply, position)
    if token is None or _choice_of_token(token.text, field) != choice:
        raise NoScoreError(f"no single token of the reply is the answer {choice!r}")
    # `min` keeps a huge log-probability from overflowing; a NaN fails the comparison below.
    probability_sum = sum(math.exp(min(logprob, 1.0)) for logprob in token.top_logprobs.values())
    if not probability_sum <= MAX_PROBABILITY_SUM:
        raise NoScoreError("the log-probabilities of a token are impossible")
    probabilities = dict.fromkeys(field.allowed_values, 0.0)
    for token_text, logprob in token.top_logprobs.items():
        token_choice = _choice_of_token(token_text, field)
        if token_choice is not None:
            probabilities[token_choice] += math.exp(logprob)
    probability_total = math.fsum(probabilities.values())
    if probability_total <= 0:
        raise NoScoreError("none of the choices is among the likeliest tokens")
    return {choice: p / probability_total for choice, p in probabilities.items()}


def _token_at(reply: Reply, position: int) -> Token | None:
    """Return the token at a position of the reply's text; None if the tokens spell another text."""
    token_texts = [token.text.translate(_RAW_BLANK_MAP) for token in reply.tokens]
    # The tokens may include white space, or an end-of-turn token, that the reply's text lacks.
    reply_start = "".join(token_texts).find(reply.text)
    if reply_start < 0:
        return None
    tokens_and_ends = zip(reply.tokens, accumulate(map(len, token_texts)), strict=True)
    return next((token for token, end in tokens_and_ends if end - reply_start > position), None)


@lru_cache(maxsize=4096)
def _choice_of_token(token_text: str, field: Field) -> FieldValue | None:
    """Return the choice that a token states: a digit, a number word, or a verdict's word."""
    text = unicodedata.normalize("NFKC", token_text.translate(_RAW_BLANK_MAP))
    text = text.strip(_TOKEN_PADDING)
    if field.is_pairwise:  # the token "a" is usually an article
        return text if text in field.allowed_values else None
    text = text.lower()
    choice_by_text = answer_patterns(field.allowed_values).choice_by_text
    if not text or text in choice_by_text:
        return choice_by_text.get(text)
    matching_words = [word for word in field.verdict_words if str(word).lower().startswith(text)]
    return matching_words[0] if len(matching_words) == 1 else None
