"""DSPy's own optimizers on the exact objective: MIPROv2, GEPA, bootstrap with random search."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import dspy

from judges.inference.budget import BudgetSpentError
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet, fault
from optimize.search.demos import DemoSource, demo_sets, usable
from optimize.search.dspy_programs import (
    GroupJudge,
    ProgramContext,
    candidate_of,
    examples,
    in_order,
    metric,
    score,
)
from optimize.search.evaluator import Budget, SearchBudgetSpentError
from optimize.search.finalists import CrossFit, SearchResult, choose_finalist, score_with_seed
from optimize.search.gate import undecided
from optimize.search.problem import SearchProblem
from optimize.search.proposals import MISTAKES_SHOWN, mistakes, sampled_mistakes
from optimize.statistics.bootstrap import stream

# Candidates with the objective each reached on the half that judges.
ScoredCandidates = list[tuple[float, Candidate]]


class OptimizerInputs:
    """One half of train teaches, the other judges; both are examples that hold whole documents."""

    def __init__(self, problem: SearchProblem) -> None:
        evaluator, train, level = problem.evaluator, problem.train, problem.level
        self.problem, self.evaluator, self.plan = problem, evaluator, problem.plan
        self.seed, plan = problem.seed, problem.plan
        documents = list(train.documents)
        stream(plan.seed, "stock").shuffle(documents)
        half = max(1, len(documents) // 2)
        self.teaching = train.of_documents(documents[:half])
        self.judging = train.of_documents(documents[half:])
        self.teaching_examples = examples(self.teaching, level)
        self.judging_examples = examples(self.judging, level)
        self._known_instructions = [evaluator.seed.instruction]
        self.n_proposed = self.n_fruitless = 0
        most = max(plan.demo_sizes)
        self.shared = ProgramContext(
            evaluator,
            demos_per_example=max(1, most // max(1, len(self.teaching_examples))),
            longest=plan.longest_demos,
        )

    def program(self) -> GroupJudge:
        return GroupJudge(self.shared)

    def evaluations(self) -> int:
        """How many candidates the budget can score on all documents that judge."""
        once = max(1, self.evaluator.cost(self.seed, self.judging))
        return max(1, self.evaluator.budget.left // once)

    def proposed(self, current: str, lines: Sequence[str], number: int) -> list[str]:
        """New instructions that may be tried; a rejected one is only counted."""
        try:
            self.evaluator.budget.spend(self.evaluator.proposal * len(lines))
            texts = self.problem.propose(current, lines, [], number)
        except (SearchBudgetSpentError, BudgetSpentError):
            self.shared.budget_spent = True
            return []
        fresh: list[str] = []
        for text in texts:
            self.n_proposed += 1
            if isinstance(text, str) and not fault(
                text, self.problem.guard, self._known_instructions
            ):
                self._known_instructions.append(text)
                fresh.append(text)
        self.n_fruitless = 0 if fresh else self.n_fruitless + 1
        return fresh

    def mistakes(self, number: int) -> list[str]:
        """What the seed misplaces, on so many draws of half the documents that teach."""
        items = self.teaching
        scores = self.evaluator.scores(self.seed, items)
        draws = [stream(self.plan.seed, "stock lesson", draw) for draw in range(number)]
        batch = max(1, len(items.documents) // 2)
        return sampled_mistakes(scores, items, self.evaluator.seed, batch, draws)

    def demo_sets(self, number: int) -> list[DemoSet]:
        """So many sets of our own search's kinds; all documents that teach may be shown."""
        items = usable(self.teaching, self.evaluator.seed)
        source = DemoSource(
            items=items,
            scores=self.evaluator.scores(self.seed, items),
            prompt=self.evaluator.seed,
            comments=self.evaluator.comments(self.seed),
        )
        plan, rng = self.plan, stream(self.plan.seed, "demos", 1)
        drawn = demo_sets(source, plan.demo_sizes, plan.longest_demos, rng, share=1.0)
        return [next(drawn) for _ in range(number)]

    def candidates_of(self, programs: Iterable[tuple[float, Any]]) -> ScoredCandidates:
        """The candidates that these programs hold."""
        return [(value, candidate_of(program.judge, self.shared)) for value, program in programs]


def unused_model() -> Any:
    """DSPy wants a model to be named; judging and proposing go through the evaluator."""

    class UnusedEngine:
        def complete(self, request: Any) -> Any:
            raise RuntimeError("the stock optimizer asked a model behind the budget's back")

    return dspy.LM("nobody/none", engine=UnusedEngine(), cache=False, num_retries=0)


# A bootstrapped demonstration comes from an example that the judge ranks about this well.
RANKED_WELL = 0.3
MOST_PROGRAMS = 200


def search_bootstrap(inputs: OptimizerInputs) -> ScoredCandidates:
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


