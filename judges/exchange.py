"""Turn rows into a judge's messages, send them through a client, and turn replies into judgements.

A row that lacks a text, or whose text has no visible character, gets a failed judgement and is not
sent.
"""

import math
import unicodedata
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from dspy_judges.errors import OptionError
from judges.decisions import JSON_ERRORS, DecisionTask, fill_template, reply_from_answers
from judges.dimension import Subject
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference, quote
from judges.labels.cells import as_text
from judges.prompt import Prompt, restate_format
from judges.protocol import (
    Message,
    RefusedError,
    Reply,
    Request,
    Response,
    is_decision_model,
    reply_from_output,
)
from judges.questions import AnswerWeights
from judges.reading import check_reply
from judges.scoring import (
    NoProbabilitiesError,
    ReplyContent,
    SamplingPlan,
    judgement_from_contents,
    mean_answers,
    read_decision_reply,
    read_text_reply,
    sampling_for,
)
from judges.tables.text import plain_value

if TYPE_CHECKING:
    from judges.client import Client

PAIR_ORDERS = ("ab", "ba")  # the two orders of a pair: output A or output B is shown first
# Unicode categories of invisible characters: control, format (zero-width, bidi), and blanks.
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


@dataclass(kw_only=True)
class Exchange:
    """Turns rows into a judge's messages, and replies into judgements.

    `lm` is the model's name or endpoint; for a decision model, it has to be the name. Raises
    NoProbabilitiesError or OptionError if the model cannot follow the judge's plan.
    """

    subject: Subject
    prompt: Prompt
    plan: SamplingPlan
    template: Sequence[Message]
    weights: AnswerWeights | None
    threshold: float
    lm: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.is_decision_model = is_decision_model(self.lm)
        if self.is_decision_model and self.plan.kind != "weighted":
            raise OptionError(
                f"{self.subject.name}: the plan {self.plan.kind!r} is not for {self.lm}: a "
                "decision model always gives probabilities; leave the plan out"
            )
        self.orders = PAIR_ORDERS if self.subject.kind == "pairwise" else PAIR_ORDERS[:1]
        self.sampling = sampling_for(self.plan, self.prompt, seed=self.seed, lm=self.lm)

    def messages(self, texts: Mapping[str, str], order: str = "ab") -> list[Message]:
        """Return the messages for these texts; the order "ba" shows output B of a pair first."""
        if order not in self.orders:
            name, orders = self.subject.name, " or ".join(map(repr, self.orders))
            raise OptionError(f"{name}: unknown order {order!r}; use {orders}")
        if order == "ba":
            *_, a, b = self.subject.texts
            texts = {**texts, a: texts[b], b: texts[a]}
        return fill_template(self.lm, self.template, texts)

    def sample_of(self, reply: Reply) -> ReplyContent:
        """Read one reply; raises NoScoreError or NoProbabilitiesError (see `read_text_reply`)."""
        if self.is_decision_model:
            return read_decision_reply(self.prompt, reply)
        return read_text_reply(self.plan, self.prompt, reply, names=(self.subject.name,))

    def response_of(self, outputs: Iterable[object]) -> Response:
        """Return the outputs of an inference engine as a client's Response (see `Judge.read`)."""
        samples, failures = list[ReplyContent](), list[str]()
        for output in [outputs] if isinstance(outputs, str) else outputs:
            try:
                check_reply(reply := self._read_output(output))
                samples.append(self.sample_of(reply))
            except (RefusedError, NoScoreError, NoProbabilitiesError) as failure:
                failures.append(str(failure))
        return Response(values=tuple(samples), failures=tuple(failures))

    def judgement_of(self, responses: Sequence[Response]) -> AnyJudgement:
        """Return the judgement from a response; a pair has one response for each order."""
        samples = [cast(Sequence[ReplyContent], response.values) for response in responses]
        if self.subject.kind == "pairwise":
            preference = _preference(samples, [response.failure for response in responses])
            return preference.rescored(self.prompt.choice_fields, self.weights)
        judgement = judgement_from_contents(self.plan, samples[0], responses[0].failures)
        return judgement.rescored(self.prompt.choice_fields, self.weights, self.threshold)

    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client"
    ) -> Generator[AnyJudgement, None, None]:
        """Yield a judgement for each row, in order; a pair is asked in both orders."""
        if self.plan.kind == "weighted" and client.model.has_logprobs is False:
            raise NoProbabilitiesError(f"{client.model.name} gives no log-probabilities")
        # A repeated request restates the form of the reply, except for the plan "mean", whose
        # samples all have to come from the same prompt.
        is_restated = self.plan.kind != "mean" and not self.is_decision_model
        restate = partial(restate_format, self.prompt) if is_restated else None
        has_probabilities = False
        # For each row without a judgement so far: why the row was not sent, or None if it was sent.
        skip_reasons: deque[str | None] = deque()

        def accept(reply: Reply) -> ReplyContent:
            nonlocal has_probabilities
            has_probabilities = has_probabilities or bool(reply.tokens)
            try:
                return self.sample_of(reply)
            except NoProbabilitiesError as error:
                if has_probabilities:  # earlier replies had some, so only this reply fails
                    raise NoScoreError(str(error)) from error
                raise

        def requests() -> Iterator[Request]:
            for row in rows:
                try:
                    texts = readable_texts(self.subject, row)
                except NoScoreError as error:
                    skip_reasons.append(str(error))
                    continue
                skip_reasons.append(None)
                for order in self.orders:
                    messages = self.messages(texts, order)
                    yield Request(messages, self.sampling, accept, restate)

        # The responses are closed before the store, so that after Ctrl-C the store gets the answers
        # to requests in flight.
        with closing(client.run(requests())) as responses:
            for response in responses:
                while (skip_reason := skip_reasons.popleft()) is not None:
                    yield failed_judgement(self.subject, skip_reason)
                yield self.judgement_of([response, *islice(responses, len(self.orders) - 1)])
        for skip_reason in skip_reasons:  # the rows after the last row that was sent
            yield failed_judgement(self.subject, str(skip_reason))

    def _read_output(self, output: object) -> Reply:
        try:
            if self.is_decision_model:
                task = DecisionTask.parse(self.template[0]["content"])
                return reply_from_answers(output, task.questions)
            return reply_from_output(output)
        except JSON_ERRORS as error:
            raise NoScoreError(f"{quote(repr(output))} cannot be read: {error}") from None


