"""Put emphases into words, so that reading the words gives about the same emphases back."""

import random
import re
from functools import lru_cache

import numpy as np

from judges.models.embedded.emphasis import GROWTH, named_amounts
from judges.models.embedded.facets import Vector
from judges.models.embedded.phrases import PHRASES

LONGEST = 880
MOST_FACETS = 9
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
SKIPPED = 0.12
_CLAUSE = re.compile(r"[:;.?!\n]")
_STEPS = re.compile(r"\bone sentence\b|\bthen name\b|\bcompar(?:e|ing) the two\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


def opening_of(current: str) -> str:
    """The words of an instruction that say what is judged: its first clause."""
    clause = _CLAUSE.split(current.strip(), maxsplit=1)[0].strip()
    words = clause.split()
    if not 2 <= len(words) <= 24:
        return "Judge the quality of the text"
    return clause


def closing_of(current: str) -> str:
    """The sentences that say how to answer, which stay as they are."""
    sentences = _SENTENCE.split(current.strip())
    return " ".join(one for one in sentences[1:] if _STEPS.search(one))[:240]


def compose(current: str, wanted: Vector, rng: random.Random, *, compares: bool) -> str:
    """An instruction that keeps what is judged and asks for the facets as `wanted` says.

    `wanted` holds the share of the instruction that each facet is to have; below 0: to be ignored.
    """
    opening, closing = opening_of(current), closing_of(current)
    said = named_amounts(opening)
    amounts = np.sign(wanted) * np.abs(wanted) ** (1 / GROWTH)
    most = int(np.argmax(amounts))
    amounts = amounts * (3.0 * _own(most) / max(1e-9, amounts[most])) - np.maximum(said, 0)
    ways = _PREFER if compares else _LEVELS
    levels: dict[float, list[int]] = {}
    order = [int(i) for i in np.argsort(-np.abs(amounts), kind="stable")]
    for place in order[:MOST_FACETS]:
        loudness = _loudness(float(amounts[place]) / _own(place), ignored=wanted[place] < 0)
        if loudness is not None:
            levels.setdefault(loudness, []).append(place)
    sentences = [f"{opening}."]
    for loudness, wordings in ways:
        for group in _split(levels.get(loudness, [])):
            listed = _listed([PHRASES[place].asks for place in group])
            sentence = f"{rng.choice(wordings)} {listed}."
            if len(" ".join([*sentences, sentence, closing])) < LONGEST:
                sentences.append(sentence)
    return " ".join([*sentences, *([closing] if closing else [])])


def _loudness(ratio: float, *, ignored: bool) -> float | None:
    """The nearest loudness there are words for, None for silence."""
    if ignored:
        return 0.0
    if ratio < SKIPPED:
        return None
    levels = [level for level, _ in _LEVELS if level > 0]
    return min(levels, key=lambda level: abs(np.log(level / ratio)))


@lru_cache(maxsize=64)
def _own(place: int) -> float:
    """How much of its facet a facet's own wording names."""
    return max(0.3, float(named_amounts(PHRASES[place].asks)[place]))


def _split(places: list[int]) -> list[list[int]]:
    return [places[at : at + 3] for at in range(0, len(places), 3)]


def _listed(phrases: list[str]) -> str:
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"
