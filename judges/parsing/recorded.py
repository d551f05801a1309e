"""Read recorded replies, of any judge: from JSONL to judgements and verdicts, asking no model."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data.tables.problems import RowsError
from data.tables.read import read_json_lines
from judges.errors import JudgesError
from judges.judgement import Choice, Judgement, NoScoreError, Verdict
from judges.parsing.lenient import first_digit, last_digit
from judges.parsing.parse import parse_choice, parse_score

Reading = Literal["strict", "first_digit", "last_digit"]
_OTHER: dict[Choice, Choice] = {"A": "B", "B": "A"}


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
    for where, row in _rows(Path(path)):
        if not _selected(row, dimension, prompt):
            continue
        replies = row.get("replies")
        if not isinstance(replies, list) or not all(isinstance(one, str) for one in replies):
            raise RecordingError(f"{where}: 'replies' must be a list of texts")
        yield RecordedReplies(
            id=_id(where, row),
            dimension=_word(row, "dimension"),
            prompt=_word(row, "prompt"),
            replies=tuple(replies),
        )


def read_pair_replies(
    path: str | Path, *, dimension: str | None = None, prompt: str | None = None
) -> Iterator[RecordedPair]:
    """Read `{"id", "order_ab", "order_ba"}` line by line; raises RecordingError.

    Each order holds a text or a list of one; both may stand under `judge: {name: ...}`. Rows that
    name another dimension or prompt than the one wanted are passed over unread.
    """
    for where, row in _rows(Path(path)):
        if not _selected(row, dimension, prompt):
            continue
        judge = row.get("judge")
        holder = next(iter(judge.values())) if isinstance(judge, dict) and len(judge) == 1 else row
        yield RecordedPair(
            id=_id(where, row),
            dimension=_word(row, "dimension"),
            prompt=_word(row, "prompt"),
            order_ab=_single(where, holder, "order_ab"),
            order_ba=_single(where, holder, "order_ba"),
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

    Scores between two ratings ("3.5") count here, since recorded prompts seldom forbid them. For
    the readings other than "strict" see judges/parsing/lenient.py. `names` are labels that the
    score may have beside the usual ones: the dimension's own.
    """
    scores, failures = [], []
    for reply in replies:
        try:
            scores.append(_score(reply, scale, letters, reading, names))
        except NoScoreError as error:
            failures.append(str(error))
    if not scores:
        why = failures[0] if failures else "no reply"
        return Judgement.failed(why, unparsable=len(failures))
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
        first, second = (parse_choice(text, choices) for text in (pair.order_ab, pair.order_ba))
    except NoScoreError as error:
        return Verdict.failed(str(error))
    ab = _side(first)
    shown = _side(second)
    ba = _OTHER[shown] if shown else None
    worth: dict[Choice | None, int] = {"A": 1, "B": -1, None: 0}
    return Verdict(
        margin=(worth[ab] + worth[ba]) / 2,
        preferred=ab if ab and ab == ba else "tie",
        order_ab=ab,
        order_ba=ba,
    )


def _score(
    text: str,
    scale: Sequence[int],
    letters: Mapping[str, int] | None,
    reading: Reading,
    names: Collection[str],
) -> float:
    if reading == "strict":
        return parse_score(text, scale, letters=letters, names=names)
    return {"first_digit": first_digit, "last_digit": last_digit}[reading](text, scale)


def _side(choice: str) -> Choice | None:
    return "A" if choice == "A" else "B" if choice == "B" else None


def _rows(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        for number, row in read_json_lines(path):
            yield f"{path.name}, line {number}", row
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _selected(row: Mapping[str, object], dimension: str | None, prompt: str | None) -> bool:
    """Whether a row is of the chosen prompt and, where it names one, dimension."""
    if prompt is not None and _word(row, "prompt") != prompt:
        return False
    return dimension is None or _word(row, "dimension") in (None, dimension)


def _id(where: str, row: Mapping[str, object]) -> str:
    name = row.get("id")
    if not isinstance(name, str | int) or name == "":
        raise RecordingError(f"{where}: 'id' is missing, so the replies belong to no output")
    return str(name)


def _word(row: Mapping[str, object], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) else None


def _single(where: str, row: object, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise RecordingError(f"{where}: {name!r} must be a text or a list of one")
    return value
