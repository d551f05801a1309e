"""The rank search: races of new instructions, forms of reasoning and sets of demonstrations.

The budget of the first round depends on the cost of judging the labelled outputs, and each later
round has twice the budget of the one before. The search ends when it reaches the limit, or when a
round gains less than a standard error. Instructions and forms of reasoning race first, without
demonstrations, because they cost least. Small sets of demonstrations race before large ones. A race
is successive halving (arXiv:1502.07943): it drops half of the candidates again and again, and each
time scores the remaining ones on about twice as many documents.

The embedded model writes no instructions, so it has nothing to search. Instead, the judge that
shows all labels is compared with the untuned one.

The same seed, items and replies give the same trials, also in a run that is resumed.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest

from judges.prompt import LETTERS, Reasoning
from optimize.items import Items
from optimize.search.candidates import Candidate, DemoSet, draw_demo_set, nearest_choice
from optimize.search.evaluator import (
    BUDGET_ERRORS,
    MAX_RACE_DOCUMENTS,
    Evaluator,
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

# The budget of the first round, as a multiple of the cost of one race of the untuned judge, and the
# share of a round's budget for scoring the untuned judge, whose mistakes are the first evidence.
FIRST_ROUND_COST, UNTUNED_BUDGET_SHARE = 5.0, 0.25
# The share of a round's budget that must be left for the round to begin, and the smallest share for
# its race, however much the proposals have cost.
MIN_ROUND_SHARE, MIN_RACE_SHARE = 0.15, 0.5
# The fewest documents in a round (on fewer, chance would decide), and the fewest documents on which
# a candidate is scored before it may be dropped (or half of all documents, if that is less).
FEWEST_DOCUMENTS, MIN_RACE_DOCUMENTS = 6, 20
# The number of the round that compares forms of reasoning, with the best instruction of round 1.
REASONING_ROUND = 2
# The sizes of the first sets of demonstrations, which race in round 3, and the share of train's
# documents that a set is drawn from. Later sets are as large as the best so far, or twice as large.
FIRST_DEMO_SIZES, DEMO_DOCUMENTS_SHARE = (4, 8), 0.5
# How many of the best candidates race again in the next round, and how many earlier instructions
# the proposer sees.
N_LEADERS, HISTORY_LENGTH = 2, 5
# How many of the best candidates are scored on the same documents before finalists are chosen.
LEADERS_MEASURED = 4
# After this many rounds every kind of change has been tried, and the search ends once a round does
# not pay.
FEWEST_ROUNDS = 3
# The strength of the prior that a kind of change has a mean gain of 0, in documents.
PRIOR_DOCUMENTS = 30
# The standard deviation of the gains among candidates of one kind: sets of demonstrations of one
# size have similar gains, proposed instructions have very different ones.
DEMO_SPREAD, PROPOSED_SPREAD = 0.03, 0.08
# Upper bound on the share of the limit for the test on dev, and the usual cost of a finalist as a
# multiple of the untuned judge's.
DEV_SHARE, FINALIST_COST = 0.5, 1.2


def explore(problem: SearchProblem) -> Exploration:
    """Run the rank search on train; without a proposer, show all labels instead."""
    if problem.proposer is None:
        return show_labels(problem)
    return RankSearch(problem, Proposer(problem, problem.proposer)).explore()


def show_labels(problem: SearchProblem) -> Exploration:
    """Make a finalist that shows all labels of train and dev as demonstrations.

    If a prompt may not show so many, the finalist shows as many labels of train as allowed.
    """
    prompt, options = problem.evaluator.untuned, problem.options
    cross_fit = CrossFit(problem.labelled, prompt, options)
    if cross_fit.is_feasible:
        shows_all = replace(problem.untuned, demo_set=cross_fit.demo_set)
        return Exploration(finalists=[shows_all], cross_fit=cross_fit)
    candidate = replace(problem.untuned, demo_set=largest_demo_set(problem.train, prompt, options))
    return Exploration(finalists=[candidate] if candidate.demo_set.demos else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """A candidate's result in a race, and its gain over the untuned judge on the same documents.

    `error` is the standard error of the gain. `is_reliable` says whether the candidate fails on few
    enough outputs to ship.
    """

    candidate: Candidate
    value: float
    gain: float
    error: float
    n_documents: int
    is_reliable: bool = True


class Race:
    """Compares candidates with the untuned judge on documents of train.

    Attributes:
        order: The documents that can tell judges apart, in the random order in which they are used.
        min_documents: The fewest documents on which a candidate is scored before it may be dropped.
    """

    def __init__(self, problem: SearchProblem) -> None:
        self.evaluator, self.goal, self._untuned = problem.evaluator, problem.goal, problem.untuned
        train, names = problem.train, problem.train.documents
        order = stream(problem.options.seed, "order").permutation(len(names))
        shuffled = [names[place] for place in order]
        self._items_of_document = {name: train.of_documents([name]).items for name in shuffled}
        self.order = informative_documents(self.items(shuffled), self.goal)
        half = min(MAX_RACE_DOCUMENTS, len(self.order)) // 2
        self.min_documents = max(1, min(MIN_RACE_DOCUMENTS, half))

    def documents(self, candidate: Candidate, size: int) -> list[str]:
        """The first `size` documents that are not in the candidate's demonstrations."""
        return [name for name in self.order if name not in candidate.documents][:size]

    def items(self, documents: Iterable[str]) -> Items:
        return Items(tuple(item for name in documents for item in self._items_of_document[name]))

    def cost(self, candidates: Sequence[Candidate], size: int) -> float:
        """The cost of scoring each candidate on `size` documents.

        It includes the cost of scoring the untuned judge on all of these documents.
        """
        documents = [self.documents(candidate, size) for candidate in candidates]
        union = {name for names in documents for name in names} or self.order[:size]
        return self.evaluator.cost(self._untuned, self.items(union)) + sum(
            self.evaluator.cost(candidate, self.items(names))
            for candidate, names in zip(candidates, documents, strict=True)
        )

    def affordable_size(self, cost: Callable[[int], float], limit: float) -> int:
        """The largest number of documents whose cost is within the limit.

        `cost` gives the cost of a number of documents, and must not decrease.
        """
        return max(0, bisect_right(range(len(self.order) + 1), limit, key=cost) - 1)

    def compare(self, candidate: Candidate, size: int, base: Candidate | None = None) -> RaceResult:
        """Compare a candidate with `base`, by default the untuned judge, on `size` documents."""
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
            is_reliable=is_reliable(scores, base_scores),
        )

    def run(self, candidates: Sequence[Candidate], limit: float) -> list[RaceResult]:
        """Race the candidates within a limit on the cost, and return their results, best first.

        If the limit does not pay for all candidates on the fewest documents, the last ones are left
        out.
        """
        budget, entrants = self.evaluator.budget, list(candidates)
        final_cost = budget.total_cost + limit
        while len(entrants) > 1 and self.cost(entrants, self.min_documents) > limit:
            entrants.pop()
        latest: dict[str, tuple[int, RaceResult]] = {}
        n_documents = 0
        while entrants:
            remaining = final_cost - budget.total_cost
            size = self.affordable_size(partial(self._cost_of_race, entrants), remaining)
            if (
                not latest
                and size < self.min_documents
                and self.cost(entrants, self.min_documents) <= remaining
            ):
                # This leaves little for the better half, but every candidate is scored.
                size = self.min_documents
            if size <= n_documents:
                break
            n_documents = size
            results = [self.compare(candidate, size) for candidate in entrants]
            latest |= {result.candidate.id: (size, result) for result in results}
            results.sort(key=lambda result: (-result.gain, result.candidate.id))
            half = results[: math.ceil(len(results) / 2)]
            entrants = [result.candidate for result in half if result.is_reliable]
        # Candidates that were scored on more documents come first. The rest are sorted by the gain
        # minus its standard error, since they were not all scored on the same documents.
        order = sorted(latest.values(), key=lambda pair: (-pair[0], pair[1].error - pair[1].gain))
        return [result for _, result in order]

    def _cost_of_race(self, candidates: Sequence[Candidate], size: int) -> float:
        """The cost of a race that starts on `size` documents and doubles them at each halving.

        The candidates that will remain are not known yet, so the first half stands for them.
        """
        cost = self.cost(candidates, size)
        while len(candidates) > 1 and size < len(self.order):
            candidates = candidates[: math.ceil(len(candidates) / 2)]
            earlier, size = self.cost(candidates, size), min(2 * size, len(self.order))
            cost += self.cost(candidates, size) - earlier
        return cost


