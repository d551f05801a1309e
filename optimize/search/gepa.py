"""GEPA, DSPy's reflective optimizer, on the exact objective.

To it an example is a document's outputs, and its score their rho. The mean over such examples is
the summary-level objective, so that GEPA maximises the real thing. Where documents have one output
each, an example is a block of rows. GEPA proposes by its own reflection on what our metric says in
words; what that asks is counted in the search's budget at what it took.
"""

import contextlib
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer

from dspy_judges.errors import JudgesError
from judges.client import BudgetSpentError, Client, FatalModelError
from judges.client.dspy import as_lm
from judges.judgement import AnyJudgement
from judges.modules import signature_of
from judges.prompt import NOT_GIVEN, Value, encodable
from optimize.items import Items
from optimize.search.candidates import Candidate, nearest_choice
from optimize.search.evaluator import (
    Evaluator,
    Goal,
    SearchBudgetSpentError,
    SearchProblem,
    objective,
    reason_of,
)
from optimize.search.gate import N_FINALISTS, Exploration
from optimize.search.lessons import JudgedItems
from optimize.search.proposer import REPLY_TOKENS
from optimize.statistics.intervals import stream

BLOCK = 12
# Requests of two runs' proposers are drawn with seeds so far apart.
PROPOSER_SEED = 10_000
# What an evaluation is worth that could not be paid: less than any rho, so that it never wins.
UNPAID = -1.0
MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
MOST_FRUITLESS = 25


@dataclass(slots=True)
class Progress:
    """What every copy of the program asks through; copied by reference, as DSPy copies programs.

    `ended` is what ended the run: GEPA takes it for a bad prompt, and would go on.
    """

    evaluator: Evaluator
    ended: JudgesError | None = None
    tried: set[str] = field(default_factory=set)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Progress":
        return self


class GroupJudge(dspy.Module):  # type: ignore[misc]
    """Judges all items of an example; what is optimized is the predictor `judge` inside."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.judge = dspy.Predict(signature_of(progress.evaluator.seed))
        self.progress = progress

    def forward(self, items: Items) -> dspy.Prediction:
        progress, candidate = self.progress, candidate_of(self)
        try:
            if progress.ended is not None:
                raise progress.ended
            progress.evaluator.scores(candidate, items)
        except (SearchBudgetSpentError, BudgetSpentError, FatalModelError) as error:
            # DSPy ends a run of many errors with one of its own.
            progress.ended = error
            return dspy.Prediction(judgements=())
        progress.tried.add(candidate.id)
        judgements = progress.evaluator.judgements(candidate, items)
        if dspy.settings.trace is not None:
            self._trace(items, judgements)
        return dspy.Prediction(judgements=judgements)

    def _trace(self, items: Items, judgements: tuple[AnyJudgement, ...]) -> None:
        """What DSPy's own predictor would have left for reflection."""
        *reasons, answer = self.progress.evaluator.seed.outputs
        for item, judgement in zip(items.items, judgements, strict=True):
            if judgement.failure is None:
                words = reason_of(judgement) or NOT_GIVEN
                said: dict[str, Value] = dict.fromkeys((each.name for each in reasons), words)
                said[answer.name] = nearest_choice(answer.choices or (), judgement.score)
                dspy.settings.trace.append((self.judge, dict(item.texts), dspy.Prediction(**said)))


def candidate_of(program: GroupJudge) -> Candidate:
    """The candidate that a program's instruction makes."""
    return Candidate(instruction=program.judge.signature.instructions)


def examples(items: Items, goal: Goal) -> list[Any]:
    """One example a document, or a block of documents where the level is not within documents."""
    documents, size = items.documents, 1
    if goal != "summary":
        size = max(1, round(BLOCK * len(documents) / max(1, len(items))))
    parts = [
        items.of_documents(documents[start : start + size])
        for start in range(0, len(documents), size)
    ]
    return [
        dspy.Example(items=part).with_inputs("items") for part in parts if np.ptp(part.human) > 0
    ]


def metric(example: Any, prediction: Any, goal: Goal = "dataset") -> float:
    """What the goal is within the example; 0 where failures leave none: DSPy takes no NaN."""
    if not prediction.judgements:
        return UNPAID
    scores = np.array([judgement.score for judgement in prediction.judgements])
    return float(np.nan_to_num(objective(scores, example["items"], goal)))


