"""Parse raw replies strictly: exactly one score or choice, or a failed judgement."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress

from judges.judgement import NoScoreError
from judges.parsing.choice import parse_choice
from judges.parsing.rating import parse_rating, parse_score
from judges.parsing.text import shortened
from judges.prompt import FIELD_HEADER, THOUGHT_END, THOUGHT_START, Field, Value

__all__ = [
    "answer_span",
    "content_span",
    "parse_choice",
    "parse_fields",
    "parse_rating",
    "parse_score",
]

MOST_HEADERS = 300
_END = "completed"
# Models decorate our header or go on in the same line; the name decides.
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER.pattern}[*_`:]{{0,3}}")


def parse_fields(
    reply: str,
    outputs: Sequence[Field],
    *,
    truncated: bool = False,
    names: Collection[str] = (),
) -> dict[str, Value]:
    """Read every output field off a reply; raises NoScoreError, which keeps the reply.

    A field's content follows the last header of its name, so that a header quoted in a rationale
    loses to the real one, and ends at the next header. Without its header, a field with choices is
    looked for in the whole reply, and a free text is what stands before the first header ("" where
    no sentence does). Thoughts are dropped, and so is what follows a complete reply. A reply cut
    short (`truncated`) holds a choice only where a header closes its field: what is cut off may
    have changed it, and even a lone number may be the beginning of another ("1" of "10", "4" of
    "4/10", "4. No, 2"). `names` are what the dimension is called: of ratings of several qualities,
    its own counts.
    """
    start, end = answer_span(reply, outputs)
    whole = reply[start:end]
    sections, closed = _sections(whole, [field.name for field in outputs])
    values: dict[str, Value] = {}
    for field in outputs:
        cut = truncated and end == len(reply) and field.name not in closed
        if cut and (field.choices or len(outputs) == 1):
            raise NoScoreError(f"{field.name}: the reply is cut short: {shortened(whole)}")
        try:
            values[field.name] = _value(field, sections, whole, names, alone=len(outputs) == 1)
        except NoScoreError as error:
            raise NoScoreError(f"{field.name}: {error}") from error
    return values


def answer_span(reply: str, outputs: Sequence[Field]) -> tuple[int, int]:
    """Where the answer stands in a reply: after its thoughts, up to the end it marks itself.

    A model that goes on after the `completed` header (with another row of its own making) is read
    up to there, once every field has had a line that begins with its header. Raises NoScoreError
    where a thought was begun and not ended.
    """
    start = max((end.end() for end in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought without its end: {shortened(reply[start:])}")
    missing = {field.name for field in outputs}
    for number, header in enumerate(_HEADER.finditer(reply, start)):
        if number == MOST_HEADERS:
            raise NoScoreError(f"more than {MOST_HEADERS} headers: {shortened(reply)}")
        name = header.group(1).lower()
        if name == _END and not missing:
            return start, header.start()
        line_start = reply.rfind("\n", max(start, header.start() - 80), header.start()) + 1
        if not reply[max(start, line_start) : header.start()].strip(" *_`>#-"):
            missing.discard(name)
    return start, len(reply)


def content_span(reply: str, outputs: Sequence[Field], name: str) -> tuple[int, int, bool]:
    """Where a field's content begins and ends in a reply, and whether a header says so."""
    start, end = answer_span(reply, outputs)
    last = None
    for header in _HEADER.finditer(reply, start, end):
        if header.group(1).lower() == name:
            last = header
    if last is None:
        return start, end, False
    after = _HEADER.search(reply, last.end(), end)
    return last.end(), after.start() if after else end, True


def _value(
    field: Field,
    sections: dict[str, str],
    whole: str,
    names: Collection[str],
    *,
    alone: bool,
) -> Value:
    if not field.choices:
        text = sections.get(field.name, sections[""])
        if not alone and field.name not in sections and len(text.split()) < 2:
            # A lone word is the score itself.
            return ""
        if alone and not text:
            raise NoScoreError(f"nothing written: {shortened(whole)}")
        return text
    text = sections.get(field.name, whole)
    # A header of any name ends what a choice is read from: another field's number is another's.
    if field.name in sections and (another := _HEADER.search(text)):
        text = text[: another.start()]
    scale = [choice for choice in field.choices if isinstance(choice, int)]
    if len(scale) == len(field.choices):
        # A dimension's name need not be the word that a model has for it.
        with suppress(NoScoreError):
            return parse_rating(text, scale, names=names)
        return parse_rating(text, scale)
    return parse_choice(text, [str(choice) for choice in field.choices])


def _sections(reply: str, names: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Cut a reply at the last header of each name; what precedes them all goes by "".

    The names that another header of the reply follows come beside.
    """
    last = {}
    places = []
    for header in _HEADER.finditer(reply):
        name = header.group(1).lower()
        places.append(header.start())
        if name in names or name == _END:
            last[name] = header
    cuts = sorted(last.values(), key=lambda header: header.start())
    ends = [*(header.start() for header in cuts), len(reply)]
    sections = {"": reply[: ends[0]].strip()}
    for header, end in zip(cuts, ends[1:], strict=True):
        sections[header.group(1).lower()] = reply[header.end() : end].strip()
    closed = {name for name, header in last.items() if places[-1] > header.start()}
    return sections, frozenset(closed)
