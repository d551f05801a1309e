"""A verification in words: what was measured, what it means, and the judge among annotators."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from optimize.figures.as_text import (
    address,
    counted,
    interval_text,
    miss_line,
    number_text,
    share_text,
    short_name,
    signature,
    wrapped,
)
from optimize.measuring.associations import is_clear
from optimize.measuring.scorecard import PeopleFigures
from optimize.measuring.verification import Verification
from optimize.report.next_steps import verification_step
from optimize.report.sentences import scale_warning, two_value_sentences
from optimize.statistics.human import AnnotatorAgreement
from optimize.statistics.intervals import PERFECT

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
    table = f", {Path(page).with_suffix(f'.{MISSES}').name}" if page and two else ""
    last = (
        f"Its errors: {address(Path(page))}{table}"
        if page
        else f"Next: {verification_step(result)}"
    )
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
    return [*lines, "", *every, *_people_lines(result.card.people, math.inf)]


def gate_lines(result: Verification) -> list[str]:
    """The faults of the gate and all that holds, in one line; none where there are neither."""
    if not (gate := result.gate):
        return []
    parts = [*result.faults, *([f"holds: {'; '.join(gate.held)}"] if gate.held else [])]
    return [f"Gate: {'; '.join(parts)}"] if parts else []


def verification_answer(result: Verification, most: float = MOST_ANNOTATORS) -> list[str]:
    """What was measured, the figure and what it means, and the judge among the annotators."""
    data, card, unit = result.data, result.card, result.card.unit
    failed = f", {card.rho.n_failed:,} failed" if card.rho.n_failed else ""
    of = f"{result.dimension} by " if card.two_values else ""
    lines = [
        f"{of}{short_name(Path(result.judge).name)} on {data.name}: {data.n_outputs:,} {unit}, "
        f"{counted(data.n_documents, 'document')}{failed}"
    ]
    if data.weighted:
        lines.append("Weighted: documents were drawn with unequal chances.")
    if data.is_constructed:
        lines.append("The labels are constructed from known faults: no person gave them.")
    lines += _on_met_lines(result)
    if n_given := result.n_given:
        are = "is on a document" if n_given == 1 else "are on documents"
        lines.append(
            f"{n_given:,} of these {unit} {are} that it was tuned on, which may flatter it."
        )
    if card.two_values:
        # The annotators come first: their agreement is what a judge can be held to.
        lines += _people_lines(card.people, binary=True)
        return [*lines, *two_value_sentences(card.two_values), *_association_lines(result)]
    lines += [f"{result.dimension} {_headline(result)}", _in_plain_words(result)]
    lines += [sentence for _, sentence in scale_warning(card)]
    return [*lines, *_association_lines(result), *_people_lines(card.people, most)]


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


def _on_met_lines(result: Verification) -> list[str]:
    """What is said of rows that the judge was tuned on."""
    number = f"{result.n_met:,}"
    if result.tuned_on_these_labels:
        unit = result.card.unit
        return [f"It was tuned on {number} of these {unit}, which flatters every figure."]
    if not result.n_met:
        return []
    apart = f"{number} more {result.card.unit} that it was tuned on are set apart"
    if result.card.two_values or not result.on_met:
        return [f"{apart}."]
    return [f"{apart}: rho {number_text(result.on_met.value)}."]


def _headline(result: Verification) -> str:
    """The one figure that the judge is known by; the published convention's where it is another."""
    card = result.card
    rho, *others = card.correlations
    if card.pairs:
        accuracy = f"{number_text(card.order.value)} {interval_text(card.order.interval)}"
        return (
            f"accuracy {accuracy}, rho {number_text(rho.value)}, n={card.order.n_pairs:,} of "
            f"{card.pairs.n_pairs:,} pairs that people decided"
        )
    ends = f" {interval_text(rho.interval)}"
    if rho.interval is None and not 0 < abs(rho.value) < PERFECT:
        ends = ""  # undefined, a constant judge's, or perfect
    systems = f"{result.data.n_systems:,} systems, " if rho.level == "system" else ""
    published = f"; most papers would print {number_text(others[0].value)}" if rho.n_zero else ""
    return (
        f"{rho.level}-level rho {number_text(rho.value)}{ends}, n={systems}"
        f"{counted(rho.n_documents, 'document')}{published}"
    )


def _in_plain_words(result: Verification) -> str:
    """What the headline means."""
    order, pairs = result.card.order, result.card.pairs
    if pairs and math.isnan(pairs.order_agreement):
        share = share_text(order.value)
        return f"It prefers the side that people prefer in {share} of the pairs."
    if pairs:
        same = share_text(pairs.order_agreement)
        return f"It gives the same answer in both orders in {same} of the pairs."
    if math.isnan(order.value):
        return "People tell no two outputs that have a score apart: there is no agreement."
    of_one = "" if result.level == "dataset" else " of one document"
    return f"It orders two outputs{of_one} as people do in {order.value:.0%} of pairs (a coin 50%)."


def _people_lines(
    people: PeopleFigures | None, most: float = MOST_ANNOTATORS, *, binary: bool = False
) -> list[str]:
    """The judge beside each annotator, they beside each other, and the judge as one of them."""
    if not people:
        return []
    groups = [
        ("judge and annotators", people.with_judge, most),
        ("annotators", people.among_annotators, most - MORE_ANNOTATORS),
    ]
    lines = []
    for who, rows, alone in reversed(groups) if binary else groups:
        if len(rows) <= (1 if binary else alone):
            each = [(_pair_name(people.names_of(row)), [row]) for row in rows]
        else:
            each = [(f"{who}, {len(rows)} pairs", rows)]
        lines += [f"{name}: {_agreement_text(group, binary=binary)}" for name, group in each]
    one = people.one_annotator
    if one and not binary:
        gap, verdict = one.gap.interval, "perhaps"
        if gap is None:
            verdict = "not known"
        elif 0 not in gap:
            verdict = "yes" if gap.low > 0 else "no"
        lines.append(
            f"As good as one of these annotators: {verdict} (rho with the others "
            f"{number_text(one.judge.value)}, theirs {number_text(one.annotator.value)})"
        )
    return lines


def _pair_name(names: Sequence[str]) -> str:
    """Two annotators, who may be known by a number alone, or the judge and one."""
    both = names if len(names) == 2 else ("judge", *names)
    return " and ".join(f"annotator {n}" if n.isdecimal() else short_name(n) for n in both)


def _agreement_text(rows: Sequence[AnnotatorAgreement], *, binary: bool) -> str:
    equal = _span([row.equal for row in rows], share_text)
    text = f"equal labels {equal}, kappa {_span([row.kappa for row in rows], number_text)}"
    return text if binary else f"{text}, rho {_span([row.rho for row in rows], number_text)}"


def _span(values: Sequence[float], text: Callable[[float], str]) -> str:
    """A figure, of several the lowest and the highest."""
    numbers = sorted(value for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys(map(text, numbers[:1] + numbers[-1:]))) or "undefined"
