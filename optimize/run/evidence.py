"""What one judge said of one split beside what people said: all that a report is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from data.columns import OUTPUTS
from data.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet
from judges.judgement import Judgement, Verdict
from judges.winrate import text_length
from optimize.search.items import Items, Vector
from optimize.search.objective import Level

Said = Judgement | Verdict
Person = LabelledOutput | LabelledPair
# A column that says what kind of system wrote an output has few values, and short ones.
MOST_KINDS = 6
LONGEST_KIND = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One judgement or verdict an item, in the order of `items`.

    `scale` is the judge's, empty where unknown and for pairs. `people` holds the labelled outputs
    or pairs themselves, in the same order, where they are known.
    """

    dimension: str
    split: str
    level: Level
    items: Items
    said: tuple[Said, ...]
    scale: tuple[int, ...] = ()
    people: tuple[Person, ...] = ()
    scores: Vector = field(init=False)

    def __post_init__(self) -> None:
        scores = [one.margin if isinstance(one, Verdict) else one.score for one in self.said]
        object.__setattr__(self, "scores", np.array(scores, float))

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def documents(self) -> list[str]:
        return [item.document_id for item in self.items.items]

    @property
    def systems(self) -> list[str]:
        return [item.system or "" for item in self.items.items]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(one for one in self.said if isinstance(one, Verdict))

    @property
    def failures(self) -> dict[str, str]:
        """Why each output without a score has none, by id."""
        pairs = zip(self.items.items, self.said, self.scores, strict=True)
        return {
            item.id: said.failure or "no reason was recorded"
            for item, said, score in pairs
            if np.isnan(score)
        }

    @property
    def outputs(self) -> tuple[LabelledOutput, ...]:
        return tuple(one for one in self.people if isinstance(one, LabelledOutput))

    @property
    def on_scale(self) -> bool:
        """Whether judge and people keep to the judge's scale, so that numbers can be compared."""
        both = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not both.size:
            return False
        return bool(self.scale[0] <= both.min() and both.max() <= self.scale[-1])

    def comment(self, index: int) -> str:
        """What the judge wrote beside its score."""
        one = self.said[index]
        return (one.comparison if isinstance(one, Verdict) else one.rationale) or ""

    def texts(self, index: int) -> Mapping[str, str]:
        """What the judge read; where a recording does not say, all that the labels hold."""
        texts = self.items.items[index].texts
        if texts or len(self.people) != len(self.items):
            return texts
        person = self.people[index]
        if isinstance(person, LabelledPair):
            return {**person.texts, "A": person.response_a, "B": person.response_b}
        return person.texts

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
        pairs = [one for one in self.people if isinstance(one, LabelledPair)]
        if len(pairs) != len(self.items):
            return None
        return [(text_length(one.response_a), text_length(one.response_b)) for one in pairs]

    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Columns of few short values, unread by the judge, that differ within a document."""
        if not self.outputs:
            return {}
        read = {name for item in self.items.items for name in item.texts}
        names = {name for one in self.outputs for name in one.texts} - read - set(OUTPUTS)
        found = {}
        for name in sorted(names):
            values = tuple(one.texts.get(name, "") for one in self.outputs)
            if len(set(values)) > MOST_KINDS or max(map(len, values)) > LONGEST_KIND:
                continue
            if any(len({values[i] for i in rows}) > 1 for rows in self.items.places.values()):
                found[name] = values
        return found


def output_name(texts: tuple[str, ...]) -> str | None:
    """Which of the texts is the output under judgement: a usual name, else the last one read."""
    named = [name for name in texts if name in OUTPUTS]
    return named[-1] if named else texts[-1] if texts else None


def labelled_by_id(labelled: LabelledSet | LabelledPairs, items: Items) -> tuple[Person, ...]:
    """The labelled outputs or pairs behind the items, in their order."""
    all_of_them = labelled.pairs if isinstance(labelled, LabelledPairs) else labelled.outputs
    known: Mapping[str, Person] = {one.id: one for one in all_of_them}
    return tuple(known[item.id] for item in items.items if item.id in known)


def disagreements(evidence: Evidence, most: int = 20) -> list[tuple[int, float]]:
    """Where the judge's place is farthest from people's: (index, gap), farthest first.

    Gaps are differences of mid-ranks scaled to [-1, 1], within the document at summary level and
    over the whole split otherwise; above 0 the judge ranks the output higher than people do. Of
    pairs it is half the difference of the margins.
    """
    from optimize.statistics.coefficients import midranks

    gaps = np.full(len(evidence.items), np.nan)
    groups = (
        list(evidence.items.places.values())
        if evidence.level == "summary"
        else [np.arange(len(evidence.items))]
    )
    if evidence.verdicts:
        gaps, groups = (evidence.scores - evidence.human) / 2, []
    for rows in groups:
        scored = rows[~np.isnan(evidence.scores[rows])]
        if scored.size < 2:
            continue
        ranks = midranks(np.stack([evidence.scores[scored], evidence.human[scored]]))
        gaps[scored] = (ranks[0] - ranks[1]) / (scored.size - 1)
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(i), float(gaps[i])) for i in order if not np.isnan(gaps[i]) and gaps[i] != 0][
        :most
    ]
