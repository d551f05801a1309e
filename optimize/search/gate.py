"""The gate: decide whether the tuned judge ships in place of the untuned one.

The test uses every labelled document of train and dev, but never tests a judge on a document that
it learned from. So a search runs twice: on train, tested on dev, and on dev, tested on train.
(For a judge that shows all labels, versions are tested that each leave out a fold of documents.)
If the judges that a search finds are no better than the untuned judge, then swapping the two judges
on a document is as likely to raise the gain as to lower it. The permutation test rests on that
(`optimize.statistics.intervals`).

One test decides about the mean gain of the finalists of both halves. This mean is more certain than
the gain of any one finalist, and it involves no choice among them. Judges that ask questions are a
second kind of change. If both kinds are tested, the larger of their two mean gains is compared with
the larger of the two in each permutation.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from optimize.figures.as_json import figure_json
from optimize.inputs.flags import RISK
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Goal, SearchProblem, contrast, is_reliable, objective
from optimize.search.power import FEWEST_UNTIED, fewest_documents
from optimize.statistics.balanced import is_clearly_worse, verdicts
from optimize.statistics.intervals import Contrast, Interval, IntervalEstimate, stream

# Contrasts of judges with the untuned judge, for one kind of change: a list for each half.
Contrasts = Sequence[Sequence[Contrast]]
SWAPS = 2000
# A correction for dataset-level rho: its ranks depend on the sample of documents, and swaps ignore
# that. Without the correction, up to .136 of judges that are no better ship at a risk of .10.
RANK_CORRECTION = 3
# The gain that a judge needs for each further multiple of the untuned judge's price: a judge that
# costs 2.5 times as much needs a gain of .03.
GAIN_FOR_COST = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A candidate and the untuned judge, scored on items that the candidate did not learn from.

    Attributes:
        candidate: The candidate.
        items: The items.
        scores: The candidate's scores; for balanced accuracy, its verdicts.
        untuned: The untuned judge's scores or verdicts.
    """

    candidate: Candidate
    items: Items
    scores: Vector
    untuned: Vector

    @property
    def is_reliable(self) -> bool:
        return is_reliable(self.scores, self.untuned)

    def gain(self, goal: Goal) -> Contrast:
        return contrast(self.scores, self.untuned, self.items, goal)

    def record(self, problem: SearchProblem, stage: str) -> None:
        gain = self.gain(problem.goal)
        problem.record_candidate(
            stage,
            self.candidate,
            value=objective(self.scores, self.items, problem.goal),
            gain=gain.value,
            error=gain.error,
            n_documents=len(self.items.documents),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTest:
    """A judge that asks questions, and its tests on both halves of the labels.

    `candidate` has the useful questions and weights from all labels. `finalists` are scored by
    questions and weights that their documents did not teach.
    """

    candidate: Candidate
    finalists: tuple[Finalist, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The gain of a tuned judge over the untuned one, with an interval.

    The interval lies above zero exactly if the test is passed. `kind` is the index, among the kinds
    of change that were tested, of the one with the largest gain.
    """

    value: float
    low: float
    high: float
    n_documents: int
    kind: int = 0

    @property
    def is_clear(self) -> bool:
        return self.low > 0


NO_GAIN = Gain(value=math.nan, low=math.nan, high=math.nan, n_documents=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDecision:
    """Whether the tuned judge ships, and the reason in a sentence.

    `limit_reached` is true if a larger limit may change the decision, and `is_forced` if the tuned
    judge ships only because the user asked for it.
    """

    ship: bool
    reason: str
    gain: Gain = NO_GAIN
    limit_reached: bool = False
    is_forced: bool = False

    @property
    def why(self) -> str:
        """A sentence on which judge ships, followed by the reason."""
        judge = "tuned" if self.ship else "untuned"
        return f"Shipped: the {judge} judge{', by --ship tuned' * self.is_forced}. {self.reason}"


def decide(
    problem: SearchProblem,
    halves: Sequence[Sequence[Finalist]],
    n_tried: int,
    out_of_budget: ShipDecision | None = None,
    questions: QuestionTest | None = None,
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge among the finalists of both halves, and decide whether it ships.

    The tuned judge is the one that asks questions if that kind of change gains most, else the
    finalist whose gain is worth most for its cost. It ships if the test is passed and there is no
    `_objection`.

    Args:
        problem: The search problem.
        halves: The finalists that were tested on each half; those that fail too often are ignored.
        n_tried: How many candidates the search has tried.
        out_of_budget: The decision if the budget prevented the test of the finalists and no
            questions were tested; None if the finalists were tested.
        questions: The test of a judge that asks questions, if there was one.

    Returns:
        The tuned judge and the decision.
    """
    reliable = [[each for each in half if each.is_reliable] for half in halves]
    with_questions = [[each] for each in questions.finalists] if questions else []
    if out_of_budget and not with_questions:
        finalists = list(chain(*reliable))
        return (worth_most(problem, finalists) if finalists else problem.untuned), out_of_budget
    kinds = [kind for kind in ([] if out_of_budget else reliable, with_questions) if any(kind)]
    if not kinds:
        return problem.untuned, ShipDecision(ship=False, reason=_no_finalist(halves, n_tried))
    rng, risk = stream(problem.options.seed, "gate"), problem.options.risk
    gains = [[[each.gain(problem.goal) for each in half] for half in kind] for kind in kinds]
    decision = decision_on(gains, problem.goal, rng, risk)
    best = kinds[decision.gain.kind]
    tuned, tests = _choose_tuned(
        problem, list(chain(*best)), questions if best is with_questions else None
    )
    decision = _apply_objection(problem, decision, tuned, tests)
    gain = decision.gain
    problem.record(
        "gate",
        candidate=tuned.id,
        figures=figure_json(IntervalEstimate(gain.value, Interval(gain.low, gain.high))),
        n_documents=gain.n_documents,
        risk=risk,
        ship=decision.ship,
    )
    return tuned, decision


def _choose_tuned(
    problem: SearchProblem, tests: Sequence[Finalist], questions: QuestionTest | None
) -> tuple[Candidate, Sequence[Finalist]]:
    """The tuned judge, with the tests of this very judge."""
    if questions:
        return questions.candidate, tests
    tuned = worth_most(problem, tests)
    return tuned, [each for each in tests if each.candidate.id == tuned.id]


def _apply_objection(
    problem: SearchProblem, decision: ShipDecision, tuned: Candidate, tests: Sequence[Finalist]
) -> ShipDecision:
    """The decision, reversed if the tuned judge would ship but there is an objection to it."""
    if not decision.ship or not (objection := _objection(problem, tuned, tests)):
        return decision
    reason = f"Tuning passed the test, but {objection} --ship tuned ships it all the same."
    return replace(decision, ship=False, reason=reason)


def _objection(problem: SearchProblem, tuned: Candidate, tests: Sequence[Finalist]) -> str | None:
    """The reason why a judge that passed the test should not ship; None if there is none.

    Its gain may be too small for its cost, or it may be clearly worse on fails or on passes.
    """
    item_cost, gain = problem.evaluator.item_cost, mean_gain(tests, problem.goal)
    ratio = item_cost(tuned) / item_cost(problem.untuned)
    required = GAIN_FOR_COST * (ratio - 1)
    if gain >= required:
        return rate_objection(tests) if problem.goal == "balanced" else None
    return (
        f"the tuned judge costs {ratio:.1f} times as much a row: its gain of {gain:.3f} "
        f"{figure_of(problem.goal)} is below the {required:.3f} that this cost requires "
        f"({GAIN_FOR_COST:g} for each further multiple of the untuned judge's cost)."
    )


def rate_objection(tests: Sequence[Finalist]) -> str | None:
    """The reason why a higher balanced accuracy hides a clearly worse rate; None if it does not.

    A judge may gain balanced accuracy although it gets fewer of the fails, or fewer of the passes,
    right. That is allowed unless the rate falls clearly (by a sign test on the outputs on which the
    judges differ) and below the lower of the untuned judge's two rates.
    """
    human = np.concatenate([each.items.human for each in tests])
    tuned, untuned = np.hstack([(each.scores, each.untuned) for each in tests])
    right, untuned_right, has_both = tuned == human, untuned == human, ~np.isnan(tuned + untuned)
    classes = {"fails": has_both & (human == 0), "passes": has_both & (human == 1)}
    lower = min(float(untuned_right[rows].mean()) for rows in classes.values() if rows.any())
    for word, rows in classes.items():
        n_worse = int((rows & untuned_right & ~right).sum())
        n_better = int((rows & right & ~untuned_right).sum())
        if is_clearly_worse(n_worse, n_better) and right[rows].mean() < lower:
            return (
                f"of {rows.sum()} {word} the tuned judge gets {n_worse} wrong that the untuned "
                f"judge gets right, and {n_better} the other way round: it would get "
                f"{right[rows].mean():.0%} of {word} right, less than either rate of the untuned "
                "judge."
            )
    return None


def mean_gain(finalists: Sequence[Finalist], goal: Goal) -> float:
    """The mean gain of a judge over all documents that it was tested on."""
    gains = [each.gain(goal) for each in finalists]
    n = sum(len(gain.documents) for gain in gains)
    return sum(gain.value * len(gain.documents) for gain in gains) / n if n else math.nan


def decision_on(
    kinds: Sequence[Contrasts], goal: Goal, rng: np.random.Generator, risk: float = RISK
) -> ShipDecision:
    """Decide whether the tuned judges beat the untuned one on documents that they did not see.

    `kinds` has the contrasts of each kind of change. `risk` is the chance, in (0, 1), that a judge
    ships although no judge is better than the untuned one.
    """
    gain = gain_of(kinds, rng, risk)
    n_needed = max(fewest_documents(risk), FEWEST_UNTIED if goal == "dataset" else 0)
    prompts = f"Cross-validated on {gain.n_documents} documents, tuned prompts"
    amount = f"{abs(gain.value):.3f} {figure_of(goal)}"
    if gain.is_clear:
        reason = (
            f"{prompts} beat the untuned judge by {amount}. If tuning did nothing, "
            f"{100 * risk:g}% of such runs would ship all the same."
        )
    elif np.isnan(gain.value) or gain.n_documents < n_needed:
        documents = "document is" if gain.n_documents == 1 else "documents are"
        reason = (
            f"{gain.n_documents} {documents} too few to compare it with the tuned judge at "
            f"--risk {risk:g}; at least {n_needed} are needed."
        )
    elif np.isinf(gain.low):
        reason = (
            "Labels or scores are too alike to compare it with the tuned judge: at least "
            f"{FEWEST_UNTIED} of the {gain.n_documents} documents must have another label than the "
            "commonest, and get another score. Label more documents that deserve the rarer labels."
        )
    elif gain.value <= 0:
        reason = f"{prompts} fall short of the untuned judge by {amount}."
    else:
        reason = (
            f"{prompts} beat the untuned judge by {amount}. If tuning did nothing, over "
            f"{100 * risk:g}% of runs would show as much."
        )
    return ShipDecision(ship=gain.is_clear, reason=reason, gain=gain)


def figure_of(goal: Goal) -> str:
    """The name of the figure that the goal maximises."""
    return "balanced accuracy" if goal == "balanced" else f"{goal}-level rho"


def worth_most(problem: SearchProblem, finalists: Sequence[Finalist]) -> Candidate:
    """The candidate whose figure is highest after a deduction for its cost (`GAIN_FOR_COST`).

    If any candidate beats the untuned judge, only candidates that do are compared. Two candidates
    are compared on the items that both have scored and neither has among its demonstrations.
    """
    tests: dict[str, list[Finalist]] = {}
    for finalist in finalists:
        tests.setdefault(finalist.candidate.id, []).append(finalist)
    with_gain = [test for test in tests.values() if mean_gain(test, problem.goal) > 0]
    best, *rest = (test[-1].candidate for test in with_gain or tests.values())
    for candidate in rest:
        if _is_worth_more(problem, candidate, best):
            best = candidate
    return best


def _is_worth_more(problem: SearchProblem, candidate: Candidate, best: Candidate) -> bool:
    evaluator = problem.evaluator
    items = evaluator.scored_items(candidate, evaluator.scored_items(best, problem.labelled))
    items = items.of_documents({*items.documents} - candidate.documents - best.documents)
    scores, base = (evaluator.scores_so_far(judge, items) for judge in (candidate, best))
    if problem.goal == "balanced":
        scores, base = verdicts(scores, candidate.threshold), verdicts(base, best.threshold)
    extra_cost = evaluator.item_cost(candidate) - evaluator.item_cost(best)
    required = GAIN_FOR_COST * extra_cost / evaluator.item_cost(problem.untuned)
    return contrast(scores, base, items, problem.goal).value > required


def _no_finalist(halves: Sequence[Sequence[Finalist]], n_tried: int) -> str:
    """A sentence on why there is no finalist to test."""
    if not n_tried:
        return "No candidate could be tried."
    failure_rates = [float(np.isnan(each.scores).mean()) for each in chain(*halves)]
    if failure_rates:
        return f"Every finalist fails on {min(failure_rates):.0%} of the outputs or more."
    return f"None of {n_tried} candidates did better on train."


def gain_of(kinds: Sequence[Contrasts], rng: np.random.Generator, risk: float = RISK) -> Gain:
    """The mean gain of the kind of change that gains most, with an interval.

    The gain on a half is the mean of its contrasts, and halves are weighted by their documents. The
    interval lies above zero if fewer than `risk` of the random swaps reach the gain. It is infinite
    for fewer than two documents, and for dataset-level rho on too few untied documents.
    """
    # The sum of each kind's gains over its documents, of shape (draws, kinds). In the first draw no
    # judges are swapped.
    sums, sizes = np.zeros((1 + SWAPS, len(kinds))), np.zeros(len(kinds))
    untied = np.zeros(len(kinds))
    for half in zip_longest(*kinds, fillvalue=()):
        defined = [[each for each in contrasts if each.documents] for contrasts in half]
        # A swap on a document swaps the judges for every kind of change at once.
        documents = _documents(chain(*defined))
        signs = rng.choice([-1.0, 1.0], (SWAPS, len(documents)))
        signs = np.vstack([np.ones(len(documents)), signs])
        for kind, contrasts in enumerate(defined):
            n = len(_documents(contrasts))
            columns = [np.searchsorted(documents, each.documents) for each in contrasts]
            pairs = zip(contrasts, columns, strict=True)
            gains = [n * each.swapped(signs[:, indices]) for each, indices in pairs]
            sums[:, kind] += np.mean(gains, axis=0) if n else 0
            untied[kind] += min((each.n_untied for each in contrasts), default=0)
            sizes[kind] += n
    tested = np.flatnonzero(sizes)
    if not tested.size:
        return NO_GAIN
    means = sums[:, tested] / sizes[tested]
    best, draws = tested[means[0].argmax()], means.max(axis=1)
    value, n, half_width = float(draws[0]), int(sizes[best]), math.inf
    n_untied = float(untied[tested].min())
    if n > 1 and n_untied >= FEWEST_UNTIED:
        # Slightly enlarged, so that rounding does not let the gain exceed a draw that equals it. At
        # a risk of .5 the draw is about 0 and may be negative.
        half_width = max(0.0, float(np.sort(draws)[::-1][int(risk * len(draws))])) * (1 + 1e-9)
        half_width *= 1 + RANK_CORRECTION / (n_untied - RANK_CORRECTION)
    low, high = value - half_width, value + half_width
    return Gain(value=value, low=low, high=high, n_documents=n, kind=int(best))


def _documents(contrasts: Iterable[Contrast]) -> list[str]:
    """The documents of all these contrasts, sorted."""
    return sorted({name for each in contrasts for name in each.documents})
