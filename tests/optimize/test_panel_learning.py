"""Panels: maps, weights, the choice between best judge, plain mean and learned weights."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimize.panel.learn import PanelFit, joined_scores, learn_pair_panel, learn_panel
from optimize.panel.maps import Line, fit_line, fit_margin_lines, standard_ranks
from optimize.panel.members import MemberScores, labelled_scores
from optimize.panel.weights import Moments, weighted_mean
from scipy.stats import spearmanr

from optimize.items import read_scores
from optimize.statistics.correlations import Level, summary_level

SHARED = Path(__file__).parents[3] / "shared" / "data"
DOCUMENTS, SYSTEMS = 24, 8
EVERY = np.array([True, True])


def joined(fit: PanelFit, members: list[MemberScores]) -> np.ndarray:
    return joined_scores(fit, {member.name: member.scores for member in members})


def named(**scores: np.ndarray) -> list[MemberScores]:
    return [MemberScores(name=name, scores=values) for name, values in scores.items()]


class World:
    """Outputs whose quality, of a variance of 1 in a document, people and judges see in noise."""

    def __init__(self, seed: int, documents: int = DOCUMENTS, systems: int = SYSTEMS) -> None:
        self.rng = np.random.default_rng(seed)
        shape = (documents, systems)
        self.truth = (self.rng.normal(size=shape) + self.rng.normal(size=(documents, 1))).ravel()
        self.document = np.repeat(np.arange(documents), systems)
        self.system = np.tile(np.arange(systems), documents)
        self.human = self.ratings(0.5)

    def judge(self, noise: float) -> np.ndarray:
        return self.truth + noise * self.rng.normal(size=self.truth.size)

    def ratings(self, noise: float) -> np.ndarray:
        return np.clip(np.round(3 + self.judge(noise)), 1, 5)

    def fit(self, members: list[MemberScores], level: Level = "summary") -> PanelFit:
        rng = np.random.default_rng(0)
        return learn_panel(members, self.human, self.document, self.system, level=level, rng=rng)


# Lines


def test_a_line_takes_scores_to_mean_zero_and_a_deviation_of_one_within_documents():
    # Documents of 1, 3 and of 4, 8: the mean is 4, deviations within them are 1 and 2, whose mean
    # square is (1 + 1 + 4 + 4) / 4 = 2.5.
    line = fit_line(np.array([1.0, 3, 4, 8]), np.array([0, 0, 1, 1]))
    assert line == pytest.approx((2.5**-0.5, -4 * 2.5**-0.5))


def test_a_member_that_tells_no_two_outputs_of_a_document_apart_has_no_line():
    assert fit_line(np.array([1.0, 1, 4, 4]), np.array([0, 0, 1, 1])) is None


def test_ranks_within_documents_are_the_midranks_of_scipy_standardised():
    rng = np.random.default_rng(1)
    values, group = rng.integers(0, 4, 60).astype(float), rng.integers(0, 6, 60)
    other = rng.normal(size=60)
    z, other_z = standard_ranks(values, group), standard_ranks(other, group)
    for document in range(6):
        rows = group == document
        # The mean product of standardised mid-ranks is Spearman's rho.
        assert (z * other_z)[rows].mean() == pytest.approx(
            spearmanr(values[rows], other[rows]).statistic
        )


def test_margin_lines_go_through_zero_and_stay_within_one_while_deviations_become_equal():
    # Root mean squares 1 and .5: the first is halved, the second stays.
    loud, soft = np.array([1.0, -1, 1, -1]), np.array([0.5, -0.5, 0.5, 0.5])
    assert fit_margin_lines([loud, soft, np.zeros(4)]) == (Line(0.5), Line(1.0), None)


# Weights


def test_weights_of_two_independent_members_are_what_a_ridge_towards_equal_ones_gives():
    # Equal weights fit best at (.6 + .3) / 2 = .45 each; a penalty of 1 makes (.6 + .45) / 2 and
    # (.3 + .45) / 2 of them, 7 to 5.
    moments = Moments(np.eye(2), np.array([0.6, 0.3]))
    assert moments.weights(0.5, EVERY) == pytest.approx([7 / 12, 5 / 12])
    assert moments.weights(1.0, EVERY) == pytest.approx([1 / 2, 1 / 2])


def test_a_member_that_goes_against_people_gets_no_weight_and_never_a_negative_one():
    # Penalty 1/3, level .15: .6 + .05 and -.3 + .05 < 0.
    assert Moments(np.eye(2), np.array([0.6, -0.3])).weights(0.25, EVERY).tolist() == [1, 0]


def test_a_missing_member_fails_the_row():
    mapped = np.array([[1.0, 3.0], [1.0, np.nan], [np.nan, np.nan]])
    weights = np.array([0.75, 0.25])
    assert weighted_mean(mapped, weights) == pytest.approx([1.5, np.nan, np.nan], nan_ok=True)
    only = weighted_mean(mapped, np.array([1.0, 0]))
    assert only == pytest.approx([1, 1, np.nan], nan_ok=True)


# The choice


def test_two_equal_judges_ship_about_equally_and_agree_more_with_people_than_either():
    world = World(0)
    members = named(a=world.judge(1.5), b=world.judge(1.5))
    fit = world.fit(members)
    assert fit.weights == pytest.approx((0.5, 0.5), abs=0.12)
    own, mean, _ = fit.candidates
    assert own.gain is None
    assert mean.gain is not None
    assert mean.gain.value == pytest.approx(mean.dev - own.dev)
    assert mean.dev > own.dev
    assert fit.why.endswith("shipped")


def test_the_best_judge_is_kept_where_others_are_noise():
    world = World(2)
    fit = world.fit(named(a=world.judge(0.3), b=world.rng.normal(size=192)))
    assert fit.kind == "own"
    assert fit.members == ("a",)
    assert "the best single judge is kept" in fit.why


def test_rho_by_leaving_out_of_the_best_judge_is_its_summary_level_rho():
    world = World(3)
    own = world.judge(1.0)
    fit = world.fit(named(a=own, b=world.judge(2.0)))
    rhos = [
        spearmanr(own[world.document == d], world.human[world.document == d]).statistic
        for d in range(DOCUMENTS)
    ]
    assert fit.candidates[0].dev == pytest.approx(np.nanmean(rhos))


@settings(max_examples=4, deadline=None)
@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_members_does_not_matter(order: list[str]) -> None:
    world = World(4)
    scores = {name: world.judge(noise) for name, noise in (("a", 0.8), ("b", 1.2), ("c", 3.0))}
    fit = world.fit(named(**scores))
    assert world.fit(named(**{name: scores[name] for name in order})) == fit


def test_a_member_on_another_interval_scale_gets_the_same_weight_and_the_panel_the_same_scores():
    world = World(5)
    ratings, other = world.ratings(1.0), world.ratings(1.5)
    fit = world.fit(members := named(a=ratings, b=other))
    rescaled = named(a=25 * ratings - 25, b=other / 10)
    refit = world.fit(rescaled)
    assert (refit.kind, refit.members) == (fit.kind, fit.members)
    assert refit.weights == pytest.approx(fit.weights)
    assert joined(refit, rescaled) == pytest.approx(joined(fit, members))


def test_labels_dealt_at_random_seldom_ship_learned_weights():
    # At most 2.5 % nominally: of 24, three or more have a probability of .02.
    learned = 0
    for seed in range(24):
        world = World(seed, documents=12, systems=5)
        members = named(a=world.judge(1), b=world.judge(2), c=world.rng.normal(size=60))
        world.human = world.rng.permutation(world.human)
        learned += world.fit(members).kind == "learned"
    assert learned <= 2


def test_failed_judgements_are_missing_and_a_member_that_often_fails_is_passed_over():
    world = World(7)
    failing = world.judge(1.0)
    failing[::4] = np.nan
    members = named(a=world.judge(1.5), b=failing)
    fit = world.fit(members)
    assert fit.kind == "own"
    assert "fails on 25% of the outputs" in fit.candidates[1].why


def test_a_member_that_says_one_thing_of_all_gets_no_weight_and_may_be_kept_alone():
    world = World(8)
    members = named(a=np.full(192, 3.0), b=world.judge(0.5))
    fit = world.fit(members)
    assert fit.members == ("b",)
    assert "no part has a, which tells no two outputs apart" in fit.why
    alone = world.fit(members[:1])
    assert (alone.kind, alone.members) == ("own", ("a",))
    assert not np.isnan(joined(alone, members)).any()


@pytest.mark.parametrize("others", [{}, {"b": 1.0, "c": 1.0}], ids=["alone", "copies"])
def test_the_best_judge_is_kept_where_others_change_nothing(others):
    world = World(15)
    own = world.judge(1.0)
    fit = world.fit(named(a=own, **dict.fromkeys(others, own)))
    assert (fit.kind, fit.members) == ("own", ("a",))


def test_the_interval_of_a_gain_covers_what_the_panel_gains_on_other_documents():
    # Of 30 intervals that cover 95 %, fewer than 26 do with a probability of .016.
    covered = 0
    for seed in range(30):
        world = World(100 + seed, documents=12)
        fit = world.fit(named(a=world.judge(1.0), b=world.judge(1.5)))
        learned = fit.candidates[2]
        # So many that what they say of the gain has a small error beside the interval's.
        fresh = World(1000 + seed, documents=400)
        # Within documents a judge varies by 1 and its noise; lines make that 1.
        judged = {"a": fresh.judge(1.0) / 2**0.5, "b": fresh.judge(1.5) / 3.25**0.5}
        joined = sum(
            w * judged[name] for name, w in zip(learned.members, learned.weights, strict=True)
        )
        own, panel = (
            summary_level(scores, fresh.human, fresh.document, resamples=0).value
            for scores in (judged["a"], joined)
        )
        assert learned.gain is not None
        covered += learned.gain.low <= panel - own <= learned.gain.high
    assert covered >= 26


@pytest.mark.parametrize("level", ["summary", "dataset", "system"])
def test_one_document_or_people_who_rate_all_alike_keep_the_best_judge(level):
    world = World(18)
    members = named(a=world.judge(1.0), b=world.judge(1.0))
    world.human = np.full(192, 3.0)
    assert world.fit(members, level=level).kind == "own"
    world = World(18, documents=1, systems=30)
    members = named(a=world.judge(1.0), b=world.judge(1.0))
    assert world.fit(members, level=level).kind == "own"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (named(a=np.zeros(192), b=np.zeros(191)), "b has scores"),
        ([*named(a=np.zeros(192)), *named(a=np.ones(192))], "two members are called 'a'"),
        (named(a=np.full(192, np.inf)), "a has an infinite score"),
        (named(a=np.full(192, 2e9)), "a has a score beyond 1e"),
        ([], "a panel needs a member"),
    ],
)
def test_what_cannot_be_joined_is_refused_in_a_line(members, words):
    with pytest.raises(ValueError, match=words):
        World(0).fit(members)


# Pairs


def pair_world(seed: int) -> tuple[np.ndarray, list[MemberScores]]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=120)
    human = np.sign(truth)
    judged = {
        name: np.round(np.clip(truth + noise * rng.normal(size=120), -1, 1), 1)
        for name, noise in (("a", 1.0), ("b", 1.0), ("c", 4.0))
    }
    return human, named(**judged)


def test_pairs_with_sides_changed_give_the_same_panel_and_margins_of_the_other_sign():
    human, members = pair_world(0)
    flip = np.random.default_rng(1).choice([-1.0, 1.0], 120)
    fits = []
    for sign in (np.ones(120), flip):
        turned = [MemberScores(name=one.name, scores=one.scores * sign) for one in members]
        rng = np.random.default_rng(0)
        fit = learn_pair_panel(turned, human * sign, np.arange(120), rng=rng)
        fits.append((fit.kind, fit.members, fit.weights, joined(fit, turned) * sign))
    assert fits[0][:2] == fits[1][:2]
    assert fits[0][2] == pytest.approx(fits[1][2])
    assert fits[0][3] == pytest.approx(fits[1][3])
    assert np.abs(fits[0][3]).max() <= 1


def test_margins_beyond_one_are_refused():
    with pytest.raises(ValueError, match="a has a margin beyond"):
        learn_pair_panel(
            named(a=np.array([0.5, -2])), [1, -1], [1, 2], rng=np.random.default_rng(0)
        )


def test_a_score_within_a_document_adds_to_rho_as_its_ranks_do():
    # People 1 2 3, a judge 1 3 2: rho is 1 - 6 * 2 / (3 * 8) = 1/2; the first is in its place.
    labelled = labelled_scores(
        named(a=np.array([1.0, 3, 2])), [1, 2, 3], ["d"] * 3, None, ranked_together=False
    )
    terms = labelled.terms(np.array([[1.0], [3], [2]]), np.arange(3))[:, 0]
    assert terms.mean() == pytest.approx(1 / 2)
    # A place of three is sqrt(3/2) of a deviation: 1 - (3/2) / 2.
    assert terms == pytest.approx([1, 1 / 4, 1 / 4])


# Recorded judges


def test_recorded_judges_of_summeval_joined_agree_more_on_documents_without_labels():
    if not SHARED.exists():
        pytest.skip("needs ../shared/data")
    with (SHARED / "summeval" / "summeval.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    ids, human = [row["id"] for row in rows], [row["ratings"]["coherence"] for row in rows]
    document, system = (np.array([row[name] for row in rows]) for name in ("group", "system"))
    read = {
        name: read_scores(SHARED / "summeval_scores" / f"scores_{name}.jsonl", "coherence")
        for name in ("gpt-4o-mini", "llama-3.1")
    }
    scores = {name: np.array([by_id[one] for one in ids]) for name, by_id in read.items()}
    train = np.isin(document, np.unique(document)[:50])
    fit = learn_panel(
        named(**{name: values[train] for name, values in scores.items()}),
        np.array(human)[train],
        document[train],
        system[train],
        level="summary",
        rng=np.random.default_rng(0),
    )
    test = named(**{name: values[~train] for name, values in scores.items()})
    labels = np.array(human)[~train], document[~train]
    own, panel = (
        summary_level(values, *labels, resamples=0).value
        for values in (scores["gpt-4o-mini"][~train], joined(fit, test))
    )
    assert fit.kind != "own"
    assert panel > own
