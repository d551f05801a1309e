"""How far judge and people agree: scorecard, pairs, the human ceiling, every level."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.figures import (
    CHOSEN_ON_DEV,
    CONVENTIONS,
    counted,
    interval_of,
    many_failed,
    one_line,
    shown,
    with_interval,
)
from optimize.report import charts
from optimize.report.measures import Measures, PairMeasures, PeopleMeasures
from optimize.report.page import Section, Tile, section
from optimize.run.judged_split import JudgedSplit
from optimize.statistics.agreement import PRIMARY
from optimize.statistics.bootstrap import Interval
from optimize.statistics.systems import MIN_SYSTEMS

SPLITS = {"dev": "dev", "test": "test", "test_unseen_systems": "test, unseen systems"}
JUDGES = {"seed_judge": "seed", "tuned_judge": "tuned"}
COEFFICIENTS = {
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau-b",
    "pearson": "Pearson's r",
}
# A correlation as summary.json and `optimize.verify --json` have it.
Cell = Mapping[str, Any]


def scorecard(
    summary: Mapping[str, Any], pairs: Mapping[str, Mapping[str, PairMeasures]]
) -> Section:
    """Seed and tuned judge on every split that exists; of pairs `pairs[judge][split]` as well."""
    splits = [name for name in SPLITS if summary["seed_judge"].get(name)]
    cells = {name: tuple(summary[judge][name] for judge in JUDGES) for name in splits}
    points = {SPLITS[name]: (_point(seed), _point(tuned)) for name, (seed, tuned) in cells.items()}
    chart = None
    if any(point for both in points.values() for point in both):
        label = f"{summary['level']}-level Spearman's rho"
        chart = charts.forest(points, ("seed", "tuned"), label)
    return section(
        "Scorecard",
        "scorecard.html",
        level=str(summary["level"]),
        unit="pairs" if pairs else "outputs",
        accuracy=[
            (
                SPLITS[split],
                judge,
                shown(accuracy.value),
                _interval(accuracy.interval),
                f"{accuracy.n_decided:,}",
                f"{accuracy.n_documents:,}",
                f"{measures[split].rate.n_failed:,}",
            )
            for split in next(iter(pairs.values()), {})
            for judge, measures in pairs.items()
            for accuracy in (measures[split].accuracy,)
        ],
        chart=chart,
        rows=[
            (SPLITS[name], judge, *_numbers(cell))
            for name, both in cells.items()
            for judge, cell in zip(JUDGES.values(), both, strict=True)
        ],
        chosen_on_dev=sentence(CHOSEN_ON_DEV),
        stand_ins=sentence(summary.get("stand_ins")),
    )


def people_section(people: PeopleMeasures, name: str) -> Section:
    """The judge among the annotators: the human ceiling, its share, and who is out of line."""
    ceiling, chart = people.ceiling, None
    if ceiling is not None and ceiling.human == ceiling.human:
        bars = {
            "people, one against the rest": (ceiling.human, ceiling.human_interval),
            "judge, against the same rest": (ceiling.judge, ceiling.judge_interval),
        }
        known = {label: point for label, point in bars.items() if point[0] == point[0]}
        chart = charts.bars(known, f"{ceiling.level}-level Spearman's rho", name)
    return section(
        "People among themselves",
        "people.html",
        people=people,
        share=share_of_ceiling(people) or (f"{ceiling.share:.0%}" if ceiling else ""),
        chart=chart,
        rows=[
            (
                people.annotators[left_out.annotator],
                shown(left_out.value),
                shown(left_out.judge),
                f"{left_out.bias:+.2f}",
                f"{left_out.n_outputs:,}",
                f"{left_out.n_documents:,}",
                "yes" if left_out.outlying else "no",
            )
            for left_out in (ceiling.left_out if ceiling else ())
        ],
    )


def share_of_ceiling(people: PeopleMeasures) -> str:
    """The share with its interval, in words; empty where it is withheld."""
    ceiling = people.ceiling
    if ceiling is None or ceiling.share_interval is None:
        return ""
    interval = ceiling.share_interval
    return f"{ceiling.share:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


def people_tiles(people: PeopleMeasures) -> list[Tile]:
    """The share as a figure to see first; nothing where it is withheld."""
    share, _, interval = share_of_ceiling(people).partition(" ")
    if not share or people.ceiling is None:
        return []
    n = counted(people.ceiling.n_documents, "document")
    return [Tile("share of the human ceiling", share, f"{interval}, n={n}")]


def pairs_section(pairs: PairMeasures, judged: JudgedSplit, of: str) -> Section:
    """A pairwise judge: accuracy, both orders, and the pull of position and length."""
    rate = pairs.rate
    position = (rate.position_bias, rate.position_bias_low, rate.position_bias_high)
    return section(
        "Pairs",
        "pairs.html",
        of=of,
        rate=rate,
        people_rate=pairs.people_rate,
        n_pairs=len(judged.items),
        accuracy=pairs.accuracy,
        a_first=_accuracy_in_order(judged, "order_ab"),
        b_first=_accuracy_in_order(judged, "order_ba"),
        position_bias=_with_ends(*position),
        win_rate=_with_ends(rate.win_rate_a, rate.low, rate.high),
    )


def pairs_headline(pairs: PairMeasures) -> str:
    """What a reader wants to know first."""
    if not pairs.rate.n:
        return "The judge preferred a side of no pair at all, so there is nothing to report."
    if not pairs.accuracy.n_decided:
        return "There is no accuracy to report: people decided none of the pairs that have a score."
    return (
        f"Judge and people prefer the same side of {pairs.accuracy.value:.0%} of the pairs; "
        "tossing a coin reaches 50%."
    )


def quotable_lines(
    name: str,
    cell: Cell,
    measures: Measures,
    *,
    unit: str,
    n_systems: int,
    published: Cell | None,
) -> list[str]:
    """Lines that can go into a paper: rho, of pairs the accuracy, and rho as published tables.

    `published` is rho by their convention, where undefined documents make it another.
    """
    lines = [one_line(name, {**cell, "undefined": PRIMARY}, unit=unit, n_systems=n_systems)]
    if measures.pairs:
        return [_accuracy_line(name, measures.pairs), *lines]
    return [*lines, one_line(name, published, unit=unit)] if published else lines


def _accuracy_line(name: str, pairs: PairMeasures) -> str:
    accuracy, rate = pairs.accuracy, pairs.rate
    return (
        f"{name} accuracy, both orders together "
        f"{with_interval(accuracy.value, accuracy.interval)} "
        f"n={accuracy.n_decided} decided pairs of {rate.n + rate.n_failed}, "
        f"{accuracy.n_documents} documents "
        f"({accuracy.n_ties} ties by the judge, half right; {rate.n_failed} failed)"
    )


def pairs_tiles(pairs: PairMeasures, rho: Cell, where: str = "") -> list[Tile]:
    """Accuracy, then how the margins rank, then whether the order decides."""
    accuracy, flips = pairs.accuracy, pairs.rate.flip_rate
    return [
        Tile(
            f"accuracy{where}",
            shown(accuracy.value),
            f"{_interval(accuracy.interval)}, n={accuracy.n_decided:,} decided pairs",
        ),
        Tile(
            f"dataset-level rho of margins{where}",
            shown(rho["value"]),
            f"{interval_of(rho['low'], rho['high'])}, n={rho['n_outputs']:,} pairs",
        ),
        Tile(
            f"same answer in both orders{where}",
            f"{1 - flips:.0%}" if flips == flips else "undefined",
            f"n={pairs.rate.n:,} pairs",
        ),
    ]


def rho_tile(name: str, cell: Cell) -> Tile:
    """A correlation to see first, with its interval and n."""
    interval = interval_of(cell["low"], cell["high"])
    n = counted(cell["n_documents"], "document")
    return Tile(name, shown(cell["value"]), f"{interval}, n={n}")


def levels_section(
    cells: Sequence[Cell], measures: Measures, judged: JudgedSplit, of: str
) -> Section:
    """Each level and coefficient of one judge on one split, by both conventions where they differ.

    Beside them pairwise accuracy, where outputs of one document can be compared.
    """
    unit = "pairs" if measures.pairs else "outputs"
    both = any(cell["level"] == "summary" and cell["n_undefined"] for cell in cells)
    accuracy = measures.accuracy
    return section(
        "All coefficients" if measures.pairs else "All levels",
        "levels.html",
        of=of,
        unit=unit,
        levels={cell["level"] for cell in cells},
        n_systems=len(judged.items.systems),
        fewest_systems=MIN_SYSTEMS,
        head=(
            "level", "coefficient", *(("convention",) if both else ()), "value", "95 % interval",
            unit, "documents", "undefined", "failed",
        ),
        rows=[
            (
                cell["level"],
                COEFFICIENTS[cell["coefficient"]],
                *((convention_of(cell),) if both else ()),
                *_numbers(cell),
            )
            for cell in by_convention(cells)
        ]
        if any(cell["n_outputs"] for cell in cells)
        else [],
        accuracy=accuracy if accuracy and accuracy.n_pairs else None,
    )  # fmt: skip


def by_convention(cells: Sequence[Cell]) -> list[Cell]:
    """The cells by the primary convention, and as published tables have those that differ."""
    differ = any(cell["level"] == "summary" and cell["n_undefined"] for cell in cells)
    return [
        cell
        for cell in cells
        if cell["undefined"] == PRIMARY
        or (cell["undefined"] == "left_out" and cell["level"] == "summary" and differ)
    ]


def convention_of(cell: Cell) -> str:
    """What became of documents without a correlation, in words; at other levels there are none."""
    return CONVENTIONS[cell["undefined"]] if cell["level"] == "summary" else ""


def failures_first(n_failed: int, number: int, unit: str) -> str:
    """What a headline begins with where more than a few judgements failed."""
    failed = many_failed(n_failed, number, unit)
    return f"{failed} " if failed else ""


def sentence(clause: str | None) -> str:
    """With a capital and a full stop; empty where there is none."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""


def _point(cell: Cell | None) -> charts.Point | None:
    if cell is None or cell["value"] is None:
        return None
    interval = None if cell["low"] is None else Interval(cell["low"], cell["high"])
    return cell["value"], interval


def _numbers(cell: Cell) -> tuple[str, ...]:
    return (
        shown(cell["value"]),
        interval_of(cell["low"], cell["high"]),
        f"{cell['n_outputs']:,}",
        f"{cell['n_documents']:,}",
        f"{cell['n_undefined']:,}",
        f"{cell['n_failed']:,}",
    )


def _interval(interval: Interval | None) -> str:
    return interval_of(interval.low, interval.high) if interval else interval_of(None, None)


def _with_ends(value: float, low: float, high: float) -> str:
    return f"{shown(value)} {interval_of(low, high)}" if value == value else "undefined"


def _accuracy_in_order(judged: JudgedSplit, order: str) -> dict[str, Any]:
    """Accuracy of the one order, and on how many pairs."""
    right = [
        getattr(verdict, order) == ("A" if human > 0 else "B")
        for verdict, human in zip(judged.verdicts, judged.human, strict=True)
        if human != 0 and getattr(verdict, order) is not None
    ]
    return {"share": sum(right) / len(right) if right else None, "n": len(right)}