class RankSearch:
    """A rank search, which tries in each round to improve on the best candidate so far.

    Attributes:
        results: The result of each candidate in its last race, by the candidate's id.
        best_reasoning: The best form of reasoning so far; None for the untuned judge's own.
        last_round: The gain and the cost of the last round.
    """

    def __init__(self, problem: SearchProblem, proposer: Proposer) -> None:
        self.problem, self.proposer, self.race = problem, proposer, Race(problem)
        self.evaluator, self.options = problem.evaluator, problem.options
        self.budget, self.item_cost = self.evaluator.budget, self.evaluator.item_cost
        self.results: dict[str, RaceResult] = {}
        self.best_reasoning: Reasoning | None = None
        self.last_round: LastRound | None = None
        self.n_rounds = 0
        items = self.race.items(self.race.order[:MAX_RACE_DOCUMENTS])
        self.first_round_budget = FIRST_ROUND_COST * self.item_cost(problem.untuned) * len(items)
        self.max_dev_cost = DEV_SHARE * self.budget.remaining

    def explore(self) -> Exploration:
        with suppress(*BUDGET_ERRORS):
            self._run_rounds()
        with suppress(*BUDGET_ERRORS):
            self._measure_leaders()
        return Exploration(
            finalists=self._finalists(),
            candidate_ids=self.results.keys(),
            n_too_expensive=sum(
                not self._is_affordable(candidate) for candidate in self._above_untuned()
            ),
            last_round=self.last_round,
            questions=tuple(self.proposer.questions.values()),
            is_starved=not self.proposer.n_answered,
        )

    def _run_rounds(self) -> None:
        """Run rounds until one gains less than a standard error, which labels cannot confirm."""
        for round_number in range(1, self.options.rounds + 1):
            self.n_rounds = round_number
            former_leader, cost_before = self._best_so_far().id, self.budget.total_cost
            with self.budget.reserving(self._dev_cost()):
                has_raced = self._run_round(round_number)
            if not has_raced:
                break
            # The races of this round also changed the expected gains of earlier candidates, so the
            # former leader's gain is read now as well.
            gains, leader = self._expected_gains(), self._best_so_far().id
            gain = gains.get(leader, 0.0) - gains.get(former_leader, 0.0)
            error = self.results[leader].error if leader in self.results else math.inf
            pays = round_number < FEWEST_ROUNDS or gain > error
            is_final = not pays or round_number == self.options.rounds
            cost = self.budget.total_cost - cost_before
            self.last_round = LastRound(gain=gain, error=error, cost=cost, is_final=is_final)
            if is_final:
                break

    def _measure_leaders(self) -> None:
        """Score the best candidates on as many documents as the longest race had."""
        most_documents = max((result.n_documents for result in self.results.values()), default=0)
        with self.budget.reserving(self._dev_cost()):
            for candidate in self._affordable_leaders()[:LEADERS_MEASURED]:
                self._record(self.n_rounds, self.race.compare(candidate, most_documents))

    def _dev_cost(self) -> float:
        """The cost to reserve for the test on dev of the untuned judge and the finalists."""
        untuned = self.problem.untuned
        current = sum(map(self.item_cost, [untuned, *self._finalists()]))
        usual = self.item_cost(untuned) * (1 + N_FINALISTS * FINALIST_COST)
        return min(self.max_dev_cost, max(current, usual) * len(self.problem.dev))

    def _run_round(self, round_number: int) -> bool:
        """Compare forms of reasoning, or race new candidates.

        Returns False if the budget paid for no race.
        """
        budget, race = self.budget, self.race
        # Each round has twice the budget of the one before, except the round on reasoning, which
        # has the budget of the first.
        factor = 1 if round_number == REASONING_ROUND else 2 ** (round_number - 1)
        full_budget = factor * self.first_round_budget
        round_budget = min(full_budget, budget.remaining)
        end_cost = budget.total_cost + round_budget
        # The untuned judge is scored first, within its share of the round's budget.
        size = race.affordable_size(partial(race.cost, []), UNTUNED_BUDGET_SHARE * round_budget)
        min_size = min(FEWEST_DOCUMENTS, len(race.order))
        if round_budget < MIN_ROUND_SHARE * full_budget or size < min_size:
            return False
        race.compare(self.problem.untuned, size)
        if round_number == REASONING_ROUND and self.options.reasoning:
            self._compare_reasoning(round_number, end_cost)
            return True
        parent, leaders = self._best_so_far(), self._above_untuned()[:N_LEADERS]
        candidates = self._candidates(round_number, parent)
        limit = max(
            end_cost - budget.total_cost, min(MIN_RACE_SHARE * round_budget, budget.remaining)
        )
        results = race.run([*leaders, *candidates], limit)
        for result in results:
            self._record(round_number, result)
        # Even without a new candidate, later rounds may try reasoning and demonstrations.
        return not candidates or any(result.candidate in candidates for result in results)

    def _record(self, round_number: int, result: RaceResult) -> None:
        self.results[result.candidate.id] = result
        names = "value", "gain", "error", "n_documents"
        figures = {name: getattr(result, name) for name in names}
        self.problem.record_candidate("race", result.candidate, round_number, **figures)

    def _expected_gains(self) -> dict[str, float]:
        """Each candidate's expected gain: its gain, shrunk towards the mean gain of its kind.

        The larger its standard error, the more a gain is shrunk.
        """
        by_kind: dict[str, list[RaceResult]] = {}
        for result in self.results.values():
            by_kind.setdefault(result.candidate.kind, []).append(result)
        gains: dict[str, float] = {}
        for results in by_kind.values():
            total = sum(result.n_documents * result.gain for result in results)
            n_documents = sum(result.n_documents for result in results)
            mean = total / (n_documents + PRIOR_DOCUMENTS)
            for result in results:
                spread = PROPOSED_SPREAD if result.candidate.round else DEMO_SPREAD
                weight = spread**2 / (spread**2 + result.error**2)
                gains[result.candidate.id] = mean + weight * (result.gain - mean)
        return gains

    def _leaders(self) -> list[RaceResult]:
        """The results of reliable candidates; the largest expected gain comes first."""
        gains = self._expected_gains()
        reliable = [result for result in self.results.values() if result.is_reliable]
        return sorted(
            reliable, key=lambda result: (-gains[result.candidate.id], result.candidate.id)
        )

    def _above_untuned(self) -> list[Candidate]:
        return [result.candidate for result in self._leaders() if result.gain > 0]

    def _affordable_leaders(self) -> list[Candidate]:
        return list(filter(self._is_affordable, self._above_untuned()))

    def _best_so_far(self) -> Candidate:
        return next(iter(self._above_untuned()), self.problem.untuned)

    def _propose_instructions(self, round_number: int, parent: Candidate) -> list[str]:
        """Ask for new instructions within the budget, each from its own draw of documents."""
        budget, n_proposals = self.budget, self.options.proposals
        if budget.remaining < budget.proposal * n_proposals:
            # Ask for fewer, so that half of the budget remains for their race.
            n_proposals = int(budget.remaining / 2 / budget.proposal)
        draws = [
            stream(self.options.seed, "lesson", round_number, draw) for draw in range(n_proposals)
        ]
        evidence = self.proposer.evidence(parent, self.problem.train, draws)
        best: dict[str, float] = {}
        for result in self.results.values():
            text = result.candidate.instruction
            best[text] = max(best.get(text, -1.0), result.value)
        history = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:HISTORY_LENGTH]
        ask_questions = round_number == 1 and self.problem.new_questions
        return self.proposer.propose(
            parent.instruction, evidence, history, round_number, ask_questions=ask_questions
        )

    def _demo_sets(self, round_number: int, parent: Candidate) -> list[DemoSet]:
        """The sets of demonstrations to try in this round; there are none before round 3."""
        if round_number <= REASONING_ROUND:
            return []
        options, train = self.options, self.problem.train
        earlier_sizes = (len(result.candidate.demo_set.demos) for result in self._leaders())
        n_best = next(filter(None, earlier_sizes), 0)
        sizes = {n_best, 2 * n_best} if n_best else {*FIRST_DEMO_SIZES}
        reasons = {} if parent.reasoning else right_reasons(self.evaluator, parent, train)
        rng = stream(options.seed, "demos", round_number)
        sets = [
            draw_demo_set(
                train,
                self.evaluator.untuned,
                size,
                rng,
                max_characters=options.longest_demos,
                share=DEMO_DOCUMENTS_SHARE,
                reasons=reasons,
            )
            for size in sorted({min(size, options.max_demos) for size in sizes})
        ]
        return [demo_set for demo_set in sets if demo_set.demos]

    def _candidates(self, round_number: int, parent: Candidate) -> list[Candidate]:
        """The candidates of a round.

        The parent without demonstrations comes first. Then new instructions, forms of reasoning and
        sets of demonstrations alternate, so that a small budget tries some of each.
        """
        instructions = self._propose_instructions(round_number, parent)
        # Instructions race without demonstrations, to show their own effect.
        base = replace(parent, demo_set=DemoSet())
        forms: list[Reasoning | None] = [None, self.best_reasoning]
        if self.best_reasoning == "steps" and "questions" in self.options.reasoning:
            # Sub-questions resemble steps, so they are tried only if steps were the best form.
            forms.append("questions")
        by_turn = zip_longest(
            [replace(base, instruction=text, round=round_number) for text in instructions],
            [replace(parent, reasoning=form) for form in forms if form != parent.reasoning],
            [replace(parent, demo_set=each) for each in self._demo_sets(round_number, parent)],
        )
        candidates = [base, *filter(None, chain.from_iterable(by_turn))]
        return self._affordable(each for each in candidates if each.id not in self.results)

    def _affordable(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The distinct candidates that are affordable, without the untuned judge."""
        distinct = {each.id: each for each in candidates if each.id != self.problem.untuned.id}
        return list(filter(self._is_affordable, distinct.values()))

    def _is_affordable(self, candidate: Candidate) -> bool:
        """Whether the limit can pay for judging dev and test with the candidate."""
        return self.item_cost(candidate) <= self.options.max_item_cost

    def _compare_reasoning(self, round_number: int, end_cost: float) -> None:
        """Score the leader with each form of reasoning on the same documents, and choose a form.

        No form is dropped early, because effects show only on many documents. If the limit does not
        pay for all forms, the most expensive ones are left out. The cheapest form is chosen whose
        gain is within a standard error of the largest gain.
        """
        race, leader = self.race, self._best_so_far()
        forms = [form for form in self.options.reasoning if form != "questions"]
        versions = filter(self._is_affordable, (replace(leader, reasoning=form) for form in forms))
        entrants, size = [leader, *sorted(versions, key=self.item_cost)], 0
        while len(entrants) > 1 and size < race.min_documents:
            size = race.affordable_size(
                partial(race.cost, entrants), end_cost - self.budget.total_cost
            )
            entrants = entrants if size >= race.min_documents else entrants[:-1]
        for candidate in entrants[1:]:
            self._record(round_number, race.compare(candidate, size))
        by_form = [race.compare(candidate, size, leader) for candidate in entrants]
        best = max(by_form, key=lambda result: result.gain)
        as_good = [each.candidate for each in by_form if each.gain >= best.gain - best.error]
        self.best_reasoning = min(as_good, key=self.item_cost).reasoning

    def _finalists(self) -> list[Candidate]:
        """The finalists: the best candidate, two cheaper versions of it, and the next best ones.

        The cheaper versions have no demonstrations, and one of them has no added reasoning either.
        Every judged row pays for both parts, so the test on dev has to show what they are worth.
        """
        leaders = self._affordable_leaders()
        if not leaders:
            return []
        without_demos = replace(leaders[0], demo_set=DemoSet(), reasoning=None)
        with_reasoning = replace(without_demos, reasoning=self.best_reasoning)
        versions = [leaders[0], without_demos, with_reasoning]
        return self._affordable([*versions, *leaders[1:]])[:N_FINALISTS]


def right_reasons(evaluator: Evaluator, candidate: Candidate, items: Items) -> dict[str, str]:
    """The reasons that the candidate wrote before answers that agree with people's, by item id."""
    choices = evaluator.untuned.answer.choices or ()
    items = evaluator.scored_items(candidate, items)
    reasons = {}
    for item, judgement in zip(items.items, evaluator.judgements(candidate, items), strict=True):
        is_undecided = math.isnan(judgement.score) or (choices == LETTERS and not judgement.score)
        answers = {nearest_choice(choices, value) for value in (judgement.score, item.human)}
        if len(answers) == 1 and not is_undecided:
            reasons[item.id] = reason_of(judgement)
    return {name: reason for name, reason in reasons.items() if reason}
