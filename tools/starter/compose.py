"""Compose a system's summary of a document, sentence by sentence, and record what was done."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from starter.documents import Source
from starter.systems import Profile

Role = Literal["point", "trivia", "invented", "extract"]

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
    sentences: list[Sentence] = []
    left = list(range(len(source.points)))
    if rng.random() < profile.gist:
        gist = source.gist
        sentences.append(Sentence(text=gist.says, role="point", covers=gist.covers))
        # A gist's points are sentences again only now and then.
        left = [i for i in left if i not in gist.covers or rng.random() < 0.2]
    n_points = max(rng.choice(profile.points), 0 if sentences else 1)
    for i in sorted(_choose(left, n_points, profile.lean, rng)):
        point = source.points[i]
        follows = bool(sentences) and sentences[-1].covers == (i - 1,)
        linked = follows and point.linked != point.says and rng.random() < profile.linked
        words = point.linked if linked else point.says
        sentences.append(Sentence(text=words, role="point", covers=(i,), linked=linked))
    return sentences


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
        sentences[at] = Sentence(text=block.wrong, role="point", covers=covers, wrong=True)
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


Words = list[str]

ARTICLES = {"a", "an", "the"}
SMALL_WORDS = {"of", "in", "to", "for", "on", "at", "with", "by"}
DISAGREEING = {
    **{"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has"},
    **{"does": "do", "do": "does", "wants": "want", "asks": "ask", "needs": "need"},
    **{"wonders": "wonder", "says": "say", "fears": "fear", "must": "musts", "will": "wills"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarFault:
    """How a sentence is spoiled. `severity` 1 is unreadable; `loses` means content is gone too.

    `spoil` returns the sentence unchanged where it finds nothing to spoil.
    """

    severity: float
    loses: bool
    spoil: Callable[[Words, random.Random], Words]


def _without(small: set[str]) -> Callable[[Words, random.Random], Words]:
    def spoil(words: Words, rng: random.Random) -> Words:
        kept = [word for word in words if word.lower() not in small]
        return kept if len(words) - len(kept) >= 2 else words

    return spoil


def _disagree(words: Words, rng: random.Random) -> Words:
    return [DISAGREEING.get(word, word) for word in words]


def _double(words: Words, rng: random.Random) -> Words:
    twice = set(rng.sample(range(1, len(words) - 1), k=2)) if len(words) > 6 else set[int]()
    return [word for i, word in enumerate(words) for _ in range(2 if i in twice else 1)]


def _mispunctuate(words: Words, rng: random.Random) -> Words:
    loose = [part for word in words[:-1] for part in _detach(word)]
    return [*loose, words[-1].rstrip("."), rng.choice([",", ". .", ";"])]


def _detach(word: str) -> Words:
    return [word[:-1], ","] if word.endswith(",") else [word]


def _lowercase(words: Words, rng: random.Random) -> Words:
    return [word.lower() for word in words[:-1]] + [words[-1].lower().rstrip(".")]


def _truncate(words: Words, rng: random.Random) -> Words:
    return words[: max(3, int(len(words) * rng.uniform(0.4, 0.7)))]


def _unknown(words: Words, rng: random.Random) -> Words:
    long = sorted(range(len(words)), key=lambda i: -len(words[i]))[: rng.choice([2, 3])]
    return ["[UNK]" if i in long else word for i, word in enumerate(words)]


def _scramble(words: Words, rng: random.Random) -> Words:
    mixed = list(words)
    for _ in range(3):
        at = rng.randrange(1, len(mixed) - 2)
        mixed[at], mixed[at + 1] = mixed[at + 1], mixed[at]
    return mixed


FAULTS: dict[str, GrammarFault] = {
    "articles": GrammarFault(severity=0.5, loses=False, spoil=_without(ARTICLES)),
    "small words": GrammarFault(severity=0.6, loses=False, spoil=_without(SMALL_WORDS)),
    "agreement": GrammarFault(severity=0.45, loses=False, spoil=_disagree),
    "doubled": GrammarFault(severity=0.45, loses=False, spoil=_double),
    "punctuation": GrammarFault(severity=0.3, loses=False, spoil=_mispunctuate),
    "lower case": GrammarFault(severity=0.35, loses=False, spoil=_lowercase),
    "truncated": GrammarFault(severity=0.8, loses=True, spoil=_truncate),
    "unknown": GrammarFault(severity=0.8, loses=True, spoil=_unknown),
    "scrambled": GrammarFault(severity=0.9, loses=True, spoil=_scramble),
}


def spoil(sentence: str, rng: random.Random) -> tuple[str, str]:
    """The sentence with one fault of grammar, and the fault's name."""
    words = sentence.split()
    while True:
        name = rng.choice(sorted(FAULTS))
        spoiled = FAULTS[name].spoil(words, rng)
        if spoiled != words:
            return " ".join(spoiled), name
