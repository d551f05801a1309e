"""Read probabilities over a scale or over A and B off a reply's tokens."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

from judges.judgement import NoScoreError
from judges.parsing.parse import content_span
from judges.parsing.rating import NUMBER_WORDS
from judges.prompt import Field, Value
from judges.protocol import Reply, Token

# What may be glued to a rating inside its token: markup, and how raw vocabularies show a space.
_GLUED = " \t\r\n*_\"'`()[]:.,Ġ▁Ċ"
_MENTION = re.compile(r"\b(?:score|rating|answer|preferred|prefer|therefore)\b", re.IGNORECASE)
# Mass on "1" that may be the start of "10": below this it is no matter.
NEGLIGIBLE = 0.01
MOST_MASS = 1.01  # of a token's probabilities, which are rounded


def chosen_token(reply: Reply, outputs: Sequence[Field], field: Field, value: Value) -> int:
    """Return the place of the token that begins `value`, the choice that was read off the reply.

    It is looked for in the field's own section; in a reply without headers, after the last mention
    of a score, or else from the start of the answer. Raises NoScoreError where no token begins the
    value.
    """
    start, end, headed = content_span(reply.text, outputs, field.name)
    mentions = () if headed else _MENTION.finditer(reply.text, start, end)
    starts = {start, max((match.end() for match in mentions), default=start)}
    spelled = sum(len(token.text) for token in reply.tokens)
    for first in sorted(starts, reverse=True):
        # Where tokens do not spell the reply (raw vocabularies), the end alone is known.
        position = len(reply.text) - spelled
        for place, token in enumerate(reply.tokens):
            position += len(token.text)
            if first < position <= end + len(token.text) and _begins(token.text, value):
                return place
    raise NoScoreError(f"no token of the reply begins its choice {value!r}")


def over_choices(
    tokens: Sequence[Token], choices: Sequence[Value]
) -> tuple[dict[Value, float], float]:
    """Return the probability of each choice, summing to 1, and the mass that was on none.

    The first of `tokens` begins the choice. A digit and its word, with and without a leading
    space, are one rating. Where a token begins a longer rating ("1" and "10"), its mass is shared
    by what the next token says; NoScoreError where that cannot be told.
    """
    mass = dict.fromkeys(choices, 0.0)
    for token in tokens[:2]:
        _check_mass(token)
    for text, logprob in tokens[0].top.items():
        choice = _reads(text, choices)
        if choice is not None:
            mass[choice] += math.exp(logprob)
    _share_prefixes(mass, tokens)
    total = math.fsum(mass.values())
    if total <= 0:
        raise NoScoreError("none of the choices is among the likeliest tokens")
    return {choice: p / total for choice, p in mass.items()}, max(0.0, 1.0 - total)


def _check_mass(token: Token) -> None:
    """Recordings and other clients bring log-probabilities, too, that nobody has looked at."""
    if not all(logprob <= MOST_MASS - 1 for logprob in token.top.values()):  # NaN is not
        raise NoScoreError("a log-probability is above 0 or undefined")
    if math.fsum(map(math.exp, token.top.values())) > MOST_MASS:
        raise NoScoreError("a token's probabilities sum to more than 1")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip(_GLUED).lower()


def _reads(text: str, choices: Sequence[Value]) -> Value | None:
    """Return the choice a whole token stands for, if any."""
    word = _plain(text)
    for choice in choices:
        if word == str(choice).lower():
            # "a" is an article more often than a choice.
            return choice if isinstance(choice, int) or text.strip(_GLUED) == choice else None
    number = NUMBER_WORDS.index(word) if word in NUMBER_WORDS else None
    return number if number in choices else None


def _begins(text: str, value: Value) -> bool:
    if _reads(text, (value,)) == value:
        return True
    word = _plain(text)
    return isinstance(value, int) and word.isdigit() and str(value).startswith(word)


def _share_prefixes(mass: dict[Value, float], tokens: Sequence[Token]) -> None:
    """Give longer ratings their part of a token that only begins them, where it can be known."""
    numbers = [choice for choice in mass if isinstance(choice, int)]
    texts = [_plain(text) for text in tokens[0].top]
    written = _plain(tokens[0].text)
    for short in dict.fromkeys(word for word in texts if word.isdigit()):
        longer = [n for n in numbers if str(n) != short and str(n).startswith(short)]
        # A vocabulary that has one of the longer numbers whole would have used it.
        if not longer or any(str(n) in texts for n in longer):
            continue
        begun = _mass_of(tokens[0].top, short)
        if short != written:
            if begun > NEGLIGIBLE:
                raise NoScoreError(
                    f"{begun:.2f} of the probability is on {short!r}, which may begin "
                    f"{longer[0]}: the plan 'weighted' cannot tell on this scale; use 'mean'"
                )
            continue
        follows = tokens[1].top if len(tokens) > 1 else {}
        for number in longer:
            part = begun * _mass_of(follows, str(number)[len(short) :])
            mass[number] += part
            if int(short) in mass:
                mass[int(short)] -= part


def _mass_of(top: Mapping[str, float], word: str) -> float:
    return math.fsum(math.exp(logprob) for text, logprob in top.items() if _plain(text) == word)
