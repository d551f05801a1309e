"""Test suites for extensions: pytest runs all tests of a suite on an extension of yours.

A test class inherits a suite, and sets the suite's attribute to the extension. The tests need no
network: an optimizer tunes a simulated judge. Each text states six qualities as numbers. The judge
rates a text by the qualities that its instruction names, and people rate it by two of the six.
`judges.testing` has the suites for models and for exports of labels.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from judges.client import Client
from judges.dimension import Dimension
from judges.judgement import Judgement
from judges.labels.types import LabelledOutput, LabelledSet
from judges.prompt import Prompt
from judges.protocol import Completion, Message, Reply, Sampling
from optimize.items import Item, Items
from optimize.measuring.exports import TOOLS, Tool, read_tool_results
from optimize.search.budget import SearchBudget, SearchBudgetSpentError
from optimize.search.evaluator import Evaluator, ItemJudgement
from optimize.search.optimizer import Exploration, Optimizer
from optimize.search.problem import SearchOptions, SearchProblem, objective
from optimize.statistics.coefficients import Coefficient
from optimize.statistics.intervals import random_generator

if TYPE_CHECKING:
    import pytest

QUALITIES = ("kindness", "length", "colour", "rhythm", "candour", "spelling")
WARMTH = Dimension(
    name="warmth",
    definition="how warm the text is",
    inputs={"text": "a text"},
    anchors={1: "cold", 2: "", 3: "", 4: "", 5: "warm"},
    instruction="Rate the text.",
)


def simulated_items(
    n_documents: int, first_document: int = 0, n_outputs: int = 8, seed: int = 0
) -> Items:
    """Make items whose texts state six qualities in [0, 1]; ratings follow from two of them.

    A rating also has a random error, and is rounded to thirds.
    """
    rng, items = np.random.default_rng([seed, first_document]), []
    for document in range(first_document, first_document + n_documents):
        for output in range(n_outputs):
            values = rng.uniform(0, 1, len(QUALITIES))
            words = [f"{name}={value:.4f}" for name, value in zip(QUALITIES, values, strict=True)]
            rating = 1 + 2 * (values[0] + values[4]) + rng.normal(0, 0.24)
            item = Item(
                id=f"d{document}s{output}",
                document_id=f"d{document}",
                system=f"s{output}",
                texts={"text": " ".join(words)},
                human=round(float(np.clip(rating, 1, 5)) * 3) / 3,
            )
            items.append(item)
    return Items(tuple(items))


def rate_by_qualities(
    prompt: Prompt,
    items: Sequence[Item],
    qualities: Sequence[str] = QUALITIES,
    error_sd: float = 0.15,
) -> list[ItemJudgement]:
    """Rate items by the qualities that the instruction names, or by all if it names none.

    Each rating has a random error with the standard deviation `error_sd`. The error is smaller if
    demonstrations show several ratings.
    """
    indices = [index for index, name in enumerate(qualities) if name in prompt.instruction]
    error_sd /= 1 + len({demo["rating"] for demo in prompt.demos})
    judgements = []
    for item in items:
        error = error_sd * _noise(prompt.instruction, item.id)
        values = [float(word.partition("=")[2]) for word in item.texts["text"].split()]
        mean_value = float(np.mean([values[index] for index in indices or range(len(QUALITIES))]))
        judgements.append(ItemJudgement(Judgement(score=2 + 2 * mean_value + error)))
    return judgements


@cache
def _noise(instruction: str, item_id: str) -> float:
    return float(random_generator(0, instruction, item_id).normal())


class SimulatedProposer:
    """A proposer whose instructions name two qualities, drawn at random from three of the six."""

    name, endpoint, native_n, in_process = "simulated", "embedded", True, True
    has_logprobs: bool | None = False

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        self.prompts += [message["content"] for message in messages]
        rng = random_generator(1, sampling.seed, messages[-1]["content"])
        qualities = rng.choice(QUALITIES[::2], 2, replace=False)
        text = f"[[ ## instruction ## ]]\nRate the {' and the '.join(qualities)} of the text."
        replies = (Reply(text=text),) * sampling.n
        return Completion(replies=replies, tokens_in=10, tokens_out=sampling.n, model=self.name)

    async def close(self) -> None: ...


class OptimizerContract:
    """Tests for an optimizer; a subclass sets `optimizer`, and inherits the tests.

    `qualities` are six words. The simulated judge rates by the words that are in the instruction,
    and people rate by the first and the fifth, so a good instruction contains these two. A subclass
    may set six other words, if the optimizer only writes sentences with certain words.
    """

    optimizer: ClassVar[Optimizer]
    qualities: ClassVar[Sequence[str]] = QUALITIES

    def explore(
        self, calls: int = 3000, seed: int = 0, *, people_disagree: bool = False
    ) -> tuple[Exploration, SearchProblem, list[tuple[Prompt, Item]], SimulatedProposer]:
        """Run the optimizer on 16 documents of train, and 8 of dev.

        If `people_disagree`, the ratings of dev are the opposite of what train teaches. Returns the
        optimizer's result, the problem, all judged items with their prompts, and the proposer.
        """
        judged, proposer = list[tuple[Prompt, Item]](), SimulatedProposer()

        def judge_items(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
            judged.extend((prompt, item) for item in items)
            return rate_by_qualities(prompt, items, self.qualities)

        dev_items = simulated_items(8, first_document=100).items
        if people_disagree:
            dev_items = tuple(replace(item, human=6 - item.human) for item in dev_items)
        prompt, budget = WARMTH.prompt(), SearchBudget(calls)
        problem = SearchProblem(
            evaluator=Evaluator(untuned_prompt=prompt, judge_items=judge_items, budget=budget),
            proposer=Client(proposer),
            train=simulated_items(16),
            dev=Items(dev_items),
            goal="summary",
            options=SearchOptions(seed=seed),
        )
        return type(self).optimizer(problem), problem, judged, proposer

    def finalist_ids(self, seed: int = 0, *, people_disagree: bool = False) -> list[str]:
        exploration, *_ = self.explore(seed=seed, people_disagree=people_disagree)
        return [finalist.id for finalist in exploration.finalists]

    def test_finalists_can_become_judges(self) -> None:
        exploration, problem, _, _ = self.explore()
        for candidate in exploration.finalists:
            prompt, untuned = candidate.prompt(problem.evaluator.untuned_prompt), WARMTH.prompt()
            assert prompt.instruction
            assert prompt.input_fields == untuned.input_fields
            assert prompt.answer_field == untuned.answer_field

    def test_a_finalist_ranks_new_documents_better_than_the_untuned_judge(self) -> None:
        exploration, problem, _, _ = self.explore()
        rhos = []
        for candidate in (problem.untuned, *exploration.finalists):
            prompt = candidate.prompt(problem.evaluator.untuned_prompt)
            judgements = rate_by_qualities(prompt, problem.dev.items, self.qualities)
            scores = np.array([each.judgement.score for each in judgements])
            rhos.append(objective(scores, problem.dev, problem.goal))
        untuned_rho, best_rho, words = rhos[0], max(rhos[1:], default=-1.0), self.qualities
        assert best_rho > untuned_rho, (
            f"rho is {best_rho:.2f} for the best finalist, and {untuned_rho:.2f} for the untuned "
            f"judge; people rate by {words[0]} and {words[4]}, and the judge responds to the words "
            f"{', '.join(words)}: set `qualities` to words that your optimizer may write"
        )

    def test_only_train_is_seen(self) -> None:
        _, problem, judged, proposer = self.explore()
        assert {item.id for _, item in judged} <= {item.id for item in problem.train.items}
        prompts = "\n".join(proposer.prompts)
        assert not any(item.texts["text"] in prompts for item in problem.dev.items)

    def test_the_ratings_of_dev_change_no_finalist(self) -> None:
        assert self.finalist_ids(people_disagree=True) == self.finalist_ids()

    def test_no_document_is_judged_by_a_prompt_that_shows_it(self) -> None:
        _, problem, judged, _ = self.explore()
        document_by_text = {item.texts["text"]: item.document_id for item in problem.train_and_dev}
        for prompt, item in judged:
            shown_documents = {document_by_text[str(demo["text"])] for demo in prompt.demos}
            assert item.document_id not in shown_documents

    def test_the_same_seed_explores_alike(self) -> None:
        assert self.finalist_ids(seed=1) == self.finalist_ids(seed=1)

    def test_the_limit_holds(self) -> None:
        for calls in (0, 1, 100, 1000):
            with suppress(SearchBudgetSpentError):  # which an optimizer need not catch
                _, problem, judged, _ = self.explore(calls)
                assert problem.evaluator.budget.total_cost <= calls
                assert len(judged) <= calls


class CoefficientContract:
    """Tests for a coefficient; a subclass sets `coefficient`, and inherits the tests."""

    coefficient: ClassVar[Coefficient]

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a noisy judge's scores and people's ratings: 20 documents of 6 outputs each."""
        rng = np.random.default_rng(0)
        human = rng.integers(1, 6, (20, 6)).astype(float)
        human[:, :2] = 1, 5  # no document has six equal ratings
        return human + rng.normal(0, 2, human.shape), human

    def test_each_document_has_its_own_value(self) -> None:
        judge, human = self.rows()
        values = self.coefficient.of_rows(judge, human)
        for value, scores, ratings in zip(values, judge, human, strict=True):
            assert np.isclose(self.coefficient.of_rows(scores[None], ratings[None])[0], value)

    def test_values_lie_between_minus_1_and_1_and_agreement_is_1(self) -> None:
        judge, human = self.rows()
        assert np.all(np.abs(self.coefficient.of_rows(judge, human)) <= 1 + 1e-12)
        assert np.allclose(self.coefficient.of_rows(human, human), 1)

    def test_the_order_of_outputs_changes_nothing(self) -> None:
        judge, human = self.rows()
        reversed_values = self.coefficient.of_rows(judge[:, ::-1], human[:, ::-1])
        assert np.allclose(self.coefficient.of_rows(judge, human), reversed_values)

    def test_a_constant_document_has_no_value_and_no_warning(self) -> None:
        judge, human = self.rows()
        judge[0] = human[1] = 3
        with np.errstate(all="raise"):
            values = self.coefficient.of_rows(judge, human)
        assert np.isnan(values).tolist() == [True, True, *[False] * 18]

    def test_an_output_of_weight_2_counts_as_two(self) -> None:
        if self.coefficient.of_weighted is None:
            return
        weights = np.array([2, 1, 1, 2, 1, 1])
        for scores, ratings in zip(*self.rows(), strict=True):
            repeated_rows = [np.repeat(vector, weights)[None] for vector in (scores, ratings)]
            weighted_value = self.coefficient.of_weighted(scores, ratings, weights / weights.mean())
            assert np.isclose(weighted_value, self.coefficient.of_rows(*repeated_rows)[0])