class Reflection(InstructionProposer):  # type: ignore[misc]
    """GEPA's own proposer; what it asks is counted, and how often it brings something new."""

    def __init__(self, progress: Progress, client: Client, seed: int) -> None:
        super().__init__()
        self.progress, self.client = progress, client
        self.lm = as_lm(client, temperature=1.0, max_tokens=REPLY_TOKENS, seed=seed)
        self.n_fruitless = 0
        self._known = {progress.evaluator.seed.instruction}

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """The new instructions by component; raises where the reply cannot be read."""
        self.n_fruitless += 1
        budget, totals = self.progress.evaluator.budget, self.client.totals
        budget.check(budget.proposal)
        tokens_in, tokens_out = totals.tokens_in, totals.tokens_out
        try:
            instructions: dict[str, str] = super().__call__(*args, **kwargs)
        finally:
            if self.lm.engine.stopped is None:
                budget.charge_proposal(totals.tokens_in - tokens_in, totals.tokens_out - tokens_out)
            self.progress.ended = self.progress.ended or self.lm.engine.stopped
        if not self._known.issuperset(instructions.values()):
            self.n_fruitless = 0
            self._known.update(instructions.values())
        return {name: encodable(text) for name, text in instructions.items()}


def explore(problem: SearchProblem) -> Exploration:
    """Run GEPA on one half of train, judged on the other; dev gets its share first.

    Raises JudgesError where no language model can write instructions.
    """
    if problem.proposer is None:
        raise JudgesError(
            "GEPA writes instructions, for which it needs a language model: name one (--lm), or "
            "use --optimizer rank"
        )
    evaluator, options = problem.evaluator, problem.options
    budget, item_cost = evaluator.budget, evaluator.item_cost(problem.seed)
    dev_cost = (1 + N_FINALISTS) * item_cost * len(problem.dev)
    progress = Progress(evaluator)
    reflection = Reflection(progress, problem.proposer, PROPOSER_SEED * (1 + options.seed))
    with budget.reserving(min(dev_cost, budget.left / 2)), _quietly():
        scored = _run_gepa(problem, progress, reflection)
    if isinstance(progress.ended, FatalModelError):
        raise progress.ended
    # Each candidate once, the best first, with the best it reached.
    best = {each.id: (rho, each) for rho, each in sorted(scored, key=lambda pair: pair[0])}
    scored = sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))
    for rho, candidate in scored:
        problem.record_candidate("stock", candidate, value=rho)
    seed_rho = best.get(problem.seed.id, (0.0, problem.seed))[0]
    better = [each for rho, each in scored if each.id != problem.seed.id and rho > seed_rho]
    return Exploration(
        finalists=better[:N_FINALISTS],
        tried=progress.tried,
    )


def _run_gepa(
    problem: SearchProblem, progress: Progress, reflection: Reflection
) -> list[tuple[float, Candidate]]:
    """What each candidate reached on the half that judges, until the budget or its ideas end."""
    evaluator, options = problem.evaluator, problem.options
    goal: Goal = "balanced" if problem.goal == "balanced" else "dataset"
    documents = list(problem.train.documents)
    stream(options.seed, "stock").shuffle(documents)
    half = max(1, len(documents) // 2)
    teaching, judging = (
        examples(problem.train.of_documents(part), problem.goal)
        for part in (documents[:half], documents[half:])
    )
    if not teaching or not judging:
        return []
    # What the next iteration needs: a proposal and a minibatch.
    item_cost = evaluator.item_cost(problem.seed)
    sizes = sorted((len(example["items"]) for example in teaching), reverse=True)
    cost_needed = evaluator.budget.proposal + sum(sizes[:MINIBATCH]) * item_cost

    def metric_with_feedback(
        gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        value, items = metric(gold, pred, goal), gold["items"]
        if pred_name is None or not pred.judgements:
            return value
        # The same words as a lesson's, people's best first.
        judged = JudgedItems(items, pred.judgements, evaluator.seed)
        rows = np.argsort(-items.human, kind="stable")
        measure = "balanced accuracy" if goal == "balanced" else "Spearman's rho"
        feedback = (
            f"The score of these {len(items)} outputs, {measure} by what people say, is "
            f"{value:.2f} (1 is best).\n{judged.document(rows.tolist())}"
        )
        return dspy.Prediction(score=value, feedback=feedback)

    def is_finished(state: Any) -> bool:
        return (
            reflection.n_fruitless >= MOST_FRUITLESS
            or progress.ended is not None
            or evaluator.budget.left < cost_needed
        )

    optimizer = dspy.GEPA(
        metric=metric_with_feedback,
        max_metric_calls=max(1, int(evaluator.budget.left // item_cost)),
        instruction_proposer=reflection,
        reflection_lm=reflection.lm,
        reflection_minibatch_size=min(MINIBATCH, len(teaching)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=options.seed,
        gepa_kwargs={"stop_callbacks": is_finished},
    )
    program = optimizer.compile(GroupJudge(progress), trainset=teaching, valset=judging)
    results = program.detailed_results
    programs = zip(results.val_aggregate_scores, results.candidates, strict=True)
    return [(value, candidate_of(each)) for value, each in programs]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """GEPA prints, logs and draws progress bars; a run tells its own progress."""
    loggers = [logging.getLogger(name) for name in ("dspy", "gepa")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
