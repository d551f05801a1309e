"""Read the instruction off a proposer's reply, in whatever form it comes.

What is clearly the instruction is taken: under a header, tag, label or JSON key, in a fence, in
quotes, after a preface, or by itself. A remark is never taken for one.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from judges.judgement import NoScoreError
from judges.parsing.text import shortened
from judges.prompt import FIELD_HEADER, THOUGHT_END, THOUGHT_START, Value, encodable

Anchors = tuple[tuple[int, str], ...]

LONGEST_ANCHOR = 200
# A sentence that comes so often is a model that has lost its way.
FEWEST_REPEATS = 3
NOT_FOUND = "no instruction found"

_LABEL = (
    r"(?:(?:the|my|your|a)[ _])?(?:(?:new|better|improved|revised|updated|final|proposed|rewritten|"
    r"suggested|refined|optimi[sz]ed|full)[ _-]?){0,2}(?:judge(?:'s)?[ _])?instructions?"
    r"(?:[ _](?:text|for the judge))?"
)
_IS_LABEL = re.compile(rf"{_LABEL}\Z", re.IGNORECASE)
_MARKS = r"[ \t]*(?:#{1,6}[ \t]*)?(?:\d+[.)][ \t]*)?[*_]{0,3}"
_HEADER = re.compile(rf"^[ \t]*[*_`>#]{{0,4}}[ \t]*{FIELD_HEADER.pattern}[*_`:]{{0,3}}", re.M)
_TAG = re.compile(rf"<({_LABEL})>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_LABEL_LINE = re.compile(
    rf"^{_MARKS}{_LABEL}[*_]{{0,3}}(?:[ \t]*:[*_]{{0,3}}|[ \t]*(?=\n))",
    re.IGNORECASE | re.MULTILINE,
)
_OTHER_LABEL = re.compile(
    rf"^{_MARKS}(?:analysis|rationale|explanation|reasoning|why\b[^\n:]{{0,30}}|notes|anchors|"
    r"(?:key |main |summary of )?changes|what changed|justification|remarks?|comments?|history|"
    r"(?:current|previous|old|original)[ _]instructions?)[*_]{0,3}(?:[ \t]*:|[ \t]*(?=\n|\Z))",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"(?:```|~~~)(?:[\w+-]*[ \t]*\n)?(.*?)(?:```|~~~|\Z)", re.DOTALL)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_SENTENCES = re.compile(r"(?<=[.!?])[\"'”’*]*\s+|\n+")
_BULLET = r"[ \t]*(?:[-*•#]+[ \t]+|\d+[.)][ \t]*|\*\*)?"
# How an instruction to a judge begins, and how a remark about one does.
_OPENING = re.compile(
    _BULLET + r"(?:please |now |then |carefully )?(?:judge|rate|score|assess|evaluate|decide|"
    r"determine|read|compare|choose|prefer|pick|select|give|assign|grade|consider|weigh|reward|"
    r"penali[sz]e|focus|check|ask yourself|look|begin|start|first,? (?!i\b|we\b|the judge)|"
    r"identify|estimate|examine|use|say|rank|attend|treat|imagine|think|do not|don['’]t|never|"
    r"always|for each|given (?:a|an|the|two)|when (?:you |rating|judging|scoring|comparing)|"
    r"you (?:are|will|judge|rate|score|read|must|should|compare|see)|your (?:task|job|role|goal)|"
    r"as (?:a|an|the) (?:careful|expert|strict|judge|reader|editor|reviewer|rater)|"
    r"in (?:rating|judging|scoring|comparing))\b",
    re.IGNORECASE,
)
_REMARK = re.compile(
    _BULLET + r"(?:sure|certainly|of course|okay|ok|great|happy to|absolutely|thanks?|thank you|"
    r"sorry|apologies|unfortunately|i(?:['’](?:m|ve|ll|d))?(?= )|we\b|my\b|as an ai|the judge\b|"
    r"judges\b|(?:most )?(?:people|humans|annotators|raters|readers)(?:['’]s?)? (?:seem|appear|"
    r"tend|value|prefer|reward|mind|rate|place|like|care|go by|want|give|gave)|it (?:seems|appears|"
    r"stays|keeps|is (?:clear|notable|now))|this (?:instruction|version|prompt|rewrite|one|keeps|"
    r"focuses|should|stays|would|new|revised)|these (?:changes|instructions)|the (?:current|"
    r"previous|old|original|new|above|revised|improved|better|key|main) |based on|looking at|from "
    r"(?:the|these)|after (?:reviewing|studying|analy)|analysis\b|let me|note that|in (?:summary|"
    r"short|the (?:data|examples|documents))|overall,|key changes|changes\b|here(?:['’]s| is| are)|"
    r"below|first,? (?:i|we|the judge)\b|no (?:change|better)|n/a|none\b|same as|unchanged)",
    re.IGNORECASE,
)
_PREFACE = re.compile(
    r"\A[^\n]{0,200}?\b(?:instructions?|version|prompt|rewrite|one|it is|revision|text)\b"
    r"[^\n.]{0,120}:[*_]{0,3}[ \t]*(?=\n|[\"“«'`*])",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "«": "»", "„": "“", "'": "'", "‘": "’", "`": "`"}


def read_instruction(reply: str, current: str = "") -> str:
    """The instruction in a reply; one that begins as the `current` does is known by that.

    Raises NoScoreError, which says what is wrong in words that a proposer can act on.
    """
    text = _answer(reply)
    part = _labelled(text)
    if part is None:
        part = _unlabelled(text, current)
    instruction = _stripped(part) if part is not None else ""
    if not instruction:
        raise NoScoreError(f"{NOT_FOUND}: {shortened(text)}")
    sentences = _sentences(instruction)
    if _REMARK.match(instruction) and not any(map(_is_opening, sentences)):
        raise NoScoreError(f"a remark stands in the place of the instruction: {shortened(text)}")
    sentence, times = Counter(sentences).most_common(1)[0]
    if times >= FEWEST_REPEATS and len(sentence.split()) > 3:
        raise NoScoreError(f"it says {times} times: {shortened(sentence)}")
    return encodable(instruction)


def read_anchors(reply: str, scale: Sequence[Value]) -> Anchors | None:
    """What earns each rating, where every line says it in the form asked for; else None.

    The lowest and the highest rating of the scale are among them, in ascending order.
    """
    text = _answer(reply)
    section = _sections(text).get("anchors")
    if section is None:
        values = (
            value
            for fields in _json_objects(text)
            for name, value in fields.items()
            if name.lower() == "anchors"
        )
        given = next(values, None)
        if isinstance(given, Mapping):
            section = "\n".join(f"{level} = {meaning}" for level, meaning in given.items())
        else:
            section = given if isinstance(given, str) else None
    anchors: dict[int, str] = {}
    for line in (section or "").strip().splitlines():
        match = re.fullmatch(r"[ \t]*[-*]?[ \t]*(-?\d{1,3})[ \t]*[=:][ \t]*(\S.*)", line)
        if not match or int(match[1]) in anchors or int(match[1]) not in scale:
            return None
        anchors[int(match[1])] = _stripped(match[2]).rstrip(".;")
    if not anchors or not {scale[0], scale[-1]} <= anchors.keys():
        return None
    if any(not 0 < len(meaning) <= LONGEST_ANCHOR for meaning in anchors.values()):
        return None
    return tuple(sorted((level, encodable(meaning)) for level, meaning in anchors.items()))


def _answer(reply: str) -> str:
    """What follows a reply's thoughts; raises NoScoreError where a thought has no end."""
    start = max((end.end() for end in THOUGHT_END.finditer(reply)), default=0)
    if THOUGHT_START.search(reply, start):
        raise NoScoreError(f"a thought without its end: {shortened(reply[start:])}")
    return reply[start:].replace("\r\n", "\n").strip()


