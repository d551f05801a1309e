"""The facets of quality: how each is measured, worded, and its part in an overall impression."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from judges.models.embedded import content, language
from judges.models.embedded.request import Roles
from judges.models.embedded.source import JudgedText, read_judged_text
from judges.models.embedded.text import read_text
from judges.models.embedded.traits import N_TRAITS, read_traits

Vector = NDArray[np.float64]
# How many judged texts are remembered.
MOST_TEXTS = 20_000


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet of quality.

    `measure` counts, higher for better; `middle` and `spread` are what it gives for ordinary system
    outputs, so that facets weigh alike (a facet that counting measures badly has a wide spread).
    `needs` names the source that it takes and without which it is 0. `halo` is its part in any
    overall impression of a text made from a document, `talk` in that of a turn or an answer.
    `content` tells what is said from how.
    """

    name: str
    measure: Callable[..., float]
    middle: float
    spread: float
    halo: float = 0.0
    talk: float = 0.0
    needs: str = ""
    content: bool = False


# An overall impression owes most to full sentences, and where there is a source, to how much of it
# is said and that it is said anew, then to order, clean sentences and nothing said twice; a turn of
# talk owes it to what it takes up and what it gives to go on with. Length, tone and style of layout
# enter only where an instruction names them.
FACETS: tuple[Facet, ...] = (
    Facet("coverage", content.coverage, 0.5, 0.85, halo=0.8, needs="document", content=True),
    Facet("focus", content.focus, 0, 1.2, halo=0.3, needs="document", content=True),
    Facet("support", content.support, 0.3, 0.75, halo=0.2, talk=0.2, needs="source", content=True),
    Facet("truth", content.truth, 0.7, 0.65, halo=0.1, talk=0.1, needs="source", content=True),
    Facet("knowledge", content.knowledge, 1.5, 0.6, talk=0.3, needs="source", content=True),
    Facet("closeness", content.closeness, 0.5, 0.8, needs="source"),
    Facet("order", content.order, 0.6, 0.65, halo=0.4, needs="document"),
    Facet("connection", content.connection, 0.2, 0.45, halo=0.3, talk=0.1),
    Facet("continuity", content.continuity, 0.2, 0.65, halo=0.1, needs="source"),
    Facet("unity", content.unity, 0, 1, halo=0.3, needs="document"),
    Facet("rewording", content.rewording, 0, 1, halo=0.8, needs="document"),
    Facet("repetition", content.repetition, 0.7, 0.6, halo=0.5, talk=0.4),
    Facet("grammar", language.grammar, 0.6, 0.5, halo=0.4, talk=0.4),
    Facet("style", language.style, 0.5, 0.6, halo=1, talk=0.2),
    Facet("form", language.form, 0.6, 0.5, halo=0.2, talk=0.2),
    Facet("completeness", language.completeness, 0.4, 0.45, halo=0.2, talk=0.2),
    Facet("conciseness", language.conciseness, -0.2, 0.75),
    Facet("detail", language.detail, 0.3, 0.8, halo=0.1, talk=0.3, content=True),
    Facet("specificity", language.specificity, 0.7, 0.45, halo=0.1, talk=0.3, content=True),
    Facet("readability", language.readability, 0, 0.5),
    Facet("engagement", language.engagement, 0.7, 0.4, halo=0.1, talk=0.5),
    Facet("naturalness", language.naturalness, 0.15, 0.35, halo=0.1, talk=0.3),
    Facet("answer", language.answer, 0, 0.6, halo=0.5, talk=0.6, needs="turns", content=True),
    Facet("courtesy", language.courtesy, 0.3, 0.3, halo=0.05, talk=0.1),
    Facet("structure", language.structure, -0.3, 0.5),
)
NAMES = tuple(facet.name for facet in FACETS)
INDEX = {name: place for place, name in enumerate(NAMES)}
HALO: Vector = np.array([facet.halo for facet in FACETS])
TALK: Vector = np.array([facet.talk for facet in FACETS])
IS_CONTENT = np.array([facet.content for facet in FACETS])
IS_CHECKED = np.isin(NAMES, ("support", "truth"))
BOUND = 4.0
# What being better than usual earns, beside what being worse costs: all where it is asked for in
# degrees, hardly anything where readers take it for granted, a little more elsewhere.
_DEGREES = (
    *("support", "truth", "knowledge", "answer", "engagement", "detail"),
    *("focus", "unity", "rewording"),
)
_GRANTED = ("grammar", "form", "completeness")
EXCELLENCE: Vector = np.select(
    [np.isin(NAMES, _DEGREES), np.isin(NAMES, _GRANTED)], [1.0, 0.2], default=0.3
)


