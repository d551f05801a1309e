"""How far judge and people agree: the scorecard, and every level and coefficient."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.agreement import PRIMARY
from optimize.figures import CHOSEN_ON_DEV, CONVENTIONS, counted, interval_of, shown, with_interval
from optimize.report import page
from optimize.report.comparisons import Figure, forest
from optimize.report.findings import Findings, Pairs
from optimize.statistics.systems import FEWEST

SPLITS = {"dev": "dev", "test": "test", "test_unseen_systems": "test, unseen systems"}
JUDGES = {"seed_judge": "seed", "tuned_judge": "tuned"}
LEVELS = {
    "summary": "summary level: within each document, averaged over documents",
    "dataset": "dataset level: over all {unit} at once",
    "system": "system level: over the means of n={n} systems; the interval speaks for other "
    "systems like these, too",
}
COEFFICIENTS = {
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau-b",
    "pearson": "Pearson's r",
}
Cell = Mapping[str, Any]


def scorecard(summary: Mapping[str, Any], *, pairs: bool = False) -> list[str]:
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
    unit = "pairs" if pairs else "outputs"
    head = ("split", "judge", "rho", "95 % interval", unit, "documents", "undefined", "failed")
    told = [
        f"{str(summary['level']).capitalize()}-level Spearman's rho{' of margins' * pairs}.",
        f"{CHOSEN_ON_DEV[0].upper()}{CHOSEN_ON_DEV[1:]}.",
    ]
    if summary["level"] == "summary":
        told.append(
            "Undefined: documents where one side says the same of all outputs; "
            f"{CONVENTIONS[PRIMARY]}, those that people rate alike are left out."
        )
    told += stand_ins(summary)
    parts = []
    if any(one for pair in drawn.values() for one in pair):
        label = f"{summary['level']}-level Spearman's rho"
        parts.append(page.figure(forest(drawn, ("seed", "tuned"), label), "With 95 % intervals."))
    return [*parts, page.table(head, rows, " ".join(told))]


def stand_ins(summary: Mapping[str, Any]) -> list[str]:
    """A sentence on who judges dev for the tuned judge, where it does not itself."""
    said = str(summary.get("stand_ins") or "")
    return [f"{said[0].upper()}{said[1:]}."] if said else []


def tile(name: str, cell: Cell) -> tuple[str, str, str]:
    """A figure to see first, with its interval and n."""
    around = interval_of(cell["low"], cell["high"])
    return name, shown(cell["value"]), f"{around}, n={counted(cell['n_documents'], 'document')}"


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


def all_levels(cells: Sequence[Cell], n_systems: int, unit: str) -> str:
    """Each level and coefficient of one judge on one split, over so many `unit`."""
    if not any(cell["n_outputs"] for cell in cells):
        return page.paragraph(f"No {unit[:-1]} has a score, so no level has a value.")
    levels = [name for name in LEVELS if any(cell["level"] == name for cell in cells)]
    # Where no document is undefined, both conventions are one.
    twice = any(cell["level"] == "summary" and cell["n_undefined"] for cell in cells)
    rows = []
    for cell in cells:
        if cell["undefined"] == "zero":
            continue
        if cell["undefined"] != PRIMARY and not (twice and cell["level"] == "summary"):
            continue
        how = CONVENTIONS[cell["undefined"]] if cell["level"] == "summary" else ""
        rows.append(
            (
                cell["level"],
                COEFFICIENTS[cell["coefficient"]],
                *((how,) if twice else ()),
                *_numbers(cell),
            )
        )
    head = (
        "level", "coefficient", *(("convention",) if twice else ()), "value", "95 % interval",
        unit, "documents", "undefined", "failed",
    )  # fmt: skip
    told = [LEVELS[name].format(unit=unit, n=f"{n_systems:,}") for name in levels]
    if "system" in levels and n_systems < FEWEST:
        told[-1] += f" (there is none with fewer than {FEWEST})"
    told.append("intervals are drawn at random: a third digit may differ elsewhere")
    caption = ". ".join(one[:1].upper() + one[1:] for one in told)
    return page.table(head, rows, f"{caption}.")


def pair_accuracy(known: Mapping[str, Mapping[str, Pairs]]) -> list[str]:
    """Both judges' accuracy on each split whose judgements were kept: `known[judge][split]`."""
    rows = [
        (
            SPLITS[split],
            judge,
            shown(found.accuracy),
            interval_of(*_ends(found)),
            f"{found.n_decided:,}",
            f"{found.n_documents:,}",
            f"{found.rate.n_failed:,}",
        )
        for split in next(iter(known.values()), {})
        for judge, of in known.items()
        for found in (of[split],)
    ]
    if not rows:
        return []
    head = ("split", "judge", "accuracy", "95 % interval", "decided pairs", "documents", "failed")
    told = (
        "Accuracy: of the pairs that people decided, the share on which the judge, asked in both "
        "orders, prefers the same side; its ties are half right."
    )
    return [page.table(head, rows, told)]


def _ends(found: Pairs) -> tuple[float | None, float | None]:
    around = found.accuracy_interval
    return (around.low, around.high) if around else (None, None)


def accuracy(found: Findings) -> list[str]:
    """Pairwise accuracy with calibrated ties, where outputs of one document can be compared."""
    one = found.accuracy
    if one is None or not one.n_pairs:
        return []
    ties = (
        f"scores no more than {one.threshold:.3g} apart are taken as a tie, the best threshold for "
        "these very pairs"
        if one.threshold
        else "only equal scores are taken as a tie: no threshold does better on these pairs"
    )
    return [
        page.paragraph(
            f"Pairwise accuracy with calibrated ties {with_interval(one.value, one.interval)}: the "
            f"share of {one.n_pairs:,} pairs of outputs for one document that judge and people "
            f"order alike; {ties}."
        )
    ]