def _sections(text: str) -> dict[str, str]:
    """What stands under each of our headers that begins a line; of one name, the last."""
    headers = list(_HEADER.finditer(text))
    starts = [*(header.start() for header in headers), len(text)]
    return {
        header[1].lower(): text[header.end() : starts[index + 1]].strip()
        for index, header in enumerate(headers)
    }


def _labelled(text: str) -> str | None:
    """What is called the instruction: by a header, a JSON key, a tag, or a line of its own."""
    sections = _sections(text)
    named = [content for name, content in sections.items() if _IS_LABEL.match(name)]
    if sections:
        return named[-1] if named else ""
    for fields in _json_objects(text):
        for name, value in fields.items():
            if _IS_LABEL.match(name) and isinstance(value, str):
                return value
    if tags := list(_TAG.finditer(text)):
        return tags[-1][2]
    labels = [match for match in _LABEL_LINE.finditer(text) if not _is_opening(match[0])]
    # A line "Instructions:" within an instruction is a part of it.
    if not labels or _is_opening(text[: labels[0].start()]):
        return None
    rest = text[labels[-1].end() :]
    end = _OTHER_LABEL.search(rest)
    return _in_own_marks(rest[: end.start()] if end else rest)


def _in_own_marks(text: str) -> str:
    """What stands in the only fence of a part, or in quotes at its beginning; else all of it."""
    fences = [fence for fence in _FENCE.findall(text) if fence.strip()]
    if len(fences) == 1:
        return str(fences[0])
    first, *rest = _PARAGRAPHS.split(text.strip())
    quoted = _unquoted(first.strip()) != first.strip()
    return first if quoted and all(map(_REMARK.match, rest)) else _without_remarks_after(text)


