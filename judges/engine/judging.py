"""Judge many outputs or pairs: from rows to asks, and from answers to judgements and verdicts."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from judges.engine.asks import Answer, Ask
from judges.judgement import Choice, Judgement, NoScoreError, Verdict
from judges.models.protocol import Message, Reply
from judges.prompt import Prompt, fill, restated
from judges.scoring import (
    NoProbabilitiesError,
    Sample,
    SamplingPlan,
    check_model,
    margin_of,
    read_sample,
    sampling_of,
    score_of,
    scored_field,
)

if TYPE_CHECKING:
    from judges.engine.runner import Runner

Order = Literal["both", "random"]
Shown = Literal["ab", "ba"]
Vote = Literal["A", "B", "tie"]


def judge_outputs(
    prompt: Prompt,
    plan: SamplingPlan,
    rows: Iterable[Mapping[str, str]],
    runner: "Runner",
    *,
    seed: int = 0,
    template: list[Message] | None = None,
) -> Iterator[Judgement]:
    """Judge each row's texts, in order and streaming: rows are pulled as answers come.

    `seed` is handed to the model, for the samples it draws. `template` is sent in place of what
    the prompt renders to.
    Raises NoProbabilitiesError before anything is sent where the model cannot follow the plan, and
    KeyError where a row lacks a text.
    """
    check_model(plan, runner.model)
    ask = _asker(prompt, plan, seed, template or prompt.template())
    for answer in runner.run(ask(row) for row in rows):
        yield _judgement(plan, answer)


def judge_pairs(
    prompt: Prompt,
    fields: tuple[str, str],
    plan: SamplingPlan,
    rows: Iterable[Mapping[str, str]],
    runner: "Runner",
    *,
    order: Order = "both",
    seed: int = 0,
    template: list[Message] | None = None,
) -> Iterator[Verdict]:
    """Compare each row's two candidates (`fields`, the pair's own A and B), in order and streaming.

    "both" asks each pair twice, the second time with the sides swapped; a choice that follows the
    position is a tie. "random" asks once, in an order drawn for each pair from `seed`, which
    `order_ab` or `order_ba` then tells.
    """
    check_model(plan, runner.model)
    ask = _asker(prompt, plan, seed, template or prompt.template())
    draw = np.random.default_rng(seed)
    pending: deque[Sequence[Shown]] = deque()

    def asks() -> Iterator[Ask]:
        for row in rows:
            shown = _orders(order, draw)
            pending.append(shown)
            for side in shown:
                yield ask(row if side == "ab" else _swapped(row, fields))

    sides = cast("tuple[Choice, Choice]", scored_field(prompt.outputs).choices)[:2]
    answers = runner.run(asks())
    for answer in answers:
        shown = pending.popleft()
        rest = [next(answers) for _ in shown[1:]]
        yield _verdict(plan, dict(zip(shown, [answer, *rest], strict=True)), sides)


def _asker(
    prompt: Prompt, plan: SamplingPlan, seed: int, template: list[Message]
) -> Callable[[Mapping[str, str]], Ask]:
    sampling = sampling_of(plan, seed=seed)
    given = False

    def accept(reply: Reply) -> Sample:
        nonlocal given
        given = given or bool(reply.tokens)
        try:
            return read_sample(plan, prompt, reply)
        except NoProbabilitiesError as error:
            if given:  # by the model, though not with this reply
                raise NoScoreError(str(error)) from error
            raise

    # Samples of a mean are drawn anew from the very same prompt, or they would be of two judges.
    restate = None if plan.kind == "mean" else partial(restated, prompt)
    return lambda row: Ask(fill(template, row), sampling, accept, restate=restate)


def _orders(order: Order, draw: np.random.Generator) -> tuple[Shown, ...]:
    if order == "both":
        return ("ab", "ba")
    return ("ab",) if draw.random() < 0.5 else ("ba",)


def _swapped(row: Mapping[str, str], fields: tuple[str, str]) -> dict[str, str]:
    first, second = fields
    return {**row, first: row[second], second: row[first]}


def _samples(answer: Answer) -> list[Sample]:
    return [cast("Sample", parsed) for parsed in answer.parsed]


def _judgement(plan: SamplingPlan, answer: Answer) -> Judgement:
    failures = answer.failures or ((answer.error,) if answer.error else ())
    return score_of(plan, _samples(answer), failures)


def _verdict(
    plan: SamplingPlan, answers: Mapping[Shown, Answer], sides: tuple[Choice, Choice]
) -> Verdict:
    """Join the orders asked; where one has no answer, the verdict has failed."""
    margins: dict[Shown, float] = {}
    told, failure = None, None
    for shown, answer in answers.items():
        samples = _samples(answer)
        if not samples:
            why = answer.error or "; ".join(answer.failures) or "no reply"
            failure = failure or f"shown as {shown}: {why}"
            continue
        margin = margin_of(plan, samples, sides)
        margins[shown] = margin if shown == "ab" else -margin
        told = told or next((sample.text for sample in samples if sample.text), None)
    chosen = {shown: _named(margin) for shown, margin in margins.items()}
    first, *rest = chosen.values() or (None,)
    agreed: Vote = first if first and all(other == first for other in rest) else "tie"
    return Verdict(
        margin=math.nan if failure else sum(margins.values()) / len(margins),
        preferred=None if failure else agreed,
        order_ab=chosen.get("ab"),
        order_ba=chosen.get("ba"),
        comparison=told,
        failure=failure,
    )


def _named(margin: float) -> Choice | None:
    if margin == 0:
        return None
    return "A" if margin > 0 else "B"
