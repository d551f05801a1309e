"""A race: compares candidates with the untuned judge by successive halving (arXiv:1502.07943).

A race repeatedly drops the worse half of the candidates and scores the others on about twice as
many documents.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from optimize.items import Items
from optimize.search.candidates import Candidate
from optimize.search.problem import CandidateTrial, SearchProblem, informative_documents
from optimize.statistics.intervals import Vector, random_generator

# Upper bound on the documents of train on which candidates are compared.
MAX_RACE_DOCUMENTS = 48
# No candidate is dropped before it is scored on this many documents, or on half of all documents if
# that is fewer.
MIN_RACE_DOCUMENTS = 20


class Race:
    """A race of candidates against the untuned judge, on documents of train.

    `document_ids` are the informative documents in random order; a race on n documents uses the
    first n. A candidate may be dropped only after `min_documents`.
    """

    def __init__(self, search_problem: SearchProblem) -> None:
        self.evaluator, self.goal, self._untuned = (
            search_problem.evaluator,
            search_problem.goal,
            search_problem.untuned,
        )
        train, ids = search_problem.train, search_problem.train.documents
        order = random_generator(search_problem.options.seed, "order").permutation(len(ids))
        shuffled_ids = [ids[index] for index in order]
        self._items_of_document = {name: train.of_documents([name]).items for name in shuffled_ids}
        self.document_ids = informative_documents(self.items(shuffled_ids), self.goal)
        half_of_documents = min(MAX_RACE_DOCUMENTS, len(self.document_ids)) // 2
        self.min_documents = max(1, min(MIN_RACE_DOCUMENTS, half_of_documents))

    def documents(self, candidate: Candidate, size: int) -> list[str]:
        """Return the first `size` documents that the candidate's demonstrations do not show."""
        shown_documents = candidate.demo_set.documents
        return [name for name in self.document_ids if name not in shown_documents][:size]

    def items(self, documents: Iterable[str]) -> Items:
        return Items(tuple(item for name in documents for item in self._items_of_document[name]))

    def scores(self, candidate: Candidate, size: int) -> tuple[Items, Vector]:
        """Score a candidate on `size` documents; return the items with the scores."""
        items = self.items(self.documents(candidate, size))
        return items, self.evaluator.scores(candidate, items)

    def cost(self, candidates: Sequence[Candidate], size: int) -> float:
        """Return the cost of scoring the candidates, each on `size` documents.

        The documents are not in the candidate's demonstrations. The untuned judge is scored on the
        documents of all candidates.
        """
        documents = [self.documents(candidate, size) for candidate in candidates]
        untuned_documents = set().union(*documents) or self.document_ids[:size]
        judges = [*zip(candidates, documents, strict=True), (self._untuned, untuned_documents)]
        return sum(self.evaluator.cost(judge, self.items(names)) for judge, names in judges)

    def max_affordable_size(self, cost: Callable[[int], float], limit: float) -> int:
        """Return the largest number of documents that `limit` pays for; `cost` grows with it."""
        return max(0, bisect_right(range(len(self.document_ids) + 1), limit, key=cost) - 1)

    def affordable_entrants(self, candidates: Sequence[Candidate], limit: float) -> list[Candidate]:
        """Return the first candidates, as many as `limit` pays for on `min_documents` documents."""
        entrants = list(candidates)
        while entrants and self.cost(entrants, self.min_documents) > limit:
            entrants.pop()
        return entrants

    def compare(
        self, candidate: Candidate, size: int, base: Candidate | None = None
    ) -> CandidateTrial:
        """Compare a candidate with the judge `base` (default: untuned) on `size` documents."""
        items, scores = self.scores(candidate, size)
        reference_scores = self.evaluator.scores(base or self._untuned, items)
        return CandidateTrial(candidate, items, scores, reference_scores, self.goal)

    def run(self, candidates: Sequence[Candidate], limit: float) -> list[CandidateTrial]:
        """Race the candidates at a cost of at most `limit`, and return the trials, best first."""
        budget, entrants = self.evaluator.budget, self.affordable_entrants(candidates, limit)
        cost_at_limit, n_documents = budget.total_cost + limit, 0
        latest_trials: dict[str, tuple[int, CandidateTrial]] = {}
        while entrants:
            remaining = cost_at_limit - budget.total_cost
            size = self.max_affordable_size(partial(self._estimate_cost, entrants), remaining)
            # The first comparison may spend most of the limit, but it scores every entrant.
            size = max(size, self.min_documents)
            if size <= n_documents:
                break
            n_documents = size
            trials = [self.compare(candidate, size) for candidate in entrants]
            latest_trials |= {trial.candidate.id: (size, trial) for trial in trials}
            trials.sort(key=lambda trial: (-trial.gain, trial.candidate.id))
            better_half = trials[: math.ceil(len(trials) / 2)]
            entrants = [trial.candidate for trial in better_half if trial.is_reliable]
        # Sort by the number of documents, and then by the gain minus its standard error, because
        # even candidates with the same number of documents may have different documents.
        by_size = sorted(
            latest_trials.values(),
            key=lambda pair: (-pair[0], pair[1].standard_error - pair[1].gain),
        )
        return [trial for _, trial in by_size]

    def _estimate_cost(self, candidates: Sequence[Candidate], size: int) -> float:
        """Estimate the cost of a race that starts on `size` documents and doubles the number."""
        cost = self.cost(candidates, size)
        while len(candidates) > 1 and size < len(self.document_ids):
            candidates = candidates[: math.ceil(len(candidates) / 2)]
            earlier_cost = self.cost(candidates, size)
            size = min(2 * size, len(self.document_ids))
            cost += self.cost(candidates, size) - earlier_cost
        return cost
