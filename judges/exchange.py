"""Turn rows into a judge's messages, send them through a client, and turn replies into judgements.

A row gets a failed judgement, and is not sent, if it lacks a text or if a text has no visible
character.
"""

import math
import unicodedata
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice, tee
from typing import TYPE_CHECKING, Protocol, cast

from dspy_judges.errors import OptionError
from judges import scoring
from judges.decisions import JSON_ERRORS, fill_template, reply_from_answers
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, NoScoreError, Preference, quote
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
from judges.scoring import NoProbabilitiesError, ReplyContent, SamplingPlan
from judges.tables.text import plain_value

if TYPE_CHECKING:
    from judges.client import Client

# The texts of one output or pair, by their names.
Row = Mapping[str, object]
# Judgements that are made one after another; closing the generator ends the run.
Judgements = Generator[AnyJudgement, None, None]
# Unicode categories of invisible characters: control, format (zero-width, bidi), and blanks.
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


class AskedJudge(Protocol):
    """What an exchange needs to know about the judge that is asked; `Judge` has all of it."""

    @property
    def subject(self) -> Subject: ...
    @property
    def prompt(self) -> Prompt: ...
    @property
    def weights(self) -> AnswerWeights | None: ...
    @property
    def threshold(self) -> float: ...
    def template(self) -> Sequence[Message]: ...


class Exchange:
    """Turns rows into the messages of a judge, and replies into judgements.

    `lm` is the model's name or endpoint; for a decision model, it has to be the name. Raises
    NoProbabilitiesError or OptionError if the model cannot follow the sampling plan.
    """

    def __init__(self, judge: AskedJudge, plan: SamplingPlan, lm: str, seed: int = 0) -> None:
        self.asks_decision_model = is_decision_model(lm)
        if self.asks_decision_model and plan.kind != "weighted":
            raise OptionError(
                f"{judge.subject.name}: the plan {plan.kind!r} is not for {lm}: a decision model "
                "always gives probabilities; leave the plan out"
            )
        self.judge, self.subject, self.prompt = judge, judge.subject, judge.prompt
        self.plan, self.lm, self.template = plan, lm, judge.template()
        self.sampling = scoring.sampling_for(plan, self.prompt, seed=seed, lm=lm)
        self.has_given_logprobs = False  # whether a reply of the model had log-probabilities

    def messages(self, texts: Mapping[str, str], order: str = "ab") -> list[Message]:
        """Return the messages for these texts; the order "ba" shows output B of a pair first."""
        if order not in self.subject.orders:
            name, orders = self.subject.name, " or ".join(map(repr, self.subject.orders))
            raise OptionError(f"{name}: unknown order {order!r}; use {orders}")
        if order == "ba":
            name_a, name_b = self.subject.fields
            texts = {**texts, name_a: texts[name_b], name_b: texts[name_a]}
        return fill_template(self.lm, self.template, texts)

    def read_content(self, reply: Reply) -> ReplyContent:
        """Read a reply; raises NoScoreError or NoProbabilitiesError if the reply cannot be used."""
        if self.asks_decision_model:
            return scoring.read_decision_reply(self.prompt, reply)
        return scoring.read_text_reply(self.plan, self.prompt, reply, (self.subject.name,))

    def response_from_outputs(self, outputs: Iterable[object]) -> Response:
        """Read the outputs of an inference engine for one request, as a client reads replies."""
        reply_contents, failures = list[ReplyContent](), list[str]()
        for output in [outputs] if isinstance(outputs, str) else outputs:
            try:
                check_reply(reply := self._read_output(output))
                reply_contents.append(self.read_content(reply))
            except (RefusedError, NoScoreError, NoProbabilitiesError) as failure:
                failures.append(str(failure))
        return Response(values=tuple(reply_contents), failures=tuple(failures))

    def judgement_from_responses(self, responses: Sequence[Response]) -> AnyJudgement:
        """Return a row's judgement; a pair has two responses, one for each order of the outputs."""
        choice_fields = self.prompt.choices
        if self.subject.is_pairwise:
            return _preference(responses).rescored(choice_fields, self.judge.weights)
        (response,) = responses
        reply_contents = cast(Sequence[ReplyContent], response.values)
        judgement = scoring.judgement_from_contents(self.plan, reply_contents, response.failures)
        return judgement.rescored(choice_fields, self.judge.weights, self.judge.threshold)

    def judge_rows(self, rows: Iterable[Row], client: "Client") -> Judgements:
        """Yield a judgement for each row, in order; a pair is asked in both orders."""
        if self.plan.kind == "weighted" and client.model.has_logprobs is False:
            raise NoProbabilitiesError(f"{client.model.name} gives no log-probabilities")
        # The client reads the rows before the loop does, in order to send them ahead of time.
        rows_to_send, rows_to_judge = tee(map(partial(texts_or_reason, self.subject), rows))
        sent_rows = (texts for texts in rows_to_send if not isinstance(texts, str))
        requests = chain.from_iterable(map(self._requests, sent_rows))
        # After Ctrl-C, closing the responses waits for answers to requests in flight, while the
        # store is still open.
        with closing(client.run(requests)) as responses:
            for row_texts in rows_to_judge:
                if isinstance(row_texts, str):
                    yield self.subject.judgement_class.failed(row_texts)
                else:
                    row_responses = list(islice(responses, len(self.subject.orders)))
                    yield self.judgement_from_responses(row_responses)
            next(responses, None)  # raises BudgetSpentError if some request was not allowed

    def _requests(self, texts: Mapping[str, str]) -> list[Request]:
        # A repeated request restates the format of the reply, except for the plan "mean", whose
        # replies all have to come from the same prompt.
        is_restated = self.plan.kind != "mean" and not self.asks_decision_model
        restate_messages = partial(restate_format, self.prompt) if is_restated else None
        all_messages = [self.messages(texts, order) for order in self.subject.orders]
        return [Request(m, self.sampling, self._read_reply, restate_messages) for m in all_messages]

    def _read_reply(self, reply: Reply) -> ReplyContent:
        self.has_given_logprobs = self.has_given_logprobs or bool(reply.tokens)
        try:
            return self.read_content(reply)
        except NoProbabilitiesError as error:
            if self.has_given_logprobs:  # other replies have them, so only this reply fails
                raise NoScoreError(str(error)) from error
            raise

    def _read_output(self, output: object) -> Reply:
        try:
            if self.asks_decision_model:
                return reply_from_answers(output, [field.name for field in self.prompt.choices])
            return reply_from_output(output)
        except JSON_ERRORS as error:
            raise NoScoreError(f"{quote(repr(output))} cannot be read: {error}") from None


