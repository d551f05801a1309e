"""A verification in sentences: whether to use the judge, its floors, and what to do next."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from optimize.figures.as_text import address, correlation_line, number_text, wrapped
from optimize.measuring.verification import Associations, Verification, is_clear
from optimize.report.answer import SCREEN_LINES, Answer, Fact, fact_lines
from optimize.report.card import (
    card_facts,
    is_worse_than_annotator,
    measured_sentence,
    obstacle_to_use,
    people_facts,
    recommendation,
    tiles_of,
    tuning_warnings,
)
from optimize.report.next_steps import verification_step

# The figures of more pairs of annotators than this are summarised in one line.
MAX_ANNOTATOR_PAIRS = 2
# The file with all misses, next to a page on pass or fail.
MISSES = "misses.csv"
GATE_SENTENCES = {
    "holds": "It holds its floors.",
    "falls short": "It falls short of what is required.",
    "undecided": "Undecided: these labels cannot tell if it holds its floors.",
}


def verification_lines(
    result: Verification, *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds all correlations and annotators.

    `page` is the file of the page with the judge's errors, if there is one.
    """
    # Faults are left out here, since the command prints them as errors below the answer.
    answer = verification_answer(result, has_page=bool(page), with_faults=False)
    card, last_lines = result.card, list[str]()
    if page:
        misses_file = f", {Path(page).with_suffix(f'.{MISSES}').name}" if card.two_values else ""
        last_lines = [f"Its errors: {address(Path(page))}{misses_file}"]
    n_faults = len(wrapped(*(f"dspy-judges verify: {fault}" for fault in result.faults)))
    rows = result.misses or ()
    misses_by_kind = (
        [row for row in rows if row.kind == kind] for kind in ("false pass", "false alarm")
    )
    misses = [
        row.remarks.line(row.kind, row.id) for row in chain(*zip_longest(*misses_by_kind)) if row
    ]
    extra = [*misses[:2], *fact_lines([*people_facts(card, MAX_ANNOTATOR_PAIRS)]), *misses[2:]]
    lines = answer.lines(SCREEN_LINES - n_faults, extra=extra, last=last_lines)
    if not everything:
        return lines
    all_levels = (
        correlation_line(rho, card.unit, result.data.n_systems) for rho in card.correlations
    )
    return [*lines, "", *dict.fromkeys(all_levels), *fact_lines([*people_facts(card)])]


def verification_answer(
    result: Verification, *, has_page: bool = True, with_faults: bool = True
) -> Answer:
    """The answer on a verification; if there are floors, it begins with whether they hold."""
    card, gate = result.card, result.gate
    obstacle = obstacle_to_use(
        card, result.data, tuned_on_these=result.overlap.tuned_on_these_labels
    )
    judge, headline, why = Path(result.judge).name, recommendation(card, obstacle), list[Fact]()
    held_text = [f"holds: {'; '.join(gate.held)}"] if gate and gate.held else []
    if gate_texts := [*(result.faults if with_faults else ()), *held_text]:
        why.append(("Gate", "; ".join(gate_texts)))
    if gate and gate.outcome:
        if obstacle or (gate.outcome == "holds" and is_worse_than_annotator(card)):
            why.append(("", headline))
        headline = GATE_SENTENCES[gate.outcome]
    return Answer(
        title=f"{result.dimension}: {judge} against people, on {result.data.name}",
        headline=headline,
        why=why,
        tiles=tiles_of(card),
        measured=measured_sentence(card, result.data),
        facts=[
            *tuning_warnings(result.overlap, card.unit),
            *_tuned_rows_facts(result),
            *card_facts(card),
            *_association_facts(result.associations),
        ],
        steps=[verification_step(result, obstacle, has_page=has_page)],
    )


def _tuned_rows_facts(result: Verification) -> Iterator[Fact]:
    if (rho := result.rho_on_tuned_rows) and not result.card.two_values:
        yield "Left out", f"Its rho on rows that it was tuned on is {number_text(rho.value)}."


def _association_facts(associations: Associations) -> Iterator[Fact]:
    """Yield whether scores clearly follow length or order, and whether samples agree."""
    if (length := associations.length) and is_clear(length.judge, length.interval, length.people):
        judge, people = (number_text(rho, signed=True) for rho in (length.judge, length.people))
        yield (
            "Length",
            f"Its scores follow length more than people's: rho {judge} against {people}.",
        )
    if (position := associations.position) and is_clear(position.value, position.interval):
        position_text, share = (
            "first" if position.value > 0 else "second",
            (1 + abs(position.value)) / 2,
        )
        yield (
            "Order",
            f"It prefers the output shown {position_text} in {share:.0%} of cases (a coin: 50%).",
        )
    if associations.repeats is not None:
        share = associations.repeats
        yield "Asked twice", f"It gives the same verdict in {share:.0%} of cases."
