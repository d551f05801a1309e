"""From the texts of a request to facets and traits, computed once for each text and remembered."""

import hashlib
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from judges.models.embedded.cache import Kept
from judges.models.embedded.evidence import Evidence, gather
from judges.models.embedded.facets import NAMES, Vector, measure
from judges.models.embedded.roles import Roles
from judges.models.embedded.source import Source, join, read_source
from judges.models.embedded.text import Text, read_text
from judges.models.embedded.traits import N_TRAITS, read_traits

# Bounds on what is remembered: characters of sources, and judged texts by their digest.
MOST_CHARACTERS = 800_000
MOST_TEXTS = 20_000

_sources: Kept[tuple[str, ...], Source] = Kept(
    lambda texts: read_source(join(tuple(read_text(text) for text in texts))),
    MOST_CHARACTERS,
    lambda texts: sum(map(len, texts)) + 200,
)
_known: dict[bytes, tuple[Vector, Vector | None]] = {}
_adding = Lock()


def facet_scores(roles: Roles, texts: Mapping[str, str], candidate: str) -> Vector:
    """The facets of one judged text beside the others of its request."""
    return _read(roles, texts, candidate, finely=False)[0]


def facets_and_traits(
    roles: Roles, texts: Mapping[str, str], candidate: str
) -> tuple[Vector, Vector]:
    """The same with its traits, which only demonstrations need."""
    facets, traits = _read(roles, texts, candidate, finely=True)
    assert traits is not None
    return facets, traits


def _read(
    roles: Roles, texts: Mapping[str, str], candidate: str, *, finely: bool
) -> tuple[Vector, Vector | None]:
    parts = [tuple(texts.get(name, "") for name in names) for names in _groups(roles)]
    judged = texts.get(candidate, "")
    key = _digest(roles.condenses, parts, judged)
    known = _known.get(key)
    if known is None or (finely and known[1] is None):
        known = _measure(roles, parts, judged, finely=finely)
        for vector in known:
            if vector is not None:
                vector.setflags(write=False)
        with _adding:
            while len(_known) >= MOST_TEXTS:
                del _known[next(iter(_known))]
            _known[key] = known
    return known


def _groups(roles: Roles) -> tuple[tuple[str, ...], ...]:
    return roles.documents, roles.turns, roles.knowledge


def _digest(condenses: bool, parts: Sequence[tuple[str, ...]], judged: str) -> bytes:
    whole = repr((condenses, [[len(text) for text in part] for part in parts]))
    hashed = hashlib.blake2b(whole.encode(), digest_size=16)
    for text in (text for part in (*parts, (judged,)) for text in part):
        hashed.update(text.encode("utf-8", "replace"))
    return hashed.digest()


def _measure(
    roles: Roles, parts: Sequence[tuple[str, ...]], judged: str, *, finely: bool
) -> tuple[Vector, Vector | None]:
    text = read_text(judged)
    if not text.n_words:
        # Nothing to judge is the worst there is, on every facet, and has no trait at all.
        return np.full(len(NAMES), -3.0), np.zeros(N_TRAITS)
    seen = _gather(roles, parts, text)
    return measure(seen), read_traits(seen) if finely else None


def _gather(roles: Roles, parts: Sequence[tuple[str, ...]], text: Text) -> Evidence:
    documents, turns, knowledge = (_source(part) for part in parts)
    everything = tuple(one for part in parts for one in part if one)
    return gather(
        text,
        document=documents,
        turns=turns,
        knowledge=knowledge,
        ground=_source(everything),
        last=_source((_last_turn(parts[1][-1]),)) if parts[1] else None,
        condenses=roles.condenses,
    )


def _source(texts: tuple[str, ...]) -> Source | None:
    given = tuple(text for text in texts if text.strip())
    return _sources(given) if given else None


def _last_turn(turns: str) -> str:
    """The last line that says something."""
    lines = [line for line in turns.splitlines() if line.strip()]
    return lines[-1] if lines else ""
