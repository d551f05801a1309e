"""Which outputs are of one document: those of one group, or of one source text."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from data.columns import SOURCES
from data.tables.problems import count
from data.types import Item

# The second half of an instruction, which alone may be the same for many documents.
_COMPANION = "input"


def source_name(texts: Iterable[str]) -> str | None:
    """Return the first of the texts' names that tells what systems were given."""
    names = set(texts)
    return next((name for name in SOURCES if name in names), None)


def _source_words(texts: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return what tells one document from another by its words; None where no text is known to."""
    name = source_name(texts)
    return None if name is None else (texts[name], texts.get(_COMPANION, ""))


def document_of(item_id: str, texts: Mapping[str, str]) -> str:
    """Return a document's id by its words, the same in any order of rows; else the item's own."""
    words = _source_words(texts)
    if words is None:
        return item_id
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    return f"{source_name(texts)}-{digest}"


def how_grouped(group: str | None, texts: Iterable[str]) -> str:
    """Say what made the documents, for people."""
    if group is not None:
        return f"column {group!r}"
    name = source_name(texts)
    if name is None:
        return "each row is its own document, since there is no group and no source text"
    return f"identical text {name!r}, since there is no group"


def same_words(items: Sequence[Item]) -> list[set[str]]:
    """Return the sets of two or more document ids that share a source text, however many steps."""
    leader: dict[str, str] = {}

    def find(document: str) -> str:
        while leader.setdefault(document, document) != document:
            leader[document] = leader[leader[document]]
            document = leader[document]
        return document

    first: dict[tuple[str, ...], str] = {}
    for item in items:
        words = _source_words(item.texts)
        if words is not None:
            leader[find(item.document_id)] = find(first.setdefault(words, item.document_id))
    groups: dict[str, set[str]] = {}
    for document in list(leader):
        groups.setdefault(find(document), set()).add(document)
    return [group for group in groups.values() if len(group) > 1]


def document_notes(items: Sequence[Item]) -> list[str]:
    """Say where groups and texts disagree on what is one document."""
    notes = []
    if n_shared := sum(map(len, same_words(items))):
        notes.append(f"same text as another document: {n_shared:,}; splits keep those together")
    words: dict[str, set[tuple[str, ...] | None]] = {}
    for item in items:
        words.setdefault(item.document_id, set()).add(_source_words(item.texts))
    if n_mixed := sum(len(texts) > 1 for texts in words.values()):
        notes.append(
            f"more than one source text: {n_mixed:,} of {count(len(words), 'group')}; each "
            "counts as one document all the same"
        )
    return notes
