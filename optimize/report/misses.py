"""A judge's misses as texts: the outputs, people's labels, the judge's verdicts, and reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judges.labels.types import LabelledOutput
from judges.tables.problems import count_text
from optimize.items import judged_output_name
from optimize.measuring.misses import Miss, MissKind, rows_by_miss_kind
from optimize.measuring.scored import ScoredItems
from optimize.measuring.swap import MAX_CHANGED_ROWS, SwapResult

# Upper bounds on the characters of a text, and of the first part of an output.
MAX_TEXT, MAX_FIRST_PART = 1500, 400
NamedTexts = list[tuple[str, str]]
SUREST_FIRST, WORST_FIRST = "The judge's surest verdicts come first.", "The worst come first."
KIND_TITLES: dict[MissKind, tuple[str, str]] = {
    "false pass": ("False passes", f"People fail them and the judge passes them. {SUREST_FIRST}"),
    "false alarm": ("False alarms", f"People pass them and the judge fails them. {SUREST_FIRST}"),
    "too high": ("Too high", f"The judge ranks them far higher than people do. {WORST_FIRST}"),
    "too low": ("Too low", f"The judge ranks them far lower than people do. {WORST_FIRST}"),
    "wrong side": ("Wrong side", f"The judge does not prefer the side of people. {WORST_FIRST}"),
}


@dataclass(frozen=True, slots=True)
class MissArticle:
    """A miss or a change on a page, with its texts by name.

    `people` has each annotator's label and comment, and `outputs` the first part of each output.
    """

    miss: Miss
    people: NamedTexts
    outputs: NamedTexts
    texts: NamedTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of one kind, worst first, for a page."""

    title: str
    caption: str
    misses: Sequence[MissArticle]


def miss_groups(scored_items: ScoredItems) -> list[MissGroup]:
    """Return the misses of a judge by kind, the worst of each kind first."""
    groups, is_pairwise = [], scored_items.is_pairwise
    for kind, rows in rows_by_miss_kind(scored_items).items():
        kind_title, caption = KIND_TITLES[kind]
        title = f"{kind_title}: {count_text(len(rows), 'pair' if is_pairwise else 'output')}"
        articles = []
        for row in rows:
            miss = Miss.from_row(scored_items, kind, row)
            people = _annotator_texts(scored_items, row)
            texts = _shown_texts(scored_items.items[row].texts, is_pairwise=is_pairwise)
            articles.append(MissArticle(miss, people, *texts))
        groups.append(MissGroup(title=title, caption=caption if rows else "", misses=articles))
    return groups


def changed_rows_group(result: SwapResult) -> MissGroup:
    """Return the rows on which two judges differ, the largest change first."""
    scorecard, articles = result.comparison.scorecard, []
    for row in result.changed_rows:
        miss = Miss(
            kind="change",
            id=row.id,
            label=row.label_text,
            verdict=row.change_text,
            score=row.new_score,
            remarks=row.remarks,
        )
        texts = {**row.remarks.texts, "output": row.remarks.output}
        shown_texts = _shown_texts(texts, is_pairwise=scorecard.is_pairwise)
        articles.append(MissArticle(miss, [], *shown_texts))
    units = f"{scorecard.unit}s"
    caption = f"The {units} on which the judges differ, old → new; {MAX_CHANGED_ROWS} at most."
    return MissGroup(title=f"Changes: {result.n_changed:,}", caption=caption, misses=articles)


def _shown_texts(texts: Mapping[str, str], *, is_pairwise: bool) -> tuple[NamedTexts, NamedTexts]:
    """Return the first parts of the output or outputs, and all texts."""
    names = [*texts]
    output_names: Sequence[str | None] = [judged_output_name(names)]
    if is_pairwise:
        output_names = ["A", "B"]
        texts = dict(zip([*names[:-2], "A", "B"], texts.values(), strict=True))
    outputs = [(name, text) for name, text in texts.items() if name in output_names]
    cut_outputs = [(name, cut_text(text, MAX_FIRST_PART)) for name, text in outputs]
    return cut_outputs, [(name, cut_text(text)) for name, text in texts.items()]


def _annotator_texts(scored_items: ScoredItems, row: int) -> NamedTexts:
    """Return each annotator's name, with the label and the comment as far as they are known."""
    item, dimension = scored_items.labelled_items[row], scored_items.dimension
    if isinstance(item, LabelledOutput):
        labels = [*map(scored_items.label_text, item.ratings.get(dimension, ()))]
        names, comments = item.annotators.get(dimension, ()), item.comments.get(dimension, ())
    else:
        labels, names, comments = list(item.votes), (), item.comments
    anonymous_comments = [("People", comment) for comment in comments]
    if len(labels) == 1 and not names:
        return anonymous_comments
    if len(names) != len(labels):
        names = tuple(map(str, range(1, len(labels) + 1)))
    annotators = [f"Annotator {name}" if name.isdigit() else name for name in names]
    if len(comments) != len(labels):
        return [*zip(annotators, labels, strict=True), *anonymous_comments]
    texts = [". ".join(filter(None, pair)) for pair in zip(labels, comments, strict=True)]
    return [*zip(annotators, texts, strict=True)]


def cut_text(text: str, max_characters: int = MAX_TEXT) -> str:
    """Return the beginning of a text, with the number of characters that were cut off."""
    n_more = len(text) - max_characters
    return text if n_more <= 0 else f"{text[:max_characters]} … ({n_more:,} more characters)"
