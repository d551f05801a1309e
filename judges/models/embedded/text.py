"""Cut a text into sentences, words and stems; everything later counts these."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges.models.embedded.words import ABBREVIATIONS, EVERYDAY, FUNCTION, NUMBER_WORDS

# Of a longer text only the two ends are read.
LONGEST = 600_000
_CLITIC = re.compile(r"(?<=\w)(?=n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)", re.IGNORECASE)
_TOKEN = re.compile(
    r"\n+|(?<!\w)(?:[^\W\d_]\.){2,}|``|''|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b"
    r"|[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?\b|\d+|[^\w\s]|_+",
    re.IGNORECASE,
)
_STOPS = frozenset(".!?。！？…")
_CLOSERS = frozenset({*"\"'”’)]", "''", "``"})
_CAPITAL = re.compile(r"\A[^\w]*[A-ZÀ-Þ]|[.!?][\"'”’)\s]{1,4}[A-ZÀ-Þ]")
_VOWELS = frozenset("aeiouy")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`tokens` as written, `words` in lower case without punctuation, `stems` of content words.

    `at` are the places of the stems among the words; `ended` tells whether a full stop, a question
    mark or the like closes it.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    stems: tuple[str, ...]
    at: tuple[int, ...]
    ended: bool

    @property
    def pairs(self) -> list[str]:
        """Neighbouring words; as strings, since the collector of garbage walks no strings."""
        return list(map(" ".join, zip(self.words, self.words[1:], strict=False)))

    @property
    def triples(self) -> list[str]:
        words = self.words
        return list(map(" ".join, zip(words, words[1:], words[2:], strict=False)))


@dataclass(frozen=True, slots=True)
class Text:
    """A text as its sentences; `lines` is the number of lines that hold words."""

    sentences: tuple[Sentence, ...]
    n_words: int
    lines: int
    cased: bool

    @property
    def triples(self) -> list[str]:
        """Three words in a row, sentence by sentence."""
        return [three for sentence in self.sentences for three in sentence.triples]

    @property
    def stems(self) -> list[str]:
        return [stem for sentence in self.sentences for stem in sentence.stems]


def read_text(text: str) -> Text:
    """Cut one text; never raises, whatever the text."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    if "'" in text or "’" in text:
        text = _CLITIC.sub(" ", text).replace("’", "'")
    tokens: list[str] = _TOKEN.findall(text)
    cased = _CAPITAL.search(text) is not None
    sentences: list[Sentence] = []
    lines, start = 0, 0
    for place, token in enumerate(tokens):
        if token[0] == "\n":
            stop = place
        elif token in _STOPS and place >= start and _ends(tokens, place, cased):
            stop = place + 1
            if stop < len(tokens) and tokens[stop] in _CLOSERS:
                stop += 1
        else:
            continue
        if start < stop:
            _add(sentences, tokens[start:stop])
        lines += token[0] == "\n"
        start = stop + (token[0] == "\n")
    if start < len(tokens):
        _add(sentences, tokens[start:])
    n_words = sum(len(sentence.words) for sentence in sentences)
    return Text(tuple(sentences), n_words, lines + 1, cased)


def _ends(tokens: Sequence[str], place: int, cased: bool) -> bool:
    """Whether the stop at `place` ends a sentence rather than an abbreviation or a quoted part."""
    if tokens[place] in ".!?" and cased:
        after = place + 1
        while after < len(tokens) and tokens[after] in _CLOSERS:
            after += 1
        if after < len(tokens) and tokens[after][0].islower():
            return False
    if tokens[place] != "." or place == 0:
        return True
    before = tokens[place - 1]
    if len(before) == 1 and before.isalpha() and before.lower() not in "ai":
        return False
    return before.lower() not in ABBREVIATIONS


def _add(sentences: list[Sentence], tokens: list[str]) -> None:
    shown = tuple(token for token in tokens if token[0] != "\n")
    words = tuple(
        token.lower() for token in shown if token[0].isalnum() or token[0] == "'" != token != "''"
    )
    if not words:
        return
    infos = [_stem(word) for word in words]
    at = tuple(place for place, stem in enumerate(infos) if stem)
    last = shown[-1] if shown[-1] not in _CLOSERS or len(shown) < 2 else shown[-2]
    sentences.append(
        Sentence(shown, words, tuple(infos[place] for place in at), at, last in _STOPS)
    )


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """The stem of a content word, "" for a small word."""
    if word in FUNCTION or word[0] == "'":
        return NUMBER_WORDS.get(word, "")
    return stem(word)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Take off English endings: "making", "makes" and "make" share one stem."""
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if word[0].isdigit():
        return re.sub(r"(?:st|nd|rd|th|s)$|(?<=\d),(?=\d{3})", "", word)
    if len(word) < 4:
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("sses") or word.endswith(("ches", "shes", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and not _VOWELS.isdisjoint(root):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


@lru_cache(maxsize=1 << 16)
def weight(stem_: str) -> float:
    """How telling a content word is, from general knowledge: everyday words say little."""
    if stem_ in _EVERYDAY:
        return 0.4
    if stem_[0].isdigit():
        return 1.2
    return 1.0 + 0.04 * min(6, max(0, len(stem_) - 5))


_EVERYDAY = frozenset(stem(word) for word in EVERYDAY) - frozenset(NUMBER_WORDS.values())
