"""A verification in sentences: whether to use the judge, its floors, and what to do next."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from judges.tables.problems import count_text
from judges.terminal import wrap_lines
from optimize.figures.as_text import number_text
from optimize.measuring.verification import Associations, Verification, exceeds_people
from optimize.report import card
from optimize.report.answer import MAX_VERIFY_LINES, Fact, ReportAnswer, fact_lines

# The table of all misses of a judge of pass or fail, in the folder of its page.
MISSES_FILE = "misses.csv"


def verification_lines(
    result: Verification, *, with_all_levels: bool = False, page_path: str | None = None
) -> list[str]:
    """Return a verification in at most twelve lines, then its details if `with_all_levels`."""
    footer = "Its errors: --report FILE.html shows them."
    if page_path:  # terminals make a link of a URI
        footer = f"Its errors: {Path(page_path).resolve().as_uri()}"
    # The answer leaves out the faults, because the command prints them as errors below it.
    fault_lines = wrap_lines(*(f"dspy-judges verify: {fault}" for fault in result.faults))
    # False passes and false alarms alternate, so that few lines show both.
    kinds, misses = ("false pass", "false alarm"), result.misses or ()
    misses_by_kind = [[miss for miss in misses if miss.kind == kind] for kind in kinds]
    alternating_misses = filter(None, chain(*zip_longest(*misses_by_kind)))
    miss_lines = [miss.remarks.as_line(miss.kind, miss.id) for miss in alternating_misses]
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
    scorecard, floor_check = result.scorecard, result.floor_check
    judge_name = Path(result.judge).name.removesuffix(".jsonl")
    obstacle = card.obstacle_to_use(scorecard, result.data_counts, result.overlap)
    measured_on = card.measured_sentence(scorecard, result.data_counts)
    if result.n_unjudged:
        unjudged_text = count_text(result.n_unjudged, f"more labelled {scorecard.unit}")
        measured_on += f" {unjudged_text} got no score."
    gate_texts = [*result.faults] if with_faults else []
    if floor_check.held:
        gate_texts.append(f"holds: {'; '.join(floor_check.held)}")
    return ReportAnswer(
        title=f"How far does the judge {judge_name} agree with people on {result.dimension}?",
        headline=card.recommendation(scorecard, obstacle, floor_check.outcome),
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
