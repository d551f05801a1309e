"""From replies to a score: one reply, the mean of n samples, or probabilities over the scale."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from dspy_judges.errors import OptionError
from judges.decisions import DECISION_SAMPLING, read_probabilities
from judges.judgement import Judgement, NoScoreError
from judges.prompt import Prompt, Reasoning, Value, reasoning_of, thinks_at_length, words_of
from judges.protocol import FatalModelError, Model, Reply, Sampling, is_decision, is_embedded
from judges.questions import number_of
from judges.reading import NUMBER_WORDS, read

PlanKind = Literal["one", "mean", "weighted"]
MOST_SAMPLES = 100
# Default max_tokens of a reply, without and with reasoning at length.
SHORT_REPLY, LONG_REPLY = 512, 1024
# Tokens of an average reply, without the thoughts of a reasoning model.
REPLY_TOKENS: Mapping[Reasoning, int] = {"none": 4, "brief": 60, "steps": 200, "questions": 220}
# Tokens of a question's answer with its header.
ANSWER_TOKENS = 9
# Alternatives for a token: the most that OpenAI-compatible endpoints give.
ALTERNATIVES = 20
# Blanks as raw vocabularies write them, and characters beside a rating within its token.
_RAW = str.maketrans("Ġ▁Ċ", "  \n")
_TOKEN_PADDING = " \t\r\n*_\"'`()[]:.,"
MAX_TOTAL = 1.01  # of a token's probabilities, which are rounded


class NoProbabilitiesError(FatalModelError):
    """The plan needs log-probabilities and the model gives none. It ends the run."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the plan 'weighted' needs log-probabilities of ratings, and {reason}; use the plan "
            "'one' (a single reply) or 'mean' (--plan mean --samples 20)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How replies make a score.

    Args:
        kind: "one" takes the rating of a single reply, "mean" the mean over several. "weighted"
            takes one reply and weights each rating by its token's probability (G-Eval,
            arXiv:2303.16634, equation 1), for which a model has to give log-probabilities.
        samples: The replies of a mean, 1 to 100.
        temperature: Of the replies, 0 or more; None leaves it to the model.

    Raises:
        OptionError: A number of samples that the kind cannot have.
    """

    kind: PlanKind
    samples: int = 1
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= (MOST_SAMPLES if self.kind == "mean" else 1):
            raise OptionError(
                f"plan {self.kind!r} with {self.samples} samples; 'mean' takes 1 to {MOST_SAMPLES}"
            )


ONE, WEIGHTED = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reply as read: its free text, and its answers as numbers (see `number_of`).

    `value` is the judge's rating, verdict or choice. `answers` has every answer by its field, that
    one last; each is an expectation if the plan is "weighted". Only then are there `probabilities`:
    those of each possible `value`, with a sum of 1.
    """

    value: float
    text: str | None
    answers: Mapping[str, float]
    probabilities: Mapping[float, float] | None = None


def default_plan(model: Model) -> SamplingPlan:
    """The default plan of its endpoint, at the model's own temperature if it has one."""
    plan = plan_at(model.name if is_decision(model.name) else model.endpoint)
    return replace(plan, temperature=getattr(model, "temperature", plan.temperature))


def plan_at(lm: str) -> SamplingPlan:
    """The default plan: one reply, or weighted for the embedded model and a decision model."""
    return WEIGHTED if is_embedded(lm) or is_decision(lm) else ONE


def sampling_of(plan: SamplingPlan, prompt: Prompt, *, seed: int = 0, lm: str = "") -> Sampling:
    """The sampling of a plan; a judge that reasons at length gets more tokens.

    Raises NoProbabilitiesError where a rating of the scale may be two tokens for the model `lm`, as
    "10": the probability of the token "1" is then not that of a rating.
    """
    if is_decision(lm):
        return DECISION_SAMPLING
    if lm and plan.kind == "weighted" and not is_embedded(lm):
        choices = [choice for field in prompt.choices for choice in field.options]
        if longer := [n for n in choices if isinstance(n, int) and n not in range(10)]:
            raise NoProbabilitiesError(f"{longer[0]} on this scale may be several tokens")
    return Sampling(
        temperature=plan.temperature,
        n=plan.samples,
        seed=seed,
        max_tokens=LONG_REPLY if thinks_at_length(prompt.outputs) else SHORT_REPLY,
        top_logprobs=ALTERNATIVES if plan.kind == "weighted" else 0,
    )


def check_probabilities(plan: SamplingPlan, model: Model) -> None:
    """Raise NoProbabilitiesError where a plan needs what a model is known not to give."""
    if plan.kind == "weighted" and model.has_logprobs is False:
        raise NoProbabilitiesError(f"{model.name} gives no log-probabilities")


def reply_tokens(prompt: Prompt, lm: str = "") -> int:
    """About how many tokens a reply has, without thoughts; a decision model writes none."""
    if is_decision(lm):
        return 0
    n_questions = len(prompt.questions)
    return REPLY_TOKENS[reasoning_of(prompt)] + ANSWER_TOKENS * (n_questions + bool(n_questions))


