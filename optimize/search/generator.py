"""Who enters the next race: new instructions, new demonstration sets, crosses of the best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import NoScoreError
from judges.prompt import Prompt
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate, DemoSet, Instruction, TextGuard, fault
from optimize.search.demos import Lessons, demo_sets, usable
from optimize.search.evaluator import Evaluator
from optimize.search.proposals import mistakes
from optimize.search.race import RaceResult
from optimize.statistics.bootstrap import stream

# (instruction, mistakes, history best first, round) -> one text for each entry of mistakes; None
# or NoScoreError, which says why, where no reply could be read.
History = Sequence[tuple[str, float]]
Propose = Callable[[str, Sequence[str], History, int], Sequence[str | NoScoreError | None]]
Rejected = Callable[[str | None, str], None]

NO_REPLY = "no reply that could be read"
LESSON_DOCUMENTS = 10
LEADERS_CROSSED = 4
# Leaders have met so much of train, or of what their demonstrations left of it.
FAR = 0.4
# A kind of demonstrations met on so many documents is believed by half.
DOCUMENTS_TO_BELIEVE = 30
PROPOSED = "proposed, "
# How a set was chosen that shows everything.
ALL = "all"
# How far the gains of two candidates of one kind lie apart: demonstrations alike in choice and
# size do about the same, proposed instructions differ widely.
SPREADS = {False: 0.03, True: 0.08}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How wide and how long to search."""

    seed: int = 0
    rounds: int = 8
    proposals: int = 4
    demo_sets: int = 6
    demo_sizes: tuple[int, ...] = (4, 8, 16)
    # Characters of demonstrated texts: every later call pays for them again.
    longest_demos: int = 40_000
    finalists: int = 3
    # Rounds without a new leader before the search ends.
    patience: int = 3


@dataclass(slots=True, kw_only=True)
class Pool:
    """What the rounds have made and learned so far."""

    instructions: list[Instruction]
    shown: list[DemoSet] = field(default_factory=list)
    tried: dict[str, Candidate] = field(default_factory=dict)
    race_results: dict[str, RaceResult] = field(default_factory=dict)
    n_proposed: int = 0
    n_cycled: int = 0

    def leaders(self) -> list[RaceResult]:
        """Those that went far in their race, the greatest likely gain first."""
        longest = max((one.n_documents for one in self.race_results.values()), default=0)
        ran = [
            one
            for one in self.race_results.values()
            if one.readable and one.n_documents >= FAR * longest
        ]
        kinds = self.kinds()
        return sorted(ran, key=lambda one: (-likely(one, kinds), one.candidate.id))

    def kinds(self) -> dict[str, float]:
        """What each kind of candidate gains on average, towards nothing when seldom met."""
        met: dict[str, list[RaceResult]] = {}
        for one in self.race_results.values():
            met.setdefault(kind_of(one.candidate), []).append(one)
        return {
            kind: sum(one.n_documents * one.gain for one in those)
            / (sum(one.n_documents for one in those) + DOCUMENTS_TO_BELIEVE)
            for kind, those in met.items()
        }

    def best_kinds(self, number: int) -> list[str]:
        """The kinds of demonstrations that gain most so far."""
        shown: dict[str, float] = {}
        for kind, gain in self.kinds().items():
            how = kind.removeprefix(PROPOSED)
            if how != "none" and gain > 0:
                shown[how] = max(shown.get(how, 0.0), gain)
        return sorted(shown, key=lambda how: (-shown[how], how))[:number]

    def gaining(self) -> list[Candidate]:
        return [one.candidate for one in self.leaders() if one.gain > 0]

    def history(self) -> list[tuple[str, float]]:
        """The best instructions with the rho each reached."""
        best: dict[str, float] = {}
        for race_result in self.race_results.values():
            text = race_result.candidate.instruction.text
            best[text] = max(best.get(text, -1.0), race_result.value)
        return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:5]


def likely(one: RaceResult, kinds: Mapping[str, float]) -> float:
    """A gain measured with error, drawn towards what its kind gains: luck alone seldom repeats."""
    name = kind_of(one.candidate)
    kind, spread = kinds[name], SPREADS[name.startswith(PROPOSED)]
    trust = spread**2 / (spread**2 + one.error**2)
    return kind + trust * (one.gain - kind)


