"""DSPy's own optimizers on the exact objective: MIPROv2, GEPA, bootstrap with random search.

To them an example is a document's outputs, and its score their rho. The mean over such examples is
the summary-level objective, which makes every stock optimizer maximise the real thing. Where
documents have one output each, an example is a block of rows.

Each brings its own proposer, as DSPy ships it: GEPA its reflection on what our metric says in
words, MIPROv2 its proposer grounded in a summary of the data, the program and bootstrapped
demonstrations. What these ask is counted in the search's budget at what it took. The embedded model
cannot answer their prompts: with it as proposer both have instructions proposed from mistakes, and
MIPROv2 takes its demonstrations from the rank search's pool.
"""

import contextlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import dspy
import numpy as np
from dspy.propose import GroundedProposer
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from dspy.utils.exceptions import AdapterParseError
from scipy.stats import rankdata

from judges.frozen import MAX_DEMO_BYTES, demo_bytes
from judges.inference.budget import BudgetSpentError
from judges.inference.dspy_bridge import as_lm
from judges.inference.runner import Runner
from judges.inference.sampler import ModelRequest, ModelResponse
from judges.modules import signature_of
from judges.prompt import MAX_DEMOS, NOT_GIVEN, Prompt, encodable
from judges.protocol import FatalModelError, Model
from optimize.items import Item, Items, Vector
from optimize.search.candidates import Candidate, Demo, DemoSet
from optimize.search.demos import (
    DemoSource,
    demo_sets,
    demonstrable_items,
    demonstration,
    nearest_choice,
    unscored_source,
)
from optimize.search.evaluator import Evaluator, SearchBudget, SearchBudgetSpentError
from optimize.search.finalists import CrossFit, Exploration
from optimize.search.objective import Level, objective
from optimize.search.problem import SearchProblem
from optimize.search.proposals import (
    MISTAKES_SHOWN,
    InstructionSource,
    mistakes,
    sampled_mistakes,
    shortened_texts,
)
from optimize.search.proposer import REPLY_TOKENS, ask_within_means
from optimize.statistics.bootstrap import stream

Explore = Callable[[SearchProblem], Exploration]
# Candidates with the objective each reached on the half that judges.
ScoredCandidates = list[tuple[float, Candidate]]

BLOCK = 12
# What the dearest finalist is taken to cost, in seeds: DSPy shows as many examples as may be.
DEAREST_SEEDS = 16.0
# Requests of two runs' proposers are drawn with seeds so far apart.
PROPOSER_SEED = 10_000
# What an evaluation is worth that could not be paid: less than any rho, so that it never wins.
UNPAID = -1.0


@dataclass(slots=True)
class ProgramContext:
    """What every copy of the program asks through; copied by reference, as DSPy copies programs.

    A labelled example lends `demos_per_example` of its items, of at most `max_characters` in
    all.
    """

    evaluator: Evaluator
    demos_per_example: int = 1
    max_characters: int = 40_000
    # Whether a judge's own words beside its answers are shown, as DSPy would.
    with_comments: bool = False
    budget_spent: bool = False
    # What ended the run: DSPy's optimizers take it for a bad prompt, and would go on.
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
        candidate = candidate_of(self.judge, shared)
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
        """What DSPy's own predictor would have left for bootstrapping and reflection."""
        if dspy.settings.trace is None:
            return
        for item, score in zip(items.items, scores, strict=True):
            if not np.isnan(score):
                comment = comments.get(item.id, "") if self.shared.with_comments else ""
                answer = _predicted_answer(self.shared.evaluator.seed, float(score), comment)
                dspy.settings.trace.append((self.judge, dict(item.texts), answer))


def _predicted_answer(prompt: Prompt, score: float, comment: str) -> dspy.Prediction:
    answer = prompt.outputs[-1]
    value = nearest_choice(answer.choices or (), score)
    reasons = {output.name: comment or NOT_GIVEN for output in prompt.outputs[:-1]}
    return dspy.Prediction(**reasons, **{answer.name: value})


