"""Read the one rating or choice that a judge's reply states, in one of three forms.

1. The answer alone: "4", "**(B)**"; in the reply, in a line of it, or under our last header
   `[[ ## rating ## ]]`, which then is all that is read.
2. `label: 4` at the start of a line, whatever the label's words are; a key of JSON is a label. A
   label that says "final" or "overall" wins, then one that says "rating" or names the dimension.
3. The answer first, before a reason: "4 - clear", "B: it is precise".

Exactly one value may be stated so, and what follows may state no other one. Any other reply raises
NoScoreError and is asked for again. No character is moved while a reply is read, so that an
answer's span is its place in the reply as it came.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from judges.judgement import NoScoreError, shortened
from judges.prompt import FIELD_HEADER, THOUGHT_END, THOUGHT_START, Field, Value, thinks_at_length

# A longer answer is none to our question.
MAX_LENGTH = 20_000
NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip
NUMBER = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|\b(?i:{'|'.join(NUMBER_WORDS)})\b)"
NOUN = r"(?i:summary|response|output|answer|option|assistant|candidate|text|model|version|choice)"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of labels: of an answer that wins, of an answer, and of neither.
_FINAL = _words("final overall revised updated corrected correction edit")
_ANSWER = _words(
    "rating ratings rate score scores grade mark answer verdict result judgement judgment label"
    " evaluation assessment preferred preference choice winner decision best"
)
_BESIDE = _words("the a an my your our is i it for of on this here s total would give to level")
# What these name is no answer: "word count", "confidence in it"; nor is a "previous rating".
_OTHER = _words(
    "number count amount sum mean average percentage ratio confidence certainty probability length"
    " page chapter section line paragraph sentence step item example case figure question part rule"
    " criterion id rank position version year month day date time age maximum max minimum min"
    " highest lowest possible threshold scale baseline first second third draft initial previous"
    " original expected target reason reasoning explanation feedback document prompt instruction"
    " user human author annotator expert ideal reference alternative requested error attempt"
    " priority injected iteration"
)
# Wherever they stand, what follows is reported, denied, supposed or the worse of two.
_DENIED = _words(
    "says say claims claimed states reads wrote asks wants contains ends example if not no never"
    " less least worse worst weaker loser rejected before after"
)
# "Errors" and "errors found" count; "correctness", "analysis" and "ethics" do not.
_PLURAL = re.compile(r"[^siu]s(?<!ics)(?: \w+ed| found| made)?\Z")

# Other signs than ASCII's for the same, blanks and line ends among them.
_PLAIN = str.maketrans(
    "０１２３４５６７８９：（）［］＝。，“”’‘−\t\r\u00a0\u200b\u2060\u3000\ufeff",
    "0123456789:()[]=.,\"\"''- \n     ",
)
# What may stand around an answer.
_MARKS = " \t\r\n*_`\"'()[]"
_BULLET = r"(?:(?:[-+•*]|#{1,6}) {1,4})?"
_OPEN = r"[*_`\"'(\[{|⭐★ ]{0,8}(?:\$?\\boxed\{(?:\\text\{)?)?"
_CLOSE = r"[*_`\"')\]}|$⭐★ ]*"
# A quoted line is somebody else's; a quoted key is not.
_LABEL = re.compile(
    rf"{_BULLET}(?:\d{{1,2}}[.)] {{1,4}})?[*_`(\[{{|⭐★ ]{{0,8}}(?P<quote>[\"'])?"
    r"(?P<label>[^\W\d][^\n:=→<>.?!;\"(]{0,70}?(?: ?\([^()\n]{0,60}\))?)(?(quote)(?P=quote))"
    rf"{_CLOSE}(?:[-=]>|[:=→]|(?<= )[-–—](?= ))"
)
# An answer ends where nothing or a reason follows it, which does not take it back.
_REASON = re.compile(
    rf"{_CLOSE}(?:\Z|[.!](?=[\s*\"')}}]|\Z)|(?:[,;:](?=[\s*\"')}}]|\Z)|\((?!\?)|[-–—] (?!\d)"
    r"|(?:because|since|as it|due to|given)\b)(?!\W*(?i:or|maybe|perhaps|possibly|probably|at best"
    r"|at most|at least|minus|plus|if|unless|wait|actually|rather|draft|to|and|i think|i guess|said"
    r"|worse|weaker|less)\b))"
)
# What stands in an answer's place and is none: "~4", "N/A", "neither".
_UNCLEAR = re.compile(
    rf"{_OPEN}(?:[~<>≈±≥≤+-]? ?{NUMBER}|n/?a\b|none|null|unknown|neither|both|ties?\b|\?)",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"\b(?:scratch that|on (?:second thought|reflection)|take that back|never ?mind|let me re"
    r"|i (?:\w+ )?reconsider|too (?:high|low|generous|harsh)|i (?:cannot|can't) (?:rate|score|say)"
    r"|(?:wait|hmm+|oops|sorry|correction) ?[,.:!])",
    re.IGNORECASE,
)
# Of what is left when the judge's own scale is blanked.
_OTHER_SCALE = re.compile(
    r"\bscale\b[^\n\d]{0,9}\d|\b\d+-point\b|\(\d+ is"
    r"|\((?:[01] ?(?:to|-|–)|(?:out )?of|max\w*:?) ?\d+\)",
    re.IGNORECASE,
)
# What begins a line of its own: headers, tags, keys of JSON.
_MARKUP = re.compile(
    rf"{FIELD_HEADER.pattern}|<(\w{{1,30}})>|</\w{{1,30}}>|<\|[a-z_]{{1,20}}\|>|```[a-z]*|\}}"
    r"|[{,]\s*(?=([\"'])[\w -]{1,40}\3\s{0,9}:)"
)
# One that is quoted within a line is none.
_DONE = re.compile(r"^[ *_`>#-]{0,20}\[\[[ #]{0,9}completed\b", re.MULTILINE | re.IGNORECASE)
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER.pattern}[*_`:]{{0,3}}")


class Wanted:
    """What may be answered: the numbers of a scale, those between them too, or words."""

    def __init__(self, choices: tuple[Value, ...], fractions: bool) -> None:
        self.choices, self.fractions = choices, fractions
        self.numeric = all(isinstance(choice, int) for choice in choices)
        # What an answer alone is written as.
        self.alone = {str(choice).lower(): choice for choice in choices}
        begin, no_filler = "^", "than|to|over"
        if self.numeric:
            self.alone |= {word: n for n, word in enumerate(NUMBER_WORDS) if n in choices}
            low, high = choices[0], choices[-1]
            top = "|".join(word for word, number in self.alone.items() if number == high)
            scale = (
                rf"\([^()\n]{{0,40}}\b{low}\b[^()/\n]{{0,40}}\b{high}\b[^()\n]{{0,40}}\)|\b{high}-point\b"
                rf"|\b{low} ?(?:to|-|–|and) ?{high}\b"
                rf"|(?i:\bout of|(?<=\d )of|/) ?(?i:{top})\b(?:\.0+\b)?"
            )
            value = rf"(?P<value>-?{NUMBER})(?: *(?:(?i:stars?|points?|pts?)|[⭐★分点점]+))?(?!\w)"
            end = ""
        else:
            # "not ok" before "ok".
            longest = sorted(self.alone, key=len, reverse=True)
            words, scale = "|".join(map(re.escape, longest)), "(?!)"
            value = rf"(?:{NOUN} )?[(*\[]{{0,4}}\b(?P<value>(?i:{words}))(?![\w&+/'-])"
            end = "| ?[:–—-] "
            if min(map(len, longest)) > 1:  # of letters much is said beside the answer
                begin, no_filler = "^(?:[-+•*] )?", rf"{no_filler}|(?:not|never|no)\b|\w+n't\b"
        filler = rf"(?:(?!{no_filler})[A-Za-z']{{1,12}},? ){{0,6}}"
        clause = rf"(?:{begin}|[.!?;:=,(–—]| -) ?{filler}[*_\"(]{{0,4}}"
        end = rf"(?=[*\")\]}} ]*(?:$|\(|[.!,;](?:\s|\Z){end}))"
        self.answer = re.compile(rf"{_BULLET}{_OPEN}{value}")
        # Another one in what follows: it begins a clause, or nearly, and ends one.
        self.second = re.compile(clause + value + end, re.MULTILINE)
        # How replies mention the scale.
        self.scale = re.compile(scale)

    def value(self, match: re.Match[str]) -> float | str | None:
        """The choice that is written; None for a number off the scale."""
        word = match["value"].lower()
        if word in self.alone or not self.numeric or word in NUMBER_WORDS:
            return self.alone.get(word)
        number = float(word)
        between = self.fractions and self.choices[0] <= number <= self.choices[-1]  # type: ignore[operator]
        return number if between or number in self.choices else None


wanted_of = lru_cache(maxsize=64)(Wanted)


class Answer(NamedTuple):
    """One answer that a reply states: its value, None where it is unclear, and its place.

    `rank` is 3 under "final" or "overall", 2 where it is called the answer or stands alone, else 1.
    """

    value: float | str | None
    rank: int
    start: int
    end: int


class Reading(NamedTuple):
    """The values of all fields, and where in the reply the answer stands."""

    values: dict[str, Value]
    span: tuple[int, int]


def read(
    reply: str, outputs: Sequence[Field], *, truncated: bool = False, names: Collection[str] = ()
) -> Reading:
    """Return what a judge's reply says in every field; NoScoreError, which quotes it, if unclear.

    `names` are what the dimension is called. A free text is what stands under its header, else what
    stands under none. A reply that was cut short (`truncated`) holds an answer only where another
    header closes its section: even a lone "1" may be the beginning of "10".
    """
    start, end = answer_span(reply)
    headers = list(_HEADER.finditer(reply, start, end))
    ends = [*(header.start() for header in headers[1:]), end]
    sections = {
        header[1].lower(): (header.end(), following)
        for header, following in zip(headers, ends, strict=False)
    }
    field = next(field for field in reversed(outputs) if field.choices)
    place = sections.get(field.name, (start, end))
    if truncated and place[1] == len(reply):
        raise NoScoreError(f"the reply is cut short: {shortened(reply[start:])}")
    # Steps and questions rate parts of the whole: only what is called the answer is it.
    strict = len(outputs) > 1 and field.name not in sections and thinks_at_length(outputs)
    wanted = wanted_of(field.choices or (), False)
    known = (field.name,) if strict else (field.name, *names)
    answer = find_answer(reply[slice(*place)], wanted, known, strict=strict)
    if answer is None or answer.value is None:
        first, *_, last = wanted.choices
        one_of = f"from {first} to {last}" if wanted.numeric else f"{first} or {last}"
        raise NoScoreError(f"no {field.name} {one_of} in {shortened(reply[start:end])}")
    value = answer.value if isinstance(answer.value, str) else int(answer.value)
    texts = {name: reply[slice(*section)].strip() for name, section in sections.items()}
    lead = reply[start : headers[0].start() if headers else end].strip()
    rest = lead if " " in lead else ""
    values: dict[str, Value] = {output.name: texts.get(output.name, rest) for output in outputs}
    values[field.name] = value
    return Reading(values, (place[0] + answer.start, place[0] + answer.end))


def find_answer(
    text: str, wanted: Wanted, names: Collection[str] = (), *, strict: bool = False
) -> Answer | None:
    """Return the one answer a text states, None without; NoScoreError if it is unclear.

    `strict`: only what is called the answer counts, or what stands alone.
    """
    word = text.strip(_MARKS).rstrip(".*")
    if (value := wanted.alone.get(word.lower())) is not None:
        start = text.index(word)
        return Answer(value, 2, start, start + len(word))
    if len(text.strip()) > MAX_LENGTH:
        raise NoScoreError(f"more than {MAX_LENGTH:,} characters: {shortened(text)}")
    own_words = frozenset(re.findall(r"[^\W\d_]+", " ".join(names).lower()))
    answers, asides = _answers(plain_text(text, wanted), wanted, own_words)
    rank = max((answer.rank for answer in answers), default=0)
    if rank <= strict:
        return None
    answers = [answer for answer in answers if answer.rank == rank]
    after = "\n".join(aside for place, aside in asides if place >= answers[-1].start)
    values = {answer.value for answer in answers}
    values |= {wanted.value(match) for match in wanted.second.finditer(after)} - {None}
    if None in values or len(values) > 1 or _WITHDRAWN.search(after):
        raise NoScoreError(f"not one clear answer in {shortened(text)}")
    return answers[-1]


def answer_span(reply: str) -> tuple[int, int]:
    """Where the answer stands: after the thoughts, up to the end that it marks itself."""
    start = max((end.end() for end in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought without its end: {shortened(reply[start:])}")
    done = _DONE.search(reply, start)
    marked = done and reply[start : done.start()].strip()
    return start, done.start() if done and marked else len(reply)


def plain_text(text: str, wanted: Wanted) -> str:
    """A text of the same length in plain signs, a label at the start of its line, no own scale.

    Labels are tags, headers of other names and keys of JSON. NoScoreError names another scale.
    """
    text = text.translate(_PLAIN)
    text = wanted.scale.sub(lambda match: " " * len(match[0]), text)
    if wanted.numeric and _OTHER_SCALE.search(text):
        raise NoScoreError(f"an answer on another scale: {shortened(text)}")

    def label(markup: re.Match[str]) -> str:
        name = markup[1] or markup[2]
        return (f"\n{name}:" if name else "\n").ljust(len(markup[0]))

    return _MARKUP.sub(label, text)


def _answers(
    plain: str, wanted: Wanted, own_words: frozenset[str]
) -> tuple[list[Answer], list[tuple[int, str]]]:
    """The answers that lines state, and what else they say, with its place."""
    answers, asides = [], []
    above: int | None = None  # the rank of the line before, where that is a label alone
    for number, line in enumerate(re.finditer(r"\S[^\n]*", plain)):
        content, place = line[0].rstrip(), line.start()
        label = _LABEL.match(content)
        if label and wanted.answer.fullmatch(label["label"]):
            label = None  # "B: it is precise"
        start = label.end() if label else 0
        match = wanted.answer.match(content, start)
        reason = match and _REASON.match(content, match.end()) and content[match.end() :]
        alone = reason is not None and not reason.strip(_MARKS + "}|$.!")
        rank = _rank(label["label"], own_words) if label else above if alone else None
        rank = 0 if above == 0 else rank  # "The text says:"
        above = rank if label and not content[start:].strip(_MARKS) else None
        first = number == 0 and not content.endswith("?")
        if match and reason is not None and (rank is not None or alone or first):
            asides.append((place + match.end(), reason))
            value = None if rank == 0 else wanted.value(match)
            rank = 1 + alone if rank is None else max(rank, 1)
            answers.append(Answer(value, rank, place + match.start("value"), place + match.end()))
            continue
        asides.append((place, content))
        if rank and (match or (rank > 1 and _UNCLEAR.match(content, start))):
            answers.append(Answer(None, rank, place, place))
    return answers, asides


def _rank(label: str, own_words: frozenset[str]) -> int:
    """How much a label calls what follows it the answer, 3 to 1; 0: it names something else."""
    words = re.findall(r"[^\W_]+", label.lower())
    named = set(words) - _BESIDE
    if not named or len(words) > 9 or re.search(r"\d|^[a-z]$", " ".join(words)):
        return 0
    # The head of "clarity of terms" is "clarity"; of "word count", "count".
    heads = re.split(r" (?:of|in|for|to|across|between|from|with)\b", " ".join(words))[0]
    head = next((word for word in reversed(heads.split()) if word not in _BESIDE), "number")
    other = named & _OTHER - own_words and (head in _OTHER or head in _ANSWER)
    counts = head not in _ANSWER | own_words and _PLURAL.search(heads)
    if other or counts or named & _DENIED - own_words:
        return 0
    if named & _FINAL:
        return 3
    return 2 if named <= _ANSWER | own_words else 1
