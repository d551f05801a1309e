"""Instructions proposed from where a judge and people part, and which of them may be tried.

The embedded model reads a list of mistakes, what stands too high or too low for people.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import rankdata

from judges.judgement import NoScoreError
from judges.prompt import Field, Prompt
from judges.protocol import Reply, Sampling
from optimize.items import Item, Items, Vector
from optimize.search.candidates import LONGEST_INSTRUCTION, Candidate, fault
from optimize.search.lessons import JudgedItems, without_middle
from optimize.search.problem import History, SearchProblem
from optimize.search.proposal_replies import Anchors
from optimize.search.proposer import (
    CURRENT,
    HISTORY,
    NO_MONEY,
    TASK,
    Proposal,
    Proposer,
    RejectedError,
)

MISTAKES_SHOWN = 8
TEXT_SHOWN = 2400
PROPOSAL_TOKENS = 1024
MAX_REASON_LENGTH = 300
NO_REPLY = "no reply that could be read"
# After so many rounds without one that could be read, for one reason, no proposal is asked for.
UNREAD_ROUNDS = 2

PROPOSER = Prompt(
    instruction=(
        "You improve the instruction of a judge so that it ranks texts as people do. Study where "
        "the judge's order and people's order part: say to yourself what people seem to value or "
        "mind in these texts that the judge passed over or overrated. Then write a better "
        "instruction in general terms, for texts never seen before. Keep what works. Name "
        "qualities, never the subject of a text: quote nothing from the texts, and do not mention "
        f"this exercise. At most {LONGEST_INSTRUCTION} characters."
    ),
    fields=(
        TASK,
        CURRENT,
        Field(
            name="mistakes",
            description="what the judge misplaced, most telling first, one JSON object a line",
            role="input",
        ),
        HISTORY,
        Field(name="instruction", description="the better instruction", role="output"),
    ),
)


def describe(prompt: Prompt) -> str:
    """What a judge reads and writes, for a proposer that has not seen it at work."""
    lines = ["The judge reads:"]
    lines += [f"- {field.name}: {field.description}" for field in prompt.inputs]
    lines += ["It writes:"]
    lines += [f"- {field.name}{_choices(field)}: {field.description}" for field in prompt.outputs]
    return "\n".join(lines)


def _choices(field: Field) -> str:
    return f" ({', '.join(map(str, field.choices))})" if field.choices else ""


def proposal_texts(task: str, current: str, mistakes: str, history: History) -> dict[str, str]:
    lines = [json.dumps({"instruction": text, "rho": round(rho, 3)}) for text, rho in history]
    return {
        "task": task,
        "current_instruction": current,
        "mistakes": mistakes or "none",
        "history": "\n".join(lines) or "none",
    }


def sampling(seed: int) -> Sampling:
    """How a proposal of the embedded model is drawn."""
    return Sampling(temperature=1.0, max_tokens=PROPOSAL_TOKENS, seed=seed)


def accept(reply: Reply) -> str:
    """The instruction in a proposer's reply, with or without our headers around it."""
    from judges.parsing.parse import parse_fields

    fields = parse_fields(reply.text, PROPOSER.outputs, truncated=reply.truncated)
    return str(fields["instruction"]).strip()