def candidate_of(predictor: Any, shared: ProgramContext) -> Candidate:
    """The candidate that a predictor's instructions and demos make."""
    seed = shared.evaluator.seed
    demos: list[Demo] = []
    ids, documents, room, bytes_left = [], set(), shared.max_characters, MAX_DEMO_BYTES
    for demo, item_id, document in _demos(predictor, shared):
        room -= sum(len(str(demo[text.name])) for text in seed.inputs)
        size = demo_bytes(seed, demo)
        bytes_left -= size or 0
        if room < 0 or bytes_left < 0 or len(demos) == MAX_DEMOS:
            break
        if size is None:
            continue
        demos.append(demo)
        ids.append(item_id)
        documents.add(document)
    demo_set = DemoSet(
        demos=tuple(demos),
        ids=tuple(ids),
        kind=f"stock {len(demos)}",
        documents=frozenset(documents),
    )
    return Candidate(
        instruction=predictor.signature.instructions, demo_set=demo_set if demos else DemoSet()
    )


def _demos(predictor: Any, shared: ProgramContext) -> Iterator[tuple[Demo, str, str]]:
    """Each demonstration with the ids of its item and document.

    A bootstrapped demo is one already; a labelled one is an example, which lends some items.
    """
    seed = shared.evaluator.seed
    for demo in predictor.demos:
        if "items" not in demo:
            yield {field.name: demo[field.name] for field in seed.fields}, "bootstrapped", ""
            continue
        source = unscored_source(demo["items"], seed, shared.max_characters)
        # Always the same of the example's items, but not the first of each.
        rng = stream(0, demo["items"].items[0].id)
        for row in rng.permutation(len(source.items))[: shared.demos_per_example]:
            item = source.items.items[row]
            yield demonstration(source, int(row)), item.id, item.document_id


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
        texts = shortened_texts(items.items[row])
        written = " ".join(f"{name}: {text}" for name, text in texts.items() if name not in shared)
        lines.append(f"- people {items.human[row]:.3g}, you {given[row]}: {written}")
    return "\n".join(lines)


class CountedRunner:
    """Answers DSPy's proposers, and counts each answer in the search's budget.

    What ends a run is kept in `shared`: DSPy takes it for a proposal that failed.
    """

    def __init__(self, runner: Runner, budget: SearchBudget, shared: ProgramContext) -> None:
        self.runner, self.budget, self.shared = runner, budget, shared

    @property
    def model(self) -> Model:
        return self.runner.model

    def ask(self, request: ModelRequest) -> ModelResponse:
        """Answer a request; raises SearchBudgetSpentError where the search cannot pay it."""
        with self._counting():
            return self._counted(ask_within_means(self.runner, request))

    async def ask_async(self, request: ModelRequest) -> ModelResponse:
        """Answer a request from an event loop, as `ask` does."""
        with self._counting():
            return self._counted(await self.runner.ask_async(request))

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

    def _counted(self, response: ModelResponse) -> ModelResponse:
        self.budget.charge_proposal(response.tokens_in, response.tokens_out)
        return response


