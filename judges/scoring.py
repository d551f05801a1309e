"""From replies to a score: one reply, the mean of n samples, or probabilities over the scale."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from dspy_judges.errors import OptionError
from judges.client.protocol import FatalModelError, Model, Reply, Sampling, Token, is_embedded
from judges.judgement import Judgement, NoScoreError
from judges.parsing.parse import content_span, parse_fields
from judges.parsing.rating import NUMBER_WORDS
from judges.parsing.text import TURN_END
from judges.prompt import Prompt, Reasoning, Value, reasoning_of, thinks_at_length

PlanKind = Literal["one", "mean", "weighted"]
# The most tokens of a reply, unless the user or the model says otherwise.
SHORT_REPLY, LONG_REPLY = 512, 1024
# How many it has on average, thoughts of a reasoning model not counted.
REPLY_TOKENS: Mapping[Reasoning, int] = {"none": 4, "brief": 60, "steps": 200, "questions": 220}
# The most alternatives that OpenAI-compatible endpoints give for a token.
ALTERNATIVES = 20
# What may be glued to a rating inside its token: markup, and how raw vocabularies show a space.
_TOKEN_PADDING = " \t\r\n*_\"'`()[]:.,Ġ▁Ċ"
_MENTION = re.compile(r"\b(?:score|rating|answer|preferred|prefer|therefore)\b", re.IGNORECASE)
# Of the tokens that may be a reply's choice, how many are looked at closely.
MOST_CHECKED = 20
MAX_TOTAL_PROBABILITY = 1.01  # of a token's probabilities, which are rounded


class NoProbabilitiesError(FatalModelError):
    """The plan needs log-probabilities and the model gives none: a wrong set-up, not a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How many replies make a score.

    one: the rating of a single reply. mean: the mean over `samples` replies at `temperature`.
    weighted: one reply, each rating weighted by its token's probability (G-Eval, arXiv:2303.16634,
    equation 1); needs a model that gives log-probabilities.
    """

    kind: PlanKind
    samples: int = 1
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        if self.samples < 1 or (self.kind != "mean" and self.samples != 1):
            raise OptionError(
                f"plan {self.kind!r} with {self.samples} samples; 'mean' takes n >= 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one reply says: the value of the field with choices, and the free text beside it.

    `probabilities` are over all the choices and sum to 1; None unless the plan is "weighted".
    `outside` is the probability that the model put on no choice at all.
    """

    value: Value
    text: str | None
    probabilities: Mapping[Value, float] | None = None
    outside: float | None = None


def default_plan(model: Model) -> SamplingPlan:
    """The plan of its endpoint, at the model's own temperature where it has one."""
    plan = plan_at(model.endpoint)
    return replace(plan, temperature=getattr(model, "temperature", plan.temperature))


def plan_at(endpoint: str) -> SamplingPlan:
    """Weighted for the embedded model, whose probabilities cost nothing; else one reply."""
    return SamplingPlan(kind="weighted" if is_embedded(endpoint) else "one")


def sampling_of(plan: SamplingPlan, prompt: Prompt, *, seed: int = 0) -> Sampling:
    """Return what to ask a model for under `plan`; what thinks in writing may write for longer."""
    sampling = Sampling(
        temperature=plan.temperature,
        n=plan.samples,
        seed=seed,
        max_tokens=LONG_REPLY if thinks_at_length(prompt.outputs) else SHORT_REPLY,
    )
    return replace(sampling, top_logprobs=ALTERNATIVES) if plan.kind == "weighted" else sampling


def reply_tokens(prompt: Prompt) -> int:
    """About how many tokens a reply has that no thoughts precede."""
    return REPLY_TOKENS[reasoning_of(prompt)]


