"""How judges are joined: lines, weights, and the choice between a panel and the best judge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from report_cases import outputs

from dspy_judges.errors import SettingsError
from judges.labels.types import LabelledPairs
from optimize.measuring.panel_learning import learn_panel
from optimize.measuring.recorded import judgement_of_score
from optimize.statistics.correlations import summary_level
from optimize.statistics.panel_weights import fit_joining_weights


def scored(scores, human, documents, systems, level="summary"):
    """Each judge's scored items, by its name; at the level "pairs" scores are margins."""
    is_pairwise, people = level == "pairs", [[label] for label in human.tolist()]
    about = {"systems": [*systems], "level": "dataset" if is_pairwise else level}
    items = outputs([0.0] * human.size, people, documents, **about)
    judgements = {
        name: tuple(judgement_of_score(score, is_pairwise) for score in numbers.tolist())
        for name, numbers in scores.items()
    }
    labels = LabelledPairs(name="pairs", sha256="", pairs=()) if is_pairwise else items.labels
    return {
        name: replace(items, labels=labels, judgements=each) for name, each in judgements.items()
    }


def learn(judges):
    """The panel of these judges, and the scores of what ships."""
    fit = learn_panel(judges, np.random.default_rng(0))
    return fit, fit.score(judges).scores


class World:
    """Outputs whose quality, of a variance of 1 in a document, people and judges see in noise."""

    def __init__(self, seed, documents=24, systems=8):
        self.rng = np.random.default_rng(seed)
        self.document = np.repeat([f"d{n:03}" for n in range(documents)], systems)
        self.system = np.tile([f"s{n}" for n in range(systems)], documents)
        self.truth = self.rng.normal(size=documents * systems)
        self.human = np.clip(np.round(3 + self.judge(0.5)), 1, 5)

    def judge(self, noise):
        return self.truth + noise * self.rng.normal(size=self.truth.size)

    def fit(self, scores, level="summary"):
        return learn(scored(scores, self.human, self.document, self.system, level))


def weights(fit):
    return {member.name: member.weight for member in fit.members}


def test_ridge_weights_lie_between_least_squares_and_the_prior():
    # Of n orthogonal answers with a mean square of 1, least squares gives c, and the ridge
    # (n c + s f p) / (n + s), where f = p c / p p is how well the prior's sum fits.
    answers = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    c, prior, shrinkage = np.array([0.5, 0.1]), np.array([0.25, 0.75]), 2
    ridge = 4 * c + shrinkage * (prior @ c / (prior @ prior)) * prior
    weights = fit_joining_weights(answers, answers @ c, prior, shrinkage)
    assert weights == pytest.approx(ridge / ridge.sum())


FLOATS = st.floats(-3, 3)


@given(arrays(float, (12, 3), elements=FLOATS), arrays(float, 12, elements=FLOATS))
def test_weights_are_never_negative_and_sum_to_one(answers, human):
    weights = fit_joining_weights(answers, human, np.array([0.5, 0.25, 0.25]))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    # What goes against people leaves the prior.
    answers, prior = np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([0.5, 0.5])
    assert fit_joining_weights(answers, np.array([-1.0, 1.0]), prior) == pytest.approx(prior)


def test_redundant_and_contrary_judges_get_little_weight():
    world = World(1, documents=80)
    better = world.judge(1.0)
    copy = better + 3 * world.rng.normal(size=better.size)
    fit, _ = world.fit({"a": better, "b": world.judge(1.0), "c": copy, "d": -world.judge(1.0)})
    assert fit.kind == "learned"
    assert min(weights(fit)["a"], weights(fit)["b"]) > 0.35
    assert weights(fit).get("c", 0) < 0.1
    assert ("d" in weights(fit), fit.rho_alone["d"] < 0) == (False, True)


@pytest.mark.parametrize("others", [{}, {"b": 1.0, "c": 1.0}], ids=["alone", "copies"])
def test_the_best_judge_is_kept_if_others_add_nothing(others):
    world = World(3)
    own = world.judge(1.0)
    fit, panel = world.fit({"a": own, **dict.fromkeys(others, own)})
    assert (fit.kind, weights(fit)) == ("own", {"a": 1.0})
    assert panel == pytest.approx(own)


