"""RankOptimizer: the rank search as a DSPy teleprompter."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from data.tables.atomic_write import in_use
from judges.dimension import Comparison, Dimension, Subject
from judges.judge import Judge
from judges.modules import demos_of
from optimize.items import Item, Items
from optimize.run.models import instruction_proposer, make_item_scorer, open_models
from optimize.run.settings import Settings
from optimize.search.evaluator import Evaluator, SearchBudget
from optimize.search.objective import Level, choose_level
from optimize.search.optimizers import search
from optimize.search.problem import SearchOptions, SearchProblem
from optimize.search.trial_log import TrialLog

DEFAULT_CALLS = 8_000


class RankOptimizer(Teleprompter):  # type: ignore[misc]
    """Tunes a RatingJudge or PairwiseJudge so that it ranks as people do.

    `lm`, `api_base`, `proposer_lm` and `proposer_api_base` are as on the command line; without
    `lm`, the name and the address of DSPy's configured model, or the embedded one. `folder` keeps
    every reply, so that compiling again costs nothing.
    """

    def __init__(
        self,
        *,
        lm: str | None = None,
        api_base: str | None = None,
        proposer_lm: str | None = None,
        proposer_api_base: str | None = None,
        level: Level | None = None,
        max_calls: int = DEFAULT_CALLS,
        max_cost: float | None = None,
        seed: int = 0,
        folder: Path | str | None = None,
    ) -> None:
        super().__init__()
        self.lm, self.api_base = lm, api_base
        self.proposer_lm, self.proposer_api_base = proposer_lm, proposer_api_base
        self.level = level
        self.max_calls, self.max_cost, self.seed = max_calls, max_cost, seed
        self.folder = folder

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: Sequence[Any],
        valset: Sequence[Any],
        teacher: dspy.Module | None = None,
    ) -> dspy.Module:
        """Return a tuned copy, or an unchanged one where the gate keeps the seed.

        Examples hold the texts the judge reads, `human` (a mean rating, or a vote margin in
        [-1, 1]), and `document_id`; `system` and `id` help. The copy's `found` says what was
        tried and why it was chosen, its `trials` are the record.
        Raises TypeError for another program than a judge, and ValueError for examples that lack
        something or give nothing to rank.
        """
        if teacher is not None:
            raise ValueError("RankOptimizer learns from people's labels and takes no teacher")
        subject = judged_by(student)
        judge = Judge.from_program(student, subject, lm=self._model()[0])
        train = read_examples(trainset, judge, "train")
        dev = read_examples(valset, judge, "val")
        level: Level = self.level or choose_level(train)
        if isinstance(subject, Comparison):
            level = "dataset"
        settings = Settings(
            dimension=judge.name,
            lm=judge.lm,
            api_base=self._model()[1],
            proposer_lm=self.proposer_lm,
            proposer_api_base=self.proposer_api_base,
            max_calls=self.max_calls,
            max_cost=self.max_cost,
            seed=self.seed,
        )
        log = TrialLog()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(self.folder or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with in_use(folder), open_models(settings, folder) as models:
                evaluator = Evaluator(
                    seed=judge.prompt,
                    judge=make_item_scorer(judge, models, self.seed, log.count_judgement),
                    calls_per_item=models.calls_per_item(judge),
                    budget=SearchBudget(
                        self.max_calls, lambda calls: models.budget.set_aside(calls)
                    ),
                )
                problem = SearchProblem(
                    evaluator=evaluator,
                    propose=instruction_proposer(judge, models, self.seed),
                    train=train,
                    dev=dev,
                    level=level,
                    options=SearchOptions(seed=self.seed),
                    log=log,
                )
                result = search("rank", problem)
        compiled = student.deepcopy()
        if result.choice.ship:
            tuned = result.tuned.prompt(judge.prompt)
            predictor = compiled.predictors()[0]
            predictor.signature = predictor.signature.with_instructions(tuned.instruction)
            predictor.demos = demos_of(tuned)
        compiled.found, compiled.trials = result, log.trials
        return compiled

    def _model(self) -> tuple[str, str | None]:
        """Its name and address."""
        configured = dspy.settings.lm
        if self.lm or configured is None:
            return self.lm or "embedded", self.api_base
        return str(configured.model), self.api_base or configured.kwargs.get("api_base")


def judged_by(student: object) -> Subject:
    """What a judge module judges; TypeError for any other program."""
    subject = getattr(student, "dimension", None) or getattr(student, "comparison", None)
    if not isinstance(subject, Dimension | Comparison):
        raise TypeError(
            "RankOptimizer tunes a judges.RatingJudge or judges.PairwiseJudge, such as "
            f"judges.load('relevance').program(); not {type(student).__name__}"
        )
    return subject


def read_examples(examples: Sequence[Any], judge: Judge, split: str) -> Items:
    """DSPy examples as items; ValueError names the first that lacks something."""
    if not examples:
        raise ValueError(
            f"{split}set is empty: trainset teaches, valset chooses, and each needs examples of "
            "documents of its own"
        )
    items = []
    for number, example in enumerate(examples):
        missing = [name for name in (*judge.texts, "human") if example.get(name) is None]
        if missing:
            raise ValueError(
                f"{split} example {number} has no {missing[0]!r}; an example has "
                f"{', '.join(judge.texts)} and human (a rating, or a margin in [-1, 1])"
            )
        human = example["human"]
        if isinstance(human, str) or not math.isfinite(human):
            raise ValueError(f"{split} example {number} has human {human!r}, no finite number")
        name = example.get("id")
        document = example.get("document_id")
        items.append(
            Item(
                id=f"{split}-{number}" if name is None else str(name),
                document_id=f"{split}-{number}" if document is None else str(document),
                system=example.get("system"),
                texts={text: str(example[text]) for text in judge.texts},
                human=float(human),
            )
        )
    if len({item.human for item in items}) == 1:
        raise ValueError(
            f"{split}set: human is {items[0].human:g} in every example, so nothing is ranked"
        )
    return Items(tuple(items))