def check_probabilities(plan: SamplingPlan, prompt: Prompt, model: Model) -> None:
    """Raise NoProbabilitiesError where the plan asks for what the model is known not to give.

    A language model may write "10" as two tokens: the probability of its "1" is then no rating's.
    """
    if plan.kind != "weighted":
        return
    if model.has_logprobs is False:
        raise NoProbabilitiesError(_no_probabilities(model.name))
    longer = [choice for choice in prompt.answer.choices or () if choice not in range(10)]
    if not is_embedded(model.endpoint) and any(isinstance(choice, int) for choice in longer):
        raise NoProbabilitiesError(
            f"the plan 'weighted' needs ratings of one digit, and {longer[0]} is on this scale; "
            "use the plan 'one' or 'mean'"
        )


def read_sample(
    plan: SamplingPlan, prompt: Prompt, reply: Reply, names: Collection[str] = ()
) -> Sample:
    """Read one reply; `names` are what its dimension is called.

    Raises NoScoreError, and NoProbabilitiesError where "weighted" has none.
    """
    outputs = prompt.outputs
    values = parse_fields(reply.text, outputs, truncated=reply.truncated, names=names)
    field = prompt.answer
    texts = [str(values[output.name]) for output in outputs if not output.choices]
    sample = Sample(value=values[field.name], text="\n".join(filter(None, texts)) or None)
    if plan.kind != "weighted":
        return sample
    if not any(token.top for token in reply.tokens):
        raise NoProbabilitiesError(_no_probabilities("the model"))
    assert field.choices is not None
    index = chosen_token(reply, prompt, sample.value, names)
    probabilities, outside = over_choices(reply.tokens[index], field.choices)
    return replace(sample, probabilities=probabilities, outside=outside)


def score_of(
    plan: SamplingPlan, samples: Sequence[Sample], failures: Sequence[str] = ()
) -> Judgement:
    """Make one judgement of the samples that could be read and the reasons of those that not.

    Unparsable samples are left out and counted; with nothing else the judgement has failed.
    """
    if not samples:
        reason = failures[0] if failures else "no reply"
        return Judgement.failed(reason, unparsable=len(failures))
    ratings = [int(sample.value) for sample in samples]
    rationale = next((sample.text for sample in samples if sample.text), None)
    score = math.fsum(ratings) / len(ratings)
    distribution: dict[int, float] | None = None
    outside = samples[0].outside
    if plan.kind == "weighted":
        assert samples[0].probabilities is not None
        distribution = {int(rating): p for rating, p in samples[0].probabilities.items()}
        score = math.fsum(rating * p for rating, p in distribution.items())
    elif plan.kind == "mean":
        counts = Counter(ratings)
        distribution = {rating: counts[rating] / len(ratings) for rating in sorted(counts)}
    return Judgement(
        score=score,
        rating=ratings[0] if len(ratings) == 1 else None,
        distribution=distribution,
        rationale=rationale,
        samples=len(samples),
        unparsable=len(failures),
        outside=outside,
    )


def margin_of(plan: SamplingPlan, samples: Sequence[Sample], sides: Sequence[Value]) -> float:
    """Return P(first side) - P(second side): probabilities if weighted, else shares of samples."""
    first, second = sides
    if plan.kind == "weighted":
        probabilities = samples[0].probabilities
        assert probabilities is not None
        return probabilities[first] - probabilities[second]
    values = [sample.value for sample in samples]
    return (values.count(first) - values.count(second)) / len(values)


def _no_probabilities(model: str) -> str:
    return (
        f"{model} gives no log-probabilities, which the plan 'weighted' needs; use the plan 'one' "
        "(a single reply) or 'mean' (--plan mean --samples 20) instead"
    )


