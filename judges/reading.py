"""Read the one rating or choice that a judge's reply states, in one of three forms.

1. The answer alone: "4", "**(B)**"; in the reply, in a line of it, or under our last header
   `[[ ## rating ## ]]`, which then is all that is read.
2. `label: 4` at the start of a line, whatever the label's words are; a key of JSON is a label. A
   label that says "final" or "overall" wins, then one that says "rating" or names the dimension.
3. The answer first, before a reason: "4 - clear", "B: it is precise".

A reply must state exactly one value in such a form, and the rest of it must not state another. Any
other reply raises NoScoreError, and the model is asked again. Reading moves no character, so that
the span of an answer is its place in the original reply.

Where a reply answers several questions, each answer stands under the header of its field, or after
its field's own name as a label. Each is read as above, from its own part of the reply alone.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from judges.judgement import NoScoreError, quote
from judges.prompt import FIELD_HEADER, THOUGHT_END, THOUGHT_START, Field, Value, thinks_at_length
from judges.protocol import REFUSAL, RefusedError, Reply

# Characters of a reply; a longer one is not searched for an answer.
MAX_LENGTH = 20_000
NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip
NUMBER = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|\b(?i:{'|'.join(NUMBER_WORDS)})\b)"
NOUN = r"(?i:summary|response|output|answer|option|assistant|candidate|text|model|version|choice)"


def _terms(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that a label may hold: of an answer that beats others, of an answer, and of no weight.
_FINAL = _terms("final overall revised updated corrected correction edit")
_ANSWER = _terms(
    "rating ratings rate score scores grade mark answer verdict result judgement judgment label"
    " evaluation assessment preferred preference choice winner decision best"
)
_NEUTRAL = _terms("the a an my your our is i it for of on this here s total would give to level")
# These name something other than the answer: "word count", "confidence in it", "previous rating".
_OTHER = _terms(
    "number count amount sum mean average percentage ratio confidence certainty probability length"
    " page chapter section line paragraph sentence step item example case figure question part rule"
    " criterion id rank position version year month day date time age maximum max minimum min"
    " highest lowest possible threshold scale baseline first second third draft initial previous"
    " original expected target reason reasoning explanation feedback document prompt instruction"
    " user human author annotator expert ideal reference alternative requested error attempt"
    " priority injected iteration"
)
# Anywhere in a label, these report, deny or suppose what follows, or call it the worse of two.
_DENIED = _terms(
    "says say claims claimed states reads wrote asks wants contains ends example if not no never"
    " less least worse worst weaker loser rejected before after"
)
# Plurals count things: "errors", "errors found", but not "correctness", "analysis" or "ethics".
_PLURAL = re.compile(r"[^siu]s(?<!ics)(?: \w+ed| found| made)?\Z")

# Signs beyond ASCII, blanks and line ends among them, as their ASCII equivalents.
_PLAIN = str.maketrans(
    "０１２３４５６７８９：（）［］＝。，“”’‘−\t\r\u00a0\u200b\u2060\u3000\ufeff",
    "0123456789:()[]=.,\"\"''- \n     ",
)
# What may stand around an answer.
_MARKS = " \t\r\n*_`\"'()[]"
_BULLET = r"(?:(?:[-+•*]|#{1,6}) {1,4})?"
_OPEN = r"[*_`\"'(\[{|⭐★ ]{0,8}(?:\$?\\boxed\{(?:\\text\{)?)?"
_CLOSE = r"[*_`\"')\]}|$⭐★ ]*"
# A label may be a quoted key of JSON; a line quoted as a whole is somebody else's.
_LABEL = re.compile(
    rf"{_BULLET}(?:\d{{1,2}}[.)] {{1,4}})?[*_`(\[{{|⭐★ ]{{0,8}}(?P<quote>[\"'])?"
    r"(?P<label>[^\W\d][^\n:=→<>.?!;\"(]{0,70}?(?: ?\([^()\n]{0,60}\))?)(?(quote)(?P=quote))"
    rf"{_CLOSE}(?:[-=]>|[:=→]|(?<= )[-–—](?= ))"
)
# An answer is complete where nothing follows it, or a reason that does not take it back.
_REASON = re.compile(
    rf"{_CLOSE}(?:\Z|[.!](?=[\s*\"')}}]|\Z)|(?:[,;:](?=[\s*\"')}}]|\Z)|\((?!\?)|[-–—] (?!\d)"
    r"|(?:because|since|as it|due to|given)\b)(?!\W*(?i:or|maybe|perhaps|possibly|probably|at best"
    r"|at most|at least|minus|plus|if|unless|wait|actually|rather|draft|to|and|i think|i guess|said"
    r"|worse|weaker|less)\b))"
)
# Text in the place of an answer that is not one: "~4", "N/A", "neither".
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
# Another scale, searched for after mentions of the judge's own scale are blanked.
_OTHER_SCALE = re.compile(
    r"\bscale\b[^\n\d]{0,9}\d|\b\d+-point\b|\(\d+ is"
    r"|\((?:[01] ?(?:to|-|–)|(?:out )?of|max\w*:?) ?\d+\)",
    re.IGNORECASE,
)
# Headers, tags and keys of JSON, each of which is read as the start of a line.
_MARKUP = re.compile(
    rf"{FIELD_HEADER.pattern}|<(\w{{1,30}})>|</\w{{1,30}}>|<\|[a-z_]{{1,20}}\|>|```[a-z]*|\}}"
    r"|[{,]\s*(?=([\"'])[\w -]{1,40}\3\s{0,9}:)"
)
# The header that ends a reply, unless it is quoted within a line.
_COMPLETED = re.compile(r"^[ *_`>#-]{0,20}\[\[[ #]{0,9}completed\b", re.MULTILINE | re.IGNORECASE)
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER.pattern}[*_`:]{{0,3}}")


def check_reply(reply: Reply) -> None:
    """Raise RefusedError where the model or its endpoint refuses, NoScoreError if nothing came."""
    if reply.finish_reason == REFUSAL:
        raise RefusedError(f"the model refused: {quote(reply.text)}")
    if reply.finish_reason == "content_filter" and not reply.text:
        raise RefusedError("the endpoint's content filter withheld the reply")
    if not reply.text.strip():
        reason = "no text within its limit of tokens" if reply.out_of_tokens else "empty"
        raise NoScoreError(f"{reason} ({reply.finish_reason})")


class AnswerForm:
    """The patterns by which an answer is found: a number on a scale, or one of several words.

    With `fractions` numbers between two ratings count as well.
    """

    def __init__(self, choices: tuple[Value, ...], fractions: bool) -> None:
        self.choices, self.fractions = choices, fractions
        self.numeric = all(isinstance(choice, int) for choice in choices)
        # Lower-case text of an answer that stands alone -> the choice.
        self.spellings = {str(choice).lower(): choice for choice in choices}
        begin, no_filler = "^", "than|to|over"
        if self.numeric:
            self.spellings |= {word: n for n, word in enumerate(NUMBER_WORDS) if n in choices}
            low, high = choices[0], choices[-1]
            top = "|".join(word for word, number in self.spellings.items() if number == high)
            scale = (
                rf"\([^()\n]{{0,40}}\b{low}\b[^()/\n]{{0,40}}\b{high}\b[^()\n]{{0,40}}\)|\b{high}-point\b"
                rf"|\b{low} ?(?:to|-|–|and) ?{high}\b"
                rf"|(?i:\bout of|(?<=\d )of|/) ?(?i:{top})\b(?:\.0+\b)?"
            )
            value = rf"(?P<value>-?{NUMBER})(?: *(?:(?i:stars?|points?|pts?)|[⭐★分点점]+))?(?!\w)"
            end = ""
        else:
            # "not ok" before "ok".
            longest = sorted(self.spellings, key=len, reverse=True)
            words, scale = "|".join(map(re.escape, longest)), "(?!)"
            value = rf"(?:{NOUN} )?[(*\[]{{0,4}}\b(?P<value>(?i:{words}))(?![\w&+/'-])"
            end = "| ?[:–—-] "
            if min(map(len, longest)) > 1:  # single letters occur in much other text
                begin, no_filler = "^(?:[-+•*] )?", rf"{no_filler}|(?:not|never|no)\b|\w+n't\b"
        filler = rf"(?:(?!{no_filler})[A-Za-z']{{1,12}},? ){{0,6}}"
        clause = rf"(?:{begin}|[.!?;:=,(–—]| -) ?{filler}[*_\"(]{{0,4}}"
        end = rf"(?=[*\")\]}} ]*(?:$|\(|[.!,;](?:\s|\Z){end}))"
        self.answer = re.compile(rf"{_BULLET}{_OPEN}{value}")
        # An answer in what follows one: it takes up a clause, or nearly.
        self.later_answer = re.compile(clause + value + end, re.MULTILINE)
        # Mentions of the scale itself, such as "out of 5".
        self.scale = re.compile(scale)

    def value(self, match: re.Match[str]) -> float | str | None:
        """The choice that a match states; None for a number off the scale."""
        word = match["value"].lower()
        if word in self.spellings or not self.numeric or word in NUMBER_WORDS:
            return self.spellings.get(word)
        number = float(word)
        between = self.fractions and float(self.choices[0]) <= number <= float(self.choices[-1])
        return number if between or number in self.choices else None


answer_form = lru_cache(maxsize=64)(AnswerForm)


class Answer(NamedTuple):
    """One answer in a reply: its value, None where it is unclear, and its place.

    `rank` is 3 under "final" or "overall", 2 where it is called the answer or stands alone, else 1.
    """

    value: float | str | None
    rank: int
    start: int
    end: int


class Reading(NamedTuple):
    """The values of all fields, and the place in the reply of each value that is a choice."""

    values: dict[str, Value]
    spans: dict[str, tuple[int, int]]


# The part of a reply under the header or the label of a field.
Sections = dict[str, tuple[int, int]]


def read(
    reply: str, outputs: Sequence[Field], *, truncated: bool = False, names: Collection[str] = ()
) -> Reading:
    """Read every output field of a judge's reply.

    A free text is the text under its header, else the text above the first header. A truncated
    reply holds an answer only where another header closes its section: even a lone "1" may be the
    beginning of "10".

    Of several fields with choices, the last is the answer and the others are questions. `names`
    are those of the dimension, which count as labels of the answer. Raises NoScoreError, which
    quotes the reply, where it states no answer or not a clear one.
    """
    start, end = answer_span(reply)
    headers = list(_HEADER.finditer(reply, start, end))
    sections = _sections(headers, end)
    fields = [field for field in outputs if field.choices]
    has_questions = len(fields) > 1
    if has_questions:
        sections = _own_sections(sections, reply, (start, end), outputs)
    lead = reply[start : headers[0].start() if headers else end].strip()
    preface = lead if " " in lead else ""
    texts = {name: reply[slice(*section)].strip() for name, section in sections.items()}
    values: dict[str, Value] = {output.name: texts.get(output.name, preface) for output in outputs}
    spans = {}
    for field in fields:
        # Steps and questions rate parts of the whole: only what is called the answer is it.
        strict = len(outputs) > 1 and field.name not in sections and thinks_at_length(outputs)
        own_names = (field.name,) if strict or has_questions else (field.name, *names)
        place = sections.get(field.name, (start, end))
        if truncated and place[1] == len(reply):
            raise NoScoreError(f"the reply is cut short: {quote(reply[start:])}")
        answer = _read_choice(reply[slice(*place)], field, own_names, strict=strict)
        values[field.name], first, last = answer
        spans[field.name] = (place[0] + first, place[0] + last)
    return Reading(values, spans)


def _sections(labels: Sequence[re.Match[str]], end: int) -> Sections:
    """The part of a reply that follows each label, up to the next label or the end."""
    stops = [*(label.start() for label in labels), end]
    return {
        label[1].lower(): (label.end(), stop) for label, stop in zip(labels, stops[1:], strict=True)
    }


def _own_sections(
    sections: Sections, reply: str, span: tuple[int, int], outputs: Sequence[Field]
) -> Sections:
    """The sections of a reply in which each field with choices has one of its own.

    If headers do not give it one, names of fields do, as in "rating: 4" or in JSON. NoScoreError
    names a field without one, and refuses a name that occurs twice, as where a reason quotes it.
    """
    fields = [field.name for field in outputs if field.choices]
    if all(name in sections for name in fields):
        return sections
    names = "|".join(re.escape(field.name) for field in outputs)
    label = rf"(?:^|[{{,])[\s*_`\"'>#-]{{0,9}}({names})[*_`\"' ]{{0,5}}[:=]"
    labels = list(re.compile(label, re.MULTILINE | re.IGNORECASE).finditer(reply, *span))
    by_label = _sections(labels, span[1])
    if len(by_label) < len(labels):
        raise NoScoreError(f"an answer is given twice in {quote(reply[slice(*span)])}")
    by_label = by_label or sections
    if missing := [name for name in fields if name not in by_label]:
        raise NoScoreError(f"no {missing[0]} of its own in {quote(reply[slice(*span)])}")
    return by_label


def _read_choice(
    text: str, field: Field, names: Collection[str], *, strict: bool
) -> tuple[Value, int, int]:
    """The one answer to a field in its text, and its place; NoScoreError where none is clear."""
    form = answer_form(field.options, False)
    answer = find_answer(text, form, names, strict=strict)
    if answer is None or answer.value is None:
        first, *_, last = form.choices
        one_of = f"from {first} to {last}" if form.numeric else f"{first} or {last}"
        raise NoScoreError(f"no {field.name} {one_of} in {quote(text)}")
    value = answer.value if isinstance(answer.value, str) else int(answer.value)
    return value, answer.start, answer.end


def find_answer(
    text: str, form: AnswerForm, names: Collection[str] = (), *, strict: bool = False
) -> Answer | None:
    """The one answer in a text; None if there is none, NoScoreError if it is unclear.

    With `strict` an answer has to be called so, or to stand alone.
    """
    word = text.strip(_MARKS).rstrip(".*")
    if (value := form.spellings.get(word.lower())) is not None:
        start = text.index(word)
        return Answer(value, 2, start, start + len(word))
    if len(text.strip()) > MAX_LENGTH:
        raise NoScoreError(f"more than {MAX_LENGTH:,} characters: {quote(text)}")
    own_words = frozenset(re.findall(r"[^\W\d_]+", " ".join(names).lower()))
    answers, asides = _answers(plain_text(text, form), form, own_words)
    rank = max((answer.rank for answer in answers), default=0)
    if rank <= strict:
        return None
    answers = [answer for answer in answers if answer.rank == rank]
    after = "\n".join(aside for place, aside in asides if place >= answers[-1].start)
    values = {answer.value for answer in answers}
    values |= {form.value(match) for match in form.later_answer.finditer(after)} - {None}
    if None in values or len(values) > 1 or _WITHDRAWN.search(after):
        raise NoScoreError(f"not one clear answer in {quote(text)}")
    return answers[-1]


def answer_span(reply: str) -> tuple[int, int]:
    """The part of a reply after its thoughts, up to the end that the reply marks itself."""
    start = max((end.end() for end in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought without its end: {quote(reply[start:])}")
    completed = _COMPLETED.search(reply, start)
    if completed is None or not reply[start : completed.start()].strip():
        return start, len(reply)
    return start, completed.start()


def plain_text(text: str, form: AnswerForm) -> str:
    """The text in plain signs, at the same length, with labels at line starts and no own scale.

    Tags, headers of other names and keys of JSON become labels. NoScoreError names another scale.
    """
    text = text.translate(_PLAIN)
    text = form.scale.sub(lambda match: " " * len(match[0]), text)
    if form.numeric and _OTHER_SCALE.search(text):
        raise NoScoreError(f"an answer on another scale: {quote(text)}")

    def label(markup: re.Match[str]) -> str:
        name = markup[1] or markup[2]
        return (f"\n{name}:" if name else "\n").ljust(len(markup[0]))

    return _MARKUP.sub(label, text)


class _Line:
    """A line of a reply: a label, an answer after it, and the reason that may follow the answer."""

    def __init__(self, line: re.Match[str], form: AnswerForm) -> None:
        self.content, self.place = line[0].rstrip(), line.start()
        label = _LABEL.match(self.content)
        # "B: it is precise" begins with an answer and not with a label.
        self.label = None if label and form.answer.fullmatch(label["label"]) else label
        self.start = self.label.end() if self.label else 0
        self.is_label_alone = bool(self.label) and not self.content[self.start :].strip(_MARKS)
        self.answer = form.answer.match(self.content, self.start)
        # None where no answer is complete.
        self.reason: str | None = None
        if self.answer and _REASON.match(self.content, self.answer.end()):
            self.reason = self.content[self.answer.end() :]
        self.is_answer_alone = self.reason is not None and not self.reason.strip(_MARKS + "}|$.!")

    def rank(self, own_words: frozenset[str], rank_above: int | None) -> int | None:
        """The rank by the line's label, or by the line above where that is a label alone."""
        if rank_above == 0:  # "The text says:"
            return 0
        if self.label:
            return _rank(self.label["label"], own_words)
        return rank_above if self.is_answer_alone else None


