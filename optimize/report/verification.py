"""A verification in sentences: whether to use the judge, its floors, and what to do next."""

import math
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from judges.tables.problems import count_text
from judges.terminal import wrap_lines
from optimize.figures.as_json import JsonObject, fields_json
from optimize.figures.as_text import (
    VERDICT_PLURALS,
    interval_text,
    looks_text,
    number_text,
)
from optimize.inputs.flags import FLOOR_FIGURES
from optimize.measuring.verification import (
    Associations,
    CheckedFloor,
    CheckFailure,
    Verification,
    exceeds_people,
)
from optimize.report import card
from optimize.report.answer import MAX_VERIFY_LINES, Fact, ReportAnswer, fact_lines, miss_line
from optimize.search.problem import MAX_FAILED_SHARE
from optimize.statistics.floor import FloorOutcome

# The table of all misses of a judge of pass or fail, in the folder of its page.
MISSES_FILE = "misses.csv"


def verification_json(result: Verification) -> JsonObject:
    """Return a verification as JSON, with a text for each floor and for each other failure."""
    outcome = result.floor_check.outcome
    return {
        **fields_json(result, "floor_check"),
        "gate": outcome,
        "looks": result.floor_check.looks,
        "held": _floor_texts(result, "holds"),
        "short": _shortfall_texts(result),
        "undecided": _floor_texts(result, "undecided"),
        "passed": outcome in ("holds", None),
    }


def verification_faults(result: Verification) -> list[str]:
    """Return a line for each floor that a figure is below, or that these labels cannot decide."""
    shortfalls = [f"falls short: {text}" for text in _shortfall_texts(result)]
    return [*shortfalls, *(f"undecided: {text}" for text in _floor_texts(result, "undecided"))]


def _shortfall_texts(result: Verification) -> list[str]:
    """Return the reasons why the judge falls short: its failures, and the figures below floors."""
    limit_text, n_unjudged = f"at most {MAX_FAILED_SHARE:.0%} may", result.n_unjudged
    n_outputs, n_failed = result.data_counts.n_outputs, result.scorecard.rho.n_failed
    failed_text = f"{n_failed / n_outputs:.1%} of the judgements failed"
    unjudged_text = f"{n_unjudged:,} of {n_outputs + n_unjudged:,} labels have no record"
    rows_text = f"{result.overlap.n_rows:,} of these {result.scorecard.unit}s"
    text_by_failure: dict[CheckFailure, str] = {
        "failed judgements": f"{failed_text} ({n_failed:,} of {n_outputs:,}); {limit_text}",
        "missing judgements": f"{unjudged_text}; {limit_text}",
        "tuned rows": f"the judge was tuned on {rows_text}",
        "equal scores": "outputs that people order all get the same score",
    }
    failure_texts = [text_by_failure[failure] for failure in result.floor_check.failures]
    return failure_texts + _floor_texts(result, "falls short")


def _floor_texts(result: Verification, outcome: FloorOutcome) -> list[str]:
    """Return a text for each floor with this outcome: the figure, its interval and the floor."""
    texts = []
    for checked in result.floor_check.floors:
        if checked.outcome != outcome:
            continue
        figure, (figure_name, counted_label, _) = checked.figure, FLOOR_FIGURES[checked.name]
        text = f"{figure_name} undefined"
        if not math.isnan(figure.value):
            text = f"{figure_name} {figure.value:.4f} {interval_text(figure.interval)}"
            text += looks_text(result.floor_check.looks)
        if outcome == "holds":
            text += f" >= {checked.floor:g}"
        else:
            text += f", --min-{checked.name} {checked.floor:g}"
        if outcome == "undecided":
            text += f": {_labels_to_add_text(result, checked, counted_label)}"
        texts.append(text)
    return texts


def _labels_to_add_text(result: Verification, checked: CheckedFloor, counted_label: str) -> str:
    """Return how many more labels would decide about the floor, if the figure stays the same."""
    verdict_figures = result.scorecard.verdict_figures
    n_missing = verdict_figures.judge.n_missing_labels if verdict_figures else {}
    if n_for_interval := n_missing.get(counted_label):
        return f"{count_text(n_for_interval, f'more {counted_label}')} would give an interval"
    if checked.n_labels_to_add:
        labels_text = count_text(checked.n_labels_to_add, f"more {counted_label or 'document'}")
        return f"about {labels_text} would decide, if the judge does as well on them"
    return f"label more {VERDICT_PLURALS.get(counted_label, 'documents')}"