def _unlabelled(text: str, current: str) -> str | None:
    """A fence's content, or the paragraphs from the first that begins as instructions do."""
    text = re.sub(r"\A#{1,6}[^\n]*\n", "", text)
    fences = [fence.strip() for fence in _FENCE.findall(text) if fence.strip()]
    if len(fences) == 1 and not fences[0].startswith("{"):
        return str(fences[0])
    if fences:
        openings = [fence for fence in fences if _is_opening(fence)]
        return openings[0] if len(openings) == 1 else None
    paragraphs = _PARAGRAPHS.split(_without_preface(text))
    for index, paragraph in enumerate(paragraphs):
        candidate = _stripped(paragraph)
        if _is_opening(candidate) or _begins_alike(candidate, current):
            return _without_remarks_after("\n\n".join(paragraphs[index:]))
    return None


def _without_remarks_after(text: str) -> str:
    paragraphs = _PARAGRAPHS.split(text.strip())
    while len(paragraphs) > 1 and _REMARK.match(paragraphs[-1]):
        paragraphs.pop()
    return "\n\n".join(paragraphs)


def _is_opening(text: str) -> bool:
    return bool(_OPENING.match(text.lstrip("\"“«'`*> ")))


def _begins_alike(text: str, current: str) -> bool:
    words, known = text.lower().split()[:2], current.lower().split()[:2]
    return len(known) == 2 and words == known


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCES.split(text) if sentence.strip()]


def _json_objects(text: str) -> Iterator[Mapping[str, object]]:
    """The objects that a reply is or fences, and the objects in these."""
    parts = [text, *_FENCE.findall(text), text[text.find("{") : text.rfind("}") + 1]]
    for part in parts:
        try:
            value = json.loads(part, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, dict):
            yield value
            yield from (inner for inner in value.values() if isinstance(inner, dict))


def _stripped(text: str) -> str:
    """A text without what is put around one: fences, quotes, emphasis, a preface."""
    while True:
        before = text
        text = text.strip()
        fenced = re.fullmatch(r"(?:```|~~~)(?:[\w+-]*[ \t]*\n)?(.*?)(?:```|~~~)?", text, re.DOTALL)
        text = fenced[1] if fenced and text.startswith(("```", "~~~")) else text
        text = _unquoted(_without_preface(text).strip())
        if text.startswith(">") and all(line.startswith(">") for line in text.splitlines()):
            text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
        bold = re.fullmatch(r"\*\*([^*]+)\*\*|__([^_]+)__", text)
        text = (bold[1] or bold[2]) if bold else text
        if text == before:
            return text


def _without_preface(text: str) -> str:
    """Without a first line that says that an instruction follows."""
    preface = _PREFACE.match(text.lstrip())
    if preface and not _is_opening(preface[0]):
        return text.lstrip()[preface.end() :]
    return text


def _unquoted(text: str) -> str:
    """Without the quotes that embrace all of it."""
    closing = _QUOTES.get(text[:1])
    if closing is None or len(text) < 2 or not text.endswith(closing):
        return text
    if text[0] == '"':
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            pass
        else:
            return str(value)
    inner = text[1:-1]
    if closing != text[0]:  # nested quotes close in pairs
        depth = 0
        for mark in inner:
            depth += (mark == text[0]) - (mark == closing)
            if depth < 0:
                return text
        return inner
    # An apostrophe stands within a word.
    marks = [
        index
        for index, mark in enumerate(inner)
        if mark == closing
        and not (inner[index - 1 : index].isalpha() and inner[index + 1 : index + 2].isalpha())
    ]
    return inner if not marks else text
