"""Parse raw replies strictly: exactly one score or choice, or a failed judgement."""

import re
from collections.abc import Sequence

from judges.judgement import NoScoreError
from judges.prompt import Field, Value
from judges.replies.choice import parse_choice, shortened
from judges.replies.rating import parse_rating, parse_score

__all__ = ["header_end", "parse_choice", "parse_fields", "parse_rating", "parse_score"]

# Models decorate our header, drop its spaces or go on in the same line; the name decides.
_HEADER = re.compile(
    r"[*_`]{0,3}\[\[\s{0,3}#{1,3}\s{0,3}(\w{1,64})\s{0,3}#{1,3}\s{0,3}\]\][*_`:]{0,3}"
)
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_END = "completed"


def parse_fields(reply: str, outputs: Sequence[Field]) -> dict[str, Value]:
    """Read every output field off a reply; raises NoScoreError, which keeps the reply.

    A field's content follows the last header of its name, so that a header quoted in a rationale
    loses to the real one. Without its header, a field with choices is looked for in the whole
    reply, and a free text is what stands before the first header ("" where no sentence does).
    """
    whole = _THOUGHT.sub("", reply, count=1)
    sections = _sections(whole, [field.name for field in outputs])
    values: dict[str, Value] = {}
    for field in outputs:
        try:
            values[field.name] = _value(field, sections, whole, alone=len(outputs) == 1)
        except NoScoreError as error:
            raise NoScoreError(f"{field.name}: {error}") from error
    return values


def header_end(reply: str, name: str) -> int | None:
    """Where the content of a field begins: after the last header of its name, if there is one."""
    ends = [match.end() for match in _HEADER.finditer(reply) if match.group(1).lower() == name]
    return ends[-1] if ends else None


def _value(field: Field, sections: dict[str, str], whole: str, *, alone: bool) -> Value:
    if not field.choices:
        text = sections.get(field.name, sections[""])
        if not alone and field.name not in sections and len(text.split()) < 2:
            # A lone word is the score itself.
            return ""
        if alone and not text:
            raise NoScoreError(f"nothing written: {shortened(whole)}")
        return text
    text = sections.get(field.name, whole)
    scale = [choice for choice in field.choices if isinstance(choice, int)]
    if len(scale) == len(field.choices):
        return parse_rating(text, scale)
    return parse_choice(text, [str(choice) for choice in field.choices])


def _sections(reply: str, names: Sequence[str]) -> dict[str, str]:
    """Cut a reply at the last header of each name; what precedes them all goes by ""."""
    last = {}
    for header in _HEADER.finditer(reply):
        name = header.group(1).lower()
        if name in names or name == _END:
            last[name] = header
    cuts = sorted(last.values(), key=lambda header: header.start())
    ends = [*(header.start() for header in cuts), len(reply)]
    sections = {"": reply[: ends[0]].strip()}
    for header, end in zip(cuts, ends[1:], strict=True):
        sections[header.group(1).lower()] = reply[header.end() : end].strip()
    return sections
