"""Find the rating or the word that a model's reply states as its answer.

The reply is read line by line, and FORMS lists the forms in which a line can state an answer. A
form says what kind of heading the answer has (see `Heading`), and only answers of the highest kind
in the reply count. They must have the same value, and no other value may follow; otherwise
NoScoreError is raised, since asking the model again is better than guessing.

The reply is cleaned without moving its characters, so an answer has the same position in the
original reply.
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

from judges.headings import Heading, heading_kind
from judges.judgement import NoScoreError, quote
from judges.prompt import FIELD_HEADER_PATTERN, FieldValue

# A reply of more than MAX_REPLY_LENGTH characters is not searched for an answer.
MAX_REPLY_LENGTH = 20_000
NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip
NUMBER_REGEX = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|\b(?i:{'|'.join(NUMBER_WORDS)})\b)"
CANDIDATE_NOUN = (
    r"(?i:summary|response|output|answer|option|assistant|candidate|text|model|version|choice)"
)

# Maps some white space and characters beyond ASCII to ASCII characters.
_ASCII_MAP = str.maketrans(
    "０１２３４５６７８９：（）［］＝。，“”’‘−\t\r\u00a0\u200b\u2060\u3000\ufeff",
    "0123456789:()[]=.,\"\"''- \n     ",
)
# The characters that may surround an answer.
_SURROUNDING_CHARACTERS = " \t\r\n*_`\"'()[]"
_AFTER_LONE_ANSWER = _SURROUNDING_CHARACTERS + "}|$.!"
_BULLET = r"(?:(?:[-+•*]|#{1,6}) {1,4})?"
_BEFORE_ANSWER = r"[*_`\"'(\[{|⭐★ ]{0,8}(?:\$?\\boxed\{(?:\\text\{)?)?"
_AFTER_ANSWER = r"[*_`\"')\]}|$⭐★ ]*"
# A heading at the start of a line. Quotation marks may be around the heading alone, as in JSON: a
# line that is quoted as a whole is not the model's own answer.
_HEADING_PATTERN = re.compile(
    rf"{_BULLET}(?:\d{{1,2}}[.)] {{1,4}})?[*_`(\[{{|⭐★ ]{{0,8}}(?P<quote>[\"'])?"
    r"(?P<heading>[^\W\d][^\n:=→<>.?!;\"(]{0,70}?(?: ?\([^()\n]{0,60}\))?)(?(quote)(?P=quote))"
    rf"{_AFTER_ANSWER}(?:[-=]>|[:=→]|(?<= )[-–—](?= ))"
)
# The text after a complete answer: nothing, or a reason that does not take the answer back.
_REASON_PATTERN = re.compile(
    rf"{_AFTER_ANSWER}(?:\Z|[.!](?=[\s*\"')}}]|\Z)|(?:[,;:](?=[\s*\"')}}]|\Z)|\((?!\?)|[-–—] (?!\d)"
    r"|(?:because|since|as it|due to|given)\b)(?!\W*(?i:or|maybe|perhaps|possibly|probably|at best"
    r"|at most|at least|minus|plus|if|unless|wait|actually|rather|draft|to|and|i think|i guess|said"
    r"|worse|weaker|less)\b))"
)
# An unclear answer, such as "~4", "N/A" or "neither".
_UNCLEAR_ANSWER = re.compile(
    rf"(?i){_BEFORE_ANSWER}(?:[~<>≈±≥≤+-]? ?{NUMBER_REGEX}|n/?a\b|none|null|unknown|neither|both"
    r"|ties?\b|\?)"
)
# Phrases with which a reply takes back its answer or declines to give one.
_WITHDRAWAL_PHRASE = re.compile(
    r"(?i)\b(?:scratch that|on (?:second thought|reflection)|take that back|never ?mind|let me re"
    r"|i (?:\w+ )?reconsider|too (?:high|low|generous|harsh)|i (?:cannot|can't) (?:rate|score|say)"
    r"|(?:wait|hmm+|oops|sorry|correction) ?[,.:!])"
)
# Mentions of another scale; mentions of the judge's own scale were removed before.
_OTHER_SCALE = re.compile(
    r"(?i)\bscale\b[^\n\d]{0,9}\d|\b\d+-point\b|\(\d+ is"
    r"|\((?:[01] ?(?:to|-|–)|(?:out )?of|max\w*:?) ?\d+\)"
)
# Headers such as `[[ ## rating ## ]]`, tags and JSON keys; each is treated as the start of a line.
_HEADING_MARKUP = re.compile(
    rf"{FIELD_HEADER_PATTERN.pattern}|<(\w{{1,30}})>|</\w{{1,30}}>|<\|[a-z_]{{1,20}}\|>|```[a-z]*"
    r"|\}|[{,]\s*(?=([\"'])[\w -]{1,40}\3\s{0,9}:)"
)
# A number as an answer, such as "4", "-1", "four" or "4 stars".
_NUMBER_ANSWER = (
    rf"(?P<value>-?{NUMBER_REGEX})(?: *(?:(?i:stars?|points?|pts?)|[⭐★分点점]+))?(?!\w)"
)


class AnswerPatterns:
    """The patterns that find an answer in a text: a number on a scale, or one of several words."""

    def __init__(self, choices: tuple[FieldValue, ...], allow_fractions: bool = False) -> None:
        self.choices, self.allow_fractions = choices, allow_fractions  # fractions: "3.5"
        self.is_numeric = all(isinstance(choice, int) for choice in choices)
        # Maps the text of a choice in lower case, such as "4" or "four", to the choice.
        self.choice_by_text = {str(choice).lower(): choice for choice in choices}
        clause_start, excluded_words, clause_end = "^", "than|to|over", ""
        if self.is_numeric:
            self.choice_by_text |= {word: n for n, word in enumerate(NUMBER_WORDS) if n in choices}
            value_regex, scale_regex = _NUMBER_ANSWER, self._scale_regex()
        else:
            # The pattern has the longest word first, so that "not ok" is not read as "ok".
            words_by_length = sorted(self.choice_by_text, key=len, reverse=True)
            words_regex = "|".join(map(re.escape, words_by_length))
            value_regex = (
                rf"(?:{CANDIDATE_NOUN} )?[(*\[]{{0,4}}\b(?P<value>(?i:{words_regex}))"
                r"(?![\w&+/'-])"
            )
            scale_regex = "(?!)"  # matches nothing
            clause_end = "| ?[:–—-] "
            if min(map(len, words_by_length)) > 1:  # single letters occur in much other text
                clause_start = "^(?:[-+•*] )?"
                excluded_words += r"|(?:not|never|no)\b|\w+n't\b"
        filler_regex = rf"(?:(?!{excluded_words})[A-Za-z']{{1,12}},? ){{0,6}}"
        clause_regex = rf"(?:{clause_start}|[.!?;:=,(–—]| -) ?{filler_regex}[*_\"(]{{0,4}}"
        end_regex = rf"(?=[*\")\]}} ]*(?:$|\(|[.!,;](?:\s|\Z){clause_end}))"
        self.answer_pattern = re.compile(rf"{_BULLET}{_BEFORE_ANSWER}{value_regex}")
        # Matches an answer that comes later in the text and fills nearly all of its clause.
        self.later_pattern = re.compile(clause_regex + value_regex + end_regex, re.MULTILINE)
        # Matches a mention of the judge's own scale, such as "out of 5".
        self.scale_pattern = re.compile(scale_regex)

    def _scale_regex(self) -> str:
        lowest, highest = self.choices[0], self.choices[-1]
        highest_texts = [text for text, choice in self.choice_by_text.items() if choice == highest]
        return (
            rf"\([^()\n]{{0,40}}\b{lowest}\b[^()/\n]{{0,40}}\b{highest}\b[^()\n]{{0,40}}\)"
            rf"|\b{highest}-point\b|\b{lowest} ?(?:to|-|–|and) ?{highest}\b"
            rf"|(?i:\bout of|(?<=\d )of|/) ?(?i:{'|'.join(highest_texts)})\b(?:\.0+\b)?"
        )

    def stated_value(self, match: re.Match[str]) -> float | str | None:
        """Return the value that a match of a pattern states; None for a number off the scale."""
        word = match["value"].lower()
        if word in self.choice_by_text or not self.is_numeric or word in NUMBER_WORDS:
            return self.choice_by_text.get(word)
        number = float(word)
        lowest, highest = float(self.choices[0]), float(self.choices[-1])
        is_fraction_on_scale = self.allow_fractions and lowest <= number <= highest
        return number if is_fraction_on_scale or number in self.choices else None


answer_patterns = lru_cache(maxsize=64)(AnswerPatterns)


class Answer(NamedTuple):
    """An answer in a reply, with its position; `value` is None if the answer is unclear."""

    value: float | str | None
    kind: Heading
    position: int


class _Line:
    """A line of a reply: its heading, its answer, and the `reason` after the answer."""

    def __init__(
        self,
        line: str,
        patterns: AnswerPatterns,
        answer_names: frozenset[str],
        line_above: "_Line | None",
    ) -> None:
        self.opens_reply, self.kind_above = line_above is None, Heading.NONE
        if line_above and line_above.is_heading_alone:
            self.kind_above = line_above.kind
        heading = _HEADING_PATTERN.match(line)
        if heading and patterns.answer_pattern.fullmatch(heading["heading"]):
            heading = None  # "B: it is precise" begins with an answer and not with a heading
        self.heading_kind = heading_kind(heading["heading"], answer_names) if heading else None
        answer_start = heading.end() if heading else 0
        text_after = line[answer_start:].strip(_SURROUNDING_CHARACTERS)
        self.is_heading_alone: bool = heading is not None and not text_after
        answer = patterns.answer_pattern.match(line, answer_start)
        is_complete = answer and _REASON_PATTERN.match(line, answer.end())
        self.answer = answer if is_complete else None
        self.reason = line[self.answer.end() :] if self.answer else ""
        kinds = (form(self) for form in FORMS)
        self.kind: Heading = next((kind for kind in kinds if kind is not None), Heading.NONE)
        # An unclear answer is "N/A" or "~4"; an incomplete one goes on after the value: "3 or 4".
        is_unclear = self.kind >= Heading.ANSWER and _UNCLEAR_ANSWER.match(line, answer_start)
        is_incomplete = self.kind >= Heading.OTHER and answer and not is_complete
        self.has_no_clear_answer = bool(is_unclear or is_incomplete)


def _quoted_value(line: _Line) -> Heading | None:
    """Return UNRELATED if the line above says that the line is a quotation: "The text says:"."""
    return Heading.UNRELATED if line.kind_above is Heading.UNRELATED else None


def _answer_after_heading(line: _Line) -> Heading | None:
    """Return the kind of the heading, as in "Rating: 4"; a key of JSON is a heading, too."""
    return line.heading_kind


def _answer_alone(line: _Line) -> Heading | None:
    """Return ANSWER for an answer that fills its line: "4"; the line above may have the heading."""
    is_alone = line.answer and not line.reason.strip(_AFTER_LONE_ANSWER)
    return line.kind_above or Heading.ANSWER if is_alone else None


def _answer_before_reason(line: _Line) -> Heading | None:
    """Return OTHER for an answer that opens the reply, as in "4 - clear" or "B: it is precise"."""
    is_answer_first = line.opens_reply and line.answer and not line.reason.endswith("?")
    return Heading.OTHER if is_answer_first else None


# The forms in which a line states an answer, in the order in which they are tried. Each function
# returns the kind of heading that the answer has; None if the line does not have the form.
FORMS: tuple[Callable[[_Line], Heading | None], ...] = (
    _quoted_value,
    _answer_after_heading,
    _answer_alone,
    _answer_before_reason,
)


def find_answer(
    text: str, patterns: AnswerPatterns, headings: Collection[str] = (), needs_heading: bool = False
) -> Answer | None:
    """Return the answer that a text states; None for a text without an answer.

    If `needs_heading` is true, an answer counts only under one of the `headings`, such as "rating",
    or alone on its line. Raises NoScoreError if the answer is unclear.
    """
    stripped_text = text.strip(_SURROUNDING_CHARACTERS).rstrip(".*")
    if (choice := patterns.choice_by_text.get(stripped_text.lower())) is not None:
        return Answer(choice, Heading.ANSWER, text.index(stripped_text))
    if len(text.strip()) > MAX_REPLY_LENGTH:
        raise NoScoreError(f"more than {MAX_REPLY_LENGTH:,} characters: {quote(text)}")
    answer_names = frozenset(re.findall(r"[^\W\d_]+", " ".join(headings).lower()))
    answers, text_by_position = _find_answers(plain_text(text, patterns), patterns, answer_names)
    kind = max((answer.kind for answer in answers), default=Heading.NONE)
    if kind < (Heading.ANSWER if needs_heading else Heading.OTHER):
        return None
    answers = [answer for answer in answers if answer.kind == kind]
    position = answers[-1].position
    text_after = "\n".join(text for start, text in text_by_position.items() if start >= position)
    later_values = map(patterns.stated_value, patterns.later_pattern.finditer(text_after))
    stated_values = {answer.value for answer in answers}.union(set(later_values) - {None})
    if None in stated_values or len(stated_values) > 1 or _WITHDRAWAL_PHRASE.search(text_after):
        raise NoScoreError(f"not one clear answer in {quote(text)}")
    return answers[-1]


def plain_text(text: str, patterns: AnswerPatterns) -> str:
    """Return the text in ASCII, with headers, tags and JSON keys as headings at the same positions.

    Raises NoScoreError if the text mentions another scale.
    """
    text = text.translate(_ASCII_MAP)
    text = patterns.scale_pattern.sub(lambda match: " " * len(match[0]), text)
    if patterns.is_numeric and _OTHER_SCALE.search(text):
        raise NoScoreError(f"an answer on another scale: {quote(text)}")

    def as_heading(markup_match: re.Match[str]) -> str:
        name = markup_match[1] or markup_match[2]
        return (f"\n{name}:" if name else "\n").ljust(len(markup_match[0]))

    return _HEADING_MARKUP.sub(as_heading, text)


def _find_answers(
    cleaned_text: str, patterns: AnswerPatterns, answer_names: frozenset[str]
) -> tuple[list[Answer], dict[int, str]]:
    """Return all answers in a plain text, and the texts between answers by their positions."""
    answers: list[Answer] = []
    text_by_position: dict[int, str] = {}
    line = None
    for line_match in re.finditer(r"\S[^\n]*", cleaned_text):
        line_text, position = line_match[0].rstrip(), line_match.start()
        line = _Line(line_text, patterns, answer_names, line)
        if line.answer and line.kind:
            is_unrelated = line.kind is Heading.UNRELATED
            value = None if is_unrelated else patterns.stated_value(line.answer)
            value_position = position + line.answer.start("value")
            answers.append(Answer(value, max(line.kind, Heading.OTHER), value_position))
            text_by_position[position + line.answer.end()] = line.reason
            continue
        text_by_position[position] = line_text
        if line.has_no_clear_answer:
            answers.append(Answer(None, line.kind, position))
    return answers, text_by_position