def read_sample(
    plan: SamplingPlan, prompt: Prompt, reply: Reply, names: Collection[str] = ()
) -> Sample:
    """Read one reply; `names` are what its dimension is called.

    Raises NoScoreError, and NoProbabilitiesError where "weighted" has none.
    """
    outputs = prompt.outputs
    reading = read(reply.text, outputs, truncated=reply.truncated, names=names)
    values = reading.values
    texts = [str(values[output.name]) for output in outputs if not output.choices]
    if plan.kind == "weighted" and not any(token.top for token in reply.tokens):
        raise NoProbabilitiesError("the model gives no log-probabilities")
    answers, value, probabilities = {}, math.nan, None
    # The judge's own answer is the last of the choices.
    for field in prompt.choices:
        choices = field.options
        answers[field.name] = value = number_of(values[field.name], choices)
        if plan.kind == "weighted":
            place = reading.spans[field.name][0]
            by_choice = _probabilities(reply, place, values[field.name], choices)
            probabilities = {number_of(choice, choices): p for choice, p in by_choice.items()}
            answers[field.name] = math.fsum(number * p for number, p in probabilities.items())
    text = "\n".join(filter(None, texts)) or None
    return Sample(value=value, text=text, answers=answers, probabilities=probabilities)


def read_decision(prompt: Prompt, reply: Reply) -> Sample:
    """Read a decision model's reply; raises NoScoreError."""
    by_field, answers, probabilities = json.loads(reply.text), {}, {}
    # The judge's own answer is the last of the choices.
    for field in prompt.choices:
        probabilities = read_probabilities(field, by_field.get(field.name, "it was not asked"))
        answers[field.name] = math.fsum(number * p for number, p in probabilities.items())
    likeliest = max(probabilities, key=probabilities.__getitem__)
    return Sample(value=likeliest, text=None, answers=answers, probabilities=probabilities)


def score_of(
    plan: SamplingPlan, samples: Sequence[Sample], failures: Sequence[str] = ()
) -> Judgement:
    """The judgement from all samples that could be read, and the reasons why others could not.

    Without any sample the judgement has failed.
    """
    if not samples:
        return Judgement.failed([*failures, "no reply"][0], unparsable=len(failures))
    ratings = [int(sample.value) for sample in samples]
    answers = mean_answers(samples)
    distribution: dict[int, float] | None = None
    if (probabilities := samples[0].probabilities) is not None:
        distribution = dict(sorted((int(rating), p) for rating, p in probabilities.items()))
    elif plan.kind == "mean":
        counts = Counter(ratings)
        distribution = {rating: counts[rating] / len(ratings) for rating in sorted(counts)}
    return Judgement(
        score=next(reversed(answers.values())),
        rating=ratings[0] if len(ratings) == 1 else None,
        distribution=distribution,
        rationale=next((sample.text for sample in samples if sample.text), None),
        samples=len(samples),
        unparsable=len(failures),
        answers=answers if len(answers) > 1 else None,
    )


def mean_answers(samples: Sequence[Sample]) -> dict[str, float]:
    """The mean of each answer over the samples, by its field; the judge's own answer is last."""
    return {
        name: math.fsum(sample.answers[name] for sample in samples) / len(samples)
        for name in samples[0].answers
    }


def _probabilities(
    reply: Reply, place: int, value: Value, choices: tuple[Value, ...]
) -> dict[Value, float]:
    """The choices' probabilities, renormalised, at the token of the reply that starts at `place`.

    Raises NoScoreError where that token is not `value`, and for impossible log-probabilities.
    """
    spelling = _TokenSpelling(choices)
    texts = [token.text.translate(_RAW) for token in reply.tokens]
    # Tokens may include blanks, or the end of a turn, that the reply's text does not.
    start = "".join(texts).find(reply.text)
    ends = accumulate(map(len, texts))
    at_place = (t for t, end in zip(reply.tokens, ends, strict=True) if end - start > place)
    token = next(at_place, None)
    if token is None or start < 0 or spelling.choice(token.text) != value:
        raise NoScoreError(f"no token of the reply is its choice {value!r}")
    logprobs = token.top.values()
    # One above 0, or NaN, would overflow or spoil the sum.
    if not all(p <= MAX_TOTAL - 1 for p in logprobs) or sum(map(math.exp, logprobs)) > MAX_TOTAL:
        raise NoScoreError("the log-probabilities of a token are impossible")
    mass = dict.fromkeys(choices, 0.0)
    for text, logprob in token.top.items():
        if (choice := spelling.choice(text)) is not None:
            mass[choice] += math.exp(logprob)
    total = math.fsum(mass.values())
    if total <= 0:
        raise NoScoreError("none of the choices is among the likeliest tokens")
    return {choice: p / total for choice, p in mass.items()}


class _TokenSpelling:
    """The tokens by which a model writes each choice.

    A digit and its word, with and without a leading blank, are the same rating. The beginning of a
    verdict's word counts where the other word begins differently.
    """

    def __init__(self, choices: tuple[Value, ...]) -> None:
        self._words = {str(word).lower(): word for word in words_of(choices)}
        numbers: dict[str, Value] = {word: n for n, word in enumerate(NUMBER_WORDS) if n in choices}
        self._choices = numbers | (self._words or {str(choice): choice for choice in choices})

    def choice(self, token: str) -> Value | None:
        """The choice that a token writes; None for any other token."""
        text = unicodedata.normalize("NFKC", token.translate(_RAW)).strip(_TOKEN_PADDING)
        # "a" is an article more often than a choice, so that letters keep their case.
        for spelling in (text, text.lower()):
            if spelling in self._choices:
                return self._choices[spelling]
        starts = [word for word in self._words if text and word.startswith(text.lower())]
        return self._words[starts[0]] if len(starts) == 1 else None
