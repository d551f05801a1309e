"""Compose one system's summary of one document, sentence by sentence, and keep what was done."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from data.construct.documents import Source
from data.construct.grammar import spoil
from data.construct.systems import Profile

Role = Literal["told", "trivia", "invented", "extract"]

# Shorter sentences have too little to spoil.
SPOILABLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of a summary and everything that the ratings need to know about it.

    `covers` are the points it tells, from 0; `place` is an extract's place in the document;
    `repeat` marks a second telling; `fault` names what was done to its grammar.
    """

    text: str
    role: Role
    covers: tuple[int, ...] = ()
    wrong: bool = False
    linked: bool = False
    repeat: bool = False
    place: int = -1
    fault: str | None = None

    @property
    def n_words(self) -> int:
        return len(self.text.split())


Summary = tuple[Sentence, ...]


def compose(source: Source, profile: Profile, rng: random.Random) -> Summary:
    """One summary; the same arguments and the same state of `rng` give the same summary."""
    if rng.random() < profile.extract:
        sentences = _extract(source, profile, rng)
    else:
        sentences = _tell(source, profile, rng)
        sentences = _contradict(sentences, source, rng.choice(profile.wrong), rng)
        sentences = _repeat(sentences, rng.choice(profile.repeats), rng)
        sentences = _stray(sentences, source, profile, rng)
        sentences = _move(sentences, rng.choice(profile.moves), rng)
    return tuple(_spoil(sentences, rng.choice(profile.spoiled), rng))


def text(summary: Summary) -> str:
    return " ".join(sentence.text for sentence in summary)


def _tell(source: Source, profile: Profile, rng: random.Random) -> list[Sentence]:
    told: list[Sentence] = []
    left = list(range(len(source.points)))
    if rng.random() < profile.gist:
        gist = source.gist
        told.append(Sentence(text=gist.says, role="told", covers=gist.covers))
        # A gist's points are told again only now and then.
        left = [i for i in left if i not in gist.covers or rng.random() < 0.2]
    n_points = max(rng.choice(profile.points), 0 if told else 1)
    for i in sorted(_choose(left, n_points, profile.lean, rng)):
        point = source.points[i]
        follows = bool(told) and told[-1].covers == (i - 1,)
        linked = follows and point.linked != point.says and rng.random() < profile.linked
        words = point.linked if linked else point.says
        told.append(Sentence(text=words, role="told", covers=(i,), linked=linked))
    return told


def _choose(left: Sequence[int], n: int, lean: float, rng: random.Random) -> list[int]:
    """`n` of the points, without replacement, each `2 ** lean` times as likely as the next."""
    pool, chosen = list(left), list[int]()
    while pool and len(chosen) < n:
        weights = [2.0 ** (-lean * rank) for rank in range(len(pool))]
        picked = rng.choices(pool, weights)[0]
        pool.remove(picked)
        chosen.append(picked)
    return chosen


def _contradict(
    sentences: list[Sentence], source: Source, n: int, rng: random.Random
) -> list[Sentence]:
    for at in rng.sample(range(len(sentences)), min(n, len(sentences))):
        covers = sentences[at].covers
        block = source.gist if covers == source.gist.covers else source.points[covers[0]]
        sentences[at] = Sentence(text=block.wrong, role="told", covers=covers, wrong=True)
    return sentences


def _repeat(sentences: list[Sentence], n: int, rng: random.Random) -> list[Sentence]:
    for _ in range(n):
        again = replace(rng.choice(sentences), repeat=True)
        sentences.insert(rng.randint(1, len(sentences)), again)
    return sentences


def _stray(
    sentences: list[Sentence], source: Source, profile: Profile, rng: random.Random
) -> list[Sentence]:
    details = rng.sample(source.trivia, rng.choice(profile.trivia))
    made_up = rng.sample(source.invented, rng.choice(profile.invented))
    strays = [Sentence(text=detail, role="trivia") for detail in details]
    strays += [Sentence(text=claim, role="invented") for claim in made_up]
    for stray in strays:
        sentences.insert(rng.randint(1, len(sentences)), stray)
    return sentences


def _move(sentences: list[Sentence], n: int, rng: random.Random) -> list[Sentence]:
    for _ in range(n):
        moved = sentences.pop(rng.randrange(len(sentences)))
        sentences.insert(rng.randint(0, len(sentences)), moved)
    return sentences


def _extract(source: Source, profile: Profile, rng: random.Random) -> list[Sentence]:
    sentences = source.sentences
    n = rng.choice(profile.points)
    places = list(range(n))
    if rng.random() < profile.scatter:
        telling = [i for i, sentence in enumerate(sentences) if source.covered(sentence)]
        places = sorted(rng.sample(telling, min(n, len(telling))))
    return [
        Sentence(
            text=sentences[place],
            role="extract",
            covers=source.covered(sentences[place]),
            place=place,
        )
        for place in places
    ]


def _spoil(sentences: list[Sentence], n: int, rng: random.Random) -> list[Sentence]:
    # Headings and one-line answers are left alone.
    long = [i for i, sentence in enumerate(sentences) if sentence.n_words >= SPOILABLE]
    for at in rng.sample(long, min(n, len(long))):
        spoiled, fault = spoil(sentences[at].text, rng)
        sentences[at] = replace(sentences[at], text=spoiled, fault=fault)
    return sentences
