"""Split texts into sentences, words and stems (words without endings), and index source texts."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

# The most characters of a text that are read. Of a longer text, the beginning and the end are read.
MAX_CHARACTERS = 100_000
# A stem in the first sentence of a source is 2.5 times as salient as a stem in a late sentence. The
# difference decays exponentially: after SALIENCE_DECAY_SENTENCES sentences, it is divided by e.
SALIENCE_DECAY_SENTENCES = 4.0
# A text covers a sentence of the source if it shares this fraction of the sentence's weight, or if
# it shares MAX_COVERING_WEIGHT.
COVERING_FRACTION, MAX_COVERING_WEIGHT = 0.4, 5.0
# The most sentences that are indexed for a stem; later sentences with the stem are ignored.
MAX_SENTENCES_PER_STEM = 100


def read_word_table(file_name: str) -> list[tuple[str, str]]:
    """Return the rows "key: value" of a file in this folder; an indented line continues a value."""
    text = re.sub(r"\n +", " ", Path(__file__).with_name(file_name).read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(key, value) for key, _, value in (line.partition(": ") for line in lines)]


WORD_CLASSES: dict[str, frozenset[str]] = {}
for _class_name, _members in read_word_table("english.txt"):
    # A member is a word, or @NAME for all words of an earlier class.
    WORD_CLASSES[_class_name] = frozenset().union(
        *(WORD_CLASSES[name[1:]] if name[0] == "@" else [name] for name in _members.split())
    )
FUNCTION_WORDS = WORD_CLASSES["function"]
_NUMBER_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
DIGITS_BY_NUMBER_NAME = {name: str(number) for number, name in enumerate(_NUMBER_NAMES.split())}
# Endings that are split off a word and count as separate words.
_CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")
_TOKEN_PATTERN = re.compile(
    # Matches abbreviations such as "U.S.", single Chinese or Japanese characters, words, numbers,
    # clitics, quotation marks, line ends, and other single characters.
    r"(?:[^\W\d_]\.){2,9}|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|[^\W\d_]{1,60}(?:[-'][^\W\d_]{1,60}){0,6}"
    r"|\d{1,30}(?:[.,:]\d{1,30}){0,9}(?:st|nd|rd|th|s)?"
    r"|'(?:[sdmSDM]|re|ve|ll|RE|VE|LL)\b|``|''|\n|[^\w\s]|_"
)
# Marks that end a sentence.
_END_MARKS = frozenset(".!?。！？…")
# Marks that may follow the mark that ends a sentence, and belong to that sentence.
_CLOSING_MARKS = frozenset({*"\"'”’)]", "''", "``"})


class Sentence:
    """A sentence: its tokens as written, its words in lower case, the stems of its content words.

    `words` is never empty, since tokens without a word are not used as a sentence.
    """

    __slots__ = ("stems", "tokens", "words")

    def __init__(self, tokens: Sequence[str]) -> None:
        words_and_stems = [pair for pair in map(_word_and_stem, tokens) if pair[0]]
        self.tokens = tokens
        self.words = [word for word, _ in words_and_stems]
        self.stems = [stem for _, stem in words_and_stems if stem]

    @property
    def has_end_mark(self) -> bool:
        """Whether the sentence ends with a full stop, a question mark or the like."""
        # A closing mark, such as a bracket, follows the end mark, and is never the only token.
        last_token = self.tokens[-2] if self.tokens[-1] in _CLOSING_MARKS else self.tokens[-1]
        return last_token in _END_MARKS


class SplitText:
    """A text that was split into sentences, words, stems and pairs of words.

    A word pair is a string "WORD WORD", since tuples would slow the garbage collector down.
    """

    def __init__(self, text: str) -> None:
        sentences = map(Sentence, _split_sentences(text))
        self.sentences = [sentence for sentence in sentences if sentence.words]
        self.words = [word for sentence in self.sentences for word in sentence.words]
        self.stems = [stem for sentence in self.sentences for stem in sentence.stems]
        self.word_pairs = list(map(" ".join, pairwise(self.words)))


def _split_sentences(text: str) -> Iterator[list[str]]:
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"
    text = text.replace("’", "'")
    if "'" in text:
        for clitic in _CLITICS:
            text = text.replace(clitic, f" {clitic}")
    tokens: list[str] = [*_TOKEN_PATTERN.findall(text), "\n"]
    start = 0
    for index, token in enumerate(tokens):
        if token == "\n":
            yield tokens[start:index]
            start = index + 1
        elif token in _END_MARKS and _ends_sentence(tokens, index):
            end = index + 1 + (tokens[index + 1] in _CLOSING_MARKS)
            yield tokens[start:end]
            start = end


def _ends_sentence(tokens: Sequence[str], index: int) -> bool:
    """Return whether the mark at `index` ends a sentence, and not only an abbreviation."""
    if tokens[index] != "." or index == 0:
        return True
    word = tokens[index - 1].lower()
    is_initial = len(word) == 1 and word.isalpha() and word not in "ai"
    return not is_initial and word not in WORD_CLASSES["abbreviations"]


@lru_cache(maxsize=1 << 16)
def _word_and_stem(token: str) -> tuple[str, str]:
    """Return a token's word ("" for a mark) and its stem ("" for a function word)."""
    word = token.lower()
    if not (token[0].isalnum() or (token[0] == "'" and token[1:].isalpha())):
        return "", ""
    if word in FUNCTION_WORDS or word[0] == "'":
        return word, DIGITS_BY_NUMBER_NAME.get(word, "")
    return word, stem_of(word)


