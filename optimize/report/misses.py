"""The misses of a judge as texts: which outputs, what people and the judge gave, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.labels.types import LabelledOutput
from optimize.figures.as_text import counted
from optimize.items import output_name
from optimize.measuring.misses import FALSE_ALARM, FALSE_PASS, misses
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import midranks

# Characters of a text, and of the output's first part.
MAX_TEXT, FIRST_PART = 1500, 400
# So many misses of a group are shown until a reader asks for all.
MOST_SHOWN = 50
# An output that is ranked so far off, as a share of the places, is a miss.
FAR = 0.25
# Numbers that are written alike differ by less.
SAME = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One output or pair; `people` are (annotator, what they gave and wrote).

    `outputs` are the first parts of the texts under judgement, `texts` all texts.
    """

    anchor: str
    name: str
    system: str
    label: str
    verdict: str
    people: Sequence[tuple[str, str]]
    reason: str
    question: str
    outputs: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of a kind, worst first."""

    title: str
    about: str
    misses: Sequence[Miss]

    @property
    def n_folded(self) -> int:
        return max(0, len(self.misses) - MOST_SHOWN)


def miss_groups(scored: Scored) -> list[MissGroup]:
    """False passes and false alarms; outputs ranked too high and too low; pairs decided wrongly."""
    if scored.is_binary:
        kinds = misses(scored)
        false_passes = "People fail them and the judge passes them; the surest first."
        false_alarms = "People pass them and the judge fails them; the surest first."
        return [
            _group(scored, "False passes", false_passes, dict.fromkeys(kinds[FALSE_PASS], 0.0)),
            _group(scored, "False alarms", false_alarms, dict.fromkeys(kinds[FALSE_ALARM], 0.0)),
        ]
    gaps = worst_disagreements(scored)
    if scored.is_pairs:
        about = "The judge does not prefer the side that people prefer; the farthest apart first."
        return [_group(scored, "Wrong side", about, dict(gaps))]
    among = "the outputs of its document" if scored.level == "summary" else "all outputs"
    return [
        _group(
            scored,
            f"Too {word}",
            f"The judge ranks them far too {word} among {among}; the farthest first.",
            {row: gap for row, gap in gaps if gap * sign >= FAR},
        )
        for word, sign in (("high", 1), ("low", -1))
    ]


def _group(scored: Scored, title: str, about: str, gaps: Mapping[int, float]) -> MissGroup:
    unit = "pair" if scored.is_pairs else "output"
    kind = title.lower().replace(" ", "-")
    rows = enumerate(gaps.items(), start=1)
    return MissGroup(
        title=f"{title}: {counted(len(gaps), unit)}",
        about=about if gaps else "There are none.",
        misses=[_miss(scored, f"{kind}-{n}", row, gap) for n, (row, gap) in rows],
    )


def worst_disagreements(scored: Scored) -> list[tuple[int, float]]:
    """(row, gap) where the judge's place is farthest from people's, farthest first.

    Gaps are differences of mid-ranks as a share of the places, within the document at summary level
    and over all outputs otherwise, above 0 where the judge ranks higher; of pairs half the
    difference of the margins. Left out are outputs to which both give the same number or, of pairs,
    the same side, and those that people do not tell from any other.
    """
    judge, human = scored.scores, scored.human
    gaps = np.zeros(len(human))
    if scored.is_pairs:
        gaps = np.where(np.sign(judge) == np.sign(human), 0, (judge - human) / 2)
    for rows in [] if scored.is_pairs else scored.ranked_rows:
        judged = rows[~np.isnan(judge[rows])]
        if judged.size > 1 and np.unique(human[judged]).size > 1:
            ranks = midranks(np.stack([judge[judged], human[judged]]))
            gaps[judged] = (ranks[0] - ranks[1]) / (judged.size - 1)
    gaps[np.isnan(gaps) | (np.abs(judge - human) < SAME)] = 0
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(row), float(gaps[row])) for row in order if gaps[row] != 0]


def _miss(scored: Scored, anchor: str, row: int, gap: float) -> Miss:
    item, human, score = scored.items.items[row], scored.human[row], scored.scores[row]
    label, verdict = f"{human:.2f}", f"{score:.2f}"
    if scored.is_binary:
        label, verdict = scored.word(human), f"{scored.word(scored.passes[row])} ({score:.2f})"
    elif scored.is_pairs:
        label, verdict = _side(human), _side(score)
    else:
        rivals = next(rows for rows in scored.ranked_rows if row in rows)
        places = int((~np.isnan(scored.scores[rivals])).sum()) - 1
        side = "high" if gap > 0 else "low"
        verdict += f", {abs(gap) * places:g} of {places:,} places too {side}"
    texts = {name: cut_text(text) for name, text in scored.texts(row).items()}
    names = [*texts][-2:] if scored.is_pairs else [output_name(tuple(texts)) or ""]
    firsts = [(n, cut_text(t, FIRST_PART)) for n, t in scored.texts(row).items() if n in names]
    return Miss(
        anchor=anchor,
        name=item.id,
        system=item.system or "",
        label=label,
        verdict=verdict,
        people=_people_words(scored, row),
        reason=scored.comment(row),
        question=scored.judgements[row].decided_by or "",
        outputs=firsts,
        texts=[*texts.items()] if [*texts.items()] != firsts else [],
    )


def _side(margin: float) -> str:
    """The side of a margin, and how many of the votes it has beyond the other's."""
    side = "A" if margin > 0 else "B" if margin < 0 else "tie"
    return side if abs(margin) in (0, 1) else f"{side} (margin {margin:+.2f})"


def _people_words(scored: Scored, row: int) -> list[tuple[str, str]]:
    """Each annotator, with the label and the comment, as far as they are known."""
    if len(scored.labelled) != len(scored.items):
        return []
    labelled = scored.labelled[row]
    if isinstance(labelled, LabelledOutput):
        labels = [*map(scored.word, labelled.ratings.get(scored.dimension, ()))]
        names = labelled.annotators.get(scored.dimension, ())
        comments = labelled.comments.get(scored.dimension, ())
    else:
        labels, names, comments = list(labelled.votes), (), labelled.comments
    if len(labels) == 1 and not names:
        return [("People", text) for text in comments]
    if len(names) != len(labels):
        names = tuple(map(str, range(1, len(labels) + 1)))
    names = tuple(f"Annotator {name}" if name.isdigit() else name for name in names)
    if len(comments) == len(labels):
        each = zip(names, labels, comments, strict=True)
        return [
            (name, f"{label}. {comment}" if comment else label) for name, label, comment in each
        ]
    return [*zip(names, labels, strict=True), *(("People", text) for text in comments)]


def cut_text(text: str, most: int = MAX_TEXT) -> str:
    """The text's beginning, and how much more there is."""
    further = len(text) - most
    return text if further <= 0 else f"{text[:most]} … ({further:,} more characters)"
