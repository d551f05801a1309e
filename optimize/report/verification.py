"""A verification in words: what was measured, what it means, and the judge among annotators."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from optimize.figures.as_text import (
    address,
    counted,
    figure_text,
    miss_line,
    number_text,
    share_text,
    short_name,
    signature,
    wrapped,
)
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.verification import Verification, is_clear
from optimize.report.next_steps import verification_step
from optimize.report.sentences import agreement, as_one_annotator, scale_warning, tuned_on_sentences

# So many annotators are listed one by one, and so many fewer pairs of them.
MOST_ANNOTATORS, MORE_ANNOTATORS = 3, 2
# A first screen has so many lines.
MOST_LINES = 12
# All misses, in a file beside the page on pass and fail.
MISSES = "misses.csv"


def verification_lines(
    result: Verification, *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds all correlations and annotators.

    `page` is the file that shows the judge's errors, where one was asked for.
    """
    two, gate = result.card.two_values, result.gate
    last = f"Next: {verification_step(result)}"
    if page:
        last = f"Its errors: {address(Path(page))}"
        last += f", {Path(page).with_suffix(f'.{MISSES}').name}" if two else ""
    # What does not hold is printed as an error.
    holds = gate_lines(result) if gate and gate.passed else []
    lines, last_lines = wrapped(*verification_answer(result)), wrapped(*holds, last)
    if len(lines) + len(last_lines) > MOST_LINES:
        lines = wrapped(*verification_answer(result, most=0))
    if two:
        # As many of either kind as the screen has lines for; the report has all.
        n_faults = len(wrapped(*(f"dspy-judges verify: {fault}" for fault in result.faults)))
        n_each = max(0, MOST_LINES - len(lines) - len(last_lines) - n_faults) // 2
        for kind in ("false pass", "false alarm"):
            rows = [row for row in result.misses or () if row["miss"] == kind]
            lines += map(miss_line, rows[:n_each])
    lines += last_lines
    if not everything:
        return lines
    about = result.card.unit, result.data.n_systems
    every = dict.fromkeys(signature(rho, *about) for rho in result.card.correlations)
    return [*lines, "", *every, *_people_lines(result.card, math.inf)]


def gate_lines(result: Verification) -> list[str]:
    """The faults of the gate and all that holds, in one line; none where there are neither."""
    if not (gate := result.gate):
        return []
    parts = [*result.faults, *([f"holds: {'; '.join(gate.held)}"] if gate.held else [])]
    return [f"Gate: {'; '.join(parts)}"] if parts else []


def verification_answer(result: Verification, most: float = MOST_ANNOTATORS) -> list[str]:
    """What was measured, the figure and what it means, and the judge among the annotators."""
    data, card, unit = result.data, result.card, result.card.unit
    rho, *others = card.correlations
    failed = f", {rho.n_failed:,} failed" if rho.n_failed else ""
    of = f"{result.dimension} by " if card.two_values else ""
    lines = [
        f"{of}{short_name(Path(result.judge).name)} on {data.name}: {data.n_outputs:,} {unit}, "
        f"{counted(data.n_documents, 'document')}{failed}"
    ]
    if data.weighted:
        lines.append("Weighted: documents were drawn with unequal chances.")
    if data.is_constructed:
        lines.append("The labels are constructed from known faults: no person gave them.")
    lines += tuned_on_sentences(result, unit)
    if result.on_met and not card.two_values:
        lines.append(f"On these its rho is {number_text(result.on_met.value)}.")
    agrees = [sentence for _, sentence in agreement(card, data)]
    if card.two_values:
        # The annotators come first: their agreement is what a judge can be held to.
        return [*lines, *_people_lines(card), *agrees, *_association_lines(result)]
    published = f"; most papers would print {number_text(others[0].value)}" if rho.n_zero else ""
    lines.append(f"{result.dimension} {signature(rho, unit, data.n_systems)}{published}")
    if card.pairs:
        lines.append(
            f"accuracy {figure_text(card.order)}, n={card.order.n_pairs:,} of "
            f"{card.pairs.n_pairs:,} pairs that people decided; the same answer in both orders in "
            f"{share_text(card.pairs.order_agreement)}"
        )
    lines += [*agrees, *(sentence for _, sentence in scale_warning(card))]
    return [*lines, *_association_lines(result), *_people_lines(card, most)]


def _association_lines(result: Verification) -> list[str]:
    """What else explains the scores, where that is clear; of several samples their agreement."""
    lines, associations = [], result.associations
    if (length := associations.length) and is_clear(length.judge, length.interval, length.people):
        judge, people = (number_text(rho, signed=True) for rho in (length.judge, length.people))
        lines.append(f"Its scores follow length more than people's: rho {judge}, theirs {people}.")
    if (position := associations.position) and is_clear(position.value, position.interval):
        place, share = "first" if position.value > 0 else "second", (1 + abs(position.value)) / 2
        lines.append(f"It prefers the output shown {place} in {share:.0%} of cases (a coin 50%).")
    if associations.repeats is not None:
        lines.append(
            f"Asked twice, it gives the same verdict in {associations.repeats:.0%} of cases."
        )
    return lines


def _people_lines(card: Scorecard, most: float = 1) -> list[str]:
    """The judge beside each annotator, they beside each other, and the judge as one of them."""
    if not (people := card.people):
        return []
    lines = []
    groups = [
        ("judge and annotators", people.with_judge, most),
        ("annotators", people.among_annotators, max(1, most - MORE_ANNOTATORS)),
    ]
    for who, rows, alone in reversed(groups) if card.two_values else groups:
        each = [(" and ".join(map(_name, people.pair_of(row))), [row]) for row in rows]
        if len(rows) > alone:
            each = [(f"{who}, {len(rows)} pairs", rows)]
        for name, group in each:
            text = f"{name}: equal labels {span_text([row.equal for row in group], share_text)}"
            # Ranges of three figures take two lines.
            if card.two_values or len(group) == 1:
                text += f", kappa {span_text([row.kappa for row in group], number_text)}"
            if not card.two_values:
                text += f", rho {span_text([row.rho for row in group], number_text)}"
            lines.append(text)
    return [*lines, *(sentence for _, sentence in as_one_annotator(card))]


def span_text(values: Sequence[float], text: Callable[[float], str]) -> str:
    """A figure, of several the lowest and the highest."""
    numbers = sorted(value for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys(map(text, numbers[:1] + numbers[-1:]))) or "undefined"


def _name(name: str) -> str:
    """An annotator's name, which may be a number alone."""
    return f"annotator {name}" if name.isdecimal() else short_name(name)
