"""Rated rows, and RankOptimizer as the tests of it run it on them."""

from typing import Any

from optimize import RankOptimizer

ROWS = [
    {
        "document": f"Document number {number // 4}. {'It goes on and on. ' * 40}",
        "summary": f"Summary number {number}, of quality {1 + (7 * number) % 5}.",
        "score": 1 + (7 * number) % 5,
        "source": f"d{number // 4}",
    }
    for number in range(96)
]
INPUTS = {"document": "A document.", "summary": "A summary of quality 2."}


def compile_with(program: Any, rows: Any, *, ships: bool = True, **options: Any) -> Any:
    """The compiled program, which is a tuned one unless told otherwise."""
    settings = {"label": "score", "group": "source", "quiet": True, **options}
    tuned = RankOptimizer(**settings).compile(program, trainset=rows)
    result = tuned.detailed_results
    assert not ships or result.summary["shipped"] == "tuned", str(result)
    return tuned
