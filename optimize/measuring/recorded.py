"""Read what any judge gave before: files of numbers or raw replies to judgements and verdicts.

A reply is read as our own judges' are, then by the sentences in which other prompts' judges answer:
"I would give it a score of 4.", "Therefore, Output (a) is better." Published tables were often made
with readers that find a number in nearly any reply, so their figures may differ a little.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspy_judges.errors import JudgesError
from judges.judgement import LARGEST_SCORE, Judgement, NoScoreError, Preference, quote
from judges.labels.values import Values
from judges.reading import (
    CANDIDATE_NOUN,
    NUMBER,
    AnswerForm,
    answer_form,
    answer_span,
    find_answer,
    plain_text,
)
from judges.tables.formats import read_records
from judges.tables.problems import RowsError, joined_names
from judges.tables.text import Row


class RecordingError(JudgesError, ValueError):
    """A file of replies or scores is unusable; the message names file, line and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplies:
    """One judge's raw replies for an output, or for a pair: in order, and with its sides swapped.

    `prompt` tells apart several prompts in one file.
    """

    id: str
    dimension: str | None
    prompt: str | None
    replies: tuple[str, ...]

    @classmethod
    def of(cls, row: Row, replies: tuple[str, ...]) -> "RecordedReplies":
        dimension, prompt = (_name_in(row, key) for key in ("dimension", "prompt"))
        return cls(id=str(row["id"]), dimension=dimension, prompt=prompt, replies=replies)


def read_replies(path: str | Path, *, dimension: str | None = None) -> Iterator[RecordedReplies]:
    """Yield each row's replies from lines `{"id", "dimension", "replies": [...]}`.

    Rows that name another dimension are passed over unread. Raises RecordingError for any other
    line.
    """
    for where, row in _rows_on(path, dimension):
        yield RecordedReplies.of(row, _texts(where, row, "replies"))


def read_pair_replies(
    path: str | Path, *, dimension: str | None = None
) -> Iterator[RecordedReplies]:
    """Yield each pair's two replies from lines `{"id", "order_ab", "order_ba"}`.

    Both orders may stand under `judge: {name: ...}`. Otherwise as `read_replies`.
    """
    for where, row in _rows_on(path, dimension):
        judge = row.get("judge")
        orders = next(iter(judge.values())) if isinstance(judge, dict) and len(judge) == 1 else row
        replies = _texts(where, orders, "order_ab") + _texts(where, orders, "order_ba")
        if len(replies) != 2:
            raise RecordingError(f"{where}: 'order_ab' and 'order_ba' must hold one text each")
        yield RecordedReplies.of(row, replies)


def read_scores(path: Path, dimension: str) -> dict[str, float]:
    """Read `{"id", "dimension", "score"}` lines on a dimension; NaN where the score is empty.

    Rows as `dspy-judges score` writes them will do as well, with their scores under `judgements` or
    in the column NAME or NAME_judge of a sheet, beside NAME_failure.
    Raises RecordingError for any other line, a second score of an id, or none at all.
    """
    scores: dict[str, float] = {}
    others: dict[str, None] = {}
    for where, row in read_rows(path):
        if (other := row.get("dimension", dimension)) != dimension:
            others[f"{other}"] = None
            continue
        try:
            judged = row["judgements"].get(dimension) if "judgements" in row else row
            if judged is None:
                continue
            name = str(row["id"]).strip()
            # A column NAME alone may hold people's ratings.
            columns = (c for c in (f"{dimension}_judge", dimension) if f"{c}_failure" in judged)
            score = judged[next(columns, "score" if "score" in judged else dimension)]
            value = math.nan if score in (None, "") else float(score)
            if isinstance(score, bool) or abs(value) > LARGEST_SCORE:
                raise ValueError
        except KeyError as error:
            why = f"{error} is not among {joined_names(list(row))}; give labels and scores one name"
            raise RecordingError(f"{where}: {why}") from error
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise RecordingError(
                f'{where}: expected {{"id", "dimension", "score"}}, with a number as '
                f"score, at most {LARGEST_SCORE:g}"
            ) from error
        if name in scores:
            raise RecordingError(f"{where}: {name!r:.60} has a score already")
        scores[name] = value
    if not scores:
        advice = f"; it has {joined_names(list(others))}: name both alike" if others else ""
        raise RecordingError(f"{path.name}: no score on {dimension!r}{advice}")
    return scores


