"""The gate: decide whether the tuned judge ships instead of the untuned judge.

The test uses every labelled document of train and dev, but no judge is tested on a document that it
learned from. If the search finds no better judge, swapping the two judges on a document is as
likely to raise the gain as to lower it (`optimize.statistics.intervals`).

A single test decides about the mean gain of all finalists of both halves. The mean has a smaller
error than a single gain, and no selection biases it. Judges that ask questions are a second kind of
change. The test statistic is the larger of the two mean gains, also in each permutation.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from dspy_judges.errors import option_name
from optimize.figures.as_json import figure_json
from optimize.inputs.flags import DEFAULT_RISK
from optimize.search.candidates import Candidate
from optimize.search.power import MIN_UNTIED_DOCUMENTS, fewest_documents
from optimize.search.problem import CandidateTrial, Goal, SearchProblem, estimate_gain
from optimize.statistics.balanced import is_clearly_worse
from optimize.statistics.intervals import Contrast, Interval, IntervalEstimate, random_generator

# The contrasts of trials, for one kind of change: a list for each half.
HalfContrasts = Sequence[Sequence[Contrast]]
# The number of random permutations in the test.
N_PERMUTATIONS = 2000
# Widens the interval for dataset-level rho, because the permutation test ignores that ranks depend
# on the sample of documents. Otherwise up to .136 of equal judges would ship at a risk of .10.
RANK_CORRECTION = 3
# A judge that costs n times as much as the untuned judge needs a gain of at least (n - 1) times
# this number: at 2.5 times the cost, a gain of .03.
GAIN_PER_EXTRA_COST = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTest:
    """A judge that asks the useful questions, with weights from all labels, and its two trials."""

    candidate: Candidate
    trials: tuple[CandidateTrial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The mean gain of tuned judges over the untuned judge, with an interval.

    The low end is above 0 exactly if the test is passed. `kind_index` is the index of the kind of
    change that has this gain.
    """

    value: float
    low: float
    high: float
    n_documents: int
    kind_index: int = 0

    @property
    def is_significant(self) -> bool:
        return self.low > 0


