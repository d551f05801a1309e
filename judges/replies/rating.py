r"""Find the one rating a reply gives; refuse a reply that gives none, two, or one off the scale.

In this order, and the first kind that is present decides: an explicit score or rating ("Final
score: 4.", "a score of 4", "Rating: 4/5"); "4 out of 5" or "4/5"; a number standing alone (on its
own line, perhaps after a label; as its own last sentence; in parentheses; or first, before an
explanation: "2. The reply ..."); then the same for a number word. Numbers inside prose, in ranges
("3-4", "3 or 4"), or glued to other signs ("£4", "4%", "aaaa4bbb") are never ratings.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges.judgement import NoScoreError
from judges.replies.choice import parse_choice, shortened

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_DIGITS = r"(?<![\w.,/£$€#%+−-])[-−+]?\d{1,6}(?:\.\d{1,6})?(?![\w%°]|[-–—/:.,]\d)"
_WORD = r"(?<![\w-])(?:" + "|".join(WORDS) + r")(?![\w-])"
_EITHER = rf"(?:{_DIGITS}|{_WORD})"
# A fraction's upper number, which _DIGITS leaves alone since dates and match results look like it.
_UPPER = r"(?<![\w.,/£$€#%+−-])[-−+]?\d{1,6}(?:\.\d{1,6})?(?=\s?/)"
_NOUN = r"(?:scores?|ratings?|grade|mark|answer|verdict)"
_LINK = (
    r"(?:\s{0,2}\([^()\n]{0,40}\))?(?:\s+for\s[^.:;=\n\d]{1,60}?(?=\s*[:=]|\sis\b|\swould\b))?"
    r"[\s:=>–-]{1,6}"
    r"(?:(?:of|is|as|at|an?|the|equals|(?:would|should|will|must) be)\b[\s:=]{1,4}){0,3}"
)
_OBJECT = r"(?:(?:it|this|that|the|[a-z]+)\s+){0,3}?(?:as\s+|at\s+|with\s+)?(?:an?\s+)?"
_SCORING = r"(?:scores?|scored|scoring|rates?|rated|rating)"
_GIVING = (
    r"(?:gives?|given|giving|gets?|getting|making|award|assign|assigned|deserves?|earns?|earning"
    r"|receives?|merits?)"
)
_CLOSE = r"(?=\s*(?:$|[.,;!()\n]|out of\b|/|stars?\b|points?\b|for\b|because\b|since\b|on\b))"
_UNIT = r"(?:\s?stars?|\s?points?)?"
_LABEL = r"[^\W\d_](?:[^\W\d_]|[ /-]){0,40}"
_FLAGS = re.IGNORECASE | re.MULTILINE


@dataclass(frozen=True, slots=True)
class _Patterns:
    """What depends on the scale: how it is mentioned, and what "out of" it looks like."""

    mention: re.Pattern[str]
    out_of: re.Pattern[str]


def parse_rating(
    text: str, scale: Sequence[int], *, letters: Mapping[str, int] | None = None
) -> int:
    """Return the one rating `text` gives on `scale`; NoScoreError keeps a short form of the reply.

    `letters` ({"A": 1, ...}) is for prompts that offer lettered options; without it a letter is no
    rating.
    """
    bare = text.strip()
    if bare.isascii() and bare.isdigit() and len(bare) < 7 and int(bare) in scale:
        return int(bare)
    number = _number(text, scale, letters)
    if number not in scale:
        raise NoScoreError(
            f"{number:g} is not on the scale from {scale[0]} to {scale[-1]}: {shortened(text)}"
        )
    return int(number)


def parse_score(
    text: str, scale: Sequence[int], *, letters: Mapping[str, int] | None = None
) -> float:
    """Like `parse_rating`, but "3.5" counts, for prompts that never asked for integers."""
    number = _number(text, scale, letters)
    if not scale[0] <= number <= scale[-1]:
        raise NoScoreError(f"{number:g} is not from {scale[0]} to {scale[-1]}: {shortened(text)}")
    return number


def _number(text: str, scale: Sequence[int], letters: Mapping[str, int] | None) -> float:
    if letters:
        try:
            return letters[parse_choice(text, list(letters))]
        except NoScoreError:
            pass
    plain = _plain(text)
    patterns = _patterns(scale[0], scale[-1])
    plain = patterns.mention.sub(" ", plain)
    for find in (_explicit, _fractions, _digits_alone, _words_alone):
        found = find(plain, patterns)
        if len(set(found)) > 1:
            numbers = " and ".join(f"{value:g}" for value in sorted(set(found)))
            raise NoScoreError(f"two ratings, {numbers}, in {shortened(text)}")
        if found:
            return found[0]
    raise NoScoreError(f"no rating from {scale[0]} to {scale[-1]} in {shortened(text)}")


def _plain(text: str) -> str:
    r"""Strip markup and fold full-width forms: "**４**", "[[4]]" and "\boxed{4}" read 4."""
    folded = unicodedata.normalize("NFKC", text).replace("−", "-")
    folded = re.sub(r"\$?\\boxed\s?\{([^{}\n]{0,40})\}\$?", r" \1 ", folded)
    folded = re.sub(r"</?\w{1,20}>", "\n", folded)
    return folded.translate(_MARKUP).strip()


_MARKUP = str.maketrans({**dict.fromkeys('*`"“”', ""), **dict.fromkeys("{}[]", " ")})


@lru_cache(maxsize=64)
def _patterns(low: int, high: int) -> _Patterns:
    least, most = _spelt(low), _spelt(high)
    ends = rf"{least}\s?(?:to|-|–|—)\s?{most}"
    return _Patterns(
        mention=re.compile(
            rf"\((?:[a-z ]{{0,20}}\b)?{ends}\)|\b(?:scale|range)(?: of| from)? {ends}\b"
            rf"|\bfrom {ends}\b|\b{ends} scale\b",
            re.IGNORECASE,
        ),
        out_of=re.compile(
            rf"(?P<n>{_UPPER}|{_EITHER})\s{{0,2}}(?:/|out of)\s{{0,2}}{most}(?![\w%]|[./]\d)",
            re.IGNORECASE,
        ),
    )


def _spelt(number: int) -> str:
    return f"(?:{number}|{WORDS[number]})" if 0 <= number < len(WORDS) else str(number)


def _value(token: str) -> float:
    word = token.lower()
    return float(WORDS.index(word)) if word in WORDS else float(token)


# "3 or 4", "3 to 4", "3, maybe 4": the second number counts as well.
_HEDGE = r"(?:or|to|-|–|—|maybe|perhaps|possibly)\s+(?:maybe |a |even )?"
_NEXT = rf"(?:{_UNIT},?\s{{0,2}}{_HEDGE}(?P<m>{_EITHER}))?"
_OVER = r"(?P<over>\s{0,2}(?:/|out of)\s{0,2}(?P<most>\w{1,6}))?"
_AMOUNT = rf"(?P<n>{_UPPER}|{_EITHER}){_OVER}{_NEXT}"
_FINAL = re.compile(rf"\b(?:final|overall)\s+{_NOUN}{_LINK}{_AMOUNT}", _FLAGS)
_BARE = re.compile(rf"(?:^|[.!?]\s{{1,3}}){_NOUN}\s?[:=]\s{{0,3}}{_AMOUNT}", _FLAGS)
_SAID = [
    re.compile(rf"\b{_NOUN}{_LINK}{_AMOUNT}", _FLAGS),
    re.compile(rf"\b{_SCORING}\s+{_OBJECT}{_AMOUNT}{_CLOSE}", _FLAGS),
    re.compile(rf"\b{_GIVING}\s+{_OBJECT}{_AMOUNT}{_CLOSE}", _FLAGS),
]


def _explicit(text: str, patterns: _Patterns) -> list[float]:
    """Scores called so. A final one beats what prose says of others, not a second label."""
    final = _amounts(_FINAL, text, patterns)
    if final:
        return [*final, *_amounts(_BARE, text, patterns)]
    said = [value for pattern in _SAID for value in _amounts(pattern, text, patterns)]
    return [*said, *_leading(text, _DIGITS), *_lines(text, _DIGITS)] if said else []


def _amounts(pattern: re.Pattern[str], text: str, patterns: _Patterns) -> list[float]:
    values = []
    for match in pattern.finditer(text):
        if match["over"] and not patterns.out_of.match(text, match.start("n")):
            raise NoScoreError(f"a rating on another scale in {shortened(text)}")
        values += [_value(match[name]) for name in ("n", "m") if match[name]]
    return values


def _fractions(text: str, patterns: _Patterns) -> list[float]:
    return [_value(match["n"]) for match in patterns.out_of.finditer(text)]


def _digits_alone(text: str, patterns: _Patterns) -> list[float]:
    return _alone(text, _DIGITS)


def _words_alone(text: str, patterns: _Patterns) -> list[float]:
    return _alone(text, _WORD)


def _alone(text: str, number: str) -> list[float]:
    labelled = re.compile(
        rf"^[\s>•–-]{{0,4}}(?:\d{{1,2}}[.)]\s{{1,2}})?{_LABEL}[:=]\s{{0,4}}\(?(?P<n>{number})\)?"
        rf"{_UNIT}(?:[.!]?\s*$|\.\s+[^\W\d_]|\s?\([^()\n]{{1,40}}\)[.!]?\s*$)",
        _FLAGS,
    )
    inside = re.compile(
        rf"\(\s?(?P<n>{number}){_UNIT}\s?\)|(?:[.!?:]\s{{1,3}}|[,;–—]\s)(?P<m>{number}){_UNIT}[.!]?\s*\Z",
        re.IGNORECASE,
    )
    found = [_value(match["n"]) for match in labelled.finditer(text)]
    found += [_value(match["n"] or match["m"]) for match in inside.finditer(text)]
    return [*found, *_lines(text, number), *_leading(text, number)]


def _lines(text: str, number: str) -> list[float]:
    """Numbers that have a line of their own."""
    own = re.compile(rf"^[\s>•–-]{{0,4}}(?P<n>{number}){_UNIT}[.!]?\s*$", _FLAGS)
    return [_value(match["n"]) for match in own.finditer(text)]


def _leading(text: str, number: str) -> list[float]:
    """Return the first number where an explanation follows it, unless it numbers a list."""
    listed = re.search(r"^\s*\d{1,2}[.)]\s", text[1:], re.MULTILINE)
    first = re.match(
        rf"(?P<n>{number})(?:\s?stars?\b|\s?points?\b|[.:;,)]\s|\s?[–—-]\s|\s?\()(?P<rest>[^\n]*)",
        text,
        re.IGNORECASE,
    )
    if first is None or listed:
        return []
    rest = first["rest"].strip()
    if re.fullmatch(rf"{_LABEL}[:=]\s*{_EITHER}{_UNIT}[.!]?", rest, re.IGNORECASE):
        return []
    second = re.match(rf"(?:or|to|maybe|perhaps)?\s?(?P<m>{_EITHER})[.!]?$", rest, re.IGNORECASE)
    values = [first["n"], *([second["m"]] if second else [])]
    return [_value(value) for value in values]
