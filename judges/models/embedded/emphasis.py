"""Read emphases on facets off words, and put emphases into words that read back as the same.

Emphases are how much an instruction, a definition and anchors ask of each facet.
"""

import random
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from judges.models.embedded.facets import (
    HALO,
    INDEX,
    IS_CHECKED,
    IS_CONTENT,
    NAMES,
    PHRASES,
    TALK,
    Vector,
)
from judges.models.embedded.request import Roles, Task, read_roles
from judges.models.embedded.text import word_set

# The words that name facets, as people use them in definitions, anchors and instructions: how they
# begin, then how much of which facet each means. Where a word names a broad quality, its parts are
# those that published definitions give it.
_WORDS = """
coher incoher | order=.7 connection=.7 unity=.7 rewording=.7 repetition=.7 grammar=.4 style=.4
organi disorgani structur | order=.6 connection=.3 structure=.1
ordered order orderly sequen chronolog | order=1
logic illogic | order=.7 connection=.3
jumps jumpy jump | order=.6 connection=.4
connect unconnect disconnect cohes link transition | connection=.85 order=.15
flow smooth seamless | connection=.7 order=.3
stitch patchwork paste pasted | unity=.3 rewording=.3 continuity=.4
together whole unified unity heap discourse | connection=.3 unity=.3 order=.25 repetition=.15
well-built well-structured well-organi leads | order=.4 connection=.4 repetition=.2
loose dangling | connection=.7 repetition=.3
repeat repetit redundan duplica twice restat | repetition=1
consisten inconsisten factual faithful unfaithful | support=1.3 truth=.6 continuity=.8
fact facts | support=.2 truth=.2
attributab grounded groundedness entail | support=1.5 truth=.3 knowledge=.7
verif | support=1
support unsupport evidence back backed | support=.7 continuity=.3
invent hallucinat fabricat made-up unfounded | support=.7 truth=.3
contradict alter distort wrong false mistaken error-free | truth=1
true truth accura inaccura correct incorrect precise numbers names negat | truth=.7 support=.3
statement claim assert | support=.2 truth=.1 continuity=.1
relevan irrelevan | coverage=1.3 focus=.8 repetition=.4
cover coverage covers omit omission miss missing misses comprehensive | coverage=1
important key salient salien main central essential essence gist crucial | coverage=.8 focus=.2
point points | coverage=.8 focus=.2
informativ | coverage=1.4 specificity=.6 detail=.4
information inform content | coverage=.3 specificity=.1
unimportant extraneous superfluous side off-topic focus focused digress trivia | focus=1
unnecess needless padding | focus=1
select picks pick | coverage=.5 focus=.5
concise concis brief short succinct terse compact economical | conciseness=1
wordy verbose long-winded lengthy rambl | conciseness=1
thorough long longer elaborat developed depth extensive exhaustive length | detail=1
detail detailed details rich | detail=.5 specificity=.5
specific concrete vague generic exact | specificity=1
fluen disfluen | grammar=1 style=2 form=.3 completeness=.6
style styl written writing prose eloquen vocabular varied | style=1
gramma ungramma syntax tense agreement preposition phras wording | grammar=1
english language | grammar=.3 form=.2
mistake error typo slip | grammar=.5 form=.5
spell punctuat punctuation capital capitals casing format formatting typograph | form=1
stray characters spacing clean | form=1
fragment incomplete broken cut truncat unfinished complet ending | completeness=.7 grammar=.3
garbled unintelligib | grammar=.6 form=.4
readab understandab comprehensib intelligib | readability=.5 grammar=1.2 connection=.4
easy hard simple simpl plain accessib | readability=.3 grammar=.4 connection=.1
clear clarity understand follow | readability=.1 grammar=.4 connection=.3
complex complicat jargon | readability=1
engag | engagement=2.2 knowledge=.3
interest interesting dull boring captivat entertain curious lively fun fascinat | engagement=1
natural unnatural naturalness human-like humanlike conversational | naturalness=1.6 grammar=.7
human spoken person | naturalness=.5
appropriate on-topic answers answer responds responding | answer=.6
reply replies response conversation context question query request asked | answer=.3
helpful unhelpful useful | answer=1 detail=.5 specificity=.5 structure=.2
help helps assist | answer=.5
instruction instructions | answer=1
knowledge knowledgeab background | knowledge=1
polite impolite rude harm harmless harmful toxic offensive kindness | courtesy=1
respect safe unsafe tone insult | courtesy=1
bullet list layout paragraph heading section | structure=1
verbatim copied copies wording-close quote literal | closeness=1
reword rewrit paraphras retell retold anew abstractive | rewording=1
"""
# Phrases that mean something else than their words, taken out before words are read.
_PHRASES = """
(?:made|makes?|making) (?:it |things? )?up | support=.7 truth=.3
(?:un|not )important (?:details?|information|content|points?) | focus=1
(?:irrelevant|minor|needless|superfluous|side|extra|trivial) (?:\\w+ )?{things} | focus=1
details? that (?:do|does) not matter | focus=1
nothing superfluous | focus=1
(?:and )?only that | focus=1
(?:side issues?|beside the point|off the point|off topic) | focus=1
(?:main|key|most important|important|essential|central) {things} | coverage=1
what (?:really )?matters | coverage=.6 focus=.4
miss(?:es|ing)? the point | coverage=.7 focus=.3
(?:simple|short) (?:words )?and easy to read | readability=1
(?:easy|easier|hard|harder) to {take} | readability=.2 grammar=.4 style=.2 form=.2
(?:choice of words|word choice|sentence structure) | grammar=.3 style=.8 completeness=.2
full,? (?:and )?varied sentences? | style=1
(?:stray|odd|strange) (?:characters?|symbols?|tokens?) | form=1
hold(?:s)? together | connection=.5 order=.3 repetition=.2
from sentence to sentence | connection=.8 order=.2
sentence by sentence | grammar=1
one thing in each sentence | continuity=1
last turn | answer=1
one piece | unity=1
own words | rewording=1
original wording | closeness=1
long enough | detail=1
well[- ](?:written|formed) | grammar=.4 style=.4 form=.2
as a whole | coverage=.3 grammar=.2 connection=.2 support=.3
(?:knowledge|facts?) given | knowledge=1
(?:the |a )?(?:given|provided) (?:facts?|knowledge) | knowledge=1
(?:makes?|making) (?:good )?use of | knowledge=1.5
uses? (?:of )?(?:the |it\\b) | knowledge=1
(?:valid |good |natural )?(?:continuation|continues?) | answer=1
(?:previous|preceding|dialog(?:ue)?) (?:context|turns?) | answer=.6
complete sentences? | completeness=.8 grammar=.2
on topic | answer=.6 focus=.4
"""