class Phrases(NamedTuple):
    """What to say of a facet.

    `asks` names it in an instruction, after "whether the text", in words that read back as the
    same facet; `strength` and `weakness` name it in a comparison.
    """

    asks: str
    strength: str
    weakness: str


# In the order of FACETS.
PHRASES = tuple(
    Phrases(*line.split(" | "))
    for line in """
covers the main points | covers more of what matters | misses main points
leaves out unimportant details | keeps to what matters | dwells on side issues
is supported by the source | stays with its source | lacks support in its source
contradicts no number, name or fact | gets the facts right | alters facts
makes use of the knowledge given | uses what is known | ignores what is known
keeps the original wording | keeps the original wording | strays in wording
follows a logical order | has a clear order | jumps about
connects its sentences | hangs together | hangs together badly
tells of one thing in each sentence | keeps each sentence to one thing | is stitched together
is told as one piece | is told as one piece | is pasted together
tells it in its own words | tells it in its own words | is pasted from its source
avoids repetition | says nothing twice | repeats itself
is grammatical | has better grammar | has broken grammar
is written in full, varied sentences | is better written | is written poorly
has clean spelling and punctuation | is cleaner in form | is careless in form
ends with a complete sentence | is complete | breaks off
is brief and concise | is more concise | is wordy
is thorough and long enough | tells more | tells too little
is specific and informative | is more specific | stays vague
is simple and easy to read | is easier to read | is hard to read
is engaging and interesting | is more engaging | is dull
sounds natural | sounds more natural | sounds unnatural
responds to the last turn | answers more to the point | misses the question
is polite and harmless | is kinder in tone | is rude
has a clear layout of lists and paragraphs | is laid out better | has no layout
""".strip().splitlines()
)


def facets_of(roles: Roles, texts: Mapping[str, str], candidate: str) -> Vector:
    """The facets of one judged text beside the others of its request."""
    return facets_and_traits(roles, texts, candidate, with_traits=False)[0]


def _sources(roles: Roles, texts: Mapping[str, str]) -> list[list[str]]:
    """The documents, the turns and the knowledge of a request."""
    groups = (roles.documents, roles.turns, roles.knowledge)
    return [[texts.get(name, "") for name in names] for names in groups]


def _digest(roles: Roles, texts: Mapping[str, str], candidate: str, *, with_traits: bool) -> bytes:
    judged = texts.get(candidate, "")
    key = repr((judged, _sources(roles, texts), roles.condenses, with_traits))
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


@cached(LRUCache(MOST_TEXTS), key=_digest, lock=Lock())
def facets_and_traits(
    roles: Roles, texts: Mapping[str, str], candidate: str, *, with_traits: bool
) -> tuple[Vector, Vector]:
    """The same with its traits, which only demonstrations need; else none."""
    text = read_text(texts.get(candidate, ""))
    facets, traits = np.full(len(NAMES), -3.0), np.zeros(N_TRAITS if with_traits else 0)
    # Nothing to judge is the worst there is, on every facet, and has no trait at all.
    if text.sentences:
        judged = read_judged_text(text, *_sources(roles, texts), condenses=roles.condenses)
        facets = _measure(judged)
        traits = read_traits(judged) if with_traits else traits
    facets.setflags(write=False)
    traits.setflags(write=False)
    return facets, traits


def _measure(judged: JudgedText) -> Vector:
    """All facets of one judged text."""
    values = []
    for facet in FACETS:
        sources = (getattr(judged, facet.needs),) if facet.needs else ()
        value = None if None in sources else facet.measure(judged, *sources)
        values.append(0.0 if value is None else (value - facet.middle) / facet.spread)
    # Soft bounds: no single facet runs away, and none stops telling texts apart.
    bounded: Vector = BOUND * np.tanh(np.array(values) / BOUND)
    return np.where(bounded > 0, EXCELLENCE * bounded, bounded)
