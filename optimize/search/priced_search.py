"""The rank search where calls cost money: what is paid for with every row has to earn its keep.

Its rounds are planned by what the labels cost to judge, each worth twice the one before. The limit
only says how many of them are run: a larger one extends what a smaller one has done. Instructions
and forms of reasoning race without demonstrations, since they cost least; demonstrations race among
themselves, few before many.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

from judges.inference.budget import BudgetSpentError
from judges.prompt import Reasoning
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.demos import demonstrable_items
from optimize.search.evaluator import SearchBudgetSpentError
from optimize.search.finalists import Exploration, affordable_part
from optimize.search.objective import Level, contrast, informative_documents
from optimize.search.problem import SearchOptions, SearchProblem
from optimize.search.race import ELIMINATION_ERRORS, RaceCosts
from optimize.search.rank_search import (
    DOCUMENTS_TO_CHOOSE_ON,
    LEADERS_RACED_ON,
    RankSearch,
    race_order,
)
from optimize.search.reasons import ReasonSource
from optimize.statistics.difference import Contrast

# What the first round may cost: so many times judging at most so many documents of train by the
# seed.
FIRST_ROUND_COST, MAX_RACE_DOCUMENTS = 5.0, 48
# No candidate is out before it has met so many documents, or half of those that it could meet.
MIN_RACE_DOCUMENTS = 20
# Of a round so much has to be affordable, or it is not begun; and so much of it races, whatever
# proposals have cost.
MIN_ROUND_SHARE, MIN_RACE_SHARE = 0.15, 0.5
# The round in which forms of reasoning are compared, on the best instructions of the first.
REASONING_ROUND, INSTRUCTIONS_PER_REASONING = 2, 2
# What costs more than so many times the seed races by itself, with this share of the round.
EXPENSIVE_FACTOR, EXPENSIVE_SHARE = 4.0, 0.5
# Demonstrations race from the third round on: two sets, of these sizes there; later as many as
# the best so far shows, and twice as many.
FIRST_DEMO_SIZES, DEMO_SETS = (4, 8), 2
MAX_CROSSES = 6
# Dev gets at most half of the limit; of more documents than suffice, a quarter.
DEV_SHARE, LARGE_DEV_SHARE = 0.5, 0.25
# As many finalists as a share of the limit pays for, within bounds: of several that are alike
# the gate asks hardly more than of one, and sees more. A finalist costs about so many times the
# seed.
MIN_FINALISTS, MAX_FINALISTS, FINALISTS_SHARE, FINALIST_COST = 2, 8, 0.4, 1.2
# So many of the finalists after each round are among those at the end.
FINALISTS_OF_ROUND = 2


def explore(problem: SearchProblem) -> Exploration:
    """Propose and race, round after round, until nothing better comes or the budget ends."""
    kind = RankSearch if problem.evaluator.pricing is None else PricedSearch
    return kind(problem).explore()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How a search divides what it may spend, before any candidate is scored.

    `dev` is the part of dev to choose on, and `dev_item_cost` what scoring one of its items with
    the seed and `n_finalists` is taken to cost. `first_round` is what the first round may cost.
    """

    dev: Items
    n_finalists: int
    dev_item_cost: float
    first_round: float

    @property
    def dev_cost(self) -> float:
        return self.dev_item_cost * len(self.dev)

    def round_budget(self, number: int, left: float) -> float:
        """Twice the round before, or what is left of the limit; 0 where that is hardly any."""
        planned = self.first_round * 2 ** (number - 1)
        return 0.0 if left < MIN_ROUND_SHARE * planned else min(planned, left)

    @staticmethod
    def compares_reasoning(number: int, options: SearchOptions) -> bool:
        """Whether a round compares forms of reasoning, and proposes nothing."""
        return number == REASONING_ROUND and bool(options.reasoning)

    @staticmethod
    def demo_sizes(number: int, n_best: int = 0) -> Sequence[int]:
        """How much the demonstration sets of a round show, where the best so far shows `n_best`."""
        if number <= REASONING_ROUND:
            return ()
        return (n_best, 2 * n_best) if n_best else FIRST_DEMO_SIZES


