"""The gate: decide whether the tuned judge ships instead of the untuned judge.

The test uses every labelled document of train and dev, but no judge is tested on a document that it
learned from. If the tuned judge is no better, swapping the scores of the two judges on a document
is as likely to raise the gain as to lower it (`optimize.statistics.intervals`).

There are two kinds of change: finalists of the search, and judges that ask questions. For each
kind, the gain is averaged over its judges from both halves of the labels. The mean gain has a
smaller error than one judge's gain, and choosing the best judge cannot bias it. The test statistic
is the larger mean gain of the two kinds, also in each permutation.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Literal

import numpy as np

from dspy_judges.errors import option_name
from optimize.figures.as_json import figure_json
from optimize.search.candidates import Candidate
from optimize.search.power import MIN_UNTIED_DOCUMENTS, fewest_documents
from optimize.search.problem import DEFAULT_RISK, CandidateTrial, Goal, SearchProblem
from optimize.statistics.balanced import is_clearly_worse
from optimize.statistics.intervals import Contrast, Interval, random_generator

Change = Literal["finalists", "questions"]  # the two kinds of change
# The estimated gains of each kind of change: a list for each half of the labels.
GainsByChange = Mapping[Change, Sequence[Sequence[Contrast]]]
N_PERMUTATIONS = 2000  # drawn at random for the test
# This number widens the interval for dataset-level rho, because the permutation test ignores that
# ranks depend on the sample of documents. Without it, up to .136 of judges that are no better would
# ship at a risk of .10.
RANK_CORRECTION = 3
# A judge that costs n times as much as the untuned judge needs a gain of at least (n - 1) times
# this number: at 2.5 times the cost, a gain of .03.
GAIN_PER_EXTRA_COST = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTest:
    """A judge that asks questions, and the trials of such a judge on both halves of the labels.

    `trials` is empty if no questions were tested. Then `note` may give the reason, and
    `limit_reached` is true if the reason is a limit on calls or cost.
    """

    candidate: Candidate | None = None
    trials: tuple[CandidateTrial, ...] = ()
    note: str = ""
    limit_reached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The mean gain over the untuned judge of all tuned judges with one kind of change.

    A tuned judge passes the test if the interval lies above 0.
    """

    value: float
    interval: Interval
    n_documents: int
    change: Change = "finalists"


