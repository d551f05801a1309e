"""A pairwise judge: accuracy, both orders, and the pull of position and length."""

from optimize.figures import interval_of, shown, with_interval
from optimize.report import page
from optimize.report.findings import Pairs
from optimize.run.evidence import Evidence


def pairs(found: Pairs, evidence: Evidence) -> list[str]:
    """The figures of both orders, each with its counts."""
    rate = found.rate
    rows = [
        (
            "accuracy",
            with_interval(found.accuracy, found.accuracy_interval),
            f"{found.n_decided:,}",
            "pairs that people decided; a judge's tie is half right",
        ),
        (
            "accuracy, A shown first",
            *_order(evidence, "order_ab"),
            "",
        ),
        (
            "accuracy, B shown first",
            *_order(evidence, "order_ba"),
            "",
        ),
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
            "above 0: it favours the longer one",
        ),
        (
            "win rate of A, judge",
            _with(rate.win_rate_a, rate.low, rate.high),
            f"{rate.n:,}",
            f"a tie is half a win; {rate.n_ties} ties",
        ),
        ("win rate of A, people", shown(found.people_rate), f"{len(evidence.items):,}", ""),
    ]
    return [page.table(("figure", "value", "pairs", "what it is"), rows)]


def _with(value: float, low: float, high: float) -> str:
    return f"{shown(value)} {interval_of(low, high)}" if value == value else "undefined"


def _order(evidence: Evidence, order: str) -> tuple[str, str]:
    """Accuracy of the one order, and on how many pairs."""
    right = [
        getattr(one, order) == ("A" if human > 0 else "B")
        for one, human in zip(evidence.verdicts, evidence.human, strict=True)
        if human != 0 and getattr(one, order) is not None
    ]
    return shown(sum(right) / len(right) if right else None), f"{len(right):,}"
