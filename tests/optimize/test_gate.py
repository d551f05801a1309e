"""The gate: what decides, what ships, and how often it errs."""

from dataclasses import replace

import numpy as np
import pytest
from search_world import Watch, rate, search, world

from optimize.search import gate, power
from optimize.search.candidates import Candidate
from optimize.search.problem import DEFAULT_RISK, CandidateTrial, SearchOptions
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import dataset_level
from optimize.statistics.intervals import contrast_from_documents, random_generator

RUNS = 80


def finalist(rng, documents, noise, *, first=0, outputs=4):
    """A judge with so much noise beside an untuned one with noise 1, as items of a known truth."""
    truth = rng.normal(size=documents * outputs)
    items = rate(world(documents, outputs, first=first), np.round(2 * truth))
    # Judges of two halves do not mean the same by a number.
    scores = (100.0 if first else 1.0) * (truth + noise * rng.normal(size=truth.size))
    untuned_scores = truth + rng.normal(size=truth.size)
    return CandidateTrial(Candidate(instruction="tuned"), items, scores, untuned_scores, "summary")


def halves(rng, documents, noise, outputs=4):
    """One for either half of the labels."""
    n = documents // 2
    return [finalist(rng, n, noise, first=first, outputs=outputs) for first in (0, n)]


def gain_of(differences, rng, risk):
    """The gain of one finalist with these differences, one a document."""
    names = [f"d{number:03}" for number in range(len(differences))]
    contrast = contrast_from_documents(differences, names)
    return gate.largest_gain({"finalists": [[contrast]]}, rng, risk)


def at_most(risk):
    """Chance exceeds this once in 1000: 3.1 binomial standard deviations above."""
    return RUNS * risk + 3.1 * (RUNS * risk * (1 - risk)) ** 0.5 + 1


def verdict(finalists, goal, rng, risk=DEFAULT_RISK):
    gains = [[replace(each, goal=goal).gain_estimate] for each in finalists]
    return gate.decide_by_gain({"finalists": gains}, goal, rng, risk)


@pytest.mark.parametrize(
    ("goal", "documents"), [("summary", 12), ("dataset", 24), ("balanced", 10)]
)
def test_equal_judges_ship_about_as_often_as_the_risk(goal, documents):
    rng, ships = random_generator(0, "null", goal, documents), {DEFAULT_RISK: 0, 0.3: 0}
    for _ in range(RUNS):
        both = halves(rng, documents, 1.0)
        both = map(passing, both) if goal == "balanced" else both
        gains = [[replace(each, goal=goal).gain_estimate] for each in both]
        for risk in ships:
            ships[risk] += gate.decide_by_gain({"finalists": gains}, goal, rng, risk).ships
    assert all(number <= at_most(risk) for risk, number in ships.items())


def passing(each):
    """The outputs that people and the judges rate above 0 pass."""
    scores, untuned = (each.scores > 0).astype(float), (each.reference_scores > 0).astype(float)
    items = rate(each.items, each.items.human > 0)
    return replace(each, items=items, scores=scores, reference_scores=untuned)


def tied_world(rng, documents):
    """Labels, scores on five levels, and scores of which 85 % are one; four outputs a document.

    The noise of the finer scores is such that both truly have the same rho over all outputs.
    """
    truth = rng.normal(size=documents * 4)
    human = np.round(truth + 0.4 * rng.normal(size=truth.size))
    fine, coarse = (truth + noise * rng.normal(size=truth.size) for noise in (2.18, 1.3))
    return human, np.round(fine), np.floor(np.minimum(coarse + 1.7, 0))


def test_an_equal_judge_with_fewer_ties_ships_as_rarely():
    """Ranks within either half, joined, would take apart what is tied: .63 would ship."""
    human, *judges = tied_world(random_generator(0, "population"), 50_000)
    fine, coarse = (dataset_level(scores, human).value for scores in judges)
    assert fine == pytest.approx(coarse, abs=0.005)
    rng, document, choices = random_generator(0, "ties"), np.arange(240) // 4, []
    for _ in range(RUNS):
        contrasts = []
        for _ in range(2):
            human, *judges = tied_world(rng, 60)
            contrasts.append([contrast_judges(*judges, human, document, level="dataset")])
        choices.append(gate.decide_by_gain({"finalists": contrasts}, "dataset", rng))
    assert sum(choice.ships for choice in choices) <= at_most(DEFAULT_RISK)
    # The gain of a run has a standard deviation of about .06, the mean one of .007.
    gains = [choice.gain.value for choice in choices]
    assert np.mean(gains) == pytest.approx(0, abs=0.02)


