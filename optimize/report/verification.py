"""A verification in sentences: whether to use the judge, its floors, and what to do next."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    share_text,
)
from optimize.inputs.flags import FLOOR_FIGURES
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.verification import Associations, Verification
from optimize.report import card
from optimize.report.answer import MAX_VERIFY_LINES, Fact, ReportAnswer, fact_lines, miss_line
from optimize.search.problem import MAX_FAILED_SHARE
from optimize.statistics.correlations import Correlation
from optimize.statistics.floor import FloorOutcome, check_floor, interval_for_looks, labels_to_add
from optimize.statistics.intervals import Interval
from optimize.statistics.verdict_rates import Rate

# The table of all misses of a judge of pass or fail, in the folder of its page.
MISSES_FILE = "misses.csv"
# The influence of length or position on scores is reported if it is at least this large.
MIN_ASSOCIATION = 0.1


def verification_json(result: Verification) -> JsonObject:
    """Return a verification as JSON, with the outcome of its floors and a text for each."""
    texts = floor_texts(result)
    outcome = floor_outcome(texts)
    return {
        **fields_json(result, "floors", "looks"),
        "gate": outcome,
        "looks": result.looks,
        "held": texts["holds"],
        "short": texts["falls short"],
        "undecided": texts["undecided"],
        "passed": outcome in ("holds", None),
    }


def floor_faults(texts: Mapping[FloorOutcome, list[str]]) -> list[str]:
    """Return a line for each floor that a figure is below, or that these labels cannot decide."""
    return [f"{name}: {text}" for name in texts if name != "holds" for text in texts[name]]


def floor_outcome(texts: Mapping[FloorOutcome, list[str]]) -> FloorOutcome | None:
    """Return the worst outcome; None if there are no floors and no other reasons to fail."""
    return next((outcome for outcome in texts if texts[outcome]), None)


def floor_texts(result: Verification, *, with_advice: bool = True) -> dict[FloorOutcome, list[str]]:
    """Return a text for each floor, and for each other reason to fail, by outcome; worst first."""
    scorecard, reasons = result.scorecard, [*_reasons_to_fail(result)]
    texts: dict[FloorOutcome, list[str]] = {"falls short": reasons, "undecided": [], "holds": []}
    for name, floor in result.floors.items() if not scorecard.has_same_scores else ():
        figure_name, counted_label, _ = FLOOR_FIGURES[name]
        figure: Correlation | Rate = scorecard.rho
        if scorecard.verdict_figures and counted_label:
            figure = getattr(scorecard.verdict_figures.judge, name)
        figure = replace(figure, interval=interval_for_looks(figure, result.looks))
        outcome, text = check_floor(figure.interval, floor), f"{figure_name} undefined"
        if not math.isnan(figure.value):
            ends_text = f"{interval_text(figure.interval)}{looks_text(result.looks)}"
            text = f"{figure_name} {figure.value:.4f} {ends_text}"
        text += f" >= {floor:g}" if outcome == "holds" else f", --min-{name} {floor:g}"
        if outcome == "undecided" and with_advice:
            text += f": {_labels_to_add_text(scorecard, figure, counted_label, floor)}"
        texts[outcome].append(text)
    return texts


def _reasons_to_fail(result: Verification) -> Iterator[str]:
    n_outputs, n_failed = result.data_counts.n_outputs, result.scorecard.rho.n_failed
    limit_text = f"at most {MAX_FAILED_SHARE:.0%} may"
    if n_failed > MAX_FAILED_SHARE * n_outputs:
        failed_text = f"{n_failed / n_outputs:.1%} of the judgements failed"
        yield f"{failed_text} ({n_failed:,} of {n_outputs:,}); {limit_text}"
    if not result.floors:
        return
    n_labels = n_outputs + result.n_unjudged
    if result.n_unjudged > MAX_FAILED_SHARE * n_labels:
        yield f"{result.n_unjudged:,} of {n_labels:,} labels have no record; {limit_text}"
    if result.overlap.tuned_on_these_labels:
        yield f"the judge was tuned on {result.overlap.n_rows:,} of these {result.scorecard.unit}s"
    if result.scorecard.has_same_scores:
        yield "outputs that people order all get the same score"


def _labels_to_add_text(
    scorecard: Scorecard, figure: Correlation | Rate, counted_label: str, floor: float
) -> str:
    """Return how many more labels would decide about the floor, if the figure stays the same."""
    figures = scorecard.verdict_figures
    n_missing = figures.judge.n_missing_labels if figures else {}
    if n_for_interval := n_missing.get(counted_label):
        return f"{count_text(n_for_interval, f'more {counted_label}')} would give an interval"
    if n_to_add := labels_to_add(figure, floor):
        labels_text = count_text(n_to_add, f"more {counted_label or 'document'}")
        return f"about {labels_text} would decide, if the judge does as well on them"
    return f"label more {VERDICT_PLURALS.get(counted_label, 'documents')}"


def verification_lines(
    result: Verification, *, with_all_levels: bool = False, page_path: str | None = None
) -> list[str]:
    """Return a verification in at most twelve lines, then its details if `with_all_levels`."""
    footer = "Its errors: --report FILE.html shows them."
    if page_path:  # terminals make a link of a URI
        footer = f"Its errors: {Path(page_path).resolve().as_uri()}"
    # The command prints the faults as errors below the answer, with the labels to add.
    fault_lines = wrap_lines(
        *(f"dspy-judges verify: {fault}" for fault in floor_faults(floor_texts(result)))
    )
    # False passes and false alarms alternate, so that few lines show both.
    kinds, misses = ("false pass", "false alarm"), result.misses or ()
    misses_by_kind = [[miss for miss in misses if miss.kind == kind] for kind in kinds]
    alternating_misses = filter(None, chain(*zip_longest(*misses_by_kind)))
    miss_lines = [miss_line(miss.kind, miss) for miss in alternating_misses]
    lines = verification_answer(result, with_advice=False).lines(
        MAX_VERIFY_LINES - len(fault_lines), details=miss_lines, footer=footer
    )
    if not with_all_levels:
        return lines
    scorecard, counts = result.scorecard, result.data_counts
    facts = [*card.annotator_facts(scorecard, counts.n_tied or 0)]
    if figures := scorecard.pair_figures:
        shares = map(share_text, (figures.accuracy_order_ab, figures.accuracy_order_ba))
        sentence = "{} with A first, {} with B first".format(*shares)
        facts.insert(0, ("accuracy in one order", sentence))
    remark_lines = wrap_lines(card.unweighted_sentence(counts), *fact_lines(facts))
    return [*lines, "", *card.correlation_lines(scorecard, counts.n_systems), *remark_lines]


def verification_answer(result: Verification, *, with_advice: bool = True) -> ReportAnswer:
    """Return the answer on a verification, which says first if the judge is above its floors."""
    scorecard, texts = result.scorecard, floor_texts(result, with_advice=with_advice)
    outcome = floor_outcome(texts)
    judge_name = Path(result.judge).name.removesuffix(".jsonl")
    obstacle = card.obstacle_to_use(scorecard, result.data_counts, result.overlap)
    measured_on = card.measured_sentence(scorecard, result.data_counts)
    if result.n_unjudged:
        unjudged_text = count_text(result.n_unjudged, f"more labelled {scorecard.unit}")
        measured_on += f" {unjudged_text} got no score."
    gate_texts = [f"{name}: {'; '.join(floors)}" for name, floors in texts.items() if floors]
    return ReportAnswer(
        title=f"How far does the judge {judge_name} agree with people on {result.dimension}?",
        headline=card.recommendation(scorecard, obstacle, outcome),
        reasons=[
            *([("Gate", "; ".join(gate_texts))] if gate_texts else []),
            *card.rate_facts(scorecard),
            *card.tuning_warnings(result.overlap, scorecard.unit),
            *_association_warnings(result.associations),
        ],
        tiles=card.main_tiles(scorecard),
        measured_on=measured_on,
        facts=[*card.scale_facts(scorecard)],
        next_steps=[verification_step(result, obstacle, outcome)],
    )


def _association_warnings(associations: Associations) -> Iterator[Fact]:
    length, position = associations.length, associations.position_bias
    if length and _exceeds(length.judge_rho, length.people_rho, length.interval):
        own_rho = number_text(length.judge_rho, signed=True)
        people_rho = number_text(length.people_rho, signed=True)
        finding = "The judge's scores follow length more than people's labels do"
        yield "Length", f"{finding}: rho {own_rho} against {people_rho}."
    if position and _exceeds(position.value, 0, position.interval):
        side, share = "first" if position.value > 0 else "second", (1 + abs(position.value)) / 2
        yield "Order", f"It prefers the output shown {side} in {share:.0%} of cases (a coin: 50%)."


def _exceeds(value: float, reference: float, difference_interval: Interval | None) -> bool:
    """Return whether a judge's figure, such as its rho with length, clearly exceeds another."""
    is_large = abs(value - reference) >= MIN_ASSOCIATION and abs(value) > abs(reference)
    return is_large and difference_interval is not None and 0 not in difference_interval


def verification_step(
    result: Verification, obstacle: card.Obstacle | None, outcome: FloorOutcome | None
) -> str:
    if obstacle and obstacle.remedy:
        return obstacle.remedy
    labels_step = card.labels_advice(result.scorecard)
    if outcome == "falls short":
        return "Look at the judge's misses and failures; change its prompt or model, or tune it."
    if obstacle:
        return labels_step or card.LABEL_MORE
    ci_step = card.floors_advice(result.scorecard)
    if outcome == "holds":
        ci_step = "The same command checks it in CI."
    if outcome == "undecided":
        labels_step = labels_step or card.LABEL_MORE
        looks_step = f"{labels_step.removesuffix('.')}; {card.LOOKS_ADVICE}."
        return looks_step if result.looks == 1 else labels_step
    return f"{labels_step} {ci_step}".strip()
