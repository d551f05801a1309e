"""Read recorded replies, of any judge: from JSONL to judgements and verdicts, asking no model.

Lenient readings are here to reproduce published tables alone, which were made with them. They find
a number in nearly any reply, often a wrong one: `last_digit` takes the 5 of "3/5" and `first_digit`
the 1 of "in 1805 ...". On SummEval that moves GPT-4's dataset-level rho for relevance from .422 to
.427, three replies of 1200 being misread; on Topical-Chat it moves the mean per-context tau of
groundedness from .591 to .566. New judgements are always read strictly.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data.tables.formats import READABLE, read_records
from data.tables.problems import CellError, RowsError
from data.tables.text import decode_json
from data.values import RatingCells
from judges.dimension import Comparison, Dimension, Subject
from judges.errors import JudgesError, UsageError
from judges.judgement import LARGEST_SCORE, AnyJudgement, Choice, Judgement, NoScoreError, Verdict
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
        if isinstance(replies, str) and _is_sheet(Path(path)):
            replies = _listed(replies)
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


def read_scores(path: Path, dimension: str) -> dict[str, float]:
    """Read `{"id", "dimension", "score"}` lines on a dimension; NaN for a null score.

    Rows as `judges score` writes them, with their scores under `judgements` or in a sheet's column
    of the dimension's name, will do as well.
    Raises RecordingError for any other line, a second score of an id, or none at all.
    """
    scores: dict[str, float] = {}
    for where, row, read_number in _score_rows(path, dimension):
        try:
            if row.get("dimension", dimension) != dimension:
                continue
            judged = row["judgements"].get(dimension) if "judgements" in row else row
            if judged is None:
                continue
            name = str(row["id"]).strip()
            score = judged["score"] if "score" in judged else judged[dimension]
            if isinstance(score, bool):
                raise TypeError(f"{score} is no number")
            value = read_number(score)
            if abs(value) > LARGEST_SCORE:
                raise ValueError(f"{value:g}; rescale scores beyond {LARGEST_SCORE:g}")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise RecordingError(
                f'{where}: expected {{"id", "dimension", "score"}} with a number ({error!r:.200})'
            ) from error
        except CellError as error:
            raise RecordingError(
                f"{where}: the score {error.value!r:.60} {error.fault}; {error.advice}"
            ) from error
        if name in scores:
            raise RecordingError(f"{where}: {name!r:.60} has a score already")
        scores[name] = value
    if not scores:
        raise RecordingError(f"{path.name}: no score on {dimension!r}")
    return scores


def _score_rows(
    path: Path, dimension: str
) -> Iterator[tuple[str, dict[str, Any], Callable[[Any], float]]]:
    """Each row, where it stands, and what reads its score: in a sheet, by all of the column."""
    rows = _rows(path)
    if not _is_sheet(path):
        yield from (
            (*row, lambda score: math.nan if score is None else float(score)) for row in rows
        )
        return
    table = list(rows)
    of_dimension = [row for _, row in table if row.get("dimension", dimension) == dimension]
    cells = RatingCells(row.get("score", row.get(dimension)) for row in of_dimension)

    def read_number(score: object) -> float:
        number = cells.read(score)
        return math.nan if number is None else number

    yield from ((*row, read_number) for row in table)


def recorded_scores(path: Path, subject: Subject) -> dict[str, AnyJudgement]:
    """Judgements by id from a file of numbers (see `read_scores`); a pair's are margins."""
    scores = read_scores(path, subject.name)
    if isinstance(subject, Comparison):
        for name, score in scores.items():
            if abs(score) > 1:
                raise RecordingError(
                    f"{path.name}: the margin of {name!r:.60} is {score:g}; it goes from -1 (B) to "
                    "1 (A)"
                )
    return {
        name: Judgement(score=score) if score == score else Judgement.failed("no score")
        for name, score in scores.items()
    }


def recorded_replies(
    path: Path,
    subject: Subject,
    *,
    letters: Callable[[str], str] = lambda prompt: "",
    tie: Callable[[str], str] = lambda prompt: "",
) -> dict[str, dict[str, AnyJudgement]]:
    """Judgements by id from a file of raw replies, for each of its prompts ("" where it has one).

    `letters` gives the letters that replies to a prompt have for ratings, the lowest first, `tie`
    the one that prefers neither of a pair.
    Raises RecordingError, as for two records of an id.
    """
    dimension = subject.name
    records: Iterable[RecordedReplies | RecordedPair]
    if isinstance(subject, Comparison):
        records = read_pair_replies(path, dimension=dimension)
    else:
        records = read_replies(path, dimension=dimension)
    by_prompt: dict[str, dict[str, AnyJudgement]] = {}
    for record in records:
        if record.dimension not in (None, dimension):
            continue
        prompt = record.prompt or ""
        judgements = by_prompt.setdefault(prompt, {})
        if record.id in judgements:
            raise RecordingError(f"{path.name}: {record.id!r:.60} is recorded twice; give it once")
        if isinstance(record, RecordedPair):
            judgements[record.id] = verdict(record, tie=tie(prompt) or None)
        else:
            assert isinstance(subject, Dimension)
            judgements[record.id] = judgement(
                record.replies,
                subject.scale,
                letters=letter_ratings(letters(prompt), subject.scale),
                names=(dimension,),
            )
    if not by_prompt:
        raise RecordingError(f"{path.name}: no replies on {dimension!r}")
    return by_prompt if len(by_prompt) > 1 else {"": next(iter(by_prompt.values()))}


def letter_ratings(letters: str, scale: Sequence[int]) -> dict[str, int] | None:
    """What each letter of recorded replies counts, the lowest first; None without letters.

    Raises UsageError where they are not one for each rating.
    """
    if letters and not len(set(letters)) == len(letters) == len(scale):
        raise UsageError(
            f"--letters {letters}: give one letter for each of the {len(scale)} ratings "
            f"{scale[0]} to {scale[-1]}, the lowest first"
        )
    return dict(zip(letters, scale, strict=True)) if letters else None


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
        margin_ab=worth[ab],
        margin_ba=worth[ba],
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
        for place, row in read_records(path):
            row_dimension, row_prompt = _word(row, "dimension"), _word(row, "prompt")
            if prompt is not None and row_prompt != prompt:
                continue
            if dimension is not None and row_dimension not in (None, dimension):
                continue
            where, name = _short(place, path), row.get("id")
            if not isinstance(name, str | int) or name == "":
                raise RecordingError(
                    f"{where}: 'id' is missing, so the replies belong to no output"
                )
            identity = {"id": str(name), "dimension": row_dimension, "prompt": row_prompt}
            yield where, row, identity
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for place, row in read_records(path):
            yield _short(place, path), row
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _listed(cell: str) -> object:
    """The replies of a sheet's cell: a list in JSON, or the one that it is."""
    try:
        listed = decode_json(cell) if cell.lstrip().startswith("[") else None
    except ValueError:
        listed = None
    return listed if isinstance(listed, list) else [cell]


def _short(place: str, path: Path) -> str:
    return place.replace(str(path), path.name, 1)


def _is_sheet(path: Path) -> bool:
    """Whether a file's cells are texts, which say numbers and lists in words."""
    form = READABLE.get(path.suffix.lower())
    return form is not None and not form.typed


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
