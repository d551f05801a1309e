"""A monotone map is exact at its knots, straight between them, and never changes an order."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges.monotone import MonotoneMap
from judges.validation import InvalidDataError

RISES = st.lists(st.floats(0.01, 10), min_size=2, max_size=8)


def knots(rises: list[float]) -> tuple[float, ...]:
    return tuple(sum(rises[: i + 1]) for i in range(len(rises)))


def test_values_between_knots_lie_on_the_line_and_beyond_them_on_the_last_one() -> None:
    # Slopes 2 on [1, 2] and 1/2 on [2, 4].
    rescale = MonotoneMap((1.0, 2.0, 4.0), (0.0, 2.0, 3.0))
    assert rescale.all([1, 1.5, 2, 3, 4]) == [0, 1, 2, 2.5, 3]
    assert rescale.all([0, 6]) == [-2, 4]
    assert math.isnan(rescale(math.nan))


@given(RISES, RISES, st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_no_order_changes(first: list[float], second: list[float], scores: list[float]) -> None:
    n = min(len(first), len(second))
    rescale = MonotoneMap(knots(first[:n]), knots(second[:n]))
    for a in scores:
        for b in scores:
            if a - b > 1e-6:
                assert rescale(a) > rescale(b)


@pytest.mark.parametrize(
    ("inputs", "outputs", "problem"),
    [
        ((1.0,), (1.0,), "two or more"),
        ((1.0, 2.0), (1.0,), "as many"),
        ((1.0, 1.0), (1.0, 2.0), "inputs increase"),
        ((1.0, 2.0), (2.0, 2.0), "outputs increase"),
        ((1.0, math.inf), (1.0, 2.0), "finite"),
        ((1.0, 2.0), (math.nan, 2.0), "finite"),
    ],
)
def test_other_knots_are_refused(
    inputs: tuple[float, ...], outputs: tuple[float, ...], problem: str
) -> None:
    with pytest.raises(InvalidDataError, match=problem):
        MonotoneMap(inputs, outputs)