Shares = dict[str, float]


def _shares(text: str) -> Shares:
    return {name: float(value) for name, value in (item.split("=") for item in text.split())}


_BEGINNINGS: dict[str, Shares] = {
    start: _shares(shares)
    for starts, shares in (line.split(" | ") for line in _WORDS.strip().splitlines())
    for start in starts.split()
}
# These beginnings are whole words too common to be read with any ending.
_WHOLE = word_set(
    "order read main key point points link back true cut list fun kind name number long short hard"
    " easy clear whole select numbers names pick picks last"
    " turn reply complet used uses given side person help"
    " helps leads jump fact facts content cover follow loose section task language tense"
)
SHORTEST = 4
LONGEST_BEGINNING = max(map(len, _BEGINNINGS))
_THINGS = "(?:details?|issues?|topics?|points?|ideas?|content|information|facts?|messages?|events?)"
_TAKE = "(?:read|follow|grasp|understand)"
_LISTED = [
    line.replace("{things}", _THINGS).replace("{take}", _TAKE).rsplit(" | ", 1)
    for line in _PHRASES.strip().splitlines()
]
_PHRASE = re.compile("|".join(rf"(?P<p{n}>\b{words}\b)" for n, (words, _) in enumerate(_LISTED)))
_PHRASE_SHARES = [_shares(shares) for _, shares in _LISTED]
# How loud what follows is, until the next such word or the end of the clause.
_LOUDNESS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (0.0, (
        r"ignor\w*", r"disregard\w*", r"regardless of", r"irrespective of", r"leav\w+ aside",
        r"(?:do|does|should) not (?:judge|consider|penali[sz]e|weigh|reward|mind)",
        r"don't (?:judge|consider|penali[sz]e|weigh)", r"never mind",
        r"(?:no|without any) (?:weight|regard)(?: (?:to|on|for))?",
        r"(?:do|does) not lower the (?:rating|score) for",
    )),
    (0.25, (
        r"(?:give |put )?(?:very )?little (?:weight|importance|attention)(?: (?:to|on))?",
        r"hardly", r"barely", r"only a little",
    )),
    (0.6, (
        r"also", r"somewhat", r"slightly", r"a little", r"as well", r"less", r"lightly",
        r"to a (?:lesser|smaller) (?:degree|extent)", r"secondly", r"secondarily", r"in passing",
    )),
    (3.0, (
        r"above all(?: else)?", r"most of all", r"mainly", r"chiefly", r"primarily", r"foremost",
        r"first and foremost", r"(?:most|very) heavily", r"more than anything(?: else)?",
        r"decisive\w*",
    )),
    (1.8, (
        r"especially", r"particularly", r"strongly", r"heavily", r"strictly", r"severely",
        r"sharply", r"closely", r"very much",
    )),
)  # fmt: skip
_LOUD = re.compile(
    "|".join(rf"(?P<l{n}>\b(?:{'|'.join(words)})\b)" for n, (_, words) in enumerate(_LOUDNESS))
)
_CLAUSE_END = re.compile(r"[.;:!?\n]+|\b(?:but|whereas|while|though|although)\b")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
# Suppressed facets keep a little, since raters rarely forget a fault.
SUPPRESSED = 0.1
# The instruction is what a user or an optimizer writes for this judge, so it counts most.
INSTRUCTION, DEFINITION, ANCHORS = 0.55, 0.3, 0.15
# The tenth mention of a facet adds less than the first.
GROWTH = 0.5
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
    ignored: frozenset[int] = frozenset()
    roles = read_roles(task.inputs, compares=task.compares)
    definition, anchors = _definition_and_anchors(task)
    for text, part in (
        (_RATINGS.sub(" ", task.instruction), INSTRUCTION),
        (definition, DEFINITION),
        (anchors, ANCHORS),
    ):
        shares, silenced = read_shares(_without(text, roles.candidates))
        requested += part * shares
        ignored |= silenced
    size = np.abs(requested).sum()
    if size:
        requested /= size
    weights = requested + _impression(requested, roles)
    for place in ignored:
        weights[place] *= SUPPRESSED
    return np.asarray(weights, dtype=np.float64)


