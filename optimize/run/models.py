"""The two models of a run, judge and proposer, each with its journal, on one budget."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judges.inference.budget import Budget
from judges.inference.progress import verbose_logging
from judges.inference.runner import ModelRequest, ModelResponse, Runner
from judges.inference.session import Session
from judges.judge import Judge
from judges.judgement import NoScoreError, Verdict
from judges.models.journal import describe
from judges.models.prices import find_price
from judges.prompt import Prompt
from judges.protocol import is_embedded
from judges.scoring import SamplingPlan, default_plan
from optimize.items import Item
from optimize.run.run_folder import BUDGET, PROPOSALS, REPLIES
from optimize.run.settings import Settings, SettingsError
from optimize.search import proposals
from optimize.search.evaluator import ItemScore, JudgeItems
from optimize.search.problem import History, Propose

Step = Callable[[bool], None]
MAX_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModels:
    """What answers: the runner that judges, the one that proposes, and the plan for a score."""

    judge: Runner
    proposer: Runner
    plan: SamplingPlan

    def calls_per_item(self, judge: Judge) -> int:
        each = self.plan.samples if not self.judge.model.native_n else 1
        return 2 * each if judge.kind == "pairwise" else each

    @property
    def budget(self) -> Budget:
        """What both spend from."""
        return self.judge.account.budget


@contextmanager
def open_models(settings: Settings, folder: Path) -> Iterator[RunModels]:
    """Open both, and close them whatever happens."""
    proposer_lm, proposer_base = settings.proposer
    for lm in (settings.lm, proposer_lm):
        if settings.max_cost is not None and find_price(lm) is None:
            raise SettingsError(f"--max-cost: the price of {lm} is not known; use --max-calls")
    # Without a server there is nothing to pay; the search keeps to its plan by itself.
    free = is_embedded(settings.lm) and is_embedded(proposer_lm)
    with (
        verbose_logging(settings.verbose),
        Session(
            max_calls=None if free else settings.max_calls,
            max_cost=None if free else settings.max_cost,
            budget_file=None if free else folder / BUDGET,
            keep_budget_file=True,
            concurrency=settings.concurrency,
            keep_going=settings.keep_going,
        ) as session,
    ):
        judge = session.runner(
            settings.lm, purpose="judge", api_base=settings.api_base, journal=folder / REPLIES
        )
        proposer = session.runner(
            proposer_lm,
            purpose="proposer",
            api_base=proposer_base,
            journal=folder / PROPOSALS,
            keep_going=True,
        )
        for runner in (judge, proposer):
            if runner.journal:  # of an earlier start, where it holds replies
                recorded = describe(runner.journal.path)
                runner.account.count_recorded(
                    recorded.n_requests, recorded.tokens_in, recorded.tokens_out
                )
        yield RunModels(judge=judge, proposer=proposer, plan=_plan(settings, judge))


def _plan(settings: Settings, judge: Runner) -> SamplingPlan:
    """The plan of the search; where it is to be chosen, the model's default until then."""
    plan = settings.plan or ("weighted" if settings.weighted else None)
    if plan == "weighted":
        return SamplingPlan(kind="weighted", temperature=settings.temperature or 0.0)
    if settings.samples is not None and plan != "auto":
        temperature = 1.0 if settings.temperature is None else settings.temperature
        return SamplingPlan(kind="mean", samples=settings.samples, temperature=temperature)
    if plan == "one" or (settings.temperature is not None and plan != "auto"):
        return SamplingPlan(kind="one", temperature=settings.temperature or 0.0)
    return default_plan(judge.model)


def make_item_scorer(judge: Judge, models: RunModels, seed: int, step: Step) -> JudgeItems:
    """Return what scores items, in order, by the judge with the prompt it is given.

    `step(failed)` is called after each item.
    """

    def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemScore]:
        """Yield the judge's score of each item under a prompt, in order."""
        candidate = Judge(subject=judge.subject, prompt=prompt, plan=models.plan, lm=judge.lm)
        rows = (item.texts for item in items)
        for judgement in candidate.judge_rows(rows, models.judge, seed=seed):
            step(judgement.failure is not None)
            if isinstance(judgement, Verdict):
                score, comment = judgement.margin, judgement.comparison
            else:
                score, comment = judgement.score, judgement.rationale
            yield ItemScore(
                score=score, comment=comment or "", failure=judgement.failure, judgement=judgement
            )

    return judge_items


def instruction_proposer(
    judge: Judge,
    models: RunModels,
    seed: int,
    print_line: Callable[[str], None] = lambda text: None,
) -> Propose:
    """How the search has instructions proposed; a round without any that can be read is said."""
    task = proposals.describe(judge.prompt)

    def propose(
        current: str, mistakes: Sequence[str], history: History, number: int
    ) -> Sequence[str | NoScoreError]:
        """One instruction, or why there is none, for each set of mistakes."""
        requests = []
        for draw, lines in enumerate(mistakes):
            texts = proposals.proposal_texts(task, current, lines, history)
            sampling = proposals.sampling(seed * 10_000 + number * 100 + draw)
            requests.append(
                ModelRequest(proposals.PROPOSER.messages(texts), sampling, proposals.accept)
            )
        proposed = [_proposal(answer) for answer in models.proposer.run(requests)]
        reasons = Counter(
            str(proposal) for proposal in proposed if isinstance(proposal, NoScoreError)
        )
        if reasons and reasons.total() == len(proposed):
            reason, count = reasons.most_common(1)[0]
            print_line(
                f"round {number}: none of {len(proposed)} proposals could be read, {count} of them "
                f"since: {reason}"
            )
        return proposed

    return propose


def _proposal(answer: ModelResponse) -> str | NoScoreError:
    if answer.parsed:
        return str(answer.parsed[0])
    return NoScoreError(" ".join((answer.error or "no reply").split())[:MAX_REASON_LENGTH])
