"""A race: compares candidates with the untuned judge by successive halving (arXiv:1502.07943).

A race scores all candidates on some documents and drops the worse half of the candidates. It scores
the remaining candidates on about twice as many documents, and so on.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from optimize.items import Items
from optimize.search.candidates import Candidate
from optimize.search.problem import CandidateTrial, SearchProblem, informative_documents
from optimize.statistics.intervals import random_generator

MAX_RACE_DOCUMENTS = 48  # documents of train on which candidates are compared
MIN_RACE_DOCUMENTS = 20  # on fewer, chance often decides; only races of fewer than 40 use fewer


def min_race_documents(n_documents: int) -> int:
    """Return how many of a race's documents a candidate is scored on before it can be dropped."""
    half_of_documents = min(MAX_RACE_DOCUMENTS, n_documents) // 2
    return max(1, min(MIN_RACE_DOCUMENTS, half_of_documents))


class Race:
    """A race of candidates against the untuned judge, on documents of train.

    `document_ids` are the informative documents in random order; a race on n documents uses the
    first n. No candidate is dropped before it is scored on `min_documents`.
    """

    def __init__(self, problem: SearchProblem) -> None:
        self.evaluator, self.goal = problem.evaluator, problem.goal
        self._untuned, train = problem.untuned, problem.train
        rng = random_generator(problem.options.seed, "order")
        shuffled_ids = [train.documents[index] for index in rng.permutation(len(train.documents))]
        self._items_of_document = {name: train.of_documents([name]).items for name in shuffled_ids}
        self.document_ids = informative_documents(self.items(shuffled_ids), self.goal)
        self.min_documents = min_race_documents(len(self.document_ids))

    def documents(self, candidate: Candidate, n_documents: int) -> list[str]:
        """Return the first `n_documents` that the candidate's demonstrations do not show."""
        shown_documents = candidate.demo_set.documents
        return [name for name in self.document_ids if name not in shown_documents][:n_documents]

    def items(self, documents: Iterable[str]) -> Items:
        return Items(tuple(item for name in documents for item in self._items_of_document[name]))

    def cost(self, candidates: Sequence[Candidate], n_documents: int) -> float:
        """Return the cost of scoring candidates, and the untuned judge on the same documents."""
        documents = [self.documents(candidate, n_documents) for candidate in candidates]
        untuned_documents = set().union(*documents) or self.document_ids[:n_documents]
        to_score = [*zip(candidates, documents, strict=True), (self._untuned, untuned_documents)]
        return sum(self.evaluator.cost(judge, self.items(names)) for judge, names in to_score)

    def max_affordable_documents(self, cost: Callable[[int], float], limit: float) -> int:
        """Return the largest number of documents whose cost, by `cost`, is within `limit`."""
        return max(0, bisect_right(range(len(self.document_ids) + 1), limit, key=cost) - 1)

    def affordable_entrants(self, candidates: Sequence[Candidate], limit: float) -> list[Candidate]:
        """Return the first candidates that can all be scored on `min_documents` within `limit`."""
        entrants = list(candidates)
        while entrants and self.cost(entrants, self.min_documents) > limit:
            entrants.pop()
        return entrants

    def compare(
        self, candidate: Candidate, n_documents: int, reference: Candidate | None = None
    ) -> CandidateTrial:
        """Compare a candidate with the reference judge (default: untuned) on `n_documents`."""
        items = self.items(self.documents(candidate, n_documents))
        scores = self.evaluator.scores(candidate, items)
        reference_scores = self.evaluator.scores(reference or self._untuned, items)
        return CandidateTrial(candidate, items, scores, reference_scores, self.goal)

    def run(self, candidates: Sequence[Candidate], limit: float) -> list[CandidateTrial]:
        """Race the candidates at a cost of at most `limit`, and return the trials, best first."""
        budget, entrants = self.evaluator.budget, self.affordable_entrants(candidates, limit)
        cost_at_limit, n_documents = budget.total_cost + limit, 0
        # Each candidate's last trial and its number of documents, by the candidate's id.
        last_trials: dict[str, tuple[int, CandidateTrial]] = {}
        while entrants:
            estimate_cost = partial(self._estimate_cost, entrants)
            remaining = cost_at_limit - budget.total_cost
            n_affordable = self.max_affordable_documents(estimate_cost, remaining)
            if max(n_affordable, self.min_documents) <= n_documents:
                break
            # If the limit does not pay for a whole race, it still pays for a first comparison.
            n_documents = max(n_affordable, self.min_documents)
            trials = [self.compare(candidate, n_documents) for candidate in entrants]
            last_trials |= {trial.candidate.id: (n_documents, trial) for trial in trials}
            trials.sort(key=lambda trial: (-trial.gain, trial.candidate.id))
            better_half = trials[: math.ceil(len(trials) / 2)]
            entrants = [trial.candidate for trial in better_half if trial.is_reliable]
        # Candidates that raced on more documents come first. Candidates with the same number may
        # differ in documents, because none is scored on documents that its demonstrations show. So
        # a lower bound of the gain sorts them, and not the gain itself.
        ranked_trials = sorted(
            last_trials.values(), key=lambda pair: (-pair[0], pair[1].standard_error - pair[1].gain)
        )
        return [trial for _, trial in ranked_trials]

    def _estimate_cost(self, candidates: Sequence[Candidate], n_documents: int) -> float:
        """Estimate the cost of a race that halves the candidates and doubles the documents."""
        cost = self.cost(candidates, n_documents)
        while len(candidates) > 1 and n_documents < len(self.document_ids):
            candidates = candidates[: math.ceil(len(candidates) / 2)]
            cost_of_scored = self.cost(candidates, n_documents)
            n_documents = min(2 * n_documents, len(self.document_ids))
            cost += self.cost(candidates, n_documents) - cost_of_scored
        return cost
