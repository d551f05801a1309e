"""`SearchProblem`, which an optimizer solves: the labels, the goal, the models and the options."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import Literal

import numpy as np

from judges.client import Client
from judges.prompt import Field, Reasoning
from optimize.figures.as_json import to_json
from optimize.items import Items
from optimize.search.candidates import Candidate, word_run_hashes
from optimize.search.evaluator import Evaluator
from optimize.statistics import balanced
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level, correlation
from optimize.statistics.intervals import Contrast, Vector

# The metric that a search maximises: Spearman's rho at one of the three levels ("summary",
# "dataset" or "system"), or balanced accuracy over all outputs.
Goal = Level | Literal["balanced"]
N_PROPOSALS = 4  # instructions that the proposer is asked for in a round, by default
# The default of --risk: the chance that a tuned judge ships although it is no better.
DEFAULT_RISK = 0.1
# A judge that gives no score for more than this share of the outputs is not measured, does not
# join a panel and does not ship.
MAX_FAILED_SHARE = 0.1
# For each document with the rarer label, at most this many with the commoner label are judged. To
# judge more would lower the standard error of balanced accuracy by 6 % at most.
MAX_COMMONER_PER_RARER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of a search, most of which are upper bounds.

    The proposer is asked for `n_proposals` instructions in a round. All demonstrations in a prompt
    have at most `max_demo_characters`. Judging one item costs at most `max_item_price`. `reasoning`
    has the forms of reasoning to try besides the untuned judge's.
    """

    seed: int = 0
    max_rounds: int = 8
    n_proposals: int = N_PROPOSALS
    max_demos: int = 16
    max_demo_characters: int = 40_000
    max_item_price: float = math.inf
    reasoning: tuple[Reasoning, ...] = ()
    risk: float = DEFAULT_RISK


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """The problem that an optimizer solves: find a prompt that judges outputs as people do.

    The optimizer learns from `train`, and its finalists are tested on `dev`. `proposer` is the
    language model that writes instructions. Candidates may ask `questions`, of which the first are
    the most promising. If `may_add_questions` is false, only the untuned judge's may be asked.
    """

    evaluator: Evaluator
    proposer: Client | None = None
    questions: tuple[Field, ...] = ()
    may_add_questions: bool = True
    train: Items
    dev: Items
    goal: Goal
    options: SearchOptions = field(default_factory=SearchOptions)
    add_record: Callable[..., object] = lambda stage, round_number, **fields: None
    print_line: Callable[[str], object] = lambda line: None

    def with_threshold(self, candidate: Candidate, items: Items) -> Candidate:
        """Learn the candidate's threshold from the items if the goal is balanced accuracy."""
        if self.goal != "balanced":
            return candidate
        items = self.evaluator.scored_items(candidate, items)
        threshold = balanced.best_threshold(self.evaluator.scores(candidate, items), items.human)
        return replace(candidate, threshold=threshold)

    def scores_or_verdicts(self, candidate: Candidate, items: Items) -> Vector:
        """Return the candidate's scores; if the goal is balanced accuracy, its verdicts."""
        scores = self.evaluator.scores(candidate, items)
        return balanced.verdicts(scores, candidate.threshold) if self.goal == "balanced" else scores

    @cached_property
    def untuned(self) -> Candidate:
        return Candidate(instruction=self.evaluator.untuned_prompt.instruction)

    @cached_property
    def train_and_dev(self) -> Items:
        return self.train + self.dev

    @cached_property
    def text_hashes(self) -> set[int]:
        """The hashes of all word runs in labelled texts; no instruction may have such a run."""
        texts = chain.from_iterable(item.texts.values() for item in self.train_and_dev)
        return set(chain.from_iterable(map(word_run_hashes, set(texts))))

    def record(self, stage: str, round_number: int | None = None, **fields: object) -> None:
        """Add a line to trials.jsonl, with the number of calls so far."""
        self.add_record(stage, round_number, **fields, calls=self.evaluator.budget.n_calls)

    def record_candidate(
        self, stage: str, candidate: Candidate, round_number: int | None = None, **figures: float
    ) -> None:
        """Record a candidate with its figures. NaN and infinity are recorded as null."""
        self.record(
            stage,
            round_number,
            candidate=candidate.id,
            instruction=candidate.instruction,
            demos=[item.id for item in candidate.demo_set.items],
            how=candidate.demo_set.selection,
            reasoning=candidate.reasoning,
            questions=[field.name for field in candidate.questions or ()],
            **to_json(figures),
        )


