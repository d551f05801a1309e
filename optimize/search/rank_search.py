"""The rank search: write instructions, compare forms of reasoning, show labels, and race it all.

Rounds are planned by what the labels cost to judge, each worth twice the one before. They end when
one brings less than the labels can tell, or with the limit. Instructions and forms of reasoning
race without demonstrations, since they cost least; demonstrations come after them, few before many.
In a race the field is halved again and again, and what is left meets about twice as many documents
each time (successive halving, arXiv:1502.07943).

Where no language model writes instructions (the embedded model), there is nothing to search: the
judge that shows all labels is compared with the untuned one.

The same seed, items and replies make the same trials, whatever was answered before.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from judges.client import BudgetSpentError
from judges.prompt import LETTERS, Reasoning
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet, draw_demo_set, nearest_choice
from optimize.search.evaluator import (
    MAX_RACE_DOCUMENTS,
    Evaluator,
    SearchBudgetSpentError,
    SearchProblem,
    contrast,
    informative_documents,
    is_reliable,
    objective,
    reason_of,
)
from optimize.search.optimizer import (
    N_FINALISTS,
    CrossFit,
    Exploration,
    LastRound,
    largest_demo_set,
)
from optimize.search.proposer import Proposer
from optimize.statistics.intervals import stream

# What the first round may cost: so many times a race of the untuned judge, which runs first on its
# share, since its mistakes are the first lessons.
FIRST_ROUND_COST, UNTUNED_BUDGET_SHARE = 5.0, 0.25
# Of a round so much has to be affordable, or it is not begun; and so much of it races, whatever
# proposals have cost.
MIN_ROUND_SHARE, MIN_RACE_SHARE = 0.15, 0.5
# On fewer documents than these chance decides; no candidate is out before it has met so many, or
# half of those that it could meet.
FEWEST_DOCUMENTS, MIN_RACE_DOCUMENTS = 6, 20
# The round in which forms of reasoning are compared, on the best instruction of the first.
REASONING_ROUND = 2
# Demonstrations race from the third round on: sets of these sizes there, of at most so much of
# train; later as many as the best so far shows, and twice as many.
FIRST_DEMO_SIZES, DEMO_DOCUMENTS_SHARE = (4, 8), 0.5
LEADERS_RACED_ON, HISTORY_LENGTH = 2, 5
# So many leaders are compared on the same documents before the finalists are chosen.
LEADERS_MEASURED = 4
# Each kind of change has been tried after so many rounds; from then on a round has to pay.
FEWEST_ROUNDS = 3
# A kind of candidates met on so many documents is believed by half.
PRIOR_DOCUMENTS = 30
# How far the gains of two candidates of one kind lie apart: demonstrations of one size do about
# the same, proposed instructions differ widely.
DEMO_SPREAD, PROPOSED_SPREAD = 0.03, 0.08
# Dev gets at most so much of the limit. A finalist costs about so many times the untuned judge.
DEV_SHARE, FINALIST_COST = 0.5, 1.2


def explore(problem: SearchProblem) -> Exploration:
    """Propose and race, round after round, until nothing better comes or the budget ends."""
    if problem.proposer is None:
        return show_labels(problem)
    return RankSearch(problem, Proposer(problem, problem.proposer)).explore()


def show_labels(problem: SearchProblem) -> Exploration:
    """The judge that shows all labels of train and dev, or as many of train as a prompt takes."""
    prompt, options = problem.evaluator.untuned, problem.options
    cross_fit = CrossFit(problem.labelled, prompt, options)
    if cross_fit.is_feasible:
        shows_all = replace(problem.untuned, demo_set=cross_fit.demo_set)
        return Exploration(finalists=[shows_all], candidate_ids=(), cross_fit=cross_fit)
    candidate = replace(problem.untuned, demo_set=largest_demo_set(problem.train, prompt, options))
    return Exploration(finalists=[candidate] if candidate.demo_set.demos else [], candidate_ids=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """A candidate's objective, and its mean gain on the untuned judge over its documents.

    `reliable`: it fails on no more outputs than a judge may that ships.
    """

    candidate: Candidate
    value: float
    gain: float
    error: float
    n_documents: int
    reliable: bool = True


class Race:
    """Where candidates meet the untuned judge: documents of train in the order of a seed."""

    def __init__(self, problem: SearchProblem) -> None:
        self.evaluator, self.goal, self._untuned = problem.evaluator, problem.goal, problem.untuned
        train, names = problem.train, problem.train.documents
        order = stream(problem.options.seed, "order").permutation(len(names))
        shuffled = [names[place] for place in order]
        self._of_document = {name: train.of_documents([name]).items for name in shuffled}
        # The documents that can tell judges apart, in the order in which candidates meet them.
        self.order = informative_documents(self.items(shuffled), self.goal)
        half = min(MAX_RACE_DOCUMENTS, len(self.order)) // 2
        self.fewest = max(1, min(MIN_RACE_DOCUMENTS, half))

    def documents(self, candidate: Candidate, size: int) -> list[str]:
        """The first documents of the order that the candidate does not show."""
        return [name for name in self.order if name not in candidate.documents][:size]

    def items(self, documents: Iterable[str]) -> Items:
        return Items(tuple(item for name in documents for item in self._of_document[name]))

    def cost(self, candidates: Sequence[Candidate], size: int) -> float:
        """The cost of so many documents for each candidate, and of these for the untuned judge."""
        documents = [self.documents(candidate, size) for candidate in candidates]
        met = {name for names in documents for name in names} or self.order[:size]
        return self.evaluator.cost(self._untuned, self.items(met)) + sum(
            self.evaluator.cost(candidate, self.items(names))
            for candidate, names in zip(candidates, documents, strict=True)
        )

    def affordable(self, cost: Callable[[int], float], limit: float) -> int:
        """The most documents whose cost, which grows with their number, is within the limit."""
        return max(0, bisect_right(range(len(self.order) + 1), limit, key=cost) - 1)

    def compare(self, candidate: Candidate, size: int, base: Candidate | None = None) -> RaceResult:
        """Score candidate and base (the untuned judge) on the first documents not shown."""
        items = self.items(self.documents(candidate, size))
        judges = candidate, base or self._untuned
        scores, base_scores = (self.evaluator.scores(each, items) for each in judges)
        difference = contrast(scores, base_scores, items, self.goal)
        return RaceResult(
            candidate=candidate,
            value=objective(scores, items, self.goal),
            gain=difference.value if difference.documents else 0.0,
            error=difference.error,
            n_documents=len(items.documents),
            reliable=is_reliable(scores, base_scores),
        )

    def run(self, candidates: Sequence[Candidate], limit: float) -> list[RaceResult]:
        """Spend at most so much; best first, those that went furthest before all others.

        Where not even the fewest documents can be paid for all, the first candidates run.
        """
        budget, remaining = self.evaluator.budget, list(candidates)
        spent_at_end = budget.total_cost + limit
        while len(remaining) > 1 and self.cost(remaining, self.fewest) > limit:
            remaining.pop()
        latest: dict[str, tuple[int, RaceResult]] = {}
        rung, n_documents = 0, 0
        while remaining:
            left = spent_at_end - budget.total_cost
            size = self.affordable(partial(self._cost_of_race, remaining), left)
            if not rung and size < self.fewest and self.cost(remaining, self.fewest) <= left:
                # The better half will not go far; but all of them have run.
                size = self.fewest
            if size <= n_documents:
                break
            results = [self.compare(candidate, size) for candidate in remaining]
            latest |= {result.candidate.id: (rung, result) for result in results}
            results.sort(key=lambda result: (-result.gain, result.candidate.id))
            half = results[: math.ceil(len(results) / 2)]
            remaining = [result.candidate for result in half if result.reliable]
            rung, n_documents = rung + 1, size
        # They met different documents: by their gains less a standard error.
        ranked = sorted(latest.values(), key=lambda pair: (-pair[0], pair[1].error - pair[1].gain))
        return [result for _, result in ranked]

    def _cost_of_race(self, candidates: Sequence[Candidate], size: int) -> float:
        """The cost of a race whose next set has `size` documents, its halves twice as many, ...

        Which half goes on is not known yet; the first stand for it.
        """
        cost = self.cost(candidates, size)
        while len(candidates) > 1 and size < len(self.order):
            candidates = candidates[: math.ceil(len(candidates) / 2)]
            paid, size = self.cost(candidates, size), min(2 * size, len(self.order))
            cost += self.cost(candidates, size) - paid
        return cost


class RankSearch:
    """One search: each round's candidates are made from what the best one so far gets wrong.

    `results` holds how each candidate did in its last race, by id; `best_reasoning` is the form of
    reasoning that has done best (None: the untuned judge's own).
    """

    def __init__(self, problem: SearchProblem, proposer: Proposer) -> None:
        self.problem, self.proposer = problem, proposer
        self.results: dict[str, RaceResult] = {}
        self.best_reasoning: Reasoning | None = None
        self.last_round: LastRound | None = None
        self.n_rounds = 0
        self.race = Race(problem)
        raced = self.race.items(self.race.order[:MAX_RACE_DOCUMENTS])
        item_cost = problem.evaluator.item_cost(problem.untuned)
        self.first_round = FIRST_ROUND_COST * item_cost * len(raced)
        self.most_for_dev = DEV_SHARE * problem.evaluator.budget.remaining

    def explore(self) -> Exploration:
        with suppress(BudgetSpentError, SearchBudgetSpentError):
            self._run_rounds()
        with suppress(BudgetSpentError, SearchBudgetSpentError):
            self._measure_leaders()
        return Exploration(
            finalists=self._finalists(),
            candidate_ids=self.results.keys(),
            n_too_dear=sum(not self._is_affordable(each) for each in self._above_untuned()),
            last_round=self.last_round,
        )

    def _run_rounds(self) -> None:
        """Run rounds until one brings less than a standard error: the labels tell no more."""
        budget = self.problem.evaluator.budget
        for number in range(1, self.problem.options.rounds + 1):
            before, spent, self.n_rounds = self._parent().id, budget.total_cost, number
            with budget.reserving(self._dev_cost()):
                has_raced = self._run_round(number)
            if not has_raced:
                break
            gain, error = self._gain_since(before)
            pays = number < FEWEST_ROUNDS or gain > error
            is_final = not pays or number == self.problem.options.rounds
            cost = budget.total_cost - spent
            self.last_round = LastRound(gain=gain, error=error, cost=cost, is_final=is_final)
            if is_final:
                break

    def _measure_leaders(self) -> None:
        """Score the leaders on as many documents as the longest race: some left theirs early."""
        longest = max((result.n_documents for result in self.results.values()), default=0)
        with self.problem.evaluator.budget.reserving(self._dev_cost()):
            leaders = list(filter(self._is_affordable, self._above_untuned()))
            for candidate in leaders[:LEADERS_MEASURED]:
                self._record(self.n_rounds, self.race.compare(candidate, longest))

    def _gain_since(self, before: str) -> tuple[float, float]:
        """The likely gain of the best candidate on the one `before` (its id), and its error.

        Both as they are known now, since a race makes earlier candidates better known, too.
        """
        gains, leader = gains_by_kind(self.results.values()), self._parent().id

        def gain(name: str) -> float:
            return expected_gain(self.results[name], gains) if name in self.results else 0.0

        error = self.results[leader].error if leader in self.results else math.inf
        return gain(leader) - gain(before), error

    def _dev_cost(self) -> float:
        """What a round leaves for dev: the untuned judge and the finalists, as far as is known."""
        item_cost, untuned = self.problem.evaluator.item_cost, self.problem.untuned
        known = sum(map(item_cost, [untuned, *self._finalists()]))
        planned = item_cost(untuned) * (1 + N_FINALISTS * FINALIST_COST)
        return min(self.most_for_dev, max(known, planned) * len(self.problem.dev))

    def _run_round(self, number: int) -> bool:
        """Compare forms of reasoning, or propose, show and race; False where nothing raced."""
        budget, race = self.problem.evaluator.budget, self.race
        # Each is worth twice the one before, but forms of reasoning take no more than the first.
        planned = self.first_round * (1 if number == REASONING_ROUND else 2 ** (number - 1))
        share = min(planned, budget.remaining)
        end = budget.total_cost + share
        # First the untuned judge, on its part of the round.
        size = race.affordable(partial(race.cost, []), UNTUNED_BUDGET_SHARE * share)
        if share < MIN_ROUND_SHARE * planned or size < min(FEWEST_DOCUMENTS, len(race.order)):
            return False
        race.compare(self.problem.untuned, size)
        if number == REASONING_ROUND and self.problem.options.reasoning:
            self._compare_reasoning(number, end)
            return True
        parent = self._parent()
        leaders = self._above_untuned()[:LEADERS_RACED_ON]
        instructions = self._propose_instructions(number, parent)
        candidates = self._candidates(number, parent, instructions, self._demo_sets(number, parent))
        limit = max(end - budget.total_cost, min(MIN_RACE_SHARE * share, budget.remaining))
        raced = [self._record(number, each) for each in race.run([*leaders, *candidates], limit)]
        # Where nothing could be proposed, forms of reasoning and demonstrations may come yet.
        return not candidates or any(candidate.id in raced for candidate in candidates)

    def _record(self, number: int, result: RaceResult) -> str:
        """Keep what a candidate has reached, and write it down; its id."""
        self.results[result.candidate.id] = result
        self.problem.record_candidate(
            "race",
            result.candidate,
            number,
            value=result.value,
            gain=result.gain,
            error=result.error,
            n_documents=result.n_documents,
        )
        return result.candidate.id

    def _leaders(self) -> list[RaceResult]:
        """The reliable ones, the greatest likely gain first."""
        reliable = [result for result in self.results.values() if result.reliable]
        gains = gains_by_kind(self.results.values())
        return sorted(
            reliable, key=lambda result: (-expected_gain(result, gains), result.candidate.id)
        )

    def _above_untuned(self) -> list[Candidate]:
        return [result.candidate for result in self._leaders() if result.gain > 0]

    def _parent(self) -> Candidate:
        return next(iter(self._above_untuned()), self.problem.untuned)

    def _propose_instructions(self, number: int, parent: Candidate) -> list[str]:
        """New instructions, each from its own draw of documents, as many as are affordable."""
        budget, options = self.problem.evaluator.budget, self.problem.options
        n_proposals = options.proposals
        if budget.remaining < budget.proposal * n_proposals:
            # Fewer, so that half of what is left can race them.
            n_proposals = int(budget.remaining / 2 / budget.proposal)
        draws = [stream(options.seed, "lesson", number, draw) for draw in range(n_proposals)]
        lessons = self.proposer.lessons(parent, self.problem.train, draws)
        best: dict[str, float] = {}
        for result in self.results.values():
            text = result.candidate.instruction
            best[text] = max(best.get(text, -1.0), result.value)
        history = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:HISTORY_LENGTH]
        return self.proposer.propose(parent.instruction, lessons, history, number)

    def _demo_sets(self, number: int, parent: Candidate) -> list[DemoSet]:
        """Demonstration sets for this round, none before the third."""
        evaluator, options, train = self.problem.evaluator, self.problem.options, self.problem.train
        if number <= REASONING_ROUND:
            return []
        with_demos = [result for result in self._leaders() if result.candidate.demo_set.demos]
        n_best = len(with_demos[0].candidate.demo_set.demos) if with_demos else 0
        planned = (n_best, 2 * n_best) if n_best else FIRST_DEMO_SIZES
        sizes = sorted({min(size, options.max_demos) for size in planned})
        reasons = {} if parent.reasoning else right_reasons(evaluator, parent, train)
        rng = stream(options.seed, "demos", number)
        drawn = [
            draw_demo_set(
                train,
                evaluator.untuned,
                size,
                rng,
                max_characters=options.longest_demos,
                share=DEMO_DOCUMENTS_SHARE,
                reasons=reasons,
            )
            for size in sizes
        ]
        return [demo_set for demo_set in drawn if demo_set.demos]

    def _candidates(
        self, number: int, parent: Candidate, instructions: Sequence[str], sets: Sequence[DemoSet]
    ) -> list[Candidate]:
        """The parent without demonstrations, then in turn instructions, forms, demonstrations."""
        # An instruction has to show what it does without demonstrations.
        base = replace(parent, demo_set=DemoSet())
        forms: list[Reasoning | None] = [None, self.best_reasoning]
        if self.best_reasoning == "steps" and "questions" in self.problem.options.reasoning:
            # Sub-questions are akin to steps, and are tried where these have done best.
            forms.append("questions")
        # In turn, so that a small budget tries some of each.
        turns = zip_longest(
            [replace(base, instruction=text, round=number) for text in instructions],
            [replace(parent, reasoning=form) for form in forms if form != parent.reasoning],
            [replace(parent, demo_set=demo_set) for demo_set in sets],
        )
        candidates = [base, *(each for turn in turns for each in turn if each is not None)]
        return self._affordable(candidates, self.results.keys() | {self.problem.untuned.id})

    def _affordable(self, candidates: Iterable[Candidate], known: Set[str]) -> list[Candidate]:
        """Each candidate once, in order, without the known ones and those that cost too much."""
        fresh = {each.id: each for each in candidates if each.id not in known}
        return list(filter(self._is_affordable, fresh.values()))

    def _is_affordable(self, candidate: Candidate) -> bool:
        """Whether an item costs no more than the limit pays for on dev and on test."""
        return self.problem.evaluator.item_cost(candidate) <= self.problem.options.max_item_cost

    def _compare_reasoning(self, number: int, end: float) -> None:
        """Score the leader with each form of reasoning, all on the same documents, and choose.

        Nobody is out before: what a form does shows on many documents. The dearest forms stand back
        where the limit does not pay for all. The best form is the one that gains most over none,
        unless one within an error is cheaper.
        """
        race, item_cost = self.race, self.problem.evaluator.item_cost
        budget, leader = self.problem.evaluator.budget, self._parent()
        forms = [form for form in self.problem.options.reasoning if form != "questions"]
        tried = filter(self._is_affordable, (replace(leader, reasoning=form) for form in forms))
        entrants, size = [leader, *sorted(tried, key=item_cost)], 0
        while len(entrants) > 1 and size < race.fewest:
            size = race.affordable(partial(race.cost, entrants), end - budget.total_cost)
            entrants = entrants if size >= race.fewest else entrants[:-1]
        for candidate in entrants[1:]:
            self._record(number, race.compare(candidate, size))
        by_form = [race.compare(candidate, size, leader) for candidate in entrants]
        best = max(by_form, key=lambda result: result.gain)
        as_good = [each.candidate for each in by_form if each.gain >= best.gain - best.error]
        self.best_reasoning = min(as_good, key=item_cost).reasoning

    def _finalists(self) -> list[Candidate]:
        """The leader, what it is without what costs, and who comes next.

        Without its demonstrations, with the best form of reasoning and without any: what is paid
        for with every row has to show on dev what it is worth.
        """
        leaders = list(filter(self._is_affordable, self._above_untuned()))
        if not leaders:
            return []
        alone = replace(leaders[0], demo_set=DemoSet(), reasoning=None)
        with_form = replace(alone, reasoning=self.best_reasoning)
        finalists = [leaders[0], alone, with_form, *leaders[1:]]
        return self._affordable(finalists, {self.problem.untuned.id})[:N_FINALISTS]


def gains_by_kind(results: Iterable[RaceResult]) -> dict[str, float]:
    """What each kind of candidate gains on average, towards nothing when seldom met."""
    totals: dict[str, tuple[float, float]] = {}
    for result in results:
        gain, n = totals.get(kind_of(result.candidate), (0.0, 0))
        weighted = gain + result.n_documents * result.gain
        totals[kind_of(result.candidate)] = weighted, n + result.n_documents
    return {kind: gain / (n + PRIOR_DOCUMENTS) for kind, (gain, n) in totals.items()}


def expected_gain(result: RaceResult, gains: Mapping[str, float]) -> float:
    """A gain measured with error, drawn towards what its kind gains: luck alone seldom repeats."""
    kind_gain = gains[kind_of(result.candidate)]
    spread = PROPOSED_SPREAD if result.candidate.round else DEMO_SPREAD
    weight = spread**2 / (spread**2 + result.error**2)
    return kind_gain + weight * (result.gain - kind_gain)


def kind_of(candidate: Candidate) -> str:
    """How much it shows, whether its instruction was proposed, and its form of reasoning."""
    proposed = "proposed" if candidate.round else "untuned"
    return f"{proposed}, {candidate.demo_set.kind}, {candidate.reasoning}"


def right_reasons(evaluator: Evaluator, candidate: Candidate, items: Items) -> dict[str, str]:
    """What the candidate wrote beside the answers that people gave too, by item id."""
    choices = evaluator.untuned.answer.choices or ()
    known = evaluator.scored_items(candidate, items)
    reasons = {}
    for item, judgement in zip(known.items, evaluator.judgements(candidate, known), strict=True):
        decided = not math.isnan(judgement.score) and (judgement.score or choices != LETTERS)
        answers = {nearest_choice(choices, value) for value in (judgement.score, item.human)}
        if decided and len(answers) == 1 and (reason := reason_of(judgement)):
            reasons[item.id] = reason
    return reasons