def test_the_gain_over_both_halves_is_weighted_by_documents():
    rows = [0.4], [0.0, 0.1, 0.5], [np.nan]
    contrasts = [[contrast_from_documents(np.array(r), [*map(str, range(len(r)))])] for r in rows]
    gain = gate.largest_gain({"finalists": contrasts}, random_generator(0))
    assert (gain.value, gain.n_documents) == (pytest.approx(0.25), 4)


def test_finalists_gains_are_averaged_and_swapped_together():
    """Either finalist's mean: (.2 + .4) / 2 and .6; the second has no figure on document b."""
    rows = np.array([0.2, 0.4]), np.array([0.6, np.nan])
    finalists = [contrast_from_documents(row, ["a", "b"]) for row in rows]
    gain = gate.largest_gain({"finalists": [finalists]}, random_generator(0), 0.3)
    assert (gain.value, gain.n_documents) == (pytest.approx((0.3 + 0.6) / 2), 2)
    # Document a adds .35 and b .1, so the four swaps are .45, .25, -.25 and -.45: a quarter is
    # .45, and the next one .25.
    assert gain.interval.low == pytest.approx(0.45 - 0.25)


def test_nearly_constant_labels_are_too_alike_for_the_gate():
    """Either half has 4 or 5 documents of 30 with another label than 1: ten are the least."""
    for each, ships in ((4, False), (5, True)):
        human = (np.arange(30) >= each).astype(float)
        noise = random_generator(0).normal(size=30)
        sides = (human + 0.001 * noise, noise, human, np.arange(30))
        gains = [[contrast_judges(*sides, level="dataset")]] * 2
        choice = gate.decide_by_gain({"finalists": gains}, "dataset", random_generator(1))
        assert choice.ships == ships
        assert ("scores too alike" in choice.why) != ships


def test_the_decision_gives_a_reason_also_if_the_user_forces_it():
    worse = verdict(halves(random_generator(0), 40, 3.0), "summary", random_generator(1))
    assert not worse.ships
    assert "on 40 documents, tuned prompts fall short of the untuned judge by 0." in worse.why
    unclear = verdict(halves(random_generator(3), 12, 0.9), "summary", random_generator(1), 0.025)
    assert unclear.gain.interval.low <= 0 < unclear.gain.value
    assert "over 2.5% of runs would show as much" in unclear.why
    forced = replace(unclear, ships=True, is_forced=True)
    assert forced.why.startswith("Shipped: the tuned judge, by --ship tuned. Cross-validated on")


@pytest.mark.parametrize(("risk", "fewest"), [(DEFAULT_RISK, 4), (0.025, 6), (0.3, 2)])
def test_a_gain_needs_the_fewest_documents_that_can_show_it(risk, fewest):
    # Of n documents all one way one swap in 2 ** n does as well: 2 ** -4 < .10 < 2 ** -3.
    assert power.fewest_documents(risk) == fewest
    for n_documents in (fewest - 1, fewest):
        perfect = finalist(random_generator(0, "few"), n_documents, 0.0, outputs=30)
        choice = verdict([perfect], "summary", random_generator(1), risk)
        assert choice.ships == (n_documents == fewest)
        assert ("are too few, or" in choice.why) != choice.ships


