"""Test suites for your own models and label exports.

Inherit from a suite in your tests and set its attributes; pytest then runs the suite's tests.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from judges.labels.readers import read_labels, starter
from judges.labels.types import LabelledSet
from judges.protocol import Completion, Message, Model, ModelError, Sampling


class ModelContract:
    """The tests that every model must pass (see `judges.protocol.Model`).

    Attributes:
        model: A function without arguments that returns a new model; a subclass has to set it.
        unreachable: A function that returns a model whose service does not answer, or None if the
            model needs no service.
        question: Messages that the model can answer.
    """

    model: ClassVar[Callable[[], Model]]
    unreachable: ClassVar[Callable[[], Model | None]] = staticmethod(lambda: None)
    question: ClassVar[Sequence[Message]] = (
        {"role": "system", "content": "Rate the text from 1 to 5. Answer with the number alone."},
        {"role": "user", "content": "The town met on Monday."},
    )

    def complete(self, model: Model, *samplings: Sampling) -> list[Completion]:
        """Ask the model once for each of these samplings, all at the same time, then close it."""

        async def ask() -> list[Completion]:
            try:
                requests = [model.complete(self.question, sampling) for sampling in samplings]
                return list(await asyncio.gather(*requests))
            finally:
                await model.close()

        return asyncio.run(ask())

    def test_the_model_describes_itself(self) -> None:
        model = type(self).model()
        assert model.name
        assert model.endpoint
        assert model.native_n in (True, False)
        assert model.has_logprobs in (True, False, None)

    def test_replies_and_tokens_are_counted(self) -> None:
        model = type(self).model()
        for n in (1, 3) if model.native_n else (1,):
            (completion,) = self.complete(model, Sampling(n=n))
            assert len(completion.replies) == n
            assert all(isinstance(reply.text, str) for reply in completion.replies)
            assert completion.tokens_in >= 0
            assert completion.tokens_out >= 0
            assert completion.model

    def test_log_probabilities_are_given_as_declared(self) -> None:
        model = type(self).model()
        sampling = Sampling(top_logprobs=5 if model.has_logprobs else 0)
        ((reply,),) = [completion.replies for completion in self.complete(model, sampling)]
        assert bool(reply.tokens) == bool(model.has_logprobs)
        assert all(value <= 0 for token in reply.tokens for value in token.top_logprobs.values())

    def test_many_requests_are_in_flight_at_once(self) -> None:
        samplings = [Sampling(seed=seed) for seed in range(8)]
        assert len(self.complete(type(self).model(), *samplings)) == len(samplings)

    def test_the_messages_are_not_changed(self) -> None:
        messages_before = json.dumps(self.question)
        self.complete(type(self).model(), Sampling())
        assert json.dumps(self.question) == messages_before

    def test_a_request_without_an_answer_is_a_model_error(self) -> None:
        model = type(self).unreachable()
        if model is not None:
            with suppress(ModelError):
                self.complete(model, Sampling())
                raise AssertionError("a model whose service does not answer has answered")


class LabelExportContract:
    """The tests that a declaration in `LABEL_EXPORTS` must pass; a subclass sets the attributes.

    Attributes:
        rows: The rows of an export as the tool writes them, with labels by people and by machines.
        dimension: The name of the dimension that people rated.
        ratings: A dict from an output's id to its ratings by people, without outputs that only
            machines labelled.
    """

    rows: ClassVar[Sequence[Mapping[str, object]]]
    dimension: ClassVar[str]
    ratings: ClassVar[Mapping[str, tuple[float, ...]]]

    def read(self, folder: Path, text: str, ending: str) -> LabelledSet:
        path = folder / f"export.{ending}"
        path.write_text(text, encoding="utf-8")
        return read_labels(path)

    def test_only_ratings_by_people_are_read(self, tmp_path: Path) -> None:
        jsonl_text = "\n".join(map(json.dumps, self.rows))
        for text, ending in ((json.dumps(self.rows), "json"), (jsonl_text, "jsonl")):
            outputs = self.read(tmp_path, text, ending).outputs
            rated_outputs = [output for output in outputs if output.ratings.get(self.dimension)]
            ratings_by_id = {output.id: output.ratings[self.dimension] for output in rated_outputs}
            assert ratings_by_id == dict(self.ratings)

    def test_the_order_of_rows_changes_nothing(self, tmp_path: Path) -> None:
        reversed_labels = self.read(tmp_path, json.dumps(self.rows[::-1]), "json")
        labels = self.read(tmp_path, json.dumps(self.rows), "json")
        assert set(map(repr, reversed_labels.outputs)) == set(map(repr, labels.outputs))

    def test_an_ordinary_label_file_is_not_read_as_an_export(self) -> None:
        assert "relevance" in starter().outputs[0].ratings
