"""A verification in sentences: whether to use the judge, its floors, and what to do next."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from judges.tables.problems import count_text
from optimize.figures.as_text import correlation_line, number_text, wrap_lines
from optimize.measuring.verification import Associations, Verification, exceeds_people
from optimize.report.answer import MAX_VERIFY_LINES, Fact, ReportAnswer, fact_lines
from optimize.report.card import (
    LABEL_MORE,
    LOOKS_ADVICE,
    Obstacle,
    annotator_facts,
    floors_advice,
    labels_advice,
    main_tiles,
    measured_sentence,
    obstacle_to_use,
    order_facts,
    rate_facts,
    recommendation,
    scale_facts,
    tuning_warnings,
    unweighted_sentence,
)

# The file with all misses, next to a page on pass or fail.
MISSES_FILE = "misses.csv"


def verification_lines(
    result: Verification, *, everything: bool = False, page: str | None = None
) -> list[str]:
    """Return a verification in at most twelve lines, or everything; `page` is the page's file."""
    # Faults are left out here, since the command prints them as errors below the answer.
    report_answer = verification_answer(result, with_faults=False)
    card = result.scorecard
    # Terminals make a link of a URI.
    errors = Path(page).resolve().as_uri() if page else "--report FILE.html shows them."
    n_faults = len(wrap_lines(*(f"dspy-judges verify: {fault}" for fault in result.faults)))
    misses = result.misses or ()
    false_passes = [miss for miss in misses if miss.kind == "false pass"]
    false_alarms = [miss for miss in misses if miss.kind == "false alarm"]
    alternating = filter(None, chain(*zip_longest(false_passes, false_alarms)))
    miss_lines = [miss.remarks.as_line(miss.kind, miss.id) for miss in alternating]
    lines = report_answer.lines(
        MAX_VERIFY_LINES - n_faults,
        optional_sentences=miss_lines,
        last_sentences=[f"Its errors: {errors}"],
    )
    if not everything:
        return lines
    all_levels = (
        correlation_line(rho, card.unit, result.data_counts.n_systems) for rho in card.correlations
    )
    facts = [*order_facts(card), *annotator_facts(card, result.data_counts.n_tied or 0)]
    remarks = unweighted_sentence(result.data_counts), *fact_lines(facts)
    return [*lines, "", *dict.fromkeys(all_levels), *wrap_lines(*remarks)]


def verification_answer(result: Verification, *, with_faults: bool = True) -> ReportAnswer:
    """Return the answer on a verification; whether floors hold comes first, if there are any."""
    card, floor_check = result.scorecard, result.floor_check
    judge = Path(result.judge).name.removesuffix(".jsonl")
    obstacle = obstacle_to_use(
        card, result.data_counts, tuned_on_these=result.overlap.tuned_on_these_labels
    )
    measured = measured_sentence(card, result.data_counts)
    if result.n_unjudged:
        unjudged = count_text(result.n_unjudged, f"more labelled {card.unit}")
        measured += f" {unjudged} were not scored."
    floor_texts = [*(result.faults if with_faults else ())]
    if floor_check and floor_check.held:
        floor_texts.append(f"holds: {'; '.join(floor_check.held)}")
    return ReportAnswer(
        title=f"How far does the judge {judge} agree with people on {result.dimension}?",
        headline=recommendation(card, obstacle, floor_check.outcome if floor_check else None),
        reasons=[
            *([("Gate", "; ".join(floor_texts))] if floor_texts else []),
            *rate_facts(card),
            *tuning_warnings(result.overlap, card.unit),
            *_association_warnings(result.associations),
        ],
        tiles=main_tiles(card),
        measured_on=measured,
        facts=[*scale_facts(card)],
        next_steps=[verification_step(result, obstacle)],
    )


def _association_warnings(associations: Associations) -> Iterator[Fact]:
    length, position = associations.length, associations.position_bias
    if length and exceeds_people(length.judge_rho, length.interval, length.people_rho):
        judge, people = (
            number_text(rho, signed=True) for rho in (length.judge_rho, length.people_rho)
        )
        sentence = f"Its rho with length is {judge}, and that of people's labels is {people}."
        yield "Length", sentence
    if position and exceeds_people(position.value, position.interval):
        side, share = "first" if position.value > 0 else "second", (1 + abs(position.value)) / 2
        yield "Order", f"It prefers the output shown {side} in {share:.0%} of cases (a coin: 50%)."


def verification_step(result: Verification, obstacle: Obstacle | None) -> str:
    """Return what to do after a verification."""
    if obstacle and obstacle.remedy:
        return obstacle.remedy
    floor_check, labels_step = result.floor_check, labels_advice(result.scorecard, "here")
    outcome, looks = (floor_check.outcome, floor_check.looks) if floor_check else (None, 1)
    if outcome == "falls short":
        return "Look at its misses and failures; change its prompt or model, or tune it."
    if obstacle:
        return labels_step or LABEL_MORE
    floors_steps = {
        None: floors_advice(result.scorecard),
        "holds": "The same command checks it in CI.",
        "undecided": f"Label more; {LOOKS_ADVICE}." if looks == 1 else LABEL_MORE,
    }
    return f"{labels_step} {floors_steps[outcome]}".strip()
