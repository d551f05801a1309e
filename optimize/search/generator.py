"""Who enters the next race: new instructions, new demonstration sets, crosses of the best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.prompt import Prompt
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate, DemoSet, Instruction, TextGuard, fault
from optimize.search.demos import DemoSource, demo_sets, usable
from optimize.search.evaluator import Evaluator
from optimize.search.problem import Propose, SearchPlan
from optimize.search.proposals import sampled_mistakes
from optimize.search.race import RaceResult
from optimize.statistics.bootstrap import stream

Rejected = Callable[[str | None, str], None]

NO_REPLY = "no reply that could be read"
LESSON_DOCUMENTS = 10
LEADERS_CROSSED = 4
# Leaders have met so much of train, or of what their demonstrations left of it.
FINISHED_SHARE = 0.4
# A kind of demonstrations met on so many documents is believed by half.
PRIOR_DOCUMENTS = 30
PROPOSED = "proposed, "
# How a set was chosen that shows everything.
EVERYTHING = "all"
# How far the gains of two candidates of one kind lie apart: demonstrations alike in choice and
# size do about the same, proposed instructions differ widely.
KIND_SPREADS = {False: 0.03, True: 0.08}


@dataclass(slots=True, kw_only=True)
class SearchState:
    """What the rounds have made and learned so far."""

    instructions: list[Instruction]
    demo_sets: list[DemoSet] = field(default_factory=list)
    tried: dict[str, Candidate] = field(default_factory=dict)
    race_results: dict[str, RaceResult] = field(default_factory=dict)
    n_proposed: int = 0
    n_drawn_kinds: int = 0

    def leaders(self) -> list[RaceResult]:
        """Those that went far in their race, the greatest likely gain first."""
        longest = max((result.n_documents for result in self.race_results.values()), default=0)
        finished = [
            result
            for result in self.race_results.values()
            if result.reliable and result.n_documents >= FINISHED_SHARE * longest
        ]
        kind_gains = self.kinds()
        return sorted(
            finished, key=lambda result: (-expected_gain(result, kind_gains), result.candidate.id)
        )

    def kinds(self) -> dict[str, float]:
        """What each kind of candidate gains on average, towards nothing when seldom met."""
        results_of_kind: dict[str, list[RaceResult]] = {}
        for result in self.race_results.values():
            results_of_kind.setdefault(kind_of(result.candidate), []).append(result)
        return {
            kind: sum(result.n_documents * result.gain for result in results)
            / (sum(result.n_documents for result in results) + PRIOR_DOCUMENTS)
            for kind, results in results_of_kind.items()
        }

    def best_kinds(self, number: int) -> list[str]:
        """The kinds of demonstrations that gain most so far."""
        demo_gains: dict[str, float] = {}
        for kind, gain in self.kinds().items():
            demo_kind = kind.removeprefix(PROPOSED)
            if demo_kind != "none" and gain > 0:
                demo_gains[demo_kind] = max(demo_gains.get(demo_kind, 0.0), gain)
        return sorted(demo_gains, key=lambda demo_kind: (-demo_gains[demo_kind], demo_kind))[
            :number
        ]

    def gaining(self) -> list[Candidate]:
        return [result.candidate for result in self.leaders() if result.gain > 0]

    def history(self) -> list[tuple[str, float]]:
        """The best instructions with the rho each reached."""
        best: dict[str, float] = {}
        for race_result in self.race_results.values():
            text = race_result.candidate.instruction.text
            best[text] = max(best.get(text, -1.0), race_result.value)
        return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:5]


def expected_gain(result: RaceResult, kind_gains: Mapping[str, float]) -> float:
    """A gain measured with error, drawn towards what its kind gains: luck alone seldom repeats."""
    name = kind_of(result.candidate)
    kind_gain, spread = kind_gains[name], KIND_SPREADS[name.startswith(PROPOSED)]
    weight = spread**2 / (spread**2 + result.error**2)
    return kind_gain + weight * (result.gain - kind_gain)


def kind_of(candidate: Candidate) -> str:
    """How its demonstrations were chosen, and whether its instruction was proposed."""
    return (PROPOSED if candidate.instruction.round else "") + candidate.demo_set.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGenerator:
    """Makes new parts from what a parent gets wrong on `teaching`, the items that may teach."""

    evaluator: Evaluator
    propose: Propose
    teaching: Items
    guard: TextGuard
    plan: SearchPlan

    def instructions(
        self, number: int, parent: Candidate, state: SearchState, rejected: Rejected
    ) -> list[Instruction]:
        """New instructions, each from the mistakes on its own draw of documents."""
        items = self.evaluator.known(parent, self.teaching)
        scores = self.evaluator.scores(parent, items)
        mistake_lists = self._mistakes(number, items, scores)
        self.evaluator.budget.spend(self.evaluator.proposal * len(mistake_lists))
        texts = self.propose(parent.instruction.text, mistake_lists, state.history(), number)
        fresh: list[Instruction] = []
        for text in texts:
            state.n_proposed += 1
            known_texts = [instruction.text for instruction in (*state.instructions, *fresh)]
            if not isinstance(text, str):
                rejected(None, f"{NO_REPLY}: {text}" if text else NO_REPLY)
            elif reason := fault(text, self.guard, known_texts):
                rejected(text, reason)
            else:
                fresh.append(Instruction(text=text, round=number))
        state.instructions += fresh
        return fresh

    def _mistakes(self, number: int, items: Items, scores: Vector) -> list[str]:
        batch = max(1, min(LESSON_DOCUMENTS, len(items.documents) // 2))
        draws = [
            stream(self.plan.seed, "lesson", number, draw) for draw in range(self.plan.proposals)
        ]
        return sampled_mistakes(scores, items, self.evaluator.seed, batch, draws)

    def demo_sets(self, number: int, parent: Candidate, state: SearchState) -> list[DemoSet]:
        """New demonstration sets; where the parent is known to disagree, people may say so."""
        source = self._demo_source(parent)
        if not len(source.items):
            return []
        plan = self.plan
        best = state.best_kinds(plan.demo_sets // 2)
        sets = demo_sets(
            source,
            plan.demo_sizes,
            plan.longest_demos,
            stream(plan.seed, "demos", number),
            best=best,
            start=state.n_drawn_kinds,
        )
        state.n_drawn_kinds += plan.demo_sets - len(best)
        drawn = [next(sets) for _ in range(plan.demo_sets)]
        known = {frozenset(demo_set.ids) for demo_set in state.demo_sets}
        fresh: list[DemoSet] = []
        for demo_set in drawn:
            if demo_set.demos and frozenset(demo_set.ids) not in known:
                known.add(frozenset(demo_set.ids))
                fresh.append(demo_set)
        state.demo_sets += fresh
        return fresh

    def largest(self) -> DemoSet:
        """As much of train as can be shown: no race judges what leaves nothing to judge it on."""
        return largest_demo_set(self.teaching, self.evaluator.seed, self.plan)

    def _demo_source(self, judge: Candidate) -> DemoSource:
        """All that may be shown; the judge's scores where it has given any."""
        items = usable(self.teaching, self.evaluator.seed)
        return DemoSource(
            items=items,
            scores=self.evaluator.known_scores(judge, items),
            prompt=self.evaluator.seed,
            comments=self.evaluator.comments(judge),
        )


