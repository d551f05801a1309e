"""A judge's misses as texts: the outputs, people's labels, the judge's verdicts, and reasons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judges.labels.types import LabelledOutput
from optimize.figures.as_text import counted
from optimize.items import output_name
from optimize.measuring.misses import Kind, Miss, misses
from optimize.measuring.scored import Scored
from optimize.measuring.swap import MOST_CHANGED, SwapResult

# Upper bounds on the characters of a text, and of the first part of an output.
MAX_TEXT, FIRST_PART = 1500, 400
TextList = list[tuple[str, str]]
SUREST, WORST = "The judge's surest verdicts come first.", "The worst come first."
KINDS: dict[Kind, tuple[str, str]] = {
    "false pass": ("False passes", f"People fail them and the judge passes them. {SUREST}"),
    "false alarm": ("False alarms", f"People pass them and the judge fails them. {SUREST}"),
    "too high": ("Too high", f"The judge ranks them far higher than people do. {WORST}"),
    "too low": ("Too low", f"The judge ranks them far lower than people do. {WORST}"),
    "wrong side": ("Wrong side", f"The judge does not prefer the side that people do. {WORST}"),
}


@dataclass(frozen=True, slots=True)
class Article:
    """A miss or a change on a page.

    It has `people` (each annotator with label and comment), the first parts of the `outputs`, and
    all `texts` if these are longer.
    """

    anchor: str
    miss: Miss
    people: TextList
    outputs: TextList
    texts: TextList


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of one kind, worst first, for a page."""

    title: str
    caption: str
    misses: Sequence[Article]


def miss_groups(scored: Scored) -> list[MissGroup]:
    """The misses of a judge, grouped by kind: see KINDS."""
    groups = []
    for kind, rows in misses(scored).items():
        title, caption = KINDS[kind]
        articles = [
            Article(
                f"{kind.replace(' ', '-')}-{number}",
                Miss.of(scored, kind, row),
                _people(scored, row),
                *_shown_texts(scored.texts(row), is_pairs=scored.is_pairs),
            )
            for number, row in enumerate(rows, start=1)
        ]
        title = f"{title}: {counted(len(rows), 'pair' if scored.is_pairs else 'output')}"
        groups.append(MissGroup(title=title, caption=caption if rows else "", misses=articles))
    return groups


def change_group(result: SwapResult, word: Callable[[float], str]) -> MissGroup:
    """The rows on which two judges differ, the largest change first; `word` writes a score."""
    card, articles = result.comparison.card, []
    for number, row in enumerate(result.changed, start=1):
        miss = Miss(
            miss="change",
            id=row.id,
            label=word(row.human),
            verdict=f"{word(row.old)} → {word(row.new)}",
            score=row.new,
            remarks=row.remarks,
        )
        texts = {**row.remarks.texts, "output": row.remarks.output}
        shown = _shown_texts(texts, is_pairs=card.is_pairs)
        articles.append(Article(f"change-{number}", miss, [], *shown))
    caption = f"The {card.unit} on which the judges differ, old → new; {MOST_CHANGED} at most."
    return MissGroup(title=f"Changes: {result.n_changed:,}", caption=caption, misses=articles)


def _shown_texts(texts: Mapping[str, str], *, is_pairs: bool) -> tuple[TextList, TextList]:
    """The first parts of the output or outputs, and all texts if these are longer."""
    names = [*texts]
    if is_pairs:
        texts = dict(zip([*names[:-2], "A", "B"], texts.values(), strict=True))
    outputs = ("A", "B") if is_pairs else (output_name(names),)
    first = [(n, cut_text(text, FIRST_PART)) for n, text in texts.items() if n in outputs]
    whole = [(name, cut_text(text)) for name, text in texts.items()]
    return first, whole if whole != first else []


def _people(scored: Scored, row: int) -> list[tuple[str, str]]:
    """The label and the comment of each annotator, as far as they are known, by name."""
    if len(scored.labelled) != len(scored.items):
        return []
    labelled, dimension = scored.labelled[row], scored.dimension
    if isinstance(labelled, LabelledOutput):
        labels = [*map(scored.word, labelled.ratings.get(dimension, ()))]
        names = labelled.annotators.get(dimension, ())
        comments = labelled.comments.get(dimension, ())
    else:
        labels, names, comments = list(labelled.votes), (), labelled.comments
    unassigned = [("People", comment) for comment in comments]
    if len(labels) == 1 and not names:
        return unassigned
    if len(names) != len(labels):
        names = tuple(map(str, range(1, len(labels) + 1)))
    people = [f"Annotator {name}" if name.isdigit() else name for name in names]
    if len(comments) != len(labels):
        return [*zip(people, labels, strict=True), *unassigned]
    pairs = zip(labels, comments, strict=True)
    texts = [f"{label}. {comment}" if comment else label for label, comment in pairs]
    return [*zip(people, texts, strict=True)]


def cut_text(text: str, most: int = MAX_TEXT) -> str:
    """The beginning of a text, with the number of characters that were cut off."""
    n_more = len(text) - most
    return text if n_more <= 0 else f"{text[:most]} … ({n_more:,} more characters)"
