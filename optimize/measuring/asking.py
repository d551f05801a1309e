"""Where judgements come from: judges that are asked within one budget, replies, or numbers."""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import SupportsFloat, Unpack

from judges.cli.table import CostEstimate, estimate_runs, total_estimate
from judges.client import (
    BudgetSpentError,
    Client,
    Counts,
    ModelOptions,
    Session,
    answers_in_process,
    find_price,
    price_of,
)
from judges.dimension import Subject
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference, choice_of
from judges.labels.types import LabelError, LabelledPairs
from judges.labels.values import Values
from judges.panel import AnyJudge
from judges.protocol import FatalModelError, is_embedded
from judges.terminal import Progress, print_note
from optimize.figures.as_json import DIGITS, Cell, json_number
from optimize.inputs.flags import bounds_of, rescale, whole_ratings
from optimize.inputs.labelled import PASS_FAIL, AnyLevel, Labelled, check_level, words_of
from optimize.items import Items, choose_level, items_of, n_tied_of
from optimize.measuring.recorded import judgement, preference, read_pair_replies, read_replies
from optimize.measuring.scored import Scored, labelled_in_order, tuned_rows
from optimize.statistics.correlations import Level

ById = Mapping[str, AnyJudgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What judges are measured on: the labels on one dimension, at one level."""

    dimension: str
    labelled: Labelled
    level: Level

    @classmethod
    def of(cls, labelled: Labelled, dimension: str, level: AnyLevel = "auto") -> "Task":
        """The labels at a level, by default at one that suits them; else SettingsError."""
        items, pairs = items_of(labelled, dimension), isinstance(labelled, LabelledPairs)
        check_level(level, items, pairs=pairs)
        # By what is labelled, not by what has a record: a judge must not choose its level.
        if level == "auto":
            level = "dataset" if pairs else choose_level(items)
        return cls(dimension=dimension, labelled=labelled, level=level)

    def items(self, judge: AnyJudge | None = None) -> Items:
        """All that is labelled, with the texts that the judge reads."""
        return items_of(self.labelled, self.dimension, judge.subject if judge else None)

    def scored(
        self, name: str, judgements: ById, judge: AnyJudge | None, scale: Sequence[int] = ()
    ) -> Scored:
        """Judgements beside the labels; what only one side knows is counted. Raises LabelError."""
        everything = self.items(judge)
        items = Items(tuple(item for item in everything.items if item.id in judgements))
        if not len(items):
            raise LabelError("no record's id is the id of a labelled output")
        return Scored(
            judge=name,
            dimension=self.dimension,
            level=self.level,
            items=items,
            judgements=tuple(judgements[item.id] for item in items.items),
            scale=tuple(judge.subject.scale if judge else scale),
            tuned_rows=tuned_rows(judge, items),
            tuned_documents=tuned_rows(judge, items, of_documents=True),
            labelled=labelled_in_order(self.labelled, items),
            n_tied=n_tied_of(self.labelled),
            n_unjudged=len(everything) - len(items),
            n_unknown=len(judgements) - len(items),
            words=words_of(self.labelled, self.dimension) or PASS_FAIL,
        )


def on_labels_scale(judge: AnyJudge, scale: str | None) -> AnyJudge:
    """The judge on the labels' scale; one that is frozen keeps the scale it was tuned on."""
    subject = judge.subject if judge.is_frozen else rescale(judge.subject, scale)
    return judge if subject is judge.subject else Judge.of(subject, lm=judge.lm)


def from_numbers(
    numbers: Iterable[tuple[object, SupportsFloat | None]], *, pairwise: bool = False
) -> ById:
    """Any judge's numbers by id, of pairs its margins for A; None and NaN: a failed judgement.

    Raises LabelError for an id with two numbers, as a Series may have, and TypeError.
    """
    by_id: dict[str, AnyJudgement] = {}
    for name, score in numbers:
        if not isinstance(score, SupportsFloat | None):
            raise TypeError(
                f"the score of {name!r} is {score!r}; a number is wanted, or NaN for none"
            )
        if str(name) in by_id:
            raise LabelError(f"an id has two scores ({name!r:.60}); give every output its own")
        number = math.nan if score is None else float(score)
        reason = getattr(score, "reason", None) or None
        if math.isnan(number):
            by_id[str(name)] = (Preference if pairwise else Judgement).failed(reason or "no score")
        elif pairwise:
            side = choice_of(number) or "tie"
            by_id[str(name)] = Preference(margin=number, preferred=side, comparison=reason)
        else:
            by_id[str(name)] = Judgement(score=number, rationale=reason)
    return by_id


def from_replies(
    path: Path, dimension: str, scale: Sequence[int], words: Values, *, pairwise: bool = False
) -> ById:
    """Any judge's raw replies; several on an output are averaged, a pair is asked in both orders.

    `words` are what words count, as --values has them, beside the numbers of the scale. Raises
    LabelError for a file without replies on the dimension, and for two records of an id.
    """
    records = list((read_pair_replies if pairwise else read_replies)(path, dimension=dimension))
    if not records:
        raise LabelError(f"{path.name}: no replies on {dimension!r}")
    name, count = Counter(record.id for record in records).most_common(1)[0]
    if count > 1:
        raise LabelError(
            f"{path.name}: {name!r:.60} is recorded {count} times; give it once, and the replies "
            "to each prompt in a file of their own"
        )
    if pairwise:
        return {record.id: preference(record, values=words) for record in records}
    return {
        record.id: judgement(record.replies, scale, values=words, names=(dimension,))
        for record in records
    }


def recorded_scale(scale: str | None, subject: Subject | None) -> tuple[int, ...]:
    """The whole ratings of --scale, else the subject's; none where neither is known."""
    if (bounds := bounds_of(scale)) is not None:
        return whole_ratings(bounds)
    return tuple(subject.scale) if subject else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """What asking a judge took; all None for a recording.

    Dollars for 1,000 rows are of all replies at list price, whoever paid for them, and None where
    the price is unknown. Seconds are wall time, and None where an earlier start or the reply cache
    answered some. The rest is the run's, over all its starts.
    """

    plan: str | None = None
    cost_per_1000_rows: float | None = None
    seconds_per_1000_rows: float | None = None
    lm_calls: int | None = None
    tokens: Mapping[str, int] | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One of several judges: to be asked (`judge`, about `items`), or recorded before (`scored`).

    `expected` is what asking may take of each paid model. Once it was asked, there are its scores,
    or why it has none (`reason`), and what that took (`usage`, for JSON).
    """

    name: str
    judge: AnyJudge | None = None
    items: Items = field(default_factory=lambda: Items(()))
    expected: tuple[CostEstimate, ...] = ()
    scored: Scored | None = None
    usage: JudgeUsage = JudgeUsage()
    reason: str = ""

    @property
    def in_process(self) -> bool:
        """Whether it is answered here, for free: nothing of it is kept or counted as paid."""
        return self.judge is None or all(is_embedded(part.lm) for part in self.judge.parts)

    def about(self, items: Items, price: tuple[float, float] | None) -> "Entry":
        """The same to be asked about these items; `price` is of models that no table knows."""
        assert self.judge is not None
        expected = estimate_runs(
            self.judge,
            n_rows=len(items),
            characters=sum(len(text) for item in items.items for text in item.texts.values()),
            orders=2 if self.judge.kind == "pairwise" else 1,
            price=None if find_price(self.judge.lm) else price_of(price),
        )
        paid = tuple(estimate for estimate in expected if not is_embedded(estimate.lm))
        return replace(self, items=items, expected=paid)

    def to_json(self) -> Cell:
        """Its name and source, what asking it took, and why it has no scores."""
        lm = self.judge.lm if self.judge else None
        cells = {"name": self.name, "source": "judge" if lm else "recorded", "lm": lm}
        return cells | asdict(self.usage) | ({"why": self.reason} if self.reason else {})


def total_dollars(amounts: Iterable[float | None]) -> float | None:
    """Their sum; None where one is unknown."""
    dollars = list(amounts)
    return None if None in dollars else round(math.fsum(filter(None, dollars)), DIGITS)


def ask_entries(
    entries: Sequence[Entry], task: Task, *, seed: int, **options: Unpack[ModelOptions]
) -> list[Entry]:
    """The entries with their scores; what has been answered in `store` is not asked again.

    All models are opened before the first request, so that a key that is missing costs nothing. One
    that fails, or that the limits end, has a reason and no scores; the others are asked all the
    same, the cheapest first. The `price` is of models that no table knows.
    """
    price = options.pop("price", None)
    if all(entry.in_process for entry in entries):
        options["store"] = None
    by_name = {entry.name: entry for entry in entries}
    with Session(keep_going=False, **options) as session:
        clients: dict[str, Client] = {}
        costs: dict[str, float] = {}
        for entry in entries:
            if (judge := entry.judge) is None:
                continue
            judge.check_origins()
            clients[entry.name] = session.client(
                judge.lm,
                role=entry.name,
                api_base=judge.api_base,
                price=None if find_price(judge.lm) else price,
                unlimited=entry.in_process,
            )
            judge.clients(clients[entry.name])  # opens those of a panel
            cost = total_estimate(entry.expected).cost_usd
            costs[entry.name] = math.inf if cost is None else cost
        for name in sorted(costs, key=costs.__getitem__):
            by_name[name] = _ask(by_name[name], task, clients[name], seed)
        if session.cache is not None and (note := session.cache.note):
            print_note(note)
    return list(by_name.values())


def _ask(entry: Entry, task: Task, client: Client, seed: int) -> Entry:
    """The entry with the judgements of its items, or the reason why there are none."""
    judge, items, reason = entry.judge, entry.items, ""
    assert judge is not None
    by_id: dict[str, AnyJudgement] = {}
    clients = (client,) if entry.in_process else judge.clients(client)
    earlier = Counts.sum(each.account.total for each in clients).calls
    started = time.monotonic()
    with Progress(entry.name, len(items), sys.stderr, budget=client.account.budget) as progress:
        try:
            judgements = judge.judge_rows((item.texts for item in items.items), client, seed=seed)
            for item, result in zip(items.items, judgements, strict=True):
                by_id[item.id] = result
                progress.step(failed=result.failure is not None)
        except (BudgetSpentError, FatalModelError) as error:
            reason = " ".join(str(error).split())
            reason += f" ({len(by_id):,} of {len(items):,} judged)"
    seconds = math.nan if earlier else time.monotonic() - started
    plan = judge.plan_for(client.model).kind if isinstance(judge, Judge) else "panel"
    usage = _usage(plan, clients, max(len(by_id), 1), seconds)
    scored = None if reason else task.scored(entry.name, by_id, judge)
    return replace(entry, scored=scored, usage=usage, reason=reason)


def _usage(plan: str, clients: Sequence[Client], n_rows: int, seconds: float) -> JudgeUsage:
    """What so many rows took; of a panel, all its models together, but those that answer here."""
    paid = [each for each in clients if len(clients) == 1 or not answers_in_process(each.model)]
    accounts, totals = [each.account for each in paid], [each.totals for each in paid]
    at_list_price = sum(
        account.price.cost(total.tokens_in, total.tokens_out) if account.price else math.nan
        for account, total in zip(accounts, totals, strict=True)
    )
    spent = sum(
        math.nan if account.cost is None else account.cost + account.cost_unconfirmed
        for account in accounts
    )
    counts = Counts.sum(account.total for account in accounts)
    seconds = math.nan if counts.cached else seconds
    return JudgeUsage(
        plan=plan,
        cost_per_1000_rows=json_number(1000 * at_list_price / n_rows, DIGITS),
        seconds_per_1000_rows=json_number(1000 * seconds / n_rows, DIGITS),
        lm_calls=counts.calls,
        tokens={"in": counts.tokens_in, "out": counts.tokens_out},
        cost_usd=json_number(spent, DIGITS),
    )
