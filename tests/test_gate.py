"""The gate: what it lets pass, what it keeps back, and how often it errs."""

import numpy as np
import pytest

from optimize.search.chance import stream
from optimize.search.gate import choose, gains

RUNS = 300


def simulated(
    rng: np.random.Generator, finalists: int, documents: int, gain: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Differences of rho as SummEval shows them: alike among finalists, a tenth undefined."""
    shared = rng.normal(0, 0.15, (1, documents))
    rows = gain + shared + rng.normal(0, 0.15, (finalists, documents))
    return np.where(rng.random((1, documents)) < 0.1, np.nan, rows)


@pytest.mark.parametrize("finalists", [1, 4])
@pytest.mark.parametrize("documents", [8, 30])
def test_worthless_finalists_ship_about_as_rarely_as_the_tail_says(
    finalists: int, documents: int
) -> None:
    rng = stream(0, "null", finalists, documents)
    shipped = sum(
        choose(simulated(rng, finalists, documents, 0.0), None, 20, rng).ship for _ in range(RUNS)
    )
    # 2.5 % of 300 is 7.5, with a standard deviation of 2.7: past 17 has a chance of 1 in 1000.
    assert shipped <= 17


def test_a_clear_gain_ships() -> None:
    rng = stream(0, "clear")
    shipped = [choose(simulated(rng, 3, 30, 0.2), None, 20, rng).ship for _ in range(50)]
    assert sum(shipped) >= 49


def test_the_interval_covers_the_true_gain() -> None:
    rng = stream(0, "cover")
    covered = 0
    for _ in range(RUNS):
        (one,) = gains(simulated(rng, 1, 25, 0.05), rng)
        covered += one.low <= 0.05 <= one.high
    # 95 % of 300 is 285, with a standard deviation of 3.8; a bootstrap-t loses a little at 25.
    assert covered >= 270


def test_more_finalists_widen_the_interval() -> None:
    rng = stream(0, "wide")
    rows = rng.normal(0.05, 0.2, (8, 40))
    (alone,) = gains(rows[:1], stream(1))
    among = gains(rows, stream(1))[0]
    assert among.value == alone.value
    assert among.low < alone.low


def test_twins_cost_nothing_extra() -> None:
    rows = stream(0, "twins").normal(0.05, 0.2, (1, 40))
    (alone,) = gains(rows, stream(1))
    among = gains(np.repeat(rows, 6, axis=0), stream(1))[0]
    assert among.low == pytest.approx(alone.low)


def test_a_gain_that_does_not_reach_unshown_systems_is_not_shipped() -> None:
    rng = stream(0, "unshown")
    rows = rng.normal(0.2, 0.05, (1, 30))
    assert choose(rows, rng.normal(0.1, 0.1, (1, 30)), 9, stream(1)).ship
    kept = choose(rows, rng.normal(-0.1, 0.1, (1, 30)), 9, stream(1))
    assert not kept.ship
    assert "does not carry over" in kept.why


def test_a_loss_on_unshown_systems_within_its_standard_error_keeps_no_gain_back() -> None:
    rows = stream(0, "unshown").normal(0.2, 0.05, (1, 30))
    # Mean -0.01 and spread 0.1 exactly, so a standard error of 0.1 / sqrt(30) = 0.018.
    beyond = stream(1, "unshown").normal(size=(1, 30))
    beyond = (beyond - beyond.mean()) / beyond.std(ddof=1) * 0.1 - 0.01
    told = choose(rows, beyond, 9, stream(1))
    assert told.ship
    assert "-0.010 (standard error 0.018) on systems no demonstration showed" in told.why
    assert not choose(rows, beyond - 0.01, 9, stream(1)).ship


def test_documents_that_only_one_finalist_has_narrow_its_interval_alone() -> None:
    rows = stream(0, "twin").normal(0.05, 0.2, (2, 30))
    more = np.vstack([stream(1, "twin").normal(0.05, 0.2, (1, 40)), np.full((1, 40), np.nan)])
    first, other = gains(np.hstack([rows, more]), stream(2))
    assert (first.n_documents, other.n_documents) == (70, 30)
    assert other.value == pytest.approx(float(rows[1].mean()))
    # 70 documents for 30: the standard error is about sqrt(30 / 70) = .65 as large.
    assert first.error < 0.8 * other.error
    told = choose(np.hstack([rows, more]), None, 5, stream(2), n_own=30).why
    assert "70 dev and train documents" in told


def test_a_finalist_that_does_no_better_than_the_seed_is_not_what_the_search_ends_with() -> None:
    choice = choose(stream(0, "worse").normal(-0.1, 0.1, (2, 30)), None, 5, stream(1))
    assert choice.best is None
    assert not choice.ship
    assert "no better than the seed" in choice.why


def test_without_finalists_the_seed_is_kept_and_the_reason_says_so() -> None:
    choice = choose(np.empty((0, 0)), None, 12, stream(0))
    assert not choice.ship
    assert choice.best is None
    assert "none of 12 candidates" in choice.why


def test_a_handful_of_documents_never_ships() -> None:
    choice = choose(np.full((1, 4), 0.5) + np.arange(4) / 100, None, 3, stream(0))
    assert not choice.ship
    assert "too few documents" in choice.why


def test_the_reason_is_one_sentence_with_the_numbers() -> None:
    choice = choose(stream(0).normal(0.2, 0.1, (2, 30)), None, 17, stream(1))
    assert choice.gain is not None
    for number in (f"{choice.gain.value:+.3f}", f"{choice.gain.low:+.3f}", "30 dev", "17 tried"):
        assert number in choice.why
    assert "\n" not in choice.why
