"""What to do after a run, a verification, a comparison or a swap, the most pressing first."""

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter

from judges.labels.values import VERDICTS
from judges.protocol import is_embedded
from optimize.figures.as_text import cost_text, counted
from optimize.measuring.comparison import JudgeComparison
from optimize.measuring.floors import suggested_floors
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.measuring.verification import Verification
from optimize.report.card import is_useful
from optimize.statistics.intervals import PERFECT

# A judge at its floor that is looked at again and again passes in the end.
LOOK_AGAIN = "add --looks 2 then, or as many looks as there will be"
# An interval that reaches further to either side asks for more labels.
WIDE = 0.10
# From these shares on, failures and what an attack adds of the scale ask for a step.
MANY_FAILED, MOVED = 0.05, 0.10
MOST_STEPS = 3
MORE_LABELS = "Label more documents."


def verification_step(result: Verification, *, has_page: bool = False) -> str:
    """What to do after a verification."""
    card, two, gate = result.card, result.card.two_values, result.gate
    if not card.rho.n_outputs:
        return "Mend the failures: --report FILE.html lists the reasons."
    if result.data.is_constructed:
        return "Measure it on labels of your own (--data FILE)."
    if result.tuned_on_these_labels:
        return "Measure it on labels that it was not tuned on (--data FILE)."
    if gate and gate.gate == "falls short":
        page = "" if has_page else " (--report FILE.html)"
        return f"Look at its misses and failures{page}, or tune it on other labels."
    kappa = two.judge.kappa.interval if two else None
    if kappa and kappa.high < 0 and result.words and "/".join(result.words) not in VERDICTS:
        turned = shlex.quote("{}=0,{}=1".format(*result.words))
        return f"The labels may be the wrong way round: --values {turned} turns them."
    first = _more_labels(card, "here")
    if not is_useful(card):
        return first or MORE_LABELS
    if not first and not has_page:
        first = f"--report FILE.html shows {'all' if two else 'its worst errors'}."
    flags, then = suggested_floors(card), "Too few labels for a floor: --against in CI."
    if gate and result.is_undecided:
        then = f"Label more; {LOOK_AGAIN}." if gate.looks == 1 else MORE_LABELS
    elif gate and gate.gate:
        then = "The same command holds it in CI."
    elif flags:
        then = f"In CI {flags} (an equal judge passes 9 of 10 times)."
    return f"{first} {then}".strip()


def run_steps(
    result: TuningResult, shifts: Sequence[tuple[str, float]] = (), folder: str = "FOLDER"
) -> list[str]:
    """What to do after a run, three steps at most.

    Args:
        result: The run.
        shifts: Each attack, and by what share of the scale it raises scores.
        folder: Where the judge was saved.
    """
    return [*islice(_run_steps(result, shifts, folder), MOST_STEPS)]


def _run_steps(
    result: TuningResult, shifts: Sequence[tuple[str, float]], folder: str
) -> Iterator[str]:
    if result.data.is_constructed:
        flag = "--pairwise" if result.is_pairs else "--dimension"
        yield (
            "These labels were made from known faults and say nothing of people. Tune on labels "
            f"of your own: `dspy-judges tune {flag} {result.dimension} --data FILE`; 50 over 20 "
            "documents are a start."
        )
        return
    if not (result.test and (card := result.card)):
        yield "Measure it on labels that it has not met: `dspy-judges verify`."
        return
    n_failed, n_outputs = card.rho.n_failed, card.rho.n_outputs
    if not n_outputs:
        yield f"Mend the failures: none of the {card.unit} has a score. The report says why."
    elif n_failed > MANY_FAILED * n_outputs:
        yield f"Mend the failures: {n_failed:,} {card.unit} have no score. The report says why."
    more_labels, is_of_use = _more_labels(card, "on test"), is_useful(card)
    is_doubtful = card.beside_coin.interval is not None and not is_of_use
    if is_doubtful:
        yield more_labels or MORE_LABELS
    yield from _on_gain(result, result.test)
    if more_labels and not is_doubtful:
        yield more_labels
    attack, share = max(shifts, key=lambda shift: shift[1], default=("", 0.0))
    if share >= MOVED:
        yield (
            "Do not let the judge gate outputs whose authors gain from its scores: a line in the "
            f"output ({attack}) raises them by {share:.0%} of the scale."
        )
    if is_of_use:
        yield _use(card, folder)


