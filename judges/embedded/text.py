"""Split texts into sentences, words and stems, and index the sources of judged texts."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

# The most characters of a text that are read. Of a longer text, the beginning and the end are read.
MAX_CHARACTERS = 100_000
# A stem that first appears early is more salient: a stem in the first sentence counts 2.5 times as
# much as a stem in a late sentence. This bonus decays exponentially with the number of sentences
# before the stem; after SALIENCE_DECAY_SENTENCES sentences, it has fallen by the factor e.
SALIENCE_DECAY_SENTENCES = 4.0
# A text covers a sentence of the source if the text shares this fraction of the sentence's weight.
# If the sentence is long, sharing the maximum weight is enough.
COVERING_FRACTION, MAX_COVERING_WEIGHT = 0.4, 5.0
# The most sentences that are indexed for a stem; later sentences with the stem are ignored.
MAX_SENTENCES_PER_STEM = 100


def read_word_table(name: str) -> list[tuple[str, str]]:
    """Return the rows "key: value" of a file in this folder; an indented line continues a value."""
    content = re.sub(r"\n +", " ", Path(__file__).with_name(name).read_text("utf-8"))
    rows = [line.partition(": ") for line in content.splitlines() if line and line[0] != "#"]
    return [(key, value) for key, _, value in rows]


def _word_classes() -> dict[str, frozenset[str]]:
    classes: dict[str, frozenset[str]] = {}
    for name, members in read_word_table("english.txt"):
        # A member is a word, or an earlier class, written as @NAME.
        word_sets = (classes[item[1:]] if item[0] == "@" else {item} for item in members.split())
        classes[name] = frozenset[str]().union(*word_sets)
    return classes


WORDS = _word_classes()
FUNCTION_WORDS = WORDS["function"]
_NUMBER_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_NUMBER_NAMES.split())}
# Endings that are split off a word and count as separate words.
_CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")
_TOKEN = re.compile(
    # Abbreviations such as "U.S.", single Chinese or Japanese characters, words, numbers, clitics,
    # quotation marks, line ends, and other single characters.
    r"(?:[^\W\d_]\.){2,9}|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|[^\W\d_]{1,60}(?:[-'][^\W\d_]{1,60}){0,6}"
    r"|\d{1,30}(?:[.,:]\d{1,30}){0,9}(?:st|nd|rd|th|s)?"
    r"|'(?:[sdmSDM]|re|ve|ll|RE|VE|LL)\b|``|''|\n|[^\w\s]|_"
)
# Marks that end a sentence.
_END_MARKS = frozenset(".!?。！？…")
# Tokens at which a sentence may end.
_END_TOKENS = _END_MARKS | {"\n"}
# Marks that may follow the mark that ends a sentence, and belong to that sentence.
_CLOSING_TOKENS = frozenset({*"\"'”’)]", "''", "``"})


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: its tokens as written, its words in lower case, the stems of its content words.

    `has_end_mark` is true if the sentence ends with a full stop, a question mark or the like.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    stems: tuple[str, ...]
    has_end_mark: bool


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text that was split into sentences, each of which has at least one word.

    A bigram is a string "first second", not a tuple, which the garbage collector would visit.
    """

    sentences: list[Sentence]
    words: list[str]
    stems: list[str]
    bigrams: list[str]


def split_sentences(text: str) -> SplitText:
    """Split a text into sentences, words and stems."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"
    text = text.replace("’", "'")
    if "'" in text:
        for clitic in _CLITICS:
            text = text.replace(clitic, f" {clitic}")
    tokens: list[str] = [*_TOKEN.findall(text), "\n"]
    sentences: list[Sentence] = []
    start = 0
    for index in [index for index, token in enumerate(tokens) if token in _END_TOKENS]:
        if tokens[index] == "\n":
            end, next_start = index, index + 1
        elif _ends_sentence(tokens, index):
            end = next_start = index + 1 + (tokens[index + 1] in _CLOSING_TOKENS)
        else:
            continue
        sentences += _read_sentence(tokens[start:end])
        start = next_start
    words = [word for sentence in sentences for word in sentence.words]
    stems = [stem for sentence in sentences for stem in sentence.stems]
    return SplitText(sentences, words, stems, list(map(" ".join, pairwise(words))))


def _ends_sentence(tokens: Sequence[str], index: int) -> bool:
    """Return whether the mark at `index` ends a sentence, and not only an abbreviation."""
    if tokens[index] != "." or index == 0:
        return True
    word = tokens[index - 1].lower()
    is_initial = len(word) == 1 and word.isalpha() and word not in "ai"
    return not is_initial and word not in WORDS["abbreviations"]


def _read_sentence(tokens: Sequence[str]) -> list[Sentence]:
    """Return a list with the sentence of these tokens; [] if no token is a word."""
    words_and_stems = [pair for pair in map(_word_and_stem, tokens) if pair[0]]
    if not words_and_stems:
        return []
    words, stems = zip(*words_and_stems, strict=True)
    # A sentence with a word has two or more tokens if its last token is a closing mark.
    last_token = tokens[-2] if tokens[-1] in _CLOSING_TOKENS else tokens[-1]
    return [Sentence(tuple(tokens), words, tuple(filter(None, stems)), last_token in _END_MARKS)]


@lru_cache(maxsize=1 << 16)
def _word_and_stem(token: str) -> tuple[str, str]:
    """Return a token's word ("" for a mark) and its stem ("" for a function word)."""
    word = token.lower()
    if not (token[0].isalnum() or (token[0] == "'" and token[1:].isalpha())):
        return "", ""
    if word in FUNCTION_WORDS or word[0] == "'":
        return word, NUMBER_WORDS.get(word, "")
    return word, stem_of(word)


