"""Statistical power of the gate: how likely a tuned judge with a given true gain is to ship."""

import math

from optimize.items import Items
from optimize.search.problem import DEFAULT_RISK, Goal
from optimize.statistics.rows import scored_rows

# For dataset-level rho, the gate needs this many documents with an output that differs from the
# commonest label and score (`ScoredRows.n_untied_documents`). With a minimum of 6, judges that are
# no better would ship in .12 of runs; without a minimum, in up to .29 (benchmarks/gate.py).
MIN_UNTIED_DOCUMENTS = 10
# `plan` asks for so many labels that a judge with this true gain ships with this probability.
PLANNED_GAIN, TARGET_POWER = 0.1, 0.8
DISAGREEMENT_SHARE = 0.25  # the assumed share of outputs on which both judges' verdicts differ
# Within a document with n outputs, the difference between two judges' rho is assumed to have a
# standard deviation of this number divided by sqrt(n - 1). Measured numbers are .79 to 1.02 on
# SummEval, and .91 in benchmarks/simulated.py. At dataset level, the divisor is sqrt(n).
RHO_DIFFERENCE_SD = 1.0


def fewest_documents(risk: float) -> int:
    """Return the fewest documents with which the gate's test can be significant."""
    # The judges can be swapped on n documents in 2^n ways, so the smallest p-value is 1 / 2^n.
    return max(2, math.ceil(-math.log2(risk)))


def power(n_documents: int, n_outputs: float, gain: float, risk: float = DEFAULT_RISK) -> float:
    """Return the probability that a tuned judge with this true gain ships: a t test's power.

    `n_outputs` is the effective number of outputs in a document. At summary level, this is one less
    than the actual number.
    """
    from scipy.special import nctdtr, stdtrit

    if n_documents < fewest_documents(risk):
        return 0.0
    standard_error = RHO_DIFFERENCE_SD / math.sqrt(n_documents * n_outputs)
    critical_value = stdtrit(n_documents - 1, 1 - risk)
    return float(1 - nctdtr(n_documents - 1, gain / standard_error, critical_value))


def power_text(
    all_items: Items, train_and_dev: Items, *, search_goal: Goal, risk: float = DEFAULT_RISK
) -> tuple[str, int]:
    """Return a sentence on the chance that a gain of `PLANNED_GAIN` ships, and a document count.

    The count is how many labelled documents give a chance of `TARGET_POWER`. `all_items` are all
    labelled items, also those that are held out from the search.
    """
    items, metric, n_documents = train_and_dev, "rho", len(train_and_dev.documents)
    n_outputs = len(items) / n_documents
    if search_goal == "balanced":
        # With a share p of passes, one output contributes a standard deviation of
        # sqrt(DISAGREEMENT_SHARE / (4 p (1 - p))) to the difference in balanced accuracy.
        pass_share, metric = float(items.human.mean()), "balanced accuracy"
        n_outputs *= 4 * pass_share * (1 - pass_share) / DISAGREEMENT_SHARE
    elif search_goal != "dataset":
        n_outputs = max(1.0, n_outputs - 1)
    chance = power(n_documents, n_outputs, PLANNED_GAIN, risk)
    n_needed = fewest_documents(risk)
    while power(n_needed, n_outputs, PLANNED_GAIN, risk) < TARGET_POWER:
        n_needed += 1
    if search_goal == "dataset":
        n_untied = scored_rows(items.human, items.human, items.document_ids).n_untied_documents
        chance *= n_untied >= MIN_UNTIED_DOCUMENTS
        # Assume that the share of untied documents stays the same. If none is untied, count one.
        n_needed = max(n_needed, math.ceil(MIN_UNTIED_DOCUMENTS * n_documents / max(n_untied, 1)))
    # More documents must be labelled, because some labels are held out from train and dev.
    n_needed = math.ceil(n_needed * len(all_items.documents) / n_documents)
    sentence = f"A gain of {PLANNED_GAIN:g} {metric} ships with a chance of {chance:.0%}"
    if n_needed > len(all_items.documents):
        sentence += f"; with {n_needed:,} labelled documents, {TARGET_POWER:.0%}"
    return f"{sentence}.", n_needed
