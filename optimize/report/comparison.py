"""A comparison in sentences and tables: which judge to use, how sure that is, and the costs."""

from collections.abc import Iterator
from dataclasses import replace

from optimize.figures.as_text import cost_text, counted, figure_text, share_text
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.report.answer import Answer, Fact, Table
from optimize.report.card import (
    RATES,
    labels_text,
    measured_sentence,
    obstacle_to_use,
    recommendation,
    tiles_of,
    tuning_warnings,
)
from optimize.report.next_steps import comparison_step, judge_to_use

COMPARED = (
    "Differences are over the same documents; their intervals hold for all judges together. "
    "$/1,000: for 1,000 rows at list price."
)


def comparison_lines(result: JudgeComparison, seconds: float, folder: str) -> list[str]:
    """A comparison for a terminal: which judge to use, and a table with a row for each judge."""
    answer = comparison_answer(result)
    left_out = [("Left out", f"{entry.name}: {entry.reason}") for entry in result.left_out]
    cost = ("Cost", f"{cost_text(result.cost_usd)} in {seconds:,.0f} s.")
    answer = replace(answer, facts=[*answer.facts, *left_out, cost])
    return answer.lines(last=[COMPARED, f"Report: {folder}/report.html"])


def comparison_answer(result: JudgeComparison) -> Answer:
    """The answer on which judge to use, with the figures of that one."""
    judge = judge_to_use(result)
    sentence = recommendation(judge.card, obstacle_to_use(judge.card, result.data))
    figures = f"These figures are of {judge.name}. {sentence}"
    return Answer(
        title=f"{result.dimension}: {counted(len(result.judges), 'judge')} side by side",
        headline=comparison_step(result),
        why=[("", figures)],
        tiles=tiles_of(judge.card),
        measured=measured_sentence(judge.card, result.data),
        facts=[*_facts(result), ("Labels", labels_text(result.data, judge.card.unit))],
        tables=_tables(result),
    )


def _facts(result: JudgeComparison) -> Iterator[Fact]:
    """Yield which judges were tuned on these labels, and which may be as good as the best."""
    rest = result.judges[1:]
    for judge in result.judges:
        yield from tuning_warnings(judge, result.card.unit, judge.name)
    near = ", ".join(judge.name for judge in rest if judge.standing == "as good")
    unclear = ", ".join(judge.name for judge in rest if judge.standing == "unclear")
    if near:
        yield "As good", f"within one standard error of the best judge: {near}."
    if unclear:
        yield "Not known", f"whether it is better than {unclear}."
    if rest and not near and not unclear:
        yield "Clear", "The best judge's figure is clearly higher than every other judge's."


def _tables(result: JudgeComparison) -> list[Table]:
    """A table of figures, differences from the best and prices; for pass or fail, one of rates."""
    rows: list[tuple[str, ...]] = []
    rates: list[tuple[str, ...]] = []
    for judge in result.judges:
        gap = judge.difference
        compared = figure_text(gap, signed=True) if gap else judge.standing
        figure = figure_text(judge.card.headline)
        rows.append((judge.name, figure, compared, price_text(judge)))
        if two := judge.card.two_values:
            rates.append((judge.name, *map(figure_text, two.rates)))
    figures = Table(("judge", result.figure_name, "less the best", "$/1,000"), rows, COMPARED)
    return [figures, Table(("judge", *RATES), rates)] if rates else [figures]


def usage_table(result: JudgeComparison) -> Table:
    """A table of each judge's failures and ties, and of its calls, time and cost."""
    head = ("judge", "failed", "ties", "seconds for 1,000", "calls", "spent", "plan")
    rows = []
    for judge in result.judges:
        usage, seconds = judge.usage, judge.usage.seconds_per_1000_rows
        asked = ["", "", "recorded"]
        if usage.plan:
            asked = [f"{usage.lm_calls:,}", cost_text(usage.cost_usd), usage.plan]
        failed, ties = f"{judge.card.rho.n_failed:,}", share_text(judge.card.ties)
        rows.append([judge.name, failed, ties, f"{seconds:,.0f}" if seconds else "", *asked])
    return Table(head, rows, "Failures, calls and costs; seconds are for 1,000 rows.")


def price_text(judge: ComparedJudge) -> str:
    """The dollars for 1,000 rows, or the reason why there is no price."""
    if judge.usage.plan is None:
        return "recorded"
    cost = judge.usage.cost_per_1000_rows
    return "unknown" if cost is None else cost_text(cost)
