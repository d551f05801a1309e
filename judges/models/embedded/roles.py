"""Tell from the fields' names and descriptions which text is judged and what the others are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges.prompt import Field


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of the texts by what they are.

    candidates: the judged text, or the two that are compared. documents: what it was made from.
    turns: what it answers (a query, a dialogue so far). knowledge: facts given to use.
    condenses: whether the judged text is a shorter form of the documents.
    """

    candidates: tuple[str, ...]
    documents: tuple[str, ...]
    turns: tuple[str, ...]
    knowledge: tuple[str, ...]
    condenses: bool


_JUDGED = re.compile(
    r"\bto (?:be )?(?:judge|rate|score|evaluate|assess|grade)|\b(?:judged|rated)\b"
)
_CANDIDATE = re.compile(
    r"summar(?:y|ies|isation|ization)|respon|answer|output|repl(?:y|ies)|translation|candidate"
    r"|generated|completion|hypothesis|headline|caption|rewrit|paraphrase|essay|story|argument"
)
_CONDENSED = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURNS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_KNOWLEDGE = re.compile(r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes")
_SIDE = re.compile(r"(?:^|_)(?:a|1|one|first|left)$|(?:^|_)(?:b|2|two|second|right)$")


def read_roles(reads: Sequence[Field], *, compares: bool) -> Roles:
    """Sort the texts read; of one text alone, that is the judged one."""
    if compares:
        candidates = _pair(reads)
    else:
        candidates = (max(reads, key=lambda field: _candidacy(field, reads)).name,) if reads else ()
    judged = [field for field in reads if field.name in candidates]
    condenses = any(_CONDENSED.search(_words(field)) for field in judged)
    documents, turns, knowledge = [], [], []
    for field in reads:
        if field.name in candidates:
            continue
        name, words = field.name.lower(), _words(field)
        if _KNOWLEDGE.search(name) or (_KNOWLEDGE.search(words) and not condenses):
            knowledge.append(field.name)
        elif not condenses and (_TURNS.search(name) or _TURNS.search(words)):
            turns.append(field.name)
        else:
            documents.append(field.name)
    return Roles(candidates, tuple(documents), tuple(turns), tuple(knowledge), condenses)


def _words(field: Field) -> str:
    return f"{field.name} {field.description}".lower().replace("_", " ")


def _candidacy(field: Field, reads: Sequence[Field]) -> float:
    """How much a field looks like the judged text; the later of equals wins."""
    said = field.description.lower()
    # "the text that was summarized" names the source, not the summary.
    source = bool(re.search(r"that (?:was|were|is) |\bsource\b|summari[sz]ed\b|replied to", said))
    return (
        4 * bool(_JUDGED.search(said)) * (not source)
        + 3 * bool(_CANDIDATE.search(field.name.lower()))
        + bool(_CANDIDATE.search(said)) * (not source)
        - 2 * bool(_TURNS.search(field.name.lower()) or _KNOWLEDGE.search(field.name.lower()))
        + 0.5 * reads.index(field) / len(reads)
    )


def _pair(reads: Sequence[Field]) -> tuple[str, ...]:
    sides = [field.name for field in reads if _SIDE.search(field.name.lower())]
    names = sides if len(sides) >= 2 else [field.name for field in reads]
    return tuple(names[-2:])
