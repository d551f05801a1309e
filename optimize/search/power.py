"""Statistical power: estimate, before anything is paid for, how likely a gain is to ship."""

import itertools
import math

from optimize.inputs.flags import RISK
from optimize.items import Items
from optimize.search.evaluator import Goal
from optimize.statistics.correlations import read_rows

# The fewest untied documents on which a dataset-level rho may rest. With fewer, judges that are no
# better ship too often: in .12 of runs if 6 suffice, and in up to .29 if any number does
# (benchmarks/gate.py).
FEWEST_UNTIED = 10
# The gain in rho or balanced accuracy to plan for, and the chance with which it should ship.
GAIN, TARGET_POWER = 0.1, 0.8
# The share of outputs on which two judges that say pass or fail differ.
DISAGREEMENT = 0.25
# The standard deviation, over documents, of the difference between two judges' rho, multiplied by
# the square root of (outputs in a document - 1). It was .79 to 1.02 between GPT-4o-mini and Llama
# 3.1 on SummEval's four dimensions (4, 8 or 16 outputs), and .91 between tuned and untuned judges
# in benchmarks/simulated.py (5 or 12 outputs). At dataset level the factor is the square root of
# the number of outputs (benchmarks/gate.py).
SPREAD = 1.0


def fewest_documents(risk: float) -> int:
    """The fewest documents that can show a gain at this risk.

    n documents can be swapped in 2^n ways, so the smallest p-value is 1 / 2^n. With 4 documents it
    is 1/16, which suffices for a risk of .10; with 6 it is 1/64, which suffices for .025.
    """
    return max(2, math.ceil(-math.log2(risk)))


def power(n_documents: int, outputs: float, gain: float, risk: float = RISK) -> float:
    """The chance, in [0, 1], that a judge ships if its true rho is higher by `gain`.

    This is the power of a t test over documents.

    Args:
        n_documents: The number of documents in train and dev.
        outputs: The outputs of a document that count; at summary level, their number minus one.
        gain: The true gain.
        risk: The risk of the gate.
    """
    from scipy.special import nctdtr, stdtrit

    if n_documents < fewest_documents(risk):
        return 0.0
    error = SPREAD / math.sqrt(n_documents * outputs)
    degrees = n_documents - 1
    return float(1 - nctdtr(degrees, gain / error, stdtrit(degrees, 1 - risk)))


def documents_for(chance: float, outputs: float, gain: float, risk: float) -> int:
    """The fewest documents in train and dev for a gain to ship with this chance."""
    sizes = itertools.count(fewest_documents(risk))
    return next(n for n in sizes if power(n, outputs, gain, risk) >= chance)


def chance_of_gain(
    everything: Items, items: Items, *, goal: Goal, risk: float = RISK
) -> tuple[str, int]:
    """Estimate how likely a gain of 0.1 ships, and how many documents would make it likely.

    Args:
        everything: All labelled items.
        items: The items of train and dev.
        goal: What the search maximises.
        risk: The risk of the gate.

    Returns:
        A sentence on both, and the number of documents.
    """
    n, figure = len(items.documents), "rho"
    outputs = len(items) / n
    if goal == "balanced":
        # Per output, the difference in balanced accuracy has a standard deviation of
        # sqrt(DISAGREEMENT / (4 p (1 - p))), where p is the share of passes.
        rate, figure = float(items.human.mean()), "balanced accuracy"
        outputs *= 4 * rate * (1 - rate) / DISAGREEMENT
    elif goal != "dataset":
        outputs = max(1.0, outputs - 1)
    chance = power(n, outputs, GAIN, risk)
    n_likely = documents_for(TARGET_POWER, outputs, GAIN, risk)
    if goal == "dataset":
        untied = read_rows(items.human, items.human, items.document_ids).n_untied
        chance *= untied >= FEWEST_UNTIED
        # If all documents have the commonest label, plan for at least ten times as many.
        n_likely = max(n_likely, math.ceil(FEWEST_UNTIED * n / max(untied, 1)))
    n_likely = math.ceil(n_likely * len(everything.documents) / n)
    chance_now = f"A gain of {GAIN:g} {figure} ships with a chance of {chance:.0%}"
    return f"{chance_now}; with {n_likely:,} labelled documents, {TARGET_POWER:.0%}.", n_likely
