"""Ask judges within one budget, and join their judgements to people's labels."""

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Unpack

from judges.cli.costs import print_run_cost
from judges.client import BudgetSpentError, Client, Counts, ModelOptions, Session
from judges.dimension import Subject
from judges.judge import Judge
from judges.labels.names import map_flag
from judges.labels.types import LabelError
from judges.panel import AnyJudge
from judges.protocol import FatalModelError, is_embedded
from judges.tables.problems import excerpt
from judges.terminal import Progress
from optimize.figures.as_json import JSON_DECIMALS, JsonObject, json_number
from optimize.inputs.flags import judge_scale, rescale_subject
from optimize.inputs.labelled import AnyLabels, LevelOrAuto, check_level
from optimize.items import Items, choose_level, make_items
from optimize.measuring.recorded import JudgementsById
from optimize.measuring.scored import ScoredItems, ids_on_tuned_documents, tuned_ids
from optimize.statistics.correlations import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What judges are measured against: people's labels on one dimension, and the level of rho.

    With `with_unlabelled`, outputs without a label are among the items, and their label is NaN.
    """

    dimension: str
    labels: AnyLabels
    level: Level
    with_unlabelled: bool = False

    @classmethod
    def from_labels(cls, labels: AnyLabels, dimension: str, level: LevelOrAuto = "auto") -> "Task":
        """Return a task on these labels; the level "auto" becomes the level that suits them."""
        # The level depends on all labels, judged or not, so that all judges have the same level.
        items = make_items(labels, dimension)
        check_level(level, items, are_pairs=labels.is_pairwise)
        if level == "auto":
            level = "dataset" if labels.is_pairwise else choose_level(items)
        return cls(dimension=dimension, labels=labels, level=level)

    @property
    def is_pairwise(self) -> bool:
        return self.labels.is_pairwise

    def items(self, judge: AnyJudge | None = None) -> Items:
        """Return all labelled outputs or pairs, with the texts that the judge reads."""
        subject = judge.subject if judge else None
        return make_items(
            self.labels, self.dimension, subject, with_unlabelled=self.with_unlabelled
        )

    def judge_items(
        self,
        name: str,
        judge: AnyJudge,
        items: Items,
        client: Client,
        seed: int,
        progress: Progress,
    ) -> ScoredItems:
        """Ask a judge about items, show the progress, and match its judgements to the labels."""
        ids, texts = [item.id for item in items], (item.texts for item in items)
        judgements = progress.track(judge.judge_rows(texts, client, seed=seed))
        return self.match_judgements(name, dict(zip(ids, judgements, strict=True)), judge)

    def match_judgements(
        self,
        judge_name: str,
        judgement_by_id: JudgementsById,
        judge: AnyJudge | None,
        scale: Sequence[int] = (),
        tuned_row_ids: frozenset[str] = frozenset(),
    ) -> ScoredItems:
        """Match judgements to labelled items by id; judgements without a label are only counted.

        Recorded scores come without a `judge`. So the caller gives the `scale` of their judge, and
        the ids of the rows that it was tuned on (`tuned_row_ids`).
        """
        all_items = self.items(judge)
        items = all_items.of_ids(judgement_by_id)
        if not len(items):
            likely_names = self.labels.reading.likely_names
            id_columns = [column for column, name in likely_names.items() if name == "id"]
            raise LabelError(
                "no record's id is the id of a labelled output: the first record has "
                f"{excerpt(next(iter(judgement_by_id), ''))}, the first output "
                f"{excerpt(all_items[0].id)}; name the labels' column of ids, as in "
                f"{map_flag('id', [*id_columns, 'COLUMN'][:1])}"
            )
        return ScoredItems(
            judge_name=judge_name,
            dimension=self.dimension,
            level=self.level,
            labels=self.labels,
            items=items,
            judgements=tuple(judgement_by_id[item.id] for item in items),
            scale=tuple(judge.subject.scale if judge else scale),
            tuned_ids=tuned_ids(judge, items) | tuned_row_ids,
            ids_on_tuned_documents=ids_on_tuned_documents(judge, items) if judge else frozenset(),
            n_unjudged=len(all_items) - len(items),
            n_unlabelled=len(judgement_by_id) - len(items),
        )


def on_label_scale(judge: AnyJudge, scale: str | None) -> AnyJudge:
    """Return a judge of the catalogue with this scale; any other judge keeps its own scale."""
    if judge.is_frozen or not isinstance(judge, Judge):
        return judge
    subject = rescale_subject(judge.subject, scale)
    if judge.weights or judge.prompt != Judge.of(judge.subject).prompt:
        return judge
    return replace(judge, subject=subject, prompt=Judge.of(subject).prompt)


def recorded_scale(scale: str | None, subject: Subject | None) -> tuple[int, ...]:
    """Return all ratings of the scale in --scale, else of the subject's; () if both are unknown."""
    if scale_bounds := judge_scale(scale):
        return tuple(range(scale_bounds[0], scale_bounds[1] + 1))
    return tuple(subject.scale) if subject else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """The time, calls, tokens and cost of asking a judge; all None for recorded scores.

    `cost_per_1000_rows` counts every reply at list price, even if an earlier run paid for it.
    `seconds_per_1000_rows` is None if some of the replies come from a cache or from an earlier
    start of the run. Calls, tokens and `cost_usd` are summed over all starts of the run.
    """

    plan: str | None = None
    cost_per_1000_rows: float | None = None
    seconds_per_1000_rows: float | None = None
    lm_calls: int | None = None
    tokens: Mapping[str, int] | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEntry:
    """One of the judges that a command measures: a judge to ask about `items`, or recorded scores.

    An entry for recorded scores has `scored_items`, and no `judge`. Any other entry gets its
    `scored_items` when its judge is asked; if this fails, `why_unscored` says why.
    """

    name: str
    judge: AnyJudge | None = None
    items: Items = field(default_factory=lambda: Items(()))
    scored_items: ScoredItems | None = None
    usage: JudgeUsage = JudgeUsage()
    why_unscored: str = ""

    @property
    def sends_no_request(self) -> bool:
        """Whether the scores are recorded, or all of the judge's models run in this process."""
        return all(map(is_embedded, asked_models([self])))

    def to_json(self) -> JsonObject:
        lm = self.judge.lm if self.judge else None
        record: JsonObject = {"name": self.name, "source": "judge" if lm else "recorded", "lm": lm}
        record |= asdict(self.usage)
        return record | ({"why": self.why_unscored} if self.why_unscored else {})


