"""How figures are written: three decimals, intervals, counts, and a whole run on one screen."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from data.readers import is_constructed
from optimize.statistics.agreement import PRIMARY
from optimize.statistics.bootstrap import Interval

# From this share of failures on, they are said before any figure.
MANY_FAILED = 0.05
# The conventions on documents without a correlation, in words for lines and tables.
CONVENTIONS = {
    "judge_zero": "documents the judge rates alike count 0",
    "left_out": "as most published tables: documents either side rates alike left out",
    "zero": "documents either side rates alike count 0",
}

CHOSEN_ON_DEV = (
    "the tuned judge was chosen on dev, where its figure flatters it; test was looked at once, "
    "after the choice"
)


def shown(value: float | None) -> str:
    """Three decimals; the word "undefined" where the figure does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.3f}"


def interval_of(low: float | None, high: float | None) -> str:
    """The ends in brackets; "no interval" where there are none."""
    missing = low is None or high is None or math.isnan(low) or math.isnan(high)
    return "no interval" if missing else f"[{low:.3f}, {high:.3f}]"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A value and, where there is one, its interval."""
    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    around = f" [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]" if interval else ""
    return f"{value:{sign}.3f}{around}"


def figure_text(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Three decimals and, where it is known, the interval, as papers print them."""
    return with_interval(
        math.nan if value is None else value,
        None if low is None or high is None else Interval(low=low, high=high),
    )


def json_number(value: float, digits: int | None = None) -> float | None:
    """For JSON, which has no NaN: what does not exist is null."""
    if math.isnan(value):
        return None
    return float(value) if digits is None else round(float(value), digits)


def interval_cell(interval: Interval | None, digits: int | None = None) -> dict[str, float | None]:
    """`low` and `high` for JSON, null where unknown."""
    if interval is None:
        return {"low": None, "high": None}
    return {name: json_number(getattr(interval, name), digits) for name in ("low", "high")}