def verification_lines(
    result: Verification, *, with_all_levels: bool = False, page_path: str | None = None
) -> list[str]:
    """Return a verification in at most twelve lines, then its details if `with_all_levels`."""
    footer = "Its errors: --report FILE.html shows them."
    if page_path:  # terminals make a link of a URI
        footer = f"Its errors: {Path(page_path).resolve().as_uri()}"
    # The answer leaves out the faults, because the command prints them as errors below it.
    fault_lines = wrap_lines(
        *(f"dspy-judges verify: {fault}" for fault in verification_faults(result))
    )
    # False passes and false alarms alternate, so that few lines show both.
    kinds, misses = ("false pass", "false alarm"), result.misses or ()
    misses_by_kind = [[miss for miss in misses if miss.kind == kind] for kind in kinds]
    alternating_misses = filter(None, chain(*zip_longest(*misses_by_kind)))
    miss_lines = [miss_line(miss.kind, miss) for miss in alternating_misses]
    lines = verification_answer(result, with_faults=False).lines(
        MAX_VERIFY_LINES - len(fault_lines), details=miss_lines, footer=footer
    )
    if not with_all_levels:
        return lines
    scorecard, counts = result.scorecard, result.data_counts
    facts = [*card.order_facts(scorecard), *card.annotator_facts(scorecard, counts.n_tied or 0)]
    remark_lines = wrap_lines(card.unweighted_sentence(counts), *fact_lines(facts))
    return [*lines, "", *card.correlation_lines(scorecard, counts.n_systems), *remark_lines]


def verification_answer(result: Verification, *, with_faults: bool = True) -> ReportAnswer:
    """Return the answer on a verification, which says first if the judge is above its floors."""
    scorecard, floor_outcome = result.scorecard, result.floor_check.outcome
    judge_name = Path(result.judge).name.removesuffix(".jsonl")
    obstacle = card.obstacle_to_use(scorecard, result.data_counts, result.overlap)
    measured_on = card.measured_sentence(scorecard, result.data_counts)
    if result.n_unjudged:
        unjudged_text = count_text(result.n_unjudged, f"more labelled {scorecard.unit}")
        measured_on += f" {unjudged_text} got no score."
    gate_texts = verification_faults(result) if with_faults else []
    if held_texts := _floor_texts(result, "holds"):
        gate_texts.append(f"holds: {'; '.join(held_texts)}")
    return ReportAnswer(
        title=f"How far does the judge {judge_name} agree with people on {result.dimension}?",
        headline=card.recommendation(scorecard, obstacle, floor_outcome),
        reasons=[
            *([("Gate", "; ".join(gate_texts))] if gate_texts else []),
            *card.rate_facts(scorecard),
            *card.tuning_warnings(result.overlap, scorecard.unit),
            *_association_warnings(result.associations),
        ],
        tiles=card.main_tiles(scorecard),
        measured_on=measured_on,
        facts=[*card.scale_facts(scorecard)],
        next_steps=[verification_step(result, obstacle)],
    )


def _association_warnings(associations: Associations) -> Iterator[Fact]:
    """Yield warnings if scores depend on length or position more than people's labels do."""
    length, position = associations.length, associations.position_bias
    if length and exceeds_people(length.judge_rho, length.interval, length.people_rho):
        own_rho = number_text(length.judge_rho, signed=True)
        people_rho = number_text(length.people_rho, signed=True)
        finding = "The judge's scores follow length more than people's labels do"
        yield "Length", f"{finding}: rho {own_rho} against {people_rho}."
    if position and exceeds_people(position.value, position.interval):
        side, share = "first" if position.value > 0 else "second", (1 + abs(position.value)) / 2
        yield "Order", f"It prefers the output shown {side} in {share:.0%} of cases (a coin: 50%)."


def verification_step(result: Verification, obstacle: card.Obstacle | None) -> str:
    if obstacle and obstacle.remedy:
        return obstacle.remedy
    floor_check, labels_step = result.floor_check, card.labels_advice(result.scorecard, "here")
    outcome = floor_check.outcome
    if outcome == "falls short":
        return "Look at the judge's misses and failures; change its prompt or model, or tune it."
    if obstacle:
        return labels_step or card.LABEL_MORE
    ci_step = card.floors_advice(result.scorecard)
    if outcome == "holds":
        ci_step = "The same command checks it in CI."
    if outcome == "undecided":
        looks_advice = f"Label more; {card.LOOKS_ADVICE}."
        ci_step = looks_advice if floor_check.looks == 1 else card.LABEL_MORE
    return f"{labels_step} {ci_step}".strip()
