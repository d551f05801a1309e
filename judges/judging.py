"""Judge rows of texts: from rows to requests, and from replies to judgements and preferences.

Rows that lack a text, or whose text shows nothing, are failed judgements and are not sent.
"""

import math
import unicodedata
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError, OptionError
from judges.client import Message, Reply, is_decision
from judges.decisions import fill_for
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference
from judges.prompt import Prompt, restated
from judges.questions import AnswerWeights
from judges.scoring import (
    NoProbabilitiesError,
    Sample,
    SamplingPlan,
    mean_answers,
    read_decision,
    read_sample,
    sampling_of,
    score_of,
)

if TYPE_CHECKING:
    from judges.client import Client, Request, Response

BOTH = ("ab", "ba")  # which output is shown first
# Categories of characters that show nothing: controls, formats (zero-width, bidi), blanks.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Names in label files for the text that both sides of a pair answer, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column for a text that the judge reads."""


def find_columns(
    subject: Subject, available: Collection[str], mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The column of each text that a judge of the subject reads.

    It is the column that `mapping` names, else the one of the text's own name. Texts of a pair may
    have the names of labelled pairs, too (`prompt`, `response_a`, ...). Raises MissingColumnError.
    """
    mapping = mapping or {}
    columns = {
        name: _find_column(
            [mapping[name]] if name in mapping else [name, *_synonyms(subject, name)], available
        )
        for name in subject.texts
    }
    if missing := [name for name, column in columns.items() if column is None]:
        names = " or ".join(repr(mapping.get(name, name)) for name in missing)
        flags = " ".join(f"--map {name}=COLUMN" for name in missing)
        raise MissingColumnError(
            f"no column {names}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(available)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={dict.fromkeys(missing, 'COLUMN')}"
        )
    return {name: column for name, column in columns.items() if column is not None}


def _find_column(names: Sequence[str], available: Collection[str]) -> str | None:
    """The column of one of these names, else the only one that differs in case and blanks alone."""
    keys = set(map(name_key, names))
    exact = [name for name in names if name in available]
    similar = [column for column in available if name_key(column) in keys]
    return exact[0] if exact else similar[0] if len(similar) == 1 else None


def _synonyms(subject: Subject, name: str) -> list[str]:
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{candidate}{name[-2:]}" for candidate in CANDIDATES]
    return list(SHARED) if len(subject.inputs) == 1 else []


@dataclass(kw_only=True)
class Asking:
    """The requests and the reading of replies that a judge needs for any row.

    Raises NoProbabilitiesError or OptionError where the model cannot follow the judge's plan.
    """

    subject: Subject
    prompt: Prompt
    plan: SamplingPlan
    template: Sequence[Message]
    weights: AnswerWeights | None
    threshold: float
    client: "Client"
    seed: int

    def __post_init__(self) -> None:
        from judges.client import Request  # asyncio takes longer to load than a judge

        self.n_requests = len(BOTH) if isinstance(self.subject, Comparison) else 1
        model = self.client.model
        self._decides = is_decision(model.name)
        if self._decides and self.plan.kind != "weighted":
            raise OptionError(
                f"{self.subject.name}: the plan {self.plan.kind!r} is not for {model.name}: a "
                "decision model gives probabilities, and there is nothing to choose"
            )
        # A mean draws all its samples from the same prompt, or it would mix two judges.
        same_prompt = self.plan.kind == "mean" or self._decides
        restate = None if same_prompt else partial(restated, self.prompt)
        sampling = sampling_of(self.plan, self.prompt, seed=self.seed, model=model)
        self._request = partial(Request, sampling=sampling, accept=self._accept, restate=restate)
        self._gives_probabilities = False

    def requests(self, texts: Mapping[str, str]) -> "list[Request]":
        """A request for each order in which the texts are shown."""
        orders = [texts]
        if isinstance(self.subject, Comparison):
            a, b = self.subject.fields
            orders.append({**texts, a: texts[b], b: texts[a]})
        lm = self.client.model.name
        return [self._request(fill_for(lm, self.template, order)) for order in orders]

    def judgement(self, responses: "Sequence[Response]") -> AnyJudgement:
        """The judgement from the responses to these requests."""
        judgement: AnyJudgement
        if isinstance(self.subject, Comparison):
            judgement = _preference(responses)
        else:
            (response,) = responses
            failures = response.failures or ((response.error,) if response.error else ())
            judgement = score_of(self.plan, cast(list[Sample], response.values), failures)
        return judgement.rescored(self.prompt.choices, self.weights, self.threshold)

    def _accept(self, reply: Reply) -> Sample:
        """Read a reply; NoProbabilitiesError only while no reply has given any probabilities."""
        if self._decides:
            return read_decision(self.prompt, reply)
        self._gives_probabilities = self._gives_probabilities or bool(reply.tokens)
        try:
            return read_sample(self.plan, self.prompt, reply, names=(self.subject.name,))
        except NoProbabilitiesError as error:
            if self._gives_probabilities:  # only this reply lacks them
                raise NoScoreError(str(error)) from error
            raise


def judge_rows(
    asking: Asking, rows: Iterable[Mapping[str, object]]
) -> Generator[AnyJudgement, None, None]:
    """One judgement for each row, in order and streaming: rows are read as needed.

    A pair is asked in both orders; a choice that follows the position is a tie.
    """
    subject = asking.subject
    # For each row read so far: why it cannot be sent, or None.
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
            yield failed_judgement(subject, reason)
        yield asking.judgement([response, *islice(responses, asking.n_requests - 1)])
    for reason in pending:  # the rows after the last that was sent
        yield failed_judgement(subject, str(reason))


def readable_texts(subject: Subject, row: Mapping[str, object]) -> dict[str, str] | str:
    """The texts of a row, or the reason why it cannot be judged: one is missing or shows nothing.

    One of two outputs may be blank, so that a system that says nothing loses its comparisons.
    """
    texts, blank = {}, []
    for name in subject.texts:
        value = row.get(name)
        text = value if isinstance(value, str) else as_text(value)
        if not isinstance(text, str):
            return f"no {name}" if _missing(text) else f"{name} is {type(text).__name__}, no text"
        if all(unicodedata.category(character) in INVISIBLE for character in text):
            blank.append(name)
        texts[name] = text
    if len(blank) == 1 and isinstance(subject, Comparison) and blank[0] in subject.fields:
        return texts
    return f"{blank[0]} is empty" if blank else texts


def as_text(value: object) -> object:
    """A list of texts, or a number, as one text; any other value as it is."""
    from judges.labels.cells import join_texts  # which plain texts do without

    if hasattr(value, "tolist"):  # a data frame's cell
        value = value.tolist()
    is_number = type(value) in (int, float) and not _missing(value)
    return str(value) if is_number else join_texts(value) or value


def _missing(value: object) -> bool:
    """Whether it is None, or a NaN, NA or NaT of pandas."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}


def failed_judgement(subject: Subject, reason: str) -> AnyJudgement:
    kind = Preference if isinstance(subject, Comparison) else Judgement
    return kind.failed(reason)


def _preference(responses: "Sequence[Response]") -> Preference:
    """The preference over both orders, which has failed where one order has no answer."""
    answers, comparisons, failure = list[dict[str, float]](), list[str | None](), None
    for sides, response in zip(BOTH, responses, strict=True):
        if samples := cast(list[Sample], response.values):
            comparisons += [sample.text for sample in samples]
            answers.append(mean_answers(samples))
        else:
            reason = response.error or "; ".join(response.failures) or "no reply"
            failure = failure or f"shown as {sides}: {reason}"
            answers.append({})
    ab, ba = (next(reversed(each.values()), math.nan) for each in answers)
    comparison = next(filter(None, comparisons), None)
    if failure is not None or len(answers[0]) < 2:
        return Preference.of_orders(ab, -ba, comparison=comparison, failure=failure)
    both = {"answers_ab": answers[0], "answers_ba": answers[1]}
    return Preference.of_orders(ab, -ba, comparison=comparison, **both)
