"""DSPy's own optimizers on the exact objective, with our budget, journal, proposer and gate."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dspy

from optimize.search.bench import Bench, Budget, OutOfCallsError
from optimize.search.candidates import Candidate, Instruction, TextGuard, fault
from optimize.search.chance import stream
from optimize.search.decision import compare, decide
from optimize.search.demos import Lessons, demo_sets, usable
from optimize.search.entrants import Plan, Propose
from optimize.search.items import Items
from optimize.search.loop import Found, Record, Trials
from optimize.search.objective import Level
from optimize.search.proposals import mistakes
from optimize.search.stock_program import (
    GroupJudge,
    Shared,
    candidate_of,
    examples,
    in_order,
    metric,
    score,
)

Scored = list[tuple[float, Candidate]]

MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
BARREN = 25
# A bootstrapped demonstration comes from an example that the judge ranks about this well.
RANKED_WELL = 0.3


class StockSearch:
    """One of DSPy's optimizers on train; its best candidates go to dev and the gate like any."""

    def __init__(
        self,
        optimizer: str,
        *,
        bench: Bench,
        propose: Propose,
        train: Items,
        dev: Items,
        level: Level,
        plan: Plan,
        record: Callable[[Record], None],
    ) -> None:
        self.bench, self.level, self.plan, self.dev = bench, level, plan, dev
        self.propose, self.optimizer = propose, optimizer
        self.seed = Candidate(instruction=Instruction(text=bench.seed.instruction))
        self.trials = Trials(bench, record)
        documents = list(train.documents)
        stream(plan.seed, "stock").shuffle(documents)
        half = max(1, len(documents) // 2)
        self.lessons = train.of_documents(documents[:half])
        self.race = train.of_documents(documents[half:])
        texts = (text for item in (*train.items, *dev.items) for text in item.texts.values())
        self.guard = TextGuard(texts)
        self.known = [bench.seed.instruction]
        self.n_proposed = self._barren = 0
        self.shared = Shared(bench)

    def run(self) -> Found:
        budget = self.bench.budget
        reserve = min((1 + self.plan.finalists) * self.bench.price(self.dev), budget.left // 2)
        # The optimizer sees a budget of its own; what it leaves is dev's as well.
        self.bench.budget = Budget(budget.left - reserve)
        learn, value = examples(self.lessons, self.level), examples(self.race, self.level)
        search = {"gepa": self._gepa, "miprov2": self._mipro, "bootstrap": self._bootstrap}
        found: Scored = []
        # Where the calls do not even reach for the seed's lessons, there is nothing to choose from.
        with _quietly(), contextlib.suppress(OutOfCallsError):
            found = in_order(search[self.optimizer](learn, value)) if learn and value else []
        budget.spent += self.bench.budget.spent
        self.bench.budget = budget
        for rho, candidate in found:
            self.trials.stock(candidate, rho)
        base = next((rho for rho, one in found if one.id == self.seed.id), 0.0)
        better = [one for rho, one in found if one.id != self.seed.id and rho > base]
        finalists = better[: self.plan.finalists]
        compared = compare(
            bench=self.bench,
            seed=self.seed,
            candidates=finalists,
            dev=self.dev,
            level=self.level,
            unshown=frozenset(),
            seen=self.trials.met_dev,
        )
        n_tried = len(self.shared.tried)
        choice = decide(compared, None, n_tried, stream(self.plan.seed, "gate"))
        return Found(
            tuned=self.seed if choice.best is None else finalists[choice.best],
            choice=choice,
            n_tried=n_tried,
            n_proposed=self.n_proposed,
            calls=budget.spent,
        )

    # What the optimizers share.

    def _proposed(self, current: str, lines: Sequence[str], number: int) -> list[str]:
        """New instructions that may be tried; a rejected one is only counted."""
        try:
            self.bench.budget.spend(self.bench.proposal * len(lines))
        except OutOfCallsError:
            self.shared.spent = True
            return []
        fresh: list[str] = []
        for text in self.propose(current, lines, [], number):
            self.n_proposed += 1
            if text is not None and not fault(text, self.guard, self.known):
                self.known.append(text)
                fresh.append(text)
        self._barren = 0 if fresh else self._barren + 1
        return fresh

    def _lessons(self) -> Lessons:
        items = usable(self.lessons, self.bench.seed)
        return Lessons(
            items=items,
            scores=self.bench.scores(self.seed, items),
            prompt=self.bench.seed,
            comments=self.bench.comments(self.seed),
        )

    def _mistakes(self, number: int) -> list[str]:
        items = self.lessons
        scores = self.bench.scores(self.seed, items)
        documents = list(items.documents)
        made = []
        for draw in range(number):
            order = stream(self.plan.seed, "stock lesson", draw).permutation(len(documents))
            names = {documents[index] for index in order[: max(1, len(documents) // 2)]}
            rows = [row for row, item in enumerate(items.items) if item.document_id in names]
            part = Items(tuple(items.items[row] for row in rows))
            made.append(mistakes(scores[rows], part, self.bench.seed))
        return made

    def _evaluations(self, value: Sequence[Any]) -> int:
        """How many candidates the budget can score on all of `value`."""
        once = max(1, self.bench.cost(self.seed, self.race))
        return max(1, self.bench.budget.left // once)

    # The optimizers.

    def _bootstrap(self, learn: list[Any], value: list[Any]) -> Scored:
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=metric,
            metric_threshold=RANKED_WELL,
            max_bootstrapped_demos=max(self.plan.demo_sizes) // 2,
            max_labeled_demos=max(self.plan.demo_sizes),
            num_candidate_programs=min(40, max(1, self._evaluations(value) - 3)),
            num_threads=1,
            max_errors=10**6,
        )
        program = optimizer.compile(GroupJudge(self.shared), trainset=learn, valset=value)
        return [
            (one["score"] / 100, candidate_of(one["program"].judge, self.bench.seed))
            for one in program.candidate_programs
        ]

    def _mipro(self, learn: list[Any], value: list[Any]) -> Scored:
        search = self
        number = self.plan.proposals + self.plan.demo_sets

        class Mipro(dspy.MIPROv2):  # type: ignore[misc]
            """MIPROv2 with our proposer and demonstration pool, so that only the search differs."""

            def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[Any]]:
                plan = search.plan
                rng = stream(plan.seed, "demos", 1)
                drawn = demo_sets(search._lessons(), plan.demo_sizes, plan.longest_demos, rng)
                sets = [next(drawn) for _ in range(number)]
                return {0: [[], *([dspy.Example(**demo) for demo in one.demos] for one in sets)]}

            def _propose_instructions(self, *_: Any, **__: Any) -> dict[int, list[str]]:
                seed = search.bench.seed.instruction
                return {0: [seed, *search._proposed(seed, search._mistakes(number), 1)]}

        lm = _never_asked()
        optimizer = Mipro(
            metric=metric,
            prompt_model=lm,
            task_model=lm,
            auto=None,
            num_candidates=number,
            num_threads=1,
            max_errors=10**6,
            # DSPy takes a seed of 0 for none.
            seed=self.plan.seed + 1,
        )
        program = optimizer.compile(
            GroupJudge(self.shared),
            trainset=learn,
            valset=value,
            num_trials=min(100, 2 * self._evaluations(value)),
            # DSPy fails once every combination it met on minibatches has had its full evaluation;
            # and what the bench has scored before is free.
            minibatch=False,
        )
        return [
            (one["score"] / 100, candidate_of(one["program"].judge, self.bench.seed))
            for one in program.candidate_programs
        ]

    def _gepa(self, learn: list[Any], value: list[Any]) -> Scored:
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
            feedback = mistakes(pred.scores, gold["items"], self.bench.seed)
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
                proposed = self._proposed(candidate[name], ["\n".join(list(told)[:8])], rounds)
                new[name] = proposed[0] if proposed else candidate[name]
            return {name: new[name] for name in components_to_update}

        def spent(state: Any) -> bool:
            barren = self._barren >= BARREN
            return barren or self.shared.spent or self.bench.budget.left < self._least(learn)

        optimizer = dspy.GEPA(
            metric=judged,
            max_metric_calls=self.bench.budget.left,
            instruction_proposer=proposer,
            reflection_lm=_never_asked(),
            reflection_minibatch_size=min(MINIBATCH, len(learn)),
            skip_perfect_score=False,
            num_threads=1,
            track_stats=True,
            seed=self.plan.seed,
            gepa_kwargs={"stop_callbacks": spent},
        )
        results = optimizer.compile(
            GroupJudge(self.shared), trainset=learn, valset=value
        ).detailed_results
        return [
            (rho, candidate_of(program.judge, self.bench.seed))
            for rho, program in zip(results.val_aggregate_scores, results.candidates, strict=True)
        ]

    def _least(self, learn: Sequence[Any]) -> int:
        """Calls that the next iteration needs: a proposal and a minibatch."""
        sizes = sorted((len(one["items"]) for one in learn), reverse=True)
        return 1 + sum(sizes[:MINIBATCH])


def _never_asked() -> Any:
    """DSPy wants a model to be named; judging and proposing go through the bench."""

    class Nobody:
        def complete(self, request: Any) -> Any:
            raise RuntimeError("the stock optimizer asked a model behind the budget's back")

    return dspy.LM("nobody/none", engine=Nobody(), cache=False, num_retries=0)


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
