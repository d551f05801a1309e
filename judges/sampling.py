"""From replies to a score: one reply, the mean of n samples, or probabilities over the scale."""

from dataclasses import dataclass
from typing import Literal

PlanKind = Literal["one", "mean", "weighted"]


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
            raise ValueError(f"plan {self.kind!r} with {self.samples} samples; 'mean' takes n >= 1")
