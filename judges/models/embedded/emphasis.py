"""Read emphases off words: how much an instruction, a definition and anchors ask of each facet."""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from judges.models.embedded.facets import HALO, INDEX, IS_CHECKED, IS_CONTENT, NAMES, TALK, Vector
from judges.models.embedded.lexicon import PHRASE, PHRASES, Shares, shares_of
from judges.models.embedded.request import Task
from judges.models.embedded.roles import Roles, read_roles

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
_CLAUSE = re.compile(r"[.;:!?\n]+|\b(?:but|whereas|while|though|although)\b")
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


def named_amounts(text: str) -> Vector:
    """How much of each facet a text names, before any share is taken."""
    total = np.zeros(len(NAMES))
    for clause in _CLAUSE.split(text.lower()):
        _read_clause(clause, total, set())
    return total


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The facets a text names, and those it says to ignore."""
    total = np.zeros(len(NAMES))
    ignored: set[int] = set()
    for clause in _CLAUSE.split(text.lower()):
        _read_clause(clause, total, ignored)
    grown = np.sign(total) * np.abs(total) ** GROWTH
    return tuple(float(value) for value in grown), tuple(sorted(ignored))


def _read_clause(clause: str, total: Vector, ignored: set[int]) -> None:
    marks: list[tuple[int, float | Shares]] = []
    for found in _LOUD.finditer(clause):
        marks.append((found.start(), _LOUDNESS[int(str(found.lastgroup)[1:])][0]))
    rest = _LOUD.sub(lambda found: " " * len(found[0]), clause)
    for found in PHRASE.finditer(rest):
        marks.append((found.start(), PHRASES[int(str(found.lastgroup)[1:])]))
    rest = PHRASE.sub(lambda found: " " * len(found[0]), rest)
    for found in _WORD.finditer(rest):
        shares = shares_of(found[0])
        if shares is not None:
            marks.append((found.start(), shares))
    loudness = 1.0
    for _, mark in sorted(marks, key=lambda one: one[0]):
        if isinstance(mark, float):
            loudness = mark
            continue
        for name, share in mark.items():
            total[INDEX[name]] += loudness * share
            if loudness == 0.0 and share >= 0.3:
                ignored.add(INDEX[name])


def named(text: str) -> tuple[Vector, frozenset[int]]:
    """How much a text asks of each facet (summing to 1, or all 0), and what it says to ignore."""
    values, ignored = _read(text)
    total = np.array(values)
    size = np.abs(total).sum()
    return (total / size if size else total), frozenset(ignored)


def emphases(task: Task) -> Vector:
    """Weights on the facets: what the task's words ask for, on top of an overall impression.

    Where no word names a facet, the overall impression alone decides.
    """
    asked = np.zeros(len(NAMES))
    ignored: frozenset[int] = frozenset()
    roles = read_roles(task.reads, compares=task.compares)
    definition, anchors = _described(task)
    for text, part in (
        (_RATINGS.sub(" ", task.instruction), INSTRUCTION),
        (definition, DEFINITION),
        (anchors, ANCHORS),
    ):
        values, silenced = named(_without(text, roles.candidates))
        asked += part * values
        ignored |= silenced
    size = np.abs(asked).sum()
    if size:
        asked /= size
    weights = asked + _impression(asked, roles)
    for place in ignored:
        weights[place] *= SUPPRESSED
    return np.asarray(weights, dtype=np.float64)


def instruction_shares(task: Task, wanted: Vector) -> Vector:
    """What an instruction is to say so that, with definition and anchors, `wanted` comes out."""
    given = np.zeros(len(NAMES))
    definition, anchors = _described(task)
    for text, part in ((definition, DEFINITION), (anchors, ANCHORS)):
        given += part * named(text)[0]
    roles = read_roles(task.reads, compares=task.compares)
    asked = wanted - _impression(np.maximum(wanted, 0.0), roles)
    size = np.abs(asked).sum() or 1.0
    return np.asarray((asked / size - given) / INSTRUCTION)


def _without(text: str, candidates: Sequence[str]) -> str:
    """The text without the word for what is judged: "the response" names no quality."""
    for name in candidates:
        word = name.rsplit("_", 1)[0] if len(candidates) > 1 else name.replace("_", " ")
        text = re.sub(rf"\b{re.escape(word)}(?:s|'s)?\b", " ", text, flags=re.IGNORECASE)
    return text


def _impression(asked: Vector, roles: Roles) -> Vector:
    """What else colours a judgement: content in the measure that content is asked for.

    Where facts are to be checked, less of anything else does.
    """
    size = np.abs(asked).sum() or 1.0
    checked = np.abs(asked[IS_CHECKED]).sum() / size
    part = IMPRESSION * (1 - CHECKING * checked)
    if roles.turns and not roles.condenses:
        return np.asarray(part * TALK / TALK.sum())
    content = np.abs(asked[IS_CONTENT]).sum() / size if asked.any() else 1.0
    halo = np.where(IS_CONTENT, content * HALO, HALO)
    return np.asarray(part * halo / HALO.sum())


def _described(task: Task) -> tuple[str, str]:
    """The definition and the anchors, both in the description of the field with choices."""
    field = task.choice
    if field is None:
        return "", ""
    start = _ANCHOR.search(field.description)
    if start is None:
        return field.description, ""
    return field.description[: start.start()], _ANCHOR.sub("; ", field.description[start.start() :])
