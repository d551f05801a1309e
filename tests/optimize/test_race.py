"""The race: what it spends, what it spares, and whom it lets go on."""

from collections.abc import Sequence

import numpy as np
import pytest
from optimize.search.race import Race, RaceResult

from judges.catalog import find
from judges.judge import Judge
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget

SYSTEMS = 8


def world(documents: int) -> Items:
    rng = np.random.default_rng(0)
    return Items(
        tuple(
            Item(
                id=f"d{document}s{system}",
                document_id=f"d{document}",
                system=f"s{system}",
                texts={},
                human=float(rng.normal()),
            )
            for document in range(documents)
            for system in range(SYSTEMS)
        )
    )


def candidate(skill: float) -> Candidate:
    return Candidate(instruction=f"{skill}")


def raced(
    skills: Sequence[float], documents: int, calls: int, seed: float = 0.3
) -> tuple[list[RaceResult], Evaluator, list[tuple[int, RaceResult]]]:
    """A candidate's instruction is its skill: the share of people's rating in its score."""
    items = world(documents)

    def judge(prompt: Prompt, asked: Sequence[Item]) -> list[ItemScore]:
        skill = float(prompt.instruction)
        rng = np.random.default_rng([int(100 * skill), *asked[0].id.encode()])
        return [ItemScore(score=skill * one.human + (1 - skill) * rng.normal()) for one in asked]

    evaluator = Evaluator(
        seed=Judge.of(find("coherence")).prompt,
        judge=judge,
        calls_per_item=1,
        budget=SearchBudget(calls),
    )
    race = Race(
        evaluator=evaluator,
        items=items,
        order=items.documents,
        level="summary",
        seed=candidate(seed),
    )
    met: list[tuple[int, RaceResult]] = []
    stood = race.run(
        [candidate(skill) for skill in skills],
        calls,
        lambda rung, one: met.append((rung, one)),
    )
    return stood, evaluator, met


def test_calls_that_suffice_for_everything_judge_everybody_on_all_documents() -> None:
    everything = 5 * 20 * SYSTEMS
    stood, evaluator, _ = raced((0.2, 0.4, 0.6, 0.8), 20, everything)
    assert evaluator.budget.spent == everything
    assert [one.n_documents for one in stood] == [20] * 4
    assert stood[0].candidate == candidate(0.8)


def test_half_the_calls_find_the_best_and_are_all_but_spent() -> None:
    # The seed and four on s documents, the better two and the seed on as many more, the best and
    # the seed on 2s more: 5s + 3s + 4s = 12s of 100 sets of 8 outputs, so s = 8.
    half = 5 * 40 * SYSTEMS // 2
    stood, evaluator, met = raced((0.2, 0.4, 0.6, 0.8), 40, half)
    assert stood[0].candidate == candidate(0.8)
    assert 0.95 * half <= evaluator.budget.spent <= half
    assert [one.n_documents for rung, one in met if rung == 0] == [8] * 4
    assert sum(rung == 1 for rung, _ in met) <= 2
    assert stood[0].n_documents > 16


@pytest.mark.parametrize("calls", [0, 7, 40, 100, 399, 1601])
def test_a_race_never_spends_more_than_it_may(calls: int) -> None:
    _, evaluator, _ = raced((0.2, 0.4, 0.6, 0.8), 40, calls)
    assert evaluator.budget.spent <= calls


def test_what_all_cannot_afford_the_first_entrants_run() -> None:
    # Six documents for the seed and one entrant: 2 * 6 * 8 = 96 calls.
    stood, _, _ = raced((0.9, 0.2, 0.2, 0.2), 40, 100)
    assert [one.candidate for one in stood] == [candidate(0.9)]


def test_documents_that_a_candidate_shows_are_passed_over() -> None:
    items = world(10)
    shown = DemoSet(documents=frozenset({"d0", "d3"}))
    one = Candidate(instruction="0.5", demo_set=shown)
    evaluator = Evaluator(
        seed=Judge.of(find("coherence")).prompt,
        judge=lambda prompt, items: [],
        calls_per_item=1,
        budget=SearchBudget(0),
    )
    setup = Race(
        evaluator=evaluator,
        items=items,
        order=items.documents,
        level="summary",
        seed=candidate(0.3),
    )
    assert setup.documents(one, 3) == ("d1", "d2", "d4")
    assert len(setup.documents(one, 10)) == 8
