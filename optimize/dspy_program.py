"""A DSPy program as the search sees it: one predictor that rates or chooses, with its own adapter.

A judge's own module is asked as the judge is. Any other program is run as it is, its forward, its
adapter and all, with what its one predictor reads; the search writes that predictor's instruction
and demonstrations.
"""

import contextvars
import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dspy
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from dspy_judges.errors import JudgesError
from judges.client import BudgetSpentError, FailureMonitor, FatalModelError, Response, is_embedded
from judges.client.dspy import as_lm
from judges.dimension import Comparison, Dimension, Subject
from judges.judge import Judge
from judges.judgement import shortened
from judges.modules import demos_of, signature_of
from judges.prompt import Field, Prompt, encodable
from optimize.items import Item
from optimize.run.run import ActiveRun
from optimize.search.evaluator import ItemScore, JudgeItems

WAY_OUT = (
    "it tunes a judges.RatingJudge or judges.PairwiseJudge, such as "
    "judges.load('relevance').program(), or a dspy.Module with one predictor whose output is a "
    "rating or one of two labels, such as dspy.ChainOfThought('document, summary -> rating: int')"
)
# More ratings than a demonstration's level need be told apart by.
MAX_LEVELS = 100
# Tokens of a reply, unless the LM says otherwise: programs may reason at length.
LONGEST_REPLY = 4096