NO_GAIN = Gain(value=math.nan, low=math.nan, high=math.nan, n_documents=0)


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
    search_problem: SearchProblem,
    halves: Sequence[Sequence[CandidateTrial]],
    n_tried: int,
    questions: QuestionTest | None = None,
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge among the finalists of both halves, and decide whether it ships.

    The tuned judge is the judge that asks questions, if questions have the largest gain. Otherwise
    it is the finalist with the largest gain after a deduction for cost.
    """
    question_trials = [[trial] for trial in questions.trials] if questions else []
    kinds = [kind for kind in (halves, question_trials) if any(kind)]
    search_goal, risk = search_problem.goal, search_problem.options.risk
    if not kinds:
        reason = f"No reliable candidate beat the untuned judge on train ({n_tried} tried)."
        return search_problem.untuned, ShipDecision(ships=False, reason=reason)
    contrasts = [[[trial.gain_estimate for trial in half] for half in kind] for kind in kinds]
    decision = decide_by_gain(
        contrasts, search_goal, random_generator(search_problem.options.seed, "gate"), risk
    )
    gain, best_kind = decision.gain, kinds[decision.gain.kind_index]
    trials = list(chain(*best_kind))
    if questions and best_kind is question_trials:
        tuned = questions.candidate
    else:
        tuned = best_after_cost(search_problem, trials)
        trials = [trial for trial in trials if trial.candidate.id == tuned.id]
    if decision.ships and (objection := _objection(search_problem, tuned, trials)):
        way_out = f"{option_name('ship', 'tuned')} ships the judge nevertheless."
        reason = f"Tuning passed the test, but {objection} {way_out}"
        decision = replace(decision, ships=False, reason=reason)
    search_problem.record(
        "gate",
        candidate=tuned.id,
        figures=figure_json(IntervalEstimate(gain.value, Interval(gain.low, gain.high))),
        n_documents=gain.n_documents,
        risk=risk,
        ship=decision.ships,
    )
    return tuned, decision


def _objection(
    search_problem: SearchProblem, tuned: Candidate, trials: Sequence[CandidateTrial]
) -> str | None:
    """Return why a judge that passed the test should not ship, because of its cost, TPR or TNR."""
    item_price, gain = search_problem.evaluator.item_price, mean_gain(trials)
    cost_ratio = item_price(tuned) / item_price(search_problem.untuned)
    required_gain = GAIN_PER_EXTRA_COST * (cost_ratio - 1)
    if gain >= required_gain:
        return rate_objection(trials) if search_problem.goal == "balanced" else None
    return (
        f"the tuned judge costs {cost_ratio:.1f} times as much a row: its gain of {gain:.3f} "
        f"{metric_name(search_problem.goal)} is below the {required_gain:.3f} that this cost "
        f"requires ({GAIN_PER_EXTRA_COST:g} for each further multiple of the untuned judge's cost)."
    )


def rate_objection(trials: Sequence[CandidateTrial]) -> str | None:
    """Return an objection if the tuned judge's TPR or TNR is clearly too low; else None.

    A rate is too low if it is clearly below the same rate of the untuned judge, by a sign test on
    the outputs on which the judges differ, and also below the untuned judge's other rate.
    """
    human = np.concatenate([trial.items.human for trial in trials])
    tuned, untuned = np.hstack([(trial.scores, trial.reference_scores) for trial in trials])
    tuned_right, untuned_right = tuned == human, untuned == human
    both_judged = ~np.isnan(tuned + untuned)
    outputs_by_label = {"fails": both_judged & (human == 0), "passes": both_judged & (human == 1)}
    untuned_rates = {
        label: float(untuned_right[rows].mean())
        for label, rows in outputs_by_label.items()
        if rows.any()
    }
    for label, rows in outputs_by_label.items():
        n_worse = int((rows & untuned_right & ~tuned_right).sum())
        n_better = int((rows & tuned_right & ~untuned_right).sum())
        rate = tuned_right[rows].mean()
        if is_clearly_worse(n_worse, n_better) and rate < min(untuned_rates.values()):
            untuned_text = " and ".join(
                f"{untuned_rate:.0%} of {name}" for name, untuned_rate in untuned_rates.items()
            )
            return (
                f"of {rows.sum()} {label}, only the untuned judge gets {n_worse} right, and only "
                f"the tuned judge {n_better}. The tuned judge gets {rate:.0%} of {label} right; "
                f"the untuned judge gets {untuned_text} right."
            )
    return None


def mean_gain(trials: Sequence[CandidateTrial]) -> float:
    """Return the mean gain of a judge over all documents that the judge was tested on."""
    sizes = [len(trial.gain_estimate.documents) for trial in trials]
    gains = [trial.gain * size for trial, size in zip(trials, sizes, strict=True)]
    return sum(gains) / sum(sizes) if any(sizes) else math.nan


def decide_by_gain(
    kinds: Sequence[HalfContrasts],
    search_goal: Goal,
    rng: np.random.Generator,
    risk: float = DEFAULT_RISK,
) -> ShipDecision:
    """Decide by the contrasts with the untuned judge, for each kind of change."""
    gain = largest_gain(kinds, rng, risk)
    n_needed = max(fewest_documents(risk), MIN_UNTIED_DOCUMENTS if search_goal == "dataset" else 0)
    subject = f"Cross-validated on {gain.n_documents} documents, tuned prompts"
    amount = f"the untuned judge by {abs(gain.value):.3f} {metric_name(search_goal)}"
    beaten = f"{subject} beat {amount}. If tuning did nothing,"
    if gain.is_significant:
        reason = f"{beaten} {100 * risk:g}% of such runs would ship all the same."
    elif gain.n_documents < n_needed or not math.isfinite(gain.low):
        reason = (
            f"The documents ({gain.n_documents}) are too few, or their labels or scores too alike, "
            "to compare the tuned with the untuned judge at "
            f"{option_name('risk', f'{risk:g}')}: labels and scores must differ in at least "
            f"{n_needed} documents."
        )
    elif abs(gain.value) < 0.0005:
        reason = f"{subject} are as good as the untuned judge ({metric_name(search_goal)})."
    elif gain.value <= 0:
        reason = f"{subject} fall short of {amount}."
    else:
        reason = f"{beaten} over {100 * risk:g}% of runs would show as much."
    return ShipDecision(ships=gain.is_significant, reason=reason, gain=gain)


def metric_name(search_goal: Goal) -> str:
    return "balanced accuracy" if search_goal == "balanced" else f"{search_goal}-level rho"


def best_after_cost(search_problem: SearchProblem, trials: Sequence[CandidateTrial]) -> Candidate:
    """Return the candidate with the highest objective after a deduction of `GAIN_PER_EXTRA_COST`.

    If any candidate beats the untuned judge, only such candidates are considered. Two candidates
    are compared on the items that both have scored and that are in the demonstrations of neither.
    """
    trials_by_id: dict[str, list[CandidateTrial]] = {}
    for trial in trials:
        trials_by_id.setdefault(trial.candidate.id, []).append(trial)
    with_gain = [each for each in trials_by_id.values() if mean_gain(each) > 0]
    best, *other_candidates = (each[-1].candidate for each in with_gain or trials_by_id.values())
    evaluator = search_problem.evaluator
    for candidate in other_candidates:
        items = search_problem.train_and_dev
        for judge in (candidate, best):
            items = judge.unseen(evaluator.scored_items(judge, items))
        scores, best_scores = (
            search_problem.apply_threshold(evaluator.scores(judge, items), judge.threshold)
            for judge in (candidate, best)
        )
        extra_price = evaluator.item_price(candidate) - evaluator.item_price(best)
        required_gain = (
            GAIN_PER_EXTRA_COST * extra_price / evaluator.item_price(search_problem.untuned)
        )
        if estimate_gain(scores, best_scores, items, search_problem.goal).value > required_gain:
            best = candidate
    return best


def largest_gain(
    kinds: Sequence[HalfContrasts], rng: np.random.Generator, risk: float = DEFAULT_RISK
) -> Gain:
    """Return the mean gain of the kind of change with the largest mean gain, with an interval.

    The gain on a half is the mean of its contrasts, and halves are weighted by their documents. The
    interval lies above zero if less than the share `risk` of the random permutations reach the
    gain, and is infinite for too few documents.
    """
    # The first draw swaps no judges: its gains are those in the data.
    gain_sums = np.zeros((1 + N_PERMUTATIONS, len(kinds)))
    n_documents, n_untied = [0] * len(kinds), [0.0] * len(kinds)
    for half in zip_longest(*kinds, fillvalue=()):
        # If a draw swaps the judges on a document, they are swapped for all kinds of change.
        documents = _document_ids(chain(*half))
        signs = rng.choice([-1.0, 1.0], (N_PERMUTATIONS, len(documents)))
        signs = np.vstack([np.ones(len(documents)), signs])
        for kind, contrasts in enumerate(half):
            usable_contrasts = [each for each in contrasts if each.documents]
            if not usable_contrasts:
                continue
            gains_by_draw = []
            for each in usable_contrasts:
                columns = np.searchsorted(documents, each.documents)
                gains_by_draw.append(each.swapped(signs[:, columns]))
            n_in_half = len(_document_ids(usable_contrasts))
            gain_sums[:, kind] += n_in_half * np.mean(gains_by_draw, axis=0)
            n_documents[kind] += n_in_half
            n_untied[kind] += min(each.n_untied for each in usable_contrasts)
    tested_kinds = [kind for kind, n in enumerate(n_documents) if n]
    if not tested_kinds:
        return NO_GAIN
    means = np.column_stack([gain_sums[:, kind] / n_documents[kind] for kind in tested_kinds])
    best_kind, largest_gains = tested_kinds[means[0].argmax()], means.max(axis=1)
    value, n, half_width = float(largest_gains[0]), n_documents[best_kind], math.inf
    fewest_untied = min(n_untied[kind] for kind in tested_kinds)
    if n > 1 and fewest_untied >= MIN_UNTIED_DOCUMENTS:
        # The half-width is the (1 - risk) quantile of the draws' gains, and at least 0. It is
        # enlarged slightly: if the gain equals this quantile, a rounding error must not make the
        # gain exceed it.
        quantile = float(np.sort(largest_gains)[::-1][int(risk * len(largest_gains))])
        half_width = max(0.0, quantile) * (1 + 1e-9)
        # At other levels than the dataset's, `n_untied` is infinite, and this changes nothing.
        half_width *= 1 + RANK_CORRECTION / (fewest_untied - RANK_CORRECTION)
    low, high = value - half_width, value + half_width
    return Gain(value=value, low=low, high=high, n_documents=n, kind_index=best_kind)


def _document_ids(contrasts: Iterable[Contrast]) -> list[str]:
    return sorted(set[str]().union(*(each.documents for each in contrasts)))
