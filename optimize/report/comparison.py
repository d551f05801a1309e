"""A comparison in words and tables: which judge to use, how sure that is, what each costs."""

from optimize.figures.as_text import cost_text, figure_text, share_text, table_lines, wrapped
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.report.next_steps import comparison_step
from optimize.report.sentences import (
    RATES,
    Table,
    Titled,
    agreement,
    as_one_annotator,
    labels_text,
    paragraphs,
    tuned_on_sentences,
)

COMPARED = (
    "Differences are over the same documents; their 95% intervals hold for all judges together. "
    "$/1,000: for 1,000 rows at list price; ? is an unknown price, - a recording."
)


def comparison_lines(result: JudgeComparison, seconds: float, folder: str) -> list[str]:
    """A comparison for a terminal: which judge to use, then a row each."""
    step = comparison_step(result).replace("`", "")
    left_out = [("Left out", f"{entry.name}: {entry.reason}") for entry in result.left_out]
    cost = f"{cost_text(result.cost_usd)} in {seconds:,.0f} s."
    sentences = [*comparison_answer(result), ("Next", step), *left_out, ("Cost", cost)]
    tables = comparison_tables(result)
    return [
        *wrapped(f"{result.dimension} on {labels_text(result.data, result.card.unit)}"),
        "",
        *paragraphs(sentences),
        "",
        *(line for table in tables for line in table_lines(table.head, table.rows)),
        *wrapped(COMPARED),
        f"Report: {folder}/report.html",
    ]


def comparison_tables(result: JudgeComparison) -> list[Table]:
    """Each judge's figure, its difference from the best and its price; of two values its rates."""
    rows: list[tuple[str, ...]] = []
    rates: list[tuple[str, ...]] = []
    for judge in result.judges:
        gap = judge.difference
        beside = figure_text(gap, signed=True) if gap else judge.standing
        price = price_text(judge, recorded="-", unknown="?")
        rows.append((judge.name, figure_text(judge.card.headline), beside, price))
        if two := judge.card.two_values:
            rates.append((judge.name, *map(figure_text, two.rates)))
    figures = Table(("judge", result.figure_name, "less the best", "$/1,000"), rows)
    return [figures, Table(("judge", *RATES), rates)] if rates else [figures]


def usage_table(result: JudgeComparison) -> Table:
    """What asking each judge took, and for how much it has no score."""
    head = ("judge", "failed", "ties", "seconds for 1,000", "calls", "spent", "plan")
    rows = []
    for judge in result.judges:
        usage, seconds = judge.usage, judge.usage.seconds_per_1000_rows
        asked = ["", "", "recorded"]
        if usage.plan:
            asked = [f"{usage.lm_calls:,}", cost_text(usage.cost_usd), usage.plan]
        failed, ties = f"{judge.card.rho.n_failed:,}", share_text(judge.card.ties)
        rows.append([judge.name, failed, ties, f"{seconds:,.0f}" if seconds else "", *asked])
    return Table(head, rows, "Use and failures.")


def price_text(judge: ComparedJudge, recorded: str, unknown: str) -> str:
    """Dollars for 1,000 rows, or these words where there is no price."""
    if judge.usage.plan is None:
        return recorded
    cost = judge.usage.cost_per_1000_rows
    return unknown if cost is None else cost_text(cost)


def comparison_answer(result: JudgeComparison) -> list[Titled]:
    """Which judge is best, how sure that is, and which of the others are as good."""
    best, *rest = result.judges
    card = best.card
    answer = [
        ("Warning", text)
        for judge in result.judges
        for text in tuned_on_sentences(judge, card.unit, judge.name)
    ]
    answer.append(("Best", f"{best.name} ({result.figure_name} {figure_text(card.headline)})."))
    answer += [*agreement(card, result.data), *as_one_annotator(card)]
    if near := ", ".join(judge.name for judge in rest if judge.standing == "as good"):
        answer.append(("As good", f"within one standard error of it: {near}."))
    if unclear := ", ".join(judge.name for judge in rest if judge.standing == "unclear"):
        answer.append(("Not known", f"whether it is better than {unclear}."))
    if rest and not near and not unclear:
        answer.append(("Sure", "Yes: its figure is clearly above that of every other judge."))
    return answer
