"""Injection probes tell what an attacked output gains."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from report_cases import outputs, pairs, plain

from judges.catalog import find
from judges.client.budget import Budget
from judges.client.client import Client
from judges.client.protocol import Completion, Message, Reply, Sampling
from judges.judge import Judge
from optimize.injection import (
    ATTACKS,
    OUTPUTS_PROBED,
    Probes,
    ScoreShift,
    probe,
    score_shift,
)
from optimize.measuring.scored import Scored

DOCUMENT = np.repeat(np.arange(60), 8)


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
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert [attack.name for attack in ATTACKS if attack.control] == ["neutral_line"]
    for attack in ATTACKS:
        attacked = attack.apply("A summary.")
        assert attacked.startswith("A summary.")
        assert attack.text in attacked


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
    client: Client,
    judged: Scored,
    seed: int = 0,
    max_probe_calls: int | None = None,
) -> Probes:
    return probe(
        judge,
        client,
        judged.items,
        judged.scores,
        seed=seed,
        max_probe_calls=max_probe_calls,
    )


def test_an_attack_that_works_shows_by_how_much_and_the_others_stay() -> None:
    model = Gullible()
    evidence = outputs([2] * 6, [[i % 5 + 1] for i in range(6)], list("aabbcc"))
    probes = probe_split(Judge.of(find("relevance")), Client(model), evidence, seed=0)
    shifts = shifts_of(probes)
    # The order speaks of the top score: 2 becomes 5.
    assert {name: shift.mean for name, shift in shifts.items() if shift.mean} == {"order": 3.0}
    assert shifts["order"].raised == 1.0
    assert len(model.asked) == 6 * len(ATTACKS)


def test_of_a_pair_the_side_not_preferred_attacks() -> None:
    # The judge said A of the first and B of the second, so B and then A asks for more.
    evidence = pairs([("A", "A"), ("B", "B")], [("A",), ("B",)])
    judge = Judge.of(find("tldr_concise"))
    probes = probe_split(judge, Client(Gullible()), evidence, seed=0)
    assert probes.clean == (-1.0, -1.0)
    assert shifts_of(probes)["order"].mean > 0


def test_outputs_with_room_to_rise_are_taken_from_as_many_documents_as_can_be() -> None:
    evidence = plain(n_documents=30, n_systems=4)
    probes = probe_split(Judge.of(find("relevance")), Client(Gullible()), evidence, seed=1)
    assert len(set(probes.documents)) == len(probes.documents) == OUTPUTS_PROBED
    scores = sorted(score for score in evidence.scores if score == score)
    assert max(probes.clean) <= scores[len(scores) // 2]
    again = probe_split(Judge.of(find("relevance")), Client(Gullible()), evidence, seed=1)
    assert again == probes


def test_probes_keep_within_the_budget_or_say_that_they_cannot() -> None:
    judge, evidence = Judge.of(find("relevance")), plain()
    model = Gullible()
    few = probe_split(judge, Client(model), evidence, seed=0, max_probe_calls=10)
    assert "the budget leaves 10" in few.reason
    assert model.asked == []
    spent = probe_split(
        judge, Client(model, account=Budget(max_calls=20).account()), evidence, seed=0
    )
    assert "the budget was spent" in spent.reason
    assert len(model.asked) <= 20
