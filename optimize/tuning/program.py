"""A DSPy program of the user as a judge that `RankOptimizer` tunes.

The program runs as it is, with its own forward method and adapter. The answers of its predictor are
read from DSPy's trace.
"""

import contextvars
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import dspy
from dspy.adapters.decision_state import DecisionState
from dspy.adapters.types.decision import decision_type
from dspy.experimental import Noul
from dspy.utils.usage_tracker import UsageTracker
from pydantic.fields import FieldInfo

from judges.client import BudgetSpentError, FailureMonitor
from judges.client.dspy import as_lm
from judges.dimension import Dimension
from judges.frozen import texts_digest
from judges.judgement import Judgement, quote
from judges.labels.types import LabelError
from judges.modules import JudgeModule, ScoredProgram, Scoring, prompt_of, scoring_of
from judges.prompt import Field, Prompt, utf8_text
from judges.protocol import FatalModelError, is_decision_model, is_embedded
from judges.questions import AnswerWeights
from optimize.items import Item, Items
from optimize.search.candidates import Demo
from optimize.search.evaluator import ItemJudgement, JudgeItems
from optimize.tuning.models import RunClients
from optimize.tuning.program_answer import ProgramError, find_rated_answer, read_answers
from optimize.tuning.settings import Settings

# A labelled example of the user: a dspy.Example or a dict.
Example = Mapping[str, Any]
# The default name of the field of an example that holds people's rating.
HUMAN_FIELD = "human"
# Upper bound on the tokens of a reply if the LM sets none; it is large, because programs may write
# long reasoning.
MAX_REPLY_TOKENS = 4096


def _only_predictor(module: dspy.Module) -> dspy.Predict:
    """Return the program's only predictor that is not compiled, or raise ProgramError."""
    named_predictors = module.named_predictors() if isinstance(module, dspy.Module) else ()
    predictors = {
        path: predictor
        for path, predictor in named_predictors
        if predictor is module or not getattr(predictor, "_compiled", False)
    }
    if len(predictors) == 1:
        return next(iter(predictors.values()))
    raise ProgramError(
        "RankOptimizer tunes a dspy.Module with one predictor, such as dspy.ChainOfThought("
        "'document, summary -> rating: int') or judges.load('relevance').program(), and "
        f"{type(module).__name__} has {len(predictors)} ({', '.join(predictors) or 'none'}): tune "
        "only the module that rates, or set _compiled = True on the other predictors"
    )


def _input_names(module: dspy.Module, predictor_inputs: Mapping[str, FieldInfo]) -> tuple[str, ...]:
    """Return the names of the program's inputs, from `forward` or from the predictor."""
    _, *parameters = inspect.signature(type(module).forward).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return tuple(predictor_inputs)
    used_parameters = [p for p in parameters if p.default is p.empty or p.name in predictor_inputs]
    names = [parameter.name for parameter in used_parameters]
    return tuple(predictor_inputs if {*names} == {*predictor_inputs} else names)


