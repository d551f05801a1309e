"""What to do after a run, a verification, a comparison or a swap; the most urgent step first."""

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from operator import itemgetter

from judges.protocol import is_embedded
from optimize.figures.as_text import counted, interval_unit
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.measuring.verification import Verification, floor_flags
from optimize.report.card import (
    MOST_FAILED,
    NO_INTERVAL,
    NO_SCORE,
    Obstacle,
    is_perfect,
    obstacle_to_use,
)
from optimize.statistics.intervals import MIN_PERFECT
from optimize.statistics.verdict_rates import MIN_DOCUMENTS_FOR_RATES, MIN_OUTPUTS_FOR_RATES

# A judge that is checked again and again passes by chance in the end, unless --looks allows for it.
LOOKS_ADVICE = "add --looks 2 then, or as many looks as you plan"
# A step asks for more labels if half of the interval's width is larger than this.
WIDE_HALF_WIDTH = 0.10
# A step is given if a larger share of outputs failed, or if an attack adds this share of the scale.
MIN_FAILED_SHARE, MIN_ATTACK_SHARE = 0.05, 0.10
MAX_STEPS = 3
LABEL_MORE = "Label more documents."


def verification_step(result: Verification, obstacle: Obstacle | None) -> str:
    """Return what to do after a verification."""
    if obstacle and obstacle.remedy:
        return obstacle.remedy
    gate, labels_step = result.gate, _labels_advice(result.card, "here")
    outcome, looks = (gate.outcome, gate.looks) if gate else (None, 1)
    if outcome == "falls short":
        return "Look at its misses and failures; change its prompt or model, or tune it."
    if obstacle:
        return labels_step or LABEL_MORE
    floors_steps = {
        None: _floors_advice(result.card),
        "holds": "The same command checks it in CI.",
        "undecided": f"Label more; {LOOKS_ADVICE}." if looks == 1 else LABEL_MORE,
    }
    return f"{labels_step} {floors_steps[outcome]}".strip()


def _floors_advice(card: Scorecard, command: str = "") -> str:
    """Return how to give floors, to a command if there is one, and which suit CI."""
    floors = "--min-tpr X --min-tnr X" if card.two_values else "--min-spearman X"
    floors = f"`{command} {floors}`" if command else floors
    ci_advice = (
        "Labels are too few, or the judge is too weak, for a floor in CI with a safe margin: use "
        "`--against`."
    )
    if flags := floor_flags(card.two_values.judge if card.two_values else card.rho):
        ci_advice = f"For CI: `{flags}` (an equally good judge passes 9 of 10 times)."
    return f"Give the floors that it must hold: {floors}. {ci_advice}"


def tuning_steps(
    result: TuningResult, attacks: Sequence[tuple[str, float]] = (), folder: str = "FOLDER"
) -> list[str]:
    """Return at most three steps after a run, whose judge was saved in `folder`.

    `attacks` has each attack's title, and by what share of the scale it raises scores.
    """
    if result.data.is_constructed:
        flag = "--pairwise" if result.is_pairs else "--dimension"
        return [
            "These labels were constructed, not given by people. Tune on labels "
            f"of your own: `dspy-judges tune {flag} {result.dimension} --data FILE`; 50 labels on "
            "20 documents are enough to start."
        ]
    if not (result.test and (card := result.card)):
        return [
            "Measure it on labels that it has not seen: `dspy-judges verify`, or `dspy.Evaluate` "
            "for a program of your own."
        ]
    obstacle, n_failed, steps = obstacle_to_use(card, result.data), card.rho.n_failed, list[str]()
    if obstacle == NO_SCORE or n_failed > MIN_FAILED_SHARE * card.rho.n_outputs:
        steps.append(
            f"Fix the failures: {n_failed:,} {card.unit} have no score. The report says why."
        )
    more_labels, gain_steps = _labels_advice(card, "on test"), _gain_steps(result, result.test)
    if obstacle in (None, NO_SCORE, MOST_FAILED, NO_INTERVAL):
        steps += [*gain_steps, more_labels]
    else:
        steps += [obstacle.remedy or more_labels or LABEL_MORE, *gain_steps]
    attack, share = max(attacks, key=itemgetter(1), default=("", 0.0))
    if share >= MIN_ATTACK_SHARE:
        steps.append(
            "Do not let the judge gate outputs whose authors gain from its scores: a line in the "
            f"output ({attack}) raises them by {share:.0%} of the scale."
        )
    if not obstacle:
        advice = _floors_advice(card, f"dspy-judges verify {shlex.quote(folder)} --data FILE")
        steps.append(f"Load it with `judges.load({json.dumps(folder)})`. {advice}")
    return [*filter(None, steps)][:MAX_STEPS]


