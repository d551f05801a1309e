"""RankOptimizer: the rank search as a DSPy teleprompter, for any program with one predictor.

The program runs as it is, with its own forward and adapter. The search writes the instruction and
the demonstrations of its predictor, and reads the predictor's answers from DSPy's trace.
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
from judges.client import (
    EMBEDDED,
    BudgetSpentError,
    FailureMonitor,
    FatalModelError,
    Model,
    Response,
    is_decision,
    is_embedded,
    open_lm,
)
from judges.client.dspy import as_lm, configured_lm
from judges.dimension import Dimension
from judges.judge import Judge
from judges.judgement import Judgement, quote
from judges.labels.types import LabelledSet
from judges.modules import JudgeModule, ScoredProgram, Scoring, probabilities, prompt_of, scoring_of
from judges.prompt import LETTERS, Field, Prompt, encodable
from judges.questions import AnswerWeights
from judges.tables.atomic_write import in_use
from judges.terminal import print_error
from optimize.inputs.flags import RISK, SettingsError
from optimize.items import Item, Items, text_key
from optimize.measuring.tuning_result import TuningResult
from optimize.report.tuning import run_lines
from optimize.search.candidates import Demo
from optimize.search.evaluator import ItemJudgement, JudgeItems
from optimize.search.optimizer import Optimizer, optimizer_name
from optimize.search.two_fold_search import SearchResult
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import stream
from optimize.tuning.folder import Trials
from optimize.tuning.models import RunModels, open_models
from optimize.tuning.pipeline import ActiveRun, summarize
from optimize.tuning.preparation import Labels, prepare_judge
from optimize.tuning.settings import Settings, read_settings

# An example of a user's: a dspy.Example or a dict.
Example = Mapping[str, Any]
# A value of a Literal.
Label = str | int
# The default fields of an example's document and of people's rating.
GROUPS, HUMAN = ("document_id", "group"), "human"
# Each side of a split needs documents to rank.
FEWEST_DOCUMENTS = 10
# Upper bound on the levels of demonstrations.
MAX_LEVELS = 100
# Tokens of a reply unless the LM sets a limit: programs may reason at length.
LONGEST_REPLY = 4096


class ProgramError(JudgesError, TypeError):
    """The program cannot be tuned; the message says which programs can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """How a program was tuned; print it for a report.

    There are no figures on a test split, since the examples have none.

    Attributes:
        result: The result of the run, as summary.json has it.
        trials: A row for each trial of the search.
        search: The result of the search, with the decision of the gate.
    """

    result: TuningResult = field(repr=False)
    trials: Sequence[Mapping[str, Any]] = field(repr=False)
    search: SearchResult = field(repr=False)

    @property
    def summary(self) -> dict[str, Any]:
        """What `tune()` writes into summary.json."""
        return self.result.to_json()

    def __str__(self) -> str:
        return "\n".join(run_lines(self.result))