def search_gepa(inputs: OptimizerInputs) -> ScoredCandidates:
    """Until the budget ends, or the proposer has nothing new to say."""
    evaluator = inputs.evaluator

    def metric_with_feedback(
        gold: Any,
        pred: Any,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,
    ) -> Any:
        rho = score(gold, pred)
        if pred_name is None or pred.scores is None:
            return rho
        feedback = mistakes(pred.scores, gold["items"], evaluator.seed)
        return dspy.Prediction(score=rho, feedback=feedback)

    rounds = 0

    def propose_instructions(
        candidate: dict[str, str],
        reflective_dataset: dict[str, list[dict[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        nonlocal rounds
        rounds += 1
        instructions = dict(candidate)
        for name in components_to_update:
            feedback_lines = dict.fromkeys(
                line
                for record in reflective_dataset[name]
                for line in str(record["Feedback"]).splitlines()
            )
            feedback = "\n".join(list(feedback_lines)[:MISTAKES_SHOWN])
            proposed = inputs.proposed(candidate[name], [feedback], rounds)
            instructions[name] = proposed[0] if proposed else candidate[name]
        return {name: instructions[name] for name in components_to_update}

    # What the next iteration needs: a proposal and a minibatch.
    sizes = sorted((len(example["items"]) for example in inputs.teaching_examples), reverse=True)
    calls_needed = evaluator.proposal + sum(sizes[:MINIBATCH])

    def is_finished(state: Any) -> bool:
        return (
            inputs.n_fruitless >= MOST_FRUITLESS
            or inputs.shared.budget_spent
            or evaluator.budget.left < calls_needed
        )

    optimizer = dspy.GEPA(
        metric=metric_with_feedback,
        max_metric_calls=evaluator.budget.left,
        instruction_proposer=propose_instructions,
        reflection_lm=unused_model(),
        reflection_minibatch_size=min(MINIBATCH, len(inputs.teaching_examples)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=inputs.plan.seed,
        gepa_kwargs={"stop_callbacks": is_finished},
    )
    program = optimizer.compile(
        inputs.program(), trainset=inputs.teaching_examples, valset=inputs.judging_examples
    )
    results = program.detailed_results
    return inputs.candidates_of(zip(results.val_aggregate_scores, results.candidates, strict=True))


MOST_TRIALS = 200
# DSPy's own "heavy" setting searches eighteen of each, for which it needs the calls.
HEAVY, EVALUATIONS_FOR_HEAVY = 18, 60


def search_mipro(inputs: OptimizerInputs) -> ScoredCandidates:
    """Every trial is a full evaluation; what the evaluator has scored before is free."""
    usual = inputs.plan.proposals + inputs.plan.demo_sets
    number = max(usual, HEAVY) if inputs.evaluations() >= EVALUATIONS_FOR_HEAVY else usual

    class Mipro(dspy.MIPROv2):  # type: ignore[misc]
        """MIPROv2 with our proposer and demonstration pool, so that only the search differs."""

        def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[Any]]:
            sets = inputs.demo_sets(number)
            return {
                0: [[], *([dspy.Example(**demo) for demo in demo_set.demos] for demo_set in sets)]
            }

        def _propose_instructions(self, *_: Any, **__: Any) -> dict[int, list[str]]:
            seed = inputs.evaluator.seed.instruction
            return {0: [seed, *inputs.proposed(seed, inputs.mistakes(number), 1)]}

    lm = unused_model()
    optimizer = Mipro(
        metric=metric,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=number,
        num_threads=1,
        max_errors=10**6,
        # DSPy takes a seed of 0 for none.
        seed=inputs.plan.seed + 1,
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


SEARCHES: Mapping[str, Callable[[OptimizerInputs], ScoredCandidates]] = {
    "gepa": search_gepa,
    "miprov2": search_mipro,
    "bootstrap": search_bootstrap,
}


def stock_search(optimizer: str, problem: SearchProblem) -> SearchResult:
    """Search within a budget of its own; what the optimizer leaves is dev's as well."""
    evaluator, dev, plan = problem.evaluator, problem.dev, problem.plan
    budget = evaluator.budget
    reserve = min((1 + plan.finalists) * evaluator.price(dev), budget.left // 2)
    evaluator.budget = Budget(budget.left - reserve)
    budget.hold(reserve)
    inputs = OptimizerInputs(problem)
    scored_candidates: ScoredCandidates = []
    # Where the calls do not even reach for the seed's lessons, there is nothing to choose from.
    with _quietly(), contextlib.suppress(SearchBudgetSpentError, BudgetSpentError):
        scored_candidates = (
            in_order(SEARCHES[optimizer](inputs))
            if inputs.teaching_examples and inputs.judging_examples
            else []
        )
    inputs.shared.raise_stopped()
    budget.hold(0)
    budget.spent += evaluator.budget.spent
    evaluator.budget = budget
    for rho, candidate in scored_candidates:
        problem.trials.optimizer_result(candidate, rho)
    base = next(
        (rho for rho, candidate in scored_candidates if candidate.id == inputs.seed.id), 0.0
    )
    better = [
        candidate
        for rho, candidate in scored_candidates
        if candidate.id != inputs.seed.id and rho > base
    ]
    finalists = better[: plan.finalists]
    # None of theirs shows dev: each judges it itself.
    cross_fit = CrossFit(Items(()), evaluator.seed, plan)
    n_tried = len(inputs.shared.tried)
    best, choice = inputs.seed, undecided(n_tried)
    with contextlib.suppress(BudgetSpentError):
        on_dev = score_with_seed(problem, cross_fit, finalists, dev, split="dev")
        choice = choose_finalist(on_dev, {}, problem.level, n_tried, stream(plan.seed, "gate"))
        best = inputs.seed if choice.best is None else finalists[choice.best]
    return SearchResult(
        tuned=best,
        cross_fit=cross_fit,
        choice=choice,
        n_tried=n_tried,
        n_proposed=inputs.n_proposed,
        calls=budget.spent,
    )


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