class ProgramError(JudgesError, TypeError):
    """A program of a form that cannot be tuned; the message says which form can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The output that is a rating, or a choice of two; `values` are a Literal's, in order.

    Of a choice the first label counts 1, and the second 0.
    """

    name: str
    kind: type = int
    values: tuple[Any, ...] = ()
    is_choice: bool = False

    def score(self, value: Any) -> float:
        """What a value of the program's counts; ValueError for what is none."""
        if self.is_choice:
            return 1.0 if self.values.index(value) == 0 else 0.0
        if self.values and value not in self.values:
            raise ValueError(f"{value!r} is not on the scale")
        score = float(value)
        if not math.isfinite(score):
            raise ValueError(f"{value!r} is no rating")
        return score

    def value(self, level: int, human: float) -> Any:
        """What a demonstration shows for a level of the scale, whose people's mean is `human`."""
        if self.is_choice:
            return self.values[1 - level]
        if self.values:
            return next(value for value in self.values if int(value) == level)
        return round(human, 2) if self.kind is float else level

    def scale(self, human: Iterable[float]) -> tuple[int, ...]:
        """The levels of demonstrations: the scale's, or those that people's ratings span."""
        if self.is_choice:
            return 0, 1
        if self.values:
            return tuple(int(value) for value in self.values)
        ratings = list(human)
        low, high = math.floor(min(ratings)), math.ceil(max(ratings))
        return tuple(range(low, max(high, low + 1) + 1, max(1, (high - low) // MAX_LEVELS)))


class Student:
    """A program to tune: what the search asks, and the program again with what it has found.

    `judge` is how the search describes it, once it has been described; `labels` are the words that
    a label may be, with what they count, and `read_number` what a number counts.
    """

    judge: Judge
    program: dspy.Module
    text_names: tuple[str, ...]
    answer_name: str
    labels: Mapping[Any, float]
    is_choice: bool

    def read_number(self, number: float) -> float:
        return number

    def texts(self, item_id: str, example: Mapping[str, Any]) -> dict[str, str]:
        """The texts that are judged; KeyError names the first that is missing."""
        raise NotImplementedError

    def describe(self, ratings: Sequence[float]) -> Judge:
        """The judge that the search tunes, once people's ratings are known."""
        return self.judge

    def scorer(self, run: ActiveRun) -> JudgeItems:
        """What scores items by the program with a prompt of the search's."""
        raise NotImplementedError

    def tuned(self, prompt: Prompt) -> dspy.Module:
        """A copy with the instruction and the demonstrations of the prompt."""
        raise NotImplementedError


class JudgeStudent(Student):
    """A RatingJudge or a PairwiseJudge."""

    def __init__(self, program: dspy.Module, subject: Subject) -> None:
        self.program = program
        # Every candidate is rendered as of this release, the program's own prompt among them.
        self.judge = Judge.from_program(program, subject).with_prompt()
        self.answer_name = self.judge.prompt.outputs[-1].name
        # Such as those of an earlier tuning.
        self._own_demos = self.judge.prompt.demos
        self.text_names = self.judge.texts
        self.is_choice = isinstance(subject, Comparison)
        self.labels = {"A": 1.0, "B": -1.0, "tie": 0.0} if self.is_choice else {}

    def texts(self, item_id: str, example: Mapping[str, Any]) -> dict[str, str]:
        for name in self.judge.texts:
            if example.get(name) is None:
                raise KeyError(name)
        return {name: str(example[name]) for name in self.judge.texts}

    def scorer(self, run: ActiveRun) -> JudgeItems:
        scorer = run.scorer
        return lambda prompt, items: scorer(self._with_demos(prompt), items)

    def _with_demos(self, prompt: Prompt) -> Prompt:
        """The prompt with the program's own demonstrations where the search shows none."""
        return prompt if prompt.demos else replace(prompt, demos=self._own_demos)

    def tuned(self, prompt: Prompt) -> dspy.Module:
        compiled = self.program.deepcopy()
        (predictor,) = compiled.predictors()
        if prompt.fields == self.judge.prompt.fields:
            predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        else:
            predictor.signature = signature_of(prompt)
        predictor.demos = demos_of(self._with_demos(prompt))
        return compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudge(Judge):
    """A program of the user's own under its own fields' names; it is not asked by itself."""

    def __post_init__(self) -> None:
        """Take any fields: the program's adapter renders them."""


class ProgramStudent(Student):
    """Any other program with one predictor; its reasoning, adapter and forward stay."""

    def __init__(self, program: dspy.Module, output: str | None = None) -> None:
        ((self.path, predictor),) = program.named_predictors()
        signature = predictor.signature
        self.program, self.answer = program, answer_of(type(program).__name__, signature, output)
        self.answer_name = self.answer.name
        self.is_choice = self.answer.is_choice
        self.text_names = tuple(signature.input_fields)
        try:
            # Of the class, since DSPy warns of a module's own forward.
            forward = inspect.signature(type(program).forward)
            forward.bind(program, **dict.fromkeys(self.text_names))
        except TypeError as error:
            raise ProgramError(
                f"the forward of {type(program).__name__} does not take what its predictor reads "
                f"({', '.join(self.text_names)}): {error}"
            ) from None
        outputs = signature.output_fields
        self._reason = next(
            (name for name in outputs if name != self.answer.name and _is_text(outputs[name])), None
        )
        self._signature = signature
        values = self.answer.values
        self.labels = {value: self.answer.score(value) for value in values}
        if self.answer.is_choice:
            self.labels.setdefault("tie", 0.5)
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._examples: dict[tuple[str, ...], tuple[str, float]] = {}
        self._scale: tuple[int, ...] = (0, 1)

    def read_number(self, number: float) -> float:
        """A vote margin in [-1, 1] as what a choice counts; a rating as it is."""
        return (number + 1) / 2 if self.answer.is_choice else number

    def texts(self, item_id: str, example: Mapping[str, Any]) -> dict[str, str]:
        inputs = {name: example.get(name) for name in self.text_names}
        for name, value in inputs.items():
            if value is None:
                raise KeyError(name)
            if isinstance(value, dspy.Type | dspy.History):
                kind = type(value).__name__
                raise ProgramError(f"{name} is a dspy.{kind}; RankOptimizer reads texts alone")
        self._inputs[item_id] = inputs
        return {name: _text(value) for name, value in inputs.items()}

    def describe(self, ratings: Sequence[float]) -> Judge:
        self._scale = self.answer.scale(ratings)
        described = {
            name: _description(name, info)
            for name, info in {
                **self._signature.input_fields,
                **self._signature.output_fields,
            }.items()
        }
        meaning = described[self.answer.name]
        if self.answer.is_choice:
            first, second = self.answer.values
            meaning = f"{meaning} (1 = {first}, 0 = {second})"
        fields = [Field(name=n, description=described[n], role="input") for n in self.text_names]
        if self._reason is not None:
            reason = Field(name=self._reason, description=described[self._reason], role="output")
            fields.append(reason)
        fields.append(
            Field(name=self.answer.name, description=meaning, role="output", choices=self._scale)
        )
        subject = Dimension(
            name=_slug(self.answer.name),
            definition=meaning,
            inputs={_slug(name): described[name] for name in self.text_names},
            anchors=dict.fromkeys(self._scale, ""),
            instruction=self._signature.instructions,
        )
        prompt = Prompt(instruction=self._signature.instructions, fields=tuple(fields))
        self.judge = ProgramJudge(subject=subject, prompt=prompt)
        return self.judge

    def scorer(self, run: ActiveRun) -> JudgeItems:
        client, settings = run.models.judge, run.prepared.settings
        plan, seed = run.models.plan, settings.seed
        lm = as_lm(client, temperature=plan.temperature, max_tokens=LONGEST_REPLY, seed=seed)
        # A model in this process answers one request at a time, and in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        monitor = FailureMonitor()
        labels = run.prepared.labels
        for item in (*labels.train.items, *labels.dev.items):
            self._examples[_key(item.texts)] = item.id, item.human

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[ItemScore]:
            """Yield what the program says of each item, in order."""
            program = self.tuned(prompt)
            _predictor(program, self.path).lm = lm
            lm.engine.stopped = None
            with client.account.spending_on(run.purpose_of(items[0])):
                judged = _in_order(lambda item: self._judge(program, lm, item), items, n_threads)
                for score in judged:
                    run.step(score.failure is not None)
                    response = Response(replies=(), parsed=(), error=score.failure)
                    monitor.add(response)
                    yield score

        return judge_items

    def _judge(self, program: dspy.Module, lm: dspy.LM, item: Item) -> ItemScore:
        """One item's score; raises what ends a run, among it ProgramError."""
        trace: list[Any] = []
        usage = UsageTracker()
        # The usage and the trace are the search's, and no part of its user's.
        with dspy.context(trace=trace, usage_tracker=usage, disable_history=True):
            item_score = self._run(program, lm, item, trace)
        totals = usage.get_total_tokens().values()
        return replace(
            item_score,
            tokens_in=sum(total.get("prompt_tokens", 0) for total in totals),
            tokens_out=sum(total.get("completion_tokens", 0) for total in totals),
        )

    def _run(
        self, program: dspy.Module, lm: dspy.LM, item: Item, trace: Sequence[Any]
    ) -> ItemScore:
        """What the program says of an item, without what that took."""
        try:
            prediction = program(**self._inputs[item.id])
            score = self.answer.score(self._answer_in(prediction))
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - a program of the user's may raise anything
            stopped = lm.engine.stopped
            if isinstance(stopped, FatalModelError | BudgetSpentError):
                raise stopped from None
            if isinstance(error, AdapterParseError):
                reply = shortened(str(error.lm_response))
                return ItemScore(score=math.nan, failure=f"no {self.answer.name} in {reply}")
            reason = shortened(f"{type(error).__name__}: {error}")
            return ItemScore(score=math.nan, failure=reason)
        comment = ""
        if self._reason is not None and trace:
            comment = _text(trace[-1][2].get(self._reason))
        return ItemScore(score=score, comment=comment)

    def _answer_in(self, prediction: Any) -> Any:
        """The answer in what the program returns: its field, or the bare value."""
        if isinstance(prediction, Mapping | dspy.Example):
            if self.answer.name not in prediction:
                fields = ", ".join(map(str, prediction.keys())) or "nothing"
                raise ProgramError(
                    f"{type(self.program).__name__} returns {fields}, and no {self.answer.name!r}, "
                    "which is what its predictor rates or chooses: return that field as well"
                )
            return prediction[self.answer.name]
        return prediction

    def tuned(self, prompt: Prompt) -> dspy.Module:
        compiled = self.program.deepcopy()
        predictor = _predictor(compiled, self.path)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        # Demonstrations of its own stay as they are where the search shows none.
        if prompt.demos:
            predictor.demos = [self._demo(demo) for demo in prompt.demos]
        return compiled

    def _demo(self, demo: Mapping[str, Any]) -> dspy.Example:
        """A demonstration of the search's in the program's own types, as its adapter shows it."""
        texts = {name: str(demo[name]) for name in self.text_names}
        item_id, human = self._examples.get(_key(texts), ("", math.nan))
        values: dict[str, Any] = dict(self._inputs.get(item_id, texts))
        level = int(demo[self.answer.name])
        values[self.answer.name] = self.answer.value(level, human)
        return dspy.Example(**values).with_inputs(*self.text_names)


def student_of(program: object, output: str | None = None) -> Student:
    """The program as the search sees it; ProgramError says what cannot be tuned, and what can."""
    name = type(program).__name__
    if not isinstance(program, dspy.Module):
        raise ProgramError(f"RankOptimizer cannot tune a {name}: {WAY_OUT}")
    predictors = [path for path, _ in program.named_predictors()]
    if len(predictors) != 1:
        found = f"{len(predictors)} predictors ({', '.join(predictors)})" if predictors else "none"
        raise ProgramError(
            f"RankOptimizer tunes one predictor, and {name} has {found}: tune the module that "
            "rates by itself, or set _compiled = True on the others"
        )
    subject = getattr(program, "subject", None)
    if isinstance(subject, Dimension | Comparison):
        return JudgeStudent(program, subject)
    return ProgramStudent(program, output)


def answer_of(program: str, signature: Any, output: str | None = None) -> Answer:
    """The output that is a rating or a choice; ProgramError where there is none, or several."""
    outputs = signature.output_fields
    if output is not None and output not in outputs:
        raise ProgramError(f"{program} has no output {output!r}; it has {', '.join(outputs)}")
    names = [output] if output is not None else list(outputs)
    answers = [
        answer for name in names if (answer := _answer(name, outputs[name].annotation)) is not None
    ]
    if len(answers) == 1:
        return answers[0]
    written = ", ".join(f"{name}: {_type_name(info.annotation)}" for name, info in outputs.items())
    if answers:
        raise ProgramError(
            f"{program} writes {len(answers)} ratings or choices ({written}): say which is "
            f"people's, as in RankOptimizer(output={answers[-1].name!r})"
        )
    last = names[-1]
    raise ProgramError(
        f"{program} writes no rating and no choice ({written}): type its output, as in "
        f"'... -> {last}: int', Literal[1, 2, 3, 4, 5], float, or Literal of two labels"
    )


def _answer(name: str, annotation: Any) -> Answer | None:
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _answer(name, kinds[0]) if len(kinds) == 1 else None
    if annotation is bool:
        return Answer(name=name, values=(True, False), is_choice=True)
    if annotation in (int, float):
        return Answer(name=name, kind=annotation)
    if origin is not Literal:
        return None
    values = get_args(annotation)
    numbers = [value for value in values if re.fullmatch(r"-?\d+", str(value))]
    if len(numbers) == len(values) >= 2:
        return Answer(name=name, values=tuple(sorted(values, key=int)))
    return Answer(name=name, values=values, is_choice=True) if len(values) == 2 else None


def _predictor(program: dspy.Module, path: str) -> Any:
    return dict(program.named_predictors())[path]


def _in_order(
    judge: Callable[[Item], ItemScore], items: Sequence[Item], n_threads: int
) -> Iterator[ItemScore]:
    """Judge the items in threads that see what is set in DSPy here; what is left is not begun."""
    if n_threads == 1:
        yield from map(judge, items)
        return
    pool = ThreadPoolExecutor(min(n_threads, max(1, len(items))), "program")
    try:
        context = contextvars.copy_context()
        futures = [pool.submit(context.copy().run, judge, item) for item in items]
        for future in futures:
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _is_text(info: Any) -> bool:
    """Whether a field is words: a str, or DSPy's own type for reasoning."""
    return info.annotation is str or getattr(info.annotation, "__name__", "") == "Reasoning"


def _description(name: str, info: Any) -> str:
    description = str((info.json_schema_extra or {}).get("desc") or name)
    return name if description == f"${{{name}}}" else description


def _type_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", "") or str(annotation).replace("typing.", "")


def _slug(name: str) -> str:
    """The name as a dimension's may be: small letters, digits and underscores."""
    slug = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return slug if slug[:1].isalpha() else f"text_{slug}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _key(texts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(encodable(text) for text in texts.values())
