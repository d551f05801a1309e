"""The rank search: write instructions, compare forms of reasoning, show labels, and race it all.

What is paid for with every row has to earn its keep. The rounds are planned by what the labels cost
to judge, each worth twice the one before. The limit only says how many of them are run: a larger
one extends what a smaller one has done. Instructions and forms of reasoning race without
demonstrations, since they cost least; demonstrations come after them, few before many.

Where no language model can write instructions and judging is free (the embedded model), there is
nothing to search: the judge that shows all labels is compared with the untuned one.

The same seed, items and replies make the same trials, whatever was answered before.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from judges.client import BudgetSpentError
from judges.prompt import Reasoning
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.demos import (
    DemoSource,
    demonstrable_items,
    draw_demo_set,
    largest_demo_set,
)
from optimize.search.evaluator import SearchBudgetSpentError
from optimize.search.gate import CrossFit, Exploration, affordable_part
from optimize.search.objective import Level, contrast, informative_documents
from optimize.search.problem import SearchProblem
from optimize.search.proposer import Proposer
from optimize.search.race import (
    ELIMINATION_ERRORS,
    FEWEST_DOCUMENTS,
    Race,
    RaceCosts,
    RaceResult,
)
from optimize.statistics.intervals import Contrast, stream

# What the first round may cost: so many times judging at most so many documents of train by the
# untuned judge.
FIRST_ROUND_COST, MAX_RACE_DOCUMENTS = 5.0, 48
# The untuned judge runs first, since its mistakes are the first lessons, on so much of a round.
SEED_BUDGET_SHARE = 0.25
# No candidate is out before it has met so many documents, or half of those that it could meet.
MIN_RACE_DOCUMENTS = 20
# Of a round so much has to be affordable, or it is not begun; and so much of it races, whatever
# proposals have cost.
MIN_ROUND_SHARE, MIN_RACE_SHARE = 0.15, 0.5
# The round in which forms of reasoning are compared, on the best instructions of the first.
REASONING_ROUND, INSTRUCTIONS_PER_REASONING = 2, 2
# Demonstrations race from the third round on: sets of these sizes there; later as many as the best
# so far shows, and twice as many.
FIRST_DEMO_SIZES = (4, 8)
LEADERS_RACED_ON = 2
# Leaders have met so much of train, or of what their demonstrations left of it.
FINISHED_SHARE = 0.4
HISTORY_LENGTH = 5
# A kind of candidates met on so many documents is believed by half.
PRIOR_DOCUMENTS = 30
# How far the gains of two candidates of one kind lie apart: demonstrations of one size do about
# the same, proposed instructions differ widely.
DEMO_SPREAD, PROPOSED_SPREAD = 0.03, 0.08
# Dev gets at most half of the limit; of more documents than suffice, a quarter.
DEV_SHARE, LARGE_DEV_SHARE, DOCUMENTS_TO_CHOOSE_ON = 0.5, 0.25, 100
# As many finalists as a share of the limit pays for, within bounds: of several that are alike
# the gate asks hardly more than of one, and sees more. A finalist costs about so many times the
# untuned judge.
MIN_FINALISTS, MAX_FINALISTS, FINALISTS_SHARE, FINALIST_COST = 2, 8, 0.4, 1.2


def explore(problem: SearchProblem) -> Exploration:
    """Propose and race, round after round, until nothing better comes or the budget ends."""
    if problem.proposer is None and problem.evaluator.budget.unit == "calls":
        return show_labels(problem)
    return RankSearch(problem).explore()


def show_labels(problem: SearchProblem) -> Exploration:
    """The judge that shows all labels of train and dev, or as many of train as a prompt takes."""
    prompt, options = problem.evaluator.seed, problem.options
    cross_fit = CrossFit(problem.labelled, prompt, options)
    demo_set = (
        cross_fit.full_demo_set
        if cross_fit.is_feasible
        else largest_demo_set(problem.train, prompt, options)
    )
    candidate = replace(problem.seed, demo_set=demo_set)
    finalists = [candidate] if demo_set.demos else []
    return Exploration(finalists=finalists, tried=(), n_proposed=0, cross_fit=cross_fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How a search divides what it may spend, before any candidate is scored.

    `dev` is the part of dev to choose on, and `dev_item_cost` what scoring one of its items with
    the untuned judge and `n_finalists` is taken to cost. `first_round` is what the first round may
    cost.
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


def plan_search(
    train: Items, dev: Items, level: Level, seed: int, limit: float, seed_cost: float
) -> SearchPlan:
    """Divide a limit, where an item costs so much with the untuned judge.

    A larger limit leaves no less of dev to choose on.
    """
    names = list(dict.fromkeys((*informative_documents(dev, level), *dev.documents)))
    fewest_cost = seed_cost * (1 + MIN_FINALISTS * FINALIST_COST)

    def n_documents(share: float) -> int:
        """How many documents the fewest finalists can be scored on for a share."""
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


def race_order(train: Items, level: Level, seed: int) -> tuple[str, ...]:
    """The documents that can tell judges apart, in the order in which candidates meet them."""
    documents = informative_documents(train, level)
    order = stream(seed, "order").permutation(len(documents))
    return tuple(documents[index] for index in order)


@dataclass(slots=True, kw_only=True)
class SearchState:
    """What the rounds have learned so far: how each candidate did in its last race, by id."""

    race_results: dict[str, RaceResult] = field(default_factory=dict)

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
    """How much it shows, whether its instruction was proposed, and its form of reasoning."""
    proposed = "proposed" if candidate.round else "untuned"
    return f"{proposed}, {candidate.demo_set.kind}, {candidate.reasoning}"


class RankSearch:
    """One search: each round's candidates are made from what the best one so far gets wrong."""

    def __init__(self, problem: SearchProblem) -> None:
        evaluator, train, options = problem.evaluator, problem.train, problem.options
        self.problem, self.evaluator, self.options = problem, evaluator, options
        self.seed = problem.seed
        self.state = SearchState()
        self.proposer = Proposer(problem)
        order = race_order(train, problem.level, options.seed)
        self.race = Race(
            evaluator=evaluator,
            items=train,
            order=order,
            level=problem.level,
            seed=self.seed,
            fewest=min(MIN_RACE_DOCUMENTS, min(MAX_RACE_DOCUMENTS, len(order)) // 2),
        )
        self.plan = plan_search(
            train,
            problem.dev,
            problem.level,
            options.seed,
            evaluator.budget.left,
            evaluator.item_cost(self.seed),
        )
        # The form of reasoning that has done best (None: the untuned judge's own).
        self.best_reasoning: Reasoning | None = None

    def explore(self) -> Exploration:
        with suppress(BudgetSpentError, SearchBudgetSpentError):
            self._run_rounds()
        better = self.state.candidates_above_seed()
        return Exploration(
            finalists=self._best_finalists(),
            tried=self.state.race_results.keys(),
            n_proposed=self.proposer.n_proposed,
            # None of its candidates shows dev: each judges it itself.
            cross_fit=CrossFit(Items(()), self.evaluator.seed, self.options),
            dev=self.plan.dev,
            n_too_dear=sum(not self._is_affordable(candidate) for candidate in better),
        )

    def _run_rounds(self) -> None:
        idle = 0
        for number in range(1, self.options.rounds + 1):
            before = self._parent().id
            # A round leaves dev its share.
            with self.evaluator.budget.reserving(self._dev_cost()):
                is_worth_another = self._run_round(number)
            if not is_worth_another:
                break
            idle = idle + 1 if self._parent().id == before else 0
            if idle == self.options.patience:
                break

    def _dev_cost(self) -> float:
        """What scoring the untuned judge and the finalists on dev costs, as far as is known."""
        candidates = [self.seed, *self._best_finalists()]
        known = sum(self.evaluator.item_cost(candidate) for candidate in candidates)
        return max(known, self.plan.dev_item_cost) * len(self.plan.dev)

    def _run_round(self, number: int) -> bool:
        """Compare forms of reasoning, or propose, show and race; False where nothing raced."""
        budget, spent_before = self.evaluator.budget, self.evaluator.budget.spent
        share, parent = self.plan.round_budget(number, budget.left), self._parent()
        if not share or not self._score_seed(share):
            return False
        if number == REASONING_ROUND and self.options.reasoning:
            self._compare_reasoning(number, share)
            return True
        leaders = self.state.candidates_above_seed()[:LEADERS_RACED_ON]
        candidates = self._next_candidates(
            number,
            parent,
            self._propose_instructions(number, parent),
            self._draw_demo_sets(number, parent),
        )
        limit = max(share - (budget.spent - spent_before), min(MIN_RACE_SHARE * share, budget.left))
        results = self._race(number, [*leaders, *candidates], limit)
        raced = {result.candidate.id for result in results}
        # Where nothing could be proposed, forms of reasoning and demonstrations may come yet.
        return not candidates or any(candidate.id in raced for candidate in candidates)

    def _score_seed(self, share: float) -> bool:
        """Score the untuned judge for a part of the round; False where that cannot be paid."""
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

    def _propose_instructions(self, number: int, parent: Candidate) -> list[str]:
        """New instructions, each from its own draw of documents, as many as are affordable."""
        budget, n_proposals = self.evaluator.budget, self.options.proposals
        if budget.left < budget.proposal * n_proposals:
            # Fewer, so that half of what is left can race them.
            n_proposals = int(budget.left / 2 / budget.proposal)
        if not n_proposals:
            return []
        draws = [stream(self.options.seed, "lesson", number, draw) for draw in range(n_proposals)]
        lessons = self.proposer.lessons(parent, self.problem.train, draws)
        return self.proposer.propose(parent.instruction, lessons, self.state.history(), number)

    def _draw_demo_sets(self, number: int, parent: Candidate) -> list[DemoSet]:
        """Demonstration sets for this round: none before the third, nor where all have lost."""
        evaluator, options, leaders = self.evaluator, self.options, self.state.leaders()
        items = demonstrable_items(self.problem.train, evaluator.seed)
        if number <= REASONING_ROUND or not len(items):
            return []
        with_demos = [result for result in leaders if result.candidate.demo_set.demos]
        if with_demos:
            best = max(result.lower_gain for result in leaders)
            if all(result.gain + ELIMINATION_ERRORS * result.error < best for result in with_demos):
                return []
        n_best = len(with_demos[0].candidate.demo_set.demos) if with_demos else 0
        largest = max(options.demo_sizes, default=0)
        planned = (n_best, 2 * n_best) if n_best else FIRST_DEMO_SIZES
        sizes = sorted({min(size, largest) for size in planned})[: options.demo_sets]
        source = DemoSource(
            items=items,
            scores=evaluator.known_scores(parent, items),
            prompt=evaluator.seed,
            max_characters=options.longest_demos,
            comments={} if parent.reasoning else evaluator.comments(parent),
        )
        rng = stream(options.seed, "demos", number)
        drawn = [draw_demo_set(source, size, rng) for size in sizes]
        return [demo_set for demo_set in drawn if demo_set.demos]

    def _next_candidates(
        self, number: int, parent: Candidate, instructions: Sequence[str], sets: Sequence[DemoSet]
    ) -> list[Candidate]:
        """The parent without demonstrations, then in turn instructions, forms, demonstrations."""
        # An instruction has to show what it does without demonstrations.
        base = replace(parent, demo_set=DemoSet())
        with_instructions = [replace(base, instruction=text, round=number) for text in instructions]
        with_forms = [replace(parent, reasoning=form) for form in self._reasoning_to_try(parent)]
        with_demos = [replace(parent, demo_set=demo_set) for demo_set in sets]
        # In turn, so that a small budget tries some of each.
        groups = zip_longest(with_instructions, with_forms, with_demos)
        candidates = [base, *(each for group in groups for each in group if each is not None)]
        tried = self.state.race_results.keys() | {self.seed.id}
        return [
            candidate
            for candidate in _different(candidates)
            if candidate.id not in tried and self._is_affordable(candidate)
        ]

    def _is_affordable(self, candidate: Candidate) -> bool:
        """Whether an item costs no more than the limit pays for on dev and in the final table."""
        return self.evaluator.item_cost(candidate) <= self.options.max_item_cost

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

    def _reasoning_to_try(self, parent: Candidate) -> Sequence[Reasoning | None]:
        """The forms of reasoning to try with the parent: the best, and what steps are akin to."""
        forms: list[Reasoning | None] = [None, self.best_reasoning]
        if self.best_reasoning == "steps" and "questions" in self.options.reasoning:
            forms.append("questions")
        return [form for form in dict.fromkeys(forms) if form != parent.reasoning]

    def _affordable_documents(self, candidates: Sequence[Candidate], limit: float) -> int:
        """How many documents of the race all of these can be scored on for so much."""
        costs = RaceCosts(self.race, candidates)
        sizes = range(len(self.race.order), 0, -1)
        return next(
            (size for size in sizes if costs.cost_of_first(len(candidates), size) <= limit), 0
        )

    def _choose_reasoning(self, leaders: Sequence[Candidate]) -> Reasoning | None:
        """The form that gains most over none, unless one within an error is cheaper."""
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

    def _best_finalists(self) -> list[Candidate]:
        """The leader, what it is without what costs, and who comes next.

        Without its demonstrations, with the best form of reasoning and without any: what is paid
        for with every row has to show on dev what it is worth.
        """
        leaders = list(filter(self._is_affordable, self.state.candidates_above_seed()))
        if not leaders:
            return []
        instruction_alone = replace(leaders[0], demo_set=DemoSet(), reasoning=None)
        finalists = [
            leaders[0],
            instruction_alone,
            replace(instruction_alone, reasoning=self.best_reasoning),
            *leaders[1:],
        ]
        return [
            finalist
            for finalist in _different(finalists)
            if finalist.id != self.seed.id and self._is_affordable(finalist)
        ][: self.plan.n_finalists]


def _different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each candidate once, in order."""
    return list({candidate.id: candidate for candidate in candidates}.values())
