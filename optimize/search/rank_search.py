"""The rank search: propose instructions and demonstrations, race them on train, choose on dev.

The same seed, items and replies make the same trials, whatever was journalled before.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from judges.inference.budget import BudgetSpentError
from optimize.items import Items
from optimize.search.candidates import Candidate, Instruction, TextGuard
from optimize.search.evaluator import Evaluator
from optimize.search.finalists import SYSTEMS_FOR_HOLDING_OUT, CrossFit, Scored, decide, score_both
from optimize.search.gate import Choice, undecided
from optimize.search.generator import CandidateGenerator, Plan, Pool, Propose, next_candidates
from optimize.search.objective import Level, tells
from optimize.search.race import FEWEST_DOCUMENTS, OUT, Prices, RaceResult, Track, race, stand
from optimize.statistics.bootstrap import stream

Told = str | int | float | None | list[str]
Record = Mapping[str, Told]


class TrialRecorder:
    """Numbers the trials, and says with each how many calls were spent by then."""

    def __init__(self, evaluator: Evaluator, record: Callable[[Record], None]) -> None:
        self._evaluator, self._record, self._number = evaluator, record, 0

    def write(self, stage: str, round_number: int | None, **told: Told) -> None:
        self._number += 1
        head: dict[str, Told] = {"trial": self._number, "stage": stage, "round": round_number}
        self._record({**head, **told, "calls": self._evaluator.budget.spent})

    def raced(self, round_number: int, rung: int, one: RaceResult) -> None:
        self.write(
            "race",
            round_number,
            rung=rung,
            **_identity(one.candidate),
            value=_rounded(one.value),
            gain=_rounded(one.gain),
            error=_rounded(one.error),
            n_documents=one.n_documents,
        )

    def stock(self, one: Candidate, value: float) -> None:
        self.write("stock", None, **_identity(one), value=_rounded(value))

    def compared(
        self, split: str, one: Candidate, value: float, gain: float, n_documents: int
    ) -> None:
        told = {"value": _rounded(value), "gain": _rounded(gain), "n_documents": n_documents}
        self.write(split, None, **_identity(one), **told)


def _identity(one: Candidate) -> dict[str, Told]:
    return {
        "candidate": one.id,
        "instruction": one.instruction.text,
        "demos": list(one.shown.ids),
        "how": one.shown.how,
    }


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None


# Rounds that share what is left of the budget: later ones build on better parents.
ROUNDS_SAVED_FOR = 3
# A race worth having: so many run on half of train.
DECENT_FIELD = 6
# So many documents of dev tell finalists apart: a race comes before the rest of them.
DOCUMENTS_TO_CHOOSE_ON = 100
# The seed runs first, since its mistakes are the first lessons, on so much of a round's calls.
SEEDS_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search ends with: the tuned judge, whether to ship it, and why.

    `cross_fit` tells who judges train and dev for a judge that shows them.
    """

    tuned: Candidate
    cross_fit: CrossFit = field(compare=False, repr=False)
    choice: Choice
    n_tried: int
    n_proposed: int
    calls: int


