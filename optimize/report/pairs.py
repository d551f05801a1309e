"""A pairwise judge: accuracy, both orders, and the pull of position and length."""

from collections.abc import Mapping
from typing import Any

from optimize.figures import interval_of, shown, with_interval
from optimize.report import page
from optimize.report.findings import Pairs
from optimize.run.judged_split import JudgedSplit
from optimize.statistics.bootstrap import Interval

# What tossing a coin for every pair would reach.
CHANCE = 0.5


def headline(found: Pairs) -> str:
    """What a reader wants to know first."""
    if not found.rate.n:
        return "The judge preferred a side of no pair at all, so there is nothing to report."
    if not found.n_decided:
        return "There is no accuracy to report: people decided none of the pairs that have a score."
    told = f"Judge and people prefer the same side of {found.accuracy:.0%} of the pairs"
    return f"{told}; tossing a coin reaches 50%."


def quotable(name: str, found: Pairs) -> str:
    """The accuracy on one line, with what it was computed from."""
    n = found.rate.n + found.rate.n_failed
    return (
        f"{name} accuracy, both orders together "
        f"{with_interval(found.accuracy, found.accuracy_interval)} "
        f"n={found.n_decided} decided pairs of {n}, {found.n_documents} documents "
        f"({found.n_ties} ties by the judge, half right; {found.rate.n_failed} failed)"
    )


def tiles(found: Pairs, rho: Mapping[str, Any], where: str = "") -> list[tuple[str, str, str]]:
    """Accuracy, then how the margins rank, then whether the order decides."""
    around = found.accuracy_interval
    flips = found.rate.flip_rate
    return [
        (
            f"accuracy{where}",
            shown(found.accuracy),
            f"{interval_of(*_ends(around))}, n={found.n_decided:,} decided pairs",
        ),
        (
            f"dataset-level rho of margins{where}",
            shown(rho["value"]),
            f"{interval_of(rho['low'], rho['high'])}, n={rho['n_outputs']:,} pairs",
        ),
        (
            f"same answer in both orders{where}",
            f"{1 - flips:.0%}" if flips == flips else "undefined",
            f"n={found.rate.n:,} pairs",
        ),
    ]


def cell(found: Pairs) -> dict[str, Any]:
    """Accuracy as advice takes a figure."""
    low, high = _ends(found.accuracy_interval)
    known = found.accuracy == found.accuracy
    return {
        "value": found.accuracy if known else None,
        "low": low,
        "high": high,
        "n_documents": found.n_documents,
        "n_outputs": found.n_decided,
    }


def pairs(found: Pairs, evidence: JudgedSplit) -> list[str]:
    """The figures of both orders, each with its counts."""
    rate = found.rate
    rows = [
        (
            "accuracy",
            with_interval(found.accuracy, found.accuracy_interval),
            f"{found.n_decided:,}",
            "both orders together, over the pairs that people decided; a judge's tie is half right",
        ),
        ("accuracy, A first", *_order(evidence, "order_ab"), "asked with A shown first"),
        ("accuracy, B first", *_order(evidence, "order_ba"), "asked with B shown first"),
        (
            "order flips",
            shown(rate.flip_rate),
            f"{rate.n:,}",
            "share of pairs whose preference changes when the two change places",
        ),
        (
            "position bias",
            _with(rate.position_bias, rate.position_bias_low, rate.position_bias_high),
            f"{rate.n:,}",
            "above 0: it favours what is shown first",
        ),
        (
            "length bias",
            shown(rate.length_bias),
            f"{rate.n:,}",
            "above 0: it favours the longer one, in characters",
        ),
        (
            "win rate of A, judge",
            _with(rate.win_rate_a, rate.low, rate.high),
            f"{rate.n:,}",
            f"a tie is half a win; {rate.n_ties} ties",
        ),
        (
            "win rate of A, people",
            shown(found.people_rate),
            f"{len(evidence.items):,}",
            "a tied vote is half a win",
        ),
    ]
    return [page.table(("figure", "value", "pairs", "what it is"), rows)]


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval else (None, None)


def _with(value: float, low: float, high: float) -> str:
    return f"{shown(value)} {interval_of(low, high)}" if value == value else "undefined"


def _order(evidence: JudgedSplit, order: str) -> tuple[str, str]:
    """Accuracy of the one order, and on how many pairs."""
    right = [
        getattr(one, order) == ("A" if human > 0 else "B")
        for one, human in zip(evidence.verdicts, evidence.human, strict=True)
        if human != 0 and getattr(one, order) is not None
    ]
    return shown(sum(right) / len(right) if right else None), f"{len(right):,}"
