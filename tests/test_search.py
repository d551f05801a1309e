"""The rank search on a small world whose best instruction and best demonstrations are known."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from judges.dimension import Dimension
from judges.prompt import Prompt
from optimize.search.bench import Bench, Budget, JudgeItems, OutOfCallsError, Scored
from optimize.search.candidates import LONGEST_INSTRUCTION, Candidate, Instruction, TextGuard, fault
from optimize.search.chance import stream
from optimize.search.entrants import Plan
from optimize.search.items import Item, Items
from optimize.search.loop import Found, Record, rank_search, unshown_systems

SUBJECT = Dimension(
    name="warmth",
    definition="how warm the text is",
    inputs={"text": "a text"},
    anchors={1: "cold", 2: "", 3: "", 4: "", 5: "warm"},
    instruction="Rate the text.",
)
SEED = SUBJECT.prompt()
WORDS = ("kindness", "length", "colour", "rhythm", "candour", "spelling")


def world(documents: int, systems: int = 8, *, first: int = 0, seed: int = 0) -> Items:
    """Texts with six qualities; people value kindness and candour, and say so with some noise."""
    rng = np.random.default_rng([seed, first])
    items = []
    for document in range(first, first + documents):
        for system in range(systems):
            qualities = rng.uniform(0, 1, len(WORDS))
            told = 2.5 * qualities[0] + 2.5 * qualities[4] + rng.normal(0, 0.3)
            shown = " ".join(
                f"{word}={quality:.4f}" for word, quality in zip(WORDS, qualities, strict=True)
            )
            items.append(
                Item(
                    id=f"d{document}s{system}",
                    document_id=f"d{document}",
                    system=f"s{system}",
                    texts={"text": shown},
                    human=round(float(np.clip(1 + told * 0.8, 1, 5)) * 3) / 3,
                )
            )
    return Items(tuple(items))


def shuffled(items: Items, seed: int) -> Items:
    """The same items, people's ratings permuted within each document."""
    rng = np.random.default_rng(seed)
    human = items.human.copy()
    for rows in items.places.values():
        human[rows] = human[rng.permutation(rows)]
    return Items(
        tuple(
            replace(item, human=float(value))
            for item, value in zip(items.items, human, strict=True)
        )
    )


