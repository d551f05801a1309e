"""Find the one choice a reply makes among a few words or letters, and refuse any other reply."""

import re
from collections.abc import Sequence
from functools import lru_cache

from judges.judgement import NoScoreError

KEPT = 160
_NOUN = r"(?:output|response|summary|answer|option|assistant|candidate|text|reply|version)"
_LABEL = (
    r"(?:(?:the|my|your)\s+)?(?:final\s+)?"
    r"(?:preferred|preference|answer|choice|verdict|winner|decision|better|best|more helpful)"
    r"(?:\s+(?:summary|response|output|answer|option|one))?"
)
_BETTER = (
    r"(?:\s+(?:is|was|would be|seems|appears)\s+(?:\w+ly\s+|the\s+|a\s+|much\s+|slightly\s+){0,3}"
    r"(?:better|best|preferred|preferable|superior|winner|more helpful)\b"
    r"|\s+(?:wins|is\s+(?:my|the)\s+(?:choice|preference))\b)"
)


def shortened(text: str) -> str:
    """Quote a reply for a message: its two ends where it is long, since the score is at an end."""
    whole = " ".join(text.split())
    if len(whole) <= KEPT:
        return repr(whole)
    half = KEPT // 2
    return repr(f"{whole[:half]} ... {whole[-half:]}")


def parse_choice(text: str, choices: Sequence[str]) -> str:
    """Return the one choice `text` makes; NoScoreError keeps a short form of the reply.

    First the reply that is the choice or starts with it ("A", "B: Summary 2 is ...", "Output (a)"),
    then a labelled choice ("Preferred: B", "[[A]]"), then its last sentence ("Therefore, Output (a)
    is better."). A tie counts only where `choices` has a word for it.
    """
    plain = re.sub(r"[*`\"“”]", "", text).strip()
    patterns = _patterns(tuple(choices))
    by_name = {choice.lower(): choice for choice in choices}
    for pattern in patterns:
        where = _last_sentence(plain) if pattern is patterns[-1] else plain
        found = {by_name[_letter(match)] for match in pattern.finditer(where)}
        if len(found) > 1:
            raise NoScoreError(f"two choices, {' and '.join(sorted(found))}, in {shortened(text)}")
        if found:
            return found.pop()
    raise NoScoreError(f"none of {', '.join(choices)} chosen in {shortened(text)}")


def _letter(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group).lower()


def _last_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+|\n+", text.rstrip())[-1]


@lru_cache(maxsize=64)
def _patterns(choices: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    word = "|".join(re.escape(choice) for choice in choices)
    # The article "a" is everywhere: within prose a letter counts in its own case or in brackets.
    one = rf"(?:\(((?i:{word}))\)|({word})(?![\w'’]))"
    named = rf"(?:(?i:{_NOUN})\s+)?(?:#\s?)?{one}"
    whole = rf"\A\W{{0,2}}(?:(?i:{_NOUN})\s+)?\(?((?i:{word}))\)?\s?[.!)]?\s*\Z"
    start = rf"\A(?:(?i:{_NOUN})\s+)?{one}(?:\s?[:.,)]\s|\s[–—-]\s|\s*\n|\s?\()"
    label = rf"\b(?i:{_LABEL})\s*(?:[:=]|\b(?i:is)\b:?)\s*{named}"
    bracket = rf"\[\[\s?({word})\s?\]\]"
    better = rf"(?<![\w])(?<!nor )(?<!neither ){named}(?i:{_BETTER})"
    prefer = rf"\b(?i:prefer|choose|pick|select)\s+(?:(?i:the)\s+)?{named}"
    return (
        re.compile(whole),
        re.compile(f"{start}|{label}|{bracket}"),
        re.compile(f"{better}|{prefer}"),
    )
