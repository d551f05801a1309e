"""What the optimizer did: the instruction word by word, the demonstrations, and the way there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from optimize.report import page
from optimize.report.comparisons import search_path
from optimize.report.outputs import shortened
from optimize.run.record_evidence import PromptParts

MOST_DEMOS = 20


def prompts(seed: PromptParts, tuned: PromptParts) -> list[str]:
    """The tuned prompt against the seed's."""
    if seed == tuned:
        return [
            page.paragraph("The search found nothing to change: both are the same."),
            page.block(tuned.instruction),
        ]
    parts = [
        page.difference(seed.instruction, tuned.instruction)
        if seed.instruction != tuned.instruction
        else page.paragraph("The instruction is unchanged:") + page.block(tuned.instruction)
    ]
    before, after = len(seed.demos), len(tuned.demos)
    parts.append(page.paragraph(f"Demonstrations: {before} in the seed, {after} when tuned."))
    shown = [
        page.folded(f"Demonstration {number}", _demo(demo))
        for number, demo in enumerate(tuned.demos[:MOST_DEMOS], 1)
    ]
    which = "All" if after <= MOST_DEMOS else f"The first {MOST_DEMOS} of"
    return [*parts, page.folded(f"{which} {after} demonstrations", shown)] if shown else parts


def _demo(demo: Mapping[str, Any]) -> list[str]:
    return [
        part
        for name, value in demo.items()
        for part in (page.paragraph(name, "label"), page.block(shortened(str(value))))
    ]


def path(trials: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Every raced trial's gain over the seed, by calls spent; the rejected are counted."""
    raced = [one for one in trials if one.get("stage") == "race" and _is(one.get("gain"))]
    stock = [one for one in trials if one.get("stage") == "stock" and _is(one.get("value"))]
    rejected = [one for one in trials if one.get("stage") == "rejected"]
    told = f"{len(raced) or len(stock):,} trials; {len(rejected):,} proposals were rejected untried"
    reasons = Counter(str(one["why"]) for one in rejected if one.get("why"))
    why = [f" ({count:,} of them: {reason})" for reason, count in reasons.most_common(1)]
    told = "".join([told, *why, "."])
    shown, key = (raced, "gain") if raced else (stock, "value")
    if len(shown) < 2:
        return [page.paragraph(f"{told} Too few to draw.", "soft")]
    seed = 0.0 if raced else float(stock[0]["value"])
    drawn = search_path(
        [int(one["calls"]) for one in shown], [float(one[key]) for one in shown], seed, name
    )
    caption = (
        "Each trial's rho on the train documents it was raced on, less the seed's there; the best "
        "of many looks better than it is, so dev decides afterwards. "
        if raced
        else "Each candidate's rho on train; dev decides afterwards. "
    )
    return [page.figure(drawn, caption + told)]


def _is(value: object) -> bool:
    return isinstance(value, int | float)
