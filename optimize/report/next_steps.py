"""What to do after a run, a verification, a comparison or a swap, the most pressing first."""

import json
import math
import shlex
from collections.abc import Iterator, Sequence

from judges.client import is_embedded
from judges.labels.values import VERDICTS
from optimize.figures.as_text import PLURALS, cost_text, counted
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.measuring.scorecard import Scorecard, TwoValueFigures
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report.sentences import COIN, beats_constant
from optimize.statistics.correlations import Correlation
from optimize.statistics.floor import correlation_floor, share_floor
from optimize.statistics.intervals import FEW_DOCUMENTS, PERFECT
from optimize.statistics.two_values import FEW_OUTPUTS, TwoValues

# A judge at its floor that is looked at again and again passes in the end.
LOOK_AGAIN = "add --looks 2 then, or as many looks as there will be"
# With fewer documents, rho over all outputs has no interval in too many further draws.
FEW_DOCUMENTS_FOR_FLOOR = 100
# With fewer documents of several outputs the width of an interval is too uncertain.
FEWEST_FOR_FLOOR = 2 * FEW_DOCUMENTS
# An interval that reaches further to either side asks for more labels.
WIDE = 0.10
# From these shares on, failures and what an attack adds of the scale ask for a step.
MANY_FAILED, MOVED = 0.05, 0.10
MOST_STEPS = 3


def floor_flags(figures: Correlation | TwoValues) -> str:
    """A gate that an equally good judge passes on as many new labels, nine times of ten.

    Empty where labels are so few that new ones may give no intervals.
    """
    if isinstance(figures, TwoValues):
        floors = []
        for rate in (figures.tpr, figures.tnr):
            low = rate.interval.low if rate.interval else 0.0
            n_documents = rate.n_documents or 0
            fewest = 2 * FEW_OUTPUTS if n_documents == rate.n else FEWEST_FOR_FLOOR
            if not low or n_documents < fewest:
                return ""
            floors.append(_rounded_down(share_floor(rate.value, low, rate.n, 2)))
        return "--min-tpr {} --min-tnr {}".format(*floors)
    fewest = FEW_DOCUMENTS_FOR_FLOOR if figures.level == "dataset" else FEWEST_FOR_FLOOR
    if figures.interval is None or figures.n_documents < fewest:
        return ""
    least = _rounded_down(correlation_floor(figures.value, figures.interval.low))
    return f"--min-spearman {least}"


def _rounded_down(floor: float) -> str:
    return f"{math.floor(100 * floor) / 100:.2f}"


def _floor_flags_of(card: Scorecard) -> str:
    return floor_flags(card.two_values.judge if card.two_values else card.rho)


# --- after a verification


def verification_step(result: Verification, *, has_page: bool = False) -> str:
    """What to do after a verification, in a line; empty where a page and a gate do it all."""
    card, rho = result.card, result.card.rho
    interval = card.order.interval if card.is_pairs else rho.interval
    if not rho.n_outputs:
        return "mend the failures; --report FILE.html lists the reasons"
    if result.data.is_constructed:
        return "measure it on labels of your own (--data FILE)"
    if result.tuned_on_these_labels:
        return "measure it on labels that it was not tuned on (--data FILE)"
    page = "" if has_page else "--report FILE.html shows its worst errors"
    if card.two_values:
        page = "" if has_page else "--report FILE.html shows all"
        return _on_two_values(card.two_values, result.words) or _and_floors(page, result)
    unit = "systems" if rho.level == "system" else "documents"
    if interval is None:
        if abs(rho.value) >= PERFECT:
            return _and_floors(page, result)
        if getattr(result.data, f"n_{unit}") < FEW_DOCUMENTS:
            return f"label more {unit}; these are too few for an interval"
        return "label outputs that differ more; nearly all labels or scores are the same"
    if interval.low <= (COIN if card.is_pairs else 0):
        return "do not rely on it yet; on these labels it may be chance"
    if interval.reach > WIDE:
        page = f"label more {unit}; the interval is ±{interval.reach:.2f} wide"
    return _and_floors(page, result)


