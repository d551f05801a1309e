"""The optimizer "rank": rounds in which instructions, reasoning and demonstrations race.

Instructions and forms of reasoning race in the first rounds, without demonstrations, because this
costs least. Small sets of demonstrations race before large sets. Each round has twice the budget of
the round before. The search ends at its limit, or when a round gains less than a standard error.
The same seed, items and replies give the same trials, also in a run that is resumed.

Without a proposer there is nothing to search: the embedded model, for example, cannot write
instructions. Then the only finalist is a judge that shows all labels as demonstrations.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest

from judges.prompt import Reasoning
from optimize.items import Items
from optimize.search.budget import BUDGET_ERRORS, SearchBudgetSpentError
from optimize.search.candidates import Candidate, DemoSet, draw_demo_set
from optimize.search.cross_validation import CrossValidation, largest_demo_set
from optimize.search.evaluator import Evaluator
from optimize.search.evidence import write_evidence
from optimize.search.optimizer import MAX_FINALISTS, Exploration, LastRound, writes_questions
from optimize.search.problem import CandidateTrial, SearchProblem
from optimize.search.proposer import Proposer
from optimize.search.race import MAX_RACE_DOCUMENTS, Race
from optimize.statistics.intervals import random_generator

# The budget of the first round, in multiples of scoring the untuned judge on all race documents.
FIRST_ROUND_COST = 5.0
UNTUNED_BUDGET_SHARE = 0.25  # of a round's budget, exceeded if the fewest documents cost more
MIN_ROUND_SHARE = 0.15  # of a round's full budget; with less left, the round does not begin
MIN_RACE_SHARE = 0.5  # of a round's budget; the race gets it, whatever the proposals have cost
REASONING_ROUND = 2  # this round compares forms of reasoning, with round 1's best instruction
# The sizes of demonstration sets in round 3. Later rounds try the best size and twice that size.
FIRST_DEMO_SIZES = (4, 8)
DEMO_DOCUMENTS_SHARE = 0.5  # of train's documents; a set of demonstrations shows no more
N_LEADERS = 2  # best candidates that race again in the next round
HISTORY_LENGTH = 5  # earlier instructions that the proposer's prompt shows
N_LEADERS_MEASURED = 4  # best candidates that are scored on the same documents after all rounds
MIN_ROUNDS = 3  # so that every kind of change is tried
# The mean gain of a kind of change is shrunk towards 0 as by this many documents with a gain of 0.
PRIOR_DOCUMENTS = 30
# The assumed standard deviations of true gains: instructions change more than demonstrations do.
DEMO_GAIN_SD, INSTRUCTION_GAIN_SD = 0.03, 0.08


@writes_questions
def explore(problem: SearchProblem) -> Exploration:
    """Run the rank search on train. Without a proposer, return a judge that shows all labels."""
    if problem.proposer is not None:
        return RankSearch(problem, Proposer(problem, problem.proposer)).explore()
    cross_validation = CrossValidation(problem)
    if cross_validation.is_feasible:
        finalist = replace(problem.untuned, demo_set=cross_validation.demo_set)
        return Exploration(finalists=[finalist], cross_validation=cross_validation)
    # Without a cross-validation, the finalist shows labels of train only, and dev tests it.
    demo_set = largest_demo_set(problem.train, problem)
    finalists = [replace(problem.untuned, demo_set=demo_set)] if demo_set.demos else []
    return Exploration(finalists=finalists)


def smallest_round_cost(n_items: float, item_cost: float, proposals_cost: float) -> float:
    """Return the cost of proposals, and of scoring one and the untuned judge on `n_items`."""
    return proposals_cost + 2 * n_items * item_cost


class RankSearch:
    """A rank search. Each round tries to improve on the best candidate so far.

    `trials` holds the latest trial of each candidate, by its id. `best_reasoning` is the best form
    of reasoning so far; None means the untuned judge's form.
    """

    def __init__(self, problem: SearchProblem, proposer: Proposer) -> None:
        self.problem, self.options = problem, problem.options
        self.proposer, self.race = proposer, Race(problem)
        self.evaluator, self.budget = problem.evaluator, problem.evaluator.budget
        self.trials: dict[str, CandidateTrial] = {}
        self.best_reasoning: Reasoning | None = None
        self.last_round: LastRound | None = None
        self.n_rounds = 0
        n_items = len(self.race.items(self.race.document_ids[:MAX_RACE_DOCUMENTS]))
        untuned_cost = self.evaluator.item_cost(problem.untuned) * n_items
        self.first_round_budget = FIRST_ROUND_COST * untuned_cost
        # No candidate is dropped before it is scored on this many items.
        self.n_first_items = len(self.race.items(self.race.document_ids[: self.race.min_documents]))

    def explore(self) -> Exploration:
        with suppress(*BUDGET_ERRORS):
            self._run_rounds()
        # Score the best candidates on as many documents as any candidate was scored on.
        most_documents = max((trial.n_documents for trial in self.trials.values()), default=0)
        with suppress(*BUDGET_ERRORS):
            for candidate in self._candidates_with_gain()[:N_LEADERS_MEASURED]:
                self._record_trial(self.race.compare(candidate, most_documents))
        finalists, trials = self._choose_finalists(), self.trials.values()
        has_gain = any(trial.gain > 0 and trial.is_reliable for trial in trials)
        return Exploration(
            finalists=finalists,
            candidate_ids=self.trials.keys(),
            last_round=self.last_round,
            questions=tuple(self.proposer.questions.values()),
            limit_reached=not self.proposer.n_answered or (has_gain and not finalists),
        )

    def _run_rounds(self) -> None:
        """Run rounds until a round gains no more than the standard error of the leader's gain."""
        for round_number in range(1, self.options.max_rounds + 1):
            self.n_rounds = round_number
            former_leader_id, cost_before = self._best_candidate().id, self.budget.total_cost
            self._run_round(round_number)
            # Read the former leader's gain only now, because this round has changed the expected
            # gains of all candidates.
            gain_by_id, leader_id = self._expected_gains(), self._best_candidate().id
            gain = gain_by_id.get(leader_id, 0.0) - gain_by_id.get(former_leader_id, 0.0)
            leader_trial = self.trials.get(leader_id)
            standard_error = leader_trial.standard_error if leader_trial else math.inf
            is_final = round_number >= MIN_ROUNDS and gain <= standard_error
            cost = self.budget.total_cost - cost_before
            self.last_round = LastRound(gain, standard_error, cost, is_final)
            if is_final:
                return

    def _run_round(self, round_number: int) -> None:
        """Run a round. Raises SearchBudgetSpentError if the budget is too small for its race."""
        start_cost = self.budget.total_cost
        round_budget = self._score_untuned_for_round(round_number)
        end_cost = start_cost + round_budget
        if round_number == REASONING_ROUND and self.options.reasoning:
            self._compare_reasoning(end_cost)
            return
        parent, leaders = self._best_candidate(), self._candidates_with_gain()[:N_LEADERS]
        candidates = self._new_candidates(round_number, parent)
        smallest_limit = min(MIN_RACE_SHARE * round_budget, self.budget.remaining)
        limit = max(end_cost - self.budget.total_cost, smallest_limit)
        trials = self.race.run([*leaders, *candidates], limit)
        for trial in trials:
            self._record_trial(trial)
        # Without new candidates, the search goes on, because later rounds may have some.
        if candidates and not any(trial.candidate in candidates for trial in trials):
            raise SearchBudgetSpentError("the budget is too small to race new candidates")

    def _score_untuned_for_round(self, round_number: int) -> float:
        """Score the untuned judge for a round, and return the round's budget."""
        # The budget doubles from round to round, except in the round that compares reasoning.
        budget_factor = 1 if round_number == REASONING_ROUND else 2 ** (round_number - 1)
        full_budget = budget_factor * self.first_round_budget
        budget, item_cost = self.budget, self.evaluator.item_cost(self._best_candidate())
        round_budget = min(full_budget, budget.remaining)
        smallest_cost = smallest_round_cost(self.n_first_items, item_cost, budget.proposal_cost)
        if round_budget < MIN_ROUND_SHARE * full_budget or budget.remaining < smallest_cost:
            raise SearchBudgetSpentError("the budget is too small for another round")
        race, untuned_budget = self.race, UNTUNED_BUDGET_SHARE * round_budget
        n_documents = race.max_affordable_documents(partial(race.cost, []), untuned_budget)
        race.compare(self.problem.untuned, max(n_documents, race.min_documents))
        return round_budget

    def _record_trial(self, trial: CandidateTrial) -> None:
        self.trials[trial.candidate.id] = trial
        trial.record(self.problem, "race", self.n_rounds)

    def _expected_gains(self) -> dict[str, float]:
        """Return each candidate's gain, shrunk towards the mean gain of candidates of its kind."""
        n_documents, gain_sums = defaultdict[str, int](int), defaultdict[str, float](float)
        for trial in self.trials.values():
            n_documents[trial.candidate.kind] += trial.n_documents
            gain_sums[trial.candidate.kind] += trial.n_documents * trial.gain
        expected_gains: dict[str, float] = {}
        for candidate_id, trial in self.trials.items():
            kind = trial.candidate.kind
            mean_gain = gain_sums[kind] / (n_documents[kind] + PRIOR_DOCUMENTS)
            gain_sd = INSTRUCTION_GAIN_SD if trial.candidate.round_number > 0 else DEMO_GAIN_SD
            reliability = gain_sd**2 / (gain_sd**2 + trial.standard_error * trial.standard_error)
            expected_gains[candidate_id] = mean_gain + reliability * (trial.gain - mean_gain)
        return expected_gains

    def _ranked_trials(self) -> list[CandidateTrial]:
        """Return the trials of reliable, affordable candidates, by expected gain, best first."""
        gain_by_id = self._expected_gains()
        ranked_ids = sorted(sorted(self.trials), key=lambda candidate_id: -gain_by_id[candidate_id])
        trials = [self.trials[candidate_id] for candidate_id in ranked_ids]
        return [each for each in trials if each.is_reliable and self._is_affordable(each.candidate)]

    def _candidates_with_gain(self) -> list[Candidate]:
        return [trial.candidate for trial in self._ranked_trials() if trial.gain > 0]

    def _best_candidate(self) -> Candidate:
        return next(iter(self._candidates_with_gain()), self.problem.untuned)

    def _propose_instructions(self, round_number: int, parent: Candidate) -> list[str]:
        budget, seed = self.budget, self.options.seed
        # If the budget is small, it must still pay for the first comparison of an instruction.
        n_proposals = self.options.n_proposals
        if budget.remaining < n_proposals * budget.proposal_cost:
            item_cost = self.evaluator.item_cost(replace(parent, demo_set=DemoSet()))
            cost_left = max(0.0, budget.remaining - self.n_first_items * item_cost)
            n_proposals = int(cost_left / budget.proposal_cost)
        rngs = [random_generator(seed, "lesson", round_number, i) for i in range(n_proposals)]
        evidence_texts = write_evidence(self.evaluator, parent, self.problem.train, rngs)
        best_values: dict[str, float] = {}
        for trial in self.trials.values():
            instruction, value = trial.candidate.instruction, trial.objective_value
            value = -1.0 if math.isnan(value) else value
            best_values[instruction] = max(value, best_values.get(instruction, -1))
        history = sorted(best_values.items(), key=lambda pair: (-pair[1], pair[0]))[:HISTORY_LENGTH]
        ask_questions = round_number == 1 and self.problem.may_add_questions
        return self.proposer.propose(
            parent.instruction, evidence_texts, history, round_number, ask_questions=ask_questions
        )

    def _draw_demo_sets(self, round_number: int, parent: Candidate) -> list[DemoSet]:
        """Draw the sets of demonstrations to try in this round. Before round 3 there are none."""
        if round_number <= REASONING_ROUND:
            return []
        options, train = self.options, self.problem.train
        earlier_sizes = (len(trial.candidate.demo_set.demos) for trial in self._ranked_trials())
        best_size = next(filter(None, earlier_sizes), 0)
        demo_set_sizes = (best_size, 2 * best_size) if best_size else FIRST_DEMO_SIZES
        rng = random_generator(options.seed, "demos", round_number)
        reason_by_id = {} if parent.reasoning else reasons_when_right(self.evaluator, parent, train)
        demo_sets = [
            draw_demo_set(
                train,
                self.evaluator.untuned_prompt,
                size,
                rng,
                max_characters=options.max_demo_characters,
                document_share=DEMO_DOCUMENTS_SHARE,
                reason_by_id=reason_by_id,
            )
            for size in sorted({min(size, options.max_demos) for size in demo_set_sizes})
        ]
        return [demo_set for demo_set in demo_sets if demo_set.demos]

    def _new_candidates(self, round_number: int, parent: Candidate) -> list[Candidate]:
        """Make new candidates by changes to `parent`; the list alternates the kinds of change."""
        instructions = self._propose_instructions(round_number, parent)
        # New instructions race without demonstrations, so that only the instruction has an effect.
        parent_without_demos = replace(parent, demo_set=DemoSet())
        instruction_version = replace(parent_without_demos, round_number=round_number)
        forms: list[Reasoning | None] = [None, self.best_reasoning]
        if self.best_reasoning == "steps" and "questions" in self.options.reasoning:
            # Reasoning by sub-questions resembles reasoning in steps. So it is tried only if steps
            # were the best form.
            forms.append("questions")
        demo_sets = self._draw_demo_sets(round_number, parent)
        with_instruction = [replace(instruction_version, instruction=text) for text in instructions]
        with_form = [replace(parent, reasoning=form) for form in forms if form != parent.reasoning]
        with_demos = [replace(parent, demo_set=demo_set) for demo_set in demo_sets]
        alternating = chain(*zip_longest(with_instruction, with_form, with_demos))
        candidates = [parent_without_demos, *filter(None, alternating)]
        untried_candidates = [each for each in candidates if each.id not in self.trials]
        return self._affordable_candidates(untried_candidates)

    def _affordable_candidates(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        candidate_by_id = {candidate.id: candidate for candidate in candidates}
        candidate_by_id.pop(self.problem.untuned.id, None)
        return list(filter(self._is_affordable, candidate_by_id.values()))

    def _is_affordable(self, candidate: Candidate) -> bool:
        """Return whether the limit pays for judging dev and test with the candidate."""
        return self.evaluator.item_price(candidate) <= self.options.max_item_price

    def _compare_reasoning(self, end_cost: float) -> None:
        """Compare the forms of reasoning on the best candidate, and set `best_reasoning`.

        This is no race, because effects of reasoning show only on many documents. If the limit does
        not pay for all forms, the cheapest are compared. The best form is the cheapest one whose
        gain is at most a standard error below the largest gain.
        """
        race, leader = self.race, self._best_candidate()
        limit, price = end_cost - self.budget.total_cost, self.evaluator.item_price
        forms = [form for form in self.options.reasoning if form != "questions"]
        candidates = self._affordable_candidates(replace(leader, reasoning=form) for form in forms)
        entrants = race.affordable_entrants([leader, *sorted(candidates, key=price)], limit)
        n_documents = race.max_affordable_documents(partial(race.cost, entrants), limit)
        for candidate in entrants[1:]:
            self._record_trial(race.compare(candidate, n_documents))
        trials = [race.compare(each, n_documents, leader) for each in entrants or [leader]]
        best_trial = max(trials, key=lambda trial: trial.gain)
        lowest_gain = best_trial.gain - best_trial.standard_error
        nearly_best_candidates = [trial.candidate for trial in trials if trial.gain >= lowest_gain]
        self.best_reasoning = min(nearly_best_candidates, key=price).reasoning

    def _choose_finalists(self) -> list[Candidate]:
        """Return the best candidate, two cheaper versions of it, and the runners-up."""
        leaders = self._candidates_with_gain()
        if not leaders:
            return []
        # Demonstrations and reasoning add to the cost of every judgement. So the test on dev has to
        # show that they are worth their cost.
        cheapest_version = replace(leaders[0], demo_set=DemoSet(), reasoning=None)
        reasoning_version = replace(cheapest_version, reasoning=self.best_reasoning)
        candidates = [leaders[0], cheapest_version, reasoning_version, *leaders[1:]]
        return self._affordable_candidates(candidates)[:MAX_FINALISTS]


def reasons_when_right(evaluator: Evaluator, candidate: Candidate, items: Items) -> dict[str, str]:
    """Return the reasons that the candidate wrote before right answers, by item id."""
    field, reason_by_id = evaluator.untuned_prompt.answer_field, dict[str, str]()
    items = evaluator.scored_items(candidate, items)
    for item, judgement in zip(items, evaluator.judgements(candidate, items), strict=True):
        score = judgement.score
        if field.is_pairwise:
            is_right = score * item.human > 0  # no answer is right for a tied pair
        else:
            is_right = field.nearest_choice(score) == field.nearest_choice(item.human)
        if is_right and not math.isnan(score):
            reason_by_id[item.id] = judgement.rationale or ""
    return reason_by_id
