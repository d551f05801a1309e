"""The rank search: propose instructions and demonstrations, and race them on train.

The same seed, items and replies make the same trials, whatever was journalled before.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from judges.inference.budget import BudgetSpentError
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.demos import DemoSource, demo_sets, demonstrable_items, largest_demo_set
from optimize.search.finalists import SYSTEMS_FOR_HOLDING_OUT, CrossFit, Exploration
from optimize.search.objective import Level, informative_documents
from optimize.search.problem import SearchProblem
from optimize.search.proposals import InstructionSource
from optimize.search.race import ELIMINATION_ERRORS, FEWEST_DOCUMENTS, Race, RaceResult
from optimize.statistics.bootstrap import stream

# Rounds that share what is left of the budget: later ones build on better parents.
ROUNDS_SAVED_FOR = 3
# A race worth having: so many run on half of train.
CANDIDATES_WORTH_A_RACE = 6
# So many documents of dev tell finalists apart: a race comes before the rest of them.
DOCUMENTS_TO_CHOOSE_ON = 100
# The seed runs first, since its mistakes are the first lessons, on so much of a round's calls.
SEED_BUDGET_SHARE = 0.25
MISTAKE_DOCUMENTS = 10
MAX_RECOMBINED_LEADERS = 4
LEADERS_RACED_ON = 2
# Leaders have met so much of train, or of what their demonstrations left of it.
FINISHED_SHARE = 0.4
HISTORY_LENGTH = 5
# A kind of demonstrations met on so many documents is believed by half.
PRIOR_DOCUMENTS = 30
PROPOSED = "proposed, "
# How far the gains of two candidates of one kind lie apart: demonstrations alike in choice and
# size do about the same, proposed instructions differ widely.
DEMO_SPREAD, PROPOSED_SPREAD = 0.03, 0.08


@dataclass(slots=True, kw_only=True)
class SearchState:
    """What the rounds have made and learned so far."""

    demo_sets: list[DemoSet] = field(default_factory=list)
    race_results: dict[str, RaceResult] = field(default_factory=dict)
    n_drawn_kinds: int = 0

    def leaders(self) -> list[RaceResult]:
        """Those that went far in their race, the greatest likely gain first."""
        longest = max((result.n_documents for result in self.race_results.values()), default=0)
        finished = [
            result
            for result in self.race_results.values()
            if result.reliable and result.n_documents >= FINISHED_SHARE * longest
        ]
        gains = self.gains_by_kind()
        return sorted(
            finished, key=lambda result: (-expected_gain(result, gains), result.candidate.id)
        )

    def candidates_above_seed(self) -> list[Candidate]:
        return [result.candidate for result in self.leaders() if result.gain > 0]

    def gains_by_kind(self) -> dict[str, float]:
        """What each kind of candidate gains on average, towards nothing when seldom met."""
        results_of_kind: dict[str, list[RaceResult]] = {}
        for result in self.race_results.values():
            results_of_kind.setdefault(kind_of(result.candidate), []).append(result)
        return {
            kind: sum(result.n_documents * result.gain for result in results)
            / (sum(result.n_documents for result in results) + PRIOR_DOCUMENTS)
            for kind, results in results_of_kind.items()
        }

    def best_demo_kinds(self, number: int) -> list[str]:
        """The kinds of demonstrations that gain most so far."""
        demo_gains: dict[str, float] = {}
        for kind, gain in self.gains_by_kind().items():
            demo_kind = kind.removeprefix(PROPOSED).partition(",")[0]
            if demo_kind != "none" and gain > 0:
                demo_gains[demo_kind] = max(demo_gains.get(demo_kind, 0.0), gain)
        return sorted(demo_gains, key=lambda kind: (-demo_gains[kind], kind))[:number]

    def history(self) -> list[tuple[str, float]]:
        """The best instructions with the rho each reached."""
        best: dict[str, float] = {}
        for result in self.race_results.values():
            text = result.candidate.instruction
            best[text] = max(best.get(text, -1.0), result.value)
        return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:HISTORY_LENGTH]


def expected_gain(result: RaceResult, gains_by_kind: Mapping[str, float]) -> float:
    """A gain measured with error, drawn towards what its kind gains: luck alone seldom repeats."""
    kind_gain = gains_by_kind[kind_of(result.candidate)]
    spread = PROPOSED_SPREAD if result.candidate.round else DEMO_SPREAD
    weight = spread**2 / (spread**2 + result.error**2)
    return kind_gain + weight * (result.gain - kind_gain)


def kind_of(candidate: Candidate) -> str:
    """How its demonstrations were chosen, whether its instruction was proposed, and its form."""
    form = f", {candidate.reasoning}" if candidate.reasoning else ""
    return (PROPOSED if candidate.round else "") + candidate.demo_set.kind + form


class RankSearch:
    """One search: each round's candidates are made from what the best one so far gets wrong."""

    def __init__(self, problem: SearchProblem) -> None:
        evaluator, train = problem.evaluator, problem.train
        options = problem.options
        self.problem, self.evaluator, self.options = problem, evaluator, options
        self.seed = problem.seed
        self.state = SearchState()
        self.instructions = InstructionSource(problem)
        self.race = Race(
            evaluator=evaluator,
            items=train,
            order=race_order(train, problem.level, options.seed),
            level=problem.level,
            seed=self.seed,
        )
        hidden_systems = systems_without_demos(train, options.seed)
        self.demo_pool = train.without_systems(hidden_systems)
        self.cross_fit = CrossFit(problem.labelled, evaluator.seed, options, hidden_systems)
        self._plan()

    def _plan(self) -> None:
        """How many finalists there are to be, and what is kept for dev."""
        evaluator, dev, options = self.evaluator, self.problem.dev, self.options
        # As much as can be shown: no race judges what leaves nothing of train to judge it on.
        largest = (
            self.cross_fit.full_demo_set
            if self.cross_fit.is_feasible
            else largest_demo_set(self.demo_pool, evaluator.seed, options)
        )
        self.full_demo_set = Candidate(instruction=self.seed.instruction, demo_set=largest)
        # The final gets its share first: a race without one tells nothing. Where the calls reach
        # for one finalist alone there is no race: everything goes to dev. Of a large dev they meet
        # as many documents as the calls reach for.
        dev_part = dev.of_documents(dev.documents[:DOCUMENTS_TO_CHOOSE_ON])
        dev_cost, half_budget = max(1, evaluator.price(dev_part)), evaluator.budget.left // 2
        self.n_finalists = max(1, int(min(options.finalists, half_budget // dev_cost - 1)))
        train_cost = 2 * evaluator.price(self.problem.train) if self.cross_fit.is_feasible else 0
        final_cost = (1 + self.n_finalists) * evaluator.price(dev) + train_cost
        self.reserved_for_dev = (
            min(final_cost, half_budget) if self.n_finalists > 1 else evaluator.budget.left
        )

    def explore(self) -> Exploration:
        if self.n_finalists > 1 or not self._shows_all:
            # Retries and fresh requests come on top of what was planned; what is reserved is left.
            with self.evaluator.budget.reserving(self.reserved_for_dev), suppress(BudgetSpentError):
                self._run_rounds()
        return self._exploration(self._finalists())

    @property
    def _shows_all(self) -> bool:
        """Whether the judge that shows as much as it can is a finalist untried."""
        return self.options.show_all and bool(self.full_demo_set.demo_set.demos)

    def _exploration(self, finalists: Sequence[Candidate], dev: Items | None = None) -> Exploration:
        return Exploration(
            finalists=finalists,
            tried=self.state.race_results.keys(),
            n_proposed=self.instructions.n_proposed,
            cross_fit=self.cross_fit,
            dev=dev,
        )

    def _run_rounds(self) -> None:
        idle = 0
        for number in range(1, self.options.rounds + 1):
            before = self._parent().id
            if not self._run_round(number):
                break
            idle = idle + 1 if self._parent().id == before else 0
            if idle == self.options.patience:
                break

    def _run_round(self, number: int) -> bool:
        """Propose, show, race; False where the budget does not allow it."""
        budget = self.evaluator.budget
        leaders, parent = self.state.candidates_above_seed()[:LEADERS_RACED_ON], self._parent()
        share = self._round_budget(number)
        spent_at_end = budget.spent + share
        if not self._score_seed(share):
            return False
        sets = self._draw_demo_sets(number, parent, self.options.demo_sizes, self.options.demo_sets)
        # Demonstrations first: an instruction that answers mistakes had better answer those that
        # are left when people's own ratings have been shown.
        instructions = self._propose_instructions(number, parent) if number > 1 or not sets else []
        candidates = self._next_candidates(number, parent, instructions, sets)
        if not candidates:
            return False
        return bool(self._race(number, [*leaders, *candidates], spent_at_end - budget.spent))

    def _score_seed(self, share: float) -> bool:
        """Score the seed on a part of train, for a part of the round; False: it cannot be paid."""
        size = self.race.affordable_documents(SEED_BUDGET_SHARE * share)
        if size < min(FEWEST_DOCUMENTS, len(self.race.order)):
            return False
        self.race.compare_with_seed(self.seed, size)
        return True

    def _race(self, number: int, candidates: Sequence[Candidate], limit: float) -> list[RaceResult]:
        """Race the candidates for at most so much, and keep and record what each reached."""

        def record(rung: int, result: RaceResult) -> None:
            self._record(number, result, rung)

        results = self.race.run(candidates, limit, record)
        self.state.race_results |= {result.candidate.id: result for result in results}
        return results

    def _record(self, number: int, result: RaceResult, rung: int = 0) -> None:
        """Write down what a candidate has reached."""
        self.problem.record_candidate(
            "race",
            result.candidate,
            number,
            rung=rung,
            value=result.value,
            gain=result.gain,
            error=result.error,
            n_documents=result.n_documents,
        )

    def _parent(self) -> Candidate:
        return next(iter(self.state.candidates_above_seed()), self.seed)

    def _round_budget(self, number: int) -> float:
        """Calls for this round: the rounds to come keep theirs, if they can do much with them."""
        left = self.evaluator.budget.left
        race_cost = CANDIDATES_WORTH_A_RACE * self.evaluator.price(self.race.items) // 2
        rounds = min(ROUNDS_SAVED_FOR, self.options.rounds - number + 1, left // race_cost)
        return left // max(1, rounds)

    def _propose_instructions(self, number: int, parent: Candidate) -> list[str]:
        """New instructions, each from its own draw of documents, as many as are affordable."""
        budget, n_proposals = self.evaluator.budget, self.options.proposals
        if budget.left < budget.proposal * n_proposals:
            # Fewer, so that half of what is left can race them.
            n_proposals = int(budget.left / 2 / budget.proposal)
        if not n_proposals:
            return []
        draws = [stream(self.options.seed, "lesson", number, draw) for draw in range(n_proposals)]
        lessons = self.instructions.lessons(parent, self.demo_pool, MISTAKE_DOCUMENTS, draws)

        def record(text: str | None, reason: str) -> None:
            self.problem.record("rejected", number, instruction=text, why=reason)

        return self.instructions.propose(
            parent.instruction, lessons, self.state.history(), number, record
        )

    def _draw_demo_sets(
        self, number: int, parent: Candidate, sizes: Sequence[int], n_sets: int
    ) -> list[DemoSet]:
        """New demonstration sets; where the parent is known to disagree, people may say so."""
        evaluator, options, state = self.evaluator, self.options, self.state
        items = demonstrable_items(self.demo_pool, evaluator.seed)
        if not len(items):
            return []
        source = DemoSource(
            items=items,
            scores=evaluator.known_scores(parent, items),
            prompt=evaluator.seed,
            max_characters=options.longest_demos,
            comments={} if parent.reasoning else evaluator.comments(parent),
        )
        best = state.best_demo_kinds(n_sets // 2)
        rng = stream(options.seed, "demos", number)
        drawn = demo_sets(source, sizes, rng, best=best, start=state.n_drawn_kinds)
        state.n_drawn_kinds += n_sets - len(best)
        known = {frozenset(demo_set.ids) for demo_set in state.demo_sets}
        fresh: list[DemoSet] = []
        for _ in range(n_sets):
            demo_set = next(drawn)
            if demo_set.demos and frozenset(demo_set.ids) not in known:
                known.add(frozenset(demo_set.ids))
                fresh.append(demo_set)
        state.demo_sets += fresh
        return fresh

    def _next_candidates(
        self, number: int, parent: Candidate, instructions: Sequence[str], sets: Sequence[DemoSet]
    ) -> list[Candidate]:
        """Crosses of the leaders, then new parts beside the parent's others: the surest first."""
        leaders = self.state.candidates_above_seed()[:MAX_RECOMBINED_LEADERS]
        crosses = [
            replace(first, demo_set=second.demo_set)
            for first in leaders
            for second in leaders
            if first.instruction != second.instruction and first.demo_set != second.demo_set
        ]
        with_instructions = [
            replace(parent, instruction=instruction, round=number) for instruction in instructions
        ]
        with_demos = [replace(parent, demo_set=demo_set) for demo_set in sets]
        # In turn, so that a small budget tries some of each.
        new = [
            candidate
            for pair in zip_longest(with_instructions, with_demos)
            for candidate in pair
            if candidate is not None
        ]
        candidates = {
            candidate.id: candidate for candidate in [*crosses[:MAX_RECOMBINED_LEADERS], *new]
        }
        return [
            candidate
            for name, candidate in candidates.items()
            if name not in self.state.race_results
        ]

    def _finalists(self) -> list[Candidate]:
        """What shows the most, then the leaders, with all that may teach if that can be shown.

        Where everything can be shown, a part of it is no finalist: what a race takes for the better
        part is mostly luck, and more documents teach more.
        """
        leaders = self.state.candidates_above_seed()[: self.n_finalists]
        finalists = [self.full_demo_set] if self._shows_all and self._may_show_all() else []
        if finalists and self.cross_fit.is_feasible:
            finalists += [
                replace(leader, demo_set=self.full_demo_set.demo_set) for leader in leaders
            ]
            leaders = [leader for leader in leaders if not leader.demo_set.demos]
        finalists = list({finalist.id: finalist for finalist in [*finalists, *leaders]}.values())
        return finalists[: self.n_finalists]

    def _may_show_all(self) -> bool:
        """Unless every large set that raced was clearly worse than the seed."""
        largest_size = str(max(self.options.demo_sizes))
        results = [
            result
            for result in self.state.race_results.values()
            if result.candidate.demo_set.kind.endswith(largest_size) and not result.candidate.round
        ]
        return not results or any(
            result.gain + ELIMINATION_ERRORS * result.error >= 0 for result in results
        )


def race_order(train: Items, level: Level, seed: int) -> tuple[str, ...]:
    """The documents that can tell judges apart, in the order in which candidates meet them."""
    documents = informative_documents(train, level)
    order = stream(seed, "order").permutation(len(documents))
    return tuple(documents[index] for index in order)


def systems_without_demos(train: Items, seed: int) -> frozenset[str]:
    """A quarter of the systems is never shown, so that dev can tell whether a gain carries over."""
    systems = train.systems
    if len(systems) < SYSTEMS_FOR_HOLDING_OUT:
        return frozenset()
    drawn = stream(seed, "systems").permutation(len(systems))[: max(2, len(systems) // 4)]
    return frozenset(systems[index] for index in drawn)