def chosen_token(reply: Reply, prompt: Prompt, value: Value, names: Collection[str] = ()) -> int:
    """Return the index of the token that is `value`, the choice that was read off the reply.

    It is looked for in the field's own section. Of several, it is the first that decides alone how
    the reply is read; else, without headers, the first after the last mention of a score, or from
    the start of the answer. Raises NoScoreError where no token is the value.
    """
    start, end, headed = content_span(reply.text, prompt.outputs, prompt.answer.name)
    mentions = () if headed else _MENTION.finditer(reply.text, start, end)
    starts = {start, max((match.end() for match in mentions), default=start)}
    tokens = _without_turn_end(reply)
    # Where tokens do not spell the reply (raw vocabularies), the end alone is known.
    place = len(reply.text) - sum(len(token.text) for token in tokens)
    places = list(accumulate((len(token.text) for token in tokens), initial=place))
    equal = [
        index
        for index, token in enumerate(tokens)
        if start < places[index + 1] <= end + len(token.text)
        and _choice_of_token(token.text, (value,)) == value
    ]
    if len(equal) > 1:
        for index in equal[:MOST_CHECKED]:
            if _decides(reply, prompt, value, places[index], places[index + 1], names):
                return index
    for first in sorted(starts, reverse=True):
        for index in equal:
            if places[index + 1] > first:
                return index
    raise NoScoreError(f"no token of the reply is its choice {value!r}")


def _without_turn_end(reply: Reply) -> Sequence[Token]:
    """The tokens of the reply's text; the one that ends a turn may stand behind them."""
    tokens = reply.tokens
    while tokens and TURN_END.fullmatch(last := tokens[-1].text) and not reply.text.endswith(last):
        tokens = tokens[:-1]
    return tokens


def _decides(
    reply: Reply, prompt: Prompt, value: Value, start: int, end: int, names: Collection[str]
) -> bool:
    """Whether the reply with another choice in this place would be read as that choice."""
    text, choices = reply.text, prompt.answer.choices
    if start < 0 or not choices or _choice_of_token(text[start:end], (value,)) != value:
        return False
    other = next(choice for choice in choices if choice != value)
    changed = text[:start] + re.sub(r"\w+", str(other), text[start:end], count=1) + text[end:]
    try:
        values = parse_fields(changed, prompt.outputs, truncated=reply.truncated, names=names)
    except NoScoreError:
        return False
    return values[prompt.answer.name] == other


def over_choices(token: Token, choices: Sequence[Value]) -> tuple[dict[Value, float], float]:
    """Return the probability of each choice, summing to 1, and the mass that was on none.

    A digit and its word, with and without a leading space, are one rating.
    """
    mass = dict.fromkeys(choices, 0.0)
    _check_probabilities_sum(token)
    for text, logprob in token.top.items():
        choice = _choice_of_token(text, choices)
        if choice is not None:
            mass[choice] += math.exp(logprob)
    total = math.fsum(mass.values())
    if total <= 0:
        raise NoScoreError("none of the choices is among the likeliest tokens")
    return {choice: p / total for choice, p in mass.items()}, max(0.0, 1.0 - total)


def _check_probabilities_sum(token: Token) -> None:
    """Raise NoScoreError where log-probabilities are impossible: not every client checks them."""
    if not all(
        logprob <= MAX_TOTAL_PROBABILITY - 1 for logprob in token.top.values()
    ):  # NaN is not
        raise NoScoreError("a log-probability is above 0 or undefined")
    if math.fsum(map(math.exp, token.top.values())) > MAX_TOTAL_PROBABILITY:
        raise NoScoreError("a token's probabilities sum to more than 1")


def _normalised_token(text: str) -> str:
    """A token in lower case, without the markup and blanks around it."""
    return unicodedata.normalize("NFKC", text).strip(_TOKEN_PADDING).lower()


def _choice_of_token(text: str, choices: Sequence[Value]) -> Value | None:
    """Return the choice a whole token stands for, if any."""
    word = _normalised_token(text)
    for choice in choices:
        if word == str(choice).lower():
            # "a" is an article more often than a choice.
            return (
                choice if isinstance(choice, int) or text.strip(_TOKEN_PADDING) == choice else None
            )
    number = NUMBER_WORDS.index(word) if word in NUMBER_WORDS else None
    return number if number in choices else None
