"""The cross-validation of a judge that shows all labels of train and dev as demonstrations.

Each fold of documents is scored by a version of the judge without demonstrations of this fold.
"""

from dataclasses import replace

import numpy as np

from optimize.items import Items
from optimize.search.candidates import DEMOS_OF_ALL_OUTPUTS, Candidate, DemoSet, draw_demo_set
from optimize.search.problem import SearchProblem
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.intervals import Vector, random_generator

N_FOLDS = 4  # of documents; one version of the judge is tested on each fold


def largest_demo_set(items: Items, problem: SearchProblem) -> DemoSet:
    """Draw as many demonstrations as the prompt may show, with all ratings equally often."""
    prompt, options = problem.evaluator.untuned_prompt, problem.options
    rng = random_generator(options.seed, DEMOS_OF_ALL_OUTPUTS)
    max_characters = options.max_demo_characters
    return draw_demo_set(items, prompt, options.max_demos, rng, max_characters=max_characters)


class CrossValidation:
    """The cross-validation of the judge that has the demonstrations `demo_set`."""

    def __init__(self, problem: SearchProblem) -> None:
        self._problem = problem
        documents = problem.train_and_dev.documents
        rng = random_generator(problem.options.seed, "parts", "documents")
        shuffled_documents = [documents[index] for index in rng.permutation(len(documents))]
        self._fold_by_document = {name: i % N_FOLDS for i, name in enumerate(shuffled_documents)}
        self.demo_set = largest_demo_set(problem.train_and_dev, problem)
        shows_everything = self.demo_set.selection == DEMOS_OF_ALL_OUTPUTS
        self.is_feasible = shows_everything and len(documents) >= 2 * N_FOLDS

    def _demo_set_without(self, fold: int) -> DemoSet:
        names = [name for name, other_fold in self._fold_by_document.items() if other_fold != fold]
        return largest_demo_set(self._problem.train_and_dev.of_documents(names), self._problem)

    def judge(self, candidate: Candidate, items: Items) -> tuple[Candidate, Vector]:
        """Return the candidate with a learned threshold, and its scores or verdicts."""
        evaluator = self._problem.evaluator
        folds = np.array([self._fold_by_document[name] for name in items.document_ids])
        scores = np.empty(len(items))
        for fold in range(N_FOLDS):
            version = candidate
            if candidate.demo_set.demos:
                version = replace(candidate, demo_set=self._demo_set_without(fold))
            items_in_fold = items.of_rows(np.flatnonzero(folds == fold))
            scores[folds == fold] = evaluator.scores(version, items_in_fold)
        if self._problem.goal != "balanced":
            return candidate, scores
        # The verdicts on a fold are decided by a threshold that is learned on all other folds.
        fold_verdicts = np.empty(len(items))
        for fold in range(N_FOLDS):
            is_outside = folds != fold
            threshold = best_threshold(scores[is_outside], items.human[is_outside])
            fold_verdicts[~is_outside] = verdicts(scores[~is_outside], threshold)
        return replace(candidate, threshold=best_threshold(scores, items.human)), fold_verdicts
