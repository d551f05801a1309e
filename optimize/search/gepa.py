"""GEPA, the reflective optimizer that DSPy has too, on the search's own objective.

To it an example is a document. What it evaluates together is scored together: documents get scores
whose mean is the objective of them all. It proposes by its own reflection on lessons from judged
documents; what that asks is counted in the search's budget at what it took.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import gepa
import numpy as np
from gepa.core.adapter import EvaluationBatch

from dspy_judges.errors import JudgesError
from judges.client import BudgetSpentError, FatalModelError, Message, Request, Sampling
from judges.judgement import NoScoreError
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import (
    Goal,
    SearchBudgetSpentError,
    SearchProblem,
    informative_documents,
    objective,
)
from optimize.search.gate import N_FINALISTS, Exploration
from optimize.search.lessons import JudgedItems
from optimize.search.proposer import REPLY_TOKENS, read_instruction, whole_text
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.correlations import document_terms, midranks, read_rows
from optimize.statistics.intervals import stream

# A proposal is made from, and first tried on, at least so many documents and about so many outputs:
# the objective of fewer says little.
FEWEST_DOCUMENTS, FEWEST_OUTPUTS = 6, 30
# Requests of two runs' proposers are drawn with seeds so far apart.
PROPOSER_SEED = 10_000
# Replies in a row that brought no new instruction: GEPA would ask without end.
MOST_FRUITLESS = 25
# The name of the only text that GEPA writes.
INSTRUCTION = "instruction"


class Adapter:
    """What GEPA asks: for judgements of documents, for instructions, for documents to learn from.

    `values` has the objective on the documents that choose, for each candidate judged on all of
    them; `ended` is what ended the proposals, which GEPA takes for one bad reply.
    """

    propose_new_texts = None  # GEPA's own prompt

    def __init__(self, problem: SearchProblem, choosing: Sequence[str], n_parts: int) -> None:
        self.problem, self.choosing, self.n_parts = problem, set(choosing), n_parts
        self.values: dict[Candidate, float] = {}
        self.tried: set[str] = set()
        self.ended: JudgesError | None = None
        self.n_asked = self.n_fruitless = 0

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:
        """One of the parts into which the documents that teach are dealt, anew for each epoch."""
        epoch, part = divmod(state.i, self.n_parts)
        order = stream(self.problem.options.seed, "minibatches", epoch).permutation(len(loader))
        return [int(index) for index in np.array_split(order, self.n_parts)[part]]

    def evaluate(
        self, batch: Sequence[str], texts: Mapping[str, str], capture_traces: bool = False
    ) -> Any:
        """The documents' scores, in order; raises SearchBudgetSpentError."""
        candidate, problem = Candidate(instruction=texts[INSTRUCTION]), self.problem
        items = problem.train.of_documents(batch)
        scores = problem.evaluator.scores(candidate, items)
        if candidate.id not in self.tried:
            self.tried.add(candidate.id)
            self.n_fruitless = 0
        if self.choosing == set(batch) and candidate not in self.values:
            value = self.values[candidate] = objective(scores, items, problem.goal)
            problem.record_candidate("stock", candidate, value=value)
        of_document = document_scores(scores, items, problem.goal)
        # Reflection is on all documents together.
        return EvaluationBatch(
            outputs=list(batch),
            scores=[of_document[name] for name in batch],
            trajectories=[items] * len(batch) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, texts: Mapping[str, str], evaluated: Any, components: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """A lesson on the documents, which GEPA puts into its prompt."""
        items: Items = evaluated.trajectories[0]
        problem, evaluator, goal = self.problem, self.problem.evaluator, self.problem.goal
        judgements = evaluator.judgements(Candidate(instruction=texts[INSTRUCTION]), items)
        rng = stream(problem.options.seed, "lesson", self.n_asked)
        (lesson,) = JudgedItems(items, judgements, evaluator.untuned).lessons([rng])
        measure = "balanced accuracy" if goal == "balanced" else f"Spearman's rho, {goal} level"
        score = f"{np.mean(evaluated.scores):.2f} (1 is best): {measure} on {len(items)} outputs"
        return {INSTRUCTION: [{"Score": score, "Evidence": lesson}]}

    def reflect(self, prompt: str) -> str:
        """The instruction that the proposer writes, in the fence that GEPA reads."""
        assert self.problem.proposer is not None
        if self.ended is not None:
            raise self.ended
        budget = self.problem.evaluator.budget
        seed = PROPOSER_SEED * (1 + self.problem.options.seed) + self.n_asked
        self.n_asked, self.n_fruitless = self.n_asked + 1, self.n_fruitless + 1
        request = Request(
            [Message(role="user", content=prompt)],
            Sampling(temperature=1.0, max_tokens=REPLY_TOKENS, seed=seed),
            lambda reply: read_instruction(whole_text(reply)),
        )
        try:
            budget.check(budget.proposal)
            response = self.problem.proposer.ask(request)
        except (SearchBudgetSpentError, BudgetSpentError, FatalModelError) as error:
            self.ended = error
            raise
        budget.charge_proposal(response.tokens_in, response.tokens_out)
        if response.error is not None:
            raise NoScoreError(response.error)
        return f"```\n{response.values[0]}\n```"


def document_scores(scores: Vector, items: Items, goal: Goal) -> dict[str, float]:
    """What each document adds to the objective, which is their mean; 0 where that is undefined.

    At summary level it is the document's own rho. At dataset level an output adds 1 less half its
    squared distance in standardised mid-ranks, and for balanced accuracy what a right verdict of
    its class is worth. Where no document's part can be told, all have the whole.
    """
    value = float(np.nan_to_num(objective(scores, items, goal)))
    known = np.flatnonzero(~np.isnan(scores))
    judged, human = scores[known], items.human[known]
    if goal == "summary":
        names = np.array(items.document_ids)[known]
        terms = document_terms(read_rows(judged, human, names), goal)
        own = dict(zip(np.unique(names).tolist(), terms.tolist(), strict=True))
        parts = [value if np.isnan(own.get(name, np.nan)) else own[name] for name in items.places]
    elif goal == "system" or not known.size or min(np.ptp(judged), np.ptp(human)) == 0:
        parts = [value] * len(items.places)
    else:
        added = np.zeros(len(items))
        if goal == "balanced":
            is_right = verdicts(judged, best_threshold(judged, human)) == human
            added[known] = is_right / np.where(human == 1, human.mean(), 1 - human.mean()) / 2
        else:
            ranks = midranks(np.array([judged, human]))
            ranks -= ranks.mean(axis=1, keepdims=True)
            ranks /= ranks.std(axis=1, keepdims=True)
            added[known] = 1 - (ranks[0] - ranks[1]) ** 2 / 2
        added *= len(items.places) / known.size
        parts = [float(added[rows].sum()) for rows in items.places.values()]
    return dict(zip(items.places, parts, strict=True))


def explore(problem: SearchProblem) -> Exploration:
    """Run GEPA on train: proposals from one half of its documents, chosen by the other.

    Dev gets its share of the budget first. Raises JudgesError where no language model can write
    instructions.
    """
    if problem.proposer is None:
        raise JudgesError(
            "GEPA writes instructions, for which it needs a language model: name one (--lm), or "
            "use --optimizer rank"
        )
    evaluator, budget = problem.evaluator, problem.evaluator.budget
    documents = list(informative_documents(problem.train, problem.goal))
    if n_alike := len(problem.train.documents) - len(documents):
        problem.print_line(
            f"GEPA: {n_alike} documents tell no judges apart, or have too common a label"
        )
    stream(problem.options.seed, "stock").shuffle(documents)
    half = len(documents) // 2
    teaching, choosing = documents[:half], documents[half:]
    each = len(problem.train) / max(1, len(problem.train.documents))
    n_parts = max(1, half // max(FEWEST_DOCUMENTS, round(FEWEST_OUTPUTS / each)))
    adapter = Adapter(problem, choosing, n_parts)
    # What the next proposal takes until it is chosen or not.
    item_cost = evaluator.item_cost(problem.untuned)
    cost = budget.proposal + (half / n_parts + len(choosing)) * each * item_cost
    dev_cost = (1 + N_FINALISTS) * item_cost * len(problem.dev)
    spent = SearchBudgetSpentError, BudgetSpentError
    with budget.reserving(min(dev_cost, budget.left / 2)), suppress(*spent):
        if half:
            gepa.optimize(
                seed_candidate={INSTRUCTION: problem.untuned.instruction},
                trainset=teaching,
                valset=choosing,
                adapter=adapter,
                batch_sampler=adapter,
                reflection_lm=adapter.reflect,
                skip_perfect_score=False,
                stop_callbacks=lambda state: (
                    adapter.ended is not None
                    or adapter.n_fruitless >= MOST_FRUITLESS
                    or budget.left < cost
                ),
                logger=SimpleNamespace(log=lambda message: None),
                seed=problem.options.seed,
            )
    if isinstance(adapter.ended, FatalModelError):
        raise adapter.ended
    values = adapter.values
    better = [each for each, value in values.items() if value > values[problem.untuned]]
    return Exploration(
        finalists=sorted(better, key=lambda each: (-values[each], each.id))[:N_FINALISTS],
        tried=adapter.tried,
    )
