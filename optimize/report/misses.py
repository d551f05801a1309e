"""The misses of a judge as texts: which outputs, what people and the judge gave, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from judges.labels.types import LabelledOutput
from optimize.figures.as_text import counted
from optimize.items import output_name
from optimize.measuring.misses import (
    FALSE_ALARM,
    FALSE_PASS,
    TOO_HIGH,
    TOO_LOW,
    WRONG_SIDE,
    miss_rows,
    misses,
)
from optimize.measuring.scored import Scored
from optimize.measuring.swap import MOST_CHANGED, SwapResult

# Characters of a text, and of the output's first part.
MAX_TEXT, FIRST_PART = 1500, 400
# So many misses of a group are shown until a reader asks for all; misses.js has it, too.
MOST_SHOWN = 50
KINDS = {
    FALSE_PASS: ("False passes", "People fail them and the judge passes them; the surest first."),
    FALSE_ALARM: ("False alarms", "People pass them and the judge fails them; the surest first."),
    TOO_HIGH: ("Too high", "The judge ranks them far higher than people; the farthest first."),
    TOO_LOW: ("Too low", "The judge ranks them far lower than people; the farthest first."),
    WRONG_SIDE: ("Wrong side", "The judge does not prefer people's side; the farthest first."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of a kind, worst first, as rows of `miss_rows`, and what a page adds to them.

    That is an `anchor`, `people` as (annotator, what they gave and wrote), the first parts of the
    `outputs`, and all `texts`.
    """

    title: str
    about: str
    misses: Sequence[dict[str, Any]]

    @property
    def is_folded(self) -> bool:
        return len(self.misses) > MOST_SHOWN


def miss_groups(scored: Scored) -> list[MissGroup]:
    """False passes and false alarms; outputs ranked too high and too low; pairs decided wrongly."""
    rows, groups = iter(miss_rows(scored)), []
    for kind, places in misses(scored).items():
        title, about = KINDS[kind]
        anchor = kind.replace(" ", "-")
        group = [
            next(rows) | {"anchor": f"{anchor}-{n}"} | _shown(scored, row)
            for n, row in enumerate(places, start=1)
        ]
        title = f"{title}: {counted(len(group), 'pair' if scored.is_pairs else 'output')}"
        groups.append(MissGroup(title=title, about=about if group else "", misses=group))
    return groups


def change_group(result: SwapResult, word: Callable[[float], str]) -> MissGroup:
    """The rows that change with a swap, those that move most first; `word` writes a score."""
    rows = []
    for n, row in enumerate(result.changed, start=1):
        texts = [
            (name.removeprefix("text_"), row[name]) for name in row if name.startswith("text_")
        ]
        rows.append(
            dict(row)
            | {"anchor": f"change-{n}", "miss": "change", "system": "", "people": []}
            | {"label": word(row["human"]), "verdict": f"{word(row['old'])} → {word(row['new'])}"}
            | {"outputs": [("output", cut_text(row["output"], FIRST_PART))]}
            | {"texts": [(name, cut_text(text)) for name, text in texts]}
        )
    title, unit = f"Changes: {result.n_changed:,}", result.comparison.card.unit
    about = f"The {unit} on which the judges differ, old → new; at most {MOST_CHANGED} are here."
    return MissGroup(title=title, about=about, misses=rows)


def _shown(scored: Scored, row: int) -> dict[str, Any]:
    texts = scored.texts(row)
    names = [*texts][-2:] if scored.is_pairs else [output_name(tuple(texts)) or ""]
    sides = dict(zip(names, "AB", strict=True)) if scored.is_pairs else {}
    whole = [(sides.get(name, name), cut_text(text)) for name, text in texts.items()]
    firsts = [(sides.get(n, n), cut_text(texts[n], FIRST_PART)) for n in names if n in texts]
    return {
        "people": _people_words(scored, row),
        "outputs": firsts,
        "texts": whole if whole != firsts else [],
    }


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
