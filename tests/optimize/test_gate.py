"""The gate: what decides, what ships, and how often it errs."""

from collections.abc import Sequence

import numpy as np
import pytest
from search_world import SEED, judge, search, world, written_search

from judges.judgement import Judgement
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search import gate
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Judged, SearchOptions
from optimize.search.gate import RISK, Finalist
from optimize.statistics.correlations import Level, mean_of_differences
from optimize.statistics.intervals import stream

RUNS = 120


def finalist(
    rng: np.random.Generator,
    documents: int,
    noise: float,
    *,
    first: int = 0,
    outputs: int = 4,
    scale: float = 1.0,
) -> Finalist:
    """A judge with so much noise beside an untuned one with noise 1, as items of a known truth."""
    truth = rng.normal(size=documents * outputs)
    items = Items(
        tuple(
            Item(
                id=str(n),
                document_id=f"d{n // outputs:03}",
                system=f"s{n % outputs}",
                texts={},
                human=human,
            )
            for n, human in enumerate(np.round(2 * truth).tolist(), first * outputs)
        )
    )
    return Finalist(
        candidate=Candidate(instruction="tuned"),
        items=items,
        scores=scale * (truth + noise * rng.normal(size=truth.size)),
        seed=truth + rng.normal(size=truth.size),
    )


def halves(rng: np.random.Generator, documents: int, noise: float) -> list[Finalist]:
    """One for either half of the labels; the two judges do not mean the same by a number."""
    half = documents // 2
    return [
        finalist(rng, half, noise),
        finalist(rng, documents - half, noise, first=half, scale=100.0),
    ]


@pytest.mark.parametrize("risk", [RISK, 0.3])
@pytest.mark.parametrize(
    ("level", "documents"), [("summary", 12), ("summary", 40), ("dataset", 24)]
)
def test_judges_that_are_no_better_ship_about_as_rarely_as_the_risk_says(
    risk: float, level: Level, documents: int
) -> None:
    rng = stream(0, "null", level, documents)
    shipped = sum(
        gate.verdict(halves(rng, documents, 1.0), level, rng, risk).ship for _ in range(RUNS)
    )
    # Chance exceeds this once in 1000: 3.1 binomial standard deviations above.
    assert shipped <= RUNS * risk + 3.1 * (RUNS * risk * (1 - risk)) ** 0.5 + 1


@pytest.mark.parametrize("level", ["summary", "dataset", "system"])
def test_a_better_judge_ships_on_the_documents_of_both_halves(level: Level) -> None:
    choice = gate.verdict(halves(stream(0), 40, 0.3), level, stream(1))
    assert choice.ship
    assert choice.gain is not None
    assert choice.gain.low > 0
    assert choice.why == (
        "Shipped: the tuned judge. On 40 documents held out from its prompt it beats the untuned "
        "judge (risk of a false claim: 10%)."
    )


def test_what_does_not_ship_says_why() -> None:
    worse = gate.verdict(halves(stream(0), 40, 3.0), "summary", stream(1))
    assert not worse.ship
    assert "On 40 documents held out from its prompt the tuned judge does no better" in worse.why
    unclear = gate.verdict(halves(stream(3), 12, 0.9), "summary", stream(1), 0.025)
    assert unclear.gain is not None
    assert unclear.gain.low <= 0 < unclear.gain.value
    assert "does not clearly beat it (risk of a false claim: 2.5%)" in unclear.why


@pytest.mark.parametrize(("risk", "fewest"), [(RISK, 4), (0.025, 6), (0.3, 2)])
def test_fewer_documents_than_can_show_a_gain_ship_nothing_and_as_many_do(
    risk: float, fewest: int
) -> None:
    # Of n documents all one way one swap in 2 ** n does as well: 2 ** -4 < .10 < 2 ** -3.
    assert gate.fewest_documents(risk) == fewest
    for n_documents in (fewest - 1, fewest):
        perfect = finalist(stream(0, "few"), n_documents, 0.0, outputs=30)
        choice = gate.verdict([perfect], "summary", stream(1), risk)
        assert choice.ship == (n_documents == fewest)
        assert ("too few to compare" in choice.why) != choice.ship


@pytest.mark.parametrize("documents", [12, 20, 40])
def test_three_gains_and_zeros_else_are_clear_at_no_risk_below_an_eighth(documents: int) -> None:
    """All three are of one sign in one of eight draws: a chance of .125."""
    names = [f"d{number}" for number in range(documents)]
    row = np.zeros(documents)
    row[:3] = 0.1

    def is_clear(risk: float) -> bool:
        return gate.gain_of(mean_of_differences(row, names), stream(0, documents), risk).is_clear

    assert not is_clear(RISK)
    # Five of one sign are so in one of 32: .03.
    row[:5] = 0.1
    assert is_clear(RISK)
    assert not is_clear(0.025)


def test_the_low_end_lies_above_zero_exactly_where_few_swaps_do_as_well() -> None:
    rng = stream(0, "exact")
    for _ in range(40):
        names = [f"d{number:03}" for number in range(20)]
        one = mean_of_differences(rng.normal(0.08, 0.2, 20), names)
        signs = np.vstack([np.ones(20), stream(7).choice([-1.0, 1.0], (gate.SWAPS, 20))])
        own, gain = one.swapped(np.ones((1, 20)))[0], gate.gain_of(one, stream(7), 0.1)
        p_value = float((one.swapped(signs) >= own * (1 - 1e-9)).mean())
        assert (gain.low > 0) == (p_value <= 0.1)