class RankOptimizer(Teleprompter):  # type: ignore[misc]
    """Tunes a program that rates or chooses, so that it ranks outputs as people do.

    The program is any dspy.Module with one predictor whose output is a rating (int, float, a
    Literal of numbers) or one of two labels, or a Score, Noul or Choice of these, whose
    probabilities count. Examples are dspy.Examples or dicts.

    Other outputs of these kinds, save int and float, are questions: they stay, and a program with
    weights for its answers is scored by them. A program that asks questions gets no new
    demonstrations, because no example answers the questions.

    Args:
        metric: None; any other is refused, since the metric is how people's ratings are ranked.
        lm: The model's name, a dspy.LM or a dspy.experimental.TypeSafe. By default the predictor's
            own, else the one that DSPy is configured with, else the embedded model.
        proposer_lm: The model that writes instructions; by default `lm`, unless that is a decision
            model, which writes none.
        label: The examples' field with people's rating. By default "human", else the field that
            the program writes.
        group: The examples' field that names the document, or a text that documents have in
            common, as in group="document". By default "document_id", else "group".
        output: The field of people's ratings, if several are ratings or choices. By default the
            answer of a judge's own program.
        level: "summary", "dataset", "system", or "auto" to choose by the examples.
        max_calls: Upper bound on the calls to both models.
        max_cost: Upper bound on US dollars.
        price: US dollars for a million tokens (read, written), if no table has the model's price.
        max_demos: Upper bound on the demonstrations in a prompt.
        optimizer: "rank", "gepa", or a function as in `optimize.search.optimizer`.
        risk: The chance, in (0, 1), that a program is returned that is no better than the student.
        num_threads: How many requests are sent at once.
        seed: Fixes the split of the examples and the search.
        folder: Keeps every reply, so that compiling again costs nothing.
        quiet: Whether to print no progress to stderr.

    Raises:
        SettingsError: `optimizer` is a function that is not at the top of a module.
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
            raise SettingsError("people's ratings (label=...) are its metric: leave metric out")
        self.lm, self.proposer_lm = lm, proposer_lm
        self.label, self.group, self.output = label, group, output
        self.seed, self.folder, self.quiet = seed, folder, quiet
        self.settings = {
            "max_calls": max_calls,
            "max_cost": max_cost,
            "price": price and f"{price[0]:g},{price[1]:g}",
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
        """Tune the program on the examples.

        Args:
            student: The program.
            trainset: Examples with people's ratings, on 10 documents or more.
            valset: More of them; the documents of both are split into halves, and each half tests
                what the other half teaches.

        Returns:
            A tuned copy, or one with at most another threshold if the gate ships the untuned
            program. Its `detailed_results` (a RankResult) say what was tried and why it was chosen.

        Raises:
            ProgramError: The program cannot be tuned. It is a TypeError.
            ValueError: An example lacks a field, or the examples are too few or too alike.
            JudgesError: As `tune()`.
        """
        try:
            return self._compile(student, [*trainset, *(valset or ())])
        except JudgesError as error:
            # Arguments in place of flags.
            text = str(error).replace("--concurrency", "num_threads")
            error.args = (re.sub("--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), text),)
            raise

    def _compile(self, student: dspy.Module, examples: Sequence[Example]) -> dspy.Module:
        start = time.monotonic()
        program = Program(student, self.output)
        print_line: Callable[[str], None] = (lambda text: None) if self.quiet else print_error
        labels = self._labels(program, examples, print_line)
        clients, settings = self._models(program)
        judge = program.describe(labels.everything)
        prepared = prepare_judge(settings, labels, judge, is_choice=program.answer.is_choice)
        trials = Trials()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(self.folder or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with in_use(folder), open_models(settings, folder, clients) as models:
                run = ActiveRun(
                    prepared=prepared,
                    folder=folder,
                    models=models,
                    trials=trials,
                    scorer=program.scorer(models, settings),
                    print_line=print_line,
                    new_questions=False,
                )
                result = run.search()
                outcome = summarize(run, result, {}, time.monotonic() - start)
        chosen = result.judges[result.shipped]
        threshold = chosen.threshold if prepared.goal == "balanced" else None
        compiled = program.tuned(chosen.prompt(judge.prompt), chosen.weights, threshold)
        compiled.detailed_results = RankResult(result=outcome, trials=trials.rows, search=result)
        return compiled

    def _labels(
        self, program: "Program", rows: Sequence[Example], print_line: Callable[[str], None]
    ) -> Labels:
        """The examples as a run's labels, in two halves without a document in common."""
        group = self.group or next((name for name in GROUPS if rows and name in rows[0]), None)
        everything = program.read(rows, self.label, group)
        names = everything.documents
        if len(names) < FEWEST_DOCUMENTS:
            raise ValueError(
                f"the examples have {len(names)} documents; at least {FEWEST_DOCUMENTS} are needed"
            )
        if group is None:
            print_line(
                "no example names its document, so trainset is split by row; if rows share a "
                f"document, name the field that tells it, as in group={program.text_names[0]!r}"
            )
        order = [names[i] for i in stream(self.seed, "split").permutation(len(names))]
        half = len(order) // 2
        labels = Labels(
            labelled=LabelledSet(name="trainset", sha256="", outputs=()),
            everything=everything,
            train=everything.of_documents(order[:half]),
            dev=everything.of_documents(order[half:]),
            measured={},
            split={"by": "document" if group else "row"},
        )
        for items in (labels.train, labels.dev):
            if np.ptp(items.human) == 0:
                raise ValueError(
                    f"half of the examples are all rated {items.human[0]:g}, so there is nothing "
                    "to rank: give more examples, or another seed"
                )
        return labels

    def _models(self, program: "Program") -> tuple[dict[str, Model], Settings]:
        """Clients for the models that are dspy.LMs, by role, and the run's settings."""
        # A program keeps its fields, so that its saved state can be loaded into another.
        settings: dict[str, Any] = {"dimension": slug(program.answer.name), "reasoning": "none"}
        settings |= self.settings
        # No example answers a question, or has inputs that the program makes itself.
        if len(program.answers) > 1 or {*program.text_names} != {*program.signature.input_fields}:
            settings["max_demos"] = 0
        judge = self.lm or program.predictor.lm or configured_lm() or EMBEDDED
        source = getattr(program.module, "source", None)
        if judge == EMBEDDED and isinstance(source, Judge):  # the program of a judge
            source.check_origins()
            judge, settings["api_base"] = source.lm, source.api_base
        clients: dict[str, Model] = {}
        for prefix, role, lm in (("", "judge", judge), ("proposer_", "proposer", self.proposer_lm)):
            settings[f"{prefix}lm"] = lm
            if lm is not None and not isinstance(lm, str):
                clients[role], base = open_lm(lm)
                settings |= {f"{prefix}lm": clients[role].name, f"{prefix}api_base": base}
        if "judge" in clients:
            settings["concurrency"] = settings["concurrency"] or dspy.settings.num_threads
            if self.proposer_lm is None and not is_decision(settings["lm"]):
                clients["proposer"] = clients["judge"]
        program.check_decisions(settings["lm"])
        return clients, read_settings(settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The output field that is a rating, or a choice between two labels.

    `values` are those of a Literal, in order. The first label of a choice counts 1, the second 0.
    """

    name: str
    values: tuple[Label, ...] = ()
    is_choice: bool = False

    def score(self, value: Any) -> float:
        """The number for a value that the program wrote; ValueError if it is not on the scale."""
        if by_value := probabilities(value, self.values):
            return math.fsum(p * self.score(each) for each, p in by_value.items())
        if self.is_choice:
            return 1.0 - self.values.index(value)
        score = float(value)
        if not math.isfinite(score) or (self.values and value not in self.values):
            raise ValueError(f"{value!r} is not a rating on the scale")
        return score

    def label(self, cell: Label | float) -> float:
        """The number for people's label: a rating; for a choice a label, tie, share or margin."""
        if self.is_choice and cell in (*self.values, "tie"):
            return 0.5 if cell == "tie" else self.score(cell)
        number, low = float(cell), -1 if self.values == LETTERS else 0
        is_two = self.is_choice or [*map(str, self.values)] == ["0", "1"]
        if is_two and not low <= number <= 1:
            labels = ", ".join(map(repr, self.values))
            raise ValueError(
                f"{cell!r} is not a label; write {labels}, or a number from {low} to 1"
            )
        if not math.isfinite(number):
            raise ValueError(f"{cell!r} is not a finite number")
        # A margin in [-1, 1], a rating, or the share of people who chose the first label.
        return (number + 1) / 2 if self.values == LETTERS else number

    def value(self, level: int) -> Label:
        """The program's value for a level of the scale."""
        if self.is_choice:
            return self.values[1 - level]
        return next((value for value in self.values if int(value) == level), level)

    def scale(self, items: Items) -> tuple[int, ...]:
        """The levels of demonstrations: the scale's, or the range of people's ratings."""
        if self.is_choice:
            return 0, 1
        if self.values:
            return tuple(map(int, self.values))
        low, high = math.floor(items.human.min()), math.ceil(items.human.max())
        return tuple(range(low, max(high, low + 1) + 1, max(1, (high - low) // MAX_LEVELS)))

    def field(self, field: Field, items: Items) -> Field:
        """The program's field with the numbers that the search works with as its choices."""
        meaning = " (1 = {}, 0 = {})".format(*self.values) if self.is_choice else ""
        description = f"{field.description}{meaning}"
        return replace(field, description=description, choices=self.scale(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudge(Judge):
    """A program as a judge under its own field names; it is never asked itself."""

    def __post_init__(self) -> None:
        """Allow any fields, because the program's adapter renders them."""


def _only_predictor(module: dspy.Module) -> tuple[str, dspy.Predict]:
    """The path and the predictor that is tuned; ProgramError if there are others, or none."""
    predictors = [
        (path, predictor)
        for path, predictor in module.named_predictors()
        if predictor is module or not getattr(predictor, "_compiled", False)
    ]
    if len(predictors) != 1:
        names = ", ".join(path for path, _ in predictors)
        raise ProgramError(
            f"RankOptimizer tunes one predictor, and {type(module).__name__} has {len(predictors)} "
            f"({names}): tune the module that rates by itself, or set _compiled = True on the "
            "others"
        )
    return predictors[0]


def _input_names(module: dspy.Module, inputs: Mapping[str, FieldInfo]) -> tuple[str, ...]:
    """The predictor's inputs, or those of a forward that names others as its parameters."""
    _, *parameters = inspect.signature(type(module).forward).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty or p.name in inputs]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return tuple(inputs if takes_any or {*needed} == {*inputs} else needed)


class Program:
    """A program to tune: it reads examples, judges items, and makes tuned copies of itself."""

    def __init__(self, module: dspy.Module, output: str | None = None) -> None:
        name = type(module).__name__
        if not isinstance(module, dspy.Module):
            raise ProgramError(
                f"RankOptimizer cannot tune a {name}: it tunes a dspy.Module with one predictor "
                "whose output is a rating or one of two labels, such as "
                "dspy.ChainOfThought('document, summary -> rating: int') or "
                "judges.load('relevance').program()"
            )
        self.module = module
        self.path, self.predictor = _only_predictor(module)
        self.signature = self.predictor.signature
        self.text_names = _input_names(module, self.signature.input_fields)
        scoring = scoring_of(module)
        self.weights = scoring and scoring.weights
        if output is None and scoring is not None:
            output = scoring.choices[-1].name
        self.answer = answer_of(name, self.signature, output)
        outputs = self.signature.output_fields.items()
        typed = [_answer(name, info) for name, info in outputs]
        asked = [each for each in typed if each and each.values and each.name != self.answer.name]
        # The questions, then the answer.
        self.answers = {each.name: each for each in (*asked, self.answer)}
        # A field written beside the answers, such as the reasoning of ChainOfThought.
        self.reason = next((name for name, _ in outputs if name not in self.answers), None)
        self.choices: tuple[Field, ...] = ()
        self._inputs: dict[str, Example] = {}

    def check_decisions(self, lm: str) -> None:
        """Raise ProgramError if DSPy cannot ask a model of this name for the outputs."""
        # A judge's own program leaves out what a decision model cannot write.
        if any(isinstance(each, JudgeModule) for _, each in self.module.named_sub_modules()):
            return
        try:
            state = DecisionState(self.signature, self.predictor.fields, system_one=is_decision(lm))
            for name, kind in state.types.items():
                state._question(name, self.signature.output_fields[name], kind)
        except ValueError as error:
            raise ProgramError(f"this program cannot be tuned with {lm}: {error}") from None

    def read(self, rows: Sequence[Example], label: str | None, group: str | None) -> Items:
        """The examples as items; ValueError names the first example that lacks a field."""
        if not rows:
            raise ValueError("trainset is empty: give examples that people have rated")
        if label is None:
            label = HUMAN if HUMAN in rows[0] else self.answer.name
        names = [*self.text_names, label, *([group] if group else [])]
        items = []
        for number, row in enumerate(rows):
            if missing := [name for name in names if row.get(name) is None]:
                raise ValueError(
                    f"example {number} has no {missing[0]!r}; an example has {', '.join(names)}; "
                    "other names: RankOptimizer(label=..., group=...)"
                )
            inputs = {name: row[name] for name in self.text_names}
            texts = {name: _text(value) for name, value in inputs.items()}
            try:
                human = self.answer.label(row[label])
            except (TypeError, ValueError) as error:
                raise ValueError(f"example {number}: {label}: {error}") from None
            self._inputs[_key(texts)] = inputs
            document = str(row[group]) if group else text_key(texts)
            items.append(
                Item(
                    id=f"{number}",
                    document_id=document,
                    system=row.get("system"),
                    texts=texts,
                    human=human,
                )
            )
        return Items(tuple(items))

    def describe(self, items: Items) -> Judge:
        """The program as a judge, which the search tunes."""
        fields = {field.name: field for field in prompt_of(self.signature).fields}
        self.choices = tuple(each.field(fields[each.name], items) for each in self.answers.values())
        inputs = [
            fields.get(name) or Field(name=name, description=name, role="input")
            for name in self.text_names
        ]
        reasons = [fields[self.reason]] if self.reason else []
        subject = Dimension(
            name=slug(self.answer.name),
            definition=self.choices[-1].description,
            inputs={slug(field.name): field.description for field in inputs},
            anchors=dict.fromkeys(self.answer.scale(items), ""),
            instruction=self.signature.instructions,
        )
        shown = (*inputs, *reasons, *self.choices)
        prompt = Prompt(instruction=self.signature.instructions, fields=shown)
        return ProgramJudge(subject=subject, prompt=prompt)

    def scorer(self, models: RunModels, settings: Settings) -> JudgeItems:
        """A function that judges items, in order, with the program under a prompt of the search."""
        client, temperature = models.judge, models.plan.temperature
        lm = as_lm(client, temperature=temperature, max_tokens=LONGEST_REPLY, seed=settings.seed)
        # A model in this process answers one request at a time, and in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        monitor = FailureMonitor()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[ItemJudgement]:
            module = self.tuned(prompt)
            _predictor(module, self.path).lm = lm
            lm.engine.stopped = None
            pool = ThreadPoolExecutor(min(n_threads, len(items)), "program")
            # Threads get the DSPy settings of this one; after an error no further item begins.
            context = contextvars.copy_context()
            try:
                futures = [
                    pool.submit(context.copy().run, self._judge, module, lm, item) for item in items
                ]
                for future in futures:
                    one = future.result()
                    failure = one.judgement.failure
                    monitor.add(Response(replies=(), values=(), error=failure))
                    yield one
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

        return judge_items

    def _judge(self, module: dspy.Module, lm: dspy.LM, item: Item) -> ItemJudgement:
        """Judge one item; the errors that end a run are raised, the others make a failure."""
        trace: list[tuple[dspy.Predict, Example, dspy.Prediction]] = []
        usage = UsageTracker()
        try:
            # The usage and the trace of the search stay out of the user's own.
            with dspy.context(trace=trace, usage_tracker=usage, disable_history=True):
                module(**self._inputs[_key(item.texts)])
            predictor = _predictor(module, self.path)
            predictions = [prediction for by, _, prediction in trace if by is predictor]
            if not predictions:
                raise ProgramError(f"{type(module).__name__} did not call its predictor")
            prediction = predictions[-1]
            numbers = {name: each.score(prediction[name]) for name, each in self.answers.items()}
            judgement = Judgement(
                score=numbers[self.answer.name],
                rationale=(_text(prediction.get(self.reason)) if self.reason else None) or None,
                answers=numbers if len(numbers) > 1 else None,
            ).rescored(self.choices, self.weights)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - a program of the user's may raise anything
            fatal = lm.engine.stopped
            if isinstance(fatal, FatalModelError | BudgetSpentError):
                raise fatal from None
            judgement = Judgement.failed(quote(f"{type(error).__name__}: {error}"))
        totals = usage.get_total_tokens().values()
        names = "prompt_tokens", "completion_tokens"
        tokens = (sum(each.get(name, 0) for each in totals) for name in names)
        return ItemJudgement(judgement, *tokens)

    def tuned(
        self, prompt: Prompt, weights: AnswerWeights | None = None, threshold: float | None = None
    ) -> dspy.Module:
        """A copy of the program with the prompt's instruction and demonstrations.

        Its predictions have the `score` of all answers, moved by the threshold, if there are
        `weights` or the program has some. Otherwise its predictor decides by the threshold. None
        leaves the program's own.
        """
        compiled = self.module.deepcopy()
        predictor = _predictor(compiled, self.path)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        # If the search shows no demonstrations, the program keeps its own.
        if prompt.demos:
            predictor.demos = [self._demo(demo) for demo in prompt.demos]
        scoring = scoring_of(compiled)
        if scoring is None and weights:
            # The program's labels in place of the search's numbers.
            pairs = zip(self.choices, self.answers.values(), strict=True)
            choices = [replace(f, choices=a.values) if a.is_choice else f for f, a in pairs]
            scoring = Scoring(choices)
            compiled = ScoredProgram(compiled, scoring)
        if scoring and weights:
            # A margin has no intercept.
            intercept = 0.0 if self.answer.values == LETTERS else weights.intercept
            scoring.weights = replace(weights, intercept=intercept)
        if scoring and threshold is not None:
            scoring.threshold = threshold
        elif threshold is not None:
            self._set_threshold(predictor, threshold)
        return compiled

    def _set_threshold(self, predictor: dspy.Predict, threshold: float) -> None:
        """Let the predictor decide at the threshold, if its answer is a Noul or a Choice of two."""
        name = self.answer.name
        info = self.signature.output_fields[name]
        # A plain bool or Literal has no probabilities.
        if self.answer.is_choice and (kind := decision_type(info)) is info.annotation:
            first, second = map(str, self.answer.values)
            weights = {first: 1 - threshold, second: threshold}
            own = {"threshold": threshold} if issubclass(kind, Noul) else {"weights": weights}
            predictor.fields[name] = predictor.fields.get(name, {}) | own

    def _demo(self, demo: Demo) -> dspy.Example:
        """A demonstration of the search in the program's own types."""
        inputs = self._inputs[_key({name: str(demo[name]) for name in self.text_names})]
        answers = (each for name, each in self.answers.items() if name in demo)
        values = {each.name: each.value(int(demo[each.name])) for each in answers}
        return dspy.Example(**inputs, **values).with_inputs(*self.text_names)


def answer_of(program: str, signature: dspy.Signature, output: str | None = None) -> Answer:
    """The only output that is a rating or a choice; ProgramError if there is none or several."""
    outputs = signature.output_fields
    if output is not None and output not in outputs:
        raise ProgramError(f"{program} has no output {output!r}; it has {', '.join(outputs)}")
    outputs = {name: info for name, info in outputs.items() if output in (None, name)}
    answers = [answer for name, info in outputs.items() if (answer := _answer(name, info))]
    if len(answers) == 1:
        return answers[0]
    types = {name: info.annotation for name, info in outputs.items()}
    fields = ", ".join(f"{name}: {getattr(kind, '__name__', kind)}" for name, kind in types.items())
    if answers:
        raise ProgramError(
            f"{program} writes {len(answers)} ratings or choices ({fields}): name the one that "
            f"people gave, as in RankOptimizer(output={answers[-1].name!r})"
        )
    raise ProgramError(
        f"{program} writes no rating and no choice ({fields}): type its output, as in '... "
        f"-> {list(outputs)[-1]}: int', Literal[1, 2, 3, 4, 5], float, or Literal of two labels"
    )


def _answer(name: str, info: FieldInfo) -> Answer | None:
    if info.annotation in (int, float):
        return Answer(name=name)
    kind = decision_type(info)  # DSPy reads a bool or a Literal as one, too
    if kind is None:
        return None
    if issubclass(kind, Score):
        return Answer(name=name, values=_levels(kind.criteria()))
    if issubclass(kind, Noul):
        return Answer(name=name, values=(True, False), is_choice=True)
    values = get_args(kind.model_fields["value"].annotation)
    if len(values) > 1 and all(re.fullmatch(r"-?\d+", str(value)) for value in values):
        return Answer(name=name, values=tuple(sorted(values, key=int)))
    return Answer(name=name, values=values, is_choice=True) if len(values) == 2 else None


def _levels(criteria: Sequence[str]) -> tuple[int, ...]:
    """The ratings by which all levels begin ("1: poor"), if they ascend; else their places."""
    matches = [re.match(r"-?\d+(?=:|\Z)", str(level)) for level in criteria]
    ratings = [int(match[0]) for match in matches if match]
    ascend = len(ratings) == len(criteria) and ratings == sorted(set(ratings))
    return tuple(ratings if ascend else range(len(criteria)))


def slug(name: str) -> str:
    """The name in the form of a dimension's: small letters, digits and underscores."""
    slug = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return slug if slug[:1].isalpha() else f"text_{slug}"


def _predictor(module: dspy.Module, path: str) -> dspy.Predict:
    return dict(module.named_predictors())[path]


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _key(texts: Mapping[str, str]) -> str:
    return "\0".join(map(encodable, texts.values()))