def stem_of(word: str) -> str:
    """Return a word without its English endings: "making", "makes" and "make" have one stem."""
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if word[0].isdigit():
        return re.sub(r"(?:st|nd|rd|th|s)$|(?<=\d),(?=\d{3})", "", word)
    if len(word) < 4:
        return word
    word = _singular(word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and not set("aeiouy").isdisjoint(root):
            is_double = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if is_double else root
            break
    # At least three letters stay in front of a final e that is removed, or y that becomes i.
    word = re.sub("(?<=...)e$", "", word)
    return re.sub("(?<=..[^aeiou])y$", "i", word)


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@lru_cache(maxsize=1 << 16)
def stem_weight(stem: str) -> float:
    """Return the weight of a content word: low for everyday words, higher for long words."""
    if stem in _EVERYDAY_STEMS:
        return 0.4
    if stem[0].isdigit():
        return 1.2
    return 1.0 + 0.04 * min(6, max(0, len(stem) - 5))


_EVERYDAY_STEMS = frozenset(map(stem_of, WORDS["everyday"]))


def total_weight(stems: Iterable[str]) -> float:
    """Return the sum of the weights of stems.

    `stems` must not be a set. The order of a set of strings differs between runs, and the last
    digit of the sum depends on the order.
    """
    return sum(map(stem_weight, stems))


@dataclass(frozen=True, slots=True)
class SourceIndex:
    """The index of a source: a text that judged texts were made from, or that they answer.

    `sentence_indices` has the first sentences with each stem. `salience` says how much each stem
    matters; the `n_salient` largest values sum to 1. `importances` says how much each sentence
    matters, and `covering_weights` the weight that a text must share with a sentence to cover it.
    """

    n_stems: int
    frequency: Counter[str]
    sentence_indices: dict[str, list[int]]
    salience: dict[str, float]
    n_salient: int
    importances: list[float]
    covering_weights: list[float]
    words: frozenset[str]
    bigrams: frozenset[str]


@lru_cache(maxsize=32)
def index_source_text(text: str) -> SourceIndex | None:
    """Return the index of a source text; None if the text has no words."""
    split_text = split_sentences(text)
    if not split_text.words:
        return None
    sentence_indices: dict[str, list[int]] = defaultdict(list)
    for index, sentence in enumerate(split_text.sentences):
        for stem in dict.fromkeys(sentence.stems):
            if len(sentence_indices[stem]) < MAX_SENTENCES_PER_STEM:
                sentence_indices[stem].append(index)
    frequency = Counter(split_text.stems)
    salience = {
        stem: stem_weight(stem)
        * (0.5 + math.log1p(count))
        * (1 + 1.5 * math.exp(-sentence_indices[stem][0] / SALIENCE_DECAY_SENTENCES))
        for stem, count in frequency.items()
    }
    n_salient = max(6, min(60, len(frequency) // 4))
    total_salience = sum(sorted(salience.values(), reverse=True)[:n_salient]) or 1.0
    stem_sets = [dict.fromkeys(sentence.stems) for sentence in split_text.sentences]
    importances = [
        sum(map(salience.__getitem__, stems)) if len(stems) > 1 else 0.0 for stems in stem_sets
    ]
    total_importance = sum(importances) or 1.0
    return SourceIndex(
        n_stems=len(split_text.stems),
        frequency=frequency,
        sentence_indices=dict(sentence_indices),
        salience={stem: value / total_salience for stem, value in salience.items()},
        n_salient=n_salient,
        importances=[importance / total_importance for importance in importances],
        covering_weights=[
            max(1.0, min(MAX_COVERING_WEIGHT, COVERING_FRACTION * total_weight(stems)))
            for stems in stem_sets
        ],
        words=frozenset(split_text.words),
        bigrams=frozenset(split_text.bigrams),
    )
