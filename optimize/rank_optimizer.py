"""RankOptimizer: the rank search as a DSPy teleprompter, for programs of one's own.

A program is run as it is, its forward, its adapter and all; the search writes the instruction and
the demonstrations of its one predictor, and reads what that wrote off DSPy's trace.
"""

import contextvars
import json
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dspy
import numpy as np
from dspy.teleprompt import Teleprompter
from dspy.utils.usage_tracker import UsageTracker

from data.splits import FRACTIONS
from data.tables.atomic_write import in_use
from data.types import LabelledSet
from dspy_judges.errors import JudgesError
from judges.client import (
    EMBEDDED,
    BudgetSpentError,
    FailureMonitor,
    FatalModelError,
    Model,
    Response,
    is_embedded,
)
from judges.client.dspy import DspyModel, as_lm, configured_lm
from judges.dimension import Dimension
from judges.judge import Judge
from judges.judgement import Judgement, shortened
from judges.prompt import Field, Prompt, encodable
from judges.terminal import print_error
from optimize.items import LEVELS, Item, Items, choose_level, text_key
from optimize.report.answer import run_lines
from optimize.run.folder import Trials
from optimize.run.labels import Labels, PreparedRun, check_level
from optimize.run.models import open_models
from optimize.run.run import ActiveRun, summarize
from optimize.run.settings import Settings, read_settings
from optimize.search.evaluator import Judged, JudgeItems
from optimize.search.gate import RISK, SearchResult
from optimize.statistics.bootstrap import stream
from optimize.statistics.levels import Level

WAY_OUT = (
    "it tunes a dspy.Module with one predictor whose output is a rating or one of two labels, such "
    "as dspy.ChainOfThought('document, summary -> rating: int') or "
    "judges.load('relevance').program()"
)
# Where an example names its document, and where people's rating stands, if nothing is said.
GROUPS, HUMAN = ("document_id", "group"), "human"
# Each side of a split needs documents to rank.
FEWEST_DOCUMENTS = 10
# More ratings than a demonstration's level need be told apart by.
MAX_LEVELS = 100
# Tokens of a reply, unless the LM says otherwise: programs may reason at length.
LONGEST_REPLY, CONCURRENCY = 4096, 64