def plan_search(
    train: Items, dev: Items, level: Level, seed: int, limit: float, seed_cost: float
) -> SearchPlan:
    """Divide a limit, where an item costs so much with the seed judge.

    A larger limit leaves no less of dev to choose on.
    """
    names = list(dict.fromkeys((*informative_documents(dev, level), *dev.documents)))
    fewest_cost = seed_cost * (1 + MIN_FINALISTS * FINALIST_COST)

    def n_documents(share: float) -> int:
        """How many documents the seed and the fewest finalists can be scored on for a share."""
        part = affordable_part(dev, names, share * limit, lambda part: fewest_cost * len(part))
        return len(part.documents)

    n_dev = max(min(n_documents(DEV_SHARE), DOCUMENTS_TO_CHOOSE_ON), n_documents(LARGE_DEV_SHARE))
    dev_part = dev.of_documents(names[:n_dev])
    finalist_cost = FINALIST_COST * seed_cost * len(dev_part)
    affordable = int(FINALISTS_SHARE * limit / finalist_cost) if finalist_cost else 0
    n_finalists = min(MAX_FINALISTS, max(MIN_FINALISTS, affordable))
    raced = train.of_documents(race_order(train, level, seed)[:MAX_RACE_DOCUMENTS])
    return SearchPlan(
        dev=dev_part,
        n_finalists=n_finalists,
        dev_item_cost=seed_cost * (1 + n_finalists * FINALIST_COST),
        first_round=FIRST_ROUND_COST * seed_cost * len(raced),
    )


