"""Judge rows of texts: from a table's row to requests, and from replies to judgements and verdicts.

Rows that cannot be judged (a text is missing or nothing in it can be seen) fail, and are not sent.
"""

import math
import unicodedata
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.client import Message, Reply
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference
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

BOTH = ("ab", "ba")  # which output is shown first
# Of characters that show nothing alone: controls, formats (zero-width, bidi), spaces, line ends.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Words that label files use for what both sides of a pair were given, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table lacks a text that the judge reads; the message says which, and the way out."""


def find_columns(
    subject: Subject, available: Collection[str], mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Text name -> column, by `mapping` first; raises MissingColumnError.

    A pair's texts may also stand under the names of labelled pairs (`prompt`, `response_a`, ...).
    Names may differ in case and spaces where one column has them.
    """
    mapping = mapping or {}
    columns = {}
    for name in subject.texts:
        names = [mapping[name]] if name in mapping else [name, *_synonyms(subject, name)]
        exact = [column for column in names if column in available]
        keys = {name_key(column) for column in names}
        alike = [column for column in available if name_key(column) in keys]
        if exact or len(alike) == 1:
            columns[name] = (exact or alike)[0]
    if missing := [name for name in subject.texts if name not in columns]:
        wanted = " or ".join(repr(mapping.get(name, name)) for name in missing)
        flags = " ".join(f"--map {name}=COLUMN" for name in missing)
        raise MissingColumnError(
            f"no column {wanted}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(available)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={dict.fromkeys(missing, 'COLUMN')}"
        )
    return columns


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


class Asking:
    """How a judge asks one client and reads its replies: all that is the same for every row.

    `seed` is the model's, for what it draws. Raises NoProbabilitiesError where the model cannot
    follow the judge's plan.
    """

    def __init__(
        self,
        subject: Subject,
        prompt: Prompt,
        plan: SamplingPlan,
        template: Sequence[Message],
        client: "Client",
        seed: int = 0,
        threshold: float = 0.5,
    ) -> None:
        from judges.client import Request  # asyncio takes longer to load than a judge

        self.subject, self.client = subject, client
        self.n_requests = len(BOTH) if isinstance(subject, Comparison) else 1
        self._prompt, self._plan, self._template = prompt, plan, template
        # Samples of a mean are drawn anew from the very same prompt, or they would be of two judges
        restate = None if plan.kind == "mean" else partial(restated, prompt)
        sampling = sampling_of(plan, prompt, seed=seed, model=client.model)
        self._request = partial(Request, sampling=sampling, accept=self._accept, restate=restate)
        self._gives_probabilities, self._threshold = False, threshold

    def requests(self, texts: Mapping[str, str]) -> "list[Request]":
        """A request for each order in which the texts are shown."""
        shown = [texts]
        if isinstance(self.subject, Comparison):
            a, b = self.subject.fields
            shown.append({**texts, a: texts[b], b: texts[a]})
        return [self._request(fill(self._template, each)) for each in shown]

    def judgement(self, responses: "Sequence[Response]") -> AnyJudgement:
        """What the responses to these requests say."""
        if isinstance(self.subject, Comparison):
            return _verdict(self._prompt, responses)
        (response,) = responses
        failures = response.failures or ((response.error,) if response.error else ())
        judgement = score_of(self._plan, cast(list[Sample], response.values), failures)
        is_verdict = self.subject.scale == (0, 1)
        return judgement.at_threshold(self._threshold) if is_verdict else judgement

    def _accept(self, reply: Reply) -> Sample:
        """What a reply says; NoProbabilitiesError only while no reply has given any."""
        self._gives_probabilities = self._gives_probabilities or bool(reply.tokens)
        try:
            return read_sample(self._plan, self._prompt, reply, names=(self.subject.name,))
        except NoProbabilitiesError as error:
            if self._gives_probabilities:  # though not with this reply
                raise NoScoreError(str(error)) from error
            raise


def judge_rows(
    asking: Asking, rows: Iterable[Mapping[str, object]]
) -> Generator[AnyJudgement, None, None]:
    """One judgement or verdict for each row, in order and streaming: rows are pulled as needed.

    A pair is asked twice, the second time with the sides swapped; a choice that follows the
    position is a tie.
    """
    subject = asking.subject
    # Of each row pulled so far: why it cannot be sent, if so.
    pending: deque[str | None] = deque()

    def requests() -> "Iterator[Request]":
        for row in rows:
            texts = readable_texts(subject, row)
            pending.append(texts if isinstance(texts, str) else None)
            if not isinstance(texts, str):
                yield from asking.requests(texts)

    responses = asking.client.run(requests())
    for response in responses:
        while (reason := pending.popleft()) is not None:
            yield failed(subject, reason)
        yield asking.judgement([response, *islice(responses, asking.n_requests - 1)])
    for reason in pending:  # the rows after the last that was sent
        yield failed(subject, str(reason))


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
    """A list of texts, as reviews, or a number as a text, as label files are read; or the value."""
    from judges.labels.cells import join_texts  # which judging texts does without

    if hasattr(value, "tolist"):  # a data frame's cell
        value = value.tolist()
    is_number = type(value) in (int, float) and not _missing(value)
    return str(value) if is_number else join_texts(value) or value


def _missing(value: object) -> bool:
    """None, or what pandas puts in its place: NaN, NA, NaT."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}


def failed(subject: Subject, reason: str) -> AnyJudgement:
    return (
        Preference.failed(reason) if isinstance(subject, Comparison) else Judgement.failed(reason)
    )


def _verdict(prompt: Prompt, responses: "Sequence[Response]") -> Preference:
    """Join both orders; where one has no answer, the verdict has failed."""
    letters, margins, comparisons = prompt.answer.choices or (), list[float](), list[str | None]()
    failure = None
    for sides, response in zip(BOTH, responses, strict=True):
        if samples := cast(list[Sample], response.values):
            margins.append(margin_of(samples, letters))
            comparisons += [sample.text for sample in samples]
        else:
            margins.append(math.nan)
            reason = response.error or "; ".join(response.failures) or "no reply"
            failure = failure or f"shown as {sides}: {reason}"
    comparison = next(filter(None, comparisons), None)
    return Preference.of_orders(margins[0], -margins[1], comparison=comparison, failure=failure)
