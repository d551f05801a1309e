"""Read recorded replies, of any judge: from JSONL to judgements and verdicts, asking no model.

Lenient readings are here to reproduce published tables alone, which were made with them. They find
a number in nearly any reply, often a wrong one: `last_digit` takes the 5 of "3/5" and `first_digit`
the 1 of "in 1805 ...". On SummEval that moves GPT-4's dataset-level rho for relevance from .422 to
.427, three replies of 1200 being misread; on Topical-Chat it moves the mean per-context tau of
groundedness from .591 to .566. New judgements are always read strictly.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data.tables.formats import read_json_lines
from data.tables.problems import RowsError
from judges.errors import JudgesError
from judges.judgement import Choice, Judgement, NoScoreError, Verdict
from judges.parsing.choice import parse_choice
from judges.parsing.rating import parse_score
from judges.parsing.text import shortened

Reading = Literal["strict", "first_digit", "last_digit"]


class RecordingError(JudgesError, ValueError):
    """A file of replies is unusable; the message names file, line and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplies:
    """The raw replies of one judge for one output on one dimension.

    `prompt` tells apart several prompts in one file; None where the file names none.
    """

    id: str
    dimension: str | None
    prompt: str | None
    replies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPair:
    """The raw replies for one pair; in `order_ba` the letters refer to the swapped places."""

    id: str
    dimension: str | None
    prompt: str | None
    order_ab: str
    order_ba: str


def read_replies(
    path: str | Path, *, dimension: str | None = None, prompt: str | None = None
) -> Iterator[RecordedReplies]:
    """Read `{"id", "dimension", "replies": [...]}` line by line; raises RecordingError.

    Rows that name another dimension or prompt than these are passed over unread.
    """
    for where, row, identity in _records(path, dimension, prompt):
        replies = row.get("replies")
        if not isinstance(replies, list) or not all(isinstance(reply, str) for reply in replies):
            raise RecordingError(f"{where}: 'replies' must be a list of texts")
        yield RecordedReplies(**identity, replies=tuple(replies))


def read_pair_replies(
    path: str | Path, *, dimension: str | None = None, prompt: str | None = None
) -> Iterator[RecordedPair]:
    """Yield each pair's two replies from lines `{"id", "order_ab", "order_ba"}`.

    Each order holds a text or a list of one; both may stand under `judge: {name: ...}`. Rows that
    name another dimension or prompt than the one wanted are passed over unread. Raises
    RecordingError for any other line.
    """
    for where, row, identity in _records(path, dimension, prompt):
        judge = row.get("judge")
        replies = next(iter(judge.values())) if isinstance(judge, dict) and len(judge) == 1 else row
        yield RecordedPair(
            **identity,
            order_ab=_single(where, replies, "order_ab"),
            order_ba=_single(where, replies, "order_ba"),
        )


def judgement(
    replies: Sequence[str],
    scale: Sequence[int],
    *,
    letters: Mapping[str, int] | None = None,
    reading: Reading = "strict",
    names: Collection[str] = (),
) -> Judgement:
    """Average the replies that hold a score on `scale`; the others are left out and counted.

    Scores between two ratings ("3.5") count here, since recorded prompts seldom forbid them.
    `names` are labels that the score may have beside the usual ones: the dimension's own.
    """
    scores, failures = [], []
    for reply in replies:
        try:
            if reading == "strict":
                scores.append(parse_score(reply, scale, letters=letters, names=names))
            else:
                scores.append(_LENIENT[reading](reply, scale))
        except NoScoreError as error:
            failures.append(str(error))
    if not scores:
        reason = failures[0] if failures else "no reply"
        return Judgement.failed(reason, unparsable=len(failures))
    score = math.fsum(scores) / len(scores)
    return Judgement(
        score=score,
        rating=int(score) if len(scores) == 1 and score in scale else None,
        samples=len(scores),
        unparsable=len(failures),
    )


def verdict(pair: RecordedPair, *, tie: str | None = None) -> Verdict:
    """Join both orders; a choice that follows the position is a tie, as is a reply of `tie`."""
    choices = ["A", "B", *([tie] if tie else [])]
    try:
        reply_ab = parse_choice(pair.order_ab, choices)
        reply_ba = parse_choice(pair.order_ba, choices)
    except NoScoreError as error:
        return Verdict.failed(str(error))
    # In the second order the letters are the other places'; a reply of `tie` is on neither side.
    sides: dict[str, Choice] = {"A": "A", "B": "B"}
    swapped_sides: dict[str, Choice] = {"A": "B", "B": "A"}
    ab, ba = sides.get(reply_ab), swapped_sides.get(reply_ba)
    worth: dict[Choice | None, int] = {"A": 1, "B": -1, None: 0}
    return Verdict(
        margin=(worth[ab] + worth[ba]) / 2,
        preferred=ab if ab and ab == ba else "tie",
        order_ab=ab,
        order_ba=ba,
    )


def last_digit(text: str, scale: Sequence[int]) -> float:
    """Read as the SummEval judges of Shen et al. 2023 (arXiv:2305.13091) were read.

    The number after "score:", decimals and all; else the first one in a sentence after "score" or
    "scoring"; else the last digit of the reply that is on the scale. Single-digit scales only.
    """
    digit = f"[{scale[0]}-{scale[-1]}]"
    number = re.search(rf"score:\s*({digit}(?:\.\d)?)", text, re.IGNORECASE) or re.search(
        rf"scor(?:e|ing)[^.]+?({digit}(?:\.\d)?)", text, re.IGNORECASE
    )
    if number:
        return float(number[1])
    digits = re.findall(digit, text)
    if not digits:
        raise NoScoreError(f"no number from {scale[0]} to {scale[-1]} in {shortened(text)}")
    return float(digits[-1])


def first_digit(text: str, scale: Sequence[int]) -> float:
    """Read as the Topical-Chat judges of Chiang & Lee 2023 (arXiv:2310.05657) were read.

    The first digit after the last "rating:", be it on the scale or not; no digit is a 0.
    """
    number = re.search(r"\d", text.lower().rpartition("rating:")[2])
    return float(number.group()) if number else 0.0


_LENIENT = {"first_digit": first_digit, "last_digit": last_digit}


def _records(
    path: str | Path, dimension: str | None, prompt: str | None
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Of each row of the chosen dimension and prompt: where it stands, itself, and whose it is."""
    path = Path(path)
    try:
        for number, row in read_json_lines(path):
            row_dimension, row_prompt = _word(row, "dimension"), _word(row, "prompt")
            if prompt is not None and row_prompt != prompt:
                continue
            if dimension is not None and row_dimension not in (None, dimension):
                continue
            where, name = f"{path.name}, line {number}", row.get("id")
            if not isinstance(name, str | int) or name == "":
                raise RecordingError(
                    f"{where}: 'id' is missing, so the replies belong to no output"
                )
            yield where, row, {"id": str(name), "dimension": row_dimension, "prompt": row_prompt}
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _word(row: Mapping[str, object], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) else None


def _single(where: str, row: object, name: str) -> str:
    """A row's text, or the only one of its list; RecordingError where it is neither."""
    value = row.get(name) if isinstance(row, dict) else None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise RecordingError(f"{where}: {name!r} must be a text or a list of one")
    return value
