"""What a terminal shows of a verification."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from optimize.report.answer import (
    MOST_STEPS,
    TIED,
    Cell,
    Said,
    Summary,
    _on_chance,
    _on_failures,
    _on_width,
    _paragraphs,
    _size,
    agreement,
    attack_step,
    has_constructed_labels,
    is_paired,
    scale_warning,
    unit_of,
)
from optimize.report.text import (
    interval_text,
    many_failed,
    number_text,
    short_name,
    signature,
    wrapped,
)

MOST_LISTED = 3


def verify_lines(
    result: Summary, *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds every level and coefficient.

    `page` is the file that shows its errors, where one was asked for.
    """
    cell, name = result["correlations"][0], Path(str(result["judge"])).name
    failed = f", {cell['n_failed']:,} failed" if cell["n_failed"] else ""
    next_step = verify_steps(result)[0].replace("`", "")
    lines = [
        *wrapped(f"{short_name(name)} on {_size(result)}{failed}"),
        *_paragraphs([*verify_answer(result), ("Next", next_step)]),
        *([f"Report: {page}"] if page else []),
    ]
    if everything:
        lines += ["", *_orders(result)]
        lines += [
            f"{signature(cell, unit_of(result))}{_convention(cell)}"
            for cell in result["correlations"]
        ]
    return lines


def verify_answer(result: Summary) -> list[Said]:
    """The judge's figure, what it means, the judge among the annotators, and what misleads."""
    order, cell = result.get("order"), result["correlations"][0]
    sentence = agreement("It", order, cell, result)
    failed = many_failed(cell["n_failed"], result["data"]["n_outputs"], unit_of(result))
    return [
        *_met(result),
        (result["dimension"], _headline(result)),
        ("Agreement", f"{sentence} {failed}".strip()),
        *people_answer(result.get("people")),
        *scale_warning(result),
    ]


def _headline(result: Summary) -> str:
    """The figure that the judge is known by; the published convention's, where it is another."""
    cell = result["correlations"][0]
    if is_paired(result):
        ends = interval_text(result["accuracy_low"], result["accuracy_high"])
        return (
            f"accuracy {number_text(result['accuracy'])} {ends} on {result['n_decided']:,} of "
            f"{result['n_pairs']:,} pairs that people decided."
        )
    published = [
        other
        for other in result["correlations"]
        if other["coefficient"] == "spearman" and other.get("undefined") == "left_out"
    ]
    as_published = ""
    if cell["level"] == "summary" and cell.get("n_zero") and published:
        as_published = f" ({number_text(published[0]['value'])} as most papers count)"
    systems = f"{result['data']['n_systems']} systems, " if cell["level"] == "system" else ""
    ends = interval_text(cell["low"], cell["high"])
    return (
        f"{cell['level']}-level rho {number_text(cell['value'])} {ends}{as_published}, "
        f"n={systems}{cell['n_documents']:,} documents."
    )


def _met(result: Summary) -> Iterator[Said]:
    """What makes the figures no measure of agreement with people on new texts."""
    if has_constructed_labels(result):
        yield "Warning", "these labels were made from known faults; no person gave them."
    if n_met := result.get("n_met"):
        yield "Warning", f"it was tuned on {n_met:,} of these {unit_of(result)}."
    elif result.get("tuned_on_these_labels"):
        yield "Warning", "it was tuned on these labels, which flatters every figure here."


def people_answer(people: Summary | None) -> Iterator[Said]:
    """The judge beside each annotator, and annotators beside each other."""
    if not people:
        return
    groups = people["agreement"]
    for title, rows in (("Judge and each person", "judge"), ("Two persons", "annotators")):
        if groups[rows]:
            yield title, ", ".join(_several(groups[rows]))
    if share := people.get("share_of_ceiling"):
        judge, one = people["judge_under_ceiling"], people["ceiling"]
        yield (
            "As one annotator",
            f"{_as_one(share)}: rho with the other annotators' mean {number_text(judge['value'])}, "
            f"one annotator's {number_text(one['value'])}.",
        )


def _as_one(share: Cell) -> str:
    if share["low"] is None:
        return "not known"
    return "no" if share["high"] < 1 else "yes, and better" if share["low"] > 1 else "it may be"


def _several(rows: Sequence[Cell]) -> Iterator[str]:
    """Equal labels, kappa and rho of up to three rows; of more the lowest and the highest."""
    for key, word in (("equal", "equal labels"), ("kappa", "kappa"), ("rho", "rho")):
        values = [row[key] for row in rows if row.get(key) is not None]
        if not values:
            continue
        shown = values if len(values) <= MOST_LISTED else [min(values), max(values)]
        form = ".0%" if key == "equal" else ".2f"
        joined = " " if len(values) <= MOST_LISTED else " to "
        yield f"{word} {joined.join(f'{value:{form}}' for value in shown)}"


def verify_steps(result: Summary, shifts: Sequence[tuple[str, float]] = ()) -> list[str]:
    """What to do after a verification, the most pressing first."""
    cell, order = result["correlations"][0], result.get("order")
    if has_constructed_labels(result):
        return ["Measure it on labels of your own (`--data FILE`)."]
    short = [f"It falls short: {reason}." for reason in result.get("short", ())]
    flips = result.get("order_agreement")
    steps = [
        *short,
        *_on_failures(cell, result),
        *_on_chance(order),
        *(
            ["Measure it on labels that it was not tuned on (`--data FILE`)."]
            if result.get("tuned_on_these_labels")
            else []
        ),
        *_on_width(order),
        *(
            [f"Ask in both orders: {1 - flips:.0%} of preferences follow the order of showing."]
            if flips is not None and 1 - flips > TIED
            else []
        ),
        *attack_step(shifts),
        "Read its worst errors with `--report FILE.html`; hold it to its figure in CI with "
        "`--min-spearman X`.",
    ]
    return steps[:MOST_STEPS]


def _orders(result: Summary) -> list[str]:
    """Of pairs, what each order alone reaches."""
    names = {
        "accuracy_order_ab": "accuracy, A shown first",
        "accuracy_order_ba": "accuracy, B shown first",
        "order_agreement": "same answer in both orders",
    }
    return [
        f"{title} {number_text(result[key])}"
        for key, title in names.items()
        if result.get(key) is not None
    ]


def _convention(cell: Cell) -> str:
    """What became of documents that one side rates alike, where there are any."""
    if cell["level"] != "summary" or not cell["n_undefined"] + (cell.get("n_zero") or 0):
        return ""
    if cell.get("undefined") == "left_out":
        return "; documents that either rates alike left out"
    return "; documents that the judge alone rates alike count 0"
