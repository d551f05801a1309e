"""The two models of a run, judge and proposer, on one budget and one store."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judges.cli.flags import read_plan
from judges.client import (
    Budget,
    Client,
    Completion,
    FatalModelError,
    Message,
    Model,
    Sampling,
    Session,
    Spending,
    endpoint_of,
    gives_n_replies,
    is_embedded,
)
from judges.judge import Judge
from judges.prompt import Prompt
from judges.scoring import SamplingPlan, default_plan
from judges.terminal import verbose_logging
from optimize.items import Item
from optimize.run import run_folder
from optimize.run.settings import Settings, SettingsError
from optimize.search.evaluator import Judged, JudgeItems

# What a run spends on, in this order, in words for its reader.
SEED, SEARCH, PROPOSALS, DEV, TEST, PROBES = PURPOSES = (
    "seed",
    "search",
    "proposals",
    "dev",
    "test",
    "probes",
)

Step = Callable[[bool], None]
# What scoring these items by this prompt is for, one of PURPOSES.
PurposeOf = Callable[[Prompt, Sequence[Item]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModels:
    """What answers: the client that judges, the one that proposes, and the plan for a score."""

    judge: Client
    proposer: Client
    plan: SamplingPlan

    def calls_per_item(self, judge: Judge) -> int:
        each = self.plan.samples if not self.judge.model.native_n else 1
        return 2 * each if judge.kind == "pairwise" else each

    def replies_per_item(self, judge: Judge) -> int:
        return self.plan.samples * (2 if judge.kind == "pairwise" else 1)

    @property
    def language_proposer(self) -> Client | None:
        """The proposer where both are language models: one that writes and one that reads."""
        models = (self.judge.model, self.proposer.model)
        return None if any(is_embedded(model.endpoint) for model in models) else self.proposer

    @property
    def budget(self) -> Budget:
        """What both spend from."""
        return self.judge.account.budget

    @property
    def spending(self) -> list[Spending]:
        """What both have spent on each purpose."""
        return [*self.judge.account.spending(), *self.proposer.account.spending()]

    @property
    def purpose(self) -> str:
        """What is asked for at this moment; empty where nothing is."""
        return PROPOSALS if self.proposer.account.in_flight else self.judge.account.purpose

    @property
    def cached_calls(self) -> int:
        """The requests of both, over all starts, that the reply cache answered."""
        return self.judge.account.cached + self.proposer.account.cached

    @property
    def request_changes(self) -> list[str]:
        """What the endpoints did not take as it was asked for in this process, by model."""
        changes = []
        for client in (self.judge, self.proposer):
            learned = getattr(client.model, "changes", ())
            changes += [f"{client.model.name} takes {change}" for change in learned]
        return changes


class UnopenedModel:
    """Stands for a model of which only the name is known: nothing can be asked of it."""

    has_logprobs: bool | None = None

    def __init__(self, lm: str, api_base: str | None) -> None:
        self.name = lm
        self.endpoint = endpoint_of(lm, api_base)
        self.native_n = gives_n_replies(lm)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        raise FatalModelError(f"{self.name} is not open")

    async def close(self) -> None:
        """Nothing is open."""


def unopened_models(settings: Settings) -> RunModels:
    """Both, to plan a run with: no key is needed, no file written, and nothing can be asked."""
    check_prices(settings)
    proposer_lm, proposer_base = settings.proposer
    judge = Client(UnopenedModel(settings.lm, settings.api_base))
    proposer = Client(UnopenedModel(proposer_lm, proposer_base))
    return RunModels(judge=judge, proposer=proposer, plan=_plan(settings, judge))


def check_prices(settings: Settings) -> None:
    """Raise SettingsError where dollars are limited and a model's price is unknown."""
    models = (settings.lm, ""), (settings.proposer[0], "proposer=")
    for (lm, name), price in zip(models, settings.prices, strict=True):
        if settings.max_cost is not None and price is None:
            raise SettingsError(
                f"--max-cost: the price of {lm} is not known; give --price {name}IN,OUT, or "
                "--max-calls"
            )


@contextmanager
def open_models(
    settings: Settings, folder: Path, opened: Mapping[str, Model] | None = None
) -> Iterator[RunModels]:
    """Open both, and close them whatever happens; `opened` are open already, by their names."""
    check_prices(settings)
    proposer_lm, proposer_base = settings.proposer
    prices = settings.prices
    # Without a server there is nothing to pay; the search keeps to its plan by itself.
    free = is_embedded(settings.lm) and is_embedded(proposer_lm)
    with (
        verbose_logging(settings.verbose),
        Session(
            max_calls=None if free else settings.max_calls,
            max_cost=None if free else settings.max_cost,
            store=None if free else folder / run_folder.REPLIES,
            concurrency=settings.concurrency,
            cache=settings.cache,
            keep_going=False,
            models=opened,
        ) as session,
    ):
        judge = session.client(
            settings.lm,
            role="judge",
            api_base=settings.api_base,
            api_key_env=settings.api_key_env,
            price=prices[0],
            max_tokens=settings.max_tokens,
            reasoning_effort=settings.reasoning_effort,
        )
        proposer = session.client(
            proposer_lm,
            role="proposer",
            api_base=proposer_base,
            api_key_env=settings.proposer_key_variable,
            price=prices[1],
            max_tokens=settings.proposer_max_tokens,
            reasoning_effort=settings.proposer_reasoning_effort,
            keep_going=True,
        )
        proposer.account.purpose = PROPOSALS
        yield RunModels(judge=judge, proposer=proposer, plan=_plan(settings, judge))


def _plan(settings: Settings, judge: Client) -> SamplingPlan:
    """The settings' plan, else the model's default."""
    plan = read_plan(settings.plan, settings.samples, settings.temperature)
    return plan or default_plan(judge.model)


def make_item_scorer(
    judge: Judge,
    models: RunModels,
    seed: int,
    step: Step = lambda failed: None,
    purpose_of: PurposeOf = lambda prompt, items: SEARCH,
) -> JudgeItems:
    """Return what scores items, in order, by the judge with the prompt it is given.

    `step(failed)` is called after each item.
    """

    def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterable[Judged]:
        """Yield the judge's score of each item under a prompt, in order."""
        candidate = Judge(subject=judge.subject, prompt=prompt, plan=models.plan, lm=judge.lm)
        rows = (item.texts for item in items)
        totals = models.judge.totals
        tokens_in, tokens_out = totals.tokens_in, totals.tokens_out
        with models.judge.account.spending_on(purpose_of(prompt, items)):
            for judgement in candidate.judge_rows(rows, models.judge, seed=seed):
                step(judgement.failure is not None)
                yield Judged(
                    judgement, totals.tokens_in - tokens_in, totals.tokens_out - tokens_out
                )
                tokens_in, tokens_out = totals.tokens_in, totals.tokens_out

    return judge_items
