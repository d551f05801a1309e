"""How a panel is shown: how it agrees with people, and what each member adds."""

from collections.abc import Mapping
from typing import Any

from optimize.answer import how_to_use, panel_answer
from optimize.figures import counted, figure_text, interval_text, number_text
from optimize.report.page import page, section
from optimize.report.sections import sentence, shares_picture

KINDS = {"own": "best single judge", "mean": "plain mean", "learned": "learned weights"}


def panel_page(summary: Mapping[str, Any]) -> str:
    """The whole page of a panel's run, from its summary with the record of its composition."""
    record = summary["composition"]
    shares = {
        f"{title}{where}": summary["order"][split][judge]
        for split, where in (("test", ""), ("test_unseen_systems", ", unseen systems"))
        if split in summary["order"]
        for judge, title in (("panel", "what ships"), ("own_judge", "best judge"))
    }
    why_no_judge = summary.get("why_no_judge")
    return page(
        title=f"A panel for {summary['dimension']}",
        about=(
            f"{counted(len(record['members']), 'judge')} joined on labels of "
            f"{counted(summary['data']['n_outputs'], 'output')}"
        ),
        answer=_answer(summary),
        warnings=[f"{why_no_judge}."] if why_no_judge else [],
        picture=shares_picture(shares, summary) if shares else None,
        steps=[] if why_no_judge else [how_to_use(run=True, paired=summary["kind"] == "pairwise")],
        notes=[],
        quotable=[],
        sections=[
            section(
                "The panel",
                "panel.html",
                why=sentence(summary["why"]),
                documents=counted(record["n_documents"], "document"),
                members=[_member_row(row) for row in record["members"]],
                candidates=[
                    (
                        KINDS[candidate["kind"]],
                        ", ".join(candidate["members"]),
                        number_text(candidate["dev"]),
                        *_cell_texts(candidate["gain"]),
                        candidate["why"],
                    )
                    for candidate in summary["candidates"]
                ],
                judges=[
                    (member["name"], *_cell_texts(member["test"]), str(member["n_failed"]))
                    for member in summary["members"]
                ],
            )
        ],
    )


def _answer(summary: Mapping[str, Any]) -> list[str]:
    """What ships, how it agrees with people, and what it costs."""
    test, own = summary["panel"]["test"], summary["own_judge"]["test"]
    rho = ""
    if test is not None and test["value"] is not None:
        rho = f": rho on test {figure_text(test['value'], test['low'], test['high'])}"
        if summary["shipped"] != "own" and own["value"] is not None:
            figure = figure_text(own["value"], own["low"], own["high"])
            rho += f"; the best single judge, {summary['own']}, has {figure}"
    cost = _dollars(summary["composition"]["cost_per_1000"])
    return [
        *panel_answer(summary),
        f"What ships is the {KINDS[summary['shipped']]}{rho}. 1,000 rows: {cost}.",
    ]


def _cell_texts(cell: Mapping[str, Any] | None) -> tuple[str, str]:
    """A value and its interval; empty where there is none."""
    if cell is None:
        return "", ""
    return number_text(cell["value"]), interval_text(cell["low"], cell["high"])


def _member_row(member: Mapping[str, Any]) -> tuple[str, ...]:
    error = "" if member["adds_error"] is None else f" ± {number_text(member['adds_error'])}"
    return (
        member["name"],
        f"{member['weight']:.3f}",
        number_text(member["rho_alone"]),
        number_text(member["rho_without"]),
        f"{number_text(member['adds'])}{error}",
        f"{member['failure_rate']:.1%}",
        _dollars(member["cost_per_1000"]),
    )


def _dollars(cost: float | None) -> str:
    return "cost unknown" if cost is None else "free" if cost == 0 else f"${cost:.4f}"
