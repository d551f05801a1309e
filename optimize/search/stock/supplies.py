"""What DSPy's optimizers are given alike: budget, proposals, demonstrations, halves of train."""

from collections.abc import Iterable, Sequence
from typing import Any

import dspy

from judges.engine.ledger import BudgetSpentError
from optimize.search.bench import Bench, OutOfCallsError
from optimize.search.candidates import Candidate, DemoSet, Instruction, TextGuard, fault
from optimize.search.chance import stream
from optimize.search.demos import Lessons, demo_sets, usable
from optimize.search.entrants import Plan, Propose
from optimize.search.items import Items
from optimize.search.objective import Level
from optimize.search.proposals import mistakes
from optimize.search.stock.program import GroupJudge, Shared, candidate_of, examples

# Candidates with the objective each reached on the half that judges.
Scored = list[tuple[float, Candidate]]


class Supplies:
    """One half of train teaches, the other judges; both are examples that hold whole documents."""

    def __init__(
        self, *, bench: Bench, propose: Propose, train: Items, dev: Items, level: Level, plan: Plan
    ) -> None:
        self.bench, self.plan, self._propose = bench, plan, propose
        self.seed = Candidate(instruction=Instruction(text=bench.seed.instruction))
        documents = list(train.documents)
        stream(plan.seed, "stock").shuffle(documents)
        half = max(1, len(documents) // 2)
        self.lessons = train.of_documents(documents[:half])
        self.race = train.of_documents(documents[half:])
        self.learn, self.value = examples(self.lessons, level), examples(self.race, level)
        texts = (text for item in (*train.items, *dev.items) for text in item.texts.values())
        self._guard = TextGuard(texts)
        self._known = [bench.seed.instruction]
        self.n_proposed = self.barren = 0
        most = max(plan.demo_sizes)
        self.shared = Shared(
            bench, lent=max(1, most // max(1, len(self.learn))), longest=plan.longest_demos
        )

    def program(self) -> GroupJudge:
        return GroupJudge(self.shared)

    def evaluations(self) -> int:
        """How many candidates the budget can score on all documents that judge."""
        once = max(1, self.bench.cost(self.seed, self.race))
        return max(1, self.bench.budget.left // once)

    def proposed(self, current: str, lines: Sequence[str], number: int) -> list[str]:
        """New instructions that may be tried; a rejected one is only counted."""
        try:
            self.bench.budget.spend(self.bench.proposal * len(lines))
            texts = self._propose(current, lines, [], number)
        except (OutOfCallsError, BudgetSpentError):
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

    def demo_sets(self, number: int) -> list[DemoSet]:
        """So many sets of our own search's kinds; all documents that teach may be shown."""
        items = usable(self.lessons, self.bench.seed)
        lessons = Lessons(
            items=items,
            scores=self.bench.scores(self.seed, items),
            prompt=self.bench.seed,
            comments=self.bench.comments(self.seed),
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