def informative_documents(items: Items, search_goal: Goal) -> tuple[str, ...]:
    """Return the ids of the documents that can tell judges apart; all ids if there are none.

    At summary level, these are the documents whose outputs have different labels. For balanced
    accuracy, if every document has a single label, passes and fails alternate in the result, and
    at most twice as many documents have the commoner label as the rarer label.
    """
    labels_by_id = {name: items.human[rows] for name, rows in items.rows_by_document.items()}
    varied_ids = tuple(name for name, labels in labels_by_id.items() if np.ptp(labels) > 0)
    if search_goal == "summary":
        return varied_ids or items.documents
    if search_goal != "balanced" or varied_ids:
        return items.documents
    failed_ids = [name for name, labels in labels_by_id.items() if labels[0] < 0.5]
    passed_ids = [name for name, labels in labels_by_id.items() if labels[0] >= 0.5]
    rarer_ids, commoner_ids = sorted([failed_ids, passed_ids], key=len)
    commoner_ids = commoner_ids[: MAX_COMMONER_PER_RARER * len(rarer_ids)]
    alternating_ids = zip_longest(rarer_ids, commoner_ids)
    return tuple(filter(None, chain.from_iterable(alternating_ids))) or items.documents


def first_documents(
    items: Items, search_goal: Goal, limit: float, cost: Callable[[Items], float]
) -> Items:
    """Return the items of the first documents that `limit` pays for, at least one document.

    Documents that can tell judges apart come first.
    """
    documents = list(dict.fromkeys((*informative_documents(items, search_goal), *items.documents)))
    costs = np.cumsum([cost(items.of_documents([name])) for name in documents])
    return items.of_documents(documents[: max(1, int((costs <= limit).sum()))])


def objective(scores: Vector, items: Items, search_goal: Goal) -> float:
    """Return rho at the goal's level, or balanced accuracy; NaN if the metric is undefined.

    For balanced accuracy, scores become verdicts by the threshold that is best on these same items.
    This flatters the judge, so this function is for train only.
    """
    if search_goal == "balanced":
        return balanced.balanced_accuracy(_best_verdicts(scores, items), items.human)
    both_ids = items.document_ids, items.system_ids
    return correlation(search_goal, scores, items.human, *both_ids).value


@dataclass(frozen=True)
class CandidateTrial:
    """The scores of a candidate and of a reference judge on the same items.

    The reference judge is usually the untuned judge. The scores are verdicts, which are 1 or 0, if
    the judges' thresholds were learned on other items.
    """

    candidate: Candidate
    items: Items
    scores: Vector
    reference_scores: Vector
    goal: Goal

    @cached_property
    def gain_estimate(self) -> Contrast:
        """The candidate's objective minus the reference judge's, on items that both judged."""
        items, both_scores = self.items, (self.scores, self.reference_scores)
        human, document_ids = items.human, items.document_ids
        if self.goal == "balanced":
            tuned, reference = (_best_verdicts(scores, items) for scores in both_scores)
            return balanced.contrast_balanced_accuracy(tuned, reference, human, document_ids)
        return contrast_judges(*both_scores, human, document_ids, items.system_ids, level=self.goal)

    @cached_property
    def objective_value(self) -> float:
        return objective(self.scores, self.items, self.goal)

    @property
    def gain(self) -> float:
        return self.gain_estimate.value if self.gain_estimate.documents else 0.0

    @property
    def standard_error(self) -> float:
        return self.gain_estimate.error

    @property
    def n_documents(self) -> int:
        return len(self.items.documents)

    def record(self, problem: SearchProblem, stage: str, round_number: int | None = None) -> None:
        figures = {"value": self.objective_value, "gain": self.gain_estimate.value}
        figures |= {"error": self.standard_error, "n_documents": self.n_documents}
        problem.record_candidate(stage, self.candidate, round_number, **figures)

    @property
    def is_reliable(self) -> bool:
        """Whether the candidate scored nearly all outputs, or as many as the reference judge."""
        n_failed, n_reference_failed = np.isnan([self.scores, self.reference_scores]).sum(axis=1)
        return bool(n_failed <= max(MAX_FAILED_SHARE * len(self.scores), n_reference_failed))


def _best_verdicts(scores: Vector, items: Items) -> Vector:
    return balanced.verdicts(scores, balanced.best_threshold(scores, items.human))
