"""A comparison in sentences and tables: which judge to use, how sure that is, and the costs."""

import math
from dataclasses import replace

from judges.tables.problems import count_text
from optimize.figures.as_text import cost_text, figure_text, share_text
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.report.answer import Fact, ReportAnswer, ReportTable
from optimize.report.card import (
    RATE_COLUMNS,
    labels_text,
    main_tiles,
    measured_sentence,
    obstacle_to_use,
    rate_facts,
    recommendation,
    tuning_warnings,
)

TABLE_NOTE = (
    "Differences are over the same documents; their intervals hold for all judges together. "
    "$/1,000: for 1,000 rows at list price."
)
# Titles and sentences on judges that may be as good as the best one.
RELATION_TEXTS = (
    ("as good", "As good", "within one standard error of the best judge:"),
    ("unclear", "Not known", "whether it is better than"),
)


def comparison_lines(result: JudgeComparison, seconds: float, folder: str) -> list[str]:
    """Return the terminal's lines: which judge to use, and a table with a row for each judge."""
    report_answer = comparison_answer(result)
    left_out = [("Left out", f"{entry.name}: {entry.why_unscored}") for entry in result.left_out]
    cost = ("Cost", f"{cost_text(result.cost_usd)} in {seconds:,.0f} s.")
    report_answer = replace(report_answer, facts=[*report_answer.facts, *left_out, cost])
    return report_answer.lines(last_sentences=[TABLE_NOTE, f"Report: {folder}/report.html"])


def comparison_answer(result: JudgeComparison) -> ReportAnswer:
    """Return the answer, which says which judge is best and has the figures of the judge to use."""
    judge, warnings = judge_to_use(result), list[Fact]()
    obstacle = obstacle_to_use(
        judge.scorecard, result.data_counts, tuned_on_these=judge.overlap.tuned_on_these_labels
    )
    figures = f"These figures are of {judge.name}. {recommendation(judge.scorecard, obstacle)}"
    for each in result.judges:
        warnings += tuning_warnings(each.overlap, result.scorecard.unit, each.name)
    facts: list[Fact] = []
    side_by_side = " side by side" if len(result.judges) > 1 else ""
    for relation, title, text in RELATION_TEXTS:
        names = ", ".join(each.name for each in result.judges if each.relation_to_best == relation)
        facts += [(title, f"{text} {names}.")] if names else []
    return ReportAnswer(
        title=f"{result.dimension}: {count_text(len(result.judges), 'judge')}{side_by_side}",
        headline=comparison_step(result),
        reasons=[("", figures), *rate_facts(judge.scorecard), *warnings],
        tiles=main_tiles(judge.scorecard),
        measured_on=measured_sentence(judge.scorecard, result.data_counts),
        facts=[*facts, ("Labels", labels_text(result.data_counts, judge.scorecard.unit))],
        tables=_tables(result),
    )


def _tables(result: JudgeComparison) -> list[ReportTable]:
    """Return a table of figures, differences and prices; for pass or fail, also one of rates."""
    rows: list[tuple[str, ...]] = []
    rate_rows: list[tuple[str, ...]] = []
    best_text = "best" if len(result.judges) > 1 else ""
    for judge in result.judges:
        difference, cost = judge.difference, judge.judge_entry.usage.cost_per_1000_rows
        difference_text = figure_text(difference, signed=True) if difference else best_text
        price = "unknown" if cost is None else cost_text(cost)
        rows.append((judge.name, figure_text(judge.scorecard.headline), difference_text, price))
        if binary := judge.scorecard.verdict_figures:
            rate_rows.append((judge.name, *map(figure_text, binary.rates)))
    figures = ReportTable(
        ("judge", result.scorecard.headline_name, "less the best", "$/1,000"), rows, TABLE_NOTE
    )
    return [figures, ReportTable(("judge", *RATE_COLUMNS), rate_rows)] if rate_rows else [figures]


def usage_table(result: JudgeComparison) -> ReportTable:
    """Return a table of each judge's failures and ties, and of its calls, time and cost."""
    header = ("judge", "failed", "ties", "seconds for 1,000", "calls", "spent", "plan")
    rows = []
    for judge in result.judges:
        usage, seconds = judge.judge_entry.usage, judge.judge_entry.usage.seconds_per_1000_rows
        usage_cells = ["", "", "recorded"]
        if usage.plan:
            usage_cells = [f"{usage.lm_calls:,}", cost_text(usage.cost_usd), usage.plan]
        failed, ties = f"{judge.scorecard.rho.n_failed:,}", share_text(judge.scorecard.tie_share)
        rows.append([judge.name, failed, ties, f"{seconds:,.0f}" if seconds else "", *usage_cells])
    return ReportTable(header, rows, "Failures, calls and costs; seconds are for 1,000 rows.")


def judge_to_use(result: JudgeComparison) -> ComparedJudge:
    """Return the cheapest judge that is best or as good; the best if its price is unknown."""
    best = result.judges[0]
    if best.judge_entry.usage.cost_per_1000_rows is None:
        return best
    candidates = (judge for judge in result.judges if judge.relation_to_best in ("best", "as good"))
    priced_judges = [
        judge for judge in candidates if judge.judge_entry.usage.cost_per_1000_rows is not None
    ]
    return min(priced_judges, key=lambda judge: judge.judge_entry.usage.cost_per_1000_rows or 0.0)


def comparison_step(result: JudgeComparison) -> str:
    """Return a sentence on which judge is best, or on what to compare instead."""
    if result.data_counts.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if any(judge.overlap.tuned_on_these_labels for judge in result.judges):
        return "Compare again on labels that no judge was tuned on."
    best, *other_judges = result.judges
    if math.isnan(best.scorecard.headline.value):
        return "Compare on labels that differ: none of the judges has a figure on these."
    if not other_judges:
        return f"Only {best.name} was measured, so there is nothing to compare it with."
    if (cheapest := judge_to_use(result)) is not best:
        return (
            f"{cheapest.name} is cheaper, and within a standard error of the best judge; verify "
            "--against tells whether it may replace it."
        )
    if any(judge.relation_to_best != "worse" for judge in other_judges):
        return f"{best.name} has the best figure; more labels would tell whether it is better."
    return f"{best.name} is the best of these judges."