def _definition_and_anchors(task: Task) -> tuple[str, str]:
    """Both are in the description of the field with choices."""
    description = task.choice.description if task.choice else ""
    start = _ANCHOR.search(description)
    if start is None:
        return description, ""
    return description[: start.start()], _ANCHOR.sub("; ", description[start.start() :])


def _without(text: str, candidates: Sequence[str]) -> str:
    """The text without the word for what is judged: "the response" names no quality."""
    for name in candidates:
        word = name.rsplit("_", 1)[0] if len(candidates) > 1 else name.replace("_", " ")
        text = re.sub(rf"\b{re.escape(word)}(?:s|'s)?\b", " ", text, flags=re.IGNORECASE)
    return text


def _impression(requested: Vector, roles: Roles) -> Vector:
    """What else colours a judgement: content in the measure that content is asked for.

    Where facts are to be checked, less of anything else does.
    """
    size = np.abs(requested).sum() or 1.0
    checked = np.abs(requested[IS_CHECKED]).sum() / size
    part = IMPRESSION * (1 - CHECKING * checked)
    if roles.turns and not roles.condenses:
        return np.asarray(part * TALK / TALK.sum())
    content = np.abs(requested[IS_CONTENT]).sum() / size if requested.any() else 1.0
    halo = np.where(IS_CONTENT, content * HALO, HALO)
    return np.asarray(part * halo / HALO.sum())


def read_shares(text: str) -> tuple[Vector, frozenset[int]]:
    """How much a text asks of each facet (summing to 1, or all 0), and what it says to ignore."""
    amounts, ignored = _read_amounts(text)
    grown = np.sign(amounts) * np.abs(amounts) ** GROWTH
    size = np.abs(grown).sum()
    return (grown / size if size else grown), ignored


@lru_cache(maxsize=4096)
def _read_amounts(text: str) -> tuple[tuple[float, ...], frozenset[int]]:
    """How much of each facet a text names, in all, and the facets that it says to ignore."""
    total = [0.0] * len(NAMES)
    ignored: set[int] = set()
    for clause in _CLAUSE_END.split(text.lower()):
        marks: list[tuple[int, float | Shares]] = []
        for match in _LOUD.finditer(clause):
            marks.append((match.start(), _LOUDNESS[int(str(match.lastgroup)[1:])][0]))
        rest = _LOUD.sub(_blank, clause)
        for match in _PHRASE.finditer(rest):
            marks.append((match.start(), _PHRASE_SHARES[int(str(match.lastgroup)[1:])]))
        for match in _WORD.finditer(_PHRASE.sub(_blank, rest)):
            marks.append((match.start(), _shares_of(match[0])))
        loudness = 1.0
        for _, mark in sorted(marks, key=lambda item: item[0]):
            if isinstance(mark, float):
                loudness = mark
                continue
            for name, share in mark.items():
                total[INDEX[name]] += loudness * share
                if loudness == 0.0 and share >= 0.3:
                    ignored.add(INDEX[name])
    return tuple(total), frozenset(ignored)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _shares_of(word: str) -> Shares:
    """What a word names, by its longest beginning that is listed."""
    if word in _BEGINNINGS:
        return _BEGINNINGS[word]
    # Nothing longer is listed: a hostile text may be one word of a million letters.
    for end in range(min(len(word) - 1, LONGEST_BEGINNING), SHORTEST - 1, -1):
        start = word[:end]
        if start in _BEGINNINGS and start not in _WHOLE:
            return _BEGINNINGS[start]
    return {}