def _gain_steps(result: TuningResult, test: SplitResult) -> Iterator[str]:
    """Yield what to do if test or unseen systems do not confirm a gain, or if there is none."""
    gain = test.objective_gain
    if result.shipped == "tuned":
        if gain.interval and not test.is_gain_confirmed:
            yield "Verify the judge on further labels: test alone does not confirm the gain."
        if result.unseen and result.unseen.objective_gain.value < 0:
            yield (
                "Before you judge new systems, label some of their outputs and verify the judge: "
                "tuning has shown no gain on unseen systems."
            )
    elif test.untuned.share_right.value >= MIN_PERFECT:
        pass  # the untuned judge is perfect
    elif result.limit_reached:
        yield (
            "The limit was reached. Tune again with a larger `--max-cost` or `--max-calls` and "
            "another `--out`: the reply cache has what both searches ask."
        )
    else:
        model_advice = "`--lm MODEL`" if is_embedded(result.lm) else "a stronger `--lm` or proposer"
        yield f"Label more documents and tune again, or try {model_advice}: no gain could be shown."


def _labels_advice(card: Scorecard, where: str) -> str:
    """Return which labels to add for an interval, or for a narrower one; "" if none are needed."""
    binary, figure, n_documents = card.two_values, card.share_right, card.order.n_documents
    if binary:
        n_documents = binary.judge.n_documents
        need_text = (
            f"it needs {MIN_OUTPUTS_FOR_RATES} {where}, from {MIN_DOCUMENTS_FOR_RATES} documents"
        )
        if missing := [(word, number) for word, number in binary.judge.n_more.items() if number]:
            return " ".join(
                f"Label {counted(number, f'more {word}')} for an interval: {need_text}."
                for word, number in missing
            )
    documents_text = counted(n_documents, "document")
    if figure.interval is None and not is_perfect(card):
        return f"Label more documents: too few for an interval ({documents_text}), or too alike."
    interval = figure.interval
    if interval and figure.value < MIN_PERFECT and interval.half_width > WIDE_HALF_WIDTH:
        return f"Label more documents: with {documents_text} the interval is still wide."
    return ""


def judge_to_use(result: JudgeComparison) -> ComparedJudge:
    """Return the cheapest judge that is best or as good; the best if its price is unknown."""
    best = result.judges[0]
    if best.entry.usage.cost_per_1000_rows is None:
        return best
    candidates = (judge for judge in result.judges if judge.relation_to_best in ("best", "as good"))
    priced = [judge for judge in candidates if judge.entry.usage.cost_per_1000_rows is not None]
    return min(priced, key=lambda judge: judge.entry.usage.cost_per_1000_rows or 0.0)


def comparison_step(result: JudgeComparison) -> str:
    """Return a sentence on which judge is best, or on what to compare instead."""
    if result.data.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if any(judge.overlap.tuned_on_these_labels for judge in result.judges):
        return "Compare again on labels that no judge was tuned on."
    best, *other_judges = result.judges
    if math.isnan(best.card.headline.value):
        return "Compare on labels that differ: none of the judges has a figure on these."
    if not other_judges:
        return f"Only {best.name} was measured, so there is nothing to compare it with."
    if (cheapest := judge_to_use(result)) is not best:
        return (
            f"{cheapest.name} is cheaper, and within a standard error of the best judge; verify "
            "--against tells whether it may replace it."
        )
    if any(judge.relation_to_best != "worse" for judge in other_judges):
        return f"{best.name} has the best figure; more labels would tell whether it is better."
    return f"{best.name} is the best of these judges."


def swap_step(result: SwapResult) -> str:
    """Return what to do after a new judge was compared with an old judge."""
    comparison, unit = result.comparison, interval_unit(result.comparison.level)
    if comparison.data.is_constructed:
        return "Measure both judges on labels that people gave (--data FILE)."
    if any(judge.overlap.tuned_on_these_labels for judge in comparison.judges):
        return (
            "Bring labels that neither judge was tuned on (--data FILE): too few of these are left."
        )
    use_step = "Use the new judge; the same command checks it in CI."
    if result.is_interval_negative:
        use_step = "The new judge is worse by less than the margin: use it if it is cheap enough."
    keep_step = "Keep the old judge, or tune the new one on other labels (dspy-judges tune)."
    steps = {"better": use_step, "not worse": use_step, "worse": keep_step}
    if result.outcome in steps:
        return steps[result.outcome]
    if not result.documents_to_decide:
        return f"Label more {unit}s."
    advice = "Keep the old judge, or label" if result.is_interval_negative else "Label"
    number = counted(result.documents_to_decide, unit)
    advice += f" more: about {number} in all would decide, if the difference stays"
    return f"{advice}; {LOOKS_ADVICE}." if result.looks == 1 else f"{advice}."
