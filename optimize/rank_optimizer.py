"""RankOptimizer: the rank search as a DSPy teleprompter."""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from data.tables.atomic_write import in_use
from data.types import LabelledSet
from judges.client import EMBEDDED, Model
from judges.client.dspy import DspyModel, configured_lm
from judges.dimension import Comparison
from judges.terminal import print_error
from optimize.dspy_examples import (
    ExampleReader,
    Label,
    group_field,
    refuse_overlap,
    refuse_repeated_ids,
    rows_of,
    split_by_document,
)
from optimize.dspy_program import Student, student_of
from optimize.items import LEVELS, Items, choose_level
from optimize.report.answer import run_lines
from optimize.run.folder import Trials
from optimize.run.labels import Labels, PreparedRun, check_level
from optimize.run.models import open_models
from optimize.run.run import ActiveRun, summarize
from optimize.run.settings import Level, Settings, read_settings
from optimize.search.gate import RISK, SearchResult

CONCURRENCY = 64
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """How a program was tuned; print it for the scorecard.

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

    The program is a judge's module, or any dspy.Module with one predictor whose output is a rating
    (int, float, a Literal of numbers) or one of two labels; `output` names that field where there
    are several. Its class, forward, adapter and reasoning stay as they are.

    Examples are dspy.Examples or dicts. `label` names people's rating: a field ("human", else the
    program's own output), or a function of an example. `group` names the document that outputs
    belong to ("document_id" or "group"); it may be a text itself, as in group="document".

    The model is `lm`, a name or a dspy.LM, else the predictor's own, else the one that DSPy is
    configured with (all of its arguments are obeyed), else the embedded one; `proposer_lm`, which
    writes instructions, is the same unless given. `api_base` and `proposer_api_base` are their
    addresses. `max_calls` bounds the calls to both, `max_cost` US dollars, which takes a `price`
    (US dollars for a million tokens read and written) where no table knows the model's.
    `max_demos` bounds what a prompt shows. `risk` is the chance that a program which is no better
    than the given one is returned. `num_threads` are the requests under way
    at once (DSPy's setting, or 64 where a model is named). `level` is "summary", "dataset",
    "system" or "auto". `folder` keeps every reply, so that compiling again costs nothing.
    Progress goes to stderr unless `quiet`.

        import dspy
        from optimize import RankOptimizer

        dspy.configure(lm=dspy.LM("openai/gpt-4.1-mini", temperature=0))

        judge = dspy.ChainOfThought("document, summary -> rating: int")
        trainset = [
            dspy.Example(document=document, summary=summary, score=score)
            .with_inputs("document", "summary")
            for document, summary, score in rated
        ]

        optimizer = RankOptimizer(label="score", group="document", max_cost=2.0)
        tuned = optimizer.compile(judge, trainset=trainset)

        print(tuned.detailed_results)
        tuned.save("judge.json")
    """

    def __init__(
        self,
        *,
        lm: str | dspy.BaseLM | None = None,
        api_base: str | None = None,
        proposer_lm: str | dspy.BaseLM | None = None,
        proposer_api_base: str | None = None,
        label: Label | None = None,
        group: str | None = None,
        output: str | None = None,
        level: Level | str | None = None,
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
        if level not in (None, AUTO, *LEVELS):
            raise ValueError(f"level {level!r}: choose from {AUTO}, {', '.join(LEVELS)}")
        self.lm, self.api_base = lm, api_base
        self.proposer_lm, self.proposer_api_base = proposer_lm, proposer_api_base
        self.label, self.group, self.output = label, group, output
        self.level = level
        self.max_calls, self.max_cost, self.seed = max_calls, max_cost, seed
        self.price, self.proposer_price = price, proposer_price
        self.max_demos, self.risk = max_demos, risk
        self.num_threads = num_threads
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

        Without a valset, trainset is split by document: one part teaches, the other chooses. The
        copy's `detailed_results` (a RankResult) say what was tried and why it was chosen.
        Raises TypeError for a program that cannot be tuned, ValueError for examples that lack
        something, give nothing to rank or stand in both sets, and what `tune()` raises.
        """
        began = time.monotonic()
        if teacher is not None:
            raise ValueError("RankOptimizer learns from people's labels and takes no teacher")
        if kwargs:
            raise TypeError(
                f"compile() takes no {next(iter(kwargs))!r}, but student, trainset and valset; how "
                "to search is said to RankOptimizer(...)"
            )
        task = student_of(student, self.output)
        print_line: Callable[[str], None] = (lambda text: None) if self.quiet else print_error
        train, dev, split = self._split(task, trainset, valset, print_line)
        judge = task.describe([*train.human, *dev.human])
        level = self._level(task, train)
        opened, settings = self._settings(task, student.predictors()[0])
        prepared = PreparedRun(
            settings=settings,
            subject=judge.subject,
            labels=_labels(train, dev, split),
            level=level,
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
                run = replace(run, own_scorer=task.scorer(run))
                result = run.search()
                summary = summarize(run, result, {}, time.monotonic() - began)
        compiled = (
            task.tuned(result.tuned.prompt(judge.prompt))
            if result.choice.ship
            else student.deepcopy()
        )
        compiled.detailed_results = RankResult(summary=summary, trials=trials.rows, search=result)
        return compiled

    def _split(
        self, task: Student, trainset: Any, valset: Any, print_line: Callable[[str], None]
    ) -> tuple[Items, Items, dict[str, Any]]:
        """What teaches, what chooses, and how they were parted."""
        rows = rows_of(trainset)
        group = self.group or group_field(rows)
        reader = ExampleReader(student=task, label=self.label, group=group)
        train = reader.read(rows, "train")
        if valset is not None:
            dev = reader.read(rows_of(valset), "val")
            refuse_repeated_ids([train, dev])
            refuse_overlap(train, dev, group)
            return train, dev, {"by": "valset"}
        refuse_repeated_ids([train])
        by = "document"
        if group is None:
            by = "row"
            print_line(
                "no example names its document, so trainset is split by row; where several rows "
                f"share one, say which field tells, as in group={task.text_names[0]!r}"
            )
        train, dev = split_by_document(train, self.seed)
        print_line(
            f"trainset split by {by}: {len(train)} examples teach, {len(dev)} choose "
            f"({len(train.documents)} and {len(dev.documents)} documents)"
        )
        return train, dev, {"by": by}

    def _level(self, task: Student, train: Items) -> Level:
        level: Any = "dataset" if task.is_choice else self.level or AUTO
        check_level(level, train, pairs=task.is_choice)
        return choose_level(train) if level == AUTO else level

    def _settings(self, task: Student, predictor: Any) -> tuple[dict[str, Model], Settings]:
        """The models that are open already, by their roles, and the run's settings."""
        lm = self.lm
        if lm is None:
            lm = predictor.lm or configured_lm()
            if lm is not None and self.api_base is not None:
                lm = lm.copy(api_base=self.api_base)
        opened: dict[str, Model] = {}
        named: dict[str, Any] = {}
        sources = {
            "": (lm or EMBEDDED, self.api_base),
            "proposer_": (self.proposer_lm, self.proposer_api_base),
        }
        for prefix, (source, api_base) in sources.items():
            named |= {f"{prefix}lm": source, f"{prefix}api_base": api_base}
            if isinstance(source, dspy.BaseLM):
                model = DspyModel(source)
                opened["proposer" if prefix else "judge"] = model
                named |= {f"{prefix}lm": model.name, f"{prefix}api_base": model.api_base}
        if "judge" in opened and self.proposer_lm is None:
            opened["proposer"] = opened["judge"]
        is_pairwise = isinstance(task.judge.subject, Comparison)
        named["pairwise" if is_pairwise else "dimension"] = task.judge.name
        threads = dspy.settings.num_threads if "judge" in opened else CONCURRENCY
        own = {
            "max_calls": self.max_calls,
            "max_cost": self.max_cost,
            "price": self.price,
            "proposer_price": self.proposer_price,
            "max_demos": self.max_demos,
            "risk": self.risk,
            "seed": self.seed,
            "concurrency": self.num_threads or threads,
            # A program keeps its fields, or what is saved of it could not be loaded into another.
            "reasoning": "none",
        }
        return opened, read_settings(named | own)


def _labels(train: Items, dev: Items, split: Mapping[str, Any]) -> Labels:
    """The examples as a run's labels: there is no test among them."""
    everything = Items((*train.items, *dev.items))
    rows = [[item.id, item.document_id, dict(item.texts), item.human] for item in everything.items]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return Labels(
        labelled=LabelledSet(name="trainset", sha256=digest, outputs=()),
        everything=everything,
        train=train,
        dev=dev,
        test=Items(()),
        unseen=None,
        split=split,
    )
