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
from enum import IntEnum
from functools import cached_property, lru_cache

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


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words in the heading of a final answer, and in the heading of an answer.
_FINAL_WORDS = _word_set("final overall revised updated corrected correction edit")
_ANSWER_WORDS = _word_set(
    "rating ratings rate score scores grade mark answer verdict result judgement judgment label"
    " evaluation assessment preferred preference choice winner decision best"
)
# Words in a heading that do not tell whether an answer follows.
_NEUTRAL_WORDS = _word_set(
    "the a an my your our is i it for of on this here s total would give to level"
)
# Words in headings of something other than the answer: "word count", "previous rating".
_NON_ANSWER_WORDS = _word_set(
    "number count amount sum mean average percentage ratio confidence certainty probability length"
    " page chapter section line paragraph sentence step item example case figure question part rule"
    " criterion id rank position version year month day date time age maximum max minimum min"
    " highest lowest possible threshold scale baseline first second third draft initial previous"
    " original expected target reason reasoning explanation feedback document prompt instruction"
    " user human author annotator expert ideal reference alternative requested error attempt"
    " priority injected iteration"
)
# Words in a heading of an answer that is quoted, denied, hypothetical, or the worse of two.
_DENYING_WORDS = _word_set(
    "says say claims claimed states reads wrote asks wants contains ends example if not no never"
    " less least worse worst weaker loser rejected before after"
)
# The end of a heading in the plural, after which a number counts things: "errors", "errors found".
# "Correctness", "analysis" and "ethics" are not plurals.
_PLURAL_NOUN = re.compile(r"[^siu]s(?<!ics)(?: \w+ed| found| made)?\Z")

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


class Heading(IntEnum):
    """The kinds of headings before answers. Only answers of the highest kind in a reply count."""

    NONE = 0  # no heading
    UNRELATED = 1  # such as "Word count"; a value under it makes answers of the kind OTHER unclear
    OTHER = 2  # such as "Tone"; also an answer that opens the reply
    ANSWER = 3  # such as "Rating" or the dimension's name; also an answer alone on its line
    FINAL = 4  # such as "Final rating" or "Overall"


class _Line:
    """A line of a reply: its heading, and the answer at its start or after the heading.

    `kind` is the kind of the heading, and `kind_above` that of a heading on the line above. An
    answer is complete if nothing but a reason follows it.
    """

    def __init__(
        self,
        match: re.Match[str],
        patterns: AnswerPatterns,
        answer_names: frozenset[str],
        line_above: "_Line | None",
    ) -> None:
        self.text, self.position, self.patterns = match[0].rstrip(), match.start(), patterns
        self.kind_above = Heading.NONE
        if line_above and line_above.is_heading_alone:
            self.kind_above = line_above.kind
        heading = _HEADING_PATTERN.match(self.text)
        if heading and patterns.answer_pattern.fullmatch(heading["heading"]):
            heading = None  # "B: it is precise" begins with an answer and not with a heading
        self.heading_kind = _heading_kind(heading["heading"], answer_names) if heading else None
        start = heading.end() if heading else 0
        text_after_heading = self.text[start:].strip(_SURROUNDING_CHARACTERS)
        self.is_heading_alone: bool = heading is not None and not text_after_heading
        self.is_unclear = _UNCLEAR_ANSWER.match(self.text, start) is not None
        self.answer = patterns.answer_pattern.match(self.text, start)
        self.reason = self.text[self.answer.end() :] if self.answer else ""
        self.is_complete = self.answer and _REASON_PATTERN.match(self.text, self.answer.end())
        self.is_answer_alone = self.is_complete and not self.reason.strip(_AFTER_LONE_ANSWER)
        self.is_answer_first = self.is_complete and not (line_above or self.reason.endswith("?"))

    @cached_property
    def kind(self) -> Heading:
        kinds = (form(self) for form in FORMS)
        return next((kind for kind in kinds if kind is not None), Heading.NONE)

    @property
    def answer_kind(self) -> Heading:
        """The kind of the answer that the line states, clear or not; NONE if it states none."""
        if self.is_complete:
            return max(self.kind, Heading.OTHER) if self.kind else Heading.NONE
        # An incomplete answer is "3 or 4". Under a heading of the answer, "N/A" is one, too.
        is_incomplete = self.answer and self.kind >= Heading.OTHER
        is_unclear = self.is_unclear and self.kind >= Heading.ANSWER
        return self.kind if is_incomplete or is_unclear else Heading.NONE

    @property
    def value(self) -> float | str | None:
        """The value of the line's answer; None for an unclear answer."""
        if not self.answer or not self.is_complete or self.kind is Heading.UNRELATED:
            return None
        return self.patterns.stated_value(self.answer)

    @property
    def text_after_answer(self) -> str:
        """The reason after the line's answer; the whole line if it states no complete answer."""
        return self.reason if self.is_complete and self.kind else self.text


