"""What a terminal shows of a run and of a verification: the answer first, then its figures."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judges.inference.progress import dollars_text
from optimize.answer import (
    next_steps,
    order_sentence,
    people_sentences,
    run_answer,
    short_warnings,
    verification_step,
    warnings,
)
from optimize.figures import (
    CHOSEN_ON_DEV,
    CONVENTIONS,
    ORDERS,
    SPLITS,
    WIDTH,
    cells_to_show,
    cost_text,
    cost_unit,
    finalist_name,
    interval_text,
    many_failed,
    number_text,
    quotable_line,
    trade,
)
from optimize.statistics.levels import PRIMARY


def scorecard(summary: Mapping[str, Any], folder: str) -> str:
    """The lines for stdout."""
    data, cost = summary["data"], summary["cost_usd"]
    systems = f"{data['n_systems']} systems, " if data["n_systems"] else ""
    unit = "pairs" if "accuracy" in summary else "outputs"
    paired = unit == "pairs"
    # A teleprompter has no labels of which nothing was learned.
    has_test = summary["gain"]["test"] is not None
    cached = summary.get("cached_calls", 0)
    steps = next_steps(summary, paired=paired)
    lines = [
        f"{summary['dimension']} judged by {summary['lm']}, {summary['optimizer']} search, "
        f"seed {summary['seed']}",
        f"{data['name']}: {data['n_documents']} documents, {systems}{data['n_outputs']} {unit}",
        "",
        *_failures(summary, unit),
        *_answer(run_answer(summary, paired=paired), summary),
        *(line for step in steps for line in _wrapped(f"Next: {step.replace('`', '')}")),
        "",
        f"{summary['level']}-level rho" + f"{'seed':>10}{'tuned':>27}",
        *([f"({CONVENTIONS[PRIMARY]})"] if summary["level"] == "summary" else []),
        *_split_rows(summary),
        *_wrapped(f"({CHOSEN_ON_DEV if has_test else CHOSEN_ON_DEV.partition(';')[0]})"),
        *(_wrapped(f"({summary['stand_ins']})") if summary.get("stand_ins") else []),
        *_share_rows(summary, paired=paired),
        "",
        *_gain(summary),
        *_wrapped(summary["why"]),
        *(line for note in summary.get("left_out", ()) for line in _wrapped(f"note: {note}")),
        *_finalists(summary.get("finalists", [])),
        *_plans(summary.get("plans", [])),
        "",
        f"{summary['lm_calls']:,} judge calls, {summary['proposer_calls']:,} proposals, "
        f"{f'{cached:,} from the reply cache, ' if cached else ''}"
        f"{'cost unknown' if cost is None else 'free' if cost + cached == 0 else f'${cost:.4f}'}, "
        f"{summary['seconds']:.0f} s",
        *_spending(summary.get("spending", ())),
        folder,
    ]
    return "\n".join(lines)


def _answer(sentences: Sequence[str], result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer, then what has to be known before any figure."""
    for text in (*sentences, *warnings(result)):
        yield from _wrapped(text)


def _share_rows(summary: Mapping[str, Any], *, paired: bool) -> list[str]:
    """How often either judge does as people do, a line for each split on which that is known."""
    rows = []
    for split, label in SPLITS.items():
        judges = summary.get("order", {}).get(split)
        if judges:
            seed, tuned = judges["seed_judge"], judges["tuned_judge"]
            n = f"n={seed['n_pairs']:,} pairs"
            rows.append(f"{label:<15}{_percent(seed):<24} {_percent(tuned):<24} {n}")
    title = "pairs decided as people do" if paired else "pairs ordered as people do"
    return ["", title, *rows] if rows else []


def _percent(share: Mapping[str, Any]) -> str:
    if share["value"] is None:
        return "undefined"
    ends = "no interval" if share["low"] is None else f"{share['low']:.0%}, {share['high']:.0%}"
    return f"{share['value']:.0%} [{ends}]"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def _failures(summary: Mapping[str, Any], unit: str) -> list[str]:
    """Where either judge gave no score to more than a few, but what the answer says of it."""
    lines = []
    for judge in ("seed", "tuned"):
        for split, name in SPLITS.items():
            cell = summary[f"{judge}_judge"].get(split)
            if not cell or (judge, split) == (summary["shipped"], "test"):
                continue
            number = cell["n_outputs"] + cell["n_failed"]
            if sentence := many_failed(cell["n_failed"], number, unit):
                lines += _wrapped(f"{judge} judge on {name}: {sentence}")
    return lines


