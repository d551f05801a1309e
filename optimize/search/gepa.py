"""The optimizer "gepa" runs the package gepa, which DSPy also offers, on the search's objective.

Each document is one example for GEPA. The documents of a batch get scores whose mean is the
objective over the whole batch. GEPA asks the proposer for instructions with evidence on judged
documents, and the search's budget pays for these requests.
"""

from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from types import SimpleNamespace

import gepa
import numpy as np
from gepa.core.adapter import EvaluationBatch
from gepa.core.state import GEPAState

from dspy_judges.errors import JudgesError
from judges.judgement import NoScoreError
from judges.protocol import FatalModelError, Message, Request, Sampling
from optimize.items import Items
from optimize.search.budget import BUDGET_ERRORS
from optimize.search.candidates import Candidate
from optimize.search.evidence import write_evidence
from optimize.search.optimizer import MAX_FINALISTS, Exploration
from optimize.search.problem import Goal, SearchProblem, informative_documents, objective
from optimize.search.proposer import MAX_PROPOSAL_TOKENS, read_instruction, whole_text
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.coefficients import midranks
from optimize.statistics.correlations import rho_contributions
from optimize.statistics.intervals import Vector, random_generator
from optimize.statistics.rows import scored_rows

# GEPA writes a proposal from a minibatch of documents, and scores the proposal on the minibatch.
# With fewer documents or outputs than these in a minibatch, the objective would be too noisy.
MIN_MINIBATCH_DOCUMENTS, MIN_MINIBATCH_OUTPUTS = 6, 30
PROPOSER_SEED_STEP = 10_000  # more than the requests of a run, so that two runs share no seed
MAX_FRUITLESS_REPLIES = 25  # in a row without a new instruction; then the search ends
INSTRUCTION_NAME = "instruction"  # GEPA's name for the only text that it tunes