def test_the_power_is_that_of_the_simulated_decision() -> None:
    """Rho differences of a document with standard deviation 1 / sqrt(3), as of four outputs."""
    rng, names = stream(0, "power"), [f"d{number}" for number in range(60)]
    rows = rng.normal(0.1, gate.SPREAD / 3**0.5, (RUNS, 60))
    clear = [gate.gain_of(mean_of_differences(row, names), rng, RISK).is_clear for row in rows]
    # Three binomial standard errors of 120 draws are at most .137.
    assert gate.power(60, 4, 0.1) == pytest.approx(np.mean(clear), abs=0.137)


def test_more_documents_outputs_and_gain_have_more_power() -> None:
    assert gate.power(3, 8, 0.3) == 0
    assert gate.power(20, 4, 0.1) < gate.power(40, 4, 0.1) < gate.power(40, 8, 0.1)
    assert gate.power(40, 4, 0.1) < gate.power(40, 4, 0.2)
    assert gate.power(40, 4, 0.0) == pytest.approx(RISK)
    fewest = gate.documents_for(0.8, 8, 0.1, RISK)
    assert gate.power(fewest - 1, 8, 0.1) < 0.8 <= gate.power(fewest, 8, 0.1)


def test_a_search_judges_either_half_by_what_the_other_taught() -> None:
    train, dev = world(16), world(14, first=100)
    result, records, _ = written_search(train, dev)
    assert result.choice.ship
    assert result.choice.gain is not None
    assert result.choice.gain.n_documents == 16 + 14
    assert "kindness" in result.tuned.instruction
    assert "candour" in result.tuned.instruction
    on_dev = [record for record in records if record["stage"] == "dev"]
    assert {record["n_documents"] for record in on_dev} == {16, 14}
    assert [record["stage"] for record in records].count("gate") == 1


def test_a_finalist_that_fails_often_does_not_ship_however_well_it_ranks_the_rest() -> None:
    def failing(share: float) -> gate.SearchResult:
        def by(prompt: Prompt, items: Sequence[Item]) -> list[Judged]:
            scored = judge(prompt, items)
            if prompt == SEED:
                return scored
            failed = Judged(Judgement.failed("no rating"))
            return [
                failed if stream(0, item.id).random() < share else score
                for item, score in zip(items, scored, strict=True)
            ]

        return written_search(world(16), world(14, first=100), by=by)[0]

    assert failing(0.03).choice.ship
    often = failing(0.3)
    assert not often.choice.ship
    assert often.tuned.instruction == SEED.instruction


def test_the_tuned_judge_ships_where_its_user_asks_and_the_verdict_says_so() -> None:
    kept = gate.verdict(halves(stream(3), 12, 0.9), "summary", stream(1), 0.025)
    asked = gate.as_asked(kept)
    assert asked.ship
    assert asked.why.startswith("Shipped: the tuned judge, by --ship tuned. On 12 documents")


# A judge that shows all labels: versions of it judge the documents that it shows.
EVERYTHING = SearchOptions(max_demos=1000)


def test_with_few_documents_or_little_room_there_are_no_versions() -> None:
    assert not gate.CrossFit(world(7), SEED, EVERYTHING).is_feasible
    assert not gate.CrossFit(world(16), SEED, SearchOptions(max_demos=16)).is_feasible
    assert not gate.CrossFit(Items(()), SEED, EVERYTHING).is_feasible


def test_what_shows_all_labels_is_judged_by_versions_that_do_not_show_the_document() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[Judged]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    train, dev = world(16), world(12, first=100)
    whole = Items((*train.items, *dev.items))
    document = {item.texts["text"]: item.document_id for item in whole.items}
    result, records, evaluator = search(train, dev, options=EVERYTHING, by=watching)
    assert result.choice.gain is not None
    assert result.choice.gain.n_documents == 16 + 12
    assert [record["stage"] for record in records] == ["dev", "gate"]
    assert records[0]["how"] == "all"
    assert result.tuned.documents == set(whole.documents)
    assert len(result.tuned.demo_set.demos) == len(whole)
    # Four versions, each of three quarters of the documents.
    versions = {str(prompt.template()): len(prompt.demos) for prompt, _ in asked if prompt.demos}
    assert list(versions.values()) == [21 * 8] * 4
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}
    # The untuned judge and the versions judge each output once.
    assert len(asked) == 2 * len(whole) == evaluator.budget.spent


def test_where_not_all_can_be_shown_each_half_teaches_for_the_other() -> None:
    train, dev = world(16), world(12, first=100)
    _, records, _ = search(train, dev, options=SearchOptions(max_demos=16))
    trials = [record for record in records if record["stage"] == "dev"]
    for trial, half in zip(trials, (train, dev), strict=True):
        assert (trial["how"], len(trial["demos"])) == ("levels 16", 16)
        assert set(trial["demos"]) <= {item.id for item in half.items}
    nothing, records, _ = search(train, dev, options=SearchOptions(max_demos=0))
    assert not records
    assert not nothing.choice.ship


@pytest.mark.parametrize("calls", [1, 60, 250])
def test_what_is_shown_is_compared_on_as_much_of_the_labels_as_the_calls_reach_for(
    calls: int,
) -> None:
    result, _, evaluator = search(world(16), world(12, first=100), calls=calls, options=EVERYTHING)
    assert evaluator.budget.spent <= calls
    n_documents = result.choice.gain.n_documents if result.choice.gain else 0
    # A document is 8 outputs for two judges.
    assert n_documents == calls // 16
