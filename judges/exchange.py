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
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dspy_judges.errors import OptionError
from judges.decisions import MALFORMED, DecisionTask, fill_for, reply_of_answers
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference, quote
from judges.prompt import Prompt, restate_format
from judges.protocol import (
    Choice,
    Message,
    RefusedError,
    Reply,
    Request,
    Response,
    Token,
    is_decision,
    reply_of,
)
from judges.questions import AnswerWeights
from judges.reading import check_reply
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
from judges.tables.text import plain_value

if TYPE_CHECKING:
    from judges.client import Client

ORDERS = ("ab", "ba")  # the orders of a pair: A is shown first, B is shown first
# Unicode categories of invisible characters: control, format (zero-width, bidi), and blanks.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


@dataclass(kw_only=True)
class Exchange:
    """Makes a judge's messages from any row, and its judgement from the replies.

    `lm` is the name of a decision model; for any other model it is the name or the endpoint. Raises
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
        self.is_decision_model = is_decision(self.lm)
        if self.is_decision_model and self.plan.kind != "weighted":
            raise OptionError(
                f"{self.subject.name}: the plan {self.plan.kind!r} is not for {self.lm}: a "
                "decision model always gives probabilities; leave the plan out"
            )
        self.orders = ORDERS if isinstance(self.subject, Comparison) else ORDERS[:1]
        # Whether a repeated request says which form the reply needs. All samples of a mean have to
        # come from the same prompt.
        self.restates = self.plan.kind != "mean" and not self.is_decision_model
        self.sampling = sampling_of(self.plan, self.prompt, seed=self.seed, lm=self.lm)

    def messages(self, texts: Mapping[str, str], order: str = "ab") -> list[Message]:
        """The messages for these texts; `order` is "ba" if output B of a pair is shown first."""
        if order not in self.orders:
            name, orders = self.subject.name, " or ".join(map(repr, self.orders))
            raise OptionError(f"{name}: no order {order!r} of its texts; use {orders}")
        if order == "ba" and isinstance(self.subject, Comparison):
            a, b = self.subject.fields
            texts = {**texts, a: texts[b], b: texts[a]}
        return fill_for(self.lm, self.template, texts)

    def sample(self, reply: Reply) -> Sample:
        """Read one reply.

        Raises NoScoreError if it states no clear answer, and NoProbabilitiesError if the plan needs
        log-probabilities that it lacks.
        """
        if self.is_decision_model:
            return read_decision(self.prompt, reply)
        return read_sample(self.plan, self.prompt, reply, names=(self.subject.name,))

    def response(self, outputs: Iterable[object]) -> Response:
        """The response that a client would give for these outputs of a model."""
        samples, failures, refusals = list[Sample](), list[str](), list[str]()
        for output in [outputs] if isinstance(outputs, str) else outputs:
            try:
                check_reply(reply := self._reply(output))
                samples.append(self.sample(reply))
            except RefusedError as refusal:
                refusals.append(str(refusal))
            except (NoScoreError, NoProbabilitiesError) as failure:
                failures.append(str(failure))
        return Response(values=tuple(samples), failures=(*refusals, *failures))

    def judgement(self, responses: Sequence[Response]) -> AnyJudgement:
        """The judgement from the responses: one for each order of a pair, else a single one."""
        judgement: AnyJudgement
        if isinstance(self.subject, Comparison):
            judgement = _preference(responses)
        else:
            (response,) = responses
            samples = cast(list[Sample], response.values)
            judgement = score_of(self.plan, samples, response.failures)
        return judgement.rescored(self.prompt.choices, self.weights, self.threshold)

    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client"
    ) -> Generator[AnyJudgement, None, None]:
        """Yield one judgement for each row, in order; rows are read as they are needed.

        A pair is asked in both orders; if the choice depends on the order, it is a tie.
        """
        restate = partial(restate_format, self.prompt) if self.restates else None
        has_probabilities = False
        # For each row without a judgement so far: the reason why it was not sent, else None.
        reasons: deque[str | None] = deque()

        def accept(reply: Reply) -> Sample:
            """Read a reply; NoProbabilitiesError ends the run if no reply has had any so far."""
            nonlocal has_probabilities
            has_probabilities = has_probabilities or bool(reply.tokens)
            try:
                return self.sample(reply)
            except NoProbabilitiesError as error:
                if has_probabilities:  # the model gives them, and only this reply lacks them
                    raise NoScoreError(str(error)) from error
                raise

        def requests() -> "Iterator[Request]":
            for row in rows:
                texts_or_reason = readable_texts(self.subject, row)
                if isinstance(texts_or_reason, str):
                    reasons.append(texts_or_reason)
                    continue
                reasons.append(None)
                for order in self.orders:
                    messages = self.messages(texts_or_reason, order)
                    yield Request(messages, self.sampling, accept, restate)

        # Closed before the store is, so that after Ctrl-C the store gets the answers in flight.
        with closing(client.run(requests())) as responses:
            for response in responses:
                while (reason := reasons.popleft()) is not None:
                    yield failed_judgement(self.subject, reason)
                yield self.judgement([response, *islice(responses, len(self.orders) - 1)])
        for reason in reasons:  # for the rows after the last one that was sent
            yield failed_judgement(self.subject, str(reason))

    def _reply(self, output: Any) -> Reply:
        """The reply in an output of an engine (see `Judge.read`).

        Raises NoScoreError if the output has none of the known forms.
        """
        try:
            if self.is_decision_model:
                task = DecisionTask.of(self.template[0]["content"])
                return reply_of_answers(output, task.questions)
            if isinstance(output, str):
                return Reply(text=output)
            if not isinstance(text := getattr(output, "text", None), str):
                return reply_of(msgspec.convert(output, Choice, from_attributes=True))
            tokens = [
                Token(
                    top[chosen].decoded_token,
                    {each.decoded_token: each.logprob for each in top.values()},
                )
                for chosen, top in zip(output.token_ids, output.logprobs or (), strict=False)
            ]
            finish_reason = output.finish_reason or "stop"
            return Reply(text=text, tokens=tuple(tokens), finish_reason=finish_reason)
        except MALFORMED as error:
            raise NoScoreError(f"{quote(repr(output))} cannot be read: {error}") from None


def readable_texts(subject: Subject, row: Mapping[str, object]) -> dict[str, str] | str:
    """The texts of a row by name, or the reason why it cannot be judged.

    A row cannot be judged if a text is missing or has no visible character. One of two outputs of
    a pair may be blank, so that a system that says nothing loses its comparisons.
    """
    texts, blank = {}, []
    for name in subject.texts:
        value = row.get(name)
        text = value if isinstance(value, str) else as_text(value)
        if not isinstance(text, str):
            is_missing = plain_value(text) is None
            return f"no {name}" if is_missing else f"{name} is {type(text).__name__}, not a text"
        if all(unicodedata.category(character) in INVISIBLE for character in text):
            blank.append(name)
        texts[name] = text
    if len(blank) == 1 and isinstance(subject, Comparison) and blank[0] in subject.fields:
        return texts
    return f"{blank[0]} is empty" if blank else texts


def as_text(value: object) -> object:
    """A list of texts, or a number, as one text; any other value unchanged."""
    from judges.labels.cells import join_texts  # plain texts do not need it

    if hasattr(value, "tolist"):  # a NumPy array or scalar in a DataFrame
        value = value.tolist()
    is_number = type(value) in (int, float) and value == value  # NaN counts as missing
    return str(value) if is_number else join_texts(value) or value


def failed_judgement(subject: Subject, reason: str) -> AnyJudgement:
    judgement_class = Preference if isinstance(subject, Comparison) else Judgement
    return judgement_class.failed(reason)


def _preference(responses: Sequence[Response]) -> Preference:
    """The preference over both orders; it has failed if one order has no answer."""
    answers, comparisons, failure = list[dict[str, float]](), list[str | None](), None
    for order, response in zip(ORDERS, responses, strict=True):
        if samples := cast(list[Sample], response.values):
            comparisons += [sample.text for sample in samples]
            answers.append(mean_answers(samples))
        else:
            failure = failure or f"shown as {order}: {response.error}"
            answers.append({})
    ab, ba = (next(reversed(each.values()), math.nan) for each in answers)
    comparison = next(filter(None, comparisons), None)
    preference = Preference.of_orders(ab, -ba, comparison)
    if failure is not None:
        return replace(preference, preferred=None, failure=failure)
    if len(answers[0]) < 2:
        return preference
    return replace(preference, answers_ab=answers[0], answers_ba=answers[1])
