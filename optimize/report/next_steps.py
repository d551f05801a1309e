"""What to do after a run, a verification, a comparison or a swap; the most urgent step first."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter

from judges.labels.values import VERDICTS
from judges.protocol import is_embedded
from optimize.figures.as_text import counted, interval_unit
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.measuring.floors import suggested_floors
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.measuring.verification import Verification
from optimize.report.card import Obstacle, obstacle_to_use
from optimize.statistics.intervals import PERFECT
from optimize.statistics.two_values import FEW_DOCUMENTS_FOR_RATES, FEW_OUTPUTS

# A judge that is checked again and again passes by chance in the end, unless --looks allows for it.
LOOK_AGAIN = "add --looks 2 then, or as many looks as you plan"
# A step asks for more labels if half of the interval's width is larger than this.
WIDE_INTERVAL = 0.10
# More failures than this share get a step, and attacks that add this share of the scale.
MANY_FAILED, LARGE_ATTACK = 0.05, 0.10
MOST_STEPS = 3
MORE_LABELS = "Label more documents."


# What to do about an obstacle, unless the step is to label more documents.
REMEDIES: Mapping[Obstacle | None, str] = {
    "no score": "Fix the failures: --report FILE.html lists the reasons.",
    "constructed": "Measure it on labels of your own (--data FILE).",
    "tuned on these": "Measure it on labels that it was not tuned on (--data FILE).",
}


def verification_step(
    result: Verification, obstacle: Obstacle | None, *, has_page: bool = False
) -> str:
    """What to do after a verification; `has_page` says whether a page was written."""
    if remedy := REMEDIES.get(obstacle):
        return remedy
    if result.gate and result.gate.outcome == "falls short":
        page = "" if has_page else " (--report FILE.html)"
        return f"Look at its misses and failures{page}; change its prompt or model, or tune it."
    kappa_interval = result.card.two_values.judge.kappa.interval if result.card.two_values else None
    if (
        kappa_interval
        and kappa_interval.high < 0
        and result.words
        and "/".join(result.words) not in VERDICTS
    ):
        swapped = shlex.quote("{}=0,{}=1".format(*result.words))
        return f"The labels may be the wrong way round: --values {swapped} swaps them."
    labels_step = _more_labels(result.card, "here")
    if obstacle:
        return labels_step or MORE_LABELS
    if not labels_step and not has_page:
        which_errors = "all" if result.card.two_values else "its worst"
        labels_step = f"--report FILE.html shows {which_errors} errors."
    return f"{labels_step} {_ci_step(result)}".strip()


def _ci_step(result: Verification) -> str:
    """A sentence on how CI can check the judge, or on what is missing for a check."""
    if result.gate and result.is_undecided:
        return f"Label more; {LOOK_AGAIN}." if result.gate.looks == 1 else MORE_LABELS
    if result.gate and result.gate.outcome:
        return "The same command checks it in CI."
    if flags := suggested_floors(result.card):
        return f"For CI: {flags} (an equally good judge passes 9 of 10 times)."
    return "Too few labels for a floor: use --against in CI."


def run_steps(
    result: TuningResult, attacks: Sequence[tuple[str, float]] = (), folder: str = "FOLDER"
) -> list[str]:
    """What to do after a run, in at most three steps.

    Args:
        result: The result of the run.
        attacks: Each attack's title, and by what share of the scale it raises scores.
        folder: Where the judge was saved.
    """
    return [*islice(_run_steps(result, attacks, folder), MOST_STEPS)]


def _run_steps(
    result: TuningResult, attacks: Sequence[tuple[str, float]], folder: str
) -> Iterator[str]:
    if result.data.is_constructed:
        flag = "--pairwise" if result.is_pairs else "--dimension"
        yield (
            "These labels were constructed, not given by people. Tune on labels "
            f"of your own: `dspy-judges tune {flag} {result.dimension} --data FILE`; 50 labels on "
            "20 documents are enough to start."
        )
        return
    if not (result.test and (card := result.card)):
        yield "Measure it on labels that it has not seen: `dspy-judges verify`."
        return
    obstacle = obstacle_to_use(card, result.data)
    n_failed, n_outputs = card.rho.n_failed, card.rho.n_outputs
    if obstacle == "no score":
        yield f"Fix the failures: none of the {card.unit} has a score. The report says why."
    elif n_failed > MANY_FAILED * n_outputs:
        yield f"Fix the failures: {n_failed:,} {card.unit} have no score. The report says why."
    more_labels, is_doubtful = _more_labels(card, "on test"), obstacle in ("coin", "constant")
    if is_doubtful:
        yield more_labels or MORE_LABELS
    yield from _gain_steps(result, result.test)
    if more_labels and not is_doubtful:
        yield more_labels
    attack, share = max(attacks, key=itemgetter(1), default=("", 0.0))
    if share >= LARGE_ATTACK:
        yield (
            "Do not let the judge gate outputs whose authors gain from its scores: a line in the "
            f"output ({attack}) raises them by {share:.0%} of the scale."
        )
    if not obstacle:
        yield _use_step(card, folder)


def _gain_steps(result: TuningResult, test: SplitResult) -> Iterator[str]:
    """Yield what to do if test or unseen systems do not confirm a gain, or if there is none."""
    gain = test.objective_gain
    if result.shipped == "tuned":
        if gain.interval and not test.is_gain_confirmed:
            yield "Verify both judges on further labels: test alone does not confirm the gain."
        if result.unseen and result.unseen.objective_gain.value < 0:
            yield (
                "Before you judge new systems, label some of their outputs and verify both judges: "
                "tuning has shown no gain on unseen systems."
            )
    elif test.untuned.share_against_coin.value >= PERFECT:
        pass  # the untuned judge is perfect
    elif result.limit_reached:
        yield "Raise `--max-cost` or `--max-calls` and repeat the command: the limit was reached."
    else:
        model_advice = "`--lm MODEL`" if is_embedded(result.lm) else "a stronger `--lm` or proposer"
        yield f"Label more documents and tune again, or try {model_advice}: no gain could be shown."


def _use_step(card: Scorecard, folder: str) -> str:
    """A sentence on how to use the judge, and how to check it in CI."""
    flags, folder_text = suggested_floors(card), shlex.quote(folder)
    command, reason = f"verify NEW --against {folder_text}", "labels are too few for a floor"
    if flags:
        command = f"verify {folder_text} --data FILE {flags}"
        reason = "an equally good judge passes 9 of 10 times"
    call = f"judges.load({json.dumps(folder)})"
    ci_text = f"catch a large drop in CI with `dspy-judges {command}`: {reason}"
    return f"Use it with `{call}`, and {ci_text}."


def _more_labels(card: Scorecard, where: str) -> str:
    """A sentence on labels to add for an interval, or for a narrower one; "" if none are needed."""
    binary, figure = card.two_values, card.share_against_coin
    if binary and any(binary.judge.n_more.values()):
        need_text = f"it needs {FEW_OUTPUTS} {where}, from {FEW_DOCUMENTS_FOR_RATES} documents"
        return " ".join(
            f"Label {counted(n_more, f'more {word}')} for an interval: {need_text}."
            for word, n_more in binary.judge.n_more.items()
            if n_more
        )
    documents_text = counted(
        binary.judge.n_documents if binary else card.order.n_documents, "document"
    )
    if figure.interval is None:
        return f"Label more documents: too few for an interval ({documents_text}), or too alike."
    if figure.value < PERFECT and figure.interval.half_width > WIDE_INTERVAL:
        return f"Label more documents: with {documents_text} the interval is still wide."
    return ""


def judge_to_use(result: JudgeComparison) -> ComparedJudge:
    """The cheapest judge of those that are best or as good; the best if its price is unknown."""
    candidates = [judge for judge in result.judges if judge.relation_to_best in ("best", "as good")]
    prices = [judge.usage.cost_per_1000_rows for judge in candidates]
    known_prices = [price for price in prices if price is not None]
    return (
        candidates[prices.index(min(known_prices))]
        if candidates and prices[0] is not None
        else result.judges[0]
    )


def comparison_step(result: JudgeComparison) -> str:
    """A sentence on which judge to use."""
    if result.data.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if any(judge.overlap.tuned_on_these_labels for judge in result.judges):
        return "Compare again on labels that no judge was tuned on."
    best, *other_judges = result.judges
    if math.isnan(best.card.headline.value):
        return "Use labels that differ: none of the judges has a figure on these."
    if (cheapest := judge_to_use(result)) is not best:
        return f"Use {cheapest.name}: as good as the best, and cheaper."
    if any(judge.relation_to_best == "unclear" for judge in other_judges):
        return f"Use {best.name} for now; more labels would tell whether it is better."
    return f"Use {best.name}."


def swap_step(result: SwapResult) -> str:
    """A line on what to do after a new judge was compared with an old judge."""
    comparison, interval = result.comparison, result.difference.interval
    unit = interval_unit(comparison.level)
    if comparison.data.is_constructed:
        return "measure both judges on labels that people gave (--data FILE)"
    if any(judge.overlap.tuned_on_these_labels for judge in comparison.judges):
        return (
            "bring labels that neither judge was tuned on (--data FILE); of these too few are left"
        )
    if result.outcome == "worse":
        return "keep the old judge, or tune the new one on other labels (dspy-judges tune)"
    if result.outcome != "undecided":
        if result.is_interval_negative:
            return "the new judge is worse by less than the margin: use it if it is cheap enough"
        return "use the new judge; the same command checks it in CI"
    if needed := result.documents_to_decide:
        number = counted(needed, unit)
        advice = f"label more; about {number} in all would decide, if the difference stays"
        advice += f"; {LOOK_AGAIN}" if result.looks == 1 else ""
        return f"keep the old judge, or {advice}" if result.is_interval_negative else advice
    few_text = "" if interval else "; these are too few, or too alike, for an interval"
    return f"label more {unit}s{few_text}"
