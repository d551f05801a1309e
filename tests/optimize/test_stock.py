"""DSPy's own optimizers and our teleprompter: exact objective, one budget, one gate."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import dspy
import numpy as np
import pytest
from behaving_model import Model
from search_world import SEED, judge, search, world

from judges.catalog import find
from judges.dimension import Dimension
from judges.inference.budget import Budget
from judges.inference.runner import Runner
from judges.modules import RatingJudge
from judges.prompt import Prompt
from judges.protocol import FatalModelError
from optimize.items import Item, Items
from optimize.rank_optimizer import RankOptimizer
from optimize.search.dspy_optimizers import (
    BLOCK,
    GroupJudge,
    ProgramContext,
    candidate_of,
    examples,
    feedback,
    metric,
)
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget
from optimize.search.finalists import SearchResult
from optimize.search.objective import objective
from optimize.search.optimizers import OPTIMIZERS
from optimize.search.problem import SearchOptions
from optimize.search.trial_log import Trial

STOCK = ("gepa", "miprov2", "bootstrap")


def tuned(
    optimizer: str,
    calls: int,
    judging: Callable[[Prompt, Sequence[Item]], list[ItemScore]] = judge,
    proposer: Runner | None = None,
) -> tuple[SearchResult, list[Trial], Evaluator]:
    return search(
        world(16),
        world(12, first=100),
        optimizer=optimizer,
        calls=calls,
        by=judging,
        proposer=proposer,
        options=SearchOptions(seed=1, demo_sizes=(4, 8)),
    )


@pytest.mark.parametrize("optimizer", STOCK)
def test_a_stock_optimizer_keeps_the_budget_and_makes_the_same_trials_again(
    optimizer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((str(prompt.template()), item.id) for item in items)
        return judge(prompt, items)

    result, records, evaluator = tuned(optimizer, 2000, watching)
    assert evaluator.budget.spent == result.calls <= 2000
    assert len(asked) <= 2000
    assert len(asked) == len(set(asked))
    assert {record["stage"] for record in records} >= {"stock"}
    again, once_more, _ = tuned(optimizer, 2000)
    assert once_more == records
    assert again == result
    # DSPy prints and draws bars; a command's stdout holds the result alone.
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("optimizer", STOCK)
@pytest.mark.parametrize("calls", [40, 300])
def test_a_small_budget_ends_the_search_and_keeps_the_seed_or_a_better_judge(
    optimizer: str, calls: int
) -> None:
    result, _, evaluator = tuned(optimizer, calls)
    assert evaluator.budget.spent <= calls
    assert result.choice.why


def dspy_reply(prompt: str, *_: object) -> str:
    """A language model that answers DSPy's proposers in the form they ask for."""
    wanted = "Rate the kindness and the candour of the text."
    if "Respond with a JSON object" in prompt:
        return json.dumps({"new_instruction": wanted})
    names = re.findall(r"\[\[ ## (\w+) ## \]\]", prompt.rpartition("Respond with")[2])
    return "\n\n".join(f"[[ ## {name} ## ]]\n{wanted}" for name in names)


@pytest.mark.parametrize(
    ("optimizer", "own_words"),
    [
        ("gepa", ["examples_with_feedback", "The score is Spearman's rank correlation"]),
        ("miprov2", ["dataset_description", "program_code", "task_demos", "tip"]),
    ],
)
def test_a_stock_optimizer_has_its_own_proposer_asked_and_pays_for_it(
    optimizer: str, own_words: list[str]
) -> None:
    model = Model(dspy_reply)
    with Runner(model) as runner:
        result, _, evaluator = tuned(optimizer, 6000, proposer=runner)
    assert result.choice.ship, result.choice.why
    assert "kindness and the candour" in result.tuned.instruction
    prompts = list(model.seen)
    assert all(any(word in prompt for prompt in prompts) for word in own_words)
    assert not any("mistakes" in prompt for prompt in prompts)
    assert {sampling.temperature for sampling in model.samplings} == {1.0}
    assert evaluator.budget.spent <= 6000

    judged: list[str] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        judged.extend(item.id for item in items)
        return judge(prompt, items)

    model = Model(dspy_reply)
    with Runner(model) as runner:
        again, _, evaluator = tuned(optimizer, 6000, watching, runner)
    assert again == result
    assert evaluator.budget.spent == len(judged) + model.calls


@pytest.mark.parametrize("optimizer", ["gepa", "miprov2"])
@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "{", "[[ ## tip ## ]] x"])
def test_stock_proposals_that_cannot_be_read_end_well(optimizer: str, reply: str) -> None:
    with Runner(Model(lambda *_: reply)) as runner:
        result, _, evaluator = tuned(optimizer, 1500, proposer=runner)
    assert evaluator.budget.spent <= 1500
    assert result.choice.why


