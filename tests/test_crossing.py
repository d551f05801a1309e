"""Versions that judge what the whole has learned from: on what each is compared."""

from collections.abc import Sequence

import numpy as np
import pytest

from judges.dimension import Dimension
from judges.prompt import Prompt
from optimize.search.bench import Bench, Budget, Scored
from optimize.search.candidates import Candidate, Instruction
from optimize.search.crossing import Crossing
from optimize.search.decision import compare
from optimize.search.entrants import Plan
from optimize.search.items import Item, Items

SEED = Dimension(
    name="warmth",
    definition="how warm the text is",
    inputs={"text": "a text"},
    anchors={1: "cold", 2: "", 3: "", 4: "", 5: "warm"},
    instruction="Rate the text.",
).prompt()
PLAN = Plan(demo_sizes=(1000,))


def outputs(documents: int, systems: int) -> Items:
    """Every document's outputs are rated 1 to 5 by chance; a text names its document and system."""
    rng = np.random.default_rng(0)
    return Items(
        tuple(
            Item(
                id=f"d{document} s{system}",
                document_id=f"d{document}",
                system=f"s{system}",
                texts={"text": f"d{document} s{system}"},
                human=float(rng.integers(1, 6)),
            )
            for document in range(documents)
            for system in range(systems)
        )
    )


def whole_of(crossing: Crossing) -> Candidate:
    return Candidate(instruction=Instruction(text=SEED.instruction), shown=crossing.whole)


def test_the_gain_is_on_outputs_of_shown_systems_and_new_systems_are_placed_by_themselves() -> None:
    everything = outputs(16, 8)
    human = {item.texts["text"]: item.human for item in everything.items}

    def judge(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
        """People's own ratings of shown systems; of all others, and without examples, a 3."""
        shown = {str(demo["text"]).split()[1] for demo in prompt.demos}
        return [
            Scored(score=human[one.texts["text"]] if one.system in shown else 3.0 + len(one.id) / 9)
            for one in items
        ]

    bench = Bench(seed=SEED, judge=judge, calls_per_item=1, budget=Budget(10_000))
    crossing = Crossing(everything, SEED, PLAN)
    heard: list[tuple[float, float, int]] = []
    found = compare(
        bench=bench,
        crossing=crossing,
        seed=Candidate(instruction=Instruction(text=SEED.instruction)),
        candidates=[whole_of(crossing)],
        items=everything,
        level="summary",
        unshown=frozenset(),
        seen=lambda _, value, gain, number: heard.append((value, gain, number)),
    )
    # On each document, rho is 1 over the six systems shown; the seed's, which ties them, is 0.
    assert found.differences == pytest.approx(np.ones((1, 16)))
    assert heard == [(pytest.approx(1.0), pytest.approx(1.0), 16)]
    assert found.unseen is not None
    assert np.isfinite(found.unseen).all()
    assert float(found.unseen.mean()) < 0.9


def test_with_few_systems_all_are_shown_and_every_output_counts() -> None:
    crossing = Crossing(outputs(16, 4), SEED, PLAN)
    whole = whole_of(crossing)
    assert crossing.possible
    assert all(crossing.unshown(whole, f"d{number}") == frozenset() for number in range(16))
    said = crossing.stand_ins(whole)
    assert (
        said == "on dev, versions of the tuned judge that do not show the document stand in for it"
    )


def test_with_few_documents_or_little_room_there_are_no_versions() -> None:
    few = Crossing(outputs(7, 8), SEED, PLAN)
    assert not few.possible
    assert few.stand_ins(whole_of(few)) is None
    tight = Crossing(outputs(16, 8), SEED, Plan(demo_sizes=(16,)))
    assert not tight.possible
    assert not Crossing(Items(()), SEED, PLAN).possible
