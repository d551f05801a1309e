"""How far judge and people agree: the scorecard, and every level and coefficient."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.figures import interval_of, shown, with_interval
from optimize.report import page
from optimize.report.comparisons import Figure, forest
from optimize.report.findings import Findings

SPLITS = {"dev": "dev", "test": "test", "test_unseen_systems": "test, unseen systems"}
JUDGES = {"seed_judge": "seed", "tuned_judge": "tuned"}
Cell = Mapping[str, Any]


def scorecard(summary: Mapping[str, Any]) -> list[str]:
    """Seed and tuned judge on every split that exists, drawn and as a table."""
    splits = [name for name in SPLITS if summary["seed_judge"].get(name)]
    cells = {name: tuple(summary[judge][name] for judge in JUDGES) for name in splits}
    drawn = {
        SPLITS[name]: (figure_of(seed), figure_of(tuned)) for name, (seed, tuned) in cells.items()
    }
    rows = [
        (SPLITS[name], judge, *_numbers(cell))
        for name, pair in cells.items()
        for judge, cell in zip(JUDGES.values(), pair, strict=True)
    ]
    head = ("split", "judge", "rho", "95 % interval", "outputs", "documents", "undefined", "failed")
    told = (
        f"{str(summary['level']).capitalize()}-level Spearman's rho. The choice was made on dev; "
        "test was touched once, after it. Undefined: documents where one side says the same "
        "of all outputs."
    )
    parts = []
    if any(one for pair in drawn.values() for one in pair):
        label = f"{summary['level']}-level Spearman's rho"
        parts.append(
            page.figure(
                forest(drawn, ("seed", "tuned"), label), "With 95 % intervals over documents."
            )
        )
    return [*parts, page.table(head, rows, told)]


def figure_of(cell: Cell | None) -> Figure | None:
    """A cell as charts take it; None where it is undefined."""
    if cell is None or cell["value"] is None:
        return None
    ends = None if cell["low"] is None else (cell["low"], cell["high"])
    return cell["value"], ends


def _numbers(cell: Cell) -> tuple[str, ...]:
    return (
        shown(cell["value"]),
        interval_of(cell["low"], cell["high"]),
        f"{cell['n_outputs']:,}",
        f"{cell['n_documents']:,}",
        f"{cell['n_undefined']:,}",
        f"{cell['n_failed']:,}",
    )


def all_levels(cells: Sequence[Cell]) -> str:
    """Each level and coefficient of one judge on one split."""
    rows = []
    for cell in cells:
        if cell["level"] != "summary" and cell["undefined"] == "zero":
            # The same again: only documents can be undefined one by one.
            continue
        as_zero = cell["level"] == "summary" and cell["undefined"] == "zero"
        left_out = cell["level"] == "summary" and not as_zero
        rows.append(
            (
                f"{cell['level']}-level {cell['coefficient']}",
                "counted as 0" if as_zero else "left out" if left_out else "",
                *_numbers(cell),
            )
        )
    head = (
        "figure", "undefined documents", "value", "95 % interval", "outputs", "documents",
        "undefined", "failed",
    )  # fmt: skip
    told = "Intervals are drawn at random for each figure, so a third digit may differ elsewhere."
    return page.table(head, rows, told)


def accuracy(found: Findings) -> list[str]:
    """Pairwise accuracy with calibrated ties, where outputs of one document can be compared."""
    one = found.accuracy
    if one is None or not one.n_pairs:
        return []
    return [
        page.paragraph(
            f"Pairwise accuracy with calibrated ties {with_interval(one.value, one.interval)}: the "
            f"share of {one.n_pairs:,} pairs of outputs for one document that judge and people "
            f"order alike, scores no more than {one.threshold:.3g} apart taken as a tie (the best "
            "threshold for these very pairs)."
        )
    ]
