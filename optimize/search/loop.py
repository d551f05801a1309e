"""The rank search: propose instructions and demonstrations, race them on train, choose on dev.

The same seed, items and replies make the same trials, whatever was journalled before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate, Instruction, TextGuard
from optimize.search.chance import stream
from optimize.search.decision import Compared, compare, decide
from optimize.search.entrants import Plan, Pool, Propose, Workshop, entrants
from optimize.search.gate import Choice
from optimize.search.items import Items
from optimize.search.objective import Level, tells
from optimize.search.race import FEWEST_DOCUMENTS, Prices, Track, race, stand
from optimize.search.trials import Record as Record
from optimize.search.trials import Trials

# With fewer systems, those never shown would cost more than it is worth to know of them.
SYSTEMS_FOR_HOLDING_OUT = 7
# Rounds that share what is left of the budget: later ones build on better parents.
ROUNDS_SAVED_FOR = 3
# A race worth having: so many run on half of train.
DECENT_FIELD = 6
# The seed runs first, since its mistakes are the first lessons, on so much of a round's calls.
SEEDS_SHARE = 0.25
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
        once, half = max(1, bench.price(dev)), bench.budget.left // 2
        self._n_finalists = max(1, min(plan.finalists, half // once - 1))
        self._for_dev = min((1 + self._n_finalists) * once, half)
        self._finalists: list[Candidate] | None = None

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

    def _share(self, number: int) -> int:
        """Calls for this round: the rounds to come keep theirs, if they can do much with them."""
        decent = DECENT_FIELD * self.bench.price(self.track.items) // 2
        rounds = min(ROUNDS_SAVED_FOR, self.plan.rounds - number + 1, self._left() // decent)
        return self._left() // max(1, rounds)

    def _round(self, number: int) -> bool:
        """Propose, show, race; False where the budget does not allow it."""
        bench, pool, track = self.bench, self.pool, self.track
        again = pool.gaining()[:2]
        parent = self._parent()
        end = bench.budget.spent + self._share(number)
        if not self._run_seed(int(SEEDS_SHARE * self._share(number))):
            return False
        if end - bench.budget.spent < bench.proposal * self.plan.proposals:
            return False
        instructions = self.workshop.instructions(
            number,
            parent,
            pool,
            lambda text, why: self.trials.write("rejected", number, instruction=text, why=why),
        )
        shown = self.workshop.demo_sets(number, parent, pool)
        fresh = entrants(parent, instructions, shown, pool)
        if not fresh:
            return False
        stood = race(
            bench,
            track,
            [*again, *fresh],
            end - bench.budget.spent,
            lambda rung, one: self.trials.raced(number, rung, one),
        )
        for standing in stood:
            pool.standings[standing.candidate.id] = standing
            pool.tried[standing.candidate.id] = standing.candidate
        return bool(stood)

    def _run_seed(self, calls: int) -> bool:
        """Run the seed as far as these calls reach; False where that is not far enough to race."""
        longest = len(self.track.order)
        prices = Prices(self.bench, self.track, [])
        size = max((n for n in range(longest + 1) if prices.seed(n) <= calls), default=0)
        if size < min(FEWEST_DOCUMENTS, longest):
            return False
        stand(self.bench, self.track, self.seed, size)
        return True

    @property
    def finalists(self) -> list[Candidate]:
        """The leaders taught by all of train, which the race held back, then as they raced."""
        if self._finalists is None:
            leaders = self.pool.gaining()[: self._n_finalists]
            whole = [self.workshop.taught_by_all(one) for one in leaders]
            found = {one.id: one for one in [*whole, *leaders]}
            self._finalists = list(found.values())[: self._n_finalists]
        return self._finalists

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
    told = tells(train, level)
    order = stream(chance, "order").permutation(len(told))
    return Track(items=train, order=tuple(told[index] for index in order), level=level, seed=seed)
