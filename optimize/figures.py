"""How a figure is written: three decimals, its interval and its counts, never a bare NaN."""

import math
from collections.abc import Mapping
from typing import Any


def shown(value: float | None) -> str:
    """Three decimals; the word "undefined" where the figure does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.3f}"


def interval_of(low: float | None, high: float | None) -> str:
    missing = low is None or high is None or math.isnan(low) or math.isnan(high)
    return "none" if missing else f"[{low:.3f}, {high:.3f}]"


def one_line(name: str, c: Mapping[str, Any]) -> str:
    """A quotable line: `relevance summary-level rho 0.333 [0.250, 0.410] n=97 documents (...)`."""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[c["coefficient"]]
    return (
        f"{name} {c['level']}-level {symbol} {shown(c['value'])} {interval_of(c['low'], c['high'])}"
        f" n={c['n_documents']} documents, {c['n_outputs']} outputs"
        f" ({c['n_undefined']} undefined, {c['n_failed']} failed)"
    )