# An instruction put into words is at most so long, and names at most so many facets.
LONGEST, MOST_FACETS = 880, 9
# A loudness, and ways to say it before "whether the text ...".
_LEVELS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (3.0, ("Above all, look whether it", "Mainly ask whether it", "Attend mainly to whether it")),
    (1.8, ("Look closely at whether it", "Heed especially whether it", "Check strictly that it")),
    (1.0, ("See whether it", "Ask whether it", "Weigh whether it")),
    (0.6, ("Consider also whether it", "Note also whether it", "See, in passing, whether it")),
    (0.25, ("Give little weight to whether it",)),
    (0.0, ("Ignore whether it",)),
)
_PREFER: tuple[tuple[float, tuple[str, ...]], ...] = (
    (3.0, ("Above all, prefer the one that", "Mainly prefer the one that")),
    (1.8, ("Strongly prefer the one that", "Especially favour the one that")),
    (1.0, ("Prefer the one that", "Favour the one that")),
    (0.6, ("Also favour the one that", "Prefer also the one that")),
    (0.25, ("Give little weight to which one",)),
    (0.0, ("Ignore which one",)),
)
# What is to have less than this part of a facet's own wording is left unsaid.
UNSAID = 0.12
_CLAUSE = re.compile(r"[:;.?!\n]")
_STEPS = re.compile(r"\bone sentence\b|\bthen name\b|\bcompar(?:e|ing) the two\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")


def instruction_shares(task: Task, target: Vector) -> Vector:
    """What an instruction is to say so that, with definition and anchors, `target` comes out."""
    described = np.zeros(len(NAMES))
    definition, anchors = _definition_and_anchors(task)
    for text, part in ((definition, DEFINITION), (anchors, ANCHORS)):
        described += part * read_shares(text)[0]
    roles = read_roles(task.inputs, compares=task.compares)
    requested = target - _impression(np.maximum(target, 0.0), roles)
    size = np.abs(requested).sum() or 1.0
    return np.asarray((requested / size - described) / INSTRUCTION)


def compose(current: str, target: Vector, rng: random.Random, *, compares: bool) -> str:
    """An instruction that keeps what is judged and asks for the facets as `target` says.

    `target` holds the share of the instruction that each facet is to have; below 0: to be ignored.
    """
    # The first clause says what is judged; sentences that say how to answer stay as they are.
    opening = _CLAUSE.split(current.strip(), maxsplit=1)[0].strip()
    if not 2 <= len(opening.split()) <= 24:
        opening = "Judge the quality of the text"
    steps = [s for s in _SENTENCE_END.split(current.strip())[1:] if _STEPS.search(s)]
    closing = " ".join(steps)[:240]
    amounts = np.sign(target) * np.abs(target) ** (1 / GROWTH)
    most = int(np.argmax(amounts))
    amounts = amounts * (3.0 * _own_amount(most) / max(1e-9, amounts[most]))
    amounts = amounts - np.maximum(_read_amounts(opening)[0], 0)
    by_loudness: dict[float, list[str]] = {}
    for place in [int(i) for i in np.argsort(-np.abs(amounts), kind="stable")][:MOST_FACETS]:
        loudness = 0.0
        if target[place] >= 0:
            ratio = float(amounts[place]) / _own_amount(place)
            if ratio < UNSAID:
                continue
            loudness = min(_POSITIVE_LEVELS, key=lambda level: abs(np.log(level / ratio)))
        by_loudness.setdefault(loudness, []).append(PHRASES[place].asks)
    sentences = [f"{opening}."]
    for loudness, wordings in _PREFER if compares else _LEVELS:
        phrases = by_loudness.get(loudness, [])
        for at in range(0, len(phrases), 3):
            *others, last = phrases[at : at + 3]
            phrase = f"{', '.join(others)} and {last}" if others else last
            sentence = f"{rng.choice(wordings)} {phrase}."
            if len(" ".join([*sentences, sentence, closing])) < LONGEST:
                sentences.append(sentence)
    return " ".join([*sentences, closing] if closing else sentences)


_POSITIVE_LEVELS = [level for level, _ in _LEVELS if level > 0]


@lru_cache(maxsize=64)
def _own_amount(place: int) -> float:
    """How much of its facet a facet's own wording names."""
    return max(0.3, _read_amounts(PHRASES[place].asks)[0][place])
