"""A comparison in sentences and tables: which judge to use, how sure that is, and the costs."""

import math
from collections.abc import Sequence

from judges.tables.problems import count_text
from optimize.figures.as_text import cost_text, figure_text, share_text
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.report import card
from optimize.report.answer import Fact, ReportAnswer, ReportTable

TABLE_NOTE = (
    "Differences are over the same documents; their intervals hold for all judges together. "
    "$/1,000: for 1,000 rows at list price."
)
# A title and the beginning of a sentence, for two relations of a judge to the best judge.
RELATION_TEXTS = (
    ("as good", "As good", "within one standard error of the best judge:"),
    ("unclear", "Not known", "whether it is better than"),
)


def comparison_lines(result: JudgeComparison, seconds: float, folder: str) -> list[str]:
    """Return the terminal's lines: which judge to use, and a table with a row for each judge."""
    details = [f"Left out: {entry.name}: {entry.why_unscored}" for entry in result.left_out]
    details.append(f"Cost: {cost_text(result.cost_usd)} in {seconds:,.0f} s.")
    footer = f"{TABLE_NOTE}\nReport: {folder}/report.html"
    return comparison_answer(result).lines(details=details, footer=footer)


def comparison_answer(result: JudgeComparison) -> ReportAnswer:
    """Return the answer: which judge is best, and the figures of the judge to use."""
    best, warnings, facts = judge_to_use(result), list[Fact](), list[Fact]()
    scorecard, counts = best.scorecard, result.data_counts
    obstacle = card.obstacle_to_use(scorecard, counts, best.overlap)
    advice = f"These figures are of {best.name}. {card.recommendation(scorecard, obstacle)}"
    for judge in result.judges:
        warnings += card.tuning_warnings(judge.overlap, scorecard.unit, judge.name)
    for relation, title, text in RELATION_TEXTS:
        judge_names = [judge.name for judge in result.judges if judge.relation_to_best == relation]
        if judge_names:
            facts.append((title, f"{text} {', '.join(judge_names)}."))
    side_by_side = " side by side" if len(result.judges) > 1 else ""
    return ReportAnswer(
        title=f"{result.dimension}: {count_text(len(result.judges), 'judge')}{side_by_side}",
        headline=comparison_headline(result),
        reasons=[("", advice), *card.rate_facts(scorecard), *warnings],
        tiles=card.main_tiles(scorecard),
        measured_on=card.measured_sentence(scorecard, counts),
        facts=[*facts, ("Labels", card.labels_text(counts, scorecard.unit))],
        tables=_figure_tables(result),
    )


def _figure_tables(result: JudgeComparison) -> list[ReportTable]:
    rows, rate_rows = list[Sequence[str]](), list[Sequence[str]]()
    text_of_best = "best" if len(result.judges) > 1 else ""
    for judge in result.judges:
        difference, price = judge.difference, judge.judge_entry.usage.cost_per_1000_rows
        difference_text = figure_text(difference, signed=True) if difference else text_of_best
        price_text = "unknown" if price is None else cost_text(price)
        headline_text = figure_text(judge.scorecard.headline)
        rows.append((judge.name, headline_text, difference_text, price_text))
        if figures := judge.scorecard.verdict_figures:
            rate_rows.append((judge.name, *map(figure_text, figures.rates)))
    column_names = ("judge", result.scorecard.headline_name, "less the best", "$/1,000")
    tables = [ReportTable(column_names, rows, TABLE_NOTE)]
    if rate_rows:
        tables.append(ReportTable(("judge", *card.RATE_COLUMNS), rate_rows))
    return tables


def cost_table(result: JudgeComparison) -> ReportTable:
    column_names = ("judge", "failed", "ties", "seconds for 1,000", "calls", "spent", "plan")
    rows = []
    for judge in result.judges:
        usage, scorecard = judge.judge_entry.usage, judge.scorecard
        seconds = usage.seconds_per_1000_rows
        cells = [f"{scorecard.rho.n_failed:,}", share_text(scorecard.tie_share)]
        cells.append(f"{seconds:,.0f}" if seconds else "")
        usage_cells = ["", "", "recorded"]
        if usage.plan:
            usage_cells = [f"{usage.lm_calls:,}", cost_text(usage.cost_usd), usage.plan]
        rows.append([judge.name, *cells, *usage_cells])
    return ReportTable(column_names, rows, "Failures, calls and costs; seconds are for 1,000 rows.")


def judge_to_use(result: JudgeComparison) -> ComparedJudge:
    """Return the cheapest judge as good as the best; the best itself if its price is unknown."""

    def price_or_infinity(judge: ComparedJudge) -> float:
        known_price = judge.judge_entry.usage.cost_per_1000_rows
        return math.inf if known_price is None else known_price

    best = result.judges[0]
    if math.isinf(price_or_infinity(best)):
        return best
    candidates = [judge for judge in result.judges if judge.relation_to_best in ("best", "as good")]
    return min(candidates, key=price_or_infinity)


def comparison_headline(result: JudgeComparison) -> str:
    """Return a sentence on which judge is best, or on which labels to compare judges instead."""
    if result.data_counts.is_constructed:
        return "Compare on labels of your own (`--data FILE`)."
    if result.judges_tuned_on_labels:
        return "Compare again on labels that no judge was tuned on."
    best, *other_judges = result.judges
    if math.isnan(best.scorecard.headline.value):
        return "Compare on labels that differ: on these labels no judge has a figure."
    if not other_judges:
        return f"Only {best.name} was measured, so there is nothing to compare it with."
    if (cheapest := judge_to_use(result)) is not best:
        return (
            f"{cheapest.name} is cheaper, and within a standard error of the best judge; verify "
            "--against tells whether it may replace it."
        )
    if any(judge.relation_to_best != "worse" for judge in other_judges):
        return f"{best.name} has the best figure; more labels would tell whether others are worse."
    return f"{best.name} is the best of these judges."
