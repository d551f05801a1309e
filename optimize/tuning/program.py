"""The user's DSPy program as a judge for the search: reads examples, judges items, makes copies.

The program runs as it is, with its own forward method and adapter. The predictor's answers are read
from DSPy's trace.
"""

import contextvars
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
from judges.prompt import PAIR_ANSWERS, Field, Prompt, utf8_text
from judges.protocol import FatalModelError, is_decision_model, is_embedded
from judges.questions import AnswerWeights
from optimize.items import Item, Items
from optimize.search.candidates import Demo
from optimize.search.evaluator import ItemJudgement, JudgeItems
from optimize.tuning.models import RunClients
from optimize.tuning.program_answer import ProgramError, answer_of, read_answers
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
    names = ", ".join(predictors)
    raise ProgramError(
        "RankOptimizer tunes a dspy.Module with one predictor, such as dspy.ChainOfThought("
        "'document, summary -> rating: int') or judges.load('relevance').program(), and "
        f"{type(module).__name__} has {len(predictors)} ({names or 'none'}): tune only the module "
        "that rates, or set _compiled = True on the other predictors"
    )


def _input_names(module: dspy.Module, inputs: Mapping[str, FieldInfo]) -> tuple[str, ...]:
    """Return the names of the program's inputs, from `forward` or from the predictor."""
    _, *parameters = inspect.signature(type(module).forward).parameters.values()
    needed_names = [p.name for p in parameters if p.default is p.empty or p.name in inputs]
    has_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return tuple(inputs if has_kwargs or {*needed_names} == {*inputs} else needed_names)


