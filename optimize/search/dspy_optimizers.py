"""DSPy's own optimizers on the exact objective: MIPROv2, GEPA, bootstrap with random search."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import dspy

from judges.inference.budget import BudgetSpentError
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet, Instruction, TextGuard, fault
from optimize.search.demos import Lessons, demo_sets, usable
from optimize.search.dspy_programs import (
    GroupJudge,
    Shared,
    candidate_of,
    examples,
    in_order,
    metric,
    score,
)
from optimize.search.evaluator import Budget, Evaluator, SearchBudgetSpentError
from optimize.search.finalists import CrossFit, decide, score_both
from optimize.search.gate import undecided
from optimize.search.generator import Plan, Propose
from optimize.search.objective import Level
from optimize.search.proposals import MISTAKES_SHOWN, mistakes
from optimize.search.rank_search import Found, Record, TrialRecorder
from optimize.statistics.bootstrap import stream

# Candidates with the objective each reached on the half that judges.
Scored = list[tuple[float, Candidate]]


class OptimizerInputs:
    """One half of train teaches, the other judges; both are examples that hold whole documents."""

    def __init__(
        self,
        *,
        evaluator: Evaluator,
        propose: Propose,
        train: Items,
        dev: Items,
        level: Level,
        plan: Plan,
    ) -> None:
        self.evaluator, self.plan, self._propose = evaluator, plan, propose
        self.seed = Candidate(instruction=Instruction(text=evaluator.seed.instruction))
        documents = list(train.documents)
        stream(plan.seed, "stock").shuffle(documents)
        half = max(1, len(documents) // 2)
        self.lessons = train.of_documents(documents[:half])
        self.race = train.of_documents(documents[half:])
        self.learn, self.value = examples(self.lessons, level), examples(self.race, level)
        texts = (text for item in (*train.items, *dev.items) for text in item.texts.values())
        self._guard = TextGuard(texts)
        self._known = [evaluator.seed.instruction]
        self.n_proposed = self.barren = 0
        most = max(plan.demo_sizes)
        self.shared = Shared(
            evaluator, lent=max(1, most // max(1, len(self.learn))), longest=plan.longest_demos
        )

    def program(self) -> GroupJudge:
        return GroupJudge(self.shared)

    def evaluations(self) -> int:
        """How many candidates the budget can score on all documents that judge."""
        once = max(1, self.evaluator.cost(self.seed, self.race))
        return max(1, self.evaluator.budget.left // once)

    def proposed(self, current: str, lines: Sequence[str], number: int) -> list[str]:
        """New instructions that may be tried; a rejected one is only counted."""
        try:
            self.evaluator.budget.spend(self.evaluator.proposal * len(lines))
            texts = self._propose(current, lines, [], number)
        except (SearchBudgetSpentError, BudgetSpentError):
            self.shared.spent = True
            return []
        fresh: list[str] = []
        for text in texts:
            self.n_proposed += 1
            if isinstance(text, str) and not fault(text, self._guard, self._known):
                self._known.append(text)
                fresh.append(text)
        self.barren = 0 if fresh else self.barren + 1
        return fresh

    def mistakes(self, number: int) -> list[str]:
        """What the seed misplaces, on so many draws of half the documents that teach."""
        items = self.lessons
        scores = self.evaluator.scores(self.seed, items)
        documents = list(items.documents)
        made = []
        for draw in range(number):
            order = stream(self.plan.seed, "stock lesson", draw).permutation(len(documents))
            names = {documents[index] for index in order[: max(1, len(documents) // 2)]}
            rows = [row for row, item in enumerate(items.items) if item.document_id in names]
            part = Items(tuple(items.items[row] for row in rows))
            made.append(mistakes(scores[rows], part, self.evaluator.seed))
        return made

    def demo_sets(self, number: int) -> list[DemoSet]:
        """So many sets of our own search's kinds; all documents that teach may be shown."""
        items = usable(self.lessons, self.evaluator.seed)
        lessons = Lessons(
            items=items,
            scores=self.evaluator.scores(self.seed, items),
            prompt=self.evaluator.seed,
            comments=self.evaluator.comments(self.seed),
        )
        plan, rng = self.plan, stream(self.plan.seed, "demos", 1)
        drawn = demo_sets(lessons, plan.demo_sizes, plan.longest_demos, rng, share=1.0)
        return [next(drawn) for _ in range(number)]

    def scored(self, programs: Iterable[tuple[float, Any]]) -> Scored:
        """The candidates that these programs hold."""
        return [(value, candidate_of(one.judge, self.shared)) for value, one in programs]


def nobody() -> Any:
    """DSPy wants a model to be named; judging and proposing go through the bench."""

    class Nobody:
        def complete(self, request: Any) -> Any:
            raise RuntimeError("the stock optimizer asked a model behind the budget's back")

    return dspy.LM("nobody/none", engine=Nobody(), cache=False, num_retries=0)


# A bootstrapped demonstration comes from an example that the judge ranks about this well.
RANKED_WELL = 0.3
MOST_PROGRAMS = 200


def search_bootstrap(given: OptimizerInputs) -> Scored:
    """As many draws as the budget can score; an example bootstraps one output or lends several."""
    number = len(given.learn)
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric,
        metric_threshold=RANKED_WELL,
        max_bootstrapped_demos=max(1, number // 2),
        max_labeled_demos=number,
        # It scores three more: the seed, labels alone, and the examples in order.
        num_candidate_programs=min(MOST_PROGRAMS, max(1, given.evaluations() - 3)),
        num_threads=1,
        max_errors=10**6,
    )
    program = optimizer.compile(given.program(), trainset=given.learn, valset=given.value)
    return given.scored((one["score"] / 100, one["program"]) for one in program.candidate_programs)


MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
BARREN = 25


def search_gepa(given: OptimizerInputs) -> Scored:
    """Until the budget ends, or the proposer has nothing new to say."""
    evaluator = given.evaluator

    def judged(
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

    def proposer(
        candidate: dict[str, str],
        reflective_dataset: dict[str, list[dict[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        nonlocal rounds
        rounds += 1
        new = dict(candidate)
        for name in components_to_update:
            told = dict.fromkeys(
                line
                for record in reflective_dataset[name]
                for line in str(record["Feedback"]).splitlines()
            )
            shown = "\n".join(list(told)[:MISTAKES_SHOWN])
            proposed = given.proposed(candidate[name], [shown], rounds)
            new[name] = proposed[0] if proposed else candidate[name]
        return {name: new[name] for name in components_to_update}

    # What the next iteration needs: a proposal and a minibatch.
    sizes = sorted((len(one["items"]) for one in given.learn), reverse=True)
    least = evaluator.proposal + sum(sizes[:MINIBATCH])

    def spent(state: Any) -> bool:
        return given.barren >= BARREN or given.shared.spent or evaluator.budget.left < least

    optimizer = dspy.GEPA(
        metric=judged,
        max_metric_calls=evaluator.budget.left,
        instruction_proposer=proposer,
        reflection_lm=nobody(),
        reflection_minibatch_size=min(MINIBATCH, len(given.learn)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=given.plan.seed,
        gepa_kwargs={"stop_callbacks": spent},
    )
    program = optimizer.compile(given.program(), trainset=given.learn, valset=given.value)
    results = program.detailed_results
    return given.scored(zip(results.val_aggregate_scores, results.candidates, strict=True))


MOST_TRIALS = 200
# DSPy's own "heavy" setting searches eighteen of each, for which it needs the calls.
HEAVY, ENOUGH_FOR_HEAVY = 18, 60


def search_mipro(given: OptimizerInputs) -> Scored:
    """Every trial is a full evaluation; what the bench has scored before is free."""
    usual = given.plan.proposals + given.plan.demo_sets
    number = max(usual, HEAVY) if given.evaluations() >= ENOUGH_FOR_HEAVY else usual

    class Mipro(dspy.MIPROv2):  # type: ignore[misc]
        """MIPROv2 with our proposer and demonstration pool, so that only the search differs."""

        def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[Any]]:
            sets = given.demo_sets(number)
            return {0: [[], *([dspy.Example(**demo) for demo in one.demos] for one in sets)]}

        def _propose_instructions(self, *_: Any, **__: Any) -> dict[int, list[str]]:
            seed = given.evaluator.seed.instruction
            return {0: [seed, *given.proposed(seed, given.mistakes(number), 1)]}

    lm = nobody()
    optimizer = Mipro(
        metric=metric,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=number,
        num_threads=1,
        max_errors=10**6,
        # DSPy takes a seed of 0 for none.
        seed=given.plan.seed + 1,
    )
    program = optimizer.compile(
        given.program(),
        trainset=given.learn,
        valset=given.value,
        num_trials=min(MOST_TRIALS, 2 * given.evaluations()),
        # DSPy fails once every combination it met on minibatches has had its full evaluation.
        minibatch=False,
    )
    return given.scored((one["score"] / 100, one["program"]) for one in program.candidate_programs)


SEARCHES: Mapping[str, Callable[[OptimizerInputs], Scored]] = {
    "gepa": search_gepa,
    "miprov2": search_mipro,
    "bootstrap": search_bootstrap,
}


def stock_search(
    optimizer: str,
    *,
    evaluator: Evaluator,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: Plan,
    record: Callable[[Record], None],
) -> Found:
    """Search within a budget of its own; what the optimizer leaves is dev's as well."""
    trials = TrialRecorder(evaluator, record)
    budget = evaluator.budget
    reserve = min((1 + plan.finalists) * evaluator.price(dev), budget.left // 2)
    evaluator.budget = Budget(budget.left - reserve)
    budget.hold(reserve)
    given = OptimizerInputs(
        evaluator=evaluator, propose=propose, train=train, dev=dev, level=level, plan=plan
    )
    found: Scored = []
    # Where the calls do not even reach for the seed's lessons, there is nothing to choose from.
    with _quietly(), contextlib.suppress(SearchBudgetSpentError, BudgetSpentError):
        found = in_order(SEARCHES[optimizer](given)) if given.learn and given.value else []
    given.shared.raise_stopped()
    budget.hold(0)
    budget.spent += evaluator.budget.spent
    evaluator.budget = budget
    for rho, candidate in found:
        trials.stock(candidate, rho)
    base = next((rho for rho, one in found if one.id == given.seed.id), 0.0)
    better = [one for rho, one in found if one.id != given.seed.id and rho > base]
    finalists = better[: plan.finalists]
    # None of theirs shows dev: each judges it itself.
    cross_fit = CrossFit(Items(()), evaluator.seed, plan)
    n_tried = len(given.shared.tried)
    best, choice = given.seed, undecided(n_tried)
    with contextlib.suppress(BudgetSpentError):
        on_dev = score_both(
            evaluator=evaluator,
            cross_fit=cross_fit,
            seed=given.seed,
            candidates=finalists,
            items=dev,
            level=level,
            unshown=frozenset(),
            seen=partial(trials.compared, "dev"),
        )
        choice = decide(on_dev, {}, level, n_tried, stream(plan.seed, "gate"))
        best = given.seed if choice.best is None else finalists[choice.best]
    return Found(
        tuned=best,
        cross_fit=cross_fit,
        choice=choice,
        n_tried=n_tried,
        n_proposed=given.n_proposed,
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