class UserProgram:
    """The user's program in the search: reads examples, judges items, and makes tuned copies.

    `rated_answer` is the output that people rated. `answers` has the outputs that are questions,
    then the rated answer. `reason_name` is the name of the first output that is no answer, such as
    the reasoning of ChainOfThought. `weights` are the program's own weights of its answers.
    """

    def __init__(self, module: dspy.Module, output: str | None = None) -> None:
        self.module = module
        self.predictor = _only_predictor(module)
        self.signature = self.predictor.signature
        self.input_names = _input_names(module, self.signature.input_fields)
        scoring = scoring_of(module)
        self.weights = scoring and scoring.weights
        if output is None and scoring is not None:
            output = scoring.choice_fields[-1].name
        self.rated_answer = find_rated_answer(type(module).__name__, self.signature, output)
        answers = read_answers(self.signature)
        questions = [other for other in answers if other.values and other != self.rated_answer]
        self.answers = (*questions, self.rated_answer)
        answer_names = [answer.name for answer in self.answers]
        other_names = (name for name in self.signature.output_fields if name not in answer_names)
        self.reason_name = next(other_names, None)
        self._inputs_by_key: dict[str, Example] = {}

    @property
    def takes_demos(self) -> bool:
        """Whether an example can be a demonstration: it has the predictor's inputs and answers."""
        computes_inputs = {*self.input_names} != {*self.signature.input_fields}
        return len(self.answers) == 1 and not computes_inputs

    def check_decisions(self, model_name: str) -> None:
        """Raise ProgramError if DSPy cannot ask this model for the program's outputs."""
        # A judge's program already leaves out the fields that a decision model cannot write.
        if any(isinstance(module, JudgeModule) for _, module in self.module.named_sub_modules()):
            return
        is_decision = is_decision_model(model_name)
        try:
            state = DecisionState(self.signature, self.predictor.fields, system_one=is_decision)
            for name, output_type in state.types.items():
                state._question(name, self.signature.output_fields[name], output_type)
        except ValueError as error:
            raise ProgramError(f"this program cannot be tuned with {model_name}: {error}") from None

    def read_examples(self, examples: list[Example], label: str | None, group: str | None) -> Items:
        """Convert the examples to items, and keep their inputs for calls of the program."""
        has_human = examples and HUMAN_FIELD in examples[0]
        label = label or (HUMAN_FIELD if has_human else self.rated_answer.name)
        items = [self._read_example(i, example, label, group) for i, example in enumerate(examples)]
        return Items(tuple(items))

    def _read_example(self, number: int, example: Example, label: str, group: str | None) -> Item:
        if not hasattr(example, "get"):
            raise LabelError(
                f"example {number} is {example!r:.60}; give dspy.Examples or dicts, for a "
                "DataFrame trainset=frame.to_dict('records')"
            )
        needed_names = [*self.input_names, label, *([group] if group else [])]
        if missing_names := [name for name in needed_names if example.get(name) is None]:
            raise LabelError(
                f"example {number} has no {missing_names[0]!r}; an example needs "
                f"{', '.join(needed_names)}; give other names by RankOptimizer(label=, group=)"
            )
        try:
            human_score = self.rated_answer.label_score(example[label])
        except (TypeError, ValueError) as error:
            raise LabelError(f"example {number}: {label}: {error}") from None
        input_values = {name: example[name] for name in self.input_names}
        texts = {name: _as_text(value) for name, value in input_values.items()}
        self._inputs_by_key[_inputs_key(texts.values())] = input_values
        return Item(
            id=f"{number}",
            document_id=str(example[group]) if group else texts_digest(texts),
            system=example.get("system"),
            texts=texts,
            human=human_score,
        )

    def describe_judge(self, items: Items) -> tuple[Dimension, Prompt]:
        """Return the dimension that the program judges, and its prompt with numbers as answers."""
        field_by_name = {field.name: field for field in prompt_of(self.signature).fields}
        choice_fields = []
        for answer in self.answers:
            field = field_by_name[answer.name]
            meaning_text = " (1 = {}, 0 = {})".format(*answer.values) if answer.is_choice else ""
            description = f"{field.description}{meaning_text}"
            field = replace(field, description=description, choices=answer.scale(items))
            choice_fields.append(field)
        input_fields = [
            field_by_name.get(name) or Field(name=name, description=name, role="input")
            for name in self.input_names
        ]
        reason_fields = [field_by_name[self.reason_name]] if self.reason_name else []
        subject = Dimension(
            name=as_dimension_name(self.rated_answer.name),
            definition=choice_fields[-1].description,
            inputs={as_dimension_name(field.name): field.description for field in input_fields},
            anchors=dict.fromkeys(self.rated_answer.scale(items), ""),
            instruction=self.signature.instructions,
        )
        prompt_fields = (*input_fields, *reason_fields, *choice_fields)
        return subject, Prompt(instruction=self.signature.instructions, fields=prompt_fields)

    def make_item_judge(self, clients: RunClients, settings: Settings) -> JudgeItems:
        """Return a function that runs the program with a given prompt on items, in their order."""
        client, temperature = clients.judge, clients.sampling_plan.temperature
        lm = as_lm(client, temperature=temperature, max_tokens=MAX_REPLY_TOKENS, seed=settings.seed)
        # The embedded model answers one request at a time, in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        failure_monitor = FailureMonitor()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[ItemJudgement]:
            module = self.tuned_copy(prompt)
            _only_predictor(module).lm = lm
            lm.engine.stop_error = None
            pool = ThreadPoolExecutor(min(n_threads, len(items)), "program")
            # Each thread gets a copy of this thread's DSPy settings.
            dspy_context = contextvars.copy_context()
            try:
                judge_item = partial(self._judge_item, module, prompt)
                futures = [pool.submit(dspy_context.copy().run, judge_item, item) for item in items]
                for future in futures:
                    item_judgement = future.result()
                    failure_monitor.record(item_judgement.judgement.failure)
                    yield item_judgement
            finally:  # after an error, items whose thread has not begun are not judged
                pool.shutdown(wait=True, cancel_futures=True)

        return judge_items

    def _judge_item(self, module: dspy.Module, prompt: Prompt, item: Item) -> ItemJudgement:
        """Judge one item; errors that do not end the run become failed judgements."""
        trace: list[tuple[dspy.Predict, Example, dspy.Prediction]] = []
        predictor, usage_tracker = _only_predictor(module), UsageTracker()
        try:
            # This call gets its own usage tracker and trace, to leave the user's unchanged.
            with dspy.context(trace=trace, usage_tracker=usage_tracker, disable_history=True):
                module(**self._inputs_by_key[_inputs_key(item.texts.values())])
            predictions = [prediction for caller, _, prediction in trace if caller is predictor]
            if not predictions:
                raise ProgramError(f"{type(module).__name__} did not call its predictor")
            prediction = predictions[-1]
            scores = {answer.name: answer.score(prediction[answer.name]) for answer in self.answers}
            judgement = Judgement(
                score=scores[self.rated_answer.name],
                rationale=_as_text(prediction.get(self.reason_name)) or None,
                answers=scores if len(scores) > 1 else None,
            ).rescored(prompt.choices, self.weights)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's program may raise anything
            fatal_error = predictor.lm.engine.stop_error
            if isinstance(fatal_error, FatalModelError | BudgetSpentError):
                raise fatal_error from None
            judgement = Judgement.failed(quote(f"{type(error).__name__}: {error}"))
        token_counts = usage_tracker.get_total_tokens().values()
        tokens_in = sum(counts.get("prompt_tokens", 0) for counts in token_counts)
        tokens_out = sum(counts.get("completion_tokens", 0) for counts in token_counts)
        return ItemJudgement(judgement, tokens_in, tokens_out)

    def tuned_copy(
        self, prompt: Prompt, weights: AnswerWeights | None = None, threshold: float | None = None
    ) -> dspy.Module:
        """Return a copy of the program with the prompt's instruction and demonstrations.

        If the program or the search has weights, each prediction of the copy gets a `score`. The
        score is computed from all answers and shifted by the threshold. Without weights, the
        predictor itself decides at the threshold. If `weights` or `threshold` is None, the program
        keeps its own.
        """
        compiled_program = self.module.deepcopy()
        predictor = _only_predictor(compiled_program)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        if prompt.demos:
            predictor.demos = [self._make_demo(demo) for demo in prompt.demos]
        scoring = scoring_of(compiled_program)
        if weights:
            # An intercept in the score of a pair would favour one of its sides.
            if self.rated_answer.is_pairwise:
                weights = replace(weights, intercept=0.0)
            if scoring is None:
                # The prompt's answers are numbers, but the program's own answers are its labels.
                choice_fields = [
                    replace(field, choices=answer.values) if answer.is_choice else field
                    for answer, field in zip(self.answers, prompt.choices, strict=True)
                ]
                scoring = Scoring(choice_fields)
                compiled_program = ScoredProgram(compiled_program, scoring)
            scoring.weights = weights
        if threshold is not None and scoring:
            scoring.threshold = threshold
        elif threshold is not None:
            self._set_threshold(predictor, threshold)
        return compiled_program

    def _set_threshold(self, predictor: dspy.Predict, threshold: float) -> None:
        """Set the predictor's threshold if its answer is a Noul or a Choice of two options."""
        answer = self.rated_answer
        field_info = self.signature.output_fields[answer.name]
        output_type = decision_type(field_info)
        if not answer.is_choice or output_type is not field_info.annotation:
            return  # a plain bool or Literal has no probabilities
        field_options: dict[str, object] = {"threshold": threshold}
        if not issubclass(output_type, Noul):
            good_value, bad_value = map(str, answer.values)
            field_options = {"weights": {good_value: 1 - threshold, bad_value: threshold}}
        predictor.fields[answer.name] = predictor.fields.get(answer.name, {}) | field_options

    def _make_demo(self, demo: Demo) -> dspy.Example:
        inputs = self._inputs_by_key[_inputs_key(str(demo[name]) for name in self.input_names)]
        answers = [answer for answer in self.answers if answer.name in demo]
        values = {one.name: one.value_for_rating(int(demo[one.name])) for one in answers}
        return dspy.Example(**inputs, **values).with_inputs(*self.input_names)


def as_dimension_name(name: str) -> str:
    """Convert a name to a dimension's name: lower-case letters, digits and underscores."""
    identifier = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return identifier if identifier[:1].isalpha() else f"text_{identifier}"


def _as_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    if isinstance(value, str | None):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _inputs_key(texts: Iterable[str]) -> str:
    return "\0".join(map(utf8_text, texts))