class InstructionSource:
    """Has instructions proposed within a search's budget, and lets through what may be tried.

    A language model is shown whole documents at work (see `lessons`), the embedded model what it
    reads, a list of mistakes. `anchors` holds what came with an instruction.
    """

    def __init__(self, problem: SearchProblem) -> None:
        self.n_proposed = 0
        # Why no reply could be read in the rounds just before, the same in all of them.
        self._unread_reasons: list[str] = []
        self.anchors: dict[str, Anchors] = {}
        self._problem = problem
        self._known = [problem.seed.instruction]
        self._task = describe(problem.evaluator.seed)
        self._proposer: Proposer | None = None
        if problem.proposer is not None:
            evaluator = problem.evaluator
            self._proposer = Proposer(
                problem.proposer, evaluator.budget, evaluator.seed, self._fault
            )

    def lessons(
        self,
        candidate: Candidate,
        items: Items,
        n_documents: int,
        draws: Sequence[np.random.Generator],
    ) -> list[str]:
        """What to learn from of those items that the candidate has been scored on.

        One text for each generator; a list of mistakes is of at most `n_documents`.
        """
        evaluator = self._problem.evaluator
        items = evaluator.known(candidate, items)
        if not len(items):
            return ["" for _ in draws]
        if self._proposer is not None:
            judgements = evaluator.judgements(candidate, items)
            return JudgedItems(items, judgements, evaluator.seed).lessons(draws)
        n_documents = max(1, min(n_documents, len(items.documents) // 2))
        scores = evaluator.scores(candidate, items)
        return sampled_mistakes(scores, items, evaluator.seed, n_documents, draws)

    def propose(
        self,
        current: str,
        lessons: Sequence[str],
        history: History,
        number: int,
        on_rejected: Callable[[str | None, str], None] = lambda text, reason: None,
    ) -> list[str]:
        """New instructions, at most one for each lesson; `on_rejected` is told of the others, why.

        Raises SearchBudgetSpentError where they cannot be paid.
        """
        budget = self._problem.evaluator.budget
        if len(self._unread_reasons) == UNREAD_ROUNDS:
            return []
        replies: Sequence[str | Proposal | NoScoreError | None]
        if self._proposer is None:
            budget.spend(budget.proposal * len(lessons), len(lessons))
            replies = self._problem.propose(current, lessons, history, number)
        else:
            budget.check(budget.proposal * len(lessons))
            replies = self._proposer.propose(
                [
                    {**proposal_texts(self._task, current, "", history), "evidence": text or "none"}
                    for text in lessons
                ],
                current,
                self._problem.options.seed * 10_000 + number * 100,
            )
            self._print_unread(replies, number)
        fresh: list[str] = []
        for reply in replies:
            self.n_proposed += 1
            text = reply.instruction if isinstance(reply, Proposal) else reply
            if isinstance(text, RejectedError):
                on_rejected(text.instruction, str(text))
            elif not isinstance(text, str):
                on_rejected(None, f"{NO_REPLY}: {text}" if text else NO_REPLY)
            elif reason := fault(text, self._problem.guard, (*self._known, *fresh)):
                on_rejected(text, reason)
            else:
                fresh.append(text)
                if isinstance(reply, Proposal) and reply.anchors is not None:
                    self.anchors[text] = reply.anchors
        self._known += fresh
        return fresh

    def _print_unread(self, replies: Sequence[object], number: int) -> None:
        """Say that no reply of a round could be read, and why."""
        unread = Counter(
            str(reply)
            for reply in replies
            if isinstance(reply, NoScoreError) and not isinstance(reply, RejectedError)
        )
        if replies and unread.total() == len(replies):
            reason, count = unread.most_common(1)[0]
            # What a message quotes of a reply differs from one to the next.
            kind = reason.partition(":")[0]
            if kind not in self._unread_reasons:
                self._unread_reasons.clear()
            if kind != NO_MONEY:
                self._unread_reasons.append(kind)
            is_last = len(self._unread_reasons) == UNREAD_ROUNDS
            self._problem.log.print_line(
                f"round {number}: none of {len(replies)} proposals could be read, {count} of them "
                f"since: {reason[:MAX_REASON_LENGTH]}"
                + ("; as in the round before, so no more are asked for" if is_last else "")
            )
        else:
            self._unread_reasons.clear()

    def _fault(self, text: str) -> str | None:
        return fault(text, self._problem.guard, self._known)


def mistakes(scores: Vector, items: Items, prompt: Prompt) -> str:
    """JSON lines, most telling first, both directions in turn."""
    if prompt.outputs[-1].choices == ("A", "B"):
        return "\n".join(_pair_mistakes(scores, items))
    return "\n".join(_rating_mistakes(scores, items))


def sampled_mistakes(
    scores: Vector,
    items: Items,
    prompt: Prompt,
    n_documents: int,
    draws: Sequence[np.random.Generator],
) -> list[str]:
    """The mistakes on so many documents, which each generator draws anew."""
    samples = []
    for rng in draws:
        order = rng.permutation(len(items.documents))
        names = {items.documents[index] for index in order[:n_documents]}
        rows = [row for row, item in enumerate(items.items) if item.document_id in names]
        samples.append(mistakes(scores[rows], items.of_rows(rows), prompt))
    return samples


def _rating_mistakes(scores: Vector, items: Items) -> list[str]:
    """By standardised ranks, within documents if they have several outputs, else over all."""
    groups = list(items.places.values())
    if max(map(len, groups), default=0) < 3:
        groups = [np.arange(len(items))]
    gaps = np.zeros(len(items))
    places: dict[int, dict[str, float]] = {}
    for rows in groups:
        scored = rows[~np.isnan(scores[rows])]
        judge, human = scores[scored], items.human[scored]
        if len(scored) > 1:
            gaps[scored] = _standard_ranks(judge) - _standard_ranks(human)
        for row, judge_place, people_place in zip(
            scored, rankdata(-judge), rankdata(-human), strict=True
        ):
            places[int(row)] = {
                "judge_place": float(judge_place),
                "people_place": float(people_place),
                "of": len(scored),
            }
    return [
        json.dumps({"texts": shortened_texts(items.items[row]), **places[row]}, ensure_ascii=False)
        for row in _largest_gaps(gaps)
    ]


def _standard_ranks(values: Vector) -> Vector:
    """Mid-ranks with mean 0 and deviation 1; 0 where all are alike."""
    ranks = rankdata(values)
    spread = ranks.std()
    return (ranks - ranks.mean()) / spread if spread > 0 else np.zeros(len(ranks))


def _pair_mistakes(scores: Vector, items: Items) -> list[str]:
    gaps = np.nan_to_num(scores) - items.human
    gaps[np.isnan(scores)] = 0
    lines = []
    for index in _largest_gaps(gaps):
        line = {
            "texts": shortened_texts(items.items[index]),
            "judge_margin": round(float(scores[index]), 3),
            "people_margin": round(float(items.human[index]), 3),
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


def _largest_gaps(gaps: Vector) -> list[int]:
    """The largest gaps, those too high and those too low in turn."""
    order = [int(index) for index in np.argsort(-np.abs(gaps), kind="stable") if gaps[index] != 0]
    high = [index for index in order if gaps[index] > 0]
    low = [index for index in order if gaps[index] < 0]
    interleaved = [
        queue[place]
        for place in range(max(len(high), len(low)))
        for queue in (high, low)
        if place < len(queue)
    ]
    return interleaved[:MISTAKES_SHOWN]


def shortened_texts(item: Item) -> dict[str, str]:
    """Long texts lose their middle: a proposer need not read a whole report eight times."""
    return {name: without_middle(text, TEXT_SHOWN) for name, text in item.texts.items()}
