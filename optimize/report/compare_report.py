"""How a comparison is shown: two tables on a screen, and a page with the Pareto front."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judges.client import is_embedded
from optimize.answer import (
    PLANNED,
    agreement,
    has_constructed_labels,
    how_to_use,
    label_your_own,
    people_of,
    two_people,
    warnings,
)
from optimize.figures import (
    CONVENTIONS,
    ORDERS,
    WIDTH,
    abbreviated_names,
    counted,
    interval_text,
    many_failed,
    number_text,
)
from optimize.report import charts
from optimize.report.page import Picture, Section, page, section
from optimize.report.sections import EMBEDDED, data_facts, shares_picture
from optimize.statistics.bootstrap import POWER, Interval, documents_for_difference
from optimize.statistics.levels import PRIMARY

Result = Mapping[str, Any]
Row = Mapping[str, Any]
# Of a judge's name on the screen.
NAME_WIDTH = 22
# Judges in the first picture.
MAX_DRAWN = 12
FRONT = "on the Pareto front: no other judge is as good and cheaper, or as cheap and better"


def screen(result: Result) -> str:
    """The lines for stdout, 80 columns wide: agreement, then use, then what has to be said."""
    rows = result["judges"]
    short = abbreviated_names([row["name"] for row in rows], NAME_WIDTH)
    names = [
        f"{number}{'*' if row['on_front'] else ' '} {name:<{NAME_WIDTH}}"
        for number, (name, row) in enumerate(zip(short, rows, strict=True), start=1)
    ]
    first, second = ("orders", "in one") if _is_paired(result) else ("tau-b", "r")
    lines = [
        *_wrapped(_about(result)),
        "",
        *(line for text in compare_answer(result) for line in _wrapped(text)),
        *(
            line
            for step in compare_steps(result)
            for line in _wrapped(f"Next: {step.replace('`', '')}")
        ),
        "",
        *_wrapped(_measure(result)),
        f"{'   judge':<{NAME_WIDTH + 4}}{_symbol(result):<23}against the best",
        *(
            f"{name} {_figure(row):<23}{' '.join(filter(None, _against(row)))}"
            for name, row in zip(names, rows, strict=True)
        ),
        "",
        f"{'   judge':<{NAME_WIDTH + 3}}{first:>6} {second:>6} {'failed':>6} {'ties':>5}"
        f" {'$/1,000':>8} {'s/1,000':>8} {'spent':>8}",
    ]
    for name, row in zip(names, rows, strict=True):
        figures = " ".join(f"{_or_dash(value):>6}" for value in _other_figures(row))
        lines.append(
            f"{name}{figures} {_n_failed(row):>6,} {_share(row['ties']):>5}"
            f" {_dollars(row, 'cost_per_1000_rows'):>8}"
            f" {_seconds(row['seconds_per_1000_rows']):>8} {_dollars(row, 'cost_usd'):>8}"
        )
    front = [f"* {FRONT}"] if any(row["on_front"] for row in rows) else []
    left_out = [f"left out: {row['name']}: {row['why']}" for row in result["left_out"]]
    legend = ["orders: alike in both orders; in one: accuracy, mean of the orders taken alone"]
    notes = [
        *left_out,
        *front,
        *_difference_notes(result),
        *(legend if _is_paired(result) else []),
        *_use_notes(result),
        *warnings(result),
    ]
    lines += ["", *(line for note in notes for line in _wrapped(note)), ""]
    return "\n".join([*lines, f"{_spent(result)}, {result['seconds']:.0f} s", result["folder"]])


def render(result: Result) -> str:
    """The page from what `dspy-judges compare --json` prints."""
    rows, left_out = result["judges"], result["left_out"]
    is_model_embedded = any(is_embedded(row["lm"] or "") for row in rows)
    sections = [
        _table(
            "Agreement with people",
            (
                *("", "judge", _symbol(result), "95% interval", "against the best"),
                *("simultaneous 95%", "standing", "documents"),
            ),
            [
                (
                    *_numbered(row, n),
                    *_figures(row),
                    *_against(row),
                    f"{_cell(row)['n_documents']:,}",
                )
                for n, row in enumerate(rows, start=1)
            ],
            [_measure(result), *_difference_notes(result)],
        ),
        _table(
            "Agreement and cost",
            (
                *("", "judge", "$/1,000", "s/1,000", "s a call", "in flight", "tokens in"),
                *("tokens out", "plan", "calls", "$ spent"),
            ),
            [(*_numbered(row, n), *_use(row)) for n, row in enumerate(rows, start=1)],
            _use_notes(result),
        ),
        _table(
            "Failures, ties and other figures",
            ("", "judge", *_other_names(result), "tied", "failed"),
            [
                (
                    *_numbered(row, n),
                    *map(number_text, _other_figures(row)),
                    _share(row["ties"]),
                    f"{_n_failed(row):,}",
                )
                for n, row in enumerate(rows, start=1)
            ],
            [
                "tied: the share of pairs that the judge calls a tie, or answers by position"
                if _is_paired(result)
                else "tied: the share of two outputs of one document that the judge scores alike, "
                "which costs rank correlation"
            ],
        ),
    ]
    if left_out:
        sections.append(
            _table(
                "Left out",
                ("judge", "why", "spent"),
                [(row["name"], row["why"], _dollars(row, "cost_usd")) for row in left_out],
                ["a judge that was not measured on all outputs is not compared"],
            )
        )
    provenance = section(
        "Provenance",
        "provenance.html",
        judge=", ".join(row["name"] for row in rows),
        lm=", ".join(dict.fromkeys(row["lm"] for row in rows if row["lm"])),
        data=data_facts(result["data"], _unit(result)),
        seed=result["seed"],
    )
    return page(
        title=f"{result['dimension']}: {counted(len(rows), 'judge')} side by side",
        about=f"{_about(result)}.",
        answer=compare_answer(result),
        warnings=warnings(result),
        picture=_picture(result),
        steps=compare_steps(result),
        notes=[EMBEDDED] if is_model_embedded else [],
        quotable=[],
        sections=[*sections, provenance],
    )


def _table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    sentences: Sequence[str],
) -> Section:
    """A section of a table, which the sentences explain."""
    text = " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences)
    return section(title, "table.html", head=head, rows=rows, text=text)


def _numbered(row: Row, number: int) -> tuple[str, str]:
    return str(number), row["name"] + (" *" if row["on_front"] else "")


def _is_paired(result: Result) -> bool:
    return bool(result["kind"] == "pairwise")


def _unit(result: Result) -> str:
    return "pairs" if _is_paired(result) else "outputs"


def _symbol(result: Result) -> str:
    return "accuracy" if _is_paired(result) else "rho"


def _about(result: Result) -> str:
    data = result["data"]
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    return (
        f"{result['dimension']}, {counted(len(result['judges']), 'judge')} on {data['name']}: "
        f"{counted(data['n_documents'], 'document')}, {systems}{data['n_outputs']:,} "
        f"{_unit(result)}"
    )


def _measure(result: Result) -> str:
    if _is_paired(result):
        return (
            "accuracy on the pairs that people decided, both orders together; a tie is half right"
        )
    convention = f"; {CONVENTIONS[PRIMARY]}" if result["level"] == "summary" else ""
    return f"{result['level']}-level Spearman's rho{convention}"


def _cell(row: Row) -> Mapping[str, Any]:
    """What judges are ranked by: `value`, `low`, `high` and counts."""
    cell: Mapping[str, Any] = row["correlations"][0]
    if "accuracy" not in row:
        return cell
    names = {"value": "accuracy", "low": "accuracy_low", "high": "accuracy_high"}
    return {**cell, **{name: row[key] for name, key in names.items()}}


def _figures(row: Row) -> tuple[str, str]:
    cell = _cell(row)
    return number_text(cell["value"]), interval_text(cell["low"], cell["high"])


def _figure(row: Row) -> str:
    return " ".join(_figures(row))


def _other_figures(row: Row) -> tuple[float | None, float | None]:
    """Kendall's tau-b and Pearson's r at the same level; of pairs what each order tells."""
    if "accuracy" in row:
        return row["order_agreement"], row["accuracy_mean_of_orders"]
    level = row["correlations"][0]["level"]
    values = {
        cell["coefficient"]: cell["value"]
        for cell in row["correlations"]
        if (cell["level"], cell["undefined"]) == (level, PRIMARY)
    }
    return values["kendall"], values["pearson"]


def _other_names(result: Result) -> tuple[str, str]:
    if _is_paired(result):
        return ORDERS["order_agreement"], ORDERS["accuracy_mean_of_orders"]
    return "Kendall's tau-b", "Pearson's r"


def _n_failed(row: Row) -> int:
    return int(row["correlations"][0]["n_failed"])


def _against(row: Row) -> tuple[str, str, str]:
    """The difference from the best, its interval, and what follows from it."""
    difference = row["difference"]
    if difference is None or difference["value"] is None:
        return "", "", row["standing"]
    low, high = difference["low"], difference["high"]
    interval = "no interval" if low is None or high is None else f"[{low:+.3f}, {high:+.3f}]"
    return f"{difference['value']:+.3f}", interval, row["standing"]


def _use(row: Row) -> tuple[str, ...]:
    """What asking took, a cell each; empty ones for a recording."""
    if row["plan"] is None:
        return ("",) * 9
    tokens, latency = row["tokens_per_row"], row["latency_seconds"]
    return (
        _dollars(row, "cost_per_1000_rows").removeprefix("$").replace("free", "0"),
        _seconds(row["seconds_per_1000_rows"]),
        "" if latency is None else f"{latency:.2f}",
        str(row["concurrency"]),
        *("" if tokens[way] is None else f"{tokens[way]:,.0f}" for way in ("in", "out")),
        row["plan"],
        f"{row['lm_calls']:,}",
        _dollars(row, "cost_usd").removeprefix("$").replace("free", "0"),
    )


def _difference_notes(result: Result) -> Iterator[str]:
    """Yield how judges were compared, and on which outputs where some lack a few."""
    rows, n_outputs = result["judges"], result["data"]["n_outputs"]
    for row in rows:
        if row["tuned_on_these_labels"]:
            yield f"{row['name']} was tuned on these very labels, which flatter it"
        if sentence := many_failed(_n_failed(row), n_outputs, _unit(result)):
            yield f"{row['name']}: {sentence.rstrip('.')}"
    if len(rows) > 1:
        yield (
            "against: the difference where both judges gave a score, paired over documents, with "
            "95% intervals that hold for every two judges together, since the best was chosen by "
            "the figures; unclear: 0 is in it"
        )
    with_more = [
        {**row, **row["on_all"], "correlations": [row["on_all"]]} for row in rows if "on_all" in row
    ]
    if with_more:
        figures = (f"{r['name']} {_figure(r)} n={r['on_all']['n_outputs']:,}" for r in with_more)
        yield (
            f"every figure is on the {n_outputs:,} of {result['n_labelled']:,} labelled "
            f"{_unit(result)} that all judges have; on all that it has: {'; '.join(figures)}"
        )


def _use_notes(result: Result) -> list[str]:
    """How cost and time were measured, and of which judges they are not known."""
    rows = result["judges"]
    with_model = [row for row in rows if row["plan"] is not None]
    sentences = []
    if with_model:
        in_flight = max(row["concurrency"] for row in with_model)
        sentences.append(
            "$/1,000: the tokens of all replies at list price, no discounts, for 1,000 rows; "
            "s/1,000: wall time"
            + (f" with up to {in_flight} requests in flight" if in_flight > 1 else "")
        )
    unpriced = [row["name"] for row in with_model if row["cost_per_1000_rows"] is None]
    if unpriced:
        sentences.append(
            f"no price is known for {', '.join(unpriced)}, which has no place on the front: "
            "--price NAME=IN,OUT gives it"
        )
    recordings = [row["name"] for row in rows if row["plan"] is None]
    if recordings:
        sentences.append(
            f"recorded, so that neither cost nor time is known: {', '.join(recordings)}"
        )
    return sentences


def compare_answer(result: Result) -> list[str]:
    """Which judge is best, how sure that is, and the cheapest of those that may be as good."""
    best, *rest = result["judges"]
    order, people = best["order"], people_of(result)
    judge = str(best["name"])
    if best["tuned_on_these_labels"]:
        judge += ", which was tuned on these very labels,"
    if rest:
        # What they are ranked by; another may order as many pairs as people do.
        by = "" if _is_paired(result) else f" (rho {number_text(_cell(best)['value'])})"
        judge = f"Of {len(rest) + 1} judges {judge} agrees best with {people}{by}: it"
    sentences = [
        agreement(judge, order, _cell(best), result, paired=_is_paired(result)),
        *two_people(order, result),
    ]
    as_good = [row for row in rest if row["standing"] == "unclear"]
    if rest and not as_good:
        return [*sentences, f"Its {_symbol(result)} is clearly above that of every other judge."]
    if not as_good:
        return sentences
    names = ", ".join(row["name"] for row in as_good)
    sentence = f"By {_symbol(result)}, these cannot be told from it: {names}"
    cheapest = _cheapest([best, *as_good])
    if cheapest is not None and cheapest is not best:
        cost = _dollars(cheapest, "cost_per_1000_rows")
        price = ", which is free" if cost == "free" else f" at {cost} for 1,000 rows"
        sentence += f"; the cheapest of these is {cheapest['name']}{price}"
    return [*sentences, f"{sentence}."]


def compare_steps(result: Result) -> list[str]:
    """What to do next: which judge to use, and what would tell the best from the second."""
    rows, paired = result["judges"], _is_paired(result)
    if has_constructed_labels(result):
        return [label_your_own(result["dimension"], paired=paired, shipped=None)]
    best, steps = rows[0], []
    as_good = [best, *(row for row in rows[1:] if row["standing"] == "unclear")]
    cheapest = _cheapest(as_good)
    if len(as_good) > 1:
        if cheapest is not None:
            steps.append(
                f"Use {cheapest['name']}: of those that may be the best and have a known cost, it "
                "costs least."
            )
        difference = as_good[1]["difference"]
        steps += _documents_to_decide(best["name"], as_good[1]["name"], difference, result["level"])
    elif not best["tuned_on_these_labels"]:
        steps.append(f"Use {best['name']}.")
    if any(row["tuned_on_these_labels"] for row in rows):
        steps.append(
            "Compare again on labels that no judge was tuned on: a judge tuned on these is "
            "flattered by them."
        )
    if result["left_out"]:
        steps.append('Some judges were not measured: the reasons are under "Left out".')
    return steps or [how_to_use(run=False, paired=paired)]


def _documents_to_decide(
    best: str, second: str, difference: Row | None, level: str
) -> Iterator[str]:
    """Yield what it takes to tell the best judge from the second, where that is known."""
    if difference is None or difference["value"] is None or difference["low"] is None:
        yield f"How many documents would tell {best} from {second} is not known from so few."
        return
    if level == "system":
        yield f"To tell {best} from {second}, label outputs of more systems."
        return
    n, size = difference["n_documents"], max(abs(difference["value"]), PLANNED)
    interval = Interval(difference["low"], difference["high"])
    is_known = n > 1 and interval.high > interval.low
    further = documents_for_difference(interval, n, size) - n if is_known else 0
    if further > 0:
        yield (
            f"About {further:,} more documents would tell {best} from {second} (with a power of "
            f"{POWER:.0%}, if they truly differ by {size:.2f})."
        )


def _cheapest(rows: Sequence[Row]) -> Row | None:
    priced = [row for row in rows if row["cost_per_1000_rows"] is not None]
    return min(priced, key=lambda row: row["cost_per_1000_rows"], default=None)


def _picture(result: Result) -> Picture | None:
    """Agreement over cost where costs differ, else how often each judge does as people do."""
    rows = result["judges"]
    chart = _front_chart(rows, _symbol(result))
    if chart is not None:
        caption = f"With 95% intervals. Filled, on the line: {FRONT}. {_legend(rows)}."
        return Picture(chart, caption)
    return shares_picture({row["name"]: row["order"] for row in rows[:MAX_DRAWN]}, result)


def _front_chart(rows: Sequence[Row], symbol: str) -> str | None:
    """Agreement over cost, where there are two costs or more."""
    points = {}
    for number, row in enumerate(rows, start=1):
        cell = _cell(row)
        if row["on_front"] is not None:
            interval = None if cell["low"] is None else Interval(cell["low"], cell["high"])
            points[f"{number} {row['name']}"] = (
                row["cost_per_1000_rows"],
                (cell["value"], interval),
                row["on_front"],
            )
    if len({cost for cost, _, _ in points.values()}) < 2:
        return None
    return charts.pareto(points, "US dollars for 1,000 rows", symbol)


def _legend(rows: Sequence[Row]) -> str:
    numbered = enumerate(rows, start=1)
    return ", ".join(f"{n} {row['name']}" for n, row in numbered if row["on_front"] is not None)


def _dollars(row: Row, key: str) -> str:
    """In digits enough to tell cheap models apart; a dash for recordings, ? where no price is."""
    value = row[key]
    if value is None:
        return "-" if row["plan"] is None else "?"
    return "free" if value == 0 else f"${value:.2f}" if value >= 10 else f"${value:.4f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else number_text(value)


def _spent(result: Result) -> str:
    cost = result["cost_usd"]
    return "cost unknown" if cost is None else f"${cost:.4f}" if cost else "free"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)
