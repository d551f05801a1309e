"""Read the one rating or choice that a judge's reply states, in one of four forms.

1. Under our header `[[ ## rating ## ]]`, the last of that name: one of the forms below.
2. JSON with a known key: the field's name, "score", "final_rating", the dimension's name.
3. `label: 4` at the start of a line, whatever the label's words are. A label that says "final" or
   "overall" wins, then one that says "rating" or names the dimension. Ratings must agree.
4. The answer alone ("4", "(B)"), or first before a reason ("4 - clear", "B: it is precise").

Any other reply raises NoScoreError and is asked for again. No character is moved while a reply is
read, so that an answer's span is its place in the reply as it came.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from judges.judgement import NoScoreError, shortened
from judges.prompt import (
    FIELD_HEADER,
    THOUGHT_END,
    THOUGHT_START,
    Field,
    Value,
    thinks_at_length,
)

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
_FINAL = _words("final overall revised updated corrected")
_ANSWER = _words(
    "rating ratings rate score scores grade mark answer verdict result judgement judgment label"
    " evaluation assessment prediction preferred preference choice winner decision best"
)
_MARK = _words("rating score grade mark stars points")
_BESIDE = _words(
    "the a an my your our is i it for of on this here s total would give out from to level"
)
# Heads of labels that count, measure, place or explain: "word count", "confidence in it", "step".
_ASIDE = _words(
    "number count amount total sum mean average median deviation variance percentage ratio range"
    " confidence certainty uncertainty probability likelihood chance error mistake length word"
    " page chapter section line paragraph sentence step stage item example sample instance case"
    " figure table question part criterion rule id rank ranking position place version year month"
    " day date time age weight temperature maximum max minimum min threshold limit baseline bonus"
    " penalty deduction first second third draft initial before after reason reasoning explanation"
    " justification rationale comment feedback correction edit wait document article source"
    " instruction prompt user author annotator rater reviewer alternative gold truth reference"
    " expected target margin cutoff scale iteration attempt round priority"
)
# Before "rating" or "choice" they make it another one: "previous rating", "user's choice".
_ANOTHER = _words(
    "confidence error maximum max minimum min highest lowest perfect possible expected previous"
    " prior earlier old original initial first second third draft tentative requested injected"
    " reference gold truth human user student author reader model his her its their another other"
    " others average mean median alternative wrong incorrect before after crowd public expert"
    " critic annotator reviewer baseline target desired ideal passing"
)
# Wherever they stand, what follows is reported, denied, supposed or the worse of two.
_DENIED = _words(
    "says said say claims claimed states reads writes wrote asks told instructed contains according"
    " puts ends example if not no never less least worse worst weaker loser lower rejected runner"
    " dispreferred unpreferred"
)

_PREPOSITIONS = _words("of in for to across between from with")
_PLURAL = re.compile(r"[^siu]s(?<!ics)(?: \w+ed| found| made)?\Z")

_OPEN = r"[*_`\"'(\[{|⭐★ ]{0,8}(?:\$?\\boxed\{(?:\\text\{)?)?"
_CLOSE = r"[*_`\"')\]}|$⭐★ ]{0,8}"
_BULLET = r"(?:(?:[-+•*]|#{1,6}) {1,4})?"
# A quoted line is somebody else's; a quoted key is not.
_LABEL = re.compile(
    rf"{_BULLET}(?:\d{{1,2}}[.)] {{1,4}})?[*_`(\[{{|⭐★ ]{{0,8}}(?P<quote>[\"'])?"
    r"(?P<label>[^\W\d][^\n:=→<>.?!;\"(]{0,70}?(?: ?\([^()\n]{0,60}\))?)(?(quote)(?P=quote))"
    rf"{_CLOSE}(?:[:=→]|[-=]>|(?<= )[-–—](?= ))"
)
_REASON = re.compile(
    rf"{_CLOSE}(?:\Z|[.!,;:](?=[\s*\"')}}]|\Z)|\((?!\?)|[-–—] (?!\d)"
    r"|(?:because|since|as it|due to|given)\b)"
)
_HEDGE = re.compile(
    r"\W*(?:or|maybe|perhaps|possibly|probably|at (?:best|most|least)|minus|plus|if|unless|wait"
    r"|hmm+|actually|rather|draft|tentative|to|and|i (?:think|guess)|said)\b",
    re.IGNORECASE,
)
_WORSE = re.compile(r"\W*(?:worse|weaker|bad|wrong|not)\b", re.IGNORECASE)
# What stands in an answer's place and is none: "3 or 4", "~4", "N/A", "neither".
_UNCLEAR = re.compile(
    rf"{_OPEN}(?:[~<>≈±+≥≤-]? ?{NUMBER}|n/?a\b|none|null|nan|unknown|unclear|undecided|neither|both"
    r"|ties?\b|-|\?)",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"\b(?:scratch that|on (?:second thoughts?|reflection)|take (?:that|it) back|never ?mind"
    r"|let me (?:re\w+|correct|change|think)|i (?:\w+ )?(?:reconsider|revise|retract|changed|mean)"
    r"|(?:that|this|it)(?:'s| is| was| seems) too (?:high|low|generous|harsh|strict|lenient)"
    r"|minus (?:\d|one)|not really|alternatively|(?:just|i'm) (?:kidding|joking)"
    r"|i (?:cannot|can't|won't) (?:rate|score|judge|choose|say))\b"
    r"|\b(?:wait|hmm+|oops|sorry|correction|edit) ?[,.:!–]",
    re.IGNORECASE,
)
_SCALE = re.compile(
    r"\bscale\b[^\n\d]{0,9}(?:\d+ ?(?:to|-|–) ?)?(\d+)|\b(\d+)-point\b|\((\d+) is"
    r"|\((?:[01] ?(?:to|-|–)|(?:out )?of|max\w*:?) ?(\d+)\)",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    rf"{FIELD_HEADER.pattern}|<(\w{{1,30}})>|</\w{{1,30}}>|<\|[a-z_]{{1,20}}\|>|```[a-z]*"
)
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER.pattern}[*_`:]{{0,3}}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What may be answered: the numbers of a scale, those between them too, or words."""

    choices: tuple[Value, ...]
    fractions: bool = False

    @property
    def numeric(self) -> bool:
        return all(isinstance(choice, int) for choice in self.choices)

    def value(self, match: re.Match[str]) -> float | str | None:
        """The choice that is written; None for a number off the scale or on another."""
        word = match["value"].lower()
        if not self.numeric:
            return next(str(choice) for choice in self.choices if str(choice).lower() == word)
        low, high = int(self.choices[0]), int(self.choices[-1])
        number = as_number(word)
        if match["top"] and as_number(match["top"]) != high:
            return None
        allowed = low <= number <= high if self.fractions else number in self.choices
        return number if allowed else None


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


