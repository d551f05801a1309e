"""How likely a gain ships, estimated before anything is paid for."""

import itertools
import math

from optimize.inputs.flags import RISK
from optimize.items import Items
from optimize.search.evaluator import Goal
from optimize.statistics.correlations import read_rows

# The fewest documents on which a rho over all outputs may rest. With fewer, judges that are no
# better ship too often: in .12 of runs with 6, in up to .29 with any number (benchmarks/gate.py).
FEWEST_UNTIED = 10
# The gain in rho or balanced accuracy to plan for, and how likely it should ship.
GAIN, LIKELY = 0.1, 0.8
# The share of outputs on which two judges that say pass or fail differ.
DISAGREEMENT = 0.25
# Standard deviation of the difference of two judges' rho in one document, times the root of its
# outputs less one: .79 to 1.02 between GPT-4o-mini and Llama 3.1 on SummEval's four dimensions
# (4, 8 or 16 outputs), .91 between tuned and untuned judges of benchmarks/simulated.py (5 or 12).
# Over all outputs it is times the root of the outputs (benchmarks/gate.py).
SPREAD = 1.0


def fewest_documents(risk: float) -> int:
    """The fewest documents that can show a gain at this risk.

    n documents have 2 to the power of n swaps, so no p-value is smaller than one over that: 4
    documents give 1/16, which suffices for a risk of .10, and 6 give 1/64, which does for .025.
    """
    return max(2, math.ceil(-math.log2(risk)))


def power(n_documents: int, outputs: float, gain: float, risk: float = RISK) -> float:
    """The chance, in [0, 1], that a judge ships whose rho is truly higher by `gain`.

    It is the power of a t test on the `n_documents` of train and dev. `outputs` is how many outputs
    of a document count: within documents, all but the first.
    """
    from scipy.special import nctdtr, stdtrit

    if n_documents < fewest_documents(risk):
        return 0.0
    error = SPREAD / math.sqrt(n_documents * outputs)
    freedom = n_documents - 1
    return float(1 - nctdtr(freedom, gain / error, stdtrit(freedom, 1 - risk)))


def documents_for(chance: float, outputs: float, gain: float, risk: float) -> int:
    """The fewest documents of train and dev with which a gain ships with this chance."""
    sizes = itertools.count(fewest_documents(risk))
    return next(n for n in sizes if power(n, outputs, gain, risk) >= chance)


def chance_of_gain(
    everything: Items, items: Items, *, goal: Goal, risk: float = RISK
) -> tuple[str, int]:
    """A sentence on how likely a gain ships, and how many documents make it likely.

    `items` are those of train and dev, `everything` has test as well.
    """
    n, figure = len(items.documents), "rho"
    outputs = len(items) / n
    if goal == "balanced":
        # The spread of balanced accuracy is the root of DISAGREEMENT / (4 p (1 - p)) an output.
        rate, figure = float(items.human.mean()), "balanced accuracy"
        outputs *= 4 * rate * (1 - rate) / DISAGREEMENT
    elif goal != "dataset":
        outputs = max(1.0, outputs - 1)
    chance = power(n, outputs, GAIN, risk)
    likely = documents_for(LIKELY, outputs, GAIN, risk)
    if goal == "dataset":
        untied = read_rows(items.human, items.human, items.document_ids).n_untied
        chance *= untied >= FEWEST_UNTIED
        # If all documents have the commonest label, plan for at least ten times as many.
        likely = max(likely, math.ceil(FEWEST_UNTIED * n / max(untied, 1)))
    likely = math.ceil(likely * len(everything.documents) / n)
    chance_now = f"A gain of {GAIN:g} {figure} ships with a chance of {chance:.0%}"
    return f"{chance_now}; with {likely:,} labelled documents, {LIKELY:.0%}.", likely