NO_GAIN = Gain(value=math.nan, interval=Interval(math.nan, math.nan), n_documents=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDecision:
    """Whether the tuned judge ships, and the reason in a sentence.

    `limit_reached` is true if a larger limit may change the decision, and `is_forced` if the tuned
    judge ships only because the user asked for it.
    """

    ships: bool
    reason: str
    gain: Gain = NO_GAIN
    limit_reached: bool = False
    is_forced: bool = False

    @property
    def why(self) -> str:
        """A sentence that says which judge ships, followed by the reason."""
        judge = "tuned judge" if self.ships else "untuned judge"
        if self.is_forced:
            judge += f", by {option_name('ship', 'tuned')}"
        return f"Shipped: the {judge}. {self.reason}"


def decide(
    problem: SearchProblem,
    trials_by_half: Sequence[Sequence[CandidateTrial]],
    n_tried: int,
    question_test: QuestionTest = QuestionTest(),
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge, and decide whether it ships.

    If questions have a larger gain than finalists, the tuned judge is the one that asks questions.
    Otherwise it is the finalist with the largest gain after a deduction for its cost.
    """
    gains_by_change: GainsByChange = {
        "finalists": [[trial.gain_estimate for trial in trials] for trials in trials_by_half],
        "questions": [[trial.gain_estimate] for trial in question_test.trials],
    }
    if not any(chain(*gains_by_change.values())):
        reason = f"No reliable candidate beat the untuned judge on train ({n_tried} tried)."
        return problem.untuned, ShipDecision(ships=False, reason=reason)
    risk, rng = problem.options.risk, random_generator(problem.options.seed, "gate")
    decision = decide_by_gain(gains_by_change, problem.goal, rng, risk)
    gain = decision.gain
    if question_test.candidate and (gain.change == "questions" or not any(trials_by_half)):
        tuned, trials = question_test.candidate, list(question_test.trials)
    else:
        trials = choose_best_trials(problem, chain(*trials_by_half))
        tuned = trials[-1].candidate
    if decision.ships and (objection := _objection(problem, tuned, trials)):
        advice_text = f"{option_name('ship', 'tuned')} ships the judge nevertheless."
        reason = f"Tuning passed the test, but {objection} {advice_text}"
        decision = replace(decision, ships=False, reason=reason)
    figures = {"figures": figure_json(gain), "n_documents": gain.n_documents, "risk": risk}
    problem.record("gate", None, candidate=tuned.id, **figures, ship=decision.ships)
    return tuned, decision


def _objection(
    problem: SearchProblem, tuned: Candidate, trials: Sequence[CandidateTrial]
) -> str | None:
    item_price, gain = problem.evaluator.item_price, mean_gain(trials)
    cost_ratio = item_price(tuned) / item_price(problem.untuned)
    required_gain = GAIN_PER_EXTRA_COST * (cost_ratio - 1)
    if gain < required_gain:
        return (
            f"the tuned judge costs {cost_ratio:.1f} times as much per row: its gain of {gain:.3f} "
            f"{metric_name(problem.goal)} is below the {required_gain:.3f} that this cost requires "
            f"({GAIN_PER_EXTRA_COST:g} for each further multiple of the untuned judge's cost)."
        )
    return rate_objection(trials) if problem.goal == "balanced" else None


def rate_objection(trials: Sequence[CandidateTrial]) -> str | None:
    """Return an objection if the tuned judge's TPR or TNR is clearly too low; else None.

    A rate is too low if it is below both rates of the untuned judge, and a sign test finds it below
    the untuned judge's same rate. The sign test uses the outputs on which the judges differ.
    """
    human = np.concatenate([trial.items.human for trial in trials])
    verdicts = np.hstack([(trial.scores, trial.reference_scores) for trial in trials])
    tuned_right, untuned_right = verdicts == human
    is_judged = ~np.isnan(verdicts).any(axis=0)
    masks = {"fails": is_judged & (human == 0), "passes": is_judged & (human == 1)}
    mask_by_label = {label: mask for label, mask in masks.items() if mask.any()}
    untuned_rates = {label: untuned_right[mask].mean() for label, mask in mask_by_label.items()}
    for label, mask in mask_by_label.items():
        n_worse = int((mask & untuned_right & ~tuned_right).sum())
        n_better = int((mask & tuned_right & ~untuned_right).sum())
        tuned_rate = tuned_right[mask].mean()
        if is_clearly_worse(n_worse, n_better) and tuned_rate < min(untuned_rates.values()):
            rate_texts = [f"{rate:.0%} of {name}" for name, rate in untuned_rates.items()]
            return (
                f"of {mask.sum()} {label}, {n_worse} are right only with the untuned judge, and "
                f"{n_better} only with the tuned judge. The tuned judge gets {tuned_rate:.0%} of "
                f"{label} right; the untuned judge gets {' and '.join(rate_texts)} right."
            )
    return None


def mean_gain(trials: Sequence[CandidateTrial]) -> float:
    """Return the mean gain of a judge over all documents that the judge was tested on."""
    document_counts = [len(trial.gain_estimate.documents) for trial in trials]
    gain_sums = [trial.gain * n for trial, n in zip(trials, document_counts, strict=True)]
    return sum(gain_sums) / sum(document_counts) if any(document_counts) else math.nan


def decide_by_gain(
    gains_by_change: GainsByChange, goal: Goal, rng: np.random.Generator, risk: float = DEFAULT_RISK
) -> ShipDecision:
    """Decide whether the tuned judge ships, by its gains over the untuned judge."""
    gain = largest_gain(gains_by_change, rng, risk)
    return ShipDecision(ships=gain.interval.low > 0, reason=_reason(gain, goal, risk), gain=gain)


def _reason(gain: Gain, goal: Goal, risk: float) -> str:
    n_needed = max(fewest_documents(risk), MIN_UNTIED_DOCUMENTS if goal == "dataset" else 0)
    subject_text = f"Cross-validated on {gain.n_documents} documents, tuned prompts"
    amount_text = f"the untuned judge by {abs(gain.value):.3f} {metric_name(goal)}"
    gain_text = f"{subject_text} beat {amount_text}. If tuning did nothing,"
    if gain.interval.low > 0:
        return f"{gain_text} {100 * risk:g}% of such runs would ship all the same."
    if gain.n_documents < n_needed or not math.isfinite(gain.interval.low):
        return (
            f"The documents ({gain.n_documents}) are too few, or their labels or scores too alike, "
            f"to compare the tuned with the untuned judge at {option_name('risk', f'{risk:g}')}: "
            f"labels and scores must differ in at least {n_needed} documents."
        )
    if abs(gain.value) < 0.0005:
        return f"{subject_text} are as good as the untuned judge ({metric_name(goal)})."
    if gain.value <= 0:
        return f"{subject_text} fall short of {amount_text}."
    return f"{gain_text} over {100 * risk:g}% of runs would show as much."


def metric_name(search_goal: Goal) -> str:
    return "balanced accuracy" if search_goal == "balanced" else f"{search_goal}-level rho"


def choose_best_trials(
    problem: SearchProblem, all_trials: Iterable[CandidateTrial]
) -> list[CandidateTrial]:
    """Return the trials of the candidate with the largest gain after a deduction for its cost.

    If any candidates beat the untuned judge, only these are compared. Two candidates are compared
    on items that both have scored, and whose documents no demonstration shows.
    """
    trials_by_id: dict[str, list[CandidateTrial]] = {}
    for trial in all_trials:
        trials_by_id.setdefault(trial.candidate.id, []).append(trial)
    trials_with_gain = [trials for trials in trials_by_id.values() if mean_gain(trials) > 0]
    best_trials, *other_trials = trials_with_gain or trials_by_id.values()
    evaluator, score = problem.evaluator, problem.scores_or_verdicts
    for trials in other_trials:
        candidate, best = trials[-1].candidate, best_trials[-1].candidate
        items = problem.train_and_dev
        for judge in (candidate, best):
            items = judge.unseen(evaluator.scored_items(judge, items))
        both_scores = score(candidate, items), score(best, items)
        trial = CandidateTrial(candidate, items, *both_scores, problem.goal)
        extra_price = evaluator.item_price(candidate) - evaluator.item_price(best)
        extra_cost = extra_price / evaluator.item_price(problem.untuned)
        if trial.gain_estimate.value > GAIN_PER_EXTRA_COST * extra_cost:
            best_trials = trials
    return best_trials


def largest_gain(
    gains_by_change: GainsByChange, rng: np.random.Generator, risk: float = DEFAULT_RISK
) -> Gain:
    """Return the mean gain of the better kind of change, weighting halves by their documents.

    The gain's interval lies above zero if the gain is larger than in a share 1 - `risk` of random
    permutations. The interval is infinite if there are too few documents.
    """
    # The first draw is not random: it swaps no judges, so it has the actual gains.
    gain_sums = {change: np.zeros(1 + N_PERMUTATIONS) for change in gains_by_change}
    n_documents, n_untied = defaultdict[Change, int](int), defaultdict[Change, float](float)
    for gains_of_half in zip_longest(*gains_by_change.values(), fillvalue=()):
        # A draw swaps the two judges on random documents, which are the same for both changes.
        documents = _document_ids(chain(*gains_of_half))
        signs = rng.choice([-1.0, 1.0], (N_PERMUTATIONS, len(documents)))
        signs = np.vstack([np.ones(len(documents)), signs])
        for change, all_estimates in zip(gains_by_change, gains_of_half, strict=True):
            estimates = [estimate for estimate in all_estimates if estimate.documents]
            if not estimates:
                continue
            gains_by_draw = [
                estimate.swapped(signs[:, np.searchsorted(documents, estimate.documents)])
                for estimate in estimates
            ]
            n_in_half = len(_document_ids(estimates))
            gain_sums[change] += n_in_half * np.mean(gains_by_draw, axis=0)
            n_documents[change] += n_in_half
            n_untied[change] += min(estimate.n_untied for estimate in estimates)
    if not n_documents:
        return NO_GAIN
    mean_gains = {change: gain_sums[change] / n for change, n in n_documents.items()}
    best_change = max(mean_gains, key=lambda change: float(mean_gains[change][0]))
    largest_gains, fewest_untied = np.max([*mean_gains.values()], axis=0), min(n_untied.values())
    value, n_tested, half_width = float(largest_gains[0]), n_documents[best_change], math.inf
    if n_tested > 1 and fewest_untied >= MIN_UNTIED_DOCUMENTS:
        # The half-width is the (1 - risk) quantile of the draws' gains. The factor 1 + 1e-9 keeps
        # a gain that equals the quantile from exceeding it by a rounding error.
        quantile = float(np.sort(largest_gains)[::-1][int(risk * len(largest_gains))])
        half_width = max(0.0, quantile) * (1 + 1e-9)
        # If the goal is not dataset-level rho, `n_untied` is infinite, and this factor is 1.
        half_width *= 1 + RANK_CORRECTION / (fewest_untied - RANK_CORRECTION)
    interval = Interval(value - half_width, value + half_width)
    return Gain(value=value, interval=interval, n_documents=n_tested, change=best_change)


def _document_ids(gain_estimates: Iterable[Contrast]) -> list[str]:
    return sorted(set[str]().union(*(estimate.documents for estimate in gain_estimates)))
