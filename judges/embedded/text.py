"""Cut a text into sentences, words and stems; everything later counts these."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path


def read_table(name: str) -> list[tuple[str, str]]:
    """The rows "key: value" of a table beside this file; indented lines continue a value."""
    text = re.sub(r"\n +", " ", Path(__file__).with_name(name).read_text("utf-8"))
    rows = [line.partition(": ") for line in text.splitlines() if line and line[0] != "#"]
    return [(key, value) for key, _, value in rows]


def _word_classes() -> dict[str, frozenset[str]]:
    classes: dict[str, frozenset[str]] = {}
    for name, words in read_table("english.txt"):
        parts = (classes[word[1:]] if word[0] == "@" else {word} for word in words.split())
        classes[name] = frozenset[str]().union(*parts)
    return classes


ENGLISH = _word_classes()
ARTICLES, DETERMINERS = ENGLISH["articles"], ENGLISH["determiners"]
SUBJECTS, FINITE, MODALS = ENGLISH["subjects"], ENGLISH["finite"], ENGLISH["modals"]
AUXILIARIES, VERBS = ENGLISH["auxiliaries"], ENGLISH["verbs"]
STRICT_PREPOSITIONS, CONJUNCTIONS = ENGLISH["strict-prepositions"], ENGLISH["conjunctions"]
DEMONSTRATIVES, FUNCTION = ENGLISH["pointing"], ENGLISH["function"]
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {
    **{word: str(value) for value, word in enumerate(_NUMBERS.split())},
    **{"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100"},
}
# Of a longer text only the two ends are read.
MAX_CHARACTERS = 600_000
_BEFORE_CLITIC = re.compile(r"(?<=\w)(?=n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)", re.IGNORECASE)
_TOKEN = re.compile(
    r"\n+|(?<!\w)(?:[^\W\d_]\.){2,}|``|''|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b"
    r"|[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?\b|\d+|[^\w\s]|_+",
    re.IGNORECASE,
)
_STOPS = frozenset(".!?。！？…")
_CLOSERS = frozenset({*"\"'”’)]", "''", "``"})
_CAPITAL = re.compile(r"\A[^\w]*[A-ZÀ-Þ]|[.!?][\"'”’)\s]{1,4}[A-ZÀ-Þ]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`tokens` as written, `words` in lower case without punctuation, `stems` of content words.

    `has_stop` tells whether a full stop, a question mark or the like closes it.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    stems: tuple[str, ...]
    has_stop: bool

    @property
    def is_negated(self) -> bool:
        return not ENGLISH["negations"].isdisjoint(self.words)

    @property
    def bigrams(self) -> list[str]:
        """Neighbouring words; as strings, since the collector of garbage walks no strings."""
        return list(map(" ".join, zip(self.words, self.words[1:], strict=False)))

    @property
    def trigrams(self) -> list[str]:
        words = self.words
        return list(map(" ".join, zip(words, words[1:], words[2:], strict=False)))


@dataclass(frozen=True)
class Text:
    """A text as its sentences, which all have words; `lines` is how many lines it has.

    `has_capitals` tells whether its sentences begin with them.
    """

    sentences: tuple[Sentence, ...]
    lines: int
    has_capitals: bool

    @cached_property
    def tokens(self) -> list[str]:
        return [token for sentence in self.sentences for token in sentence.tokens]

    @cached_property
    def words(self) -> list[str]:
        return [word for sentence in self.sentences for word in sentence.words]

    @cached_property
    def stems(self) -> list[str]:
        return [stem for sentence in self.sentences for stem in sentence.stems]

    @cached_property
    def bigrams(self) -> list[str]:
        return [bigram for sentence in self.sentences for bigram in sentence.bigrams]

    @cached_property
    def trigrams(self) -> list[str]:
        return [trigram for sentence in self.sentences for trigram in sentence.trigrams]


def read_text(text: str) -> Text:
    """Cut one text; never raises, whatever the text."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"
    if "'" in text or "’" in text:
        text = _BEFORE_CLITIC.sub(" ", text).replace("’", "'")
    tokens: list[str] = _TOKEN.findall(text)
    has_capitals = _CAPITAL.search(text) is not None
    sentences: list[Sentence] = []
    lines, start = 0, 0
    for index, token in enumerate([*tokens, "\n"]):
        newline = token[0] == "\n"
        if newline:
            stop = index
        elif token in _STOPS and index >= start and _ends_sentence(tokens, index, has_capitals):
            stop = index + 1
            if stop < len(tokens) and tokens[stop] in _CLOSERS:
                stop += 1
        else:
            continue
        lines += newline
        if sentence := _read_sentence(tokens[start:stop]):
            sentences.append(sentence)
        start = stop + newline
    return Text(tuple(sentences), lines, has_capitals)


def _ends_sentence(tokens: Sequence[str], index: int, has_capitals: bool) -> bool:
    """Whether the stop at `index` ends a sentence rather than an abbreviation or a quoted part."""
    if tokens[index] in ".!?" and has_capitals:
        after = index + 1
        while after < len(tokens) and tokens[after] in _CLOSERS:
            after += 1
        if after < len(tokens) and tokens[after][0].islower():
            return False
    if tokens[index] != "." or index == 0:
        return True
    before = tokens[index - 1]
    is_initial = len(before) == 1 and before.isalpha() and before.lower() not in "ai"
    return not is_initial and before.lower() not in ENGLISH["abbreviations"]


def _read_sentence(tokens: Sequence[str]) -> Sentence | None:
    """A sentence of tokens of one line, or None where they have no words."""
    words = tuple(
        token.lower() for token in tokens if token[0].isalnum() or token[0] == "'" != token != "''"
    )
    if not words:
        return None
    last = tokens[-1] if tokens[-1] not in _CLOSERS or len(tokens) < 2 else tokens[-2]
    stems = tuple(stem for word in words if (stem := _content_stem(word)))
    return Sentence(tuple(tokens), words, stems, last in _STOPS)


@lru_cache(maxsize=1 << 16)
def _content_stem(word: str) -> str:
    """The stem of a content word, "" for a small word."""
    if word in FUNCTION or word[0] == "'":
        return NUMBER_WORDS.get(word, "")
    return stem_of(word)


@lru_cache(maxsize=1 << 16)
def stem_of(word: str) -> str:
    """Take off English endings: "making", "makes" and "make" share one stem."""
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if word[0].isdigit():
        return re.sub(r"(?:st|nd|rd|th|s)$|(?<=\d),(?=\d{3})", "", word)
    if len(word) < 4:
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "ches", "shes", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and not set("aeiouy").isdisjoint(root):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


@lru_cache(maxsize=1 << 16)
def weight(stem: str) -> float:
    """How telling a content word is, from general knowledge: everyday words say little."""
    if stem in _EVERYDAY_STEMS:
        return 0.4
    if stem[0].isdigit():
        return 1.2
    return 1.0 + 0.04 * min(6, max(0, len(stem) - 5))


_EVERYDAY_STEMS = frozenset(map(stem_of, ENGLISH["everyday"]))
