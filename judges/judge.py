"""The class `Judge`: a judge with one prompt and one model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from msgspec import UNSET

from dspy_judges.errors import OptionError
from judges.base_judge import BaseJudge
from judges.decisions import DecisionTask, fill_template, template_for_model
from judges.dimension import Subject, check_prompt
from judges.exchange import Exchange, Judgements, Row, texts_or_reason
from judges.frozen import JudgeFile, SubjectEntry, to_json_data
from judges.judgement import AnyJudgement, Preference
from judges.labels.conversations import cells_with_texts
from judges.prompt import Field, Prompt, Reasoning, with_questions
from judges.protocol import EMBEDDED, Message, Model, is_decision_model, max_tokens_factor
from judges.questions import AnswerWeights, Question, QuestionError
from judges.scoring import SamplingPlan, default_plan, default_plan_for_name

if TYPE_CHECKING:
    import dspy

    from judges.client import Client


@dataclass(frozen=True, kw_only=True)
class Judge(BaseJudge):
    """A judge that rates outputs, passes or fails them, or compares pairs.

    `judges.load` reads a judge from a file, and `Judge.of` makes a judge from a dimension or
    comparison.

    Args:
        prompt: The instruction, the fields and the demonstrations.
        plan: How replies become a score; None stands for the model's default plan, as in catalogue
            judges.
        weights: For a judge that asks questions, how much each answer counts in the score; None if
            the rating, verdict or choice alone is the score.
        threshold: For a verdict judge, the lowest score that passes, in (0, 1]. All scores are
            then rescaled, so that a pass always has .5 or more.
        stored_messages: The messages in the judge's file, which are sent as they are; None if
            `prompt` is rendered to the same messages.

    Examples:
        >>> judge = judges.load("relevance")
        >>> judge(document="...", summary="...").score
        >>> judge.score(frame, lm="openai/gpt-4.1-mini", max_cost=2.0)
    """

    prompt: Prompt
    plan: SamplingPlan | None = None
    weights: AnswerWeights | None = None
    threshold: float = 0.5
    stored_messages: tuple[Message, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lm, str):
            raise OptionError(
                f"lm is of the type {type(self.lm).__name__}; give the model's name, as in "
                "lm='openai/gpt-4.1-mini', or ask a dspy.LM by judge.program()"
            )
        check_prompt(self.subject, self.prompt)
        if self.weights and (problem := self.weights.problem(self.prompt.choices)):
            raise QuestionError(f"{self.name}: {problem}")
        object.__setattr__(self, "prompt", self.prompt.with_clean_texts())

    def __repr__(self) -> str:
        """Return a short description on one line, since a prompt may hold whole documents."""
        plan_text = self.plan.kind if self.plan else "the model's own"
        questions_text = f"{len(self.questions)} questions, " if self.questions else ""
        return (
            f"Judge({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, {questions_text}"
            f"{len(self.prompt.demos)} demos, lm {self.lm!r}, plan {plan_text})"
        )

    @classmethod
    def of(
        cls,
        subject: Subject,
        *,
        reasoning: Reasoning | None = None,
        lm: str = EMBEDDED,
        questions: Sequence[Question] = (),
    ) -> "Judge":
        """Return the untuned judge of a dimension or comparison.

        Args:
            subject: The dimension or comparison to judge.
            reasoning: What the model writes before its answer: "none", "brief", "steps" or
                "questions". The default is "none" for a dimension and "brief" for a comparison.
            lm: The model to ask.
            questions: Questions that the model answers in the same reply. Without `weights`, the
                answers are reported and do not count in the score.
        """
        question_fields = [question.field for question in questions]
        prompt = with_questions(subject.prompt(reasoning), question_fields)
        return cls(subject=subject, prompt=prompt, lm=lm)

    @classmethod
    def from_program(cls, program: "dspy.Module", subject: Subject) -> "Judge":
        """Make a judge with the instruction, demos and questions of a DSPy module (see `program`).

        The judge also gets the module's weights and threshold, if the module has any. The model is
        the predictor's LM, else the LM of `dspy.configure`, else the model of the judge from which
        the module was made.

        Raises:
            OptionError: The module does not have exactly one predictor, or there is no model.
            DimensionError: The module has other fields than `subject` declares.
        """
        from judges.client import configured_lm, open_lm
        from judges.modules import Scoring, prompt_of, scoring_of

        predictors = program.predictors()
        if len(predictors) != 1:
            raise OptionError(f"a judge has one predictor; this program has {len(predictors)}")
        (predictor,) = predictors
        prompt = prompt_of(predictor.signature, predictor.demos)
        scoring = scoring_of(program) or Scoring(prompt.choices)
        weights, threshold = scoring.weights, scoring.threshold
        judge = cls(subject=subject, prompt=prompt, weights=weights, threshold=threshold)
        if (lm := predictor.lm or configured_lm()) is not None:
            model, api_base = open_lm(lm)
            return replace(judge, lm=model.name, api_base=api_base, lm_source="user")
        for _, module in program.named_sub_modules():
            if isinstance(source_judge := getattr(module, "source_judge", None), cls):
                api_base, lm_source = source_judge.api_base, source_judge.lm_source
                return replace(judge, lm=source_judge.lm, api_base=api_base, lm_source=lm_source)
        raise OptionError("the program has no model: program.set_lm(...) or dspy.configure(lm=...)")

    @property
    def single_judges(self) -> tuple["Judge", ...]:
        return (self,)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (self.prompt,)

    @property
    def is_frozen(self) -> bool:
        return self.plan is not None

    @property
    def questions(self) -> tuple[Field, ...]:
        return self.prompt.question_fields

    def plan_for(self, model: Model) -> SamplingPlan:
        """Return the judge's own plan, or the default plan of this model."""
        return self.plan or default_plan(model)

    def resolved_plan(self) -> SamplingPlan:
        """Return the judge's own plan, or the default plan for the model's name."""
        return self.plan or default_plan_for_name(self.lm)

    def judge_rows(self, rows: Iterable[Row], client: "Client", *, seed: int = 0) -> Judgements:
        """Yield the judgement of each row, in order; `client` sends the requests.

        The client may ask another model than `lm`, such as the LM of `dspy.configure`. If just one
        of these two models is a decision model, a copy with the client's model is used.
        """
        self.check_destination()
        judge, model = self, client.model
        if is_decision_model(model.name) != is_decision_model(self.lm):
            judge = self.with_model(model.name)
        lm = model.name if is_decision_model(model.name) else model.endpoint
        return Exchange(judge, judge.plan_for(model), lm, seed).judge_rows(rows, client)

    def request(self, row: Row, order: str = "ab") -> dict[str, Any] | None:
        """Return the request for a row, for an inference engine that asks the model itself.

        Args:
            row: Each text that the judge reads (`judge.texts`), by its name; or a conversation.
            order: "ab", or "ba" to show output B of a pair first. A pair needs a request
                for each order.

        Returns:
            A dict with `messages` and `sampling`, which has the other fields of an OpenAI chat
            request; a field is missing if the model's own default applies. For a decision model
            (see `with_model`), the request's body without the model's name. None if the row cannot
            be judged.

        Raises:
            OptionError: The order is unknown, or is "ba" although the judge is not pairwise.
            NoProbabilitiesError: The plan needs token probabilities, and some ratings may be
                several tokens.

        Examples:
            >>> judge = judges.load("fluency", lm="openai/gpt-4.1-mini")
            >>> judge.request({"summary": "The mill burnt down at night."})["messages"]
        """
        exchange = Exchange(self, self.resolved_plan(), self.lm)
        texts_or_failure = texts_or_reason(self.subject, cells_with_texts(row))
        if isinstance(texts_or_failure, str):
            return None
        messages, sampling = exchange.messages(texts_or_failure, order), exchange.sampling
        if exchange.asks_decision_model:
            task_json, texts_json = (message["content"] for message in messages)
            return DecisionTask.parse(task_json).request_body(self.lm, json.loads(texts_json))
        sampling = replace(sampling, max_tokens=max_tokens_factor(self.lm) * sampling.max_tokens)
        return {"messages": messages, "sampling": sampling.request_fields()}

    def read(
        self, row: Row, outputs: Iterable[object], outputs_ba: Iterable[object] = ()
    ) -> dict[str, Any]:
        """Return the judgement of a row as a dict, from an inference engine's replies to `request`.

        Args:
            row: The same row as for `request`.
            outputs: The replies: strings, the choices of an OpenAI response (objects or dicts), or
                vLLM's outputs; from a decision model, a list with its response's `answers`.
            outputs_ba: The replies to the request for the order "ba" of a pair.

        Returns:
            A dict with the `score`, the `rating`, `verdict` or `preference`, the `answers` to
            questions, the `distribution` over the ratings, the `rationale` and the `failure`. A
            value that does not exist is None, such as the `score` of a failed judgement.
        """
        exchange = Exchange(self, self.resolved_plan(), self.lm)
        texts_or_failure = texts_or_reason(self.subject, cells_with_texts(row))
        if isinstance(texts_or_failure, str):
            judgement: AnyJudgement = self.subject.judgement_class.failed(texts_or_failure)
        else:
            outputs_by_order = (outputs, outputs_ba)[: len(self.subject.orders)]
            responses = [exchange.response_from_outputs(replies) for replies in outputs_by_order]
            judgement = exchange.judgement_from_responses(responses)
        result_json = {
            "score": judgement.score if judgement.failure is None else None,
            "distribution": None,
            "rationale": judgement.rationale,
            "answers": judgement.answers,
            "failure": judgement.failure,
        }
        if isinstance(judgement, Preference):
            return {**result_json, "preference": judgement.preferred}
        verdict_words, rating = self.subject.words, judgement.rating
        answer = verdict_words[1 - rating] if verdict_words and rating is not None else rating
        distribution = judgement.as_json()["distribution"] or None
        return {**result_json, self.kind: answer, "distribution": distribution}

    def template(self) -> list[Message]:
        """Return the judge's messages, with a `{{name}}` slot for each text in the last one.

        For a decision model (see `with_model`), the contents of the messages are JSON objects.
        """
        return list(self._template)

    @cached_property
    def _template(self) -> Sequence[Message]:
        return self.stored_messages or template_for_model(self.lm, self.prompt)

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """Return the messages sent for one output; raises KeyError if a text is missing."""
        return fill_template(self.lm, self._template, texts)

    def program(self) -> "dspy.Module":
        """Return a DSPy module that sends the same messages, to compose or to optimize further.

        The module asks the LM of `dspy.configure`, else the judge's own model, for one reply. The
        prediction has every answer of the reply, and the `score` that the judge computes from the
        answers; for a pair, the score is the margin in the one order that is asked. The verdict in
        the prediction is the word that the reply states; it does not depend on the threshold. An LM
        that answers typed questions, such as `dspy.experimental.TypeSafe`, is asked typed
        questions, and the prediction has the LM's most likely answers.

        Raises:
            OptionError: The judge's file has messages that a program would render differently.

        Examples:
            >>> program = judges.load("relevance").program()
            >>> program(document="...", summary="...").rating
        """
        if self.stored_messages is not None:
            raise OptionError(
                f"{self.name}: a DSPy program would send other messages than those in the judge's "
                "file; use the judge as it is, or tune it again"
            )
        from judges.client.dspy import as_lm
        from judges.modules import PairwiseJudge, RatingJudge, VerdictJudge

        def default_lm() -> "dspy.LM":
            with self.open_client() as client:
                return as_lm(client)

        module_classes = {"rating": RatingJudge, "verdict": VerdictJudge, "pairwise": PairwiseJudge}
        module = module_classes[self.kind](
            self.subject,
            prompt=self.prompt,
            default_lm=default_lm,
            weights=self.weights,
            threshold=self.threshold,
        )
        module.source_judge = self
        return module

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> Self:
        """Return a copy of the judge with another model or another endpoint.

        A decision model takes other messages than a chat model. If a decision model replaces a chat
        model or the other way round, the copy renders its messages from `prompt`, and has the
        default plan of the new model in place of the judge's own plan.

        Args:
            lm: "embedded", "openai/NAME", any model that DSPy knows, or a decision model
                ("decisions/NAME", "systemone/NAME"); None keeps the model.
            api_base: The address of an OpenAI-compatible server; None keeps the endpoint.

        Raises:
            OptionError: `api_base` is empty.
        """
        if api_base is not None and not api_base.strip():
            raise OptionError("api_base is empty: give an address, or leave it out")
        judge = self if lm is None else replace(self, lm=lm, lm_source="user")
        if is_decision_model(judge.lm) != is_decision_model(self.lm):
            plan = self.plan and default_plan_for_name(judge.lm)
            judge = replace(judge, plan=plan, stored_messages=None)
        return judge if api_base is None else replace(judge, api_base=api_base)

    def with_plan(self, plan: SamplingPlan | None) -> "Judge":
        """Return a copy of the judge with another plan; None is the default plan for its model."""
        return replace(self, plan=plan)

    def freeze(self) -> JudgeFile:
        return JudgeFile(
            subject=SubjectEntry.from_subject(self.subject),
            provenance=to_json_data(self.provenance),
            messages=self.template(),
            prompt=self.prompt,
            sampling=self.resolved_plan(),
            lm=self.lm,
            threshold=UNSET if self.threshold == 0.5 else self.threshold,
            weights=UNSET if self.weights is None else self.weights,
        )

    @classmethod
    def from_file(cls, file: JudgeFile) -> "Judge":
        """Return the judge in a file whose content was checked (see `frozen.loads`)."""
        judge = cls(  # raises an error for a prompt or weights that do not fit the subject
            subject=file.subject.to_subject(),
            prompt=file.prompt,
            plan=file.sampling,
            lm=file.lm,
            provenance=file.provenance,
            threshold=file.threshold or 0.5,
            weights=file.weights or None,
            lm_source="file",
        )
        if file.messages == template_for_model(file.lm, file.prompt):
            return judge
        return replace(judge, stored_messages=tuple(file.messages))
