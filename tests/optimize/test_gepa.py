"""DSPy's GEPA on the exact objective, within the search's budget."""

import json
import re
from collections.abc import Callable, Sequence

import dspy
import numpy as np
import pytest
from behaving_model import Model
from search_world import SEED, judge, search, world

from judges.client.budget import Account, Budget
from judges.client.protocol import FatalModelError
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.evaluator import Evaluator, ItemScore, SearchOptions, objective
from optimize.search.gate import SearchResult
from optimize.search.gepa import BLOCK, examples, feedback, metric


def reflect(prompt: str, *_: object) -> str:
    """A language model that answers GEPA's reflection in the form it asks for."""
    wanted = "Rate the kindness and the candour of the text."
    if "Respond with a JSON object" in prompt:
        return json.dumps({"new_instruction": wanted})
    names = re.findall(r"\[\[ ## (\w+) ## \]\]", prompt.rpartition("Respond with")[2])
    return "\n\n".join(f"[[ ## {name} ## ]]\n{wanted}" for name in names)


def tuned(
    calls: int,
    proposer: Model | None,
    judging: Callable[[Prompt, Sequence[Item]], list[ItemScore]] = judge,
    account: Account | None = None,
) -> tuple[SearchResult, list[Trial], Evaluator]:
    return search(
        world(16),
        world(12, first=100),
        optimizer="gepa",
        calls=calls,
        by=judging,
        proposer=proposer,
        account=account,
        options=SearchOptions(seed=1),
    )


def test_gepa_asks_its_own_proposer_pays_for_it_and_makes_the_same_trials_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[tuple[str, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((str(prompt.template()), item.id) for item in items)
        return judge(prompt, items)

    model = Model(reflect)
    result, records, evaluator = tuned(6000, model, watching)
    assert result.choice.ship, result.choice.why
    assert "kindness and the candour" in result.tuned.instruction
    prompts = list(model.seen)
    for words in ("examples_with_feedback", "The score is Spearman's rank correlation"):
        assert any(words in prompt for prompt in prompts)
    assert {sampling.temperature for sampling in model.samplings} == {1.0}
    assert evaluator.budget.spent == len(asked) + model.calls <= 6000
    assert len(asked) == len(set(asked))
    again, once_more, _ = tuned(6000, Model(reflect))
    assert (again, once_more) == (result, records)
    # DSPy prints and draws bars; a command's stdout holds the result alone.
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("calls", [40, 300, 1500])
@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "{", "[[ ## tip ## ]] x"])
def test_a_small_budget_and_proposals_that_cannot_be_read_end_well(reply: str, calls: int) -> None:
    result, _, evaluator = tuned(calls, Model(lambda *_: reply))
    assert evaluator.budget.spent <= calls
    assert result.choice.why


def test_a_proposer_without_money_leaves_the_best_so_far() -> None:
    model = Model(reflect)
    result, records, _ = tuned(1500, model, account=Budget(max_calls=3).account())
    assert model.calls == 3
    assert result.choice.why
    assert records


def test_a_wrong_key_of_the_proposer_ends_the_run() -> None:
    def refuse(*_: object) -> str:
        raise FatalModelError("wrong key")

    with pytest.raises(FatalModelError, match="wrong key"):
        tuned(1500, Model(refuse))


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