class UserProgram:
    """The user's program for the search: reads examples, judges items, and makes tuned copies.

    `answer` is the output that people rated; `answers` are the outputs that are questions, and then
    `answer`, by name. `reason` is another output, such as the reasoning of ChainOfThought, or None.
    `weights` are the weights of the answers that the program already has.
    """

    def __init__(self, module: dspy.Module, output: str | None = None) -> None:
        self.module = module
        self.predictor = _only_predictor(module)
        self.signature = self.predictor.signature
        self.text_names = _input_names(module, self.signature.input_fields)
        scoring = scoring_of(module)
        self.weights = scoring and scoring.weights
        if output is None and scoring is not None:
            output = scoring.choice_fields[-1].name
        self.answer = answer_of(type(module).__name__, self.signature, output)
        answers = read_answers(self.signature)
        questions = [each for each in answers if each.values and each != self.answer]
        self.answers = {answer.name: answer for answer in (*questions, self.answer)}
        other_names = (name for name in self.signature.output_fields if name not in self.answers)
        self.reason = next(other_names, None)
        self._inputs: dict[str, Example] = {}

    @property
    def takes_demos(self) -> bool:
        """Whether examples can be demonstrations: no answer or computed input would be missing."""
        computes_inputs = {*self.text_names} != {*self.signature.input_fields}
        return len(self.answers) == 1 and not computes_inputs

    def check_decisions(self, lm: str) -> None:
        """Raise ProgramError if DSPy cannot ask this model for the program's outputs."""
        # A judge's program already leaves out the fields that a decision model cannot write.
        if any(isinstance(part, JudgeModule) for _, part in self.module.named_sub_modules()):
            return
        try:
            state = DecisionState(
                self.signature, self.predictor.fields, system_one=is_decision_model(lm)
            )
            for name, output_type in state.types.items():
                state._question(name, self.signature.output_fields[name], output_type)
        except ValueError as error:
            raise ProgramError(f"this program cannot be tuned with {lm}: {error}") from None

    def read_examples(self, rows: Sequence[Example], label: str | None, group: str | None) -> Items:
        """Convert the examples to items, and keep their inputs for calls of the program."""
        if label is None:
            label = HUMAN_FIELD if rows and HUMAN_FIELD in rows[0] else self.answer.name
        return Items(tuple(self._read_example(n, row, label, group) for n, row in enumerate(rows)))

    def _read_example(self, number: int, row: Example, label: str, group: str | None) -> Item:
        if not hasattr(row, "get"):
            raise LabelError(
                f"example {number} is {row!r:.60}; give dspy.Examples or dicts, for a DataFrame "
                "trainset=frame.to_dict('records')"
            )
        needed_names = [*self.text_names, label, *([group] if group else [])]
        if missing := [name for name in needed_names if row.get(name) is None]:
            raise LabelError(
                f"example {number} has no {missing[0]!r}; an example needs "
                f"{', '.join(needed_names)}; for other names use "
                "RankOptimizer(label=..., group=...)"
            )
        try:
            human = self.answer.label_score(row[label])
        except (TypeError, ValueError) as error:
            raise LabelError(f"example {number}: {label}: {error}") from None
        inputs = {name: row[name] for name in self.text_names}
        texts = {name: _as_text(value) for name, value in inputs.items()}
        self._inputs[_inputs_key(texts)] = inputs
        return Item(
            id=f"{number}",
            document_id=str(row[group]) if group else texts_digest(texts),
            system=row.get("system"),
            texts=texts,
            human=human,
        )

    def describe_judge(self, items: Items) -> tuple[Dimension, Prompt]:
        """Return what the program judges, and its prompt for the search, with numeric answers."""
        fields = {field.name: field for field in prompt_of(self.signature).fields}
        choices = []
        for name, answer in self.answers.items():
            meaning = " (1 = {}, 0 = {})".format(*answer.values) if answer.is_choice else ""
            description = f"{fields[name].description}{meaning}"
            scale = answer.scale(items)
            choices.append(replace(fields[name], description=description, choices=scale))
        inputs = [
            fields.get(name) or Field(name=name, description=name, role="input")
            for name in self.text_names
        ]
        reason_fields = [fields[self.reason]] if self.reason else []
        subject = Dimension(
            name=slug(self.answer.name),
            definition=choices[-1].description,
            inputs={slug(field.name): field.description for field in inputs},
            anchors=dict.fromkeys(self.answer.scale(items), ""),
            instruction=self.signature.instructions,
        )
        prompt_fields = (*inputs, *reason_fields, *choices)
        return subject, Prompt(instruction=self.signature.instructions, fields=prompt_fields)

    def make_item_judge(self, clients: RunClients, settings: Settings) -> JudgeItems:
        """Return a function that judges items, in order, with a given prompt in the program."""
        client, temperature = clients.judge, clients.sampling_plan.temperature
        lm = as_lm(client, temperature=temperature, max_tokens=MAX_REPLY_TOKENS, seed=settings.seed)
        # The embedded model answers one request at a time, in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        monitor = FailureMonitor()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[ItemJudgement]:
            module = self.tuned_copy(prompt)
            _only_predictor(module).lm = lm
            lm.engine.stop_error = None
            pool = ThreadPoolExecutor(min(n_threads, len(items)), "program")
            # Each thread gets a copy of this thread's DSPy settings. After an error, the items that
            # are still waiting are not judged.
            context = contextvars.copy_context()
            try:
                judge = partial(self._judge, module, prompt.choice_fields)
                futures = [pool.submit(context.copy().run, judge, item) for item in items]
                for future in futures:
                    item_judgement = future.result()
                    monitor.record(item_judgement.judgement.failure)
                    yield item_judgement
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

        return judge_items

    def _judge(self, module: dspy.Module, choices: Sequence[Field], item: Item) -> ItemJudgement:
        """Judge one item; errors that do not end the run become failed judgements."""
        trace: list[tuple[dspy.Predict, Example, dspy.Prediction]] = []
        predictor, usage = _only_predictor(module), UsageTracker()
        try:
            # This call gets its own usage tracker and trace, to leave the user's unchanged.
            with dspy.context(trace=trace, usage_tracker=usage, disable_history=True):
                module(**self._inputs[_inputs_key(item.texts)])
            predictions = [prediction for caller, _, prediction in trace if caller is predictor]
            if not predictions:
                raise ProgramError(f"{type(module).__name__} did not call its predictor")
            outputs = predictions[-1]
            scores = {name: answer.score(outputs[name]) for name, answer in self.answers.items()}
            judgement = Judgement(
                score=scores[self.answer.name],
                rationale=_as_text(outputs.get(self.reason)) or None,
                answers=scores if len(scores) > 1 else None,
            ).rescored(choices, self.weights)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's program may raise anything
            fatal_error = predictor.lm.engine.stop_error
            if isinstance(fatal_error, FatalModelError | BudgetSpentError):
                raise fatal_error from None
            judgement = Judgement.failed(quote(f"{type(error).__name__}: {error}"))
        usages = usage.get_total_tokens().values()
        tokens_in = sum(counts.get("prompt_tokens", 0) for counts in usages)
        tokens_out = sum(counts.get("completion_tokens", 0) for counts in usages)
        return ItemJudgement(judgement, tokens_in, tokens_out)

    def tuned_copy(
        self, prompt: Prompt, weights: AnswerWeights | None = None, threshold: float | None = None
    ) -> dspy.Module:
        """Return a copy of the program with the prompt's instruction and demonstrations.

        If the program or the search has weights, each prediction of the copy gets a `score`, which
        is computed from all answers and shifted by the threshold. Otherwise the predictor itself
        decides at the threshold. Weights and a threshold that are None stay as they are in the
        program.
        """
        compiled_program = self.module.deepcopy()
        predictor = _only_predictor(compiled_program)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        if prompt.demos:
            predictor.demos = [self._make_demo(demo) for demo in prompt.demos]
        scoring = scoring_of(compiled_program)
        if weights:
            # The score of a pair is a margin, for which an intercept would favour one side.
            if self.answer.values == PAIR_ANSWERS:
                weights = replace(weights, intercept=0.0)
            if scoring is None:
                # The prompt has numbers as its options, but predictions have the program's labels.
                answers_and_fields = zip(self.answers.values(), prompt.choice_fields, strict=True)
                choices = [
                    replace(field, choices=answer.values) if answer.is_choice else field
                    for answer, field in answers_and_fields
                ]
                scoring = Scoring(choices)
                compiled_program = ScoredProgram(compiled_program, scoring)
            scoring.weights = weights
        if threshold is None:
            return compiled_program
        if scoring:
            scoring.threshold = threshold
        else:
            self._set_threshold(predictor, threshold)
        return compiled_program

    def _set_threshold(self, predictor: dspy.Predict, threshold: float) -> None:
        """Set the predictor's threshold if its answer is a Noul or a Choice of two options."""
        name = self.answer.name
        info = self.signature.output_fields[name]
        # A plain bool or Literal has no probabilities.
        if self.answer.is_choice and (output_type := decision_type(info)) is info.annotation:
            option: dict[str, object] = {"threshold": threshold}
            if not issubclass(output_type, Noul):
                first_value, second_value = map(str, self.answer.values)
                option = {"weights": {first_value: 1 - threshold, second_value: threshold}}
            predictor.fields[name] = predictor.fields.get(name, {}) | option

    def _make_demo(self, demo: Demo) -> dspy.Example:
        inputs = self._inputs[_inputs_key({name: str(demo[name]) for name in self.text_names})]
        answers = (answer for name, answer in self.answers.items() if name in demo)
        values = {answer.name: answer.value_of_rating(int(demo[answer.name])) for answer in answers}
        return dspy.Example(**inputs, **values).with_inputs(*self.text_names)


def slug(name: str) -> str:
    """Convert a name to the form of a dimension's name: lower-case letters, digits, underscores."""
    identifier = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return identifier if identifier[:1].isalpha() else f"text_{identifier}"


def _as_text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _inputs_key(texts: Mapping[str, str]) -> str:
    return "\0".join(map(utf8_text, texts.values()))
