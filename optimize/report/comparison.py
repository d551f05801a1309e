"""A comparison in words and tables: which judge to use, how sure that is, what each costs."""

from collections.abc import Iterator

from optimize.figures.as_text import cost_text, figure_text, table_lines, wrapped
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.report.next_steps import comparison_step, price_text
from optimize.report.sentences import (
    RATES,
    TWO_VALUES,
    HeadAndRows,
    Titled,
    agreement,
    as_one_annotator,
    labels_text,
    paragraphs,
    two_value_sentences,
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
    return [
        *wrapped(f"{result.dimension} on {labels_text(result.data, result.card.unit)}"),
        "",
        *paragraphs(sentences),
        "",
        *(line for table in comparison_tables(result) for line in table_lines(*table)),
        *wrapped(COMPARED),
        f"Report: {folder}/report.html",
    ]


def comparison_tables(result: JudgeComparison) -> list[HeadAndRows]:
    """Heads and rows: each judge's figure, its difference from the best, its cost; its rates."""
    rows: list[tuple[str, ...]] = []
    rates: list[tuple[str, ...]] = []
    for judge in result.judges:
        gap = judge.difference
        beside = figure_text(gap, signed=True) if gap else judge.standing
        rows.append((judge.name, figure_text(judge.card.headline), beside, price_text(judge)))
        if two := judge.card.two_values:
            rates.append((judge.name, *map(figure_text, two.rates)))
    tables: list[HeadAndRows] = [(("judge", result.figure_name, "less the best", "$/1,000"), rows)]
    return [*tables, (("judge", *RATES), rates)] if rates else tables


def comparison_answer(result: JudgeComparison) -> list[Titled]:
    """Which judge is best, how sure that is, and which of the others are as good."""
    best, *rest = result.judges
    card = best.card
    answer = [
        ("Warning", text)
        for judge in result.judges
        for text in tuned_on_sentences(judge, card.unit)
    ]
    answer.append(("Best", f"{best.name} ({result.figure_name} {figure_text(card.headline)})."))
    if card.two_values:
        answer += zip(TWO_VALUES, two_value_sentences(card.two_values), strict=True)
    else:
        answer.append(("Agreement", agreement(card, result.data)))
        answer += as_one_annotator(card.people)
    near = ", ".join(judge.name for judge in rest if judge.standing == "as good")
    unclear = ", ".join(judge.name for judge in rest if judge.standing == "unclear")
    if rest and not near and not unclear:
        answer.append(("Sure", "Yes: its figure is clearly above that of every other judge."))
    if near:
        answer.append(("As good", f"within one standard error of it: {near}."))
    if unclear:
        answer.append(("Not known", f"whether it is better than {unclear}."))
    return answer


def tuned_on_sentences(judge: ComparedJudge, unit: str) -> Iterator[str]:
    """Yield on how much of what is compared, and of what is set apart, a judge was tuned."""
    if judge.tuned_on_these_labels:
        yield f"{judge.name} was tuned on {judge.n_met:,} of these {unit}, which flatters it."
    elif judge.n_met:
        yield f"{judge.n_met:,} more {unit} that {judge.name} was tuned on are set apart."
    if judge.n_given:
        yield (
            f"{judge.name} was tuned on documents of {judge.n_given:,} of these {unit}, which "
            "flatters it."
        )
