"""The rank search: propose instructions and demonstrations, race them on train, choose on dev.

The same seed, items and replies make the same trials, whatever was journalled before.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from judges.inference.budget import BudgetSpentError
from optimize.items import Items
from optimize.search.candidates import Candidate, Instruction
from optimize.search.finalists import (
    SYSTEMS_FOR_HOLDING_OUT,
    CrossFit,
    FinalistScores,
    SearchResult,
    choose_finalist,
    score_with_seed,
)
from optimize.search.gate import Choice, undecided
from optimize.search.generator import (
    CandidateGenerator,
    SearchState,
    next_candidates,
)
from optimize.search.objective import informative_documents
from optimize.search.problem import SearchProblem
from optimize.search.race import (
    ELIMINATION_ERRORS,
    FEWEST_DOCUMENTS,
    RaceCosts,
    RaceSetup,
    compare_with_seed,
    race,
)
from optimize.statistics.bootstrap import stream

# Rounds that share what is left of the budget: later ones build on better parents.
ROUNDS_SAVED_FOR = 3
# A race worth having: so many run on half of train.
DECENT_FIELD = 6
# So many documents of dev tell finalists apart: a race comes before the rest of them.
DOCUMENTS_TO_CHOOSE_ON = 100
# The seed runs first, since its mistakes are the first lessons, on so much of a round's calls.
SEEDS_SHARE = 0.25


class RankSearch:
    """One search: `explore()` finds finalists on train, `choose_on_dev()` takes them to dev."""

    def __init__(self, problem: SearchProblem) -> None:
        evaluator, train, dev, plan = problem.evaluator, problem.train, problem.dev, problem.plan
        self.problem, self.evaluator, self.plan = problem, evaluator, plan
        self.seed, self.trials = problem.seed, problem.trials
        self.state = SearchState(instructions=[self.seed.instruction])
        self.setup = _race_setup(problem)
        self.systems_without_demos = systems_without_demos(train, plan.seed)
        self.generator = CandidateGenerator(
            evaluator=evaluator,
            propose=problem.propose,
            teaching=train.without_systems(self.systems_without_demos),
            guard=problem.guard,
            plan=plan,
        )
        self.cross_fit = CrossFit(problem.labelled, evaluator.seed, plan)
        largest = self.cross_fit.all_demos if self.cross_fit.possible else self.generator.largest()
        self._all_demos = Candidate(instruction=self.seed.instruction, demo_set=largest)
        # The final gets its share first: a race without one tells nothing. Where the calls reach
        # for one finalist alone there is no race: everything goes to dev. Of a large dev they meet
        # as many documents as the calls reach for.
        dev_part = dev.of_documents(dev.documents[:DOCUMENTS_TO_CHOOSE_ON])
        dev_cost, half_budget = max(1, evaluator.price(dev_part)), evaluator.budget.left // 2
        self.n_finalists = max(1, min(plan.finalists, half_budget // dev_cost - 1))
        train_cost = 2 * evaluator.price(train) if self.cross_fit.possible else 0
        final_cost = (1 + self.n_finalists) * evaluator.price(dev) + train_cost
        self._dev_calls = (
            min(final_cost, half_budget) if self.n_finalists > 1 else evaluator.budget.left
        )

    def explore(self) -> None:
        """Propose and race, round after round, until nothing better comes or the budget ends."""
        if self.n_finalists == 1 and self._all_demos.demo_set.demos:
            return
        self.evaluator.budget.hold(self._dev_calls)
        # Retries and fresh asks come on top of what was planned; what is held for dev is left.
        with suppress(BudgetSpentError):
            self._rounds()
        self.evaluator.budget.hold(0)

    def _rounds(self) -> None:
        idle = 0
        for number in range(1, self.plan.rounds + 1):
            before = self._parent().id
            if not self._round(number):
                break
            idle = idle + 1 if self._parent().id == before else 0
            if idle == self.plan.patience:
                break

    def _left(self) -> int:
        return self.evaluator.budget.left - self._dev_calls

    def _parent(self) -> Candidate:
        return next(iter(self.state.gaining()), self.seed)

    def _share(self, number: int) -> int:
        """Calls for this round: the rounds to come keep theirs, if they can do much with them."""
        decent = DECENT_FIELD * self.evaluator.price(self.setup.items) // 2
        rounds = min(ROUNDS_SAVED_FOR, self.plan.rounds - number + 1, self._left() // decent)
        return self._left() // max(1, rounds)

    def _round(self, number: int) -> bool:
        """Propose, show, race; False where the budget does not allow it."""
        evaluator, state, track = self.evaluator, self.state, self.setup
        leaders = state.gaining()[:2]
        parent = self._parent()
        spent_at_end = evaluator.budget.spent + self._share(number)
        if not self._score_seed(int(SEEDS_SHARE * self._share(number))):
            return False
        demo_sets = self.generator.demo_sets(number, parent, state)
        # Demonstrations first: an instruction that answers mistakes had better answer those that
        # are left when people's own ratings have been shown.
        instructions = self._instructions(number, parent) if number > 1 or not demo_sets else []
        candidates = next_candidates(parent, instructions, demo_sets, state)
        if not candidates:
            return False
        results = race(
            evaluator,
            track,
            [*leaders, *candidates],
            spent_at_end - evaluator.budget.spent,
            lambda rung, result: self.trials.raced(number, rung, result),
        )
        for race_result in results:
            state.race_results[race_result.candidate.id] = race_result
            state.tried[race_result.candidate.id] = race_result.candidate
        return bool(results)

    def _instructions(self, number: int, parent: Candidate) -> list[Instruction]:
        if self._left() < self.evaluator.proposal * self.plan.proposals:
            return []
        return self.generator.instructions(
            number,
            parent,
            self.state,
            lambda text, reason: self.trials.write(
                "rejected", number, instruction=text, why=reason
            ),
        )

    def _score_seed(self, calls: int) -> bool:
        """Run the seed as far as these calls reach; False where that is not far enough to race."""
        longest = len(self.setup.order)
        costs = RaceCosts(self.evaluator, self.setup, [])
        size = max((n for n in range(longest + 1) if costs.seed(n) <= calls), default=0)
        if size < min(FEWEST_DOCUMENTS, longest):
            return False
        compare_with_seed(self.evaluator, self.setup, self.seed, size)
        return True

    def finalists(self) -> list[Candidate]:
        """What shows the most, then the leaders, with all that may teach if that can be shown.

        Where everything can be shown, a part of it is no finalist: what a race takes for the better
        part is mostly luck, and more documents teach more.
        """
        leaders = self.state.gaining()[: self.n_finalists]
        finalists = (
            [self._all_demos] if self._all_demos.demo_set.demos and self._may_show_all() else []
        )
        if finalists and self.cross_fit.possible:
            finalists += [
                replace(self._all_demos, instruction=candidate.instruction) for candidate in leaders
            ]
            leaders = [candidate for candidate in leaders if not candidate.demo_set.demos]
        finalists += leaders
        return list({candidate.id: candidate for candidate in finalists}.values())[
            : self.n_finalists
        ]

    def _may_show_all(self) -> bool:
        """Unless every large set that raced was clearly worse than the seed."""
        largest_size = str(max(self.plan.demo_sizes))
        results = [
            result
            for result in self.state.race_results.values()
            if result.candidate.demo_set.kind.endswith(largest_size)
            and not result.candidate.instruction.round
        ]
        return not results or any(
            result.gain + ELIMINATION_ERRORS * result.error >= 0 for result in results
        )

    def choose_on_dev(self) -> SearchResult:
        """Compare the finalists on dev, and let the gate choose."""
        finalists = self.finalists()
        on_dev = self._score_with_seed(finalists, "dev", self.problem.dev)
        on_train = {}
        if self.cross_fit.possible and self._all_demos in finalists:
            # Neither its words nor its demonstrations were chosen by train, which may judge it too.
            (on_train_scores,) = self._score_with_seed(
                [self._all_demos], "train", self.problem.train
            )
            on_train = {finalists.index(self._all_demos): on_train_scores}
        rng = stream(self.plan.seed, "gate")
        n_tried = len({*self.state.tried, *(candidate.id for candidate in finalists)})
        choice = choose_finalist(on_dev, on_train, self.setup.level, n_tried, rng)
        tuned = self.seed if choice.best is None else finalists[choice.best]
        return self._result(tuned, choice, n_tried)

    def without_choice(self) -> SearchResult:
        """What the search ends with where the budget ends before the choice."""
        n_tried = len(self.state.tried)
        return self._result(self.seed, undecided(n_tried), n_tried)

    def _result(self, tuned: Candidate, choice: Choice, n_tried: int) -> SearchResult:
        return SearchResult(
            tuned=tuned,
            cross_fit=self.cross_fit,
            choice=choice,
            n_tried=n_tried,
            n_proposed=self.state.n_proposed,
            calls=self.evaluator.budget.spent,
        )

    def _score_with_seed(
        self, candidates: Sequence[Candidate], split: str, items: Items
    ) -> list[FinalistScores]:
        return score_with_seed(
            self.problem,
            self.cross_fit,
            candidates,
            items,
            split=split,
            systems_without_demos=self.systems_without_demos,
        )


def rank_search(problem: SearchProblem) -> SearchResult:
    """Search on train, choose on dev."""
    search = RankSearch(problem)
    search.explore()
    try:
        return search.choose_on_dev()
    except BudgetSpentError:
        return search.without_choice()


def systems_without_demos(train: Items, seed: int) -> frozenset[str]:
    """A quarter of the systems is never shown, so that dev can tell whether a gain carries over."""
    systems = train.systems
    if len(systems) < SYSTEMS_FOR_HOLDING_OUT:
        return frozenset()
    drawn = stream(seed, "systems").permutation(len(systems))[: max(2, len(systems) // 4)]
    return frozenset(systems[index] for index in drawn)


def _race_setup(problem: SearchProblem) -> RaceSetup:
    documents = informative_documents(problem.train, problem.level)
    order = stream(problem.plan.seed, "order").permutation(len(documents))
    return RaceSetup(
        items=problem.train,
        order=tuple(documents[index] for index in order),
        level=problem.level,
        seed=problem.seed,
    )
