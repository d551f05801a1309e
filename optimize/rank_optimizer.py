"""RankOptimizer: tune any DSPy program with one predictor, by the search that tunes judges.

The program runs as it is, with its own forward method and adapter. The search sets the instruction
and the demonstrations of the program's predictor, and reads the predictor's answers from DSPy's
trace.
"""

import contextvars
import inspect
import json
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import dspy
import numpy as np
from dspy.adapters.decision_state import DecisionState
from dspy.adapters.types.decision import decision_type
from dspy.experimental import Noul, Score
from dspy.teleprompt import Teleprompter
from dspy.utils.usage_tracker import UsageTracker
from pydantic.fields import FieldInfo

from dspy_judges.errors import JudgesError
from judges.client import BudgetSpentError, FailureMonitor, open_lm
from judges.client.dspy import as_lm, configured_lm
from judges.dimension import Dimension
from judges.judge import Judge
from judges.judgement import Judgement, quote
from judges.labels.types import LabelledSet
from judges.modules import JudgeModule, ScoredProgram, Scoring, probabilities, prompt_of, scoring_of
from judges.prompt import LETTERS, Field, Prompt, encodable
from judges.protocol import FatalModelError, Model, is_decision, is_embedded
from judges.questions import AnswerWeights
from judges.tables.atomic_write import in_use
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject
from optimize.inputs.flags import RISK, SettingsError
from optimize.items import Item, Items, text_key
from optimize.measuring.tuning_result import HeldOut, TuningResult
from optimize.report.tuning import run_lines
from optimize.search.candidates import Demo
from optimize.search.evaluator import ItemJudgement, JudgeItems
from optimize.search.optimizer import Optimizer, optimizer_name
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import stream
from optimize.tuning.budget import plan_budget
from optimize.tuning.folder import TRIALS, Trials
from optimize.tuning.models import RunModels, open_models
from optimize.tuning.pipeline import ActiveRun, reserve_budget, summarize
from optimize.tuning.preparation import Labels, prepare_judge
from optimize.tuning.settings import Settings, read_settings

# A labelled example of the user: a dspy.Example or a dict.
Example = Mapping[str, Any]
# A rating or a label in the program's own type, such as a value of a Literal.
Label = str | int
# The default names of the fields of an example that hold its document and people's rating.
GROUP_FIELDS, HUMAN_FIELD = ("document_id", "group"), "human"
# The examples need this many documents, because each half must be able to test the other.
FEWEST_DOCUMENTS = 10
# If people's ratings span more than this many whole numbers, demonstrations use a coarser scale.
MAX_RATINGS = 100
# Upper bound on the tokens of a reply if the LM sets none; it is large, because programs may write
# long reasoning.
MAX_REPLY_TOKENS = 4096


