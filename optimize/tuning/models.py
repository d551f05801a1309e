"""Open the models of a tuning run, the judge's and the proposer's, with one budget and store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judges.cli.flags import read_plan
from judges.client import Account, Client, Session, Spending
from judges.judge import Judge
from judges.prompt import Prompt
from judges.protocol import Model, is_embedded
from judges.scoring import SamplingPlan, default_plan
from judges.terminal import Progress, verbose_logging
from optimize.figures.as_json import JSON_DECIMALS
from optimize.items import Item
from optimize.measuring.tuning_result import RunSpending
from optimize.search.evaluator import ItemJudgement, JudgeItems
from optimize.tuning.folder import REPLIES_FILE
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.settings import Settings

# The purposes of a run's calls, in the order of its tables of spending.
SEARCH, PROPOSALS, TEST, PROBES = PURPOSES = ("search", "proposals", "test", "probes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClients:
    """The clients of the judge's and the proposer's model, and the judge's sampling plan."""

    judge: Client
    proposer: Client
    sampling_plan: SamplingPlan

    @property
    def language_proposer(self) -> Client | None:
        """The proposer's client; None if it or the judge is the embedded model."""
        if is_embedded(self.judge.model.endpoint) or is_embedded(self.proposer.model.endpoint):
            return None
        return self.proposer


@contextmanager
def open_clients(
    settings: Settings, folder: Path, opened_models: Mapping[str, Model] | None = None
) -> Iterator[RunClients]:
    """Open the models' clients; `opened_models` are used, by their names or their roles."""
    model_by_role = {"judge": settings.judge_model, "proposer": settings.proposer_model}
    # The embedded model needs no limits here: it is free, and the search counts its calls itself.
    is_free = all(is_embedded(model.lm) for model in model_by_role.values())
    with (
        verbose_logging(settings.verbose),
        Session(
            max_calls=None if is_free else settings.max_calls,
            max_cost=None if is_free else settings.max_cost,
            store=None if is_free else folder / REPLIES_FILE,
            concurrency=settings.concurrency,
            cache=settings.cache,
            keep_going=False,
            models=opened_models,
        ) as session,
    ):
        client_by_role = {}
        for role, model in model_by_role.items():
            options = model._asdict()
            client_by_role[role] = session.client(options.pop("lm"), role=role, **options)
        client_by_role["proposer"].account.purpose = PROPOSALS
        user_plan = read_plan(settings.plan, settings.samples, settings.temperature)
        sampling_plan = user_plan or default_plan(client_by_role["judge"].model)
        yield RunClients(**client_by_role, sampling_plan=sampling_plan)


def make_item_judge(run: PreparedRun, clients: RunClients, progress: Progress) -> JudgeItems:
    """Return a function that judges items, in order, with any prompt of the search."""
    subject, settings, client = run.subject, run.settings, clients.judge

    def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemJudgement]:
        judge = Judge(subject=subject, prompt=prompt, lm=settings.lm, plan=clients.sampling_plan)
        texts = (item.texts for item in items)
        judgements = judge.judge_rows(texts, client, seed=settings.seed)
        tokens_in, tokens_out = client.tokens_in, client.tokens_out
        for judgement in progress.track(judgements):
            used_tokens = client.tokens_in - tokens_in, client.tokens_out - tokens_out
            yield ItemJudgement(judgement, *used_tokens)
            tokens_in, tokens_out = client.tokens_in, client.tokens_out

    return judge_items


def spending_summary(*accounts: Account) -> RunSpending:
    """Return what the models of these accounts spent, in total and by purpose."""
    spending_by_purpose = [row for account in accounts for row in account.spending()]
    # A purpose comes last if PURPOSES does not list it.
    spending_by_purpose.sort(key=lambda row: [*PURPOSES, row.purpose].index(row.purpose))
    total = total_spending(spending_by_purpose, "total")
    unconfirmed_cost = round(sum(each.total.cost_unconfirmed for each in accounts), JSON_DECIMALS)
    return RunSpending(
        tokens={"in": total.tokens_in, "out": total.tokens_out},
        cost_usd=total.cost_usd,
        cost_unconfirmed_usd=None if total.cost_usd is None else unconfirmed_cost or None,
        spending=spending_by_purpose,
    )


def total_spending(spending_by_purpose: Sequence[Spending], total_name: str) -> Spending:
    """Return the total as a row named `total_name`; its cost is None if any cost is unknown."""
    costs = [row.cost_usd for row in spending_by_purpose if row.cost_usd is not None]
    return Spending(
        purpose=total_name,
        calls=sum(row.calls for row in spending_by_purpose),
        tokens_in=sum(row.tokens_in for row in spending_by_purpose),
        tokens_out=sum(row.tokens_out for row in spending_by_purpose),
        cost_usd=sum(costs) if len(costs) == len(spending_by_purpose) else None,
    )
