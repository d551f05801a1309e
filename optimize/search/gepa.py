"""GEPA, DSPy's reflective optimizer, on the exact objective.

To it an example is a document's outputs, and its score their rho. The mean over such examples is
the summary-level objective, so that GEPA maximises the real thing. Where documents have one output
each, an example is a block of rows. GEPA proposes by its own reflection on what our metric says in
words; what that asks is counted in the search's budget at what it took.
"""

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from scipy.stats import rankdata

from dspy_judges.errors import JudgesError
from judges.client import BudgetSpentError, Client, FatalModelError, Model, Request, Response
from judges.client.dspy import as_lm
from judges.modules import signature_of
from judges.prompt import NOT_GIVEN, Prompt, Value, encodable
from optimize.items import Item, Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.demos import nearest_choice
from optimize.search.evaluator import Evaluator, SearchBudget, SearchBudgetSpentError
from optimize.search.gate import CrossFit, Exploration
from optimize.search.lessons import without_middle
from optimize.search.objective import Level, objective
from optimize.search.problem import SearchProblem
from optimize.search.proposer import REPLY_TOKENS, ask_within_means
from optimize.statistics.intervals import stream

# Candidates with the objective each reached on the half that judges.
ScoredCandidates = list[tuple[float, Candidate]]

BLOCK = 12
# Requests of two runs' proposers are drawn with seeds so far apart.
PROPOSER_SEED = 10_000
# What an evaluation is worth that could not be paid: less than any rho, so that it never wins.
UNPAID = -1.0
MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
MOST_FRUITLESS = 25
# Long texts lose their middle: GEPA need not read a whole report with every example.
TEXT_SHOWN = 2400


@dataclass(slots=True)
class ProgramContext:
    """What every copy of the program asks through; copied by reference, as DSPy copies programs."""

    evaluator: Evaluator
    budget_spent: bool = False
    # What ended the run: GEPA takes it for a bad prompt, and would go on.
    error: Exception | None = None
    tried: set[str] = field(default_factory=set)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ProgramContext":
        return self

    def raise_error(self) -> None:
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
        shared.raise_error()
        candidate = candidate_of(self)
        try:
            scores = shared.evaluator.scores(candidate, items)
        except (SearchBudgetSpentError, BudgetSpentError):
            shared.budget_spent = True
            return dspy.Prediction(scores=None)
        except FatalModelError as error:
            shared.error = error
            raise
        shared.tried.add(candidate.id)
        self._trace(items, scores, shared.evaluator.comments(candidate))
        return dspy.Prediction(scores=scores)

    def _trace(self, items: Items, scores: Vector, comments: Mapping[str, str]) -> None:
        """What DSPy's own predictor would have left for reflection."""
        if dspy.settings.trace is None:
            return
        outputs = self.shared.evaluator.seed.outputs
        for item, score in zip(items.items, scores, strict=True):
            if not np.isnan(score):
                comment = comments.get(item.id) or NOT_GIVEN
                answer: dict[str, Value] = {output.name: comment for output in outputs[:-1]}
                answer[outputs[-1].name] = nearest_choice(outputs[-1].choices or (), float(score))
                dspy.settings.trace.append(
                    (self.judge, dict(item.texts), dspy.Prediction(**answer))
                )


def candidate_of(program: GroupJudge) -> Candidate:
    """The candidate that a program's instruction makes."""
    return Candidate(instruction=program.judge.signature.instructions)


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


def metric(example: Any, prediction: Any, trace: object = None) -> float:
    """Rho within the example; 0 where the judge's failures leave none, since DSPy takes no NaN."""
    if prediction.scores is None:
        return UNPAID
    value = objective(prediction.scores, example["items"], "dataset")
    return 0.0 if np.isnan(value) else value


def feedback(scores: Vector, items: Items, prompt: Prompt, selected: Item | None = None) -> str:
    """What the metric says of an example in words: rho, and how people see each output.

    `selected` is the output that an optimizer shows beside it; what all outputs share stands there.
    """
    rho = objective(scores, items, "dataset")
    answer = prompt.outputs[-1].name
    figure = "margin for A" if prompt.outputs[-1].choices == ("A", "B") else answer
    lines = [
        "The score is Spearman's rank correlation between your "
        f"{answer} and people's over {len(items)} outputs: "
        + ("undefined, since one side is constant" if np.isnan(rho) else f"{rho:.2f} (1 is best)")
        + "."
    ]
    yours, peoples = rankdata(-np.nan_to_num(scores, nan=-np.inf)), rankdata(-items.human)
    given = ["none" if np.isnan(score) else f"{score:g}" for score in scores]
    shared = {
        name
        for name in items.items[0].texts
        if len(items) > 1 and len({item.texts[name] for item in items.items}) == 1
    }
    for row, item in enumerate(items.items):
        if item is selected:
            place = yours[row] - peoples[row]
            verdict = "too high" if place < 0 else "too low" if place > 0 else "rightly"
            lines.append(
                f"You gave this output {figure} {given[row]} and people {items.human[row]:.3g}: "
                f"it is number {yours[row]:g} of {len(items)} for you and {peoples[row]:g} for "
                f"people, so you rank it {verdict}."
            )
    lines.append("All of them, people's highest first:")
    for row in np.argsort(-items.human, kind="stable"):
        written = " ".join(
            f"{name}: {without_middle(text, TEXT_SHOWN)}"
            for name, text in items.items[row].texts.items()
            if name not in shared
        )
        lines.append(f"- people {items.human[row]:.3g}, you {given[row]}: {written}")
    return "\n".join(lines)