def _on_gain(result: TuningResult, test: SplitResult) -> Iterator[str]:
    """Yield what to do about a gain that test or unseen systems do not show, or about none."""
    gain = test.objective_gain.interval
    if result.shipped == "tuned":
        if gain and gain.low <= 0:
            yield "Verify both judges on further labels: test alone does not confirm the gain."
        if result.unseen and result.unseen.objective_gain.value < 0:
            yield (
                "Before you judge new systems, label some of their outputs and verify both judges: "
                "tuning has shown no gain on unseen systems."
            )
    elif test.untuned.beside_coin.value >= PERFECT:
        pass  # nothing is left to gain
    elif result.limit_reached:
        yield "Raise `--max-cost` or `--max-calls` and repeat the command: the limit was reached."
    else:
        stronger = "`--lm MODEL`" if is_embedded(result.lm) else "a stronger `--lm` or proposer"
        yield f"Label more documents and tune again, or try {stronger}: no gain could be shown."


def _use(card: Scorecard, folder: str) -> str:
    """How to use the judge, and the gate that holds it."""
    flags, path = suggested_floors(card), shlex.quote(folder)
    gate, why = f"verify NEW --against {path}", "labels are too few for a floor"
    if flags:
        gate = f"verify {path} --data FILE {flags}"
        why = "a judge as good passes nine times of ten"
    use = f"judges.load({json.dumps(folder)})"
    return f"Use it with `{use}`, and catch a large drop in CI with `dspy-judges {gate}`: {why}."


def _more_labels(card: Scorecard, where: str) -> str:
    """Which labels are too few for an interval, or for a narrow one; empty where none are."""
    two, share = card.two_values, card.beside_coin
    if two and any(two.judge.n_more.values()):
        rates = {"pass": two.judge.tpr, "fail": two.judge.tnr}
        return " ".join(
            f"Label {counted(n_more, f'more {word}')} for an interval: {where} are "
            f"{rates[word].n:,}."
            for word, n_more in two.judge.n_more.items()
            if n_more
        )
    documents = counted(two.judge.n_documents if two else card.order.n_documents, "document")
    if share.interval is None:
        return f"Label more documents: too few for an interval ({documents}), or too alike."
    if share.value < PERFECT and share.interval.reach > WIDE:
        return f"Label more documents: with {documents} the figure is that uncertain."
    return ""


def comparison_step(result: JudgeComparison) -> str:
    """Which judge to use."""
    if result.data.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if any(judge.tuned_on_these_labels for judge in result.judges):
        return "Compare again on labels that no judge was tuned on."
    best, *rest = result.judges
    if math.isnan(best.card.headline.value):
        return "Bring labels that differ: none of the judges has a figure on these."
    costs = [
        (cost, judge)
        for judge in result.judges
        if judge.standing in ("best", "as good")
        and (cost := judge.usage.cost_per_1000_rows) is not None
    ]
    cost, cheapest = min(costs, key=itemgetter(0), default=(None, best))
    if cheapest is not best:
        return f"Use {cheapest.name}: as good as the best, and it costs {cost_text(cost)}."
    if any(judge.standing == "unclear" for judge in rest):
        return f"Use {best.name} for now; more labels would tell whether it is better."
    return f"Use {best.name}."


def swap_step(result: SwapResult) -> str:
    """What to do after a certificate, in a line."""
    comparison, interval, unit = result.comparison, result.difference.interval, result.unit
    if comparison.data.is_constructed:
        return "measure both on labels of your own (--data FILE); nobody gave these"
    if any(judge.tuned_on_these_labels for judge in comparison.judges):
        return "bring labels that neither was tuned on (--data FILE); here too few are left"
    if result.swap == "worse":
        return "keep the old judge, or tune the new one on other labels (dspy-judges tune)"
    if result.swap != "undecided":
        if result.is_below:
            return (
                "the new judge is worse by less than the margin: use it if its price is worth that"
            )
        return "use the new judge; the same command holds it in CI"
    if needed := result.documents_to_decide:
        number = counted(needed, unit)
        advice = f"label more; about {number} in all would decide, if the difference stays"
        advice += f"; {LOOK_AGAIN}" if result.looks == 1 else ""
        return f"keep the old judge, or {advice}" if result.is_below else advice
    few = "" if interval else "; these are too few, or too alike, for an interval"
    return f"label more {unit}s{few}"