def asked_models(judge_entries: Sequence[JudgeEntry]) -> list[str]:
    """Return the names of all models that the judges ask."""
    judges = [entry.judge for entry in judge_entries if entry.judge]
    return [single_judge.lm for judge in judges for single_judge in judge.single_judges]


def total_dollars(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of the amounts; None if any amount is unknown."""
    dollars = list(amounts)
    return None if None in dollars else round(math.fsum(filter(None, dollars)), JSON_DECIMALS)


def ask_judges(
    judge_entries: Sequence[JudgeEntry],
    task: Task,
    *,
    seed: int,
    **options: Unpack[ModelOptions],
) -> list[JudgeEntry]:
    """Ask the judges and return the entries with scores; replies in `store` are used again.

    If a judge's model fails or a limit is reached, its entry says why; other judges are asked.
    """
    if all(entry.sends_no_request for entry in judge_entries):
        options["store"] = None
    with Session(keep_going=False, lms=asked_models(judge_entries), **options) as session:
        clients: dict[str, Client] = {}
        # All clients are opened before the first request, so that a missing API key costs nothing.
        for entry in judge_entries:
            if judge := entry.judge:
                judge.check_destination()
                is_free, api_base = entry.sends_no_request, judge.api_base
                client = session.client(
                    judge.lm, role=entry.name, unlimited=is_free, api_base=api_base
                )
                judge.clients(client)  # opens the clients of a panel's members
                clients[entry.name] = client
        asked_entries = [
            _ask_judge(entry, task, clients.get(entry.name), seed) for entry in judge_entries
        ]
        print_run_cost(session)
    return asked_entries


def _ask_judge(entry: JudgeEntry, task: Task, client: Client | None, seed: int) -> JudgeEntry:
    """Return the entry with the scores of its items, or with the reason why there are none."""
    if client is None or (judge := entry.judge) is None:
        return entry
    clients = (client,) if entry.sends_no_request else judge.clients(client)
    n_earlier_calls = Counts.sum(member_client.account.total for member_client in clients).calls
    start_time, n_items = time.monotonic(), len(entry.items)
    with Progress(entry.name, n_items, sys.stderr, budget=client.account.budget) as progress:
        try:
            scored_items = task.judge_items(entry.name, judge, entry.items, client, seed, progress)
            entry = replace(entry, scored_items=scored_items)
        except (BudgetSpentError, FatalModelError) as error:
            reason = " ".join(str(error).split())
            why_unscored = f"{reason} ({progress.n_done:,} of {n_items:,} judged)"
            entry = replace(entry, why_unscored=why_unscored)
    seconds = math.nan if n_earlier_calls else time.monotonic() - start_time
    plan = judge.plan_for(client.model).kind if isinstance(judge, Judge) else "panel"
    return replace(entry, usage=_usage(plan, clients, max(progress.n_done, 1), seconds))


def _usage(plan: str, clients: Sequence[Client], n_rows: int, seconds: float) -> JudgeUsage:
    """Return the usage for `n_rows` rows; in a panel, models in this process are not counted."""
    paid_clients = [client for client in clients if len(clients) == 1 or not client.is_in_process]
    list_price_cost = spent_dollars = 0.0
    for client in paid_clients:
        price, total = client.account.token_price, client.account.total
        list_price_cost += price.cost(client.tokens_in, client.tokens_out) if price else math.nan
        spent_dollars += total.answered_cost + total.cost_unconfirmed if price else math.nan
    counts = Counts.sum(client.account.total for client in paid_clients)
    if counts.cached_calls:
        seconds = math.nan
    return JudgeUsage(
        plan=plan,
        cost_per_1000_rows=json_number(1000 * list_price_cost / n_rows, JSON_DECIMALS),
        seconds_per_1000_rows=json_number(1000 * seconds / n_rows, JSON_DECIMALS),
        lm_calls=counts.calls,
        tokens={"in": counts.tokens_in, "out": counts.tokens_out},
        cost_usd=json_number(spent_dollars, JSON_DECIMALS),
    )