def kind_of(one: Candidate) -> str:
    """How its demonstrations were chosen, and whether its instruction was proposed."""
    return (PROPOSED if one.instruction.round else "") + one.shown.how


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGenerator:
    """Makes new parts from what a parent gets wrong on `lessons`, the items that may teach."""

    evaluator: Evaluator
    propose: Propose
    lessons: Items
    guard: TextGuard
    plan: Plan

    def instructions(
        self, number: int, parent: Candidate, pool: Pool, rejected: Rejected
    ) -> list[Instruction]:
        """New instructions, each from the mistakes on its own draw of documents."""
        items = self.evaluator.known(parent, self.lessons)
        scores = self.evaluator.scores(parent, items)
        asked = self._mistakes(number, items, scores)
        self.evaluator.budget.spend(self.evaluator.proposal * len(asked))
        texts = self.propose(parent.instruction.text, asked, pool.history(), number)
        fresh: list[Instruction] = []
        for text in texts:
            pool.n_proposed += 1
            known = [one.text for one in (*pool.instructions, *fresh)]
            if not isinstance(text, str):
                rejected(None, f"{NO_REPLY}: {text}" if text else NO_REPLY)
            elif wrong := fault(text, self.guard, known):
                rejected(text, wrong)
            else:
                fresh.append(Instruction(text=text, round=number))
        pool.instructions += fresh
        return fresh

    def _mistakes(self, number: int, items: Items, scores: Vector) -> list[str]:
        documents = items.documents
        batch = max(1, min(LESSON_DOCUMENTS, len(documents) // 2))
        asked = []
        for draw in range(self.plan.proposals):
            order = stream(self.plan.seed, "lesson", number, draw).permutation(len(documents))
            names = {documents[index] for index in order[:batch]}
            rows = [row for row, item in enumerate(items.items) if item.document_id in names]
            part = Items(tuple(items.items[row] for row in rows))
            asked.append(mistakes(scores[rows], part, self.evaluator.seed))
        return asked

    def demo_sets(self, number: int, parent: Candidate, pool: Pool) -> list[DemoSet]:
        """New demonstration sets; where the parent is known to disagree, people may say so."""
        lessons = self._lessons(parent)
        if not len(lessons.items):
            return []
        plan = self.plan
        best = pool.best_kinds(plan.demo_sets // 2)
        sets = demo_sets(
            lessons,
            plan.demo_sizes,
            plan.longest_demos,
            stream(plan.seed, "demos", number),
            best=best,
            start=pool.n_cycled,
        )
        pool.n_cycled += plan.demo_sets - len(best)
        drawn = [next(sets) for _ in range(plan.demo_sets)]
        known = {frozenset(one.ids) for one in pool.shown}
        fresh: list[DemoSet] = []
        for one in drawn:
            if one.demos and frozenset(one.ids) not in known:
                known.add(frozenset(one.ids))
                fresh.append(one)
        pool.shown += fresh
        return fresh

    def largest(self) -> DemoSet:
        """As much of train as can be shown: no race judges what leaves nothing to judge it on."""
        return whole_set(self.lessons, self.evaluator.seed, self.plan)

    def _lessons(self, judge: Candidate) -> Lessons:
        """All that may be shown; the judge's scores where it has given any."""
        items = usable(self.lessons, self.evaluator.seed)
        return Lessons(
            items=items,
            scores=self.evaluator.told(judge, items),
            prompt=self.evaluator.seed,
            comments=self.evaluator.comments(judge),
        )


def whole_set(items: Items, seed: Prompt, plan: Plan) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    fit = usable(items, seed)
    if not len(fit):
        return DemoSet()
    lessons = Lessons(items=fit, scores=np.full(len(fit), np.nan), prompt=seed, comments={})
    rng, kind = stream(plan.seed, ALL), f"levels {max(plan.demo_sizes)}"
    shown = next(demo_sets(lessons, (), plan.longest_demos, rng, best=[kind], share=1.0))
    # Of outputs with the same texts one is shown.
    different = {tuple(item.texts.values()) for item in fit.items}
    return replace(shown, how=ALL) if len(shown.demos) == len(different) else shown


def next_candidates(
    parent: Candidate, instructions: Sequence[Instruction], shown: Sequence[DemoSet], pool: Pool
) -> list[Candidate]:
    """Crosses of the leaders, then new parts beside the parent's others: the surest first."""
    gaining = pool.gaining()[:LEADERS_CROSSED]
    crossed = [
        Candidate(instruction=one.instruction, shown=other.shown)
        for one in gaining
        for other in gaining
        if one.instruction != other.instruction and one.shown != other.shown
    ]
    told = [Candidate(instruction=one, shown=parent.shown) for one in instructions]
    taught = [Candidate(instruction=parent.instruction, shown=one) for one in shown]
    both = zip(told, taught, strict=False)
    shorter = min(len(told), len(taught))
    # In turn, so that a small budget tries some of each.
    new = [one for pair in both for one in pair] + told[shorter:] + taught[shorter:]
    found = {one.id: one for one in [*crossed[:LEADERS_CROSSED], *new]}
    return [one for name, one in found.items() if name not in pool.tried]
