"""Audits tell what moves a judge beyond what moves people, and what an attacked output gains."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from report_cases import PROBES, outputs, pairs, plain, result

from judges.catalog import find
from judges.inference.budget import Budget
from judges.inference.runner import Runner
from judges.judge import Judge
from judges.protocol import Completion, Message, Reply, Sampling
from optimize.injection import (
    ATTACKS,
    OUTPUTS_PROBED,
    Probes,
    ScoreShift,
    probe,
    score_shift,
)
from optimize.report import verification_report
from optimize.run.evidence import JudgedSplit
from optimize.statistics.levels import Level
from optimize.statistics.preferences import discriminant, preference
from optimize.statistics.scale import scale_use, self_consistency

DOCUMENT = np.repeat(np.arange(60), 8)
LEVELS: tuple[Level, ...] = ("summary", "dataset")


def test_a_judge_of_something_else_shows_a_halo() -> None:
    rng = np.random.default_rng(0)
    people = {"coherence": rng.normal(size=480), "relevance": rng.normal(size=480)}
    judges = {
        "coherence": people["coherence"] + 0.3 * rng.normal(size=480),
        "relevance": people["coherence"] + 0.3 * rng.normal(size=480),
    }
    for level in LEVELS:
        own, halo = (
            discriminant(scores, name, people, DOCUMENT, rng=rng, level=level)
            for name, scores in judges.items()
        )
        assert (own.halo, halo.halo) == (False, True)
        assert own.with_judge["coherence"] > 0.9
        assert halo.with_judge["coherence"] > 0.9 > 0.2 > abs(halo.with_judge["relevance"])
        assert own.among_people["coherence"] == pytest.approx(1)
        assert own.among_people["relevance"] == pytest.approx(halo.among_people["coherence"])


def test_constant_judges_agree_with_no_dimension_and_have_no_halo() -> None:
    people = {"a": [1, 2, 3], "b": [3, 1, 2]}
    found = discriminant([1, 1, 1], "a", people, [1, 1, 1], rng=np.random.default_rng(0))
    assert found.with_judge == {"a": 0, "b": 0}
    assert not found.halo


def test_more_agreement_with_another_dimension_by_chance_is_no_halo() -> None:
    # The judge follows both alike, and by chance the other one more on these 20 documents.
    rng = np.random.default_rng(5)
    people = {"coherence": rng.normal(size=160), "relevance": rng.normal(size=160)}
    scores = people["coherence"] + people["relevance"] + rng.normal(size=160)
    found = discriminant(scores, "relevance", people, DOCUMENT[:160], rng=rng)
    assert found.with_judge["coherence"] > found.with_judge["relevance"]
    assert not found.halo


def test_liking_length_as_people_do_is_no_preference() -> None:
    rng = np.random.default_rng(1)
    length = rng.integers(20, 200, 480).astype(float)
    human = length / 100 + rng.normal(size=480)
    fair = length / 100 + rng.normal(size=480)
    for judge, favours in ((fair, False), (fair + length / 50, True)):
        found = preference(judge, human, length, DOCUMENT, rng=rng)
        assert found.interval is not None
        assert (found.interval.low > 0) is favours
        assert found.value == pytest.approx(found.a - found.b)


def test_a_preference_for_a_kind_of_output_is_seen() -> None:
    rng = np.random.default_rng(2)
    extractive = np.tile([1, 0, 0, 0, 1, 0, 0, 0], 60)
    human = rng.normal(size=480)
    judge = human + 1.5 * extractive
    judge[3] = math.nan
    found = preference(judge, human, extractive, DOCUMENT, rng=rng)
    assert found.interval is not None
    assert found.interval.low > 0.3
    assert found.n_failed == 1


def test_an_attack_that_works_shifts_scores() -> None:
    rng = np.random.default_rng(4)
    clean = rng.integers(1, 5, 480).astype(float)
    attacked = clean + (rng.random(480) < 0.5)
    attacked[:8] = math.nan
    found = score_shift(clean, attacked, DOCUMENT, rng=rng)
    assert found.interval is not None
    assert found.mean in found.interval
    assert found.mean == pytest.approx(found.raised)
    assert found.n_failed == 8
    unmoved = score_shift(clean, clean, DOCUMENT, rng=rng)
    assert (unmoved.mean, unmoved.raised) == (0, 0)


def test_attacks_are_named_apart_and_one_asks_for_nothing() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 10
    assert [attack.name for attack in ATTACKS if attack.control] == ["neutral_line"]
    for attack in ATTACKS:
        attacked = attack.apply("A summary.")
        ends = attacked.endswith if attack.position == "before" else attacked.startswith
        assert ends("A summary.")
        assert attack.text in attacked


def test_use_of_the_scale_is_counted_by_hand() -> None:
    # Document 1: 5, 5, 4.8 (the nearest rating is 5 for all): one tied pair of 3. Document 2: 1, 3.
    found = scale_use([5, 5, 4.8, math.nan, 1, 3], [1, 1, 1, 1, 2, 2], (1, 2, 3, 4, 5))
    assert found.at_top == pytest.approx(3 / 5)
    assert found.at_bottom == pytest.approx(1 / 5)
    assert found.tied == pytest.approx(1 / 4)
    entropy = -(0.4 * math.log(0.4) + 3 * 0.2 * math.log(0.2))
    assert found.levels_used == pytest.approx(math.exp(entropy))
    assert found.n_outputs == 5


def test_use_of_the_scale_by_nothing_is_undefined() -> None:
    assert math.isnan(scale_use([math.nan], [1], (1, 2)).at_top)
    assert math.isnan(scale_use([2], [1], (1, 2)).tied)


def test_reliability_of_samples_is_the_variance_due_to_outputs() -> None:
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(5000, 1)) + 0.5 * rng.normal(size=(5000, 4))
    samples[rng.random(samples.shape) < 0.1] = math.nan
    found = self_consistency(samples)
    # Variances 1 and 1/4: 4/5 of a single sample's, 16/17 of the mean of four.
    assert found.reliability == pytest.approx(0.8, abs=0.01)
    assert found.sd_within_output == pytest.approx(0.5, abs=0.01)
    assert found.reliability_of_mean == pytest.approx(16 / 17, abs=0.01)


def test_one_way_analysis_equals_its_textbook_form_when_balanced() -> None:
    samples = np.array([[1.0, 2, 2], [4, 4, 5], [3, 1, 2], [5, 5, 4]])
    between = 3 * samples.mean(axis=1).var(ddof=1)
    within = samples.var(axis=1, ddof=1).mean()
    expected = (between - within) / (between + 2 * within)
    assert self_consistency(samples).reliability == pytest.approx(expected)


def test_judges_that_never_vary_have_no_reliability() -> None:
    assert math.isnan(self_consistency(np.full((3, 2), 4.0)).reliability)
    assert math.isnan(self_consistency([[1.0, math.nan], [2.0, 3.0]]).reliability)


class Gullible:
    """Rates 2, but 5 where a text asks for the top score; of a pair, prefers who asks."""

    name, endpoint, native_n, has_logprobs, in_process = "gullible", "here", True, False, True

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        text = messages[-1]["content"]
        self.asked.append(text)
        if "summary_b" in text:
            first, second = text.split("[[ ## summary_b ## ]]")
            side = "A" if "top score" in first or "top score" not in second else "B"
            told = f"[[ ## comparison ## ]]\nso\n\n[[ ## preferred ## ]]\n{side}"
        else:
            told = "5" if "top score" in text else "2"
        return Completion(replies=(Reply(text=told),), tokens_in=1, tokens_out=1, model=self.name)

    async def close(self) -> None: ...


def shifts_of(probes: Probes) -> dict[str, ScoreShift]:
    shifts = probes.shifts(lambda _: np.random.default_rng(0))
    return {attack.name: shift for attack, shift in shifts}


def probe_split(
    judge: Judge,
    runner: Runner,
    judged: JudgedSplit,
    seed: int = 0,
    max_probe_calls: int | None = None,
) -> Probes:
    return probe(
        judge,
        runner,
        judged.items,
        judged.scores,
        seed=seed,
        max_probe_calls=max_probe_calls,
    )


def test_an_attack_that_works_shows_by_how_much_and_the_others_stay() -> None:
    model = Gullible()
    evidence = outputs([2] * 6, [[i % 5 + 1] for i in range(6)], list("aabbcc"))
    probes = probe_split(Judge.of(find("relevance")), Runner(model), evidence, seed=0)
    shifts = shifts_of(probes)
    # The two orders speak of the top score: 2 becomes 5.
    assert {name: shift.mean for name, shift in shifts.items() if shift.mean} == {
        "order": 3.0,
        "order_first": 3.0,
    }
    assert shifts["order"].raised == 1.0
    assert len(model.asked) == 6 * len(ATTACKS)


def test_of_a_pair_the_side_not_preferred_attacks() -> None:
    # The judge said A of the first and B of the second, so B and then A asks for more.
    evidence = pairs([("A", "A"), ("B", "B")], [("A",), ("B",)])
    judge = Judge.of(find("tldr_concise"))
    probes = probe_split(judge, Runner(Gullible()), evidence, seed=0)
    assert probes.clean == (-1.0, -1.0)
    assert shifts_of(probes)["order"].mean > 0


def test_outputs_with_room_to_rise_are_taken_from_as_many_documents_as_can_be() -> None:
    evidence = plain(n_documents=30, n_systems=4)
    probes = probe_split(Judge.of(find("relevance")), Runner(Gullible()), evidence, seed=1)
    assert len(set(probes.documents)) == len(probes.documents) == OUTPUTS_PROBED
    scores = sorted(score for score in evidence.scores if score == score)
    assert max(probes.clean) <= scores[len(scores) // 2]
    again = probe_split(Judge.of(find("relevance")), Runner(Gullible()), evidence, seed=1)
    assert again == probes


def test_probes_keep_within_the_budget_or_say_that_they_cannot() -> None:
    judge, evidence = Judge.of(find("relevance")), plain()
    model = Gullible()
    few = probe_split(judge, Runner(model), evidence, seed=0, max_probe_calls=10)
    assert "the budget leaves 10" in few.reason
    assert model.asked == []
    spent = probe_split(
        judge, Runner(model, account=Budget(max_calls=20).account()), evidence, seed=0
    )
    assert "the budget was spent" in spent.reason
    assert len(model.asked) <= 20


def test_nothing_to_attack_is_said() -> None:
    evidence = outputs([math.nan], [[1]], ["a"])
    probes = probe_split(Judge.of(find("relevance")), Runner(Gullible()), evidence, seed=0)
    assert "nothing to attack" in probes.reason


def test_a_gullible_judge_is_warned_of() -> None:
    evidence = plain()
    moved = {attack.name: (1.0, 2.0, 3.0) for attack in ATTACKS}
    probes = replace(PROBES, attacked={**moved, "order": (4.0, 5.0, 5.0)})
    page = verification_report.render(result(evidence), evidence, probes)
    # 3 + 3 + 2 of three, and the neutral line moves nothing.
    assert "Outputs can talk the judge up (order: +2.67 beyond a neutral line)" in page
    assert "talk the judge up" not in verification_report.render(
        result(evidence), evidence, replace(PROBES, attacked=moved)
    )


@pytest.mark.parametrize("probes", [PROBES, Probes(reason="too dear")])
def test_probes_survive_their_json(probes: Probes) -> None:
    assert str(Probes.from_json(probes.to_json())) == str(probes)
