"""The gate: what it lets pass, what it keeps back, and how often it errs."""

from collections.abc import Sequence

import numpy as np
import pytest

from optimize.search import gate
from optimize.search.gate import RISK, Choice, ComparedCandidate, Gain
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Contrast, mean_of_differences

RUNS = 300
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def contrasts(rows: Matrix) -> list[Contrast]:
    names = [f"d{number:03}" for number in range(rows.shape[1])]
    return [mean_of_differences(row, names) for row in rows]


def gains(rows: Matrix, rng: np.random.Generator) -> list[Gain]:
    return gate.gains(contrasts(rows), rng)


def choose(
    rows: Matrix,
    n_tried: int,
    rng: np.random.Generator,
    n_own: int | None = None,
    failed: Sequence[float] = (),
    risk: float = RISK,
) -> Choice:
    """The gate's choice among finalists with these differences by document."""
    finalists = []
    for number, row in enumerate(rows):
        share = failed[number] if failed else 0.0
        finalists.append(
            ComparedCandidate(
                gain=contrasts(row[None])[0],
                dev_gain=contrasts(row[None, :n_own])[0],
                failure_reduction=contrasts(np.full((1, len(row)), -share))[0],
                failure_rate=share,
                seed_failure_rate=0.0,
            )
        )
    return gate.choose(finalists, n_tried, rng, risk=risk)