class ProgramError(JudgesError, TypeError):
    """The program cannot be tuned; the message says why, and which programs can be tuned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """How a program was tuned; printing it shows a report.

    The report has no figures on a test split, because all examples are used to tune.

    Attributes:
        result: The figures of the run and the decision which program was returned.
        trials: The trials of the search, in order.
    """

    result: TuningResult = field(repr=False)
    trials: Sequence[JsonObject] = field(repr=False)

    @property
    def summary(self) -> JsonObject:
        """The object that `tune()` would write to summary.json."""
        return self.result.to_json()

    def __str__(self) -> str:
        return "\n".join(run_lines(self.result))


class RankOptimizer(Teleprompter):  # type: ignore[misc]
    """Tune a program that rates or chooses, so that it ranks outputs as people do.

    The program is any dspy.Module with one predictor. The predictor's output is a rating (an int, a
    float or a Literal of numbers) or one of two labels. If the output is a Score, a Noul or a
    Choice, the probabilities of the ratings or labels are used. Examples are dspy.Examples or
    dicts.

    Further outputs of these types, except int and float, count as questions. The tuned program
    still asks these questions; if the program has weights for its answers, its score is computed
    from all of them. A program with questions gets no new demonstrations, because the examples do
    not have answers to the questions.

    Args:
        metric: Must be None: programs are compared by how well they rank outputs as people do.
        lm: The program's model: a name, a dspy.LM or a dspy.experimental.TypeSafe. By default the
            predictor's own LM, else the LM that DSPy is configured with, else the embedded model.
        proposer_lm: The model that writes instructions. By default `lm`, unless `lm` is a decision
            model, which cannot write text.
        label: The field of the examples that holds people's rating. By default "human", or the name
            of the program's output if the first example has no "human".
        group: The field of the examples that identifies the document. It may hold the document's
            text, as in group="document". By default "document_id" or "group".
        output: The output that people rated, if several outputs are ratings or choices. If the
            program is a judge's, its answer is the default.
        level: The level of rho: "summary", "dataset", "system", or "auto" (by the examples).
        max_calls: Upper bound on the number of calls to both models together.
        max_cost: Upper bound on the cost of both models together, in US dollars.
        price: The price of `lm`, if it is not known from the model's name: US dollars per million
            input tokens and per million output tokens.
        max_demos: Upper bound on the number of demonstrations in a prompt.
        optimizer: "rank", "gepa", or an optimizer function; see `optimize.search.optimizer`.
        risk: The accepted chance that a tuned program is returned although it is no better.
        num_threads: Upper bound on the number of requests in flight.
        seed: The seed for splitting the examples and for the search.
        folder: A folder that keeps every reply, so that the same compilation is paid for once.
        quiet: Whether to leave out the progress on stderr.

    Raises:
        SettingsError: `metric` is not None, or `optimizer` is a function that is not defined at the
            top level of a module.
    """

    def __init__(
        self,
        *,
        metric: None = None,
        lm: str | dspy.BaseLM | None = None,
        proposer_lm: str | dspy.BaseLM | None = None,
        label: str | None = None,
        group: str | None = None,
        output: str | None = None,
        level: Level | Literal["auto"] = "auto",
        max_calls: int | None = None,
        max_cost: float | None = None,
        price: tuple[float, float] | None = None,
        max_demos: int | None = None,
        optimizer: str | Optimizer = "rank",
        risk: float = RISK,
        num_threads: int | None = None,
        seed: int = 0,
        folder: Path | str | None = None,
        quiet: bool = False,
    ) -> None:
        super().__init__()
        if metric is not None:
            raise SettingsError("leave metric out: people's ratings (label=...) take its place")
        self.lm, self.proposer_lm = lm, proposer_lm
        self.label, self.group, self.output = label, group, output
        self.seed, self.folder, self.quiet = seed, folder, quiet
        self.settings = {
            "max_calls": max_calls,
            "max_cost": max_cost,
            "price": price,
            "max_demos": max_demos,
            "level": level,
            "optimizer": optimizer_name(optimizer),
            "risk": risk,
            "concurrency": num_threads,
            "seed": seed,
        }

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: Iterable[Example],
        valset: Iterable[Example] | None = None,
    ) -> dspy.Module:
        """Tune a program on labelled examples.

        Args:
            student: The program to tune.
            trainset: Examples with people's ratings, of 10 documents or more.
            valset: More examples, which are added to `trainset`. All examples are split by document
                into two halves; prompts that are tuned on one half are tested on the other half.

        Returns:
            The tuned program; or, if the gate finds it no better, a copy of the student in which
            only the threshold may have changed. The attribute `detailed_results` of the program is
            a RankResult, which says what was tried and why this program was returned.

        Raises:
            ProgramError: The program cannot be tuned. ProgramError is a TypeError.
            ValueError: An example lacks a field or has a wrong label, or the examples have too few
                documents or too few different ratings.
            JudgesError: Any error that `tune()` raises.
        """
        try:
            return self._compile(student, [*trainset, *(valset or ())])
        except JudgesError as error:
            # Messages of the command name flags; replace these with the names of the arguments.
            text = str(error).replace("--concurrency", "num_threads")
            error.args = (re.sub("--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), text),)
            raise

    def _compile(self, student: dspy.Module, examples: Sequence[Example]) -> dspy.Module:
        start_time = time.monotonic()
        program = Program(student, self.output)
        print_line: Callable[[str], None] = (lambda text: None) if self.quiet else print_error
        labels = self._labels(program, examples, print_line)
        settings, opened_models = self._models(program)
        judge = program.describe(labels.everything)
        prepared = prepare_judge(settings, labels, judge, is_choice=program.answer.is_choice)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(self.folder or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with in_use(folder), open_models(settings, folder, opened_models) as models:
                scorer = program.scorer(models, settings)
                budget = plan_budget(prepared, models.judge.model.native_n)
                run = ActiveRun(
                    prepared=prepared,
                    folder=folder,
                    models=models,
                    trials=Trials(folder / TRIALS),
                    scorer=scorer,
                    budget=reserve_budget(budget, models, scorer, print_line),
                    print_line=print_line,
                    new_questions=False,
                )
                result = run.search()
                tuning_result = summarize(run, result, None, time.monotonic() - start_time)
        shipped = result.judges.of(result.shipped)
        threshold = shipped.threshold if prepared.goal == "balanced" else None
        compiled = program.tuned(shipped.prompt(judge.prompt), shipped.weights, threshold)
        compiled.detailed_results = RankResult(result=tuning_result, trials=run.trials.rows)
        return compiled

    def _labels(
        self, program: "Program", rows: Sequence[Example], print_line: Callable[[str], None]
    ) -> Labels:
        """Read the examples as the labels of a run, split into two halves by document."""
        group = self.group or next(
            (name for name in GROUP_FIELDS if rows and name in rows[0]), None
        )
        everything = program.read(rows, self.label, group)
        documents = everything.documents
        if len(documents) < FEWEST_DOCUMENTS:
            raise ValueError(
                f"the examples have {len(documents)} documents; at least {FEWEST_DOCUMENTS} are "
                "needed"
            )
        if group is None:
            print_line(
                "no example names its document, so trainset is split by row; if rows share a "
                f"document, name the field that has it, as in group={program.text_names[0]!r}"
            )
        order = stream(self.seed, "split").permutation(len(documents))
        train, dev = (
            everything.of_documents([documents[i] for i in half])
            for half in (order[: len(order) // 2], order[len(order) // 2 :])
        )
        for items in (train, dev):
            if np.ptp(items.human) == 0:
                raise ValueError(
                    f"half of the examples are all rated {items.human[0]:g}, so there is nothing "
                    "to rank: give more examples, or another seed"
                )
        return Labels(
            labelled=LabelledSet(name="trainset", sha256="", outputs=()),
            everything=everything,
            train=train,
            dev=dev,
            measured=HeldOut(Items(())),
        )

    def _models(self, program: "Program") -> tuple[Settings, dict[str, Model]]:
        """The settings of the run, and the models that are dspy.LMs, by role."""
        # The search adds no field for reasoning, because a program with new fields could not load
        # states that were saved before.
        settings: dict[str, object] = {"dimension": slug(program.answer.name), "reasoning": "none"}
        settings |= self.settings
        # Demonstrations would need answers to all questions, and the values of inputs that the
        # program computes; the examples have neither.
        if len(program.answers) > 1 or {*program.text_names} != {*program.signature.input_fields}:
            settings["max_demos"] = 0
        judge_lm = self.lm or program.predictor.lm or configured_lm()
        source_judge = getattr(program.module, "source", None)  # `Judge.program` sets it
        if judge_lm is None and isinstance(source_judge, Judge):
            source_judge.check_origins()
            judge_lm, settings["api_base"] = source_judge.lm, source_judge.api_base
        opened_models: dict[str, Model] = {}
        for role, prefix, lm in (
            ("judge", "", judge_lm),
            ("proposer", "proposer_", self.proposer_lm),
        ):
            if isinstance(lm, str | None):
                settings[f"{prefix}lm"] = lm
            else:
                model, address = open_lm(lm)
                opened_models[role] = model
                settings |= {f"{prefix}lm": model.name, f"{prefix}api_base": address}
        run_settings = read_settings(settings)
        if "judge" in opened_models and run_settings.proposer.lm == run_settings.lm:
            opened_models.setdefault("proposer", opened_models["judge"])
        program.check_decisions(run_settings.lm)
        return run_settings, opened_models


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An output field of the program that is a rating, or a choice between two labels.

    `values` are the values that the program may write, in order; () if the type is int or float.
    The first of the two values of a choice counts 1, and the second one 0.
    """

    name: str
    values: tuple[Label, ...] = ()
    is_choice: bool = False

    def score(self, value: Any) -> float:
        """Convert a value that the program wrote to a score.

        Raises ValueError if the value is not on the scale.
        """
        if probability_of := probabilities(value, self.values):
            return math.fsum(
                p * self.score(possible_value) for possible_value, p in probability_of.items()
            )
        if self.is_choice:
            return 1.0 - self.values.index(value)
        score = float(value)
        if not math.isfinite(score) or (self.values and value not in self.values):
            raise ValueError(f"{value!r} is not a rating on the scale")
        return score

    def human_score(self, label: Label | float) -> float:
        """Convert people's label to a score.

        If the field is a choice, the label may be one of its two values, "tie", the share of people
        who chose the first value, or (for pairs) a margin; otherwise it is a rating. Raises
        ValueError if it is anything else.
        """
        if self.is_choice and label in (*self.values, "tie"):
            return 0.5 if label == "tie" else self.score(label)
        number, is_pair = float(label), self.values == LETTERS
        is_label, labels = math.isfinite(number), "a number"
        if self.is_choice or [*map(str, self.values)] == ["0", "1"]:
            lowest = -1 if is_pair else 0
            is_label = lowest <= number <= 1
            labels = f"{', '.join(map(repr, self.values))}, or a number from {lowest} to 1"
        if not is_label:
            raise ValueError(f"{label!r} is not a label; write {labels}")
        # For pairs, the number is a margin between A and B in [-1, 1].
        return (number + 1) / 2 if is_pair else number

    def value(self, rating: int) -> Label:
        """The value that the program writes for this rating."""
        if self.is_choice:
            return self.values[1 - rating]
        return next((value for value in self.values if int(value) == rating), rating)

    def scale(self, items: Items) -> tuple[int, ...]:
        """The ratings in demonstrations: the field's values, else the range of people's ratings."""
        if self.is_choice:
            return 0, 1
        if self.values:
            return tuple(map(int, self.values))
        low, high = math.floor(items.human.min()), math.ceil(items.human.max())
        return tuple(range(low, max(high, low + 1) + 1, max(1, (high - low) // MAX_RATINGS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudge(Judge):
    """A program described as a judge for the search. The program itself makes all requests."""

    def __post_init__(self) -> None:
        """Skip a judge's checks: the program may have any fields, since it formats its prompts."""


def _only_predictor(module: dspy.Module) -> dspy.Predict:
    """The program's only predictor that can be tuned.

    Raises ProgramError unless the program has exactly one predictor that is not compiled.
    """
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
    """The names of the program's inputs, from the parameters of `forward` or from the predictor."""
    _, *parameters = inspect.signature(type(module).forward).parameters.values()
    needed_names = [p.name for p in parameters if p.default is p.empty or p.name in inputs]
    has_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return tuple(inputs if has_kwargs or {*needed_names} == {*inputs} else needed_names)


class Program:
    """The user's program for the search: reads examples, judges items, and makes tuned copies.

    `answer` is the output that people rated. `answers` are the outputs that are questions, and then
    `answer`, by name. `reason` is the name of another output, such as the reasoning of
    ChainOfThought, or None. `weights` are the weights of the answers that the program has, if any.
    """

    def __init__(self, module: dspy.Module, output: str | None = None) -> None:
        self.module = module
        self.predictor = _only_predictor(module)
        self.signature = self.predictor.signature
        self.text_names = _input_names(module, self.signature.input_fields)
        scoring = scoring_of(module)
        self.weights = scoring and scoring.weights
        if output is None and scoring is not None:
            output = scoring.choices[-1].name
        self.answer = answer_of(type(module).__name__, self.signature, output)
        outputs = self.signature.output_fields
        others = [_read_answer(name, info) for name, info in outputs.items()]
        questions = [each for each in others if each and each.values and each != self.answer]
        self.answers = {answer.name: answer for answer in (*questions, self.answer)}
        self.reason = next((name for name in outputs if name not in self.answers), None)
        self._inputs: dict[str, Example] = {}

    def check_decisions(self, lm: str) -> None:
        """Raise ProgramError if DSPy cannot ask this model for the program's outputs."""
        # A judge's program already leaves out the fields that a decision model cannot write.
        if any(isinstance(part, JudgeModule) for _, part in self.module.named_sub_modules()):
            return
        try:
            state = DecisionState(self.signature, self.predictor.fields, system_one=is_decision(lm))
            for name, output_type in state.types.items():
                state._question(name, self.signature.output_fields[name], output_type)
        except ValueError as error:
            raise ProgramError(f"this program cannot be tuned with {lm}: {error}") from None

    def read(self, rows: Sequence[Example], label: str | None, group: str | None) -> Items:
        """Convert the examples to items, and keep their inputs for calls of the program.

        Raises ValueError if an example lacks a field or has a wrong label; the message names the
        example.
        """
        if label is None:
            label = HUMAN_FIELD if rows and HUMAN_FIELD in rows[0] else self.answer.name
        needed_names = [*self.text_names, label, *([group] if group else [])]
        items = []
        for number, row in enumerate(rows):
            if missing := [name for name in needed_names if row.get(name) is None]:
                raise ValueError(
                    f"example {number} has no {missing[0]!r}; an example needs "
                    f"{', '.join(needed_names)}; for other names use "
                    "RankOptimizer(label=..., group=...)"
                )
            try:
                human = self.answer.human_score(row[label])
            except (TypeError, ValueError) as error:
                raise ValueError(f"example {number}: {label}: {error}") from None
            inputs = {name: row[name] for name in self.text_names}
            texts = {name: _text(value) for name, value in inputs.items()}
            self._inputs[_inputs_key(texts)] = inputs
            items.append(
                Item(
                    id=f"{number}",
                    document_id=str(row[group]) if group else text_key(texts),
                    system=row.get("system"),
                    texts=texts,
                    human=human,
                )
            )
        return Items(tuple(items))

    def describe(self, items: Items) -> Judge:
        """Describe the program as a judge, whose answers are numbers, as the search needs it."""
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
        prompt = Prompt(instruction=self.signature.instructions, fields=prompt_fields)
        return ProgramJudge(subject=subject, prompt=prompt)

    def scorer(self, models: RunModels, settings: Settings) -> JudgeItems:
        """Return a function that judges items, in order, with a given prompt in the program."""
        client, temperature = models.judge, models.plan.temperature
        lm = as_lm(client, temperature=temperature, max_tokens=MAX_REPLY_TOKENS, seed=settings.seed)
        # The embedded model runs in this process, and answers one request at a time, in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        monitor = FailureMonitor()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[ItemJudgement]:
            module = self.tuned(prompt)
            _only_predictor(module).lm = lm
            lm.engine.stopped = None
            pool = ThreadPoolExecutor(min(n_threads, len(items)), "program")
            # Each thread gets a copy of this thread's DSPy settings. After an error, the items that
            # are still waiting are not judged.
            context = contextvars.copy_context()
            try:
                judge = partial(self._judge, module, prompt.choices)
                futures = [pool.submit(context.copy().run, judge, item) for item in items]
                for future in futures:
                    item_judgement = future.result()
                    monitor.add(item_judgement.judgement.failure)
                    yield item_judgement
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

        return judge_items

    def _judge(self, module: dspy.Module, choices: Sequence[Field], item: Item) -> ItemJudgement:
        """Judge one item.

        Errors that end the run are raised; any other error of the program becomes a failed
        judgement.
        """
        trace: list[tuple[dspy.Predict, Example, dspy.Prediction]] = []
        predictor, usage = _only_predictor(module), UsageTracker()
        try:
            # This call gets its own usage tracker and trace, to leave the user's unchanged.
            with dspy.context(trace=trace, usage_tracker=usage, disable_history=True):
                module(**self._inputs[_inputs_key(item.texts)])
            predictions = [prediction for caller, _, prediction in trace if caller is predictor]
            if not predictions:
                raise ProgramError(f"{type(module).__name__} did not call its predictor")
            prediction = predictions[-1]
            scores = {name: answer.score(prediction[name]) for name, answer in self.answers.items()}
            judgement = Judgement(
                score=scores[self.answer.name],
                rationale=_text(prediction.get(self.reason)) or None,
                answers=scores if len(scores) > 1 else None,
            ).rescored(choices, self.weights)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's program may raise anything
            fatal_error = predictor.lm.engine.stopped
            if isinstance(fatal_error, FatalModelError | BudgetSpentError):
                raise fatal_error from None
            judgement = Judgement.failed(quote(f"{type(error).__name__}: {error}"))
        token_counts = usage.get_total_tokens().values()
        names = "prompt_tokens", "completion_tokens"
        tokens = (sum(counts.get(name, 0) for counts in token_counts) for name in names)
        return ItemJudgement(judgement, *tokens)

    def tuned(
        self, prompt: Prompt, weights: AnswerWeights | None = None, threshold: float | None = None
    ) -> dspy.Module:
        """Return a copy of the program with the prompt's instruction and demonstrations.

        If the program or the search has weights, each prediction of the copy gets a `score`, which
        is computed from all answers and shifted by the threshold. Otherwise the predictor itself
        decides at the threshold. Weights, threshold or demonstrations that are not given stay as
        they are in the program.
        """
        compiled = self.module.deepcopy()
        predictor = _only_predictor(compiled)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        if prompt.demos:
            predictor.demos = [self._demo(demo) for demo in prompt.demos]
        scoring = scoring_of(compiled)
        if weights:
            # The score of a pair is a margin, for which an intercept would favour one side.
            if self.answer.values == LETTERS:
                weights = replace(weights, intercept=0.0)
            if scoring is None:
                # The prompt has numbers as its options, but predictions have the program's labels.
                answers_and_fields = zip(self.answers.values(), prompt.choices, strict=True)
                choices = [
                    replace(field, choices=answer.values) if answer.is_choice else field
                    for answer, field in answers_and_fields
                ]
                scoring = Scoring(choices)
                compiled = ScoredProgram(compiled, scoring)
            scoring.weights = weights
        if threshold is not None:
            if scoring:
                scoring.threshold = threshold
            else:
                self._set_threshold(predictor, threshold)
        return compiled

    def _set_threshold(self, predictor: dspy.Predict, threshold: float) -> None:
        """Set the predictor's threshold if its answer is a Noul or a Choice of two options."""
        name = self.answer.name
        info = self.signature.output_fields[name]
        # A plain bool or Literal has no probabilities.
        if self.answer.is_choice and (output_type := decision_type(info)) is info.annotation:
            first_value, second_value = map(str, self.answer.values)
            weights = {first_value: 1 - threshold, second_value: threshold}
            option = (
                {"threshold": threshold} if issubclass(output_type, Noul) else {"weights": weights}
            )
            predictor.fields[name] = predictor.fields.get(name, {}) | option

    def _demo(self, demo: Demo) -> dspy.Example:
        """Convert a demonstration of the search to a dspy.Example with the program's types."""
        inputs = self._inputs[_inputs_key({name: str(demo[name]) for name in self.text_names})]
        answers = (answer for name, answer in self.answers.items() if name in demo)
        values = {answer.name: answer.value(int(demo[answer.name])) for answer in answers}
        return dspy.Example(**inputs, **values).with_inputs(*self.text_names)


def answer_of(program: str, signature: dspy.Signature, output: str | None = None) -> Answer:
    """The program's output that people rated: `output`, else its only rating or choice.

    Raises ProgramError if there is no such output, or if there are several.
    """
    outputs = signature.output_fields
    answers = [
        answer
        for name, info in outputs.items()
        if output in (None, name) and (answer := _read_answer(name, info))
    ]
    if len(answers) == 1:
        return answers[0]
    types = [getattr(info.annotation, "__name__", info.annotation) for info in outputs.values()]
    fields = ", ".join(f"{name}: {kind}" for name, kind in zip(outputs, types, strict=True))
    name = [*outputs][-1]
    raise ProgramError(
        f"{program} writes {fields}, of which {len(answers)} are the rating or choice that people "
        f"labelled: give one output a type, as in '... -> {name}: int', Literal[1, 2, 3, 4, 5], "
        f"float, or a Literal with two labels, and name it, as in RankOptimizer(output={name!r})"
    )


def _read_answer(name: str, info: FieldInfo) -> Answer | None:
    if info.annotation in (int, float):
        return Answer(name=name)
    decision = decision_type(info)  # a bool or a Literal has a decision type, too
    if decision is None:
        return None
    if issubclass(decision, Score):
        return Answer(name=name, values=_ratings(decision.criteria()))
    if issubclass(decision, Noul):
        return Answer(name=name, values=(True, False), is_choice=True)
    values = get_args(decision.model_fields["value"].annotation)
    if len(values) > 1 and all(re.fullmatch(r"-?\d+", str(value)) for value in values):
        return Answer(name=name, values=tuple(sorted(values, key=int)))
    return Answer(name=name, values=values, is_choice=True) if len(values) == 2 else None


def _ratings(criteria: Sequence[str]) -> tuple[int, ...]:
    """The ratings for the levels of a dspy Score.

    If all levels begin with a number, as in "1: poor", and the numbers ascend, these numbers are
    the ratings; otherwise the indices of the levels are.
    """
    matches = [re.match(r"-?\d+(?=:|\Z)", str(level)) for level in criteria]
    ratings = [int(match[0]) for match in matches if match]
    numbers_ascend = len(ratings) == len(criteria) and ratings == sorted(set(ratings))
    return tuple(ratings if numbers_ascend else range(len(criteria)))


def slug(name: str) -> str:
    """Convert a name to the form of a dimension's name: lower-case letters, digits, underscores."""
    cleaned = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return cleaned if cleaned[:1].isalpha() else f"text_{cleaned}"


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _inputs_key(texts: Mapping[str, str]) -> str:
    return "\0".join(map(encodable, texts.values()))
