"""From replies to a score: one reply, the mean of n samples, or probabilities over the scale."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judges.errors import OptionError
from judges.judgement import Judgement
from judges.parsing.parse import parse_fields
from judges.parsing.probabilities import chosen_token, over_choices
from judges.prompt import Field, Prompt, Value
from judges.protocol import FatalModelError, Model, Reply, Sampling, is_embedded

PlanKind = Literal["one", "mean", "weighted"]
# The most alternatives that OpenAI-compatible endpoints give for a token.
ALTERNATIVES = 20


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
    """Weighted for the embedded model, whose probabilities cost nothing; else one reply."""
    return SamplingPlan(kind="weighted" if is_embedded(model.endpoint) else "one")


def sampling_of(plan: SamplingPlan, *, seed: int = 0, max_tokens: int = 512) -> Sampling:
    """Return what to ask a model for under `plan`."""
    sampling = Sampling(
        temperature=plan.temperature, n=plan.samples, seed=seed, max_tokens=max_tokens
    )
    return replace(sampling, top_logprobs=ALTERNATIVES) if plan.kind == "weighted" else sampling


def check_probabilities(plan: SamplingPlan, model: Model) -> None:
    """Raise NoProbabilitiesError where the plan asks for what the model is known not to give."""
    if plan.kind == "weighted" and model.has_logprobs is False:
        raise NoProbabilitiesError(_no_probabilities(model.name))


def read_sample(
    plan: SamplingPlan, prompt: Prompt, reply: Reply, names: Collection[str] = ()
) -> Sample:
    """Read one reply; `names` are what its dimension is called.

    Raises NoScoreError, and NoProbabilitiesError where "weighted" has none.
    """
    outputs = prompt.outputs
    values = parse_fields(reply.text, outputs, truncated=reply.truncated, names=names)
    field = scored_field(outputs)
    texts = [str(values[output.name]) for output in outputs if not output.choices]
    sample = Sample(value=values[field.name], text="\n".join(filter(None, texts)) or None)
    if plan.kind != "weighted":
        return sample
    if not any(token.top for token in reply.tokens):
        raise NoProbabilitiesError(_no_probabilities("the model"))
    assert field.choices is not None
    place = chosen_token(reply, outputs, field, sample.value)
    probabilities, outside = over_choices(reply.tokens[place:], field.choices)
    return replace(sample, probabilities=probabilities, outside=outside)


def scored_field(outputs: Sequence[Field]) -> Field:
    """Return the one output that holds the score: the last with choices."""
    return next(field for field in reversed(outputs) if field.choices)


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
        "(a single reply) or 'mean' (--samples 20 --temperature 2) instead"
    )