class PricedSearch(RankSearch):
    """A search in dollars, or in tokens where no price is known."""

    def _plan(self) -> None:
        problem, evaluator = self.problem, self.evaluator
        self.reasons = ReasonSource(problem)
        self.plan = plan_search(
            problem.train,
            problem.dev,
            problem.level,
            self.options.seed,
            evaluator.budget.left,
            evaluator.item_cost(self.seed),
        )
        self.round_finalists: list[Candidate] = []
        # The form of reasoning that has done best (None: the seed's own).
        self.best_reasoning: Reasoning | None = None
        fewest = min(MIN_RACE_DOCUMENTS, min(MAX_RACE_DOCUMENTS, len(self.race.order)) // 2)
        self.race = replace(self.race, fewest=fewest)

    def explore(self) -> Exploration:
        with suppress(BudgetSpentError, SearchBudgetSpentError):
            self._run_rounds()
        finalists, better = self._best_finalists(), self.state.candidates_above_seed()
        n_too_dear = sum(not self._is_affordable(candidate) for candidate in better)
        exploration = self._exploration(finalists, self.plan.dev)
        return replace(exploration, n_too_dear=n_too_dear)

    def _run_round(self, number: int) -> bool:
        """A round that leaves dev its share, and the finalists there would be after it."""
        with self.evaluator.budget.reserving(self._dev_cost()):
            is_worth_another = self._spend_round(number)
        if is_worth_another:
            self.round_finalists += self._best_finalists()[:FINALISTS_OF_ROUND]
        return is_worth_another

    def _dev_cost(self) -> float:
        """What scoring the seed and the finalists on dev costs, as far as these are known."""
        candidates = [self.seed, *self._best_finalists()]
        known = sum(self.evaluator.item_cost(candidate) for candidate in candidates)
        return max(known, self.plan.dev_item_cost) * len(self.plan.dev)

    def _spend_round(self, number: int) -> bool:
        """Compare forms of reasoning, or propose, show and race; False where nothing raced."""
        budget, spent_before = self.evaluator.budget, self.evaluator.budget.spent
        share, parent = self.plan.round_budget(number, budget.left), self._parent()
        if not share or not self._score_seed(share):
            return False
        if self.plan.compares_reasoning(number, self.options):
            self._compare_reasoning(number, share)
            return True
        leaders = self.state.candidates_above_seed()[:LEADERS_RACED_ON]
        instructions = self._propose_instructions(number, parent)
        sets = self._draw_sets(number, parent)
        candidates = self._next_candidates(number, parent, instructions, sets)
        expensive_cost = EXPENSIVE_FACTOR * self.evaluator.item_cost(self.seed)
        cheap, expensive = (
            [
                candidate
                for candidate in [*leaders, *candidates]
                if (self.evaluator.item_cost(candidate) > expensive_cost) == is_expensive
            ]
            for is_expensive in (False, True)
        )
        limit = max(share - (budget.spent - spent_before), min(MIN_RACE_SHARE * share, budget.left))
        spent_at_end = budget.spent + limit
        results = self._race(number, cheap, limit * (1 - EXPENSIVE_SHARE) if expensive else limit)
        results += self._race(number, expensive, spent_at_end - budget.spent) if expensive else []
        raced = {result.candidate.id for result in results}
        # Where nothing could be proposed, forms of reasoning and demonstrations may come yet.
        return not candidates or any(candidate.id in raced for candidate in candidates)

    def _compare_reasoning(self, number: int, limit: float) -> None:
        """Score the leaders with each form of reasoning, all on the same documents, and choose.

        Nobody is out before: what a form does shows on many documents, whatever the instruction.
        The dearest forms stand back where the limit does not pay for all.
        """
        leaders = self.state.candidates_above_seed()[:INSTRUCTIONS_PER_REASONING] or [self.seed]
        budget, spent_before = self.evaluator.budget, self.evaluator.budget.spent
        fewest = min(self.race.fewest, len(self.race.order))
        for leader in leaders:
            forms = [replace(leader, reasoning=form) for form in self._reasoning_to_compare()]
            forms = sorted(filter(self._is_affordable, forms), key=self.evaluator.item_cost)
            left = limit - (budget.spent - spent_before)
            while forms and self._affordable_documents([leader, *forms], left) < fewest:
                forms.pop()
            if not forms:
                break
            n_documents = self._affordable_documents([leader, *forms], left)
            documents = self.race.documents(leader, n_documents)
            self.evaluator.scores(leader, self.problem.train.of_documents(documents))
            for candidate in forms:
                result = self.race.compare_with_seed(candidate, n_documents)
                self.state.race_results[candidate.id] = result
                self._record(number, result)
        self.best_reasoning = self._choose_reasoning(leaders)

    def _reasoning_to_compare(self) -> list[Reasoning]:
        """The forms compared on the leaders; sub-questions are tried where steps have done best."""
        return [form for form in self.options.reasoning if form != "questions"]

    def _affordable_documents(self, candidates: Sequence[Candidate], limit: float) -> int:
        """How many documents of the race all of these can be scored on for so much."""
        costs = RaceCosts(self.race, candidates)
        sizes = range(len(self.race.order), 0, -1)
        return next(
            (size for size in sizes if costs.cost_of_first(len(candidates), size) <= limit), 0
        )

    def _choose_reasoning(self, leaders: Sequence[Candidate]) -> Reasoning | None:
        """The form that gains most over the seed's own, unless one within an error is cheaper."""
        gaps: dict[Reasoning | None, tuple[float, float]] = {None: (0.0, 0.0)}
        for form in self._reasoning_to_compare():
            contrasts = [
                self._paired_gain(replace(leader, reasoning=form), leader) for leader in leaders
            ]
            contrasts = [gap for gap in contrasts if len(gap.documents) > 1]
            if contrasts:
                gaps[form] = (
                    sum(gap.value for gap in contrasts) / len(contrasts),
                    sum(gap.error for gap in contrasts) / len(contrasts) ** 1.5,
                )
        best = max(gaps, key=lambda form: gaps[form][0])
        value, error = gaps[best]
        within_error = [form for form in gaps if gaps[form][0] >= value - error]
        return min(
            within_error,
            key=lambda form: self.evaluator.item_cost(replace(leaders[0], reasoning=form)),
        )

    def _paired_gain(self, candidate: Candidate, other: Candidate) -> Contrast:
        """How much better a candidate is than another on what both have met of train."""
        known = self.evaluator.known(other, self.evaluator.known(candidate, self.problem.train))
        shown = candidate.documents | other.documents
        items = known.of_documents([name for name in known.documents if name not in shown])
        scores = [self.evaluator.known_scores(each, items) for each in (candidate, other)]
        return contrast(scores[0], scores[1], items, self.problem.level)

    def _draw_sets(self, number: int, parent: Candidate) -> list[DemoSet]:
        """Demonstration sets for this round: none before the third, nor where all have lost."""
        options, leaders = self.options, self.state.leaders()
        if not options.demo_sets:
            return []
        with_demos = [result for result in leaders if result.candidate.demo_set.demos]
        if with_demos:
            best = max(result.lower_gain for result in leaders)
            if all(result.gain + ELIMINATION_ERRORS * result.error < best for result in with_demos):
                return []
        n_best = len(with_demos[0].candidate.demo_set.demos) if with_demos else 0
        sizes = self.plan.demo_sizes(number, n_best)
        if not sizes or not len(demonstrable_items(self.demo_pool, self.evaluator.seed)):
            return []
        largest = max(options.demo_sizes)
        return self._draw_demo_sets(
            number, parent, sorted({min(size, largest) for size in sizes}), DEMO_SETS
        )

    def _next_candidates(
        self, number: int, parent: Candidate, instructions: Sequence[str], sets: Sequence[DemoSet]
    ) -> list[Candidate]:
        """Crosses of the leaders, then in turn new instructions, forms and demonstrations."""
        # An instruction has to show what it does without demonstrations.
        base = replace(parent, demo_set=DemoSet())
        with_instructions = [
            replace(
                base,
                instruction=instruction,
                anchors=self.instructions.anchors.get(instruction, base.anchors),
                round=number,
            )
            for instruction in instructions
        ]
        with_forms = [replace(parent, reasoning=form) for form in self._reasoning_to_try(parent)]
        with_demos = [replace(parent, demo_set=demo_set) for demo_set in sets]
        new = [
            candidate
            for group in zip_longest(with_instructions, with_forms, with_demos)
            for candidate in group
            if candidate is not None
        ]
        candidates = {
            candidate.id: candidate for candidate in [*self._crosses()[:MAX_CROSSES], base, *new]
        }
        leaders = [self.seed, *self.state.candidates_above_seed()]
        for name in self._worth_racing(candidates):
            candidates[name] = self.reasons.with_reasons(candidates[name], leaders)
        explained = {candidate.id: candidate for candidate in candidates.values()}
        return [explained[name] for name in self._worth_racing(explained)]

    def _worth_racing(self, candidates: Mapping[str, Candidate]) -> list[str]:
        """The ids of those that have not raced and are affordable."""
        tried = self.state.race_results.keys() | {self.seed.id}
        return [
            name
            for name, candidate in candidates.items()
            if name not in tried and self._is_affordable(candidate)
        ]

    def _is_affordable(self, candidate: Candidate) -> bool:
        """Whether an item costs no more than the limit pays for on dev and in the final table."""
        return self.evaluator.item_cost(candidate) <= self.options.max_item_cost

    def _reasoning_to_try(self, parent: Candidate) -> Sequence[Reasoning | None]:
        """The forms of reasoning to try with the parent: the best, and what steps are akin to."""
        forms: list[Reasoning | None] = [None, self.best_reasoning]
        if self.best_reasoning == "steps" and "questions" in self.options.reasoning:
            forms.append("questions")
        return [form for form in dict.fromkeys(forms) if form != parent.reasoning]

    def _crosses(self) -> list[Candidate]:
        """The parts of the leaders put together anew, the surest first."""
        leaders = self.state.candidates_above_seed()[:4]
        crosses = []
        for first in leaders:
            for second in leaders:
                crosses += [
                    replace(first, demo_set=second.demo_set),
                    replace(first, reasoning=second.reasoning),
                ]
        raced = self.state.race_results
        return list({cross.id: cross for cross in crosses if cross.id not in raced}.values())

    def _best_finalists(self) -> list[Candidate]:
        """The leader, what it is without what costs, and who comes next.

        Without its demonstrations, with the best form of reasoning and without any: what is paid
        for with every row has to show on dev what it is worth.
        """
        leaders = list(filter(self._is_affordable, self.state.candidates_above_seed()))
        if not leaders:
            return []
        within_error = [leader for leader in leaders if self._is_within_error(leaders[0], leader)]
        cheapest = min(within_error, key=self.evaluator.item_cost)
        instruction_alone = replace(leaders[0], demo_set=DemoSet(), reasoning=None)
        finalists = [
            leaders[0],
            cheapest,
            instruction_alone,
            replace(instruction_alone, reasoning=self.best_reasoning),
        ]
        # Those of the rounds before: what a smaller limit would have sent to dev is not lost.
        finalists += [*reversed(self.round_finalists), *leaders[1:]]
        by_id = {finalist.id: finalist for finalist in finalists}
        by_id.pop(self.seed.id, None)
        return list(filter(self._is_affordable, by_id.values()))[: self.plan.n_finalists]

    def _is_within_error(self, leader: Candidate, candidate: Candidate) -> bool:
        """Whether a candidate is within a standard error of the leader on what both have met."""
        gap = self._paired_gain(leader, candidate)
        return gap.value <= gap.error
