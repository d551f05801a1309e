"""The rank search: propose instructions and demonstrations, race them on train, choose on dev.

The same seed, items and replies make the same trials, whatever was journalled before.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate, Instruction, TextGuard
from optimize.search.chance import stream
from optimize.search.decision import Compared, compare, decide
from optimize.search.entrants import Plan, Pool, Propose, Workshop, entrants
from optimize.search.gate import Choice
from optimize.search.items import Items
from optimize.search.objective import Level
from optimize.search.race import Standing, Track, cost, race, rungs, stand

Told = str | int | float | None | list[str]
Record = Mapping[str, Told]

SYSTEMS_FOR_HOLDING_OUT = 6
# Rounds that share what is left of the budget: later ones build on better parents.
ROUNDS_SAVED_FOR = 3
# Calls for each labelled item from which on a search is turned round too.
CALLS_TO_TURN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search ends with: the tuned judge, whether to ship it, and why."""

    tuned: Candidate
    choice: Choice
    n_tried: int
    n_proposed: int
    calls: int


class Trials:
    """Every trial, numbered, as it happens."""

    def __init__(self, bench: Bench, record: Callable[[Record], None]) -> None:
        self._bench, self._record, self._number = bench, record, 0
        self.turned = False

    def write(self, stage: str, round_number: int | None, **told: Told) -> None:
        self._number += 1
        head: dict[str, Told] = {"trial": self._number, "stage": stage, "round": round_number}
        if self.turned:
            # Learned from dev and raced there, compared on train.
            head["turned"] = True
        self._record({**head, **told, "calls": self._bench.budget.spent})

    def raced(self, round_number: int, rung: int, one: Standing) -> None:
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

    def met_dev(self, one: Candidate, value: float, gain: float, n_documents: int) -> None:
        told = {"value": _rounded(value), "gain": _rounded(gain), "n_documents": n_documents}
        self.write("dev", None, **_identity(one), **told)