class ProgramError(JudgesError, TypeError):
    """A program of a form that cannot be tuned; the message says which form can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """How a program was tuned; print it for the answer.

    `summary` holds what `tune()` writes into summary.json; there is no test among the examples, and
    so no figure of one. `trials` are all that was tried, `search` is what the gate weighed.
    """

    summary: Mapping[str, Any]
    trials: Sequence[Mapping[str, Any]] = field(repr=False)
    search: SearchResult = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(run_lines(self.summary))


class RankOptimizer(Teleprompter):  # type: ignore[misc]
    """Tunes a program that rates or chooses so that it ranks outputs as people do.

    The program is any dspy.Module with one predictor whose output is a rating (int, float, a
    Literal of numbers) or one of two labels; `output` names that field where there are several.

    Examples are dspy.Examples or dicts. `label` names the field of people's rating ("human", else
    the program's own output). `group` names the field that tells the document (else "document_id"
    or "group"); it may be a text itself, as in group="document".

    The model is `lm`, a name or a dspy.LM, else the predictor's own, else the one that DSPy is
    configured with, else the embedded one; `proposer_lm`, which writes instructions, is the same
    unless given. `api_base` and `proposer_api_base` are their addresses. `max_calls` bounds the
    calls to both, `max_cost` US dollars, which takes a `price` (for a million tokens read and
    written) where no table knows the model's. `max_demos` bounds what a prompt shows. `risk` is the
    chance that a program which is no better than the given one is returned. `num_threads` are the
    requests under way at once. `level` is "summary", "dataset", "system" or "auto". `folder` keeps
    every reply, so that compiling again costs nothing. Progress goes to stderr unless `quiet`.
    """

    def __init__(
        self,
        *,
        lm: str | dspy.BaseLM | None = None,
        api_base: str | None = None,
        proposer_lm: str | dspy.BaseLM | None = None,
        proposer_api_base: str | None = None,
        label: str | None = None,
        group: str | None = None,
        output: str | None = None,
        level: Level | Literal["auto"] = "auto",
        max_calls: int | None = None,
        max_cost: float | None = None,
        price: tuple[float, float] | None = None,
        proposer_price: tuple[float, float] | None = None,
        max_demos: int | None = None,
        risk: float = RISK,
        num_threads: int | None = None,
        seed: int = 0,
        folder: Path | str | None = None,
        quiet: bool = False,
    ) -> None:
        super().__init__()
        if level not in ("auto", *LEVELS):
            raise ValueError(f"level {level!r}: choose from auto, {', '.join(LEVELS)}")
        self.lms = {
            "": (lm, api_base, price),
            "proposer_": (proposer_lm, proposer_api_base, proposer_price),
        }
        self.label, self.group, self.output = label, group, output
        self.level: Level | Literal["auto"] = level
        self.seed, self.num_threads = seed, num_threads
        self.limits = {
            "max_calls": max_calls,
            "max_cost": max_cost,
            "max_demos": max_demos,
            "risk": risk,
        }
        self.folder, self.quiet = folder, quiet

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: Any,
        teacher: dspy.Module | None = None,
        valset: Any = None,
        **kwargs: Any,
    ) -> dspy.Module:
        """Return a tuned copy, or an unchanged one where the gate ships the untuned program.

        Without a valset, trainset is split by document. The copy's `detailed_results` (a
        RankResult) say what was tried and why it was chosen. Raises TypeError for a program that
        cannot be tuned, ValueError for examples that lack something, and what `tune()` raises.
        """
        began = time.monotonic()
        if teacher is not None or kwargs:
            names = ", ".join(["teacher"] * (teacher is not None) + sorted(kwargs))
            raise TypeError(
                f"compile() takes student, trainset and valset, and no {names}: people's labels "
                "teach, and how to search is said to RankOptimizer(...)"
            )
        program = Program(student, self.output)
        print_line: Callable[[str], None] = (lambda text: None) if self.quiet else print_error
        train, dev, by = self._split(program, trainset, valset, print_line)
        check_level(self.level, train, pairs=program.answer.is_choice)
        level = choose_level(train) if self.level == "auto" else self.level
        opened, settings = self._settings(program)
        labels = _labels(train, dev, by)
        judge = program.describe(labels.everything)
        prepared = PreparedRun(
            settings=settings,
            subject=judge.subject,
            labels=labels,
            level="dataset" if program.answer.is_choice else level,
            untuned_judge=judge,
        )
        trials = Trials()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(self.folder or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with in_use(folder), open_models(settings, folder, opened) as models:
                run = ActiveRun(
                    prepared=prepared,
                    folder=folder,
                    models=models,
                    trials=trials,
                    print_line=print_line,
                )
                run = replace(run, own_scorer=program.scorer(run))
                result = run.search()
                summary = summarize(run, result, {}, time.monotonic() - began)
        compiled = student.deepcopy()
        if result.choice.ship:
            compiled = program.tuned(result.tuned.prompt(judge.prompt))
        compiled.detailed_results = RankResult(summary=summary, trials=trials.rows, search=result)
        return compiled

    def _split(
        self, program: "Program", trainset: Any, valset: Any, print_line: Callable[[str], None]
    ) -> tuple[Items, Items, str]:
        """The two parts of the examples, without a document in common, and how they were parted."""
        rows = list(trainset)
        group = self.group or next((name for name in GROUPS if rows and name in rows[0]), None)
        train = program.read(rows, "train", self.label, group)
        if valset is not None:
            dev = program.read(list(valset), "val", self.label, group)
            if shared := set(train.documents) & set(dev.documents):
                raise ValueError(
                    f"trainset and valset share {len(shared)} documents: leave valset out, and "
                    "trainset is split by document, or give others"
                )
        else:
            documents = train.documents
            if len(documents) < FEWEST_DOCUMENTS:
                raise ValueError(
                    f"trainset has {len(documents)} documents, and {FEWEST_DOCUMENTS} are the "
                    "least to split: give more, or a valset of other documents"
                )
            order = stream(self.seed, "split").permutation(len(documents)).tolist()
            n_train = round(len(documents) * FRACTIONS[0] / (FRACTIONS[0] + FRACTIONS[1]))
            parts = order[:n_train], order[n_train:]
            train, dev = (train.of_documents([documents[i] for i in part]) for part in parts)
            if group is None:
                print_line(
                    "no example names its document, so trainset is split by row; where several "
                    "rows share one, say which field tells, as in "
                    f"group={program.text_names[0]!r}"
                )
        for name, part in (("train", train), ("val", dev)):
            if np.ptp(part.human) == 0:
                raise ValueError(
                    f"the {name} examples are all rated {part.human[0]:g}, so nothing is ranked"
                )
        print_line(
            f"{len(train)} and {len(dev)} examples of {len(train.documents)} and "
            f"{len(dev.documents)} documents; each part is judged by what the other teaches"
        )
        by = "valset" if valset is not None else "row" if group is None else "document"
        return train, dev, by

    def _settings(self, program: "Program") -> tuple[dict[str, Model], Settings]:
        """The models that are open already, by their roles, and the run's settings."""
        opened: dict[str, Model] = {}
        given: dict[str, Any] = {**self.limits, "seed": self.seed, "concurrency": CONCURRENCY}
        for prefix, (lm, api_base, price) in self.lms.items():
            role = "proposer" if prefix else "judge"
            if lm is None and not prefix:
                lm = program.predictor.lm or configured_lm()
                lm = lm.copy(api_base=api_base) if lm is not None and api_base else lm or EMBEDDED
            if isinstance(lm, dspy.BaseLM):
                model = opened[role] = DspyModel(lm)
                lm, api_base = model.name, model.api_base
                given["concurrency"] = dspy.settings.num_threads
            given |= {f"{prefix}lm": lm, f"{prefix}api_base": api_base}
            given[f"{prefix}price"] = price and f"{price[0]:g},{price[1]:g}"
        if "judge" in opened and given["proposer_lm"] is None:
            opened["proposer"] = opened["judge"]
        given["dimension"] = slug(program.answer.name)
        # A program keeps its fields, or what is saved of it could not be loaded into another.
        given |= {"reasoning": "none"}
        if self.num_threads:
            given["concurrency"] = self.num_threads
        return opened, read_settings({k: value for k, value in given.items() if value is not None})


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
        """What a value of the program's counts, or a label; ValueError for what is none."""
        if self.is_choice:
            return 1.0 - self.values.index(value)
        score = float(value)
        if not math.isfinite(score) or (self.values and value not in self.values):
            raise ValueError(f"{value!r} is no rating on the scale")
        return score

    def label(self, cell: Any) -> float:
        """What people's label counts: a rating; of a choice a label, a tie, or a margin."""
        if self.is_choice and cell in (*self.values, "tie"):
            return 0.5 if cell == "tie" else self.score(cell)
        number = float(cell)
        if not math.isfinite(number):
            raise ValueError(f"{cell!r} is no finite number")
        return (number + 1) / 2 if self.is_choice else number

    def value(self, level: int, human: float) -> Any:
        """What a demonstration shows for a level of the scale, whose people's mean is `human`."""
        if self.is_choice:
            return self.values[1 - level]
        if self.values:
            return next(value for value in self.values if int(value) == level)
        return round(human, 2) if self.kind is float else level

    def scale(self, items: Items) -> tuple[int, ...]:
        """The levels of demonstrations: the scale's, or those that people's ratings span."""
        if self.is_choice:
            return 0, 1
        if self.values:
            return tuple(int(value) for value in self.values)
        low, high = math.floor(items.human.min()), math.ceil(items.human.max())
        return tuple(range(low, max(high, low + 1) + 1, max(1, (high - low) // MAX_LEVELS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudge(Judge):
    """A program under its own fields' names, as the search describes it; it asks nothing itself."""

    def __post_init__(self) -> None:
        """Take any fields: the program's adapter renders them."""


class Program:
    """A program to tune: what the search asks of it, and a copy with what the search has found."""

    def __init__(self, module: dspy.Module, output: str | None = None) -> None:
        name = type(module).__name__
        if not isinstance(module, dspy.Module):
            raise ProgramError(f"RankOptimizer cannot tune a {name}: {WAY_OUT}")
        predictors = module.named_predictors()
        if len(predictors) != 1:
            names = ", ".join(path for path, _ in predictors)
            raise ProgramError(
                f"RankOptimizer tunes one predictor, and {name} has {len(predictors)} ({names}): "
                "tune the module that rates by itself, or set _compiled = True on the others"
            )
        self.module = module
        ((self.path, self.predictor),) = predictors
        self.signature = self.predictor.signature
        self.answer = answer_of(name, self.signature, output)
        self.text_names = tuple(self.signature.input_fields)
        self.reason = next(
            (
                name
                for name, info in self.signature.output_fields.items()
                if name != self.answer.name
                and getattr(info.annotation, "__name__", "") in ("str", "Reasoning")
            ),
            None,
        )
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._shown: dict[str, Item] = {}

    def read(self, rows: Sequence[Any], split: str, label: str | None, group: str | None) -> Items:
        """The examples as items; ValueError names the first that lacks something."""
        if not rows:
            raise ValueError(f"{split}set is empty: it holds the examples that people have rated")
        if label is None:
            label = HUMAN if HUMAN in rows[0] else self.answer.name
        wanted = [*self.text_names, label, *([group] if group else [])]
        items = []
        for number, row in enumerate(rows):
            where = f"{split} example {number}"
            if missing := [name for name in wanted if row.get(name) is None]:
                raise ValueError(
                    f"{where} has no {missing[0]!r}; an example has {', '.join(wanted)}; other "
                    "names: RankOptimizer(label=..., group=...)"
                )
            inputs = {name: row[name] for name in self.text_names}
            if any(isinstance(value, dspy.Type | dspy.History) for value in inputs.values()):
                raise ProgramError(f"{where} is not of texts alone, which RankOptimizer reads")
            texts = {name: _text(value) for name, value in inputs.items()}
            try:
                human = self.answer.label(row[label])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {label}: {error}") from None
            item = Item(
                id=f"{split}-{number}",
                document_id=str(row[group]) if group else text_key(texts),
                system=row.get("system"),
                texts=texts,
                human=human,
            )
            self._inputs[item.id] = inputs
            self._shown[_key(texts)] = item
            items.append(item)
        return Items(tuple(items))

    def describe(self, items: Items) -> Judge:
        """The program as the judge that the search tunes."""
        info = {**self.signature.input_fields, **self.signature.output_fields}
        words = {name: (each.json_schema_extra or {}).get("desc") for name, each in info.items()}
        # DSPy describes a field that nobody has by its name.
        said = {
            name: name if text in (None, f"${{{name}}}") else text for name, text in words.items()
        }
        meaning, scale = said[self.answer.name], self.answer.scale(items)
        if self.answer.is_choice:
            meaning += " (1 = {}, 0 = {})".format(*self.answer.values)
        reasons = [self.reason] if self.reason else []
        fields = [
            *(Field(name=n, description=said[n], role="input") for n in self.text_names),
            *(Field(name=n, description=said[n], role="output") for n in reasons),
            Field(name=self.answer.name, description=meaning, role="output", choices=scale),
        ]
        subject = Dimension(
            name=slug(self.answer.name),
            definition=meaning,
            inputs={slug(name): said[name] for name in self.text_names},
            anchors=dict.fromkeys(scale, ""),
            instruction=self.signature.instructions,
        )
        prompt = Prompt(instruction=self.signature.instructions, fields=tuple(fields))
        return ProgramJudge(subject=subject, prompt=prompt)

    def scorer(self, run: ActiveRun) -> JudgeItems:
        """What scores items by the program with a prompt of the search's, in order."""
        client, settings = run.models.judge, run.prepared.settings
        temperature = run.models.plan.temperature
        lm = as_lm(client, temperature=temperature, max_tokens=LONGEST_REPLY, seed=settings.seed)
        # A model in this process answers one request at a time, and in order.
        n_threads = 1 if is_embedded(client.model.endpoint) else settings.concurrency
        monitor = FailureMonitor()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterator[Judged]:
            """Yield what the program says of each item, in order."""
            module = self.tuned(prompt)
            _predictor(module, self.path).lm = lm
            lm.engine.stopped = None
            pool = ThreadPoolExecutor(min(n_threads, len(items)), "program")
            # Threads see what is set in DSPy here; what is left at an error is not begun.
            context = contextvars.copy_context()
            try:
                with client.account.spending_on(run.purpose_of(items[0])):
                    futures = [
                        pool.submit(context.copy().run, self._judge, module, lm, item)
                        for item in items
                    ]
                    for future in futures:
                        judged = future.result()
                        failure = judged.judgement.failure
                        monitor.add(Response(replies=(), parsed=(), error=failure))
                        yield judged
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

        return judge_items

    def _judge(self, module: dspy.Module, lm: dspy.LM, item: Item) -> Judged:
        """One item's score; raises what ends a run, among it ProgramError."""
        trace: list[Any] = []
        usage = UsageTracker()
        # The usage and the trace are the search's, and no part of its user's.
        with dspy.context(trace=trace, usage_tracker=usage, disable_history=True):
            judgement = self._judgement(module, lm, item, trace)
        totals = usage.get_total_tokens().values()
        tokens = [
            sum(total.get(name, 0) for total in totals)
            for name in ("prompt_tokens", "completion_tokens")
        ]
        return Judged(judgement, *tokens)

    def _judgement(
        self, module: dspy.Module, lm: dspy.LM, item: Item, trace: Sequence[Any]
    ) -> Judgement:
        try:
            module(**self._inputs[item.id])
            if not trace:
                raise ProgramError(f"{type(self.module).__name__} did not call its predictor")
            said = trace[-1][2]
            score = self.answer.score(said[self.answer.name])
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - a program of the user's may raise anything
            stopped = lm.engine.stopped
            if isinstance(stopped, FatalModelError | BudgetSpentError):
                raise stopped from None
            return Judgement.failed(shortened(f"{type(error).__name__}: {error}"))
        reason = _text(said.get(self.reason)) if self.reason else None
        return Judgement(score=score, rationale=reason or None)

    def tuned(self, prompt: Prompt) -> dspy.Module:
        """A copy with the instruction and the demonstrations of the prompt."""
        compiled = self.module.deepcopy()
        predictor = _predictor(compiled, self.path)
        predictor.signature = predictor.signature.with_instructions(prompt.instruction)
        # Demonstrations of its own stay as they are where the search shows none.
        if prompt.demos:
            predictor.demos = [self._demo(demo) for demo in prompt.demos]
        return compiled

    def _demo(self, demo: Mapping[str, Any]) -> dspy.Example:
        """A demonstration of the search's in the program's own types, as its adapter shows it."""
        item = self._shown[_key({name: str(demo[name]) for name in self.text_names})]
        level = int(demo[self.answer.name])
        values = {**self._inputs[item.id], self.answer.name: self.answer.value(level, item.human)}
        return dspy.Example(**values).with_inputs(*self.text_names)


def answer_of(program: str, signature: Any, output: str | None = None) -> Answer:
    """The output that is a rating or a choice; ProgramError where there is none, or several."""
    outputs = signature.output_fields
    if output is not None and output not in outputs:
        raise ProgramError(f"{program} has no output {output!r}; it has {', '.join(outputs)}")
    kinds = {name: info.annotation for name, info in outputs.items() if output in (None, name)}
    answers = [answer for name, kind in kinds.items() if (answer := _answer(name, kind))]
    if len(answers) == 1:
        return answers[0]
    written = ", ".join(
        f"{name}: {getattr(kind, '__name__', kind)}" for name, kind in kinds.items()
    )
    if answers:
        raise ProgramError(
            f"{program} writes {len(answers)} ratings or choices ({written}): say which is "
            f"people's, as in RankOptimizer(output={answers[-1].name!r})"
        )
    raise ProgramError(
        f"{program} writes no rating and no choice ({written}): type its output, as in "
        f"'... -> {list(kinds)[-1]}: int', Literal[1, 2, 3, 4, 5], float, or Literal of two labels"
    )


def _answer(name: str, annotation: Any) -> Answer | None:
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *others) = [each for each in get_args(annotation) if each is not type(None)]
        return None if others else _answer(name, annotation)
    if annotation is bool:
        return Answer(name=name, values=(True, False), is_choice=True)
    if annotation in (int, float):
        return Answer(name=name, kind=annotation)
    values = get_args(annotation) if get_origin(annotation) is Literal else ()
    if len(values) > 1 and all(re.fullmatch(r"-?\d+", str(value)) for value in values):
        return Answer(name=name, values=tuple(sorted(values, key=int)))
    return Answer(name=name, values=values, is_choice=True) if len(values) == 2 else None


def slug(name: str) -> str:
    """The name as a dimension's may be: small letters, digits and underscores."""
    slug = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:60]
    return slug if slug[:1].isalpha() else f"text_{slug}"


def _labels(train: Items, dev: Items, by: str) -> Labels:
    """The examples as a run's labels: there is no test among them."""
    everything = Items((*train.items, *dev.items))
    rows = [[item.id, item.document_id, dict(item.texts), item.human] for item in everything.items]
    digest = sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return Labels(
        labelled=LabelledSet(name="trainset", sha256=digest, outputs=()),
        everything=everything,
        train=train,
        dev=dev,
        test=Items(()),
        unseen=None,
        split={"by": by},
    )


def _predictor(module: dspy.Module, path: str) -> Any:
    return dict(module.named_predictors())[path]


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _key(texts: Mapping[str, str]) -> str:
    return "\0".join(map(encodable, texts.values()))
