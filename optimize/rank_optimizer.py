"""RankOptimizer: tune any DSPy program with one predictor, by the search that tunes judges.

The search sets the instruction and the demonstrations of the program's predictor
(`optimize.tuning.program`).
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import dspy
import numpy as np
from dspy.teleprompt import Teleprompter

from dspy_judges.errors import SettingsError, arguments_in_messages
from judges.client import configured_lm, open_lm
from judges.judge import Judge
from judges.labels.types import LabelError, LabelledSet
from judges.protocol import Model
from judges.tables.atomic_write import exclusive_lock
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject
from optimize.figures.by_judge import HeldOut
from optimize.items import Items
from optimize.measuring.tuning_result import TuningResult
from optimize.report.tuning import tuning_lines
from optimize.search.optimizer import Optimizer, optimizer_name
from optimize.search.problem import DEFAULT_RISK
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import random_generator
from optimize.tuning.active_run import ActiveRun
from optimize.tuning.budget import plan_budget
from optimize.tuning.models import open_clients
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.program import Example, UserProgram, as_dimension_name
from optimize.tuning.program_answer import ProgramError as ProgramError
from optimize.tuning.results import summarize_run
from optimize.tuning.settings import Settings, read_settings

# The default names of the field of an example that identifies its document.
GROUP_FIELDS = ("document_id", "group")
MIN_TRAINSET_DOCUMENTS = 10  # so that each half can test the other


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RankResult:
    """How a program was tuned. Printing the result shows a report.

    The report has no figures on a test split, because all examples are used to tune.

    Attributes:
        result: The figures of the run, and the decision which program was returned.
        trials: The trials of the search, in order.
    """

    result: TuningResult
    trials: Sequence[JsonObject]

    @property
    def summary(self) -> JsonObject:
        """The object that `tune()` would write to summary.json."""
        return self.result.to_json()

    def __repr__(self) -> str:
        return "\n".join(tuning_lines(self.result))


class RankOptimizer(Teleprompter):  # type: ignore[misc]
    """Tune a program that rates or chooses, so that it ranks outputs as people do.

    The program is any dspy.Module with one predictor. The predictor's output is a rating (an int, a
    float or a Literal of numbers) or one of two labels. If the output is a Score, a Noul or a
    Choice, the probabilities of the ratings or labels are used. Examples are dspy.Examples or
    dicts.

    Further outputs of these types, except int and float, count as questions. The tuned program
    still asks these questions; if the program has weights for its answers, its score is the
    weighted sum of all answers. A program with questions gets no new demonstrations, because the
    examples do not have answers to the questions.

    Args:
        metric: Must be None: programs are compared by how well they rank outputs as people do.
        lm: The program's model: a name, a dspy.LM or a dspy.experimental.TypeSafe. By default the
            predictor's own LM, else the LM that DSPy is configured with, else the embedded model.
        proposer_lm: The model that writes instructions. By default `lm`, unless `lm` is a decision
            model, which cannot write text.
        label: The field of the examples that holds people's rating. By default "human", or the name
            of the program's output if the first example has no "human".
        group: The field of the examples that identifies the document. The field may hold the
            document's text, as in group="document". By default "document_id" or "group".
        output: The output that people rated, if several outputs are ratings or choices. If the
            program was made by `judge.program()`, the default is the judge's answer.
        level: The level of rho: "summary", "dataset" or "system". "auto" chooses by the examples.
        max_calls: Upper bound on the number of calls to both models together.
        max_cost: Upper bound on the cost of both models together, in US dollars.
        price: The price of `lm`, if the price is not known from the model's name: US dollars per
            million input tokens and per million output tokens.
        proposer_price: The price of `proposer_lm`, in the form of `price`.
        max_demos: Upper bound on the number of demonstrations in a prompt.
        optimizer: "rank", "gepa", or an optimizer function; see `optimize.search.optimizer`.
        risk: The accepted chance that a tuned program is returned although it is no better.
        num_threads: Upper bound on the number of requests in flight.
        seed: The seed for splitting the examples and for the search.
        folder: A folder that keeps every reply, so that the same compilation is not paid for twice.
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
        proposer_price: tuple[float, float] | None = None,
        max_demos: int | None = None,
        optimizer: str | Optimizer = "rank",
        risk: float = DEFAULT_RISK,
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
        self.settings: dict[str, object] = {
            "max_calls": max_calls,
            "max_cost": max_cost,
            "price": price,
            "proposer_price": proposer_price,
            "max_demos": max_demos,
            "level": level,
            "risk": risk,
            "seed": seed,
            "optimizer": optimizer_name(optimizer),
            "concurrency": num_threads,
        }

    @arguments_in_messages(concurrency="num_threads")
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
            LabelError: An example lacks a field or has a wrong label, or the examples have too few
                documents or too few different ratings.
            JudgesError: Any error that `tune()` raises.
        """
        examples = [*trainset, *(valset or ())]
        start_time = time.monotonic()
        program = UserProgram(student, self.output)
        print_line: Callable[[str], None] = (lambda text: None) if self.quiet else print_error
        all_items, train, dev = self._split_examples(program, examples, print_line)
        settings, opened_models = self._settings_and_models(program)
        subject, untuned_prompt = program.describe_judge(all_items)
        prepared_run = PreparedRun(
            settings=settings,
            subject=subject,
            untuned_prompt=untuned_prompt,
            has_dataset_level_only=program.rated_answer.is_choice,
            labelled_items=LabelledSet(name="trainset", sha256="", outputs=()),
            all_items=all_items,
            train=train,
            dev=dev,
            held_out=HeldOut(Items(())),
        )
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(self.folder or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(folder), open_clients(settings, folder, opened_models) as clients:
                judge_items = program.make_item_judge(clients, settings)
                budget = plan_budget(prepared_run, clients.judge.model.native_n)
                run = ActiveRun(
                    budget, folder, clients, judge_items, print_line, may_add_questions=False
                )
                search_result = run.search()
                seconds = time.monotonic() - start_time
                tuning_result = summarize_run(run, search_result, None, seconds)
        candidate = search_result.judges.for_judge(search_result.shipped)
        threshold = candidate.threshold if prepared_run.goal == "balanced" else None
        prompt = candidate.prompt(untuned_prompt)
        tuned_program = program.tuned_copy(prompt, candidate.weights, threshold)
        tuned_program.detailed_results = RankResult(result=tuning_result, trials=run.trials.rows)
        return tuned_program

    def _split_examples(
        self, program: UserProgram, examples: list[Example], print_line: Callable[[str], None]
    ) -> tuple[Items, Items, Items]:
        """Read the examples as items; return all items, and the items of each half of documents."""
        group_field = self.group or None
        if group_field is None and examples:
            group_field = next((name for name in GROUP_FIELDS if name in examples[0]), None)
        all_items = program.read_examples(examples, self.label, group_field)
        documents = all_items.documents
        if len(documents) < MIN_TRAINSET_DOCUMENTS:
            raise LabelError(
                f"the examples have {len(documents)} documents; at least "
                f"{MIN_TRAINSET_DOCUMENTS} are needed"
            )
        if group_field is None:
            print_line(
                "no example names its document, so trainset is split by row; if rows share a "
                f"document, name the field that has it, as in group={program.input_names[0]!r}"
            )
        indices = random_generator(self.seed, "split").permutation(len(documents))
        shuffled_documents = [documents[index] for index in indices]
        n_train = len(documents) // 2
        train = all_items.of_documents(shuffled_documents[:n_train])
        dev = all_items.of_documents(shuffled_documents[n_train:])
        for items in (train, dev):
            if np.ptp(items.human) == 0:
                raise LabelError(
                    f"half of the examples are all rated {items.human[0]:g}, so there is nothing "
                    "to rank: give more examples, or another seed"
                )
        return all_items, train, dev

    def _settings_and_models(self, program: UserProgram) -> tuple[Settings, dict[str, Model]]:
        """Return the settings of the run, and by role the models that were given as dspy.LMs."""
        # The search adds no field for reasoning, because a program with new fields could not load
        # states that were saved before.
        dimension = as_dimension_name(program.rated_answer.name)
        settings: dict[str, object] = {"dimension": dimension, "reasoning": "none"}
        settings |= self.settings
        if not program.takes_demos:
            settings["max_demos"] = 0
        judge_lm = self.lm or program.predictor.lm or configured_lm()
        source_judge = getattr(program.module, "source_judge", None)  # `Judge.program` sets it
        if judge_lm is None and isinstance(source_judge, Judge):
            source_judge.check_destination()
            judge_lm, settings["api_base"] = source_judge.lm, source_judge.api_base
        opened_models: dict[str, Model] = {}
        given_lms = ("judge", "", judge_lm), ("proposer", "proposer_", self.proposer_lm)
        for role, setting_prefix, lm in given_lms:
            if not isinstance(lm, str | None):
                opened_models[role], settings[f"{setting_prefix}api_base"] = open_lm(lm)
                lm = opened_models[role].name
            settings[f"{setting_prefix}lm"] = lm
        run_settings = read_settings(settings)
        if "judge" in opened_models and run_settings.proposer_model.lm == run_settings.lm:
            opened_models.setdefault("proposer", opened_models["judge"])
        program.check_decisions(run_settings.lm)
        return run_settings, opened_models