def judge(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
    """Weighs the qualities its instruction names, all if none; demonstrations calm its noise."""
    named = [number for number, word in enumerate(WORDS) if word in prompt.instruction]
    named = named or list(range(len(WORDS)))
    levels = len({demo["rating"] for demo in prompt.demos})
    scored = []
    for item in items:
        values = [float(part.split("=")[1]) for part in item.texts["text"].split()]
        noise = float(stream(0, prompt.instruction, item.id).normal(0, 0.4 / (1 + levels)))
        weighed = sum(values[number] for number in named) / len(named)
        scored.append(Scored(score=3 + 2 * (weighed - 0.5) + noise))
    return scored


def propose(
    current: str, asked: Sequence[str], history: Sequence[tuple[str, float]], number: int
) -> list[str | None]:
    """Names any two of three qualities: the search has to find out which help."""
    assert all(json.loads(line)["of"] >= 2 for block in asked for line in block.splitlines())
    rng = stream(1, current, number)
    pairs = (rng.choice(WORDS[::2], 2, replace=False) for _ in asked)
    return [f"Rate the {one} and the {other} of the text." for one, other in pairs]


def search(
    train: Items,
    dev: Items,
    *,
    seed: int = 0,
    calls: int = 20_000,
    plan: Plan | None = None,
    by: JudgeItems = judge,
) -> tuple[Found, list[Record], Bench]:
    records: list[Record] = []
    bench = Bench(seed=SEED, judge=by, calls_per_item=1, budget=Budget(calls))
    found = rank_search(
        bench=bench,
        propose=propose,
        train=train,
        dev=dev,
        level="summary",
        plan=plan or Plan(seed=seed, rounds=8, patience=4),
        record=records.append,
    )
    return found, records, bench


def test_the_planted_instruction_is_found_and_shipped() -> None:
    found, records, _ = search(world(24), world(20, first=100))
    assert found.choice.ship, found.choice.why
    named = {word for word in WORDS if word in found.tuned.instruction.text}
    assert named == {"kindness", "candour"}
    assert found.choice.gain is not None
    assert found.choice.gain.low > 0
    assert {record["stage"] for record in records} >= {"race", "dev"}


def test_the_same_seed_makes_the_same_trials_and_another_seed_others() -> None:
    first, once, _ = search(world(16), world(12, first=100), seed=3)
    second, again, _ = search(world(16), world(12, first=100), seed=3)
    _, other, _ = search(world(16), world(12, first=100), seed=4)
    assert once == again
    assert first == second
    assert once != other


def test_shuffled_labels_almost_never_ship_a_tuned_judge() -> None:
    # The gate's tail is 2.5 %: three or more of 24 have a chance of 2 % then.
    shipped = 0
    for seed in range(24):
        train = shuffled(world(10, 6, seed=seed), seed)
        dev = shuffled(world(10, 6, first=100, seed=seed), seed)
        shipped += search(train, dev, seed=seed, plan=Plan(seed=seed, rounds=2))[0].choice.ship
    assert shipped <= 2


@pytest.mark.parametrize("calls", [1, 60, 300, 1000, 4000])
def test_a_search_never_spends_more_than_its_budget(calls: int) -> None:
    found, records, bench = search(world(16), world(12, first=100), calls=calls)
    assert bench.budget.spent <= calls
    assert found.calls == bench.budget.spent
    assert found.choice.ship in (True, False)
    assert [record["trial"] for record in records] == list(range(1, len(records) + 1))


def test_a_candidate_is_never_raced_on_documents_it_learned_from() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    bench = Bench(seed=SEED, judge=watching, calls_per_item=1, budget=Budget(20_000))
    train = world(16)
    document = {item.texts["text"]: item.document_id for item in train.items}
    rank_search(
        bench=bench,
        propose=propose,
        train=train,
        dev=world(12, first=100),
        level="summary",
        plan=Plan(rounds=3),
        record=lambda record: None,
    )
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}


