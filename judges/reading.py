"""Read every field of a judge's reply: its free text, its answers to questions, and its rating.

An answer is read from the text under its header, such as `[[ ## rating ## ]]`, in one of the forms
of `judges.answer`. If a header occurs more than once, the text under the last one counts. If the
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
    Prompt,
)
from judges.protocol import REFUSAL, RefusedError, Reply

# The header that ends a reply; it has to be at the start of a line.
_COMPLETED_HEADER = re.compile(r"(?im)^[ *_`>#-]{0,20}\[\[[ #]{0,9}completed\b")
_HEADER = re.compile(rf"[*_`]{{0,3}}{FIELD_HEADER_PATTERN.pattern}[*_`:]{{0,3}}")

# The start and the end of a part of a reply, as indices of characters.
Span = tuple[int, int]


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
    """The value of each output field in a reply, and where in the reply each choice is."""

    values: dict[str, FieldValue]
    choice_positions: dict[str, int]


def read_reply(
    reply: str, prompt: Prompt, is_truncated: bool = False, dimension_names: Collection[str] = ()
) -> ReplyValues:
    """Read the values of the prompt's output fields; raises NoScoreError for an unclear reply.

    The value of a free-text field is the text under its header, else the text above the first
    header. A name of the dimension counts as a heading of the answer, as in "Fluency: 4".
    """
    reply_span = reply_start, reply_end = reply_text_span(reply)
    headers = list(_HEADER.finditer(reply, reply_start, reply_end))
    spans = _find_spans(reply, reply_span, headers, prompt)
    is_whole_reply_read = spans[prompt.answer_field.name] == reply_span
    # Steps of long reasoning may have ratings of their own, so the answer needs a heading.
    needs_heading = is_whole_reply_read and prompt.reasoning in LONG_REASONING
    if needs_heading or prompt.question_fields:
        dimension_names = ()
    text_above = reply[reply_start : headers[0].start() if headers else reply_end].strip()
    rationale = text_above if " " in text_above else ""  # a single word is not a rationale
    values: dict[str, FieldValue] = {}
    choice_positions: dict[str, int] = {}
    for field in prompt.output_fields:
        if field.name not in spans:
            values[field.name] = rationale
            continue
        start, end = spans[field.name]
        if not field.choices:
            values[field.name] = reply[start:end].strip()
            continue
        # In a truncated reply, even a lone "1" may be the beginning of "10".
        if is_truncated and end == len(reply):
            raise NoScoreError(f"the reply is cut short: {quote(reply[reply_start:])}")
        headings = (field.name, *dimension_names)
        values[field.name], position = _read_choice(
            reply[start:end], field, headings, needs_heading
        )
        choice_positions[field.name] = start + position
    return ReplyValues(values, choice_positions)


def _find_spans(
    reply: str, reply_span: Span, headers: Sequence[re.Match[str]], prompt: Prompt
) -> dict[str, Span]:
    """Return the spans of the fields' values: under headers, after names, or the whole reply."""
    spans = _section_spans(headers, reply_span[1])
    choice_names = [field.name for field in prompt.choices]
    if spans.keys() >= {*choice_names}:
        return spans
    if not prompt.question_fields:
        return {**spans, prompt.answer_field.name: reply_span}
    # Of several answers, each needs a header or a name before it.
    spans = _spans_after_names(reply, reply_span, prompt) or spans
    for name in choice_names:
        if name not in spans:
            raise NoScoreError(f"no answer for {name} in {quote(reply[slice(*reply_span)])}")
    return spans


def _section_spans(headings: Sequence[re.Match[str]], reply_end: int) -> dict[str, Span]:
    """Return the span of the text after each heading, by the name in the heading."""
    section_ends = [*(heading.start() for heading in headings), reply_end][1:]
    headings_and_ends = zip(headings, section_ends, strict=True)
    return {heading[1].lower(): (heading.end(), end) for heading, end in headings_and_ends}


def _spans_after_names(reply: str, reply_span: Span, prompt: Prompt) -> dict[str, Span]:
    """Return the span of the text after each field's name as a heading, as in "rating: 4"."""
    names_pattern = "|".join(re.escape(field.name) for field in prompt.output_fields)
    heading_pattern = re.compile(
        rf"(?im)(?:^|[{{,])[\s*_`\"'>#-]{{0,9}}({names_pattern})[*_`\"' ]{{0,5}}[:=]"
    )
    headings = list(heading_pattern.finditer(reply, *reply_span))
    spans = _section_spans(headings, reply_span[1])
    if len(spans) < len(headings):
        raise NoScoreError(f"a question is answered twice in {quote(reply[slice(*reply_span)])}")
    return spans


def _read_choice(
    section: str, field: Field, headings: Collection[str], needs_heading: bool
) -> tuple[FieldValue, int]:
    """Return the choice that a section of a reply states, and the position of the choice."""
    patterns = answer_patterns(field.allowed_values)
    answer = find_answer(section, patterns, headings, needs_heading)
    if answer is None:
        first, *_, last = field.allowed_values
        choices_text = f"from {first} to {last}" if patterns.is_numeric else f"{first} or {last}"
        raise NoScoreError(f"no {field.name} {choices_text} in {quote(section)}")
    value, position = answer
    return value if isinstance(value, str) else int(value), position


def reply_text_span(reply: str) -> Span:
    """Return the span of a reply between its thoughts and its header "completed"."""
    start = max((tag.end() for tag in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought that does not end: {quote(reply[start:])}")
    end_header = _COMPLETED_HEADER.search(reply, start)
    if end_header is None or not reply[start : end_header.start()].strip():
        return start, len(reply)
    return start, end_header.start()