def simulated(
    rng: np.random.Generator, finalists: int, documents: int, gain: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Differences of rho as SummEval shows them: alike among finalists, a tenth undefined."""
    shared = rng.normal(0, 0.15, (1, documents))
    rows = gain + shared + rng.normal(0, 0.15, (finalists, documents))
    return np.where(rng.random((1, documents)) < 0.1, np.nan, rows)


@pytest.mark.parametrize("risk", [0.025, RISK, 0.3])
@pytest.mark.parametrize(("finalists", "documents"), [(1, 8), (4, 8), (4, 30)])
def test_worthless_finalists_ship_about_as_rarely_as_the_risk_says(
    risk: float, finalists: int, documents: int
) -> None:
    rng = stream(0, "null", finalists, documents)
    shipped = sum(
        choose(simulated(rng, finalists, documents, 0.0), 20, rng, risk=risk).ship
        for _ in range(RUNS)
    )
    assert shipped <= most_shipped(risk)


def most_shipped(risk: float) -> float:
    """A count that chance exceeds once in 1000: 3.1 binomial standard deviations above."""
    return RUNS * risk + 3.1 * (RUNS * risk * (1 - risk)) ** 0.5 + 1


@pytest.mark.parametrize(("risk", "fewest"), [(RISK, 4), (0.025, 6), (0.3, 3)])
def test_fewer_documents_than_can_show_a_gain_ship_nothing_and_as_many_do(
    risk: float, fewest: int
) -> None:
    # Of n documents all one way one swap in 2 ** n does as well; a fifth of the risk is kept for
    # the test for fewer failures: 2 ** -4 < .08 < 2 ** -3.
    assert gate.fewest_documents(risk) == fewest
    for n_documents, ships in ((fewest - 1, False), (fewest, True)):
        rows = 0.3 + stream(0, "few").normal(0, 0.01, (1, n_documents))
        choice = choose(rows, 9, stream(1), risk=risk)
        assert choice.ship == ships
        assert ("too few to compare" in choice.why) != ships


def test_documents_that_only_one_finalist_has_narrow_its_interval_alone() -> None:
    rows = stream(0, "twin").normal(0.05, 0.2, (2, 30))
    more = np.vstack([stream(1, "twin").normal(0.05, 0.2, (1, 40)), np.full((1, 40), np.nan)])
    first, other = gains(np.hstack([rows, more]), stream(2))
    assert (first.n_documents, other.n_documents) == (70, 30)
    assert other.value == pytest.approx(float(rows[1].mean()))
    # 70 documents for 30: the standard error is about sqrt(30 / 70) = .65 as large.
    assert first.error < 0.8 * other.error
    why = choose(np.hstack([rows, more]), 5, stream(2), n_own=30).why
    assert "On 70 documents held out from its prompt" in why


def test_a_finalist_that_does_no_better_is_named_and_not_shipped() -> None:
    choice = choose(stream(0, "worse").normal(-0.1, 0.1, (2, 30)), 5, stream(1))
    assert choice.best is not None
    assert not choice.ship
    assert "does no better" in choice.why
    assert choice.gain is not None
    assert choice.gain.low < choice.gain.value < 0


def test_without_finalists_the_untuned_judge_ships_and_the_reason_says_so() -> None:
    choice = choose(np.empty((0, 0)), 12, stream(0))
    assert not choice.ship
    assert choice.best is None
    assert "None of 12 candidates" in choice.why


def test_the_verdict_says_what_ships_on_how_many_documents_and_at_which_risk() -> None:
    rows = stream(0).normal(0.2, 0.1, (2, 26))
    assert choose(rows, 17, stream(1)).why == (
        "Shipped: the tuned judge. On 26 documents held out from its prompt it beats the untuned "
        "judge (risk of a false claim: 10%)."
    )
    rows += 0.005 - rows.mean(axis=1, keepdims=True)
    assert choose(rows, 17, stream(1), risk=0.025).why == (
        "Shipped: the untuned judge. On 26 documents held out from its prompt the tuned judge does "
        "not clearly beat it (risk of a false claim: 2.5%)."
    )


def test_the_tuned_judge_ships_where_its_user_asks_and_the_verdict_says_so() -> None:
    rows = stream(0).normal(0.0, 0.1, (1, 26))
    kept = choose(rows + 0.005 - rows.mean(), 17, stream(1))
    assert not kept.ship
    asked = gate.as_asked(kept)
    assert asked.ship
    assert asked.why.startswith("Shipped: the tuned judge, by --ship tuned. On 26 documents")
    assert "does not clearly beat it" in asked.why
    # Nothing is shipped where nothing was found.
    assert not gate.as_asked(choose(np.empty((0, 0)), 12, stream(0))).ship


@pytest.mark.parametrize("documents", [12, 20, 40])
def test_three_gains_and_zeros_else_ship_at_no_risk_below_an_eighth(documents: int) -> None:
    """All three are of one sign in one of eight draws: a chance of .125."""
    row = np.zeros((1, documents))
    row[0, :3] = 0.1
    assert not choose(row, 9, stream(0, documents)).ship
    # Five of one sign are so in one of 32: .03.
    row[0, :5] = 0.1
    assert choose(row, 9, stream(0, documents)).ship
    assert not choose(row, 9, stream(0, documents), risk=0.025).ship


def test_the_low_end_lies_above_zero_exactly_where_few_swaps_do_as_well() -> None:
    rng = stream(0, "exact")
    for _ in range(40):
        rows = rng.normal(0.08, 0.2, (3, 20))
        result = contrasts(rows)
        names = result[0].documents
        signs = stream(7).choice([-1.0, 1.0], (gate.SWAPS, len(names)))
        signs = np.vstack([np.ones(len(names)), signs])
        largest = np.max([one.swapped(signs) for one in result], axis=0)
        for one, gain in zip(result, gate.gains(result, stream(7)), strict=True):
            own = one.swapped(np.ones((1, len(names))))[0]
            p_value = float((largest >= own * (1 - 1e-9)).mean())
            assert (gain.low > 0) == (p_value <= gate.TAIL)


def test_a_judge_that_fails_often_does_not_ship_however_well_it_ranks_the_rest() -> None:
    rows = stream(0, "fails").normal(0.2, 0.05, (2, 30))
    assert choose(rows, 9, stream(1), failed=(0.11, 0.0)).best == 1
    alone = choose(rows, 9, stream(1), failed=(0.11, 0.12))
    assert not alone.ship
    assert "fails on 11%" in alone.why


def reading(fewer: float, gain: float) -> Choice:
    """A finalist that the seed's failures are beside: it reads more, and ranks by `gain` better."""
    rows = stream(0, "reads").normal(size=30)
    rows = gain + 0.1 * (rows - rows.mean()) / rows.std(ddof=1)
    names = [f"d{number}" for number in range(30)]
    spread = np.where(np.arange(30) % 2, fewer * 2, 0.0)
    one = ComparedCandidate(
        gain=mean_of_differences(rows, names),
        dev_gain=mean_of_differences(rows, names),
        failure_reduction=mean_of_differences(spread, names),
        failure_rate=0.02,
        seed_failure_rate=0.02 + fewer,
    )
    return gate.choose([one], 9, stream(1))


def test_a_judge_that_is_no_worse_and_reads_clearly_more_ships_for_that() -> None:
    # The standard error is .1 / sqrt(30) = .018.
    assert reading(0.2, 0.0).ship
    assert "it fails on 2% of the outputs, and the untuned judge on 22%" in reading(0.2, 0.0).why
    assert reading(0.2, -0.017).ship
    assert not reading(0.2, -0.02).ship
    assert not reading(0.04, 0.0).ship


def test_of_judges_within_a_standard_error_the_cheapest_to_use_ships() -> None:
    """Gains .30, .29 and .20; the best is .01 better than the second with an error of .018."""
    rng, names = stream(3), [f"d{number}" for number in range(30)]
    wave = 0.1 * np.tile([1.0, -1.0], 15)
    rows = [0.30 + wave, 0.29 - wave[::-1], 0.20 + np.roll(wave, 1) * 0.5]

    def finalist(row: Matrix, cost: float) -> ComparedCandidate:
        contrast = mean_of_differences(row, names)
        return ComparedCandidate(
            gain=contrast,
            dev_gain=contrast,
            failure_reduction=mean_of_differences(np.zeros(30), names),
            failure_rate=0.0,
            seed_failure_rate=0.0,
            cost=cost,
        )

    def shortfall(better: int, worse: int) -> Contrast:
        # The two swing against each other, so that their difference has an error of its own.
        return mean_of_differences(rows[better] - rows[worse] + wave * (better != worse), names)

    finalists = [finalist(row, cost) for row, cost in zip(rows, (9.0, 1.5, 1.0), strict=True)]
    assert gate.choose(finalists, 3, rng, shortfall).best == 1
    # Where nothing is paid, and where all cost the same, the best ships.
    assert gate.choose(finalists, 3, rng).best == 0
    at_one_cost = [finalist(row, 1.0) for row in rows]
    assert gate.choose(at_one_cost, 3, rng, shortfall).best == 0


def test_a_search_that_could_try_nothing_says_so() -> None:
    choice = gate.choose([], 0, np.random.default_rng(0))
    assert choice.why == "Shipped: the untuned judge. No candidate could be tried."