class GepaAdapter:
    """The adapter through which GEPA scores documents, draws minibatches and asks the proposer.

    GEPA learns from `learning_documents`. It selects candidates by `selection_values`, which are
    their objectives on `selection_documents`. A `fatal_error` ends the search, unlike in GEPA.
    """

    propose_new_texts = None  # None: GEPA uses its own prompt for proposals

    def __init__(self, problem: SearchProblem) -> None:
        self.problem, train = problem, problem.train
        documents = list(informative_documents(train, problem.goal))
        random_generator(problem.options.seed, "stock").shuffle(documents)
        n_learning_documents = len(documents) // 2
        self.learning_documents = documents[:n_learning_documents]
        self.selection_documents = documents[n_learning_documents:]
        outputs_per_document = len(train) / max(1, len(train.documents))
        n_for_outputs = round(MIN_MINIBATCH_OUTPUTS / outputs_per_document)
        minibatch_size = max(MIN_MINIBATCH_DOCUMENTS, n_for_outputs)
        self.n_minibatches = max(1, n_learning_documents // minibatch_size)
        # `proposal_cost` includes scoring the proposal on a minibatch and `selection_documents`.
        n_documents = n_learning_documents / self.n_minibatches + len(self.selection_documents)
        n_outputs, evaluator = n_documents * outputs_per_document, problem.evaluator
        scoring_cost = n_outputs * evaluator.item_cost(problem.untuned)
        self.proposal_cost = evaluator.budget.proposal_cost + scoring_cost
        self.selection_values: dict[Candidate, float] = {}
        self.candidate_ids: set[str] = set()
        self.fatal_error: JudgesError | None = None
        self.n_requests = self.n_fruitless = 0

    def is_finished(self, state: GEPAState) -> bool:
        """Return whether GEPA must stop: by a fatal error, fruitless replies or a spent budget."""
        is_fruitless = self.n_fruitless >= MAX_FRUITLESS_REPLIES
        is_spent = self.problem.evaluator.budget.remaining < self.proposal_cost
        return self.fatal_error is not None or is_fruitless or is_spent

    def next_minibatch_ids(self, loader: Sized, state: GEPAState) -> list[int]:
        """Return the indices of the next minibatch; each epoch shuffles the documents anew."""
        epoch, batch_number = divmod(state.i, self.n_minibatches)
        rng = random_generator(self.problem.options.seed, "minibatches", epoch)
        minibatches = np.array_split(rng.permutation(len(loader)), self.n_minibatches)
        return [int(index) for index in minibatches[batch_number]]

    def evaluate(
        self, batch: Sequence[str], texts: Mapping[str, str], capture_traces: bool = False
    ) -> EvaluationBatch:
        problem = self.problem
        candidate = Candidate(instruction=texts[INSTRUCTION_NAME])
        items = problem.train.of_documents(batch)
        scores = problem.evaluator.scores(candidate, items)
        if candidate.id not in self.candidate_ids:
            self.candidate_ids.add(candidate.id)
            self.n_fruitless = 0
        is_selection = set(self.selection_documents) == set(batch)
        if is_selection and candidate not in self.selection_values:
            value = self.selection_values[candidate] = objective(scores, items, problem.goal)
            problem.record_candidate("stock", candidate, value=value)
        score_by_document = document_scores(scores, items, problem.goal)
        # GEPA passes trajectories on to `make_reflective_dataset`, which needs all items.
        return EvaluationBatch(
            outputs=list(batch),
            scores=[score_by_document[name] for name in batch],
            trajectories=[items] * len(batch) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, texts: Mapping[str, str], evaluation: EvaluationBatch, components: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """Write the evidence on the documents of an evaluation, for GEPA's prompt."""
        items: Items = evaluation.trajectories[0]
        problem, goal = self.problem, self.problem.goal
        candidate = Candidate(instruction=texts[INSTRUCTION_NAME])
        rng = random_generator(problem.options.seed, "lesson", self.n_requests)
        (evidence_text,) = write_evidence(problem.evaluator, candidate, items, [rng])
        metric = "balanced accuracy" if goal == "balanced" else f"Spearman's rho, {goal} level"
        score = f"{np.mean(evaluation.scores):.2f} (1 is best): {metric} on {len(items)} outputs"
        return {INSTRUCTION_NAME: [{"Score": score, "Evidence": evidence_text}]}

    def reflect(self, prompt: str) -> str:
        """Ask the proposer for an instruction, and return it in a code block, as GEPA expects."""
        assert self.problem.proposer is not None
        if self.fatal_error is not None:
            raise self.fatal_error
        budget = self.problem.evaluator.budget
        seed = PROPOSER_SEED_STEP * (1 + self.problem.options.seed) + self.n_requests
        self.n_requests, self.n_fruitless = self.n_requests + 1, self.n_fruitless + 1
        request = Request(
            [Message(role="user", content=prompt)],
            Sampling(temperature=1.0, max_tokens=MAX_PROPOSAL_TOKENS, seed=seed),
            lambda reply: read_instruction(whole_text(reply)),
        )
        try:
            budget.check_cost(budget.proposal_cost)
            response = self.problem.proposer.ask(request)
        except (*BUDGET_ERRORS, FatalModelError) as error:
            self.fatal_error = error
            raise
        budget.charge_proposal(response.tokens_in, response.tokens_out)
        if response.failure is not None:
            raise NoScoreError(response.failure)
        return f"```\n{response.values[0]}\n```"


def document_scores(scores: Vector, items: Items, search_goal: Goal) -> dict[str, float]:
    """Return a score for each document, by its id, so that the mean score is the objective.

    At summary level, the score is the rho within the document. At dataset level, the score is a sum
    over outputs of 1 minus half the squared difference of standardised mid-ranks. For balanced
    accuracy, the score is a sum of weights of right verdicts. At system level, and where the score
    is undefined, a document gets the objective over all items, or 0 if that is undefined, too.
    """
    objective_value = float(np.nan_to_num(objective(scores, items, search_goal)))
    score_by_document = dict.fromkeys(items.documents, objective_value)
    judged_rows = np.flatnonzero(~np.isnan(scores))
    judge, human = scores[judged_rows], items.human[judged_rows]
    if search_goal == "summary":
        document_ids = np.array(items.document_ids)[judged_rows]
        rhos = rho_contributions(scored_rows(judge, human, document_ids), search_goal)
        rho_by_document = zip(np.unique(document_ids).tolist(), rhos.tolist(), strict=True)
        return score_by_document | {name: rho for name, rho in rho_by_document if not np.isnan(rho)}
    if search_goal == "system" or not judged_rows.size or min(np.ptp(judge), np.ptp(human)) == 0:
        return score_by_document
    contributions = np.zeros(len(items))
    if search_goal == "balanced":
        is_right = verdicts(judge, best_threshold(judge, human)) == human
        label_shares = np.where(human == 1, human.mean(), 1 - human.mean())
        contributions[judged_rows] = is_right / label_shares / 2
    else:
        ranks = midranks(np.array([judge, human]))
        ranks -= ranks.mean(axis=1, keepdims=True)
        ranks /= ranks.std(axis=1, keepdims=True)
        contributions[judged_rows] = 1 - (ranks[0] - ranks[1]) ** 2 / 2
    contributions *= len(items.documents) / judged_rows.size
    return {name: float(contributions[rows].sum()) for name, rows in items.rows_by_document.items()}


def explore(problem: SearchProblem) -> Exploration:
    """Run GEPA, which learns from half of train, and selects candidates by the other half."""
    adapter = GepaAdapter(problem)
    n_used = len(adapter.learning_documents) + len(adapter.selection_documents)
    if n_left_out := len(problem.train.documents) - n_used:
        reason = "because they cannot tell judges apart or because their label is too common"
        problem.print_line(f"GEPA leaves out {n_left_out} documents, {reason}")
    with suppress(*BUDGET_ERRORS):
        if adapter.learning_documents:
            gepa.optimize(
                seed_candidate={INSTRUCTION_NAME: problem.untuned.instruction},
                trainset=adapter.learning_documents,
                valset=adapter.selection_documents,
                adapter=adapter,
                batch_sampler=adapter,
                reflection_lm=adapter.reflect,
                skip_perfect_score=False,
                stop_callbacks=adapter.is_finished,
                logger=SimpleNamespace(log=lambda message: None),
                seed=problem.options.seed,
            )
    if isinstance(adapter.fatal_error, FatalModelError):
        raise adapter.fatal_error
    values, untuned = adapter.selection_values, problem.untuned
    finalists = [candidate for candidate in values if values[candidate] > values[untuned]]
    finalists.sort(key=lambda candidate: (-values[candidate], candidate.id))
    return Exploration(finalists=finalists[:MAX_FINALISTS], candidate_ids=adapter.candidate_ids)