class OptimizerInputs:
    """One half of train teaches, the other judges; both are examples that hold whole documents."""

    def __init__(self, problem: SearchProblem) -> None:
        evaluator, train, level = problem.evaluator, problem.train, problem.level
        options = problem.options
        self.problem, self.evaluator, self.options = problem, evaluator, options
        documents = list(train.documents)
        stream(options.seed, "stock").shuffle(documents)
        half = max(1, len(documents) // 2)
        self.demo_pool = train.of_documents(documents[:half])
        self.judging = train.of_documents(documents[half:])
        self.teaching_examples = examples(self.demo_pool, level)
        self.judging_examples = examples(self.judging, level)
        self.instructions = InstructionSource(problem)
        self.n_fruitless = 0
        n_examples = max(1, len(self.teaching_examples))
        self.shared = ProgramContext(
            evaluator,
            demos_per_example=max(1, max(options.demo_sizes) // n_examples),
            max_characters=options.longest_demos,
            with_comments=problem.proposer is not None,
        )
        # DSPy wants a model to be named; what judges and what our own proposer asks go past it.
        self.lm = unused_model()
        self.own_proposer = problem.proposer is not None
        self.n_proposed = 0
        if problem.proposer is not None:
            runner = CountedRunner(problem.proposer, evaluator.budget, self.shared)
            seed = PROPOSER_SEED * (1 + options.seed)
            self.lm = as_lm(runner, temperature=1.0, max_tokens=REPLY_TOKENS, seed=seed)

    def program(self) -> GroupJudge:
        return GroupJudge(self.shared)

    def evaluations(self) -> int:
        """How many candidates the budget can score on all documents that judge."""
        once = self.evaluator.price(self.judging)
        return max(1, int(self.evaluator.budget.left // once)) if once else 1

    def proposed(self, current: str, lines: Sequence[str], number: int) -> list[str]:
        """New instructions that may be tried; a rejected one is only counted."""
        try:
            fresh = self.instructions.propose(current, lines, [], number)
        except (SearchBudgetSpentError, BudgetSpentError):
            self.shared.budget_spent = True
            return []
        self.n_fruitless = 0 if fresh else self.n_fruitless + 1
        return fresh

    def mistakes(self, number: int) -> list[str]:
        """What the seed misplaces, on so many draws of half the documents that teach."""
        items = self.demo_pool
        scores = self.evaluator.scores(self.problem.seed, items)
        draws = [stream(self.options.seed, "stock lesson", draw) for draw in range(number)]
        n_documents = max(1, len(items.documents) // 2)
        return sampled_mistakes(scores, items, self.evaluator.seed, n_documents, draws)

    def demo_sets(self, number: int) -> list[DemoSet]:
        """So many sets of our own search's kinds; all documents that teach may be shown."""
        evaluator, seed, options = self.evaluator, self.problem.seed, self.options
        items = demonstrable_items(self.demo_pool, evaluator.seed)
        source = DemoSource(
            items=items,
            scores=evaluator.scores(seed, items),
            prompt=evaluator.seed,
            max_characters=options.longest_demos,
            share=1.0,
            comments=evaluator.comments(seed),
        )
        drawn = demo_sets(source, options.demo_sizes, stream(options.seed, "demos", 1))
        return list(islice(drawn, number))

    def candidates_of(self, programs: Iterable[tuple[float, Any]]) -> ScoredCandidates:
        """The candidates that these programs hold."""
        return [(value, candidate_of(program.judge, self.shared)) for value, program in programs]


def unused_model() -> Any:
    """A model that is named and never asked."""

    class UnusedEngine:
        def complete(self, request: Any) -> Any:
            raise RuntimeError("the stock optimizer asked a model behind the budget's back")

    return dspy.LM("nobody/none", engine=UnusedEngine(), cache=False, num_retries=0)


def explores(optimize: Callable[[OptimizerInputs], ScoredCandidates]) -> Explore:
    """Make an optimizer of a function that gives each candidate the objective it reached.

    What it leaves of the budget is dev's as well.
    """

    def explore(problem: SearchProblem) -> Exploration:
        evaluator, options = problem.evaluator, problem.options
        budget = evaluator.budget
        # A finalist may show as much as the budget allows, or nothing.
        seed_cost = evaluator.item_cost(problem.seed)
        finalist_cost = (seed_cost + min(options.max_item_cost, seed_cost * DEAREST_SEEDS)) / 2
        if evaluator.pricing is None:
            finalist_cost = seed_cost
        dev_cost = (seed_cost + options.finalists * finalist_cost) * len(problem.dev)
        reserve = min(dev_cost, budget.left // 2 if evaluator.pricing is None else budget.left / 2)
        scored: ScoredCandidates = []
        with budget.reserving(reserve):
            inputs = OptimizerInputs(problem)
            # Where the calls do not even reach for the seed's lessons, there is nothing to choose.
            with _quietly(), contextlib.suppress(SearchBudgetSpentError, BudgetSpentError):
                if inputs.teaching_examples and inputs.judging_examples:
                    scored = _best_first(optimize(inputs))
            inputs.shared.raise_error()
        for rho, candidate in scored:
            problem.record_candidate("stock", candidate, value=rho)
        seed_id = problem.seed.id
        seed_rho = next((rho for rho, candidate in scored if candidate.id == seed_id), 0.0)
        better = [
            candidate for rho, candidate in scored if candidate.id != seed_id and rho > seed_rho
        ]
        return Exploration(
            finalists=better[: options.finalists],
            tried=inputs.shared.tried,
            n_proposed=inputs.n_proposed + inputs.instructions.n_proposed,
            # None of theirs shows dev: each judges it itself.
            cross_fit=CrossFit(Items(()), evaluator.seed, options),
        )

    return explore


def _best_first(scored: ScoredCandidates) -> ScoredCandidates:
    """Each candidate once, with the best it reached."""
    best: dict[str, tuple[float, Candidate]] = {}
    for rho, candidate in scored:
        if candidate.id not in best or rho > best[candidate.id][0]:
            best[candidate.id] = (rho, candidate)
    return sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The optimizers print, log and draw progress bars; a run tells its own progress."""
    loggers = [logging.getLogger(name) for name in ("dspy", "optuna", "gepa")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# A bootstrapped demonstration comes from an example that the judge ranks about this well.
RANKED_WELL = 0.3
MOST_PROGRAMS = 200


@explores
def bootstrap(inputs: OptimizerInputs) -> ScoredCandidates:
    """As many draws as the budget can score; an example bootstraps one output or lends several."""
    number = len(inputs.teaching_examples)
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric,
        metric_threshold=RANKED_WELL,
        max_bootstrapped_demos=max(1, number // 2),
        max_labeled_demos=number,
        # It scores three more: the seed, labels alone, and the examples in order.
        num_candidate_programs=min(MOST_PROGRAMS, max(1, inputs.evaluations() - 3)),
        num_threads=1,
        max_errors=10**6,
    )
    program = optimizer.compile(
        inputs.program(), trainset=inputs.teaching_examples, valset=inputs.judging_examples
    )
    return inputs.candidates_of(
        (result["score"] / 100, result["program"]) for result in program.candidate_programs
    )


MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
MOST_FRUITLESS = 25


@explores
def gepa(inputs: OptimizerInputs) -> ScoredCandidates:
    """Until the budget ends, or the proposer has nothing new to say."""
    evaluator = inputs.evaluator

    def metric_with_feedback(
        gold: Any,
        pred: Any,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        rho = metric(gold, pred)
        if pred_name is None or pred.scores is None:
            return rho
        items = gold["items"]
        if not inputs.own_proposer:
            lines = mistakes(pred.scores, items, evaluator.seed)
            return dspy.Prediction(score=rho, feedback=lines)
        texts = pred_trace[0][1]
        selected = next((item for item in items.items if dict(item.texts) == dict(texts)), None)
        words = feedback(pred.scores, items, evaluator.seed, selected)
        return dspy.Prediction(score=rho, feedback=words)

    # What the next iteration needs: a proposal and a minibatch.
    sizes = sorted((len(example["items"]) for example in inputs.teaching_examples), reverse=True)
    item_cost = evaluator.item_cost(inputs.problem.seed)
    cost_needed = evaluator.budget.proposal + sum(sizes[:MINIBATCH]) * item_cost

    def is_finished(state: Any) -> bool:
        return (
            inputs.n_fruitless >= MOST_FRUITLESS
            or inputs.shared.budget_spent
            or inputs.shared.error is not None
            or evaluator.budget.left < cost_needed
        )

    optimizer = dspy.GEPA(
        metric=metric_with_feedback,
        max_metric_calls=max(1, int(evaluator.budget.left // item_cost)),
        instruction_proposer=(
            StockReflection(inputs) if inputs.own_proposer else reflection_by_mistakes(inputs)
        ),
        reflection_lm=inputs.lm,
        reflection_minibatch_size=min(MINIBATCH, len(inputs.teaching_examples)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=inputs.options.seed,
        gepa_kwargs={"stop_callbacks": is_finished},
    )
    program = optimizer.compile(
        inputs.program(), trainset=inputs.teaching_examples, valset=inputs.judging_examples
    )
    results = program.detailed_results
    return inputs.candidates_of(zip(results.val_aggregate_scores, results.candidates, strict=True))


class StockReflection(InstructionProposer):  # type: ignore[misc]
    """GEPA's own proposer, of which it is only counted how often it brings something new."""

    def __init__(self, inputs: OptimizerInputs) -> None:
        super().__init__()
        self._inputs = inputs
        self._known = {inputs.evaluator.seed.instruction}

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """The new instructions by component; raises where the reply cannot be read."""
        inputs = self._inputs
        inputs.n_fruitless += 1
        instructions: dict[str, str] = super().__call__(*args, **kwargs)
        inputs.n_proposed += len(instructions)
        if not self._known.issuperset(instructions.values()):
            inputs.n_fruitless = 0
            self._known.update(instructions.values())
        return {name: encodable(text) for name, text in instructions.items()}


def reflection_by_mistakes(inputs: OptimizerInputs) -> Callable[..., dict[str, str]]:
    """Return what proposes to GEPA as our own search has it proposed."""
    rounds = 0

    def propose_instructions(
        candidate: dict[str, str],
        reflective_dataset: dict[str, list[dict[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """The new instructions by component, or those that are there."""
        nonlocal rounds
        rounds += 1
        instructions = dict(candidate)
        for name in components_to_update:
            feedback_lines = dict.fromkeys(
                line
                for record in reflective_dataset[name]
                for line in str(record["Feedback"]).splitlines()
            )
            lines = "\n".join(list(feedback_lines)[:MISTAKES_SHOWN])
            proposed = inputs.proposed(candidate[name], [lines], rounds)
            instructions[name] = proposed[0] if proposed else candidate[name]
        return {name: instructions[name] for name in components_to_update}

    return propose_instructions


MOST_TRIALS = 200
# DSPy's own "heavy" setting searches eighteen of each, for which it needs the calls.
HEAVY, EVALUATIONS_FOR_HEAVY = 18, 60
VIEWED_TOGETHER, DEMOS_IN_CONTEXT = 10, 3  # as MIPROv2 has them


@explores
def miprov2(inputs: OptimizerInputs) -> ScoredCandidates:
    """Every trial is a full evaluation; what the evaluator has scored before is free."""
    usual = inputs.options.proposals + inputs.options.demo_sets
    number = max(usual, HEAVY) if inputs.evaluations() >= EVALUATIONS_FOR_HEAVY else usual
    kind = StockMipro if inputs.own_proposer else MiproByMistakes
    optimizer = kind(
        inputs,
        metric=metric,
        metric_threshold=RANKED_WELL,
        prompt_model=inputs.lm,
        task_model=unused_model(),
        auto=None,
        num_candidates=number,
        num_threads=1,
        max_errors=10**6,
        # DSPy takes a seed of 0 for none.
        seed=inputs.options.seed + 1,
    )
    program = optimizer.compile(
        inputs.program(),
        trainset=inputs.teaching_examples,
        valset=inputs.judging_examples,
        num_trials=min(MOST_TRIALS, 2 * inputs.evaluations()),
        # DSPy fails once every combination it met on minibatches has had its full evaluation.
        minibatch=False,
    )
    return inputs.candidates_of(
        (result["score"] / 100, result["program"]) for result in program.candidate_programs
    )


class StockMipro(dspy.MIPROv2):  # type: ignore[misc]
    """MIPROv2 with its own demonstrations and proposer, which reads what its users would give it.

    That is one example an output, with people's rating, and a program that judges one output.
    """

    def __init__(self, inputs: OptimizerInputs, *, num_candidates: int, **settings: Any) -> None:
        super().__init__(num_candidates=num_candidates, **settings)
        # Half as many instructions as sets of demonstrations, as its own settings have it.
        self.num_instruct_candidates = max(2, num_candidates // 2)
        self._inputs = inputs

    def _propose_instructions(
        self,
        program: Any,
        trainset: Sequence[Any],
        demo_candidates: Any,
        *_: Any,
        num_instruct_candidates: int,
        **__: Any,
    ) -> dict[int, list[str]]:
        """The seed's instruction and the proposals: one that cannot be read costs only itself."""
        inputs, seed = self._inputs, self._inputs.evaluator.seed
        answer = seed.outputs[-1].name
        outputs = [
            dspy.Example(**item.texts, **{answer: round(item.human, 2)}).with_inputs(*item.texts)
            for item in inputs.demo_pool.items
        ]
        judge = OutputJudge(signature_of(seed))
        proposer = StockGrounding(
            prompt_model=self.prompt_model,
            program=judge,
            trainset=outputs,
            view_data_batch_size=VIEWED_TOGETHER,
            num_demos_in_context=DEMOS_IN_CONTEXT,
            use_instruct_history=False,
            set_history_randomly=False,
            rng=self.rng,
            init_temperature=self.init_temperature,
        )
        proposed = proposer.propose_instructions_for_program(
            trainset=outputs,
            program=judge,
            demo_candidates=demo_candidates,
            trial_logs={},
            N=num_instruct_candidates,
        )
        # The first gives way to the seed's, as in MIPROv2.
        fresh = [encodable(text) for text in proposed[0][1:] if text]
        inputs.n_proposed += len(fresh)
        return {0: [seed.instruction, *fresh]}


class OutputJudge(dspy.Module):  # type: ignore[misc]
    """Judges one output: the program that MIPROv2's proposer reads."""

    def __init__(self, signature: type[dspy.Signature]) -> None:
        super().__init__()
        self.judge = dspy.Predict(signature)

    def forward(self, **texts: str) -> dspy.Prediction:
        return self.judge(**texts)


class StockGrounding(GroundedProposer):  # type: ignore[misc]
    """MIPROv2's own proposer, in which a reply that cannot be read costs one proposal, not all."""

    def propose_instruction_for_predictor(self, **kwargs: Any) -> str:
        """The proposal; empty where there is none."""
        try:
            return str(super().propose_instruction_for_predictor(**kwargs)).strip()
        except (dspy.LMError, AdapterParseError):
            return ""


class MiproByMistakes(dspy.MIPROv2):  # type: ignore[misc]
    """MIPROv2 with our proposer and demonstration pool, for a proposer that answers only ours."""

    def __init__(self, inputs: OptimizerInputs, **settings: Any) -> None:
        super().__init__(**settings)
        self._inputs = inputs

    def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[Any]]:
        sets = self._inputs.demo_sets(self.num_candidates)
        return {0: [[], *([dspy.Example(**demo) for demo in demo_set.demos] for demo_set in sets)]}

    def _propose_instructions(self, *_: Any, **__: Any) -> dict[int, list[str]]:
        inputs = self._inputs
        seed = inputs.evaluator.seed.instruction
        return {0: [seed, *inputs.proposed(seed, inputs.mistakes(self.num_candidates), 1)]}
