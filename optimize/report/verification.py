"""A verification in words: whether to use the judge, whether it holds its floors, the next step."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

from optimize.figures.as_text import address, miss_line, number_text, signature, wrapped
from optimize.measuring.verification import Associations, Verification, is_clear
from optimize.report.answer import SCREEN_LINES, Answer, Titled, titled
from optimize.report.card import (
    card_facts,
    is_useful,
    measured,
    people_facts,
    tiles_of,
    tuned_on,
    verdict_on,
)
from optimize.report.next_steps import verification_step

# With more pairs of annotators their figures stand in one line.
MOST_PEOPLE = 2
# All misses, in a file beside the page on pass and fail.
MISSES = "misses.csv"
GATES = {
    "holds": "It holds its floors.",
    "falls short": "It falls short of what is asked of it.",
    "undecided": "Undecided: these labels cannot tell if it holds its floors.",
}


def verification_lines(
    result: Verification, *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds all correlations and annotators.

    `page` is the file that shows the judge's errors, where one was asked for.
    """
    answer, card, last = verification_answer(result, has_page=bool(page)), result.card, []
    if page:
        more = f", {Path(page).with_suffix(f'.{MISSES}').name}" if card.two_values else ""
        last = [f"Its errors: {address(Path(page))}{more}"]
    if result.faults:  # they are printed as errors, and are lines of the screen, too
        answer = replace(answer, why=answer.why[1:])
    n_faults = len(wrapped(*(f"dspy-judges verify: {fault}" for fault in result.faults)))
    rows = result.misses or ()
    kinds = ([row for row in rows if row["miss"] == kind] for kind in ("false pass", "false alarm"))
    misses = [miss_line(row) for row in chain(*zip_longest(*kinds)) if row]
    extra = [*misses[:2], *titled([*people_facts(card, MOST_PEOPLE)]), *misses[2:]]
    lines = answer.lines(SCREEN_LINES - n_faults, extra=extra, last=last)
    if not everything:
        return lines
    every = (signature(rho, card.unit, result.data.n_systems) for rho in card.correlations)
    return [*lines, "", *dict.fromkeys(every), *titled([*people_facts(card)])]


def verification_answer(result: Verification, *, has_page: bool = True) -> Answer:
    """What to know of a verification; with floors, whether they hold comes first."""
    card, gate = result.card, result.gate
    judge, headline, why = Path(result.judge).name, verdict_on(card, result.data), list[Titled]()
    if result.tuned_on_these_labels:
        headline = "Do not use these figures: it was tuned on these labels, which flatters them."
    held = [f"holds: {'; '.join(gate.held)}"] if gate and gate.held else []
    if parts := [*result.faults, *held]:
        why.append(("Gate", "; ".join(parts)))
    if gate and gate.gate:
        if not is_useful(card) or result.tuned_on_these_labels or result.data.is_constructed:
            why.append(("", headline))
        headline = GATES[gate.gate]
    return Answer(
        title=f"{result.dimension}: {judge} against people, on {result.data.name}",
        headline=headline,
        why=why,
        tiles=tiles_of(card),
        measured=measured(card, result.data),
        facts=[
            *tuned_on(result, card.unit),
            *_on_met(result),
            *card_facts(card),
            *_association_facts(result.associations),
        ],
        steps=[verification_step(result, has_page=has_page)],
    )


def _on_met(result: Verification) -> Iterator[Titled]:
    if result.on_met and not result.card.two_values:
        yield "Set apart", f"On what it was tuned on its rho is {number_text(result.on_met.value)}."


def _association_facts(associations: Associations) -> Iterator[Titled]:
    """Yield what else explains the scores, where that is clear; of several samples how alike."""
    if (length := associations.length) and is_clear(length.judge, length.interval, length.people):
        own, theirs = (number_text(rho, signed=True) for rho in (length.judge, length.people))
        yield "Length", f"Its scores follow length more than people's: rho {own}, theirs {theirs}."
    if (position := associations.position) and is_clear(position.value, position.interval):
        place, share = "first" if position.value > 0 else "second", (1 + abs(position.value)) / 2
        yield "Order", f"It prefers the output shown {place} in {share:.0%} of cases (a coin 50%)."
    if associations.repeats is not None:
        share = associations.repeats
        yield "Asked twice", f"It gives the same verdict in {share:.0%} of cases."