@pytest.mark.parametrize(("documents", "risk"), [(20, 0.1), (3, 0.5), (12, 0.5)])
def test_the_low_end_agrees_with_the_permutation_test(documents, risk):
    rng, shape = random_generator(0, "exact"), (gate.N_PERMUTATIONS, documents)
    for _ in range(40):
        row = rng.normal(0.08, 0.2, documents)
        one = contrast_from_documents(row, [f"d{number:03}" for number in range(documents)])
        signs = np.vstack([np.ones(documents), random_generator(7).choice([-1.0, 1.0], shape)])
        own, gain = one.swapped(signs[:1])[0], gain_of(row, random_generator(7), risk)
        p_value = float((one.swapped(signs) >= own * (1 - 1e-9)).mean())
        assert (gain.interval.low > 0) == (own > 0 and p_value <= risk)
        assert gain.interval.low <= gain.interval.high


def test_the_computed_power_equals_the_simulated_power():
    """Rho differences of a document with standard deviation 1 / sqrt(3), as of four outputs."""
    rng, sd = random_generator(0, "power"), power.RHO_DIFFERENCE_SD / 3**0.5
    gains = [gain_of(rng.normal(0.1, sd, 60), rng, DEFAULT_RISK) for _ in range(120)]
    clear = [gain.interval.low > 0 for gain in gains]
    # Three binomial standard errors of 120 draws are at most .137.
    assert power.power(60, 3, 0.1) == pytest.approx(np.mean(clear), abs=0.137)


def test_the_chance_of_a_gain_depends_on_level_and_labels():
    items = finalist(random_generator(0), 30, 1.0).items
    alike = rate(items, np.arange(len(items)) < 9 * 4)
    # Of four outputs over all four compare, within a document three beyond the first.
    for goal, labels, chance in (
        ("dataset", items, power.power(30, 4, power.PLANNED_GAIN)),
        ("summary", items, power.power(30, 3, power.PLANNED_GAIN)),
        ("dataset", alike, 0),
    ):
        promise, _ = power.power_text(labels, labels, search_goal=goal)
        assert f"a chance of {chance:.0%};" in promise


# A judge that shows all labels: versions of it judge the documents that it shows.
DEMOS_OF_ALL_OUTPUTS = SearchOptions(max_demos=1000)


def test_a_judge_showing_all_labels_is_tested_without_the_document():
    watch, train, dev = Watch(), world(16), world(12, first=100)
    whole = train + dev
    document = {item.texts["text"]: item.document_id for item in whole.items}
    result, records, evaluator = search(train, dev, options=DEMOS_OF_ALL_OUTPUTS, by=watch)
    assert result.decision.gain.n_documents == 16 + 12
    assert [record["stage"] for record in records] == ["dev", "gate"]
    assert records[0]["how"] == "all"
    assert result.tuned_candidate.demo_set.documents == set(whole.documents)
    assert len(result.tuned_candidate.demo_set.demos) == len(whole)
    # Four versions, each of three quarters of the documents.
    prompts = [prompt for prompt, _ in watch.requests if prompt.demos]
    versions = {str(prompt.template()): len(prompt.demos) for prompt in prompts}
    assert list(versions.values()) == [21 * 8] * 4
    for prompt, item in watch.requests:
        assert item.document_id not in {document[str(demo["text"])] for demo in prompt.demos}
    # The untuned judge and the versions judge each output once.
    assert len(watch.requests) == 2 * len(whole) == evaluator.budget.total_cost


def test_demonstrations_come_from_the_other_half():
    train, dev = world(16), world(12, first=100)
    _, records, _ = search(train, dev, options=SearchOptions(max_demos=16))
    trials = [record for record in records if record["stage"] == "dev"]
    for trial, half in zip(trials, (train, dev), strict=True):
        assert (trial["how"], len(trial["demos"])) == ("levels 16", 16)
        assert set(trial["demos"]) <= {item.id for item in half.items}
    nothing, records, _ = search(train, dev, options=SearchOptions(max_demos=0))
    assert not records
    assert not nothing.decision.ships


@pytest.mark.parametrize("calls", [1, 60, 250])
def test_the_limit_decides_how_many_documents_are_tested(calls):
    result, _, evaluator = search(
        world(16), world(12, first=100), calls=calls, options=DEMOS_OF_ALL_OUTPUTS
    )
    assert evaluator.budget.total_cost <= calls
    n_documents = result.decision.gain.n_documents
    # A document is 8 outputs for two judges.
    assert n_documents == calls // 16
