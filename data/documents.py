"""Which outputs are of one document: those of one group, or of one source text."""

import hashlib
from collections.abc import Mapping, Sequence

from data.columns import source_name
from data.types import Item

# The second half of an instruction, which alone may be the same for many documents.
_COMPANION = "input"


def _source_words(texts: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return what tells one document from another by its words; None where no text is known to."""
    name = source_name(texts)
    return None if name is None else (texts[name], texts.get(_COMPANION, ""))


def document_of(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id by its words, the same in any order of rows; else the item's own.

    `source` is the text that tells documents apart where none has a telling name.
    """
    words = _source_words(texts)
    if words is None:
        if source not in texts:
            return item_id
        words = (texts[str(source)],)
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    return f"{source_name(texts) or source}-{digest}"


def how_grouped(group: str | None, source: str | None) -> str:
    """Say what made the documents, for people."""
    if group is not None:
        return f"column {group!r}"
    if source is None:
        return "each row is its own document, since there is no group and no source text"
    return f"identical text {source!r}, since there is no group"


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