def largest_demo_set(items: Items, seed: Prompt, plan: SearchPlan) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    usable_items = usable(items, seed)
    if not len(usable_items):
        return DemoSet()
    source = DemoSource(
        items=usable_items, scores=np.full(len(usable_items), np.nan), prompt=seed, comments={}
    )
    rng, kind = stream(plan.seed, EVERYTHING), f"levels {max(plan.demo_sizes)}"
    demo_set = next(demo_sets(source, (), plan.longest_demos, rng, best=[kind], share=1.0))
    # Of outputs with the same texts one is shown.
    different = {tuple(item.texts.values()) for item in usable_items.items}
    return replace(demo_set, kind=EVERYTHING) if len(demo_set.demos) == len(different) else demo_set


def next_candidates(
    parent: Candidate,
    instructions: Sequence[Instruction],
    demo_sets: Sequence[DemoSet],
    state: SearchState,
) -> list[Candidate]:
    """Crosses of the leaders, then new parts beside the parent's others: the surest first."""
    leaders = state.gaining()[:LEADERS_CROSSED]
    crosses = [
        Candidate(instruction=first.instruction, demo_set=second.demo_set)
        for first in leaders
        for second in leaders
        if first.instruction != second.instruction and first.demo_set != second.demo_set
    ]
    with_instructions = [
        Candidate(instruction=instruction, demo_set=parent.demo_set) for instruction in instructions
    ]
    with_demos = [
        Candidate(instruction=parent.instruction, demo_set=demo_set) for demo_set in demo_sets
    ]
    pairs = zip(with_instructions, with_demos, strict=False)
    shorter = min(len(with_instructions), len(with_demos))
    # In turn, so that a small budget tries some of each.
    new = (
        [candidate for pair in pairs for candidate in pair]
        + with_instructions[shorter:]
        + with_demos[shorter:]
    )
    candidates = {candidate.id: candidate for candidate in [*crosses[:LEADERS_CROSSED], *new]}
    return [candidate for name, candidate in candidates.items() if name not in state.tried]