class RankSearch:
    """One search: `explore()` finds finalists on train, `compared()` takes them to dev."""

    def __init__(
        self,
        *,
        bench: Bench,
        propose: Propose,
        train: Items,
        dev: Items,
        level: Level,
        plan: Plan,
        trials: Trials,
    ) -> None:
        self.bench, self.plan, self.dev = bench, plan, dev
        self.seed = Candidate(instruction=Instruction(text=bench.seed.instruction))
        self.pool = Pool(instructions=[self.seed.instruction])
        self.trials = trials
        self.track = _track(train, level, self.seed, plan.seed)
        self.unshown = unshown_systems(train, plan.seed)
        lessons = train.of_systems(set(train.systems) - self.unshown) if self.unshown else train
        texts = (text for item in (*train.items, *dev.items) for text in item.texts.values())
        self.workshop = Workshop(
            bench=bench, propose=propose, lessons=lessons, guard=TextGuard(texts), plan=plan
        )
        # Dev gets its share first: a race without a final tells nothing.
        everyone = bench.cost(self.seed, dev) + plan.finalists * bench.price(dev)
        self._for_dev = min(everyone, bench.budget.left // 2)

    def explore(self) -> None:
        """Propose and race, round after round, until nothing better comes or the budget ends."""
        idle = 0
        for number in range(1, self.plan.rounds + 1):
            before = self._parent().id
            if not self._round(number):
                break
            idle = idle + 1 if self._parent().id == before else 0
            if idle == self.plan.patience:
                break

    def _left(self) -> int:
        return self.bench.budget.left - self._for_dev

    def _parent(self) -> Candidate:
        return next(iter(self.pool.gaining()), self.seed)

    def _round(self, number: int) -> bool:
        """Propose, show, race; False where the budget does not allow it."""
        bench, pool, track = self.bench, self.pool, self.track
        again = pool.gaining()[:2]
        parent = self._parent()
        # The seed runs first and furthest: every gain is measured against it, and its mistakes
        # are the first lessons.
        far = [rung for rung in range(len(track.rungs)) if self._can_seed(rung)]
        if not far:
            return False
        stand(bench, track, self.seed, far[-1])
        if self._left() < bench.proposal * self.plan.proposals:
            return False
        instructions = self.workshop.instructions(
            number,
            parent,
            pool,
            lambda text, why: self.trials.write("rejected", number, instruction=text, why=why),
        )
        shown = self.workshop.demo_sets(number, parent, pool)
        fresh = entrants(parent, instructions, shown, pool)
        fresh = fresh[: self._affordable(fresh, number)]
        if not fresh:
            return False
        pool.tried.update({one.id: one for one in fresh})
        for standing in race(
            bench,
            track,
            [*again, *fresh],
            self._left,
            lambda rung, one: self.trials.raced(number, rung, one),
        ):
            pool.standings[standing.candidate.id] = standing
        return True

    def _can_seed(self, rung: int) -> bool:
        """A third of the race's calls at most may go to the seed."""
        price = cost(self.bench, self.track, self.seed, rung)
        return price == 0 or (price <= self._left() // 3)

    def _affordable(self, fresh: Sequence[Candidate], number: int) -> int:
        """How many may enter so that the rounds to come keep their share of the calls."""
        share = self._left() / min(ROUNDS_SAVED_FOR, self.plan.rounds - number + 1)
        spent = 0.0
        for count, candidate in enumerate(fresh):
            prices = [
                cost(self.bench, self.track, candidate, rung)
                for rung in range(len(self.track.rungs))
            ]
            # Half the field goes on at every rung.
            steps = itertools.pairwise([0, *prices])
            spent += sum((after - before) / 2**rung for rung, (before, after) in enumerate(steps))
            if spent > share:
                return count
        return len(fresh)

    @property
    def finalists(self) -> list[Candidate]:
        return self.pool.gaining()[: self.plan.finalists]

    def evidence(self) -> Compared:
        """What the best finalist adds to the seed; nothing at all where there is none."""
        found = self.compared()
        if len(found.differences):
            return found
        return Compared(differences=np.zeros((1, len(self.dev.documents))), unseen=None)

    def compared(self) -> Compared:
        return compare(
            bench=self.bench,
            seed=self.seed,
            candidates=self.finalists,
            dev=self.dev,
            level=self.track.level,
            unshown=self.unshown,
            seen=self.trials.met_dev,
        )


def rank_search(
    *,
    bench: Bench,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: Plan,
    record: Callable[[Record], None],
) -> Found:
    """Search on train, choose on dev; where calls abound, turned round as well, for evidence."""
    trials = Trials(bench, record)

    def explored(learn: Items, judge: Items, part: Plan) -> RankSearch:
        one = RankSearch(
            bench=bench,
            propose=propose,
            train=learn,
            dev=judge,
            level=level,
            plan=part,
            trials=trials,
        )
        one.explore()
        return one

    turned, beside = None, None
    if plan.turned and bench.budget.left >= CALLS_TO_TURN * (len(train) + len(dev)):
        whole = bench.budget
        bench.budget = whole.half()
        trials.turned = True
        turned = explored(dev, train, replace(plan, finalists=1))
        beside = turned.evidence()
        trials.turned = False
        whole.spent = bench.budget.spent
        bench.budget = whole
    straight = explored(train, dev, plan)
    pools = [one.pool for one in (straight, turned) if one is not None]
    n_tried = sum(len(pool.tried) for pool in pools)
    choice = decide(straight.compared(), beside, n_tried, stream(plan.seed, "gate"))
    return Found(
        tuned=straight.seed if choice.best is None else straight.finalists[choice.best],
        choice=choice,
        n_tried=n_tried,
        n_proposed=sum(pool.n_proposed for pool in pools),
        calls=bench.budget.spent,
    )


def unshown_systems(train: Items, seed: int) -> frozenset[str]:
    """A quarter of the systems is never shown, so that dev can tell whether a gain carries over."""
    systems = train.systems
    if len(systems) < SYSTEMS_FOR_HOLDING_OUT:
        return frozenset()
    drawn = stream(seed, "systems").permutation(len(systems))[: max(2, len(systems) // 4)]
    return frozenset(systems[index] for index in drawn)


def _track(train: Items, level: Level, seed: Candidate, chance: int) -> Track:
    documents = train.documents
    order = stream(chance, "order").permutation(len(documents))
    return Track(
        items=train,
        order=tuple(documents[index] for index in order),
        rungs=rungs(len(documents)),
        level=level,
        seed=seed,
    )


def _identity(one: Candidate) -> dict[str, Told]:
    return {
        "candidate": one.id,
        "instruction": one.instruction.text,
        "demos": list(one.shown.ids),
        "how": one.shown.how,
    }


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None