def texts_or_reason(subject: Subject, row: Row) -> dict[str, str] | str:
    """Return a row's texts by name, or why the row is not sent: a text is missing or blank.

    One of the two outputs of a pair may be blank, since a system that says nothing should lose.
    """
    texts, blank_names = {}, []
    for name in subject.texts:
        text = as_text(row.get(name))
        if plain_value(text) is None:
            return f"no {name}"
        if not isinstance(text, str):
            return f"{name} is {type(text).__name__}, not a text"
        texts[name] = text
        if all(unicodedata.category(character) in INVISIBLE_CATEGORIES for character in text):
            blank_names.append(name)
    if len(blank_names) > 1 or not set(blank_names) <= set(subject.fields):
        return f"{blank_names[0]} is empty"
    return texts


def zip_judgements(
    judgement_streams: Sequence[Judgements],
) -> Generator[tuple[AnyJudgement, ...], None, None]:
    """Yield the judgements of each row by several judges.

    The caller reads the generator to its end, or closes it. At its end, the generator raises
    BudgetSpentError if the budget did not allow some repeated request.
    """
    with ExitStack() as stack:
        for stream in judgement_streams:
            stack.enter_context(closing(stream))
        yield from zip(*judgement_streams, strict=True)


def _preference(responses: Sequence[Response]) -> Preference:
    reply_contents = [cast(Sequence[ReplyContent], response.values) for response in responses]
    answers_ab, answers_ba = map(scoring.mean_answers, reply_contents)
    # In the order "ba", the answers are positive for output B.
    margin_ab = [math.nan, *answers_ab.values()][-1]
    margin_ba = [math.nan, *answers_ba.values()][-1]
    free_texts = (content.free_text for content in chain.from_iterable(reply_contents))
    preference = Preference.from_orders(margin_ab, -margin_ba, next(filter(None, free_texts), None))
    for order, response in zip(Comparison.orders, responses, strict=True):
        if response.failure is not None:
            failure = f"in the order {order}: {response.failure}"
            return replace(preference, preferred=None, failure=failure)
    if len(answers_ab) == 1:  # the judge asks no questions
        return preference
    return replace(preference, answers_ab=answers_ab, answers_ba=answers_ba)
