"""The facets of quality: how each is measured and worded, and how much of each a prompt asks for.

A facet is a row of FACETS and a line of PHRASES; the words of instructions, definitions and anchors
that name it stand below.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from judges.embedded import content, language
from judges.embedded.request import Roles, Task, read_roles
from judges.embedded.source import MAX_VECTORS, digest, read_judged_text
from judges.embedded.text import read_table

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet of quality.

    `measure` counts, higher for better; `mean` and `sd` are what it gives for ordinary system
    outputs, so that facets weigh alike (a facet that counting measures badly has a wide sd).
    `needs` names the source that it takes and without which it is 0. `halo` is its part in any
    overall impression of a text made from a document, `talk` in that of a turn or an answer.
    `content` tells what is said from how.
    """

    name: str
    measure: Callable[..., float]
    mean: float
    sd: float
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
INDEX = {name: index for index, name in enumerate(NAMES)}
HALO: Vector = np.array([facet.halo for facet in FACETS])
TALK: Vector = np.array([facet.talk for facet in FACETS])
IS_CONTENT = np.array([facet.content for facet in FACETS])
IS_CHECKED = np.isin(NAMES, ("support", "truth"))
# No single facet runs away: this is the farthest that it goes, and none stops telling texts apart.
BOUND = 4.0
# A text without words has nothing good: this on every facet.
EMPTY = -3.0
# What being better than usual earns, beside what being worse costs: all where it is asked for in
# degrees, hardly anything where readers take it for granted, a little more elsewhere.
_IN_DEGREES = (
    *("support", "truth", "knowledge", "answer", "engagement", "detail"),
    *("focus", "unity", "rewording"),
)
_FOR_GRANTED = ("grammar", "form", "completeness")
EXCELLENCE: Vector = np.select(
    [np.isin(NAMES, _IN_DEGREES), np.isin(NAMES, _FOR_GRANTED)], [1.0, 0.2], default=0.3
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


@cached(LRUCache(MAX_VECTORS), key=digest, lock=Lock())
def facets_of(roles: Roles, texts: Mapping[str, str], candidate: str) -> Vector:
    """The facets of one judged text beside the others of its request, each in (-4, 4)."""
    judged = read_judged_text(roles, texts, candidate)
    facets = np.full(len(NAMES), EMPTY)
    if judged.text.sentences:
        values = [0.0] * len(NAMES)
        for index, facet in enumerate(FACETS):
            sources = (getattr(judged, facet.needs),) if facet.needs else ()
            if None not in sources:
                values[index] = (facet.measure(judged, *sources) - facet.mean) / facet.sd
        facets = BOUND * np.tanh(np.array(values) / BOUND)
        facets = np.where(facets > 0, EXCELLENCE * facets, facets)
    facets.setflags(write=False)
    return facets


Shares = dict[int, float]


def _read_names() -> tuple[dict[str, Shares], dict[str, Shares], dict[str, Shares]]:
    """The words, the beginnings of words and the patterns of phrases that name facets."""
    words: dict[str, Shares] = {}
    beginnings: dict[str, Shares] = {}
    phrases: dict[str, Shares] = {}
    for row, names in read_table("facet_words.txt"):
        shares = {INDEX[name]: float(part) for name, part in (x.split("=") for x in row.split())}
        for phrase in re.findall(r'"([^"]+)"', names):
            phrases[phrase] = shares
        for word in re.sub(r'"[^"]+"', "", names).split():
            words[word.removesuffix(".")] = shares
            if not word.endswith("."):
                beginnings[word] = shares
    return words, beginnings, phrases


_WORDS, _BEGINNINGS, _PHRASES = _read_names()
MIN_BEGINNING_LENGTH, MAX_BEGINNING_LENGTH = 4, max(map(len, _BEGINNINGS))
_PHRASE = re.compile("|".join(rf"(\b{phrase}\b)" for phrase in _PHRASES))
_PHRASE_SHARES = list(_PHRASES.values())


class Intensity(NamedTuple):
    """How much an instruction stresses what follows, until the next such word or the clause's end.

    `words` (a pattern) say it.
    """

    factor: float
    words: str


INTENSITIES = (
    Intensity(
        3.0,
        r"above all(?: else)?|most of all|mainly|chiefly|primarily|foremost|first and foremost"
        r"|(?:most|very) heavily|more than anything(?: else)?|decisive\w*",
    ),
    Intensity(
        1.8,
        r"especially|particularly|strongly|heavily|strictly|severely|sharply|closely|very much",
    ),
    Intensity(
        0.6,
        r"also|somewhat|slightly|a little|as well|less|lightly|to a (?:lesser|smaller)"
        r" (?:degree|extent)|secondly|secondarily|in passing",
    ),
    Intensity(
        0.25,
        r"(?:give |put )?(?:very )?little (?:weight|importance|attention)(?: (?:to|on))?"
        r"|hardly|barely|only a little",
    ),
    Intensity(
        0.0,
        r"ignor\w*|disregard\w*|regardless of|irrespective of|leav\w+ aside"
        r"|(?:do|does|should) not (?:judge|consider|penali[sz]e|weigh|reward|mind)"
        r"|don't (?:judge|consider|penali[sz]e|weigh)|never mind"
        r"|(?:no|without any) (?:weight|regard)(?: (?:to|on|for))?"
        r"|(?:do|does) not lower the (?:rating|score) for",
    ),
)
_INTENSIFIER = re.compile("|".join(rf"(\b(?:{level.words})\b)" for level in INTENSITIES))
_FACTORS = [level.factor for level in INTENSITIES]
_CLAUSE_END = re.compile(r"[.;:!?\n]+|\b(?:but|whereas|while|though|although)\b")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
# Suppressed facets keep a little, since raters rarely forget a fault.
SUPPRESSED = 0.1
# The instruction is what a user or an optimizer writes for this judge, so it counts most.
INSTRUCTION, DEFINITION, ANCHORS = 0.55, 0.3, 0.15
# The tenth mention of a facet adds less than the first.
GROWTH = 0.5
# Sums over facets are kept to so many decimals: the order in which a processor adds must not break
# a tie, nor pass for a direction.
DECIMALS = 9
# What any overall impression adds to the facets that are asked for.
IMPRESSION = 1.3
# Checking facts is analytic work, which an impression colours less.
CHECKING = 0.85
_ANCHOR = re.compile(r"(?:^|[(;]\s?)-?\d+ = ")
_RATINGS = re.compile(r"\b(?:rating|score|rate|judge|points?)(?= (?:of|from|for|between) \d)")


def emphases(task: Task) -> Vector:
    """Weights on the facets: what the task's words ask for, on top of an overall impression.

    Where no word names a facet, the overall impression alone decides.
    """
    requested = np.zeros(len(NAMES))
    ignored: set[int] = set()
    roles = read_roles(task.inputs, compares=task.compares)
    instruction = (_RATINGS.sub(" ", task.instruction), INSTRUCTION)
    for text, part in (instruction, *definition_and_anchors(task)):
        for name in roles.candidates:
            # The word for what is judged, as in "the response", names no quality.
            word = name.rsplit("_", 1)[0] if task.compares else name.replace("_", " ")
            text = re.sub(rf"\b{re.escape(word)}(?:s|'s)?\b", " ", text, flags=re.IGNORECASE)
        requested += part * read_shares(text)
        ignored |= read_amounts(text)[1]
    size = np.abs(requested).sum()
    if size:
        requested /= size
    weights = requested + default_weights(requested, roles)
    for index in ignored:
        weights[index] *= SUPPRESSED
    return weights


def definition_and_anchors(task: Task) -> tuple[tuple[str, float], tuple[str, float]]:
    """Both texts with their parts in what is asked: the description of the field with choices."""
    definition, anchors = task.choice.description if task.choice else "", ""
    if start := _ANCHOR.search(definition):
        anchors = _ANCHOR.sub("; ", definition[start.start() :])
        definition = definition[: start.start()]
    return (definition, DEFINITION), (anchors, ANCHORS)


def default_weights(requested: Vector, roles: Roles) -> Vector:
    """What else colours a judgement: content in the measure that content is asked for.

    Where facts are to be checked, less of anything else does.
    """
    amounts = np.abs(requested)
    size = amounts.sum() or 1.0
    part = IMPRESSION * (1 - CHECKING * (amounts[IS_CHECKED].sum() / size))
    if roles.turns and not roles.is_summary:
        return np.asarray(part * TALK / TALK.sum())
    content_part = amounts[IS_CONTENT].sum() / size if requested.any() else 1.0
    return np.asarray(part * np.where(IS_CONTENT, content_part * HALO, HALO) / HALO.sum())


def read_shares(text: str) -> Vector:
    """How much a text asks of each facet, summing to 1, or all 0."""
    amounts = np.array(read_amounts(text)[0])
    grown = np.sign(amounts) * np.abs(amounts) ** GROWTH
    return np.asarray(grown / (np.abs(grown).sum() or 1.0))


@lru_cache(maxsize=4096)
def read_amounts(text: str) -> tuple[tuple[float, ...], frozenset[int]]:
    """How much of each facet a text names, in all, and the facets that it says to ignore."""
    total = [0.0] * len(NAMES)
    ignored: set[int] = set()
    for clause in _CLAUSE_END.split(text.lower()):
        intensities = [
            (match.start(), _FACTORS[_group(match)]) for match in _INTENSIFIER.finditer(clause)
        ]
        clause = _INTENSIFIER.sub(_blank, clause)
        named = [(m.start(), _PHRASE_SHARES[_group(m)]) for m in _PHRASE.finditer(clause)]
        clause = _PHRASE.sub(_blank, clause)
        named += [(match.start(), _shares_of(match[0])) for match in _WORD.finditer(clause)]
        factor = 1.0
        for start, shares in sorted(named, key=lambda item: item[0]):
            while intensities and intensities[0][0] < start:
                factor = intensities.pop(0)[1]
            for index, share in shares.items():
                total[index] += factor * share
                if factor == 0.0 and share >= 0.3:
                    ignored.add(index)
    return tuple(total), frozenset(ignored)


def _group(match: re.Match[str]) -> int:
    """The number, from 0, of the alternative that matched."""
    return (match.lastindex or 1) - 1


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _shares_of(word: str) -> Shares:
    """What a word names: it is listed, or else its longest beginning is."""
    if word in _WORDS:
        return _WORDS[word]
    # Nothing longer is listed: a hostile text may be one word of a million letters.
    for end in range(min(len(word) - 1, MAX_BEGINNING_LENGTH), MIN_BEGINNING_LENGTH - 1, -1):
        if word[:end] in _BEGINNINGS:
            return _BEGINNINGS[word[:end]]
    return {}
