"""How a panel is shown: what each member adds, how alike they err, which panels are worth it."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.answer import how_to_use, panel_answer
from optimize.figures import SPLITS, counted, figure_text, interval_text, number_text
from optimize.report import charts
from optimize.report.page import Picture, Section, page, section
from optimize.report.sections import cell_point

# `Composition.record()`, as `summary.json` has it under "composition".
Record = Mapping[str, Any]
KINDS = {"own": "own judge", "mean": "plain mean", "learned": "learned weights"}


def panel_page(summary: Mapping[str, Any]) -> str:
    """The whole page of a panel's run, from its summary with the record of its composition."""
    record, own = summary["composition"], summary["own"]
    return page(
        title=f"A panel for {summary['dimension']}",
        about=(
            f"{counted(len(record['members']), 'judge')} joined on labels of "
            f"{counted(summary['data']['n_outputs'], 'output')}"
        ),
        answer=_answer(summary),
        warnings=[],
        picture=_picture(summary),
        steps=_steps(summary),
        quotable=[],
        notes=[f"The own judge, which a panel has to be as good as, is {own}."],
        sections=[_judges(summary), panel_section(record)],
    )


def _picture(summary: Mapping[str, Any]) -> Picture | None:
    """Own judge and panel on what was held out."""
    rows = {
        title: (cell_point(summary["own_judge"][split]), cell_point(summary["panel"][split]))
        for split, title in SPLITS.items()
        if summary["panel"].get(split) is not None
    }
    if not rows or all(point is None for row in rows.values() for point in row):
        return None
    ships = "the own judge" if summary["shipped"] == "own" else "the panel"
    label = f"{summary['level']}-level rho"
    return Picture(
        charts.forest(rows, ("own judge", "what ships"), label),
        f"Agreement with people of the own judge ({summary['own']}) and of what ships ({ships}), "
        "on labels that neither weights nor choice were learned from, with 95% intervals over "
        "documents.",
    )


def _steps(summary: Mapping[str, Any]) -> list[str]:
    """How to use it, and where another label tells most."""
    steps = [how_to_use(run=True, paired=summary["kind"] == "pairwise")]
    recorded = [
        member["name"]
        for member in summary["members"]
        if member["source"] != "judge" and member["weight"]
    ]
    if recorded:
        steps = [
            f"No judge is written, because {', '.join(recorded)} is a recording and a frozen judge "
            "asks a model. Name a judge in its place to get one."
        ]
    if summary["composition"]["disagreements"]:
        steps.append(
            "If you can label more, begin with the documents that the members rank most "
            "differently: the last table lists them."
        )
    return steps


def _judges(summary: Mapping[str, Any]) -> Section:
    """Every judge alone on test, and what was weighed before one was chosen."""
    return section(
        "The judges and the choice",
        "panel_choice.html",
        judges=[
            [
                member["name"],
                f"{member['weight']:.3f}",
                *_cell_texts(member["test"]),
                str(member["n_failed"]),
                _dollars(member["cost_per_1000_rows"]),
            ]
            for member in sorted(summary["members"], key=lambda member: -member["weight"])
        ],
        candidates=[
            [
                KINDS[candidate["kind"]],
                ", ".join(candidate["members"]),
                number_text(candidate["dev"]),
                *_cell_texts(candidate["gain"]),
                candidate["why"],
            ]
            for candidate in summary["candidates"]
        ],
    )


def _cell_texts(cell: Mapping[str, Any] | None) -> tuple[str, str]:
    """A value and its interval; empty where there is none."""
    if cell is None:
        return "", ""
    return number_text(cell["value"]), interval_text(cell["low"], cell["high"])


def panel_section(record: Record) -> Section:
    """Members, their correlations, panels by cost, and documents that they rank differently."""
    members = record["members"]
    numbered = [f"{place} {member['name']}" for place, member in enumerate(members, start=1)]
    return section(
        "The panel",
        "panel.html",
        record=record,
        effective=number_text(record["effective_judges"]),
        rho=number_text(record["rho"]),
        documents=counted(record["n_documents"], "document"),
        members=[_member_row(name, row) for name, row in zip(numbered, members, strict=True)],
        correlations=[
            [name, *map(number_text, row)]
            for name, row in zip(numbered, record["correlations"], strict=True)
        ],
        numbers=[str(place) for place in range(1, len(members) + 1)],
        panels=[
            [str(number), *_panel_row(panel, members)]
            for number, panel in enumerate(record["panels"], start=1)
        ],
        chart=_front_chart(record["panels"]),
        disagreements=[
            [row["document"], number_text(row["spread"])] for row in record["disagreements"]
        ],
    )


def _shipped(summary: Mapping[str, Any]) -> str:
    sentences = {"own": "The own judge is kept", "mean": "The plain mean of all members ships"}
    return sentences.get(summary["shipped"], "A mean weighted by labels ships")


def _answer(summary: Mapping[str, Any]) -> list[str]:
    """What ships and how it agrees with people, what it costs, and how many judges it is worth."""
    record, test = summary["composition"], summary["panel"]["test"]
    rho = ""
    if test is not None and test["value"] is not None:
        rho = f": rho on test {figure_text(test['value'], test['low'], test['high'])}"
        own = summary["own_judge"]["test"]
        if summary["shipped"] != "own" and own["value"] is not None:
            rho += f"; the own judge's is {figure_text(own['value'], own['low'], own['high'])}"
    return [
        *panel_answer(summary),
        f"{_shipped(summary)}{rho}.",
        f"{summary['why'][:1].upper()}{summary['why'][1:]}.",
        f"By their errors the members are worth {number_text(record['effective_judges'])} judges "
        f"that err independently; 1,000 rows cost {_dollars(record['cost_per_1000'], 'nothing')}.",
    ]


def _member_row(name: str, member: Record) -> list[str]:
    adds = number_text(member["adds"])
    error = "" if member["adds_error"] is None else f" ± {number_text(member['adds_error'])}"
    return [
        name,
        f"{member['weight']:.3f}",
        number_text(member["rho_alone"]),
        number_text(member["rho_without"]),
        f"{adds}{error}",
        f"{member['failure_rate']:.1%}",
        _dollars(member["cost_per_1000"]),
    ]


def _panel_row(panel: Record, members: Sequence[Record]) -> list[str]:
    places = [
        str(place)
        for place, member in enumerate(members, start=1)
        if member["name"] in panel["members"]
    ]
    front = "yes" if panel["on_front"] else "no"
    return [
        " + ".join(places),
        number_text(panel["rho"]),
        _dollars(panel["cost_per_1000"]),
        front,
    ]


def _front_chart(panels: Sequence[Record]) -> str | None:
    """Agreement over cost, where there are two costs or more."""
    points = {
        f"{number} {'+'.join(panel['members'])}": (
            panel["cost_per_1000"],
            (panel["rho"], None),
            panel["on_front"],
        )
        for number, panel in enumerate(panels, start=1)
        if panel["cost_per_1000"] is not None and panel["rho"] is not None
    }
    if len({cost for cost, _, _ in points.values()}) < 2:
        return None
    return charts.pareto(points, "US dollars for 1,000 rows", "rho")


def _dollars(cost: float | None, nothing: str = "free") -> str:
    return "unknown" if cost is None else nothing if cost == 0 else f"${cost:.4f}"