def counted(number: int, unit: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def one_line(
    name: str, c: Mapping[str, Any], *, unit: str = "outputs", n_systems: int | None = None
) -> str:
    """A quotable line: `relevance summary-level rho 0.333 [0.250, 0.410] n=97 documents (...)`.

    What was judged are `unit`; at system level `n_systems` is the n of the coefficient.
    """
    systems = f"{n_systems} systems, " if n_systems and c["level"] == "system" else ""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[c["coefficient"]]
    return (
        f"{name} {c['level']}-level {symbol} {shown(c['value'])} {interval_of(c['low'], c['high'])}"
        f" n={systems}{c['n_documents']} documents, {c['n_outputs']} {unit}"
        f" ({c['n_undefined']} undefined, {c['n_failed']} failed){_convention(c)}"
    )


def _convention(c: Mapping[str, Any]) -> str:
    """What became of documents without a correlation; at other levels there are none."""
    if c["level"] != "summary" or "undefined" not in c:
        return ""
    known = "n_zero" in c and c["undefined"] != "left_out"
    zeros = f" ({c['n_zero']})" if known else ""
    return f"; {CONVENTIONS[c['undefined']]}{zeros}"


def many_failed(n_failed: int, number: int, unit: str = "outputs") -> str:
    """A sentence to lead with where more than a few judgements failed; else nothing."""
    if n_failed <= MANY_FAILED * number:
        return ""
    return (
        f"{n_failed / number:.1%} of the {unit} have no score ({n_failed:,} of {number:,} failed): "
        "every figure is about the others alone."
    )


WIDTH = 80
CONSTRUCTED = (
    "These labels are constructed, so the figures show how a run works, and the judge is no "
    "judge to use: tune one on labels of your own (--data FILE)."
)
# Pairs: what each order alone reaches, by its key in JSON.
ORDERS = {
    "accuracy_mean_of_orders": "accuracy, mean of the two orders taken alone",
    "accuracy_order_ab": "accuracy, A shown first",
    "accuracy_order_ba": "accuracy, B shown first",
    "order_agreement": "same answer in both orders",
}
SPLITS = (("dev", "dev"), ("test", "test"), ("test_unseen_systems", "unseen systems"))


def scorecard(summary: Mapping[str, Any], folder: str) -> str:
    """The lines for stdout."""
    data = summary["data"]
    systems = f"{data['n_systems']} systems, " if data["n_systems"] else ""
    unit = "pairs" if "accuracy" in summary else "outputs"
    lines = [
        *_failed(summary, unit),
        f"{summary['dimension']} judged by {summary['lm']}, {summary['optimizer']} search, "
        f"seed {summary['seed']}",
        f"{data['name']}: {data['n_documents']} documents, {systems}{data['n_outputs']} {unit}",
        "",
        f"{summary['level']}-level rho" + f"{'seed':>10}{'tuned':>27}",
    ]
    if summary["level"] == "summary":
        lines.append(f"({CONVENTIONS[PRIMARY]})")
    lines += [line for name, label in SPLITS if (line := _row(summary, name, label))]
    lines += textwrap.wrap(f"({CHOSEN_ON_DEV})", WIDTH)
    if summary.get("stand_ins"):
        lines += textwrap.wrap(f"({summary['stand_ins']})", WIDTH)
    lines += ["", *_gain(summary)]
    lines += textwrap.wrap(summary["why"], WIDTH)
    for note in summary.get("left_out", ()):
        lines += textwrap.wrap(f"note: {note}", WIDTH)
    lines += _plans(summary.get("plans", []))
    if is_constructed(str(data.get("sha256"))):
        lines += ["", *textwrap.wrap(CONSTRUCTED, WIDTH)]
    cost = summary["cost_usd"]
    price = "cost unknown" if cost is None else "free" if cost == 0 else f"${cost:.4f}"
    lines += [
        "",
        f"{summary['lm_calls']:,} judge calls, {summary['proposer_calls']:,} proposals, {price}, "
        f"{summary['seconds']:.0f} s",
        folder,
    ]
    return "\n".join(lines)


def _failed(summary: Mapping[str, Any], unit: str) -> list[str]:
    """Where either judge gave no score to more than a few, before anything else."""
    lines = []
    for judge in ("seed", "tuned"):
        for split, name in SPLITS:
            cell = summary[f"{judge}_judge"].get(split)
            if not cell:
                continue
            number = cell["n_outputs"] + cell["n_failed"]
            if sentence := many_failed(cell["n_failed"], number, unit):
                lines += textwrap.wrap(f"{judge} judge on {name}: {sentence}", WIDTH)
    return [*lines, ""] if lines else []


def _row(summary: Mapping[str, Any], split: str, label: str) -> str | None:
    seed, tuned = summary["seed_judge"][split], summary["tuned_judge"][split]
    if seed is None or tuned is None:
        return None
    counts = f"n={seed['n_documents']}"
    missing = [
        f"{max(seed[name], tuned[name])} {word}"
        for name, word in (("n_undefined", "undefined"), ("n_failed", "failed"))
        if max(seed[name], tuned[name])
    ]
    line = f"{label:<15}{_figure(seed):<24} {_figure(tuned):<24} {counts}"
    return line + (f" ({', '.join(missing)})" if missing else "")


def _figure(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "undefined"
    return f"{cell['value']:.3f} {_between(cell)}"


def _between(cell: Mapping[str, Any]) -> str:
    if cell["low"] is None:
        return "[no interval]"
    return f"[{cell['low']:.3f}, {cell['high']:.3f}]"


def _gain(summary: Mapping[str, Any]) -> list[str]:
    gain = summary["gain"]["test"]
    if gain["value"] is None:
        return ["gain on test undefined"]
    parts = [f"gain on test {gain['value']:+.3f} {_between(gain)}"]
    for judge, name in (("seed_judge", "seed"), ("tuned_judge", "tuned")):
        share = summary.get("accuracy", {}).get(judge)
        if share is not None:
            parts.append(f"{name} accuracy on test {share:.3f}")
    return textwrap.wrap("; ".join([*parts, f"shipped: {summary['shipped']}"]), WIDTH)


def _plans(tried: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each sampling plan tried on dev and its cost in single replies; a star marks the chosen."""
    if not tried:
        return []
    lines = ["", f"{'plan (on dev)':<14}{'rho':<23}{'cost':>5}{'gain/cost':>11}  less than best"]
    for plan in tried:
        name = plan["plan"] + (" *" if plan["chosen"] else "")
        if plan["rho"] is None:
            lines += textwrap.wrap(f"{name:<14}left out: {plan['left_out']}", WIDTH)
            continue
        difference, per_cost = plan["less_than_best"], plan["gain_per_cost"]
        difference_text = (
            "" if not difference["value"] else f"{difference['value']:+.3f} {_between(difference)}"
        )
        gain_text = "" if per_cost is None else f"{per_cost:+.4f}"
        row = f"{name:<14}{_figure(plan['rho']):<23}{plan['cost']:>5.1f}{gain_text:>11}"
        lines.append(f"{row}  {difference_text}".rstrip())
    return lines


def correlation_lines(result: Mapping[str, Any]) -> list[str]:
    """A verification, one quotable line a figure: the primary convention, then the published one.

    A share of failures that is not negligible comes first.
    """
    data, cells = result["data"], result["correlations"]
    is_paired = "accuracy" in result
    unit = "pairs" if is_paired else "outputs"
    failed = many_failed(cells[0]["n_failed"], data["n_outputs"], unit)
    lines = [
        *([failed] if failed else []),
        f"{result['judge']} on {data['name']}: {data['n_outputs']} {unit}, "
        f"{data['n_documents']} documents",
        "",
    ]
    if is_paired:
        lines += accuracy_lines(result)
    for correlation in cells:
        # Where no document counts 0, both conventions are one figure.
        if correlation["undefined"] == PRIMARY or (
            correlation["undefined"] == "left_out" and _differ(correlation)
        ):
            lines.append(one_line(result["dimension"], correlation, unit=unit))
    return lines


def _differ(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of the published convention may differ from the primary one's."""
    return bool(cell["level"] == "summary" and cell["n_undefined"])


def accuracy_lines(result: Mapping[str, Any]) -> list[str]:
    """Pairs: the primary accuracy with all its counts, then what each order alone reaches."""
    name = result["dimension"]
    between = interval_of(result["accuracy_low"], result["accuracy_high"])
    lines = [
        f"{name} accuracy, both orders together {shown(result['accuracy'])} {between} "
        f"n={result['n_decided']} decided pairs of {result['n_pairs']}, "
        f"{result['n_documents']} documents ({result['n_ties']} ties by the judge, half right; "
        f"{result['n_failed']} failed)"
    ]
    for key, label in ORDERS.items():
        if result.get(key) is not None:
            lines.append(f"{name} {label} {result[key]:.3f}")
    return lines
