"""Which outputs are of one document: those of one group, or of one source text."""

import hashlib
from collections.abc import Mapping, Sequence

from data.columns import source_name
from data.types import Item


def document_of(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id by the words of `source`, in any order of rows; else the item's own.

    The `input` of an instruction makes another document of it.
    """
    if source not in texts:
        return item_id
    words = f"{texts[str(source)]}\0{texts.get('input', '')}"
    return f"{source}-{hashlib.sha256(words.encode()).hexdigest()[:16]}"


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
        name = source_name(item.texts)
        if name is not None:
            words = (item.texts[name], item.texts.get("input", ""))
            leader[find(item.document_id)] = find(first.setdefault(words, item.document_id))
    groups: dict[str, set[str]] = {}
    for document in list(leader):
        groups.setdefault(find(document), set()).add(document)
    return [group for group in groups.values() if len(group) > 1]