class CountedClient:
    """Answers GEPA's reflection, and counts each answer in the search's budget.

    What ends a run is kept in `shared`: GEPA takes it for a proposal that failed.
    """

    def __init__(self, client: Client, budget: SearchBudget, shared: ProgramContext) -> None:
        self.client, self.budget, self.shared = client, budget, shared

    @property
    def model(self) -> Model:
        return self.client.model

    def ask(self, request: Request) -> Response:
        """Answer a request; raises SearchBudgetSpentError where the search cannot pay it."""
        with self._counting():
            return self._counted(ask_within_means(self.client, request))

    async def ask_async(self, request: Request) -> Response:
        """Answer a request from an event loop, as `ask` does."""
        with self._counting():
            return self._counted(await self.client.ask_async(request))

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        self.shared.raise_error()
        try:
            self.budget.check(self.budget.proposal)
            yield
        except (SearchBudgetSpentError, BudgetSpentError):
            self.shared.budget_spent = True
            raise
        except FatalModelError as error:
            self.shared.error = error
            raise

    def _counted(self, response: Response) -> Response:
        self.budget.charge_proposal(response.tokens_in, response.tokens_out)
        return response


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
    dev_cost = (1 + options.finalists) * item_cost * len(problem.dev)
    shared = ProgramContext(evaluator)
    scored: ScoredCandidates = []
    with budget.reserving(min(dev_cost, budget.left / 2)):
        reflection = Reflection({problem.seed.instruction})
        # Where not even the untuned judge can be scored, there is nothing to choose.
        with _quietly(), contextlib.suppress(SearchBudgetSpentError, BudgetSpentError):
            scored = _best_first(_run_gepa(problem, problem.proposer, shared, reflection))
        shared.raise_error()
    for rho, candidate in scored:
        problem.record_candidate("stock", candidate, value=rho)
    seed_rho = next((rho for rho, each in scored if each.id == problem.seed.id), 0.0)
    better = [each for rho, each in scored if each.id != problem.seed.id and rho > seed_rho]
    return Exploration(
        finalists=better[: options.finalists],
        tried=shared.tried,
        n_proposed=reflection.n_proposed,
        # None of them shows dev: each judges it itself.
        cross_fit=CrossFit(Items(()), evaluator.seed, options),
    )


def _run_gepa(
    problem: SearchProblem, proposer: Client, shared: ProgramContext, reflection: "Reflection"
) -> ScoredCandidates:
    """Run until the budget ends, or reflection has nothing new to say."""
    evaluator, options = problem.evaluator, problem.options
    documents = list(problem.train.documents)
    stream(options.seed, "stock").shuffle(documents)
    half = max(1, len(documents) // 2)
    teaching, judging = (
        examples(problem.train.of_documents(part), problem.level)
        for part in (documents[:half], documents[half:])
    )
    if not teaching or not judging:
        return []
    # What the next iteration needs: a proposal and a minibatch.
    item_cost = evaluator.item_cost(problem.seed)
    sizes = sorted((len(example["items"]) for example in teaching), reverse=True)
    cost_needed = evaluator.budget.proposal + sum(sizes[:MINIBATCH]) * item_cost

    def metric_with_feedback(
        gold: Any,
        pred: Any,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        rho, items = metric(gold, pred), gold["items"]
        if pred_name is None or pred.scores is None:
            return rho
        texts = dict(pred_trace[0][1])
        selected = next((item for item in items.items if dict(item.texts) == texts), None)
        words = feedback(pred.scores, items, evaluator.seed, selected)
        return dspy.Prediction(score=rho, feedback=words)

    def is_finished(state: Any) -> bool:
        return (
            reflection.n_fruitless >= MOST_FRUITLESS
            or shared.budget_spent
            or shared.error is not None
            or evaluator.budget.left < cost_needed
        )

    client = CountedClient(proposer, evaluator.budget, shared)
    seed = PROPOSER_SEED * (1 + options.seed)
    optimizer = dspy.GEPA(
        metric=metric_with_feedback,
        max_metric_calls=max(1, int(evaluator.budget.left // item_cost)),
        instruction_proposer=reflection,
        reflection_lm=as_lm(client, temperature=1.0, max_tokens=REPLY_TOKENS, seed=seed),
        reflection_minibatch_size=min(MINIBATCH, len(teaching)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=options.seed,
        gepa_kwargs={"stop_callbacks": is_finished},
    )
    program = optimizer.compile(GroupJudge(shared), trainset=teaching, valset=judging)
    results = program.detailed_results
    programs = zip(results.val_aggregate_scores, results.candidates, strict=True)
    return [(value, candidate_of(each)) for value, each in programs]


class Reflection(InstructionProposer):  # type: ignore[misc]
    """GEPA's own proposer, of which it is only counted how often it brings something new."""

    def __init__(self, known: set[str]) -> None:
        super().__init__()
        self.n_proposed = self.n_fruitless = 0
        self._known = known

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """The new instructions by component; raises where the reply cannot be read."""
        self.n_fruitless += 1
        instructions: dict[str, str] = super().__call__(*args, **kwargs)
        self.n_proposed += len(instructions)
        if not self._known.issuperset(instructions.values()):
            self.n_fruitless = 0
            self._known.update(instructions.values())
        return {name: encodable(text) for name, text in instructions.items()}


def _best_first(scored: ScoredCandidates) -> ScoredCandidates:
    """Each candidate once, with the best it reached."""
    best: dict[str, tuple[float, Candidate]] = {}
    for rho, candidate in scored:
        if candidate.id not in best or rho > best[candidate.id][0]:
            best[candidate.id] = (rho, candidate)
    return sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))


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