def stem_of(word: str) -> str:
    """Return a word without its English endings: "making", "makes" and "make" have one stem."""
    if word in DIGITS_BY_NUMBER_NAME:
        return DIGITS_BY_NUMBER_NAME[word]
    if word[0].isdigit():
        return re.sub(r"(?:st|nd|rd|th|s)$|(?<=\d),(?=\d{3})", "", word)
    if len(word) < 4:
        return word
    word = _singular(word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and not set("aeiouy").isdisjoint(root):
            has_double_ending = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if has_double_ending else root
            break
    # A final e is removed, or a final y becomes i, only after at least three letters.
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


_EVERYDAY_STEMS = frozenset(map(stem_of, WORD_CLASSES["everyday"]))


def total_stem_weight(stems: Iterable[str]) -> float:
    """Return the sum of the stems' weights. In a set, the order and the rounding would vary."""
    return sum(map(stem_weight, stems))


class SourceIndex:
    """The index of a source: a text that judged texts were made from, or that they answer.

    `indices_by_stem` has the indices of the first sentences with each stem. `salience_by_stem` says
    how much a stem matters; the `n_salient` largest values sum to 1. `importances` says how much a
    sentence matters; to cover the sentence, a text must share its `covering_weights`.
    """

    def __init__(self, source: SplitText) -> None:
        self.n_stems = len(source.stems)
        self.stem_counts = Counter(source.stems)
        self.words, self.word_pairs = frozenset(source.words), frozenset(source.word_pairs)
        self.indices_by_stem: dict[str, list[int]] = defaultdict(list)
        self.covering_weights: list[float] = []
        raw_saliences: dict[str, float] = {}
        importances: list[float] = []
        for index, sentence in enumerate(source.sentences):
            stems = dict.fromkeys(sentence.stems)
            for stem in stems:
                if stem not in raw_saliences:
                    # Frequent stems, and stems near the beginning of the source, matter more.
                    early_bonus = 1.5 * math.exp(-index / SALIENCE_DECAY_SENTENCES)
                    frequency_factor = 0.5 + math.log1p(self.stem_counts[stem])
                    raw_saliences[stem] = stem_weight(stem) * frequency_factor * (1 + early_bonus)
                if len(self.indices_by_stem[stem]) < MAX_SENTENCES_PER_STEM:
                    self.indices_by_stem[stem].append(index)
            importance = sum([raw_saliences[stem] for stem in stems])
            importances.append(importance if len(stems) > 1 else 0.0)
            covering_weight = COVERING_FRACTION * total_stem_weight(stems)
            self.covering_weights.append(max(1.0, min(MAX_COVERING_WEIGHT, covering_weight)))
        self.n_salient = max(6, min(60, len(self.stem_counts) // 4))
        total_salience = sum(sorted(raw_saliences.values(), reverse=True)[: self.n_salient]) or 1.0
        self.salience_by_stem = {stem: v / total_salience for stem, v in raw_saliences.items()}
        total_importance = sum(importances) or 1.0
        self.importances = [importance / total_importance for importance in importances]


@lru_cache(maxsize=32)
def index_source_text(text: str) -> SourceIndex | None:
    """Return the index of a source text; None if the text has no words."""
    split_source = SplitText(text)
    return SourceIndex(split_source) if split_source.words else None
