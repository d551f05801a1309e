"""A frozen tuned judge, twenty rows of the starter set, and a served model on 127.0.0.1."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from openai_server import Serving

import data
from judges.catalog.summeval import RELEVANCE
from judges.inference.session import open_runner
from judges.judge import Judge
from judges.judgement import Judgement
from judges.scoring import SamplingPlan
from judges.serving.answers import ServedEmbedded, ServedJudge, ServedModel
from judges.serving.server import Endpoint

N_ROWS, N_DEMOS = 20, 4


@cache
def starter() -> tuple[Judge, tuple[Mapping[str, str], ...]]:
    """The judge with demonstrations of the starter set, and rows that none of them shows."""
    texts = RELEVANCE.texts
    outputs = data.starter().outputs
    by_rating = sorted(outputs[:40], key=lambda output: output.ratings["relevance"])
    demos = [
        {
            **{name: output.texts[name] for name in texts},
            "rating": round(output.ratings["relevance"][0]),
        }
        for output in by_rating[:: len(by_rating) // N_DEMOS]
    ]
    judge = Judge.of(RELEVANCE).with_prompt(
        instruction="Rate how well the summary covers what matters in the document.", demos=demos
    )
    rows = tuple(
        {name: output.texts[name] for name in texts} for output in outputs[40 : 40 + N_ROWS]
    )
    return replace(judge, plan=SamplingPlan(kind="weighted")), rows


def one_reply() -> Judge:
    """The same judge under the plan that a tool can follow which takes a rating."""
    return starter()[0].with_plan(SamplingPlan(kind="one"))


def judged(judge: Judge) -> list[Judgement]:
    judgements = list(judge.judge_all(starter()[1]))
    assert all(isinstance(judgement, Judgement) for judgement in judgements)
    return judgements  # type: ignore[return-value]


@dataclass
class Served:
    """What `Serving` runs: an endpoint's application, and where it answers."""

    endpoint: Endpoint
    url: str = ""

    def app(self) -> Any:
        return self.endpoint.app()


@contextmanager
def serving(model: ServedModel, **options: Any) -> Iterator[str]:
    """Serve on a free port of 127.0.0.1; yields the address."""
    served = Served(Endpoint(model, **{"host": "127.0.0.1", **options}))
    with Serving(served):  # type: ignore[arg-type]
        yield served.url


@contextmanager
def serving_judge(judge: Judge, **options: Any) -> Iterator[str]:
    with judge.open(**options) as judge_rows, serving(ServedJudge.of(judge, judge_rows)) as url:
        yield url


@contextmanager
def serving_embedded(**options: Any) -> Iterator[str]:
    with open_runner(**options) as runner, serving(ServedEmbedded(runner)) as url:
        yield url
