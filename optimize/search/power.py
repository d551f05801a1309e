"""How likely a gain ships, before anything is paid for."""

import itertools
import math

from optimize.inputs.flags import RISK
from optimize.items import Items
from optimize.search.evaluator import (
    Goal,
)
from optimize.statistics.correlations import read_rows

# Where rho over all outputs rests on fewer documents, judges that are no better ship too often: in
# .12 with 6, in up to .29 with any number (benchmarks/gate.py).
FEWEST_UNTIED = 10
# The gain in rho, or balanced accuracy, that is planned for, and how likely it should ship.
GAIN, LIKELY = 0.1, 0.8
# The share of outputs on which two judges of two values differ.
DISAGREEMENT = 0.25
# Standard deviation of the difference of two judges' rho in one document, times the root of its
# outputs less one: .79 to 1.02 between GPT-4o-mini and Llama 3.1 on SummEval's four dimensions
# (4, 8 or 16 outputs), .91 between tuned and untuned judges of benchmarks/simulated.py (5 or 12).
# Over all outputs it is times the root of the outputs (benchmarks/gate.py).
SPREAD = 1.0


def fewest_documents(risk: float) -> int:
    """How many documents can show a gain at this risk.

    Of n documents the best swap is one of 2 to the power of n, so the test can give no smaller
    chance than that: 4 documents give 1/16, which .10 allows, and 6 give 1/64, which .025 does.
    """
    return max(2, math.ceil(-math.log2(risk)))


def power(n_documents: int, outputs: float, gain: float, risk: float = RISK) -> float:
    """How likely a judge ships whose rho is truly higher by `gain`, 0 to 1.

    `n_documents` are those of train and dev. By the t test of differences that have the spread
    `SPREAD` for each of a document's `outputs`, within documents each beyond the first.
    """
    from scipy.special import nctdtr, stdtrit

    if n_documents < fewest_documents(risk):
        return 0.0
    error = SPREAD / math.sqrt(n_documents * outputs)
    freedom = n_documents - 1
    return float(1 - nctdtr(freedom, gain / error, stdtrit(freedom, 1 - risk)))


def documents_for(power_wanted: float, outputs: float, gain: float, risk: float) -> int:
    """The fewest documents of train and dev that have so much power."""
    sizes = itertools.count(fewest_documents(risk))
    return next(n for n in sizes if power(n, outputs, gain, risk) >= power_wanted)


def chance_of_gain(
    everything: Items, learned: Items, *, goal: Goal, risk: float = RISK
) -> tuple[str, int]:
    """How likely a gain ships, in words, and how many documents make it likely."""
    n_learned, what = len(learned.places), "rho"
    outputs = len(learned) / n_learned
    if goal == "balanced":
        # The spread of balanced accuracy is the root of DISAGREEMENT / (4 p (1 - p)) an output.
        rate, what = float(learned.human.mean()), "balanced accuracy"
        outputs *= 4 * rate * (1 - rate) / DISAGREEMENT
    elif goal != "dataset":
        outputs = max(1.0, outputs - 1)
    chance = power(n_learned, outputs, GAIN, risk)
    likely = documents_for(LIKELY, outputs, GAIN, risk)
    if goal == "dataset":
        untied = read_rows(learned.human, learned.human, learned.document_ids).n_untied
        chance *= untied >= FEWEST_UNTIED
        # Where no document has another label than the commonest, at least ten times as many.
        likely = max(likely, math.ceil(FEWEST_UNTIED * n_learned / max(untied, 1)))
    likely = math.ceil(likely * len(everything.places) / n_learned)
    chance_now = f"A gain of {GAIN:g} {what} ships with a chance of {chance:.0%}"
    return f"{chance_now}; with {likely:,} labelled documents, {LIKELY:.0%}.", likely
