"""Everything that the facets of one judged text are measured on."""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.models.embedded.source import Match, Source, match
from judges.models.embedded.text import Text


@dataclass(frozen=True, slots=True)
class Evidence:
    """One judged text, what it was made from or answers, and how its sentences match the source.

    `document` is what was condensed or answered from, `turns` what the text answers, `knowledge`
    the facts given; `ground` is all of them together. `last` is the last turn alone.
    """

    text: Text
    document: Source | None = None
    turns: Source | None = None
    knowledge: Source | None = None
    ground: Source | None = None
    last: Source | None = None
    condenses: bool = True
    matches: tuple[Match, ...] = ()


Scores = Mapping[str, float]


def gather(
    text: Text,
    *,
    document: Source | None,
    turns: Source | None,
    knowledge: Source | None,
    ground: Source | None,
    last: Source | None,
    condenses: bool,
) -> Evidence:
    """Match the text's sentences with its source and keep all in one place."""
    matches = tuple(match(sentence, ground) for sentence in text.sentences) if ground else ()
    return Evidence(text, document, turns, knowledge, ground, last, condenses, matches)


def scaled(value: float, middle: float, spread: float) -> float:
    """How far a measure is from the middle of ordinary texts, in spreads, at most 3 away."""
    return max(-3.0, min(3.0, (value - middle) / spread))