# The forms in which a line states an answer, in the order in which they are tried. A form gives the
# answer the kind of its heading; it gives None if the line does not have the form.
FORMS: tuple[Callable[[_Line], Heading | None], ...] = (
    # The line is a quotation, since the line above says "The text says:".
    lambda line: Heading.UNRELATED if line.kind_above is Heading.UNRELATED else None,
    # The answer follows a heading, as in "Rating: 4"; a key of JSON is a heading, too.
    lambda line: line.heading_kind,
    # The answer fills the line, as in "4"; the line above may be its heading.
    lambda line: (line.kind_above or Heading.ANSWER) if line.is_answer_alone else None,
    # The answer opens the reply and a reason follows, as in "4 - clear" or "B: it is precise".
    lambda line: Heading.OTHER if line.is_answer_first else None,
)


def find_answer(
    text: str, patterns: AnswerPatterns, headings: Collection[str] = (), needs_heading: bool = False
) -> tuple[float | str, int] | None:
    """Return the answer that a text states, and its position; None for a text without an answer.

    If `needs_heading` is true, an answer counts only under one of the `headings`, such as "rating",
    or alone on its line. Raises NoScoreError if the answer is unclear.
    """
    stripped_text = text.strip(_SURROUNDING_CHARACTERS).rstrip(".*")
    if (choice := patterns.choice_by_text.get(stripped_text.lower())) is not None:
        return choice, text.index(stripped_text)
    if len(text.strip()) > MAX_REPLY_LENGTH:
        raise NoScoreError(f"more than {MAX_REPLY_LENGTH:,} characters: {quote(text)}")
    answer_names = frozenset(re.findall(r"[^\W\d_]+", " ".join(headings).lower()))
    lines: list[_Line] = []
    for match in re.finditer(r"\S[^\n]*", plain_text(text, patterns)):
        lines.append(_Line(match, patterns, answer_names, lines[-1] if lines else None))
    kind = max((line.answer_kind for line in lines), default=Heading.NONE)
    if kind < (Heading.ANSWER if needs_heading else Heading.OTHER):
        return None
    answer_lines = [line for line in lines if line.answer_kind == kind]
    last_line = answer_lines[-1]
    text_after = "\n".join(line.text_after_answer for line in lines[lines.index(last_line) :])
    later_values = map(patterns.stated_value, patterns.later_pattern.finditer(text_after))
    values = {line.value for line in answer_lines}.union(set(later_values) - {None})
    value = values.pop() if len(values) == 1 else None
    if not last_line.answer or value is None or _WITHDRAWAL_PHRASE.search(text_after):
        raise NoScoreError(f"not one clear answer in {quote(text)}")
    return value, last_line.position + last_line.answer.start("value")


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


def _heading_kind(heading: str, answer_names: frozenset[str]) -> Heading:
    """Return the kind of a heading with this text; `answer_names` are names of the answer."""
    words = re.findall(r"[^\W_]+", heading.lower())
    content_words = set(words) - _NEUTRAL_WORDS
    is_no_name = not content_words or len(words) > 9 or re.search(r"\d|^[a-z]$", " ".join(words))
    # The head noun is "clarity" in "clarity of terms", and "count" in "word count".
    phrase = re.split(r" (?:of|in|for|to|across|between|from|with)\b", " ".join(words))[0]
    nouns = [word for word in phrase.split() if word not in _NEUTRAL_WORDS]
    head_noun = nouns[-1] if nouns else "number"
    answer_words = _ANSWER_WORDS | answer_names
    is_denied = content_words & _DENYING_WORDS - answer_names
    is_count = head_noun not in answer_words and _PLURAL_NOUN.search(phrase)
    non_answer_words = content_words & _NON_ANSWER_WORDS - answer_names
    is_of_something_else = non_answer_words and head_noun in _NON_ANSWER_WORDS | _ANSWER_WORDS
    if is_no_name or is_denied or is_count or is_of_something_else:
        return Heading.UNRELATED
    if content_words & _FINAL_WORDS:
        return Heading.FINAL
    return Heading.ANSWER if content_words <= answer_words else Heading.OTHER
