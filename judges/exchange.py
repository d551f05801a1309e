"""What a judge sends for a row, by which client, and what the replies mean.

Rows that lack a text, or whose text shows nothing, are failed judgements and are not sent.
"""

import json
import math
import unicodedata
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dspy_judges.errors import OptionError
from judges.decisions import MALFORMED, fill_for, reply_of_answers
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference, quote
from judges.prompt import Prompt, restated
from judges.protocol import (
    Choice,
    Message,
    RefusedError,
    Reply,
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
    from judges.client import Client, Request

BOTH = ("ab", "ba")  # which output is shown first
# Categories of characters that show nothing: controls, formats (zero-width, bidi), blanks.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


@dataclass(kw_only=True)
class Exchange:
    """From any row to a judge's messages, and from the replies to its judgement.

    `lm` is the model's name, or the endpoint of one that is no decision model. Raises
    NoProbabilitiesError or OptionError where such a model cannot follow the judge's plan.
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
        self.decides = is_decision(self.lm)
        if self.decides and self.plan.kind != "weighted":
            raise OptionError(
                f"{self.subject.name}: the plan {self.plan.kind!r} is not for {self.lm}: a "
                "decision model gives probabilities, and there is nothing to choose"
            )
        self.orders = BOTH if isinstance(self.subject, Comparison) else BOTH[:1]
        # A mean draws all its samples from the same prompt, or it would mix two judges.
        self.restates = self.plan.kind != "mean" and not self.decides
        self.sampling = sampling_of(self.plan, self.prompt, seed=self.seed, lm=self.lm)

    def messages(self, texts: Mapping[str, str], order: str = "ab") -> list[Message]:
        """The messages that show the texts in an order."""
        if order not in self.orders:
            name, orders = self.subject.name, " or ".join(map(repr, self.orders))
            raise OptionError(f"{name}: the order {order!r} of its texts; it is {orders}")
        if order == "ba" and isinstance(self.subject, Comparison):
            a, b = self.subject.fields
            texts = {**texts, a: texts[b], b: texts[a]}
        return fill_for(self.lm, self.template, texts)

    def sample(self, reply: Reply) -> Sample:
        """Read one reply; raises NoScoreError, or NoProbabilitiesError if the plan needs some."""
        if self.decides:
            return read_decision(self.prompt, reply)
        return read_sample(self.plan, self.prompt, reply, names=(self.subject.name,))

    def response(self, outputs: Iterable[object]) -> Response:
        """What the outputs of a model say, as a client would report it."""
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
        """The judgement from the response in each order."""
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
        """One judgement for each row, in order and streaming: rows are read as needed.

        A pair is asked in both orders; a choice that follows the position is a tie.
        """
        from judges.client import Request  # asyncio takes longer to load than a judge

        restate = partial(restated, self.prompt) if self.restates else None
        gives_probabilities = False
        # For each row read so far: why it cannot be sent, or None.
        pending: deque[str | None] = deque()

        def accept(reply: Reply) -> Sample:
            """Read a reply; raises NoProbabilitiesError only before a reply has given some."""
            nonlocal gives_probabilities
            gives_probabilities = gives_probabilities or bool(reply.tokens)
            try:
                return self.sample(reply)
            except NoProbabilitiesError as error:
                if gives_probabilities:  # only this reply lacks them
                    raise NoScoreError(str(error)) from error
                raise

        def requests() -> "Iterator[Request]":
            for row in rows:
                texts = readable_texts(self.subject, row)
                pending.append(texts if isinstance(texts, str) else None)
                if not isinstance(texts, str):
                    for order in self.orders:
                        yield Request(self.messages(texts, order), self.sampling, accept, restate)

        responses = client.run(requests())
        for response in responses:
            while (reason := pending.popleft()) is not None:
                yield failed_judgement(self.subject, reason)
            yield self.judgement([response, *islice(responses, len(self.orders) - 1)])
        for reason in pending:  # the rows after the last that was sent
            yield failed_judgement(self.subject, str(reason))

    def _reply(self, output: Any) -> Reply:
        """The reply in an output of an engine (see `Judge.read`); raises NoScoreError."""
        try:
            if self.decides:
                questions = json.loads(self.template[0]["content"])["questions"]
                return reply_of_answers(output, questions)
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
            raise NoScoreError(f"{quote(repr(output))} is no reply: {error}") from None


def readable_texts(subject: Subject, row: Mapping[str, object]) -> dict[str, str] | str:
    """The texts of a row, or the reason why it cannot be judged: one is missing or shows nothing.

    One of two outputs may be blank, so that a system that says nothing loses its comparisons.
    """
    texts, blank = {}, []
    for name in subject.texts:
        value = row.get(name)
        text = value if isinstance(value, str) else as_text(value)
        if not isinstance(text, str):
            is_missing = plain_value(text) is None
            return f"no {name}" if is_missing else f"{name} is {type(text).__name__}, no text"
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
    is_number = type(value) in (int, float) and value == value  # NaN, which is missing, is not
    return str(value) if is_number else join_texts(value) or value


def failed_judgement(subject: Subject, reason: str) -> AnyJudgement:
    kind = Preference if isinstance(subject, Comparison) else Judgement
    return kind.failed(reason)


def _preference(responses: Sequence[Response]) -> Preference:
    """The preference over both orders, which has failed where one order has no answer."""
    answers, comparisons, failure = list[dict[str, float]](), list[str | None](), None
    for sides, response in zip(BOTH, responses, strict=True):
        if samples := cast(list[Sample], response.values):
            comparisons += [sample.text for sample in samples]
            answers.append(mean_answers(samples))
        else:
            failure = failure or f"shown as {sides}: {response.error}"
            answers.append({})
    ab, ba = (next(reversed(each.values()), math.nan) for each in answers)
    comparison = next(filter(None, comparisons), None)
    if failure is not None or len(answers[0]) < 2:
        return Preference.of_orders(ab, -ba, comparison=comparison, failure=failure)
    both = {"answers_ab": answers[0], "answers_ba": answers[1]}
    return Preference.of_orders(ab, -ba, comparison=comparison, **both)