class RankSearch:
    """One search: `explore()` finds finalists on train, `decided()` takes them to dev."""

    def __init__(
        self,
        *,
        evaluator: Evaluator,
        propose: Propose,
        train: Items,
        dev: Items,
        level: Level,
        plan: Plan,
        trials: TrialRecorder,
    ) -> None:
        self.evaluator, self.plan, self.train, self.dev = evaluator, plan, train, dev
        self.seed = Candidate(instruction=Instruction(text=evaluator.seed.instruction))
        self.pool = Pool(instructions=[self.seed.instruction])
        self.trials = trials
        self.track = _track(train, level, self.seed, plan.seed)
        self.unshown = unshown_systems(train, plan.seed)
        texts = (text for item in (*train.items, *dev.items) for text in item.texts.values())
        self.generator = CandidateGenerator(
            evaluator=evaluator,
            propose=propose,
            lessons=train.without_systems(self.unshown),
            guard=TextGuard(texts),
            plan=plan,
        )
        self.cross_fit = CrossFit(Items((*train.items, *dev.items)), evaluator.seed, plan)
        most = self.cross_fit.whole if self.cross_fit.possible else self.generator.largest()
        self._whole = Candidate(instruction=self.seed.instruction, shown=most)
        # The final gets its share first: a race without one tells nothing. Where the calls reach
        # for one finalist alone there is no race: everything goes to dev. Of a large dev they meet
        # as many documents as the calls reach for.
        enough = dev.of_documents(dev.documents[:DOCUMENTS_TO_CHOOSE_ON])
        once, half = max(1, evaluator.price(enough)), evaluator.budget.left // 2
        self.n_finalists = max(1, min(plan.finalists, half // once - 1))
        on_train = 2 * evaluator.price(train) if self.cross_fit.possible else 0
        final = (1 + self.n_finalists) * evaluator.price(dev) + on_train
        self._for_dev = min(final, half) if self.n_finalists > 1 else evaluator.budget.left

    def explore(self) -> None:
        """Propose and race, round after round, until nothing better comes or the budget ends."""
        if self.n_finalists == 1 and self._whole.shown.demos:
            return
        self.evaluator.budget.hold(self._for_dev)
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
        return self.evaluator.budget.left - self._for_dev

    def _parent(self) -> Candidate:
        return next(iter(self.pool.gaining()), self.seed)

    def _share(self, number: int) -> int:
        """Calls for this round: the rounds to come keep theirs, if they can do much with them."""
        decent = DECENT_FIELD * self.evaluator.price(self.track.items) // 2
        rounds = min(ROUNDS_SAVED_FOR, self.plan.rounds - number + 1, self._left() // decent)
        return self._left() // max(1, rounds)

    def _round(self, number: int) -> bool:
        """Propose, show, race; False where the budget does not allow it."""
        evaluator, pool, track = self.evaluator, self.pool, self.track
        again = pool.gaining()[:2]
        parent = self._parent()
        end = evaluator.budget.spent + self._share(number)
        if not self._run_seed(int(SEEDS_SHARE * self._share(number))):
            return False
        shown = self.generator.demo_sets(number, parent, pool)
        # Demonstrations first: an instruction that answers mistakes had better answer those that
        # are left when people's own ratings have been shown.
        instructions = self._instructions(number, parent) if number > 1 or not shown else []
        fresh = next_candidates(parent, instructions, shown, pool)
        if not fresh:
            return False
        stood = race(
            evaluator,
            track,
            [*again, *fresh],
            end - evaluator.budget.spent,
            lambda rung, one: self.trials.raced(number, rung, one),
        )
        for race_result in stood:
            pool.race_results[race_result.candidate.id] = race_result
            pool.tried[race_result.candidate.id] = race_result.candidate
        return bool(stood)

    def _instructions(self, number: int, parent: Candidate) -> list[Instruction]:
        if self._left() < self.evaluator.proposal * self.plan.proposals:
            return []
        return self.generator.instructions(
            number,
            parent,
            self.pool,
            lambda text, why: self.trials.write("rejected", number, instruction=text, why=why),
        )

    def _run_seed(self, calls: int) -> bool:
        """Run the seed as far as these calls reach; False where that is not far enough to race."""
        longest = len(self.track.order)
        prices = Prices(self.evaluator, self.track, [])
        size = max((n for n in range(longest + 1) if prices.seed(n) <= calls), default=0)
        if size < min(FEWEST_DOCUMENTS, longest):
            return False
        stand(self.evaluator, self.track, self.seed, size)
        return True

    def finalists(self) -> list[Candidate]:
        """What shows the most, then the leaders, with all that may teach if that can be shown.

        Where everything can be shown, a part of it is no finalist: what a race takes for the better
        part is mostly luck, and more documents teach more.
        """
        leaders = self.pool.gaining()[: self.n_finalists]
        found = [self._whole] if self._whole.shown.demos and self._may_show_all() else []
        if found and self.cross_fit.possible:
            found += [replace(self._whole, instruction=one.instruction) for one in leaders]
            leaders = [one for one in leaders if not one.shown.demos]
        found += leaders
        return list({one.id: one for one in found}.values())[: self.n_finalists]

    def _may_show_all(self) -> bool:
        """Unless every large set that raced was clearly worse than the seed."""
        large = str(max(self.plan.demo_sizes))
        met = [
            one
            for one in self.pool.race_results.values()
            if one.candidate.shown.how.endswith(large) and not one.candidate.instruction.round
        ]
        return not met or any(one.gain + OUT * one.error >= 0 for one in met)

    def decided(self) -> Found:
        """Compare the finalists on dev, and let the gate choose."""
        finalists = self.finalists()
        on_dev = self._scored(finalists, "dev", self.dev)
        on_train = {}
        if self.cross_fit.possible and self._whole in finalists:
            # Neither its words nor its demonstrations were chosen by train, which may judge it too.
            (there,) = self._scored([self._whole], "train", self.train)
            on_train = {finalists.index(self._whole): there}
        rng = stream(self.plan.seed, "gate")
        n_tried = len({*self.pool.tried, *(one.id for one in finalists)})
        choice = decide(on_dev, on_train, self.track.level, n_tried, rng)
        return Found(
            tuned=self.seed if choice.best is None else finalists[choice.best],
            cross_fit=self.cross_fit,
            choice=choice,
            n_tried=n_tried,
            n_proposed=self.pool.n_proposed,
            calls=self.evaluator.budget.spent,
        )

    def undecided(self) -> Found:
        """What the search ends with where the budget ends before the choice."""
        return Found(
            tuned=self.seed,
            cross_fit=self.cross_fit,
            choice=undecided(len(self.pool.tried)),
            n_tried=len(self.pool.tried),
            n_proposed=self.pool.n_proposed,
            calls=self.evaluator.budget.spent,
        )

    def _scored(self, candidates: Sequence[Candidate], split: str, items: Items) -> list[Scored]:
        return score_both(
            evaluator=self.evaluator,
            cross_fit=self.cross_fit,
            seed=self.seed,
            candidates=candidates,
            items=items,
            level=self.track.level,
            unshown=self.unshown,
            seen=partial(self.trials.compared, split),
        )


def rank_search(
    *,
    evaluator: Evaluator,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: Plan,
    record: Callable[[Record], None],
) -> Found:
    """Search on train, choose on dev."""
    search = RankSearch(
        evaluator=evaluator,
        propose=propose,
        train=train,
        dev=dev,
        level=level,
        plan=plan,
        trials=TrialRecorder(evaluator, record),
    )
    search.explore()
    try:
        return search.decided()
    except BudgetSpentError:
        return search.undecided()


def unshown_systems(train: Items, seed: int) -> frozenset[str]:
    """A quarter of the systems is never shown, so that dev can tell whether a gain carries over."""
    systems = train.systems
    if len(systems) < SYSTEMS_FOR_HOLDING_OUT:
        return frozenset()
    drawn = stream(seed, "systems").permutation(len(systems))[: max(2, len(systems) // 4)]
    return frozenset(systems[index] for index in drawn)


def _track(train: Items, level: Level, seed: Candidate, chance: int) -> Track:
    told = tells(train, level)
    order = stream(chance, "order").permutation(len(told))
    return Track(items=train, order=tuple(told[index] for index in order), level=level, seed=seed)