def _answers(
    plain: str, form: AnswerForm, own_words: frozenset[str]
) -> tuple[list[Answer], list[tuple[int, str]]]:
    """The answers of all lines, and the rest of the text with its places."""
    answers, asides = [], []
    rank_above: int | None = None
    for number, match in enumerate(re.finditer(r"\S[^\n]*", plain)):
        line = _Line(match, form)
        rank = line.rank(own_words, rank_above)
        rank_above = rank if line.is_label_alone else None
        is_opening = number == 0 and not line.content.endswith("?")
        is_stated = rank is not None or line.is_answer_alone or is_opening
        if line.answer and line.reason is not None and is_stated:
            value = None if rank == 0 else form.value(line.answer)
            final_rank = 1 + line.is_answer_alone if rank is None else max(rank, 1)
            start, end = line.place + line.answer.start("value"), line.place + line.answer.end()
            answers.append(Answer(value, final_rank, start, end))
            asides.append((end, line.reason))
            continue
        asides.append((line.place, line.content))
        if rank and (line.answer or (rank > 1 and _UNCLEAR.match(line.content, line.start))):
            answers.append(Answer(None, rank, line.place, line.place))
    return answers, asides


def _rank(label: str, own_words: frozenset[str]) -> int:
    """How clearly a label names the answer: 3 (final) to 1; 0 where it names something else."""
    words = re.findall(r"[^\W_]+", label.lower())
    terms = set(words) - _NEUTRAL
    if not terms or len(words) > 9 or re.search(r"\d|^[a-z]$", " ".join(words)):
        return 0
    # The head of "clarity of terms" is "clarity"; of "word count", "count".
    heads = re.split(r" (?:of|in|for|to|across|between|from|with)\b", " ".join(words))[0]
    head = next((word for word in reversed(heads.split()) if word not in _NEUTRAL), "number")
    other = terms & _OTHER - own_words and (head in _OTHER or head in _ANSWER)
    counts = head not in _ANSWER | own_words and _PLURAL.search(heads)
    if other or counts or terms & _DENIED - own_words:
        return 0
    if terms & _FINAL:
        return 3
    return 2 if terms <= _ANSWER | own_words else 1
