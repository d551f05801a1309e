"""Parse raw replies strictly: exactly one score or choice, or a failed judgement."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from judges.judgement import NoScoreError
from judges.parsing.choice import parse_choice
from judges.parsing.rating import parse_rating, parse_score
from judges.parsing.text import json_object, plain_lines, shortened
from judges.prompt import (
    FIELD_HEADER,
    THOUGHT_END,
    THOUGHT_START,
    Field,
    Value,
    thinks_at_length,
)

__all__ = [
    "answer_span",
    "content_span",
    "parse_choice",
    "parse_fields",
    "parse_rating",
    "parse_score",
]

MAX_HEADERS = 300
_END = "completed"
# What calls a rating or a choice the answer, in a line of prose and as a key.
_ANSWER = re.compile(
    r"\b(?:final|overall|(?:my|the) (?:rating|score|answer|verdict|choice|preference)"
    r"|i(?:'d| would|'ll| will)? (?:rate|give|score|assign|prefer|choose|pick))\b"
    r"|\A\W*(?:rating|score|answer|verdict|preferred|preference|choice)\b",
    re.IGNORECASE,
)
_ANSWER_KEY = re.compile(
    r"(?:(?:final|overall|total|my|the)[ _]?)*(?:rating|score|answer|verdict|preferred|preference"
    r"|choice|winner|overall|final)"
)
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
    looked for in the whole reply, or where steps or questions were asked for in what is called the
    answer there, and a free text is what stands before the first header ("" where no sentence
    does). Thoughts are dropped, and so is what follows a complete reply. A reply cut
    short (`truncated`) holds a choice only where a header closes its field: what is cut off may
    have changed it, and even a lone number may be the beginning of another ("1" of "10", "4" of
    "4/10", "4. No, 2"). `names` are what the dimension is called: of ratings of several qualities,
    its own counts.
    """
    start, end = answer_span(reply, outputs)
    answer, alone = reply[start:end], len(outputs) == 1
    rates_parts = thinks_at_length(outputs)
    headers = list(_HEADER.finditer(answer))
    last_headers = {header.group(1).lower(): header for header in headers}
    field_names = {_END, *(field.name for field in outputs)}
    field_starts = [h.start() for name, h in last_headers.items() if name in field_names]
    values: dict[str, Value] = {}
    for field in outputs:
        header = last_headers.get(field.name)
        closed = header is not None and header is not headers[-1]
        if truncated and end == len(reply) and not closed and (field.choices or alone):
            raise NoScoreError(f"{field.name}: the reply is cut short: {shortened(answer)}")
        if field.choices:
            # A header of any name ends a choice: another field's number is another's.
            starts = [header.start() for header in headers]
            try:
                if header is not None:
                    text = _content(answer, header, starts)
                else:
                    text = _closing_answer(answer) if rates_parts else answer
                own_names = names or ((field.name,) if rates_parts else ())
                values[field.name] = _choice(text, field.choices, own_names, strict=rates_parts)
            except NoScoreError as error:
                raise NoScoreError(f"{field.name}: {error}") from error
        elif header is not None:
            values[field.name] = _content(answer, header, field_starts)
        else:
            text = answer[: min(field_starts, default=len(answer))].strip()
            # Beside a choice, a lone word is the choice itself.
            values[field.name] = text if alone or len(text.split()) > 1 else ""
        if alone and values[field.name] == "":
            raise NoScoreError(f"{field.name}: nothing written: {shortened(answer)}")
    return values


def _content(answer: str, header: re.Match[str], starts: Iterable[int]) -> str:
    """What stands between a header and the next of these starts."""
    end = min((start for start in starts if start > header.start()), default=len(answer))
    return answer[header.end() : end].strip()


def _closing_answer(answer: str) -> str:
    """What a reply without headers calls its answer, after steps that may rate parts of the whole.

    Raises NoScoreError where it calls nothing so.
    """
    plain = plain_lines(answer)
    _, items, _ = json_object(plain)
    if items:
        answers = {key: value for key, value in items if _ANSWER_KEY.fullmatch(key)}
        if answers:
            return json.dumps(answers)
        raise NoScoreError(f"no key of the answer's in {shortened(answer)}")
    lines = plain.splitlines()
    for index in reversed(range(len(lines))):
        if _ANSWER.search(lines[index]) and "?" not in lines[index]:
            return "\n".join(lines[index:])
    raise NoScoreError(f"nothing is called the answer after the reasoning in {shortened(answer)}")


def _choice(text: str, choices: Sequence[Value], names: Collection[str], *, strict: bool) -> Value:
    """The choice that a text states: a number of the scale, or else a letter.

    A `strict` reading takes no rating of another quality than those named.
    """
    scale = [choice for choice in choices if isinstance(choice, int)]
    if len(scale) < len(choices):
        return parse_choice(text, [str(choice) for choice in choices])
    if strict:
        return parse_rating(text, scale, names=names)
    # A dimension's name need not be the word that a model has for it.
    with suppress(NoScoreError):
        return parse_rating(text, scale, names=names)
    return parse_rating(text, scale)


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
        if number == MAX_HEADERS:
            raise NoScoreError(f"more than {MAX_HEADERS} headers: {shortened(reply)}")
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
    headers = list(_HEADER.finditer(reply, start, end))
    for index, header in reversed(list(enumerate(headers))):
        if header.group(1).lower() == name:
            following = headers[index + 1 : index + 2]
            return header.end(), following[0].start() if following else end, True
    return start, end, False
