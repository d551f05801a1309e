"""How figures are written: three decimals, intervals, counts, and a whole run on one screen."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.readers import is_constructed
from optimize.statistics.agreement import Correlation
from optimize.statistics.bootstrap import Interval
from optimize.statistics.levels import PRIMARY

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


def number_text(value: float | None) -> str:
    """Three decimals; the word "undefined" where the figure does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.3f}"


def interval_text(low: float | None, high: float | None) -> str:
    """The ends in brackets; "no interval" where there are none."""
    missing = low is None or high is None or math.isnan(low) or math.isnan(high)
    return "no interval" if missing else f"[{low:.3f}, {high:.3f}]"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A value and, where there is one, its interval."""
    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    ends = f" [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]" if interval else ""
    return f"{value:{sign}.3f}{ends}"


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


Cell = dict[str, Any]
# To which JSON files round figures.
DIGITS = 6


def cell(statistic: Correlation) -> Cell:
    """A correlation as summary.json has it."""
    return {
        "coefficient": statistic.coefficient,
        "level": statistic.level,
        "value": json_number(statistic.value, DIGITS),
        **interval_cell(statistic.interval, DIGITS),
        "n_outputs": statistic.n_outputs,
        "n_documents": statistic.n_documents,
        "n_undefined": statistic.n_undefined,
        "n_failed": statistic.n_failed,
    }


def cell_by_convention(statistic: Correlation) -> Cell:
    """The same beside the other conventions: which it is, and how many documents count 0 by it."""
    return {**cell(statistic), "n_zero": statistic.n_zero, "undefined": statistic.undefined}


def counted(number: int, unit: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def quotable_line(
    name: str, cell: Mapping[str, Any], *, unit: str = "outputs", n_systems: int | None = None
) -> str:
    """As in `relevance summary-level rho 0.333 [0.250, 0.410] n=97 documents (...)`.

    What was judged are `unit`; at system level `n_systems` is the n of the coefficient.
    """
    systems = f"{n_systems} systems, " if n_systems and cell["level"] == "system" else ""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[cell["coefficient"]]
    convention = ""
    if cell["level"] == "summary" and "undefined" in cell:
        # What became of documents without a correlation; at other levels there are none.
        has_zeros = "n_zero" in cell and cell["undefined"] != "left_out"
        zeros = f" ({cell['n_zero']})" if has_zeros else ""
        convention = f"; {CONVENTIONS[cell['undefined']]}{zeros}"
    return (
        f"{name} {cell['level']}-level {symbol} {number_text(cell['value'])} "
        f"{interval_text(cell['low'], cell['high'])} "
        f"n={systems}{cell['n_documents']} documents, {cell['n_outputs']} {unit}"
        f" ({cell['n_undefined']} undefined, {cell['n_failed']} failed){convention}"
    )


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
    data, cost = summary["data"], summary["cost_usd"]
    systems = f"{data['n_systems']} systems, " if data["n_systems"] else ""
    unit = "pairs" if "accuracy" in summary else "outputs"
    failures = _failures(summary, unit)
    lines = [
        *failures,
        *([""] if failures else []),
        f"{summary['dimension']} judged by {summary['lm']}, {summary['optimizer']} search, "
        f"seed {summary['seed']}",
        f"{data['name']}: {data['n_documents']} documents, {systems}{data['n_outputs']} {unit}",
        "",
        f"{summary['level']}-level rho" + f"{'seed':>10}{'tuned':>27}",
        *([f"({CONVENTIONS[PRIMARY]})"] if summary["level"] == "summary" else []),
        *_split_rows(summary),
        *_wrapped(f"({CHOSEN_ON_DEV})"),
        *(_wrapped(f"({summary['stand_ins']})") if summary.get("stand_ins") else []),
        "",
        *_gain(summary),
        *_wrapped(summary["why"]),
        *(line for note in summary.get("left_out", ()) for line in _wrapped(f"note: {note}")),
        *_plans(summary.get("plans", [])),
        *(["", *_wrapped(CONSTRUCTED)] if is_constructed(str(data["sha256"])) else []),
        "",
        f"{summary['lm_calls']:,} judge calls, {summary['proposer_calls']:,} proposals, "
        f"{'cost unknown' if cost is None else 'free' if cost == 0 else f'${cost:.4f}'}, "
        f"{summary['seconds']:.0f} s",
        folder,
    ]
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def _failures(summary: Mapping[str, Any], unit: str) -> list[str]:
    """Where either judge gave no score to more than a few, before anything else."""
    lines = []
    for judge in ("seed", "tuned"):
        for split, name in SPLITS:
            cell = summary[f"{judge}_judge"].get(split)
            if not cell:
                continue
            number = cell["n_outputs"] + cell["n_failed"]
            if sentence := many_failed(cell["n_failed"], number, unit):
                lines += _wrapped(f"{judge} judge on {name}: {sentence}")
    return lines


def _split_rows(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each split: the seed's figure, the tuned judge's and n."""
    for split, label in SPLITS:
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
    if gain["value"] is None:
        return ["gain on test undefined"]
    parts = [f"gain on test {_figure(gain, '+')}"]
    for judge, name in (("seed_judge", "seed"), ("tuned_judge", "tuned")):
        share = summary.get("accuracy", {}).get(judge)
        if share is not None:
            parts.append(f"{name} accuracy on test {share:.3f}")
    return _wrapped("; ".join([*parts, f"shipped: {summary['shipped']}"]))


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
    for cell in cells:
        # Where no document counts 0, both conventions are one figure.
        differs = cell["level"] == "summary" and cell["n_undefined"]
        if cell["undefined"] == PRIMARY or (cell["undefined"] == "left_out" and differs):
            lines.append(quotable_line(result["dimension"], cell, unit=unit))
    return lines


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
