"""Read every field of a judge's reply: its free text, its answers to questions, and its rating.

An answer is read from the text under its header, such as `[[ ## rating ## ]]`, in one of the forms
of `judges.answer`. If a header occurs more than once, the text under the last one counts; if the
judge's only answer has no header, the whole reply is read. If a reply also answers questions, each
answer must be under the header of its field, or after the field's name as a heading ("rating: 4").
A reply that cannot be read raises NoScoreError, and the model is asked again.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from judges.answer import answer_patterns, find_answer
from judges.judgement import NoScoreError, quote
from judges.prompt import (
    FIELD_HEADER_PATTERN,
    LONG_REASONING,
    THOUGHT_END,
    THOUGHT_START,
    Field,
    FieldValue,
    reasoning_of,
)
from judges.protocol import REFUSAL, RefusedError, Reply

# The header that ends a reply; it has to be at the start of a line.
_COMPLETED_HEADER = re.compile(
    r"^[ *_`>#-]{0,20}\[\[[ #]{0,9}completed\b", re.MULTILINE | re.IGNORECASE
)
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER_PATTERN.pattern}[*_`:]{{0,3}}")


def check_reply(reply: Reply) -> None:
    """Raise RefusedError if the model or its endpoint refuses, NoScoreError for an empty reply."""
    if reply.finish_reason == REFUSAL:
        raise RefusedError(f"the model refused: {quote(reply.text)}")
    if reply.finish_reason == "content_filter" and not reply.text:
        raise RefusedError("the endpoint's content filter withheld the reply")
    if not reply.text.strip():
        reason = "no text within its limit of tokens" if reply.is_out_of_tokens else "empty"
        raise NoScoreError(f"{reason} ({reply.finish_reason})")


class ReplyValues(NamedTuple):
    """The values of all fields, and the position in the reply of each value that is a choice."""

    values: dict[str, FieldValue]
    position_by_name: dict[str, tuple[int, int]]


def read_reply(
    reply: str, outputs: Sequence[Field], *, is_truncated: bool = False, names: Collection[str] = ()
) -> ReplyValues:
    """Read every output field; the last field with choices is the answer, the others are questions.

    A free text is the text under its header, else the text above the first header. `names` are the
    names of the dimension, which count as headings of the answer. If the reply does not state one
    clear answer, raises NoScoreError with a quotation of the reply.
    """
    start, end = reply_text_span(reply)
    headers = list(_HEADER.finditer(reply, start, end))
    sections = _sections(headers, end)
    *questions, answer_field = [field for field in outputs if field.choices]
    is_strict = False
    if questions:
        names = ()
        sections = _question_sections(sections, reply, (start, end), outputs)
    elif answer_field.name not in sections:
        # Steps and questions may have ratings of their own, so the answer must have a heading.
        is_strict = reasoning_of(outputs) in LONG_REASONING
        names = () if is_strict else names
        sections[answer_field.name] = (start, end)
    preface = reply[start : headers[0].start() if headers else end].strip()
    if " " not in preface:  # a single word is not a rationale
        preface = ""
    texts = {name: reply[slice(*section)].strip() for name, section in sections.items()}
    values: dict[str, FieldValue] = {
        output.name: texts.get(output.name, preface) for output in outputs
    }
    position_by_name = {}
    for field in (*questions, answer_field):
        section_start, section_end = sections[field.name]
        # In a truncated reply, even a lone "1" may be the beginning of "10".
        if is_truncated and section_end == len(reply):
            raise NoScoreError(f"the reply is cut short: {quote(reply[start:])}")
        text, headings = reply[section_start:section_end], (field.name, *names)
        answer = _read_choice(text, field, headings, is_strict=is_strict)
        values[field.name], answer_start, answer_end = answer
        position_by_name[field.name] = section_start + answer_start, section_start + answer_end
    return ReplyValues(values, position_by_name)


def _sections(headings: Sequence[re.Match[str]], end: int) -> dict[str, tuple[int, int]]:
    """Return the start and end of the text after each header or heading, by the field's name."""
    starts = [*(heading.start() for heading in headings), end]
    pairs = zip(headings, starts[1:], strict=True)
    return {heading[1].lower(): (heading.end(), section_end) for heading, section_end in pairs}


def _question_sections(
    sections: dict[str, tuple[int, int]],
    reply: str,
    span: tuple[int, int],
    outputs: Sequence[Field],
) -> dict[str, tuple[int, int]]:
    """Return each answer's section: after its header, else after its name, as in "rating: 4"."""
    names = [field.name for field in outputs if field.choices]
    if not sections.keys() >= set(names):
        names_pattern = "|".join(re.escape(field.name) for field in outputs)
        heading_pattern = rf"(?:^|[{{,])[\s*_`\"'>#-]{{0,9}}({names_pattern})[*_`\"' ]{{0,5}}[:=]"
        heading_finder = re.compile(heading_pattern, re.MULTILINE | re.IGNORECASE)
        headings = list(heading_finder.finditer(reply, *span))
        sections = _sections(headings, span[1]) or sections
        if len(sections) < len(headings):
            raise NoScoreError(f"a question is answered twice in {quote(reply[slice(*span)])}")
    for name in names:
        if name not in sections:
            raise NoScoreError(f"no answer for {name} in {quote(reply[slice(*span)])}")
    return sections


def _read_choice(
    text: str, field: Field, headings: Collection[str], *, is_strict: bool
) -> tuple[FieldValue, int, int]:
    """Return a text's answer, its start and its end; raises NoScoreError if it is unclear."""
    form = answer_patterns(field.allowed_values, False)
    answer = find_answer(text, form, headings, strict=is_strict)
    if answer is None or answer.value is None:
        first, *_, last = form.choices
        choices = f"from {first} to {last}" if form.is_numeric else f"{first} or {last}"
        raise NoScoreError(f"no {field.name} {choices} in {quote(text)}")
    value = answer.value if isinstance(answer.value, str) else int(answer.value)
    return value, answer.start, answer.end


def reply_text_span(reply: str) -> tuple[int, int]:
    """Return where a reply starts, after its thoughts, and ends, before its header "completed"."""
    start = max((tag.end() for tag in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought that does not end: {quote(reply[start:])}")
    end_header = _COMPLETED_HEADER.search(reply, start)
    if end_header is None or not reply[start : end_header.start()].strip():
        return start, len(reply)
    return start, end_header.start()