def _and_floors(step: str, result: Verification) -> str:
    """The step, and what holds the judge to its figure in CI, where nothing does."""
    flags, gate = _floor_flags_of(result.card), result.gate
    held = "too few labels for a floor: --against in CI"
    if flags:
        held = f"in CI {flags} (an equal judge passes 9 of 10 times)"
    if gate and gate.gate:
        held = f"label more; {LOOK_AGAIN}" if result.is_undecided and gate.looks == 1 else ""
    return "; ".join(filter(None, [step, held]))


def _on_two_values(card: TwoValueFigures, words: tuple[str, str] | None) -> str:
    """What labels that say pass or fail ask for; empty where they ask for nothing."""
    for word in PLURALS:
        if number := card.judge.n_more[word]:
            return f"label {counted(number, f'more {word}')}; these are too few for intervals"
    kappa, balanced = card.judge.kappa.interval, card.judge.balanced_accuracy.interval
    if words and "/".join(words) not in VERDICTS and kappa and kappa.high < 0:
        turned = shlex.quote("{}=0,{}=1".format(*words))
        return f"the labels may be the wrong way round; --values {turned} turns them"
    if balanced and balanced.low <= COIN:
        return "do not rely on it yet; always saying the same may do as well"
    return ""


# --- after a tuning run


def run_steps(
    result: TuningResult, shifts: Sequence[tuple[str, float]] = (), folder: str = "FOLDER"
) -> list[str]:
    """What to do after a run, three steps at most; `shifts` as `attack_step` takes them."""
    if result.data.is_constructed:
        flag = "--pairwise" if result.is_pairs else "--dimension"
        return [
            "These labels were made from known faults and say nothing of people. Tune on labels "
            f"of your own: `dspy-judges tune {flag} {result.dimension} --data FILE`; 50 over 20 "
            "documents are a start."
        ]
    if not (card := result.card):
        return ["Measure it on labels that it has not met: `dspy-judges verify`."]
    chance = list(_on_chance(card))
    steps = [
        *_on_failures(card),
        *chance,
        *_on_gain(result),
        *_on_unseen(result),
        *([] if chance else _on_width(card)),
        *attack_step(shifts),
        *([] if chance else _use(card, folder)),
    ]
    return steps[:MOST_STEPS]


def _use(card: Scorecard, folder: str) -> Iterator[str]:
    flags, path = _floor_flags_of(card), shlex.quote(folder)
    gate = f"verify {path} --data FILE {flags}" if flags else f"verify NEW --against {path}"
    why = "a judge as good passes nine times of ten" if flags else "labels are too few for a floor"
    use, gate = f"judges.load({json.dumps(folder)})", f"dspy-judges {gate}"
    yield f"Use it with `{use}`, and catch a large drop in CI with `{gate}`: {why}."


def _on_failures(card: Scorecard) -> Iterator[str]:
    n_failed, n_outputs = card.rho.n_failed, card.rho.n_outputs
    if not n_outputs:
        yield (
            f"Mend the failures: none of the {card.unit} has a score. The report lists the reasons."
        )
    elif n_failed > MANY_FAILED * n_outputs:
        yield f"Mend the failures: {n_failed:,} {card.unit} have no score. The report says why."


def _on_chance(card: Scorecard) -> Iterator[str]:
    """Yield not to rely on a judge that may be no better than a coin, or a constant one."""
    interval, two = card.beside_coin.interval, card.two_values
    if interval and interval.low <= COIN:
        yield (
            "Do not rely on the judge yet: on these labels it may be no better than a coin. Label "
            "more documents."
        )
    elif two and two.judge.accuracy.value < two.constant.accuracy.value:
        word = two.constant_word
        less = f"on test it agrees with people less often than always saying {word} would."
        yield " ".join([f"Do not rely on its verdicts: {less}", *_on_width(card)])
    elif two and two.judge.accuracy.interval and not beats_constant(two):
        yield (
            "Label more documents: on test it does not clearly agree with people more often than "
            f"always saying {two.constant_word} would."
        )