@pytest.mark.parametrize("optimizer", ["gepa", "miprov2"])
def test_a_stock_proposer_without_money_leaves_the_best_so_far(optimizer: str) -> None:
    with Runner(Model(dspy_reply), account=Budget(max_calls=3).account()) as runner:
        result, records, _ = tuned(optimizer, 1500, proposer=runner)
        assert runner.account.calls == 3
    assert result.choice.why
    assert records


@pytest.mark.parametrize("optimizer", ["gepa", "miprov2"])
def test_a_wrong_key_of_a_stock_proposer_ends_the_run(optimizer: str) -> None:
    def refuse(*_: object) -> str:
        raise FatalModelError("wrong key")

    with Runner(Model(refuse)) as runner, pytest.raises(FatalModelError, match="wrong key"):
        tuned(optimizer, 1500, proposer=runner)


def test_the_metric_says_in_words_where_the_judge_and_people_part() -> None:
    items = Items(
        tuple(
            Item(
                id=name,
                document_id="d",
                system=None,
                texts={"document": "D", "text": name},
                human=human,
            )
            for name, human in (("a", 5.0), ("b", 2.0), ("c", 1.0))
        )
    )
    words = feedback(np.array([3.0, 4.0, np.nan]), items, SEED, items.items[1])
    # Ranks of the two that are scored: the other way round.
    assert "-1.00 (1 is best)" in words
    assert "4 and people 2: it is number 1 of 3 for you and 2 for people" in words
    assert "too high" in words
    assert [line[:18] for line in words.splitlines()[-3:]] == [
        "- people 5, you 3:",
        "- people 2, you 4:",
        "- people 1, you no",
    ]
    assert "document: D" not in words


def test_a_stock_optimizer_improves_the_judge() -> None:
    result, _, _ = tuned("miprov2", 6000)
    assert result.choice.ship, result.choice.why


def test_the_mean_over_examples_is_summary_level_rho() -> None:
    items = world(9)
    scores = np.random.default_rng(0).normal(size=len(items))
    score = {item.id: value for item, value in zip(items.items, scores, strict=True)}
    values = []
    for example in examples(items, "summary"):
        part: Items = example["items"]
        told = np.array([score[item.id] for item in part.items])
        values.append(metric(example, dspy.Prediction(scores=told)))
    assert np.mean(values) == pytest.approx(objective(scores, items, "summary"))


def test_documents_with_one_output_each_are_taken_in_blocks() -> None:
    made = examples(world(3 * BLOCK, systems=1), "dataset")
    assert [len(example["items"]) for example in made] == [BLOCK] * 3


def starter(name: str, documents: slice) -> list[dspy.Example]:
    import data

    labelled = data.starter().outputs
    wanted = set(sorted({one.document_id for one in labelled})[documents])
    return [
        dspy.Example(
            **one.texts,
            id=one.id,
            document_id=one.document_id,
            system=one.system,
            human=one.rating(name),
        )
        for one in labelled
        if one.document_id in wanted
    ]


def test_the_teleprompter_compiles_a_dspy_judge(tmp_path: Path) -> None:
    subject = find("coherence")
    assert isinstance(subject, Dimension)
    student = RatingJudge(subject)
    optimizer = RankOptimizer(lm="embedded", max_calls=600, folder=tmp_path)
    trainset, valset = starter("coherence", slice(0, 8)), starter("coherence", slice(8, 16))
    compiled = optimizer.compile(student, trainset=trainset, valset=valset)
    assert isinstance(compiled, RatingJudge)
    assert compiled is not student
    assert compiled.found.choice.why
    assert compiled.trials
    kept = compiled.judge.signature.instructions == student.judge.signature.instructions
    assert compiled.found.choice.ship or (kept and not compiled.judge.demos)
    # All of it again, from the folder's replies.
    size = (tmp_path / "replies.jsonl").stat().st_size
    again = optimizer.compile(student, trainset=trainset, valset=valset)
    assert again.trials == compiled.trials
    assert (tmp_path / "replies.jsonl").stat().st_size == size


def test_a_labelled_example_lends_as_many_items_as_fit() -> None:
    evaluator = Evaluator(seed=SEED, judge=judge, calls_per_item=1, budget=SearchBudget(10))
    made = examples(world(3), "summary")
    length = len(made[0]["items"].items[0].texts["text"])
    for lent, max_characters, shown in ((1, 10**6, 3), (4, 10**6, 12), (4, 5 * length + 9, 5)):
        shared = ProgramContext(evaluator, demos_per_example=lent, max_characters=max_characters)
        program = GroupJudge(shared)
        program.judge.demos = made
        result = candidate_of(program.judge, shared)
        assert len(set(result.demo_set.ids)) == len(result.demo_set.demos) == shown
        assert result.documents == {name.split("s")[0] for name in result.demo_set.ids}


def test_the_design_names_every_optimizer() -> None:
    design = (Path(__file__).parents[2] / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    assert f"[--optimizer {'|'.join(OPTIMIZERS)}]" in design
