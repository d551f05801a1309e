"""The starter set's documents, each with the sentences that summaries of it are built from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

import yaml

STARTER = Path(__file__).parents[2] / "data" / "starter"
KINDS = ("news", "forum", "meeting", "product", "dialogue", "howto")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”]?\s+(?=[\"“(]?[A-Z0-9])|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One key point: told faithfully, told as a continuation, and contradicted.

    `linked` only makes sense right after the point before it. `where` occurs once in the document,
    in the sentence that the point is drawn from.
    """

    says: str
    linked: str
    wrong: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gist:
    """One dense sentence for several points; `covers` holds their places, from 0."""

    says: str
    wrong: str
    covers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document and its building blocks; `points` are in order of importance and of telling."""

    id: str
    kind: str
    document: str
    points: tuple[Point, ...]
    gist: Gist
    trivia: tuple[str, ...]
    invented: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """The document's sentences and headings, in order."""
        parts = SENTENCE_END.split(self.document)
        return [part.strip().removeprefix("- ") for part in parts if part.strip()]

    def covered(self, sentence: str) -> tuple[int, ...]:
        """The points that are drawn from this sentence of the document."""
        return tuple(i for i, point in enumerate(self.points) if point.where in sentence)


class _GistEntry(TypedDict):
    says: str
    wrong: str
    covers: list[int]


class _Entry(TypedDict):
    id: str
    document: str
    points: list[dict[str, str]]
    gist: _GistEntry
    trivia: list[str]
    invented: list[str]


def read_sources(folder: Path = STARTER / "documents") -> tuple[Source, ...]:
    """Every document, kind by kind. Raises ValueError where a building block does not fit."""
    return tuple(_read(folder, KINDS))


def _read(folder: Path, kinds: Iterable[str]) -> Iterable[Source]:
    for kind in kinds:
        text = (folder / f"{kind}.yaml").read_text(encoding="utf-8")
        for entry in cast(list[_Entry], yaml.safe_load(text)):
            yield _source(kind, entry)


def _source(kind: str, entry: _Entry) -> Source:
    points = tuple(
        Point(
            says=point["says"],
            linked=point.get("linked", point["says"]),
            wrong=point["wrong"],
            where=point["where"],
        )
        for point in entry["points"]
    )
    gist = entry["gist"]
    source = Source(
        id=entry["id"],
        kind=kind,
        document=entry["document"].strip(),
        points=points,
        gist=Gist(
            says=gist["says"],
            wrong=gist["wrong"],
            covers=tuple(place - 1 for place in gist["covers"]),
        ),
        trivia=tuple(entry["trivia"]),
        invented=tuple(entry["invented"]),
    )
    for point in points:
        n_sentences = sum(point.where in sentence for sentence in source.sentences)
        if n_sentences != 1:
            raise ValueError(
                f"{source.id}: {point.where!r} is in {n_sentences} sentences, expected 1"
            )
    return source