def as_number(text: str) -> float:
    word = text.lower()
    return float(NUMBER_WORDS.index(word) if word in NUMBER_WORDS else word)


def read(
    reply: str, outputs: Sequence[Field], *, truncated: bool = False, names: Collection[str] = ()
) -> Reading:
    """Return what a judge's reply says in every field; NoScoreError, which quotes it, if unclear.

    `names` are what the dimension is called. A free text is what stands under its header, else the
    rest of the reply. A reply that was cut short (`truncated`) holds an answer only where another
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
    strict = thinks_at_length(outputs) and field.name not in sections
    wanted = Wanted(field.choices or ())
    known = (field.name,) if strict else (field.name, *names)
    answer = find_answer(reply[slice(*place)], wanted, known, strict=strict)
    if answer is None or answer.value is None:
        choices = wanted.choices
        missing = f"{field.name}: none of {', '.join(map(str, choices))}"
        if wanted.numeric:
            missing = f"no {field.name} from {choices[0]} to {choices[-1]}"
        raise NoScoreError(f"{missing} in {shortened(reply[start:end])}")
    span = place[0] + answer.start, place[0] + answer.end
    rest = _rest(reply[start : span[0]], reply[span[1] : end])
    texts = {name: reply[slice(*section)].strip() for name, section in sections.items()}
    values: dict[str, Value] = {output.name: texts.get(output.name, rest) for output in outputs}
    values[field.name] = answer.value if isinstance(answer.value, str) else int(answer.value)
    return Reading(values, span)


def find_answer(
    text: str, wanted: Wanted, names: Collection[str] = (), *, strict: bool = False
) -> Answer | None:
    """Return the one answer a text states in forms 2 to 4, None without; NoScoreError if unclear.

    `strict`: only what is called the answer counts, or what stands alone.
    """
    if len(text.strip()) > MAX_LENGTH:
        raise NoScoreError(f"more than {MAX_LENGTH:,} characters: {shortened(text)}")
    own_words = frozenset(re.findall(r"[^\W\d_]+", " ".join(names).lower()))
    plain = _plain(text)
    in_json, beside = _json_answers(plain, wanted, own_words)
    in_lines, asides = _line_answers(beside, wanted, own_words)
    answers = [a for a in (*in_json, *in_lines) if a.rank > strict]
    if not answers:
        return None
    rank = max(answer.rank for answer in answers)
    answers = [answer for answer in answers if answer.rank == rank]
    answer = answers[-1]
    patterns = _patterns(wanted)
    after = [patterns.scale.sub(" ", aside) for place, aside in asides if place >= answer.start]
    values = {other.value for other in answers}
    values |= {wanted.value(m) for aside in after for m in patterns.second.finditer(aside)} - {None}
    withdrawn = any(map(_WITHDRAWN.search, after))
    if None in values or len(values) > 1 or withdrawn or on_other_scale(plain, wanted):
        raise NoScoreError(f"not one clear answer in {shortened(text)}")
    return answer


def on_other_scale(text: str, wanted: Wanted) -> bool:
    """Whether a text names a scale that ends elsewhere than ours."""
    tops = {float(top) for match in _SCALE.finditer(text) for top in match.groups() if top}
    return wanted.numeric and bool(tops - {wanted.choices[-1]})


def answer_span(reply: str) -> tuple[int, int]:
    """Where the answer stands: after the thoughts, up to the end that it marks itself."""
    start = max((end.end() for end in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought without its end: {shortened(reply[start:])}")
    for header in _HEADER.finditer(reply, start):
        before = reply[max(start, header.start() - 80) : header.start()].rstrip(" *_`>#-")
        # One that is quoted within a line is none.
        if header[1].lower() == "completed" and before.endswith("\n") and before.strip():
            return start, header.start()
    return start, len(reply)


def _rest(before: str, after: str) -> str:
    """What a reply says beside its answer; "" where that is no sentence."""
    if found := _json_object(before + "0" + after):
        texts = [value for _, value in found[2] if isinstance(value, str)]
        return "\n".join(text for text in texts if len(text.split()) > 1)
    # What stands before the answer in its own line is its label.
    text = before[: before.rfind("\n") + 1] + after.lstrip(" .:,;)]}*_`\"'-–—")
    text = _HEADER.sub("\n", text).strip()
    return text if len(text.split()) > 1 else ""


@lru_cache(maxsize=4096)
def _sign(sign: str) -> str:
    """A full-width, quoting or invisible sign as the one plain sign that it stands for."""
    if unicodedata.category(sign) in ("Cf", "Zs"):
        return " "
    plain = {"“": '"', "”": '"', "’": "'", "‘": "'", "。": ".", "−": "-"}.get(sign)
    return plain or (folded if len(folded := unicodedata.normalize("NFKC", sign)) == 1 else sign)


def _plain(text: str) -> str:
    """A text of the same length in plain signs; a tag or a header of another name is a label."""
    text = text.replace("\t", " ").replace("\r", "\n")
    text = text if text.isascii() else "".join(map(_sign, text))

    def label(markup: re.Match[str]) -> str:
        name = markup[1] or markup[2]
        return (f"\n{name}:" if name else "\n").ljust(len(markup[0]))

    return _MARKUP.sub(label, text)


def _json_object(text: str) -> tuple[int, int, list[tuple[str, object]]] | None:
    """Where the one JSON object of a text stands, and its items."""
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        items = json.loads(text[start:end], object_pairs_hook=list) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    return (start, end, items) if items else None


def _json_answers(
    plain: str, wanted: Wanted, own_words: frozenset[str]
) -> tuple[list[Answer], str]:
    """The answers under known keys of a JSON object, and the text with blanks in its place."""
    found = _json_object(plain)
    if found is None:
        return [], plain
    start, end, items = found
    answers = []
    for key, value in items:
        words = re.findall(r"[a-z]+", key.lower())
        rank = _rank(" ".join(words), wanted, own_words)
        if rank < 2 and not (rank and words[-1] in ("score", "rating")):
            continue
        written = str(value) if type(value) in (str, int, float) else ""
        match = _patterns(wanted).answer.match(written)
        clear = match and _ends(written, match, wanted)
        places = [place.end() for place in re.finditer(rf'"{re.escape(key)}"\s*:\s*"?', plain)]
        place = places[-1] if places else start
        read_value = wanted.value(match) if match and clear else None
        answers.append(Answer(read_value, rank, place, place + len(written)))
    return answers, plain[:start] + " " * (end - start) + plain[end:]


def _line_answers(
    plain: str, wanted: Wanted, own_words: frozenset[str]
) -> tuple[list[Answer], list[tuple[int, str]]]:
    """The answers of forms 3 and 4, and what else is said, with its place."""
    patterns = _patterns(wanted)
    answers, reasoned, asides = [], [], []
    heading: int | None = None
    # A label and the answer below it become one line.
    plain = patterns.above.sub(lambda match: match["label"] + ":".ljust(len(match["gap"])), plain)
    for line in re.finditer(r"\S[^\n]*", plain):
        content, place = line[0].rstrip(), line.start()
        label = _LABEL.match(content)
        if label and not wanted.numeric and patterns.answer.fullmatch(label["label"]):
            label = None  # "B: it is precise"
        rank = _rank(label["label"], wanted, own_words) if label else None
        start = label.end() if label else 0
        # What follows "Example:" or "The text says:" is no answer.
        reported, heading = heading == 0, rank if not content[start:].strip("*_` ") else None
        if reported:
            continue
        match = patterns.answer.match(content, start)
        if match is None or not _ends(content, match, wanted) or rank == -1:
            asides.append((place, content[:start] if rank == -1 else content))
            if rank and (match or (rank > 1 and _UNCLEAR.match(content, start))):
                answers.append(Answer(None, abs(rank), place, place))
            continue
        reason = content[match.end() :]
        asides.append((place + match.end(), reason if rank else content[:start] or reason))
        span = place + match.start("value"), place + match.end()
        answer = Answer(wanted.value(match), 2 if rank is None else rank, *span)
        if rank or not reason.strip("*_`\"')]}|$.! "):
            answers.append(answer)
        elif rank is None:
            reasoned.append((answer, line))
    # Several with a reason are a list, and one further down is a sentence of the reasons.
    if len(reasoned) == 1 and not plain[: reasoned[0][1].start()].strip():
        answers.append(reasoned[0][0])
    return [answer for answer in answers if answer.rank], asides


def _rank(label: str, wanted: Wanted, own_words: frozenset[str]) -> int:
    """How much a label calls what follows it the answer, 3 to 1; 0: no answer; -1: perhaps none."""
    words = re.findall(r"[^\W_]+", _patterns(wanted).scale.sub(" ", label.lower()))
    named = set(words) - _BESIDE
    if not named or len(words) > 9 or re.search(r"\d|^[a-z]$", " ".join(words)):
        return 0
    if named & _DENIED - own_words or (not wanted.numeric and named & _MARK):
        return 0
    # The head of "clarity of terms" is "clarity"; of "word count", "count".
    heads = list(takewhile(lambda word: word not in _PREPOSITIONS, words))
    head = next((word for word in reversed(heads) if word not in _BESIDE), "number")
    if head in _ASIDE - own_words or (head in _ANSWER and named & _ANOTHER - own_words):
        return 0
    # "Errors" and "errors found" count; "correctness", "analysis" and "ethics" do not.
    if head not in _ANSWER | own_words and _PLURAL.search(" ".join(heads)):
        return -1
    if named & _FINAL:
        return 3
    return 2 if named <= _ANSWER | own_words else 1


def _ends(content: str, match: re.Match[str], wanted: Wanted) -> bool:
    """Whether an answer ends where it was matched: nothing, or a reason, follows it."""
    reason = _REASON.match(content, match.end())
    if reason is None or content.endswith("?"):
        return False
    # A reason that is a sentence of its own takes nothing back.
    hedged = not reason[0].endswith((".", "!")) and _HEDGE.match(content, reason.end())
    if hedged or (not wanted.numeric and _WORSE.match(content, reason.end())):
        return False
    # "4) be brief" is a point of a list.
    return content[match.end() : match.end() + 1] != ")" or "(" in content[: match.start("value")]


class _Patterns(NamedTuple):
    """An answer; a label that stands above it; a second answer beside it; our scale."""

    answer: re.Pattern[str]
    above: re.Pattern[str]
    second: re.Pattern[str]
    scale: re.Pattern[str]


@lru_cache(maxsize=64)
def _patterns(wanted: Wanted) -> _Patterns:
    low, high = wanted.choices[0], wanted.choices[-1]
    if wanted.numeric:
        value = (
            rf"(?P<value>-?{NUMBER})(?: ?(?:/|out of) ?(?P<top>{NUMBER})(?:\.0+)?)?"
            r"(?: ?(?:(?i:stars?|points?|pts?)|[⭐★分点점]+))?(?!\w)"
        )
        says = "(?:say|give|deserves?|gets?|rate|assign|award|earns?)(?: [a-z']{1,12}){0,4} "
        n_words, compared = 4, r"(?!.)."
    else:
        words = [re.escape(str(choice)) for choice in wanted.choices]
        any_case = f"(?i:{'|'.join(words)})"
        # "a" is an article more often than a choice, and "B. Smith wrote" names a person.
        as_given = "|".join(word if len(word) == 1 else f"(?i:{word})" for word in words)
        value = (
            rf"(?:{NOUN} )?[(*\[]{{0,4}}(?<![\w'])(?P<value>{as_given}|{any_case}(?=[\W_]*\Z)"
            rf"|(?<=\(){any_case}(?=\)))(?![\w&+/-]|'\w"
            r"|\. (?!It|This)[A-Z]\w+ (?:said|says|wrote|writes)\b)"
        )
        says = "(?:prefer|choose|pick|select|go with) (?:the )?"
        n_words, compared = 2, r" ?[:–—-] | (?:is|seems|wins)\b.{0,20}(?:better|best)"
    clause = rf"(?:\A|[.!?;,(–—]| -) ?(?:(?!than|to|over)[A-Za-z']{{1,12}},? ){{0,{n_words}}}"
    labelled = r"\w[*_\")]{0,4} ?[:=] ?[*_]{0,4}"
    end = r"(?=[*\")\]} ]{0,4}(?:\Z|\(|[.!,;](?:\s|\Z)))"
    return _Patterns(
        answer=re.compile(rf"{_BULLET}{_OPEN}{value}"),
        above=re.compile(
            rf"^(?P<label>[#*_`\[ -]{{0,8}}[^\W\d][^\n.!?;:=\d]{{0,70}}?)(?P<gap>[:=]?[*_` ]{{0,4}}"
            rf"\n[ \n]{{0,20}})(?={_BULLET}{_OPEN}{value}[^\w\n]*$)",
            re.MULTILINE,
        ),
        second=re.compile(rf"(?:{clause}|\b(?i:{says})|{labelled}){value}(?:{end}|{compared})"),
        scale=re.compile(
            rf"\([^()]*\b{low}\b[^()]*\b{high}\b[^()]*\)|\b{low} ?(?:to|-|–|and) ?{high}\b"
            rf"|\b(?:out )?of {high}\b|\b{high}-point\b|/ ?{high}\b"
        ),
    )