def readable_texts(subject: Subject, row: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of a row by name; raises NoScoreError for a missing or blank text.

    One of the two outputs of a pair may be blank: a system that says nothing loses its comparisons.
    """
    texts, blank_names = {}, []
    for name in subject.texts:
        text = as_text(row.get(name))
        if not isinstance(text, str):
            is_missing = plain_value(text) is None
            raise NoScoreError(
                f"no {name}" if is_missing else f"{name} is {type(text).__name__}, not a text"
            )
        if all(unicodedata.category(character) in INVISIBLE_CATEGORIES for character in text):
            blank_names.append(name)
        texts[name] = text
    outputs = subject.texts[-2:] if subject.kind == "pairwise" else ()
    if len(blank_names) > 1 or not set(blank_names) <= set(outputs):
        raise NoScoreError(f"{blank_names[0]} is empty")
    return texts


def failed_judgement(subject: Subject, reason: str) -> AnyJudgement:
    return (Preference if subject.kind == "pairwise" else Judgement).failed(reason)


def _preference(
    samples_by_order: Sequence[Sequence[ReplyContent]], error_by_order: Sequence[str | None]
) -> Preference:
    """Return the preference from the replies and the error of each order of a pair."""
    # In the order "ba", the answers are positive for output B.
    ab, ba = map(mean_answers, samples_by_order)
    margin_ab, margin_ba = (next(reversed(answers.values()), math.nan) for answers in (ab, ba))
    comparisons = (
        sample.free_text for sample in chain.from_iterable(samples_by_order) if sample.free_text
    )
    preference = Preference.from_orders(margin_ab, -margin_ba, next(comparisons, None))
    for order, error in zip(PAIR_ORDERS, error_by_order, strict=True):
        if error is not None:
            return replace(preference, preferred=None, failure=f"in the order {order}: {error}")
    return replace(preference, answers_ab=ab, answers_ba=ba) if len(ab) > 1 else preference
