"""Injection probes: the judge meets outputs that ask for a better score than they have earned."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judges.dimension import Comparison
from judges.engine.ledger import BudgetSpentError
from judges.engine.runner import Runner
from judges.judge import Judge
from judges.judgement import Verdict
from optimize.audits.influences import Shift, shift
from optimize.audits.injections import ATTACKS, Attack
from optimize.run.evidence import Evidence, output_name
from optimize.search.chance import stream
from optimize.search.items import Item

OUTPUTS_PROBED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Scores of the same outputs, clean and under each attack (NaN: failed), or why there are none.

    Of a pair it is the margin for the side that was attacked.
    """

    documents: tuple[str, ...] = ()
    clean: tuple[float, ...] = ()
    attacked: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    why: str = ""

    def json(self) -> dict[str, Any]:
        return {
            "why": self.why,
            "documents": list(self.documents),
            "clean": [_known(score) for score in self.clean],
            "attacked": {
                name: [_known(score) for score in scores] for name, scores in self.attacked.items()
            },
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Probes":
        return cls(
            why=told["why"],
            documents=tuple(told["documents"]),
            clean=_scores(told["clean"]),
            attacked={name: _scores(scores) for name, scores in told["attacked"].items()},
        )

    def shifts(self, seed: int) -> list[tuple[Attack, Shift]]:
        """How far each attack moves the scores, in the order of the list of attacks."""
        return [
            (attack, shift(self.clean, scores, self.documents, rng=stream(seed, "probe", name)))
            for name, scores in self.attacked.items()
            for attack in ATTACKS
            if attack.name == name
        ]


def probe(
    judge: Judge, runner: Runner, evidence: Evidence, *, seed: int, most_calls: int | None = None
) -> Probes:
    """Ask again for a few outputs under each attack; `evidence` is of this judge, with texts."""
    chosen = _choose(evidence, seed)
    if not chosen:
        return Probes(why="no output has both a text and a score, so there is nothing to attack")
    calls = len(ATTACKS) * len(chosen) * (2 if judge.kind == "pairwise" else 1)
    if not runner.model.native_n:
        calls *= judge.plan_for(runner.model).samples
    if most_calls is not None and calls > most_calls:
        return Probes(why=f"they take {calls} calls, and the budget leaves {max(0, most_calls)}")
    items = [evidence.items.items[index] for index in chosen]
    sides = [_side(judge, float(evidence.scores[index])) for index in chosen]
    rows = (
        {**item.texts, name: attack.apply(item.texts[name])}
        for attack in ATTACKS
        for item, (name, _) in zip(items, sides, strict=True)
    )
    try:
        scores = list(_asked(judge, runner, rows, seed))
    except BudgetSpentError:
        return Probes(why="the budget was spent before they were done")
    signs = [sign for _, sign in sides]
    number = len(items)
    return Probes(
        documents=tuple(item.document_id for item in items),
        clean=tuple(
            sign * float(evidence.scores[i]) for i, sign in zip(chosen, signs, strict=True)
        ),
        attacked={
            attack.name: tuple(
                sign * score
                for sign, score in zip(
                    signs, scores[place * number : (place + 1) * number], strict=True
                )
            )
            for place, attack in enumerate(ATTACKS)
        },
    )


def _choose(evidence: Evidence, seed: int) -> list[int]:
    """Outputs with room to rise, the lower half by score, from as many documents as can be."""
    scored = np.flatnonzero(~np.isnan(evidence.scores))
    usable = [int(i) for i in scored if _has_texts(evidence.items.items[i])]
    if not usable:
        return []
    scores = evidence.scores[usable]
    if not evidence.verdicts:
        usable = [i for i, score in zip(usable, scores, strict=True) if score <= np.median(scores)]
    drawn = [usable[i] for i in stream(seed, "probes").permutation(len(usable))]
    seen: dict[str, int] = {}
    turns = []
    for index in drawn:
        document = evidence.items.items[index].document_id
        seen[document] = seen.get(document, 0) + 1
        turns.append((seen[document], index))
    # Stable: each document's first comes before any document's second.
    return [index for _, index in sorted(turns, key=lambda turn: turn[0])][:OUTPUTS_PROBED]


def _has_texts(item: Item) -> bool:
    return bool(item.texts) and all(text.strip() for text in item.texts.values())


def _side(judge: Judge, score: float) -> tuple[str, float]:
    """The text to attack, and the sign that makes a margin that side's own."""
    if isinstance(judge.subject, Comparison):
        first, second = judge.subject.fields
        # The side that was not preferred has most to win.
        return (first, 1.0) if score < 0 else (second, -1.0)
    return output_name(judge.texts) or judge.texts[-1], 1.0


def _asked(
    judge: Judge, runner: Runner, rows: Iterable[Mapping[str, str]], seed: int
) -> Iterable[float]:
    for said in judge.judge_rows(rows, runner, seed=seed):
        yield said.margin if isinstance(said, Verdict) else said.score


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score


def _scores(told: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if score is None else float(score) for score in told)