def _on_gain(result: TuningResult) -> Iterator[str]:
    """Yield what to do where the untuned judge ships, or where test does not confirm the gain."""
    if not (test := result.test):
        return
    interval = test.objective_gain.interval
    if result.shipped == "tuned":
        if interval and interval.low <= 0:
            yield "Verify both judges on further labels: test alone does not confirm the gain."
    elif test.untuned.beside_coin.value >= PERFECT:
        return  # nothing is left to gain
    elif result.limit_reached:
        yield "Raise `--max-cost` or `--max-calls` and repeat the command: the limit was reached."
    else:
        stronger = "`--lm MODEL`" if is_embedded(result.lm) else "a stronger `--lm` or proposer"
        yield f"Label more documents and tune again, or try {stronger}: no gain could be shown."


def _on_unseen(result: TuningResult) -> Iterator[str]:
    """Yield that the judge is worse on new systems than untuned."""
    unseen = result.unseen
    if result.shipped == "tuned" and unseen and unseen.objective_gain.value < 0:
        yield (
            "Before you judge new systems, label some of their outputs and verify both judges: "
            "tuning has shown no gain on unseen systems."
        )


def _on_width(card: Scorecard) -> Iterator[str]:
    """Yield which labels are too few for an interval, or for a narrow one."""
    two, share = card.two_values, card.beside_coin
    if two and any(two.judge.n_more.values()):
        rates = {"pass": two.judge.tpr, "fail": two.judge.tnr}
        for word, n_more in two.judge.n_more.items():
            if n_more:
                has = f"test has {rates[word].n:,}, and an interval takes {n_more} more there"
                yield f"Label more {PLURALS[word]}: {has}."
        return
    if math.isnan(share.value):
        return
    n_documents = two.judge.n_documents if two else card.order.n_documents
    documents = counted(n_documents, "document")
    if share.interval is None:
        yield f"Label more documents: {documents} are too few for an interval."
    elif share.value < PERFECT and share.interval.reach > WIDE:
        yield f"Label more documents: with {documents} the figure is that uncertain."


def attack_step(shifts: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield that outputs can talk the judge up; (attack, gain as a share of the scale) each."""
    attack, share = max(shifts, key=lambda shift: shift[1], default=("", 0.0))
    if share >= MOVED:
        yield (
            "Do not let the judge gate outputs whose authors gain from its scores: a line in the "
            f"output ({attack}) raises them by {share:.0%} of the scale."
        )


# --- after a comparison


def price_text(judge: ComparedJudge) -> str:
    """Dollars for 1,000 rows; "?" where the price is unknown, "-" of a recording."""
    cost = judge.usage.cost_per_1000_rows
    if cost is None:
        return "-" if judge.usage.plan is None else "?"
    return cost_text(cost)


def comparison_step(result: JudgeComparison) -> str:
    """Which judge to use."""
    if result.data.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if any(judge.tuned_on_these_labels for judge in result.judges):
        return "Compare again on labels that no judge was tuned on."
    best, *rest = result.judges
    if math.isnan(best.card.headline.value):
        return "Bring labels that differ: none of the judges has a figure on these."
    costs = {
        judge.name: judge.usage.cost_per_1000_rows
        for judge in (best, *rest)
        if judge.standing in ("best", "as good")
    }
    known = {name: cost for name, cost in costs.items() if cost is not None}
    cheapest = min(known, key=known.__getitem__, default=best.name)
    if cheapest != best.name:
        return f"Use {cheapest}: as good as the best, and it costs {cost_text(known[cheapest])}."
    if any(judge.standing == "unclear" for judge in rest):
        return f"Use {best.name} for now; more labels would tell whether it is better."
    return f"Use {best.name}."


# --- after a swap


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