def _split_rows(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each split: the seed's figure, the tuned judge's and n."""
    for split, label in SPLITS.items():
        seed, tuned = summary["seed_judge"][split], summary["tuned_judge"][split]
        if seed is None or tuned is None:
            continue
        counts = {
            word: max(seed[name], tuned[name])
            for name, word in (("n_undefined", "undefined"), ("n_failed", "failed"))
        }
        missing = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        row = f"{label:<15}{_figure(seed):<24} {_figure(tuned):<24} n={seed['n_documents']}"
        yield row + (f" ({missing})" if missing else "")


def _figure(cell: Mapping[str, Any], sign: str = "") -> str:
    if cell["value"] is None:
        return "undefined"
    ends = "no interval" if cell["low"] is None else f"{cell['low']:.3f}, {cell['high']:.3f}"
    return f"{cell['value']:{sign}.3f} [{ends}]"


def _gain(summary: Mapping[str, Any]) -> list[str]:
    """The gain on test and which judge shipped, in wrapped lines."""
    gain = summary["gain"]["test"]
    if gain is None:
        return [f"shipped: {summary['shipped']}"]
    if gain["value"] is None:
        return ["gain on test undefined"]
    return _wrapped(f"gain on test {_figure(gain, '+')}; shipped: {summary['shipped']}")


def _finalists(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each finalist's rho on dev and what it costs to use; a star marks the one that ships."""
    if not rows:
        return []
    unit, title = cost_unit(rows)
    lines = ["", f"{'on dev':<41}{'rho':>6}{'gain (error)':>18}{title:>14}"]
    for row in rows:
        name = finalist_name(row) + (" *" if row["shipped"] else "")
        gain = ""
        if not row["is_seed"] and row["gain"] is not None:
            error = "" if row["gain_error"] is None else f" ({row['gain_error']:.3f})"
            gain = f"{row['gain']:+.3f}{error}"
        lines.append(
            f"{textwrap.shorten(name, 40):<41}{number_text(row['dev']):>6}{gain:>18}"
            f"{cost_text(row[unit], unit):>14}"
        )
    return lines + _wrapped(trade(rows))


def _plans(plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each sampling plan tried on dev and its cost in single replies; a star marks the chosen."""
    if not plans:
        return []
    lines = ["", f"{'plan (on dev)':<14}{'rho':<23}{'cost':>5}{'gain/cost':>11}  less than best"]
    for plan in plans:
        name = plan["plan"] + (" *" if plan["chosen"] else "")
        if plan["rho"] is None:
            lines += _wrapped(f"{name:<14}left out: {plan['left_out']}")
            continue
        difference, per_cost = plan["less_than_best"], plan["gain_per_cost"]
        difference_text = _figure(difference, "+") if difference["value"] else ""
        gain_text = "" if per_cost is None else f"{per_cost:+.4f}"
        row = f"{name:<14}{_figure(plan['rho']):<23}{plan['cost']:>5.1f}{gain_text:>11}"
        lines.append(f"{row}  {difference_text}".rstrip())
    return lines


def _spending(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the dollars were spent on; the calls, where nothing is paid or prices are unknown."""
    if any(row["cost_usd"] is None for row in rows) or not any(row["cost_usd"] for row in rows):
        parts = [f"{row['purpose']} {row['calls']:,}" for row in rows]
        return _wrapped("calls: " + ", ".join(parts)) if parts else []
    return _wrapped(
        "spent on " + ", ".join(f"{row['purpose']} {dollars_text(row['cost_usd'])}" for row in rows)
    )


def verification_lines(result: Mapping[str, Any], *, everything: bool = False) -> list[str]:
    """A verification in at most twelve lines; `everything` adds every level and coefficient."""
    data, cell, is_paired = result["data"], result["correlations"][0], "accuracy" in result
    unit = "pairs" if is_paired else "outputs"
    failed = f", {cell['n_failed']:,} failed" if cell["n_failed"] else ""
    source = f"{Path(str(result['judge'])).name} on {data['name']}"
    counts = f"{data['n_outputs']:,} {unit}, {data['n_documents']:,} documents{failed}"
    lines = [
        *_wrapped(f"{source}: {counts}"),
        *_wrapped(_headline(result)),
        *_published(result),
        *_wrapped(order_sentence(result)),
        *(line for text in people_sentences(result.get("people")) for line in _wrapped(text)),
        *(line for text in short_warnings(result) for line in _wrapped(text)),
        *_wrapped(f"Next: {verification_step(result)}"),
    ]
    if everything:
        lines += ["", *(accuracy_lines(result) if is_paired else [])]
        lines += [
            quotable_line(result["dimension"], cell, unit=unit, n_systems=data["n_systems"])
            for cell in cells_to_show(result["correlations"])
        ]
    return lines


def _headline(result: Mapping[str, Any]) -> str:
    """The one figure that the judge is known by, with its interval and n."""
    name, cell = result["dimension"], result["correlations"][0]
    if "accuracy" in result:
        ends = interval_text(result["accuracy_low"], result["accuracy_high"])
        return (
            f"{name} accuracy {number_text(result['accuracy'])} {ends} "
            f"n={result['n_decided']:,} of {result['n_pairs']:,} pairs that people decided"
        )
    n_systems = result["data"]["n_systems"]
    systems = f"{n_systems:,} systems, " if cell["level"] == "system" else ""
    return (
        f"{name} {cell['level']}-level rho {number_text(cell['value'])} "
        f"{interval_text(cell['low'], cell['high'])} n={systems}{cell['n_documents']:,} documents"
    )


def _published(result: Mapping[str, Any]) -> list[str]:
    """The published convention's figure, where undefined documents make it another one."""
    first = result["correlations"][0]
    if first["level"] != "summary" or not first["n_zero"]:
        return []
    cell = next(
        cell
        for cell in result["correlations"]
        if (cell["level"], cell["coefficient"], cell["undefined"])
        == ("summary", "spearman", "left_out")
    )
    ends = interval_text(cell["low"], cell["high"])
    return [
        f"as most published tables count: {number_text(cell['value'])} {ends} "
        f"n={cell['n_documents']:,} documents"
    ]


def accuracy_lines(result: Mapping[str, Any]) -> list[str]:
    """Pairs: the primary accuracy with all its counts, then what each order alone reaches."""
    name = result["dimension"]
    ends = interval_text(result["accuracy_low"], result["accuracy_high"])
    lines = [
        f"{name} accuracy, both orders together {number_text(result['accuracy'])} {ends} "
        f"n={result['n_decided']} decided pairs of {result['n_pairs']}, "
        f"{result['n_documents']} documents ({result['n_ties']} ties by the judge, half right; "
        f"{result['n_failed']} failed)"
    ]
    for key, label in ORDERS.items():
        if result.get(key) is not None:
            lines.append(f"{name} {label} {result[key]:.3f}")
    return lines
