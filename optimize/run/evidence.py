"""What a run hands to its report: every judgement on test, both prompts, and the probes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet
from judges.judgement import AnyJudgement, Verdict
from judges.winrate import text_length
from optimize.frames import judgement_rows
from optimize.injection import Probes, output_name
from optimize.items import Indices, Items, Vector
from optimize.run.run_folder import write_text
from optimize.search.objective import Level
from optimize.search.trial_log import as_json
from optimize.statistics.coefficients import midranks

JUDGEMENTS = "judgements.jsonl"
JUDGES = ("seed", "tuned")
AnyLabelled = LabelledOutput | LabelledPair


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSplit:
    """One judgement or verdict an item, in the order of `items`.

    `scale` is the judge's, empty where unknown and for pairs. `labelled` holds the labelled outputs
    or pairs themselves, in the same order, where they are known.
    """

    dimension: str
    split: str
    level: Level
    items: Items
    judgements: tuple[AnyJudgement, ...]
    scale: tuple[int, ...] = ()
    labelled: tuple[AnyLabelled, ...] = ()
    scores: Vector = field(init=False)

    def __post_init__(self) -> None:
        scores = np.array([judgement.score for judgement in self.judgements], float)
        object.__setattr__(self, "scores", scores)

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def documents(self) -> list[str]:
        return self.items.document_ids

    @property
    def systems(self) -> list[str]:
        return self.items.system_ids

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.judgements if isinstance(verdict, Verdict))

    @property
    def ranked_rows(self) -> list[Indices]:
        """The rows that are ranked among each other: a document's at summary level, else all."""
        if self.level == "summary":
            return list(self.items.places.values())
        return [np.arange(len(self.items))]

    @property
    def failures(self) -> dict[str, str]:
        """Why each output without a score has none, by id."""
        return {
            item.id: judgement.failure or "no reason was recorded"
            for item, judgement, score in zip(
                self.items.items, self.judgements, self.scores, strict=True
            )
            if np.isnan(score)
        }

    @property
    def outputs(self) -> tuple[LabelledOutput, ...]:
        return tuple(output for output in self.labelled if isinstance(output, LabelledOutput))

    @property
    def within_scale(self) -> bool:
        """Whether judge and people keep to the judge's scale, so that numbers can be compared."""
        both = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not both.size:
            return False
        return bool(self.scale[0] <= both.min() and both.max() <= self.scale[-1])

    def comment(self, index: int) -> str:
        """What the judge wrote beside its score."""
        judgement = self.judgements[index]
        if isinstance(judgement, Verdict):
            return judgement.comparison or ""
        return judgement.rationale or ""

    def texts(self, index: int) -> Mapping[str, str]:
        """What the judge read; where a recording does not say, all that the labels hold."""
        texts = self.items.items[index].texts
        if texts or len(self.labelled) != len(self.items):
            return texts
        labelled = self.labelled[index]
        if isinstance(labelled, LabelledPair):
            return {**labelled.texts, "A": labelled.response_a, "B": labelled.response_b}
        return labelled.texts

    def lengths(self) -> Vector | None:
        """Characters of each output; None where its text is not known."""
        lengths = []
        for index in range(len(self.items)):
            texts = self.texts(index)
            name = output_name(tuple(texts))
            if name is None:
                return None
            lengths.append(text_length(texts[name]))
        return np.array(lengths, float)

    def pair_lengths(self) -> list[tuple[int, int]] | None:
        """Characters of A and of B."""
        pairs = [pair for pair in self.labelled if isinstance(pair, LabelledPair)]
        if len(pairs) != len(self.items):
            return None
        return [(text_length(pair.response_a), text_length(pair.response_b)) for pair in pairs]


def labelled_in_order(
    labelled: LabelledSet | LabelledPairs, items: Items
) -> tuple[AnyLabelled, ...]:
    """The labelled outputs or pairs of the items, in the items' order; unknown ids are left out."""
    labels = labelled.pairs if isinstance(labelled, LabelledPairs) else labelled.outputs
    known: Mapping[str, AnyLabelled] = {label.id: label for label in labels}
    return tuple(known[item.id] for item in items.items if item.id in known)


def disagreements(judged: JudgedSplit) -> list[tuple[int, float]]:
    """Where the judge's place is farthest from people's: (index, gap), farthest first.

    Gaps are differences of mid-ranks scaled to [-1, 1], within the document at summary level and
    over the whole split otherwise; above 0 the judge ranks the output higher than people do. Of
    pairs it is half the difference of the margins.
    """
    gaps = np.full(len(judged.items), np.nan)
    if judged.verdicts:
        gaps = (judged.scores - judged.human) / 2
    for rows in [] if judged.verdicts else judged.ranked_rows:
        scored = rows[~np.isnan(judged.scores[rows])]
        if scored.size < 2:
            continue
        ranks = midranks(np.stack([judged.scores[scored], judged.human[scored]]))
        gaps[scored] = (ranks[0] - ranks[1]) / (scored.size - 1)
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(i), float(gaps[i])) for i in order if not np.isnan(gaps[i]) and gaps[i] != 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """A judge's instruction and demonstrations, and what it is told of each field it writes."""

    instruction: str
    demos: tuple[Mapping[str, Any], ...]
    writes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """`judged[judge][split]` for "seed" and "tuned", both prompts, and the probes."""

    prompts: Mapping[str, PromptParts]
    judged: Mapping[str, Mapping[str, JudgedSplit]]
    probes: Probes


def write_judgements(folder: Path, evidence: RunEvidence) -> None:
    """Write judgements.jsonl: a line an output, with both judges' scores beside people's."""
    by_split = evidence.judged["seed"]
    rows = judgement_rows(
        [item for judged in by_split.values() for item in judged.items.items],
        {
            judge: [judgement for judged in splits.values() for judgement in judged.judgements]
            for judge, splits in evidence.judged.items()
        },
        [split for split, judged in by_split.items() for _ in judged.items.items],
    )
    lines = [as_json({name: _finite(value) for name, value in row.items()}) for row in rows]
    write_text(folder / JUDGEMENTS, "".join(line + "\n" for line in lines))


def _finite(value: Any) -> Any:
    """JSON has no NaN: a failed judgement's score is null."""
    return None if isinstance(value, float) and math.isnan(value) else value
