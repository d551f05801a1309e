"""Judge rows of texts: from a table's row to requests, and from replies to judgements and verdicts.

Rows that cannot be judged (a text is missing or blank) fail, and are not sent.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from judges.dimension import Comparison, Subject
from judges.engine.asks import Answer, Ask
from judges.errors import JudgesError
from judges.judgement import AnyJudgement, Choice, Judgement, NoScoreError, Verdict
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
    import numpy as np

    from judges.engine.runner import Runner

Order = Literal["both", "random"]
Shown = Literal["ab", "ba"]
Vote = Literal["A", "B", "tie"]
# Words that label files use for what both sides of a pair were given, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
SIDES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table lacks a text that the judge reads; the message says which, and the way out."""


def find_columns(
    subject: Subject, available: Collection[str], mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Text name -> column; raises MissingColumnError.

    `mapping` goes from text name to column and beats everything. A pair's texts may also stand
    under the names of labelled pairs (`prompt`, `response_a`, `response_b`).
    """
    mapping = mapping or {}
    columns = {}
    for name in subject.texts:
        wanted = [mapping[name]] if name in mapping else [name, *_other_names(subject, name)]
        column = next((column for column in wanted if column in available), None)
        if column is None:
            raise MissingColumnError(
                f"no column {wanted[0]!r}, which the judge {subject.name!r} reads; columns: "
                f"{', '.join(sorted(available)) or 'none'}. Name yours, as in --map {name}=COLUMN"
            )
        columns[name] = column
    return columns


def _other_names(subject: Subject, name: str) -> list[str]:
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{side}{name[-2:]}" for side in SIDES]
    return list(SHARED) if len(subject.inputs) == 1 else []


def judge_rows(
    subject: Subject,
    prompt: Prompt,
    plan: SamplingPlan,
    rows: Iterable[Mapping[str, object]],
    runner: "Runner",
    *,
    template: list[Message] | None = None,
    order: Order = "both",
    seed: int = 0,
) -> Generator[AnyJudgement, None, None]:
    """One judgement or verdict for each row, in order and streaming: rows are pulled as needed."""
    # What each row pulled so far is: a reason why it cannot be sent, or None.
    pulled: deque[str | None] = deque()

    def usable() -> Iterator[dict[str, str]]:
        for row in rows:
            why = unusable(subject, row)
            pulled.append(why)
            if why is None:
                yield {name: str(joined_text(row[name])) for name in subject.texts}

    judged: Iterator[AnyJudgement]
    if isinstance(subject, Comparison):
        judged = judge_pairs(
            prompt,
            subject.fields,
            plan,
            usable(),
            runner,
            order=order,
            seed=seed,
            template=template,
        )
    else:
        judged = judge_outputs(prompt, plan, usable(), runner, seed=seed, template=template)
    for result in judged:
        while (why := pulled.popleft()) is not None:
            yield failed(subject, why)
        yield result
    for why in pulled:
        yield failed(subject, why or "not asked")


def unusable(subject: Subject, row: Mapping[str, object]) -> str | None:
    """Why a row cannot be judged: a text that is missing or blank; None if it can.

    One of two outputs may be blank: some systems say nothing, and would gain if that went unseen.
    """
    blank: list[str] = []
    for name in subject.texts:
        text = joined_text(row.get(name))
        if not isinstance(text, str):
            return f"no {name}" if _missing(text) else f"{name} is {type(text).__name__}, no text"
        if not text.strip():
            blank.append(name)
    if len(blank) == 1 and isinstance(subject, Comparison) and blank[0] in subject.fields:
        return None
    return f"{blank[0]} is empty" if blank else None


def joined_text(value: object) -> object:
    """A list of texts, such as reviews, as one text, as label files are read; else the value."""
    if not isinstance(value, list | tuple) and hasattr(value, "tolist"):
        # A data frame's cell.
        value = value.tolist()
    if not isinstance(value, list | tuple) or not any(isinstance(text, str) for text in value):
        return value
    if not all(text is None or isinstance(text, str) for text in value):
        return value
    return "\n\n".join(text for text in value if text and text.strip())


def _missing(value: object) -> bool:
    """None, or what pandas puts in its place: NaN, NA, NaT."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in {"NAType", "NaTType"}
    )


def failed(subject: Subject, why: str) -> AnyJudgement:
    return Verdict.failed(why) if isinstance(subject, Comparison) else Judgement.failed(why)


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
    import numpy as np  # which takes longer to load than a judge

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


def _orders(order: Order, draw: "np.random.Generator") -> tuple[Shown, ...]:
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
