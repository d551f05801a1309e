"""Cut a text into sentences, words and stems; everything later counts these."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache


def word_set(words: str) -> frozenset[str]:
    """The words of a string."""
    return frozenset(words.split())


# English word classes, written down by hand: all that the model knows of the language.
ARTICLES = word_set("a an the")
POSSESSIVES = word_set("my your his her its our their whose")
DETERMINERS = ARTICLES | word_set("my your its our their every")
SUBJECTS = word_set("i he she we they")
OBJECTS = word_set("me him us them myself himself herself itself ourselves themselves yourself")
# Words that point back and so need something before them.
POINTING = word_set(
    "he she they it this these those him his her them their its such also however but and so then"
    " therefore thus moreover meanwhile instead besides furthermore otherwise nevertheless"
    " nonetheless afterwards later still yet or because"
)
CONNECTIVES = POINTING | word_set(
    "although though since while after before when once first second third finally next earlier"
    " consequently as overall"
)
MODALS = word_set("will would can could shall should may might must 'll 'd ca wo")
AUXILIARIES = MODALS | word_set(
    "am is are was were be been being 's 're 'm has have had having 've do does did"
)
FINITE = word_set("is are was were has had does did")
NEGATIONS = word_set(
    "not n't no never none nobody nothing neither nor without cannot hardly barely"
)
PREPOSITIONS = word_set(
    "of in to for on at with by from into about over under between during through against among"
    " without within toward towards upon across behind beyond near since until despite off around"
    " above below along beside per via amid like than as out up down after before"
)
# Prepositions that end no English sentence and take no subject pronoun or finite verb.
STRICT_PREPOSITIONS = word_set(
    "of at from into during between among toward towards upon within per via amid with"
)
CONJUNCTIONS = word_set("and or but nor")
SUBORDINATORS = word_set(
    "that which who whom whose because although though if when while where whereas whether unless"
    " since until what how why once so as after before than"
)
# Small words, which say little of what a text is about.
FUNCTION = frozenset[str]().union(
    *(ARTICLES, POSSESSIVES, DETERMINERS, SUBJECTS, OBJECTS, AUXILIARIES, NEGATIONS, PREPOSITIONS),
    *(CONJUNCTIONS, SUBORDINATORS),
    word_set(
        "you it this these those hers theirs mine yours here there very too just only more most"
        " much many some any all both each few another other own same such then now again further"
        " ever even also already yet still quite rather almost one s t d ll re ve m o y"
    ),
)
_EVERYDAY_VERBS = word_set(
    "say said tell told go went gone get got make made take took taken come came see saw seen know"
    " knew known think thought want use find found give gave given work call try ask feel felt"
    " become became leave left put mean keep kept let begin began seem help show shown hear play"
    " run move live believe hold brought happen write sit stand lose pay meet include continue set"
    " learn change lead watch follow stop speak read add spend grow open win offer love consider"
    " buy die send expect build stay fall cut reach remain suggest raise sell require report decide"
    " pull return explain hope carry break receive agree support hit eat catch draw choose look"
    " like turn start end face"
)
# Verbs that no ending in -s, -ed or -ing tells.
VERBS = _EVERYDAY_VERBS | word_set(
    "ran held wrote written sat stood lost paid met spoke spoken spent grew won sent built fell"
    " sold rise rose meant ate drink drive drove fly flew wear wore bought caught drew chose broke"
    " broken beat sang teach taught fight fought heard sleep slept swim swam throw threw shoot shot"
    " strike struck cost quit shut spread reveal claim plan warn fear wonder enjoy admit deny join"
    " close blame"
)
# Verbs in the form that "he" and "she" do not take.
BASE_VERBS = word_set(
    "say go get make take come see know think want find give keep begin show run hold bring write"
    " sit stand lose pay meet lead leave speak spend grow win send build fall sell rise feel become"
    " eat drive fly wear buy choose break hear need seem help play move live believe work try ask"
)
# Everyday words carry little of what a text is about; any form of one stands for all.
_EVERYDAY_WORDS = _EVERYDAY_VERBS | word_set(
    "goes going used using tried need bring understand create allow walk remember appear wait serve"
    " kill pass develop produce cover cause year time way day man men thing woman women life child"
    " children world school state family student group country problem hand part place case week"
    " company system program question number night point home water room mother area money story"
    " fact month lot right study book eye job word business issue side kind head house service"
    " friend father power hour game line member law car city community name president team minute"
    " idea kid body information back parent level office door health person people art history"
    " party result morning reason girl guy moment air teacher force education good new first last"
    " long great little old big high different small large next early young important public bad"
    " able best better sure free true whole clear recent certain possible nice fine pretty really"
    " well maybe perhaps actually probably however never always often sometimes usually today"
    " tomorrow yesterday around away ago later soon thousand million second third every something"
    " anything everything someone anyone everyone according added revealed claims yes no oh okay ok"
    " hi hello thanks please guess wow interesting cool yeah yep fun favorite favourite"
)
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {
    **{word: str(value) for value, word in enumerate(_NUMBERS.split())},
    **{"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100"},
}
ABBREVIATIONS = word_set(
    "mr mrs ms dr prof sr jr st vs etc inc ltd co corp gen sen rep gov no dept fig"
)
# Of a longer text only the two ends are read.
MOST_CHARACTERS = 600_000
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
        return not NEGATIONS.isdisjoint(self.words)

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
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS // 2]}\n{text[-MOST_CHARACTERS // 2 :]}"
    if "'" in text or "’" in text:
        text = _BEFORE_CLITIC.sub(" ", text).replace("’", "'")
    tokens: list[str] = _TOKEN.findall(text)
    has_capitals = _CAPITAL.search(text) is not None
    sentences: list[Sentence] = []
    lines, start = 0, 0
    for place, token in enumerate([*tokens, "\n"]):
        newline = token[0] == "\n"
        if newline:
            stop = place
        elif token in _STOPS and place >= start and _ends_sentence(tokens, place, has_capitals):
            stop = place + 1
            if stop < len(tokens) and tokens[stop] in _CLOSERS:
                stop += 1
        else:
            continue
        lines += newline
        if sentence := _read_sentence(tokens[start:stop]):
            sentences.append(sentence)
        start = stop + newline
    return Text(tuple(sentences), lines, has_capitals)


def _ends_sentence(tokens: Sequence[str], place: int, has_capitals: bool) -> bool:
    """Whether the stop at `place` ends a sentence rather than an abbreviation or a quoted part."""
    if tokens[place] in ".!?" and has_capitals:
        after = place + 1
        while after < len(tokens) and tokens[after] in _CLOSERS:
            after += 1
        if after < len(tokens) and tokens[after][0].islower():
            return False
    if tokens[place] != "." or place == 0:
        return True
    before = tokens[place - 1]
    is_initial = len(before) == 1 and before.isalpha() and before.lower() not in "ai"
    return not is_initial and before.lower() not in ABBREVIATIONS


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


_EVERYDAY_STEMS = frozenset(map(stem_of, _EVERYDAY_WORDS))
