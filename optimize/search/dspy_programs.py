"""A judge as DSPy's optimizers see it: an example is a document's outputs, its score their rho.

The mean over such examples is the summary-level objective, which makes every stock optimizer
maximise the real thing. Where documents have one output each, an example is a block of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np

from judges.adapter import signature_of
from judges.frozen import MOST_DEMO_BYTES, demo_bytes
from judges.inference.budget import BudgetSpentError
from judges.prompt import MOST_DEMOS, Prompt, Value
from judges.protocol import FatalModelError
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate, Demo, DemoSet, Instruction
from optimize.search.demos import DemoSource, demonstration, usable
from optimize.search.evaluator import Evaluator, SearchBudgetSpentError
from optimize.search.objective import Level, objective
from optimize.statistics.bootstrap import stream

BLOCK = 12
# What an evaluation is worth that could not be paid: less than any rho, so that it never wins.
UNPAID = -1.0


@dataclass(slots=True)
class ProgramContext:
    """What every copy of the program asks through; copied by reference, as DSPy copies programs.

    A labelled example lends `demos_per_example` of its items, of `longest` characters at most
    in all.
    """

    evaluator: Evaluator
    demos_per_example: int = 1
    longest: int = 40_000
    budget_spent: bool = False
    # What ended the run: DSPy's optimizers take it for a bad prompt, and would go on.
    error: Exception | None = None
    tried: dict[str, Candidate] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ProgramContext":
        return self

    def raise_stopped(self) -> None:
        if self.error is not None:
            raise self.error


class GroupJudge(dspy.Module):  # type: ignore[misc]
    """Judges all items of an example; what is optimized is the predictor `judge` inside."""

    def __init__(self, shared: ProgramContext) -> None:
        super().__init__()
        self.judge = dspy.Predict(signature_of(shared.evaluator.seed))
        self.shared = shared

    def forward(self, items: Items) -> dspy.Prediction:
        shared = self.shared
        shared.raise_stopped()
        candidate = candidate_of(self.judge, shared)
        try:
            scores = shared.evaluator.scores(candidate, items)
        except (SearchBudgetSpentError, BudgetSpentError):
            shared.budget_spent = True
            return dspy.Prediction(scores=None)
        except FatalModelError as error:
            shared.error = error
            raise
        shared.tried[candidate.id] = candidate
        self._trace(items, scores)
        return dspy.Prediction(scores=scores)

    def _trace(self, items: Items, scores: Vector) -> None:
        """What DSPy's own predictor would have left for bootstrapping and reflection."""
        if dspy.settings.trace is None:
            return
        for item, score in zip(items.items, scores, strict=True):
            if not np.isnan(score):
                answer = _predicted_answer(self.shared.evaluator.seed, float(score))
                dspy.settings.trace.append((self.judge, dict(item.texts), answer))


def _predicted_answer(prompt: Prompt, score: float) -> dspy.Prediction:
    answer = prompt.outputs[-1]
    choices = answer.choices or ()
    value: Value
    if choices == ("A", "B"):
        value = "A" if score > 0 else "B"
    else:
        value = min(
            (rating for rating in choices if isinstance(rating, int)),
            key=lambda rating: (abs(rating - score), rating),
        )
    reasons = {output.name: f"The better one is {value}." for output in prompt.outputs[:-1]}
    return dspy.Prediction(**reasons, **{answer.name: value})


def candidate_of(predictor: Any, shared: ProgramContext) -> Candidate:
    """The candidate that a predictor's instructions and demos make."""
    seed = shared.evaluator.seed
    demos: list[Demo] = []
    ids, documents, room, bytes_left = [], set(), shared.longest, MOST_DEMO_BYTES
    for values, name, document in (
        shown for demo in predictor.demos for shown in _demos(demo, seed, shared.demos_per_example)
    ):
        room -= sum(len(str(values[text.name])) for text in seed.inputs)
        size = demo_bytes(seed, values)
        bytes_left -= size or 0
        if room < 0 or bytes_left < 0 or len(demos) == MOST_DEMOS:
            break
        if size is None:
            continue
        demos.append(values)
        ids.append(name)
        documents.add(document)
    shown = DemoSet(
        demos=tuple(demos),
        ids=tuple(ids),
        kind=f"stock {len(demos)}",
        documents=frozenset(documents),
    )
    return Candidate(
        instruction=Instruction(text=predictor.signature.instructions),
        demo_set=shown if demos else DemoSet(),
    )


def _demos(demo: Any, seed: Prompt, lent: int) -> Iterator[tuple[Demo, str, str]]:
    """A bootstrapped demo is one already; a labelled one is an example, which lends some items."""
    if "items" not in demo:
        yield {field.name: demo[field.name] for field in seed.fields}, "bootstrapped", ""
        return
    items = usable(demo["items"], seed)
    source = DemoSource(items=items, scores=np.zeros(len(items)), prompt=seed, comments={})
    # Always the same of the example's items, but not the first of each.
    rng = stream(0, demo["items"].items[0].id)
    for index in rng.permutation(len(items))[:lent]:
        item = items.items[index]
        yield demonstration(source, int(index)), item.id, item.document_id


def examples(items: Items, level: Level) -> list[Any]:
    """One example a document, or a block of documents where the level is not within documents."""
    documents = items.documents
    size = 1
    if level != "summary":
        size = max(1, round(BLOCK * len(documents) / max(1, len(items))))
    groups = []
    for start in range(0, len(documents), size):
        part = items.of_documents(documents[start : start + size])
        if np.ptp(part.human) > 0:
            groups.append(dspy.Example(items=part).with_inputs("items"))
    return groups


def score(example: Any, prediction: Any) -> float:
    """Rho within the example; 0 where the judge's failures leave none, since DSPy takes no NaN."""
    if prediction.scores is None:
        return UNPAID
    value = objective(prediction.scores, example["items"], "dataset")
    return 0.0 if np.isnan(value) else value


def metric(example: Any, prediction: Any, trace: object = None) -> float:
    """The same as DSPy's optimizers call it."""
    return score(example, prediction)


def in_order(scored: Sequence[tuple[float, Candidate]]) -> list[tuple[float, Candidate]]:
    """Best first, each candidate once."""
    best: dict[str, tuple[float, Candidate]] = {}
    for value, candidate in scored:
        if candidate.id not in best or value > best[candidate.id][0]:
            best[candidate.id] = (value, candidate)
    return sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))