def test_a_members_contribution_is_what_the_panel_loses_without_it():
    world = World(5)
    own = world.judge(1.0)
    fit, _ = world.fit({"a": own, "b": world.judge(1.0), "c": world.judge(8.0)})
    alone = summary_level(own, world.human, world.document)
    assert fit.rho_alone["a"] == pytest.approx(alone.value)
    adds = {name: gain.value for name, gain in fit.rho_added.items()}
    assert adds["c"] < 0.01 < adds["b"]


def test_the_panels_gain_is_unbiased_for_other_documents():
    errors = []
    for seed in range(7):
        world = World(100 + seed, documents=12)
        fit, _ = world.fit({"a": world.judge(1.0), "b": world.judge(1.5)})
        fresh = World(1000 + seed, documents=200)
        # Within documents a judge varies by 1 and its noise; lines make that 1.
        a, b = fresh.judge(1.0) / 2**0.5, fresh.judge(1.5) / 3.25**0.5
        rows = fresh.human, fresh.document
        own, panel = (summary_level(scores, *rows).value for scores in (a, 0.75 * a + 0.25 * b))
        errors.append(fit.gain.value - (panel - own))
    assert abs(np.mean(errors)) < 2.5 * np.std(errors, ddof=1) / len(errors) ** 0.5


def test_neither_scale_nor_order_of_members_matters():
    world = World(7)
    scores = {"a": world.judge(1.0), "b": world.judge(1.2)}
    fit, panel = world.fit(scores)
    assert world.fit({name: scores[name] for name in "ba"})[0] == fit
    _, other_panel = world.fit({"b": scores["b"] / 10, "a": 25 * scores["a"] - 25})
    assert other_panel == pytest.approx(panel)
    assert (panel.mean(), panel.std()) == pytest.approx((world.human.mean(), world.human.std()))


def test_constant_or_failing_members_are_left_out():
    world = World(8)
    often, seldom = world.judge(0.5), world.judge(1.0)
    often[::5], seldom[3] = np.nan, np.nan
    flat = np.full(192, 3.0)
    fit, panel = world.fit({"a": often, "b": seldom, "c": world.judge(1.0), "d": flat})
    flat_says = "tells no two outputs apart"
    assert fit.why_excluded == {"a": "fails on 20% of the outputs", "d": flat_says}
    assert weights(fit).keys() == {"b", "c"}
    assert np.flatnonzero(np.isnan(panel)).tolist() == [3]
    with pytest.raises(SettingsError, match=f"d {flat_says}; give other judges"):
        world.fit({"d": flat})


@pytest.mark.parametrize("level", ["summary", "dataset", "system"])
def test_one_document_or_equal_labels_teach_nothing(level):
    one, alike = World(9, documents=1, systems=30), World(9)
    alike.human = np.full(192, 3.0)
    for world in (one, alike):
        scores = {"a": world.judge(1.0), "b": world.judge(1.0)}
        with pytest.raises(SettingsError, match="rate outputs differently in fewer than two"):
            world.fit(scores, level)


def test_swapping_the_sides_of_pairs_keeps_the_panel_and_flips_margins():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=120)
    margins = {
        name: np.clip(truth + noise * rng.normal(size=120), -1, 1) * size
        for name, noise, size in (("a", 1.0, 1.0), ("b", 1.0, 0.2), ("c", 4.0, 1.0))
    }
    names = [f"p{n}" for n in range(120)]
    panels = []
    for sign in (np.ones(120), rng.choice([-1.0, 1.0], 120)):
        mirror = {name: scores * sign for name, scores in margins.items()}
        fit, panel = learn(scored(mirror, np.sign(truth) * sign, names, names, "pairs"))
        assert fit.kind == "learned"
        # A frozen panel of pairs may not shift a margin or enlarge it.
        assert all(each.intercept == 0 and 0 < each.slope <= 1 for each in fit.members)
        panels.append(panel * sign)
    assert panels[0] == pytest.approx(panels[1])
    assert np.abs(panels[0]).max() <= 1