def test_nothing_is_asked_twice() -> None:
    asked: list[tuple[str, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
        asked.extend((repr(prompt), item.id) for item in items)
        return judge(prompt, items)

    bench = Bench(seed=SEED, judge=watching, calls_per_item=1, budget=Budget(20_000))
    rank_search(
        bench=bench,
        propose=propose,
        train=world(16),
        dev=world(12, first=100),
        level="summary",
        plan=Plan(rounds=4),
        record=lambda record: None,
    )
    assert len(asked) == len(set(asked))


def test_demonstrations_come_from_shown_systems_only() -> None:
    train = world(16)
    bench = Bench(seed=SEED, judge=judge, calls_per_item=1, budget=Budget(20_000))
    system = {item.id: item.system for item in train.items}
    records: list[Record] = []
    rank_search(
        bench=bench,
        propose=propose,
        train=train,
        dev=world(12, first=100),
        level="summary",
        plan=Plan(rounds=2),
        record=records.append,
    )
    unshown = unshown_systems(train, 0)
    assert len(unshown) == 2
    shown = [record["demos"] for record in records if record["stage"] == "race"]
    assert any(shown)
    for ids in shown:
        assert isinstance(ids, list)
        assert not {system[name] for name in ids} & unshown


def test_the_budget_refuses_before_anything_is_asked() -> None:
    def never(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
        raise AssertionError("asked")

    bench = Bench(seed=SEED, judge=never, calls_per_item=2, budget=Budget(15))
    items = world(1, 8)
    with pytest.raises(OutOfCallsError, match="16 calls are needed and 15 left"):
        bench.scores(Candidate(instruction=Instruction(text="Rate.")), items)


def test_an_instruction_that_copies_eight_words_is_rejected() -> None:
    words = [f"w{number}" for number in range(20)]
    guard = TextGuard([" ".join(words)])
    for start, length in itertools.product(range(12), (7, 8)):
        run = " ".join(words[start : start + length]).upper()
        wrong = fault(f"Mind, {run}; and so on.", guard, [])
        assert (wrong is None) == (length < 8)


def test_an_instruction_may_be_neither_empty_nor_long_nor_known() -> None:
    guard = TextGuard([])
    assert fault("", guard, []) == "empty"
    assert fault("x" * (LONGEST_INSTRUCTION + 1), guard, []) is not None
    assert fault("Rate  the TEXT.", guard, ["rate the text"]) == "known already"
    assert fault("Rate the text well.", guard, ["rate the text"]) is None


# Sets as large as all labels: what shows everything is a finalist, and no race can judge it.
ALL_SHOWN = (1000,)


def test_what_shows_all_labels_is_judged_by_versions_that_do_not_show_the_document() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[Scored]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    train, dev = world(16), world(12, first=100)
    whole = Items((*train.items, *dev.items))
    document = {item.texts["text"]: item.document_id for item in whole.items}
    system = {item.texts["text"]: item.system for item in whole.items}
    plan = Plan(rounds=1, demo_sizes=ALL_SHOWN, proposals=0)
    found, records, bench = search(train, dev, plan=plan, by=watching)
    assert found.choice.gain is not None
    # Nothing of it was chosen by train, which judges it too.
    assert found.choice.gain.n_documents == 16 + 12
    assert "dev and train documents" in found.choice.why
    assert [record["how"] for record in records if record["stage"] == "train"] == ["all"]
    assert found.tuned.documents == set(whole.documents)
    assert len(found.tuned.shown.demos) == len(whole)
    # Four versions, each of three quarters of the documents by three quarters of the systems.
    large = [(prompt, name) for prompt, name in asked if len(prompt.demos) > 16 * 6]
    assert {len(prompt.demos) for prompt, _ in large} == {21 * 6}
    held = [{system[str(demo["text"])] for demo in prompt.demos} for prompt, _ in large]
    assert len({frozenset(names) for names in held}) == 4
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}
    # The same figures come out when it is measured on dev again, and nothing is asked for.
    before = len(asked)
    found.crossing.scores(bench, found.tuned, found.crossing.known(bench, found.tuned, dev))
    assert len(asked) == before
    assert len(found.crossing.known(bench, found.tuned, dev)) == len(dev)
    # Documents it does not show it judges itself.
    other = world(1, first=500)
    found.crossing.scores(bench, found.tuned, other)
    assert len(asked[-1][0].demos) == len(whole)


def test_calls_for_one_finalist_alone_go_to_dev_and_not_to_a_race() -> None:
    # Dev has 96 outputs: seed and one finalist take 192 of 250 calls, and no race is begun.
    plan = Plan(demo_sizes=ALL_SHOWN)
    found, records, _ = search(world(16), world(12, first=100), calls=250, plan=plan)
    assert "race" not in {record["stage"] for record in records}
    assert found.choice.gain is not None
    assert found.choice.gain.n_documents >= 12


def test_shuffled_labels_shown_in_full_almost_never_ship_either() -> None:
    shipped = 0
    for seed in range(24):
        train = shuffled(world(8, 6, seed=seed), seed)
        dev = shuffled(world(8, 6, first=100, seed=seed), seed)
        plan = Plan(seed=seed, rounds=2, demo_sizes=ALL_SHOWN)
        shipped += search(train, dev, seed=seed, plan=plan)[0].choice.ship
    assert shipped <= 2


def test_a_race_leaves_the_finalists_their_calls_on_dev() -> None:
    found, _, _ = search(world(16), world(12, first=100), calls=2500, plan=Plan())
    assert found.choice.gain is None or found.choice.gain.n_documents >= 12