# How other prompts' judges put a rating or a choice into a sentence.
_RATED = (
    r"(?:\((?=\d *\)\.?$)|\b(?:scores?|rating|rated|(?:earn|scor|giv|receiv|deserv|mak)ing|earns"
    r"|gets|receives|deserves|merits|somewhat \w+|yes|good"
    r"|i\b[^,.\n]{0,20}\b(?:give|rate|score|assign))\b,?"
    r"(?: (?:[a-z'-]+|\([^()]*\))){0,6}? \(?(?:an? )?)"
)
_BETTER = (
    r" (?:is|wins|would be)(?: (?:the|clearly|much|slightly|more)){0,2} (?:better|best|preferred)"
    r"(?=[.!,;]|$| (?:than|overall))"
)
# What follows a rating, which no noun does that it counts.
_AFTER = (
    r"(?![\w/%-]|,? (?:or|and) |, \d"
    r"| +(?!for|in|on|as|because|since|due|out|overall|stars?|points?)\w)"
)
# "1. Dull" is a point of a list.
_SENTENCE_END = re.compile(r"(?<!^\d\.)(?<=[.!?;])[\"')]{0,2} +", re.MULTILINE)
# A clause that denies, wishes or reports what it states; and a sentence that supposes it.
_UNLIKE = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|could|would (?:need|have)|(?:love|want) to|far from"
    r"|doubt|tempted|considered|others?|another|confidence|best|maximum|highest"
    r"|perfect \w+ (?:is|gets)|false|untrue|or|maybe|says?|said|reads|claims|argues|asks)\b|n't\b",
    re.IGNORECASE,
)
_SUPPOSED = ("if ", "unless ", "for example")


def read_choice(text: str, choices: Sequence[str]) -> str:
    """The one choice that a reply states; else NoScoreError."""
    return str(_read(text, answer_form(tuple(choices), False)))


def _read(text: str, form: AnswerForm, names: Collection[str] = ()) -> float | str:
    """The one answer that a reply states, in our own judges' forms or in a sentence."""
    text = text[slice(*answer_span(text))]
    sentences = _SENTENCE_END.sub("\n", text)
    answer = find_answer(text, form, names) or find_answer(sentences, form, names)
    if answer and answer.value is not None:
        return answer.value
    if form.numeric:
        pattern = rf"{_RATED}(?P<value>-?{NUMBER}){_AFTER}"
    else:
        words = "|".join(map(re.escape, form.choice_by_text))
        pattern = rf"(?:{CANDIDATE_NOUN} )?\(?\b(?P<value>{words})\b\)?{_BETTER}"
    values = {
        form.value(match)
        for line in plain_text(sentences, form).splitlines()
        for match in re.finditer(pattern, line, re.IGNORECASE)
        if not _UNLIKE.search(line[: match.end()].rpartition(",")[2])
        and not line.lower().startswith(_SUPPOSED)
        and not line.endswith("?")
    }
    value = values.pop() if len(values) == 1 else None
    if value is None:
        raise NoScoreError(f"no one answer in {quote(text)}")
    return value


def judgement(
    replies: Sequence[str],
    scale: Sequence[int],
    *,
    values: Values | None = None,
    names: Collection[str] = (),
) -> Judgement:
    """Average the replies that hold a score on `scale`; the others are left out and counted.

    Scores between two ratings ("3.5") count here, since recorded prompts seldom forbid them.
    `values` are ratings of words, `names` are what the dimension is called.
    """
    letters = {word: n for word, n in (values or {}).items() if isinstance(n, int | float)}
    form = answer_form(tuple(scale), True)
    scores, failures = [], []
    for reply in replies:
        with suppress(NoScoreError):
            if letters:
                scores.append(letters[read_choice(reply, list(letters))])
                continue
        try:
            scores.append(float(_read(reply, form, names)))
        except NoScoreError as error:
            failures.append(str(error))
    if not scores:
        return Judgement.failed([*failures, "no reply"][0], unparsable=len(failures))
    score = math.fsum(scores) / len(scores)
    return Judgement(
        score=score,
        rating=int(score) if len(scores) == 1 and score in scale else None,
        samples=len(scores),
        unparsable=len(failures),
    )


def preference(pair: RecordedReplies, *, values: Values | None = None) -> Preference:
    """Join both orders; a choice that follows the position is a tie.

    `values` are the words for the first output ("A"), the second ("B") or neither ("tie"), beside
    A and B themselves.
    """
    worth = {"A": 1, "B": -1, "tie": 0}
    words = {word: vote for word, vote in (values or {}).items() if isinstance(vote, str)}
    votes: dict[str, str] = {"A": "A", "B": "B", **words}
    try:
        first, second = (worth[votes[read_choice(text, list(votes))]] for text in pair.replies)
    except NoScoreError as error:
        return Preference.failed(str(error))
    # In the second order the letters are the other places'.
    return Preference.of_orders(first, -second)


def _name_in(row: Row, key: str) -> str | None:
    name = row.get(key)
    return name if isinstance(name, str) else None


def _rows_on(path: str | Path, dimension: str | None) -> Iterator[tuple[str, Row]]:
    """Each row that names no other dimension, and where it stands."""
    for where, row in read_rows(Path(path)):
        if dimension is None or _name_in(row, "dimension") in (None, dimension):
            if not isinstance(row.get("id"), str | int) or row["id"] == "":
                raise RecordingError(
                    f"{where}: 'id' is missing, so the replies belong to no output"
                )
            yield where, row


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row and where it stands, by the file's name alone."""
    try:
        for place, row in read_records(path):
            yield place.replace(str(path), path.name, 1), row
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _texts(where: str, row: object, name: str) -> tuple[str, ...]:
    """A row's texts, or its only one; RecordingError where there is none."""
    value = row.get(name) if isinstance(row, dict) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RecordingError(f"{where}: {name!r} must be a text or a list of texts")
    return tuple(texts)