class ToolContract:
    """Tests for the declaration of an evaluation tool whose results files `verify` is to read.

    A subclass sets the attributes, and inherits the tests.

    Attributes:
        tool: The declaration of how to read the tool's results.
        results: The content of one of the tool's results files, as JSON: rows, or an object with
            rows.
        metric: The name of the metric to read.
        scores: The expected scores, by the ids of the rows; NaN for a row on which the tool failed.
        texts: The input and the output of each row, by its id.
    """

    tool: ClassVar[Tool]
    results: ClassVar[object]
    metric: ClassVar[str]
    scores: ClassVar[Mapping[str, float]]
    texts: ClassVar[Mapping[str, Mapping[str, str]]]

    def test_scores_are_read_by_the_rows_ids_and_by_their_texts(
        self, tmp_path: Path, monkeypatch: "pytest.MonkeyPatch"
    ) -> None:
        assert any(map(np.isnan, self.scores.values())), "add a row on which the tool failed"
        monkeypatch.setattr("optimize.measuring.exports.TOOLS", [*TOOLS, self.tool])
        path = tmp_path / "results.json"
        path.write_text(json.dumps(self.results), encoding="utf-8")
        ratings, no_result = {self.metric: (1.0,)}, Judgement.failed("not in the file")
        for prefix in ("", "not the row's "):
            outputs = tuple(
                LabelledOutput(
                    id=prefix + name, document_id=name, system=None, texts=texts, ratings=ratings
                )
                for name, texts in self.texts.items()
            )
            labelled_set = LabelledSet(name="labels", sha256="", outputs=outputs)
            recording = read_tool_results(path, self.metric, labelled_set)
            assert recording is not None, "the file is not recognised: check `columns` and `rows`"
            judgements, notes = recording.judgement_by_id, "; ".join(recording.notes)
            scores = {name: judgements.get(prefix + name, no_result).score for name in self.scores}
            np.testing.assert_equal(scores, dict(self.scores), notes)
            assert f"({self.tool.name}): {self.metric!r}" in notes
