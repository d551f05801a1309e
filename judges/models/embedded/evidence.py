"""Everything that the facets of one judged text are measured on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from judges.models.embedded.alignment import Alignment, Match, align
from judges.models.embedded.source import Source
from judges.models.embedded.text import Text


@dataclass(frozen=True, slots=True)
class Evidence:
    """One judged text, what it was made from or answers, and how its sentences match the source.

    `document` is what was condensed or answered from, `turns` what the text answers, `knowledge`
    the facts given; `ground` is all of them together. `last` is the last turn alone. `touched` has
    for each sentence of the document the most weight that one sentence of the text shares with it.
    `met` is the share of neighbouring telling words that stand together in the source too.
    """

    text: Text
    document: Source | None = None
    turns: Source | None = None
    knowledge: Source | None = None
    ground: Source | None = None
    last: Source | None = None
    condenses: bool = True
    matches: tuple[Match, ...] = ()
    touched: Mapping[int, float] = field(default_factory=dict)
    met: float = 0.0


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
    alignment = align(text, ground) if ground else Alignment((), {}, 0.0)
    told = alignment
    if document is not None and document is not ground:
        told = align(text, document)
    return Evidence(
        text,
        document,
        turns,
        knowledge,
        ground,
        last,
        condenses,
        alignment.matches,
        told.touched if document is not None else {},
        alignment.met,
    )


def scaled(value: float, middle: float, spread: float) -> float:
    """How far a measure is from the middle of ordinary texts, in spreads, at most 3 away."""
    return max(-3.0, min(3.0, (value - middle) / spread))
