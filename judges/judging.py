"""Judge rows of texts: from a table's row to requests, and from replies to judgements and verdicts.

Rows that cannot be judged (a text is missing or nothing in it can be seen) fail, and are not sent.
"""

import math
import random
import unicodedata
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.client import Message, Reply
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Choice, Judgement, NoScoreError, Verdict
from judges.prompt import Prompt, fill, restated
from judges.scoring import (
    NoProbabilitiesError,
    Sample,
    SamplingPlan,
    margin_of,
    read_sample,
    sampling_of,
    score_of,
)

if TYPE_CHECKING:
    from judges.client import Client, Request, Response

Order = Literal["both", "random"]
Sides = Literal["ab", "ba"]  # which output is shown first
BOTH: tuple[Sides, ...] = ("ab", "ba")
# Of characters that show nothing alone: controls, formats (zero-width, bidi), spaces, line ends.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Words that label files use for what both sides of a pair were given, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table lacks a text that the judge reads; the message says which, and the way out."""


def find_columns(
    subject: Subject,
    available: Collection[str],
    mapping: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Text name -> column; raises MissingColumnError.

    `mapping` goes from text name to column and beats everything. A pair's texts may also stand
    under the names of labelled pairs (`prompt`, `response_a`, `response_b`). Names may differ in
    case and spaces where one column has them.
    """
    mapping = mapping or {}
    columns, missing = {}, {}
    for name in subject.texts:
        candidates = [mapping[name]] if name in mapping else [name, *_synonyms(subject, name)]
        column = _first_of(candidates, available)
        if column is None:
            missing[name] = candidates[0]
        else:
            columns[name] = column
    if missing:
        wanted = " or ".join(map(repr, missing.values()))
        proposed = dict.fromkeys(missing, "COLUMN")
        flags = " ".join(f"--map {name}=COLUMN" for name in missing)
        raise MissingColumnError(
            f"no column {wanted}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(available)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={proposed}"
        )
    return columns


def _first_of(names: Iterable[str], available: Collection[str]) -> str | None:
    """The column of the first of these names that there is, else the one that is alike."""
    names = list(names)
    if (exact := next((name for name in names if name in available), None)) is not None:
        return exact
    for name in names:
        alike = [column for column in available if name_key(column) == name_key(name)]
        if len(alike) == 1:
            return alike[0]
    return None


def _synonyms(subject: Subject, name: str) -> list[str]:
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{word}{name[-2:]}" for word in CANDIDATES]
    return list(SHARED) if len(subject.inputs) == 1 else []


def rows_of(texts: Mapping[str, Iterable[object]]) -> Iterator[dict[str, object]]:
    """Row after row of columns of texts."""
    for values in zip(*texts.values(), strict=True):
        yield dict(zip(texts, values, strict=True))


def judge_rows(
    subject: Subject,
    prompt: Prompt,
    plan: SamplingPlan,
    rows: Iterable[Mapping[str, object]],
    client: "Client",
    *,
    template: list[Message],
    order: Order = "both",
    seed: int = 0,
) -> Generator[AnyJudgement, None, None]:
    """One judgement or verdict for each row, in order and streaming: rows are pulled as needed.

    `template` is what is sent, with slots for texts; `prompt` says how replies are read. `seed` is
    handed to the model, for the samples it draws. Of a pair, "both" asks twice, the second time
    with the sides swapped, and a choice that follows the position is a tie; "random" asks once, in
    an order drawn for each pair from `seed`, which `order_ab` or `order_ba` then tells.
    Raises NoProbabilitiesError before anything is sent where the model cannot follow the plan.
    """
    from judges.client import Request  # asyncio takes longer to load than a judge

    sampling = sampling_of(plan, prompt, seed=seed, model=client.model)
    draw = random.Random(seed)
    # Samples of a mean are drawn anew from the very same prompt, or they would be of two judges.
    restate = None if plan.kind == "mean" else partial(restated, prompt)
    gives_probabilities = False
    # Of each row pulled so far: why it cannot be sent, or in which orders it is.
    pending: deque[str | tuple[Sides, ...]] = deque()

    def accept(reply: Reply) -> Sample:
        """Read the score off a reply; NoProbabilitiesError only while no reply has given any."""
        nonlocal gives_probabilities
        gives_probabilities = gives_probabilities or bool(reply.tokens)
        try:
            return read_sample(plan, prompt, reply, names=(subject.name,))
        except NoProbabilitiesError as error:
            if gives_probabilities:  # though not with this reply
                raise NoScoreError(str(error)) from error
            raise

    def requests() -> "Iterator[Request]":
        """Yield the requests of all rows; what to expect of each row is added to `pending`."""
        for row in rows:
            texts = readable_texts(subject, row)
            if isinstance(texts, str):
                pending.append(texts)
                continue
            shown: dict[Sides, dict[str, str]] = {"ab": texts}
            if isinstance(subject, Comparison):
                field_a, field_b = subject.fields
                swapped = {**texts, field_a: texts[field_b], field_b: texts[field_a]}
                shown = {"ab": texts, "ba": swapped}
                if order == "random":
                    sides = draw.choice(BOTH)
                    shown = {sides: shown[sides]}
            pending.append(tuple(shown))
            for in_order in shown.values():
                yield Request(fill(template, in_order), sampling, accept, restate=restate)

    responses = client.run(requests())
    for response in responses:
        while isinstance(entry := pending.popleft(), str):
            yield failed(subject, entry)
        if isinstance(subject, Comparison):
            by_order = {s: response if s == entry[0] else next(responses) for s in entry}
            yield _verdict(prompt, plan, by_order)
        else:
            failures = response.failures or ((response.error,) if response.error else ())
            yield score_of(plan, cast(list[Sample], response.parsed), failures)
    for entry in pending:
        yield failed(subject, entry if isinstance(entry, str) else "not asked")


def unusable(subject: Subject, row: Mapping[str, object]) -> str | None:
    """Why a row cannot be judged; None if it can."""
    texts = readable_texts(subject, row)
    return texts if isinstance(texts, str) else None


def readable_texts(subject: Subject, row: Mapping[str, object]) -> dict[str, str] | str:
    """What is judged of a row, or why it cannot be: a text that is missing or shows nothing.

    One of two outputs may be blank: some systems say nothing, and would gain if that went unseen.
    """
    texts, blank = {}, []
    for name in subject.texts:
        value = row.get(name)
        text = value if isinstance(value, str) else joined_text(value)
        if not isinstance(text, str):
            return f"no {name}" if _missing(text) else f"{name} is {type(text).__name__}, no text"
        if all(unicodedata.category(character) in INVISIBLE for character in text):
            blank.append(name)
        texts[name] = text
    if len(blank) == 1 and isinstance(subject, Comparison) and blank[0] in subject.fields:
        return texts
    return f"{blank[0]} is empty" if blank else texts


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


def failed(subject: Subject, reason: str) -> AnyJudgement:
    return Verdict.failed(reason) if isinstance(subject, Comparison) else Judgement.failed(reason)


def _verdict(prompt: Prompt, plan: SamplingPlan, responses: "Mapping[Sides, Response]") -> Verdict:
    """Join the orders asked; where one has no answer, the verdict has failed."""
    letters = cast("tuple[Choice, Choice]", prompt.answer.choices)[:2]
    margins: dict[Sides, float] = {}
    comparison, failure = None, None
    for sides, response in responses.items():
        samples = cast(list[Sample], response.parsed)
        if not samples:
            reason = response.error or "; ".join(response.failures) or "no reply"
            failure = failure or f"shown as {sides}: {reason}"
            continue
        margin = margin_of(samples, letters)
        margins[sides] = margin if sides == "ab" else -margin
        comparison = comparison or next((sample.text for sample in samples if sample.text), None)
    choices = {sides: choice_of(margin) for sides, margin in margins.items()}
    agreed = set(choices.values())
    return Verdict(
        margin=math.nan if failure else sum(margins.values()) / len(margins),
        preferred=None if failure else (agreed.pop() if len(agreed) == 1 else None) or "tie",
        order_ab=choices.get("ab"),
        order_ba=choices.get("ba"),
        comparison=comparison,
        failure=failure,
        margin_ab=margins.get("ab", math.nan),
        margin_ba=margins.get("ba", math.nan),
    )


def choice_of(margin: float) -> Choice | None:
    """The output that a margin prefers; None: neither."""
    if margin == 0:
        return None
    return "A" if margin > 0 else "B"
