"""Read recorded judgements of any judge: files of scores, or of raw replies.

A reply is first read in the format of our own judges' replies. If that fails, a rating or choice is
searched for in sentences that judges with other prompts write: "I would give it a score of 4.",
"Therefore, Output (a) is better." Published tables were often made with parsers that find a number
in nearly any reply, so their figures may differ a little.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

from dspy_judges.errors import JudgesError
from judges.answer import (
    CANDIDATE_NOUN,
    NUMBER_REGEX,
    AnswerForm,
    answer_form,
    find_answer,
    plain_text,
)
from judges.frozen import TUNED_ON
from judges.judgement import MAX_SCORE, Judgement, NoScoreError, Preference, quote
from judges.labels.cells import first_value
from judges.labels.names import judge_name
from judges.labels.values import WordValues, looks_like_number
from judges.reading import reply_text_span
from judges.tables.formats import read_records
from judges.tables.problems import RowsError, excerpt, joined_names
from judges.tables.text import Record
from optimize.items import MARGIN_OF_VOTE

# Columns that hold the score if a judge's name does not say which; `winrate` writes `verdict`.
_USUAL_SCORE_COLUMNS = ("score", "verdict", "verdict_preferred", "preferred")


class RecordingError(JudgesError, ValueError):
    """A file of replies or scores that cannot be used; the message names file, line and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplies:
    """One judge's raw replies for an output; for a pair, one for each order of its outputs."""

    id: str
    replies: tuple[str, ...]


def read_replies(path: str | Path, *, dimension: str | None = None) -> Iterator[RecordedReplies]:
    """Yield each row's replies from lines `{"id", "dimension", "replies": [...]}`.

    Rows that name another dimension are skipped. Raises RecordingError for a line in another
    format.
    """
    for location, row in _rows_on_dimension(path, dimension):
        yield RecordedReplies(id=str(row["id"]), replies=_read_texts(location, row, "replies"))


def read_pair_replies(
    path: str | Path, *, dimension: str | None = None
) -> Iterator[RecordedReplies]:
    """Yield each pair's two replies from lines `{"id", "order_ab", "order_ba"}`.

    The two fields may also be in the only entry of an object `judge`. Everything else is as for
    `read_replies`.
    """
    for location, row in _rows_on_dimension(path, dimension):
        judge = row.get("judge")
        record = next(iter(judge.values())) if isinstance(judge, dict) and len(judge) == 1 else row
        orders = (_read_texts(location, record, order) for order in ("order_ab", "order_ba"))
        replies = tuple(chain(*orders))
        if len(replies) != 2:
            raise RecordingError(f"{location}: 'order_ab' and 'order_ba' must hold one text each")
        yield RecordedReplies(id=str(row["id"]), replies=replies)


def read_own_scores(
    path: Path, dimension: str, values: WordValues | None = None, *, pairwise: bool = False
) -> dict[str, float]:
    """Read `{"id", "dimension", "score"}` lines on a dimension; an empty score becomes NaN.

    `values` has the score or vote that each word stands for. The score of a pair is its margin: 1
    or "A", -1 or "B", 0 or "tie". The score may also be in a column `verdict` or `preferred`, or of
    the dimension's name.

    Rows that `dspy-judges winrate` wrote can be read as well. So can rows that `dspy-judges score`
    wrote. In JSON lines, their scores are under `judgements`. In a table, the column of the
    dimension's name holds them if there is a column NAME_failure, and the column NAME_judge if
    there is a column NAME_judge_failure. Raises RecordingError for any other line, for a second
    score with the same id, for a file without scores on the dimension, and for scores of pairs that
    do not look like margins.
    """
    number_of_word = _numbers_of_words(values or {}, pairwise=pairwise)
    scores: dict[str, float] = {}
    numbers = set[float]()
    for location, row in read_recorded_rows(path):
        if row.get("dimension", dimension) != dimension:
            continue
        cell: object = None
        try:
            if (record := _record_on_dimension(row, dimension)) is None:
                continue
            item_id, cell = str(row["id"]).strip(), _score_cell(record, dimension)
            word = "" if cell is None else str(cell).strip().casefold()
            if word and word not in number_of_word:
                numbers.add(float(word))
            score = number_of_word[word] if word in number_of_word else float(word or math.nan)
            if abs(score) > MAX_SCORE:
                raise ValueError
        except KeyError as error:
            raise RecordingError(
                f"{location}: {error} is not among {joined_names(list(row))}; use the same name in "
                "labels and scores"
            ) from error
        except ValueError as error:
            raise RecordingError(
                f'{location}: expected {{"id", "dimension", "score"}}, with a number as '
                f"score, at most {MAX_SCORE:g}, or one of the labels' words, and not "
                f"{excerpt(cell)}"
            ) from error
        if item_id in scores:
            raise RecordingError(f"{location}: {item_id!r:.60} has two scores")
        scores[item_id] = score
    if not scores:
        raise RecordingError(
            f"{path.name}: no score on {dimension!r}; use the same name in labels and scores"
        )
    if pairwise:
        check_margins(path.name, numbers)
    return scores


def _numbers_of_words(values: WordValues, *, pairwise: bool) -> dict[str, float]:
    """Return the score that each word stands for; what the user says of numbers is for labels."""
    numbers = {word.casefold(): MARGIN_OF_VOTE[word] for word in MARGIN_OF_VOTE if pairwise}
    for word, value in values.items():
        number = MARGIN_OF_VOTE[value] if isinstance(value, str) else value
        if not looks_like_number(word, is_typed=False):
            numbers[word.casefold()] = math.nan if number is None else number
    return numbers


def _record_on_dimension(row: Record, dimension: str) -> Record | None:
    """Return the row, or its entry in `judgements` for the dimension; None if it has none."""
    if "judgements" not in row:
        return row
    judgements = msgspec.convert(row["judgements"], dict[str, Record | None])
    return judgements.get(dimension, judgements.get(judge_name(dimension)))


def _judge_columns(dimension: str) -> list[str]:
    """Return the columns to which `score` may have written a judge's scores."""
    names = (dimension, judge_name(dimension))
    return [column for name in names for column in (f"{name}_judge", name)]


def _score_column(record: Record, dimension: str) -> str:
    """Return the column with the score; a judge's name is made from that of the labels' column.

    A column NAME without a column NAME_failure may hold people's ratings.
    """
    columns = [name for name in _judge_columns(dimension) if f"{name}_failure" in record]
    columns += [name for name in _USUAL_SCORE_COLUMNS if name in record]
    return [*columns, dimension][0]


def _score_cell(record: Record, dimension: str) -> object:
    """Return the cell with the score; raises KeyError if there is none."""
    cell = record[_score_column(record, dimension)]
    return cell["preferred"] if isinstance(cell, dict) else cell


def read_tuned_ids(path: Path, dimension: str) -> frozenset[str]:
    """Return the ids of the rows on which `score` or `winrate` noted that the judge was tuned."""
    tuned_ids = set()
    with suppress(RecordingError, KeyError):  # another tool's file may have rows of another form
        for _, row in read_recorded_rows(path):
            if record := _record_on_dimension(row, dimension):
                column = _score_column(record, dimension)
                prefix = column.removesuffix("_preferred")
                mark = first_value(record, (f"{column}.{TUNED_ON}", f"{prefix}_{TUNED_ON}"))
                if str(record.get(TUNED_ON, mark)).casefold() == "true":
                    tuned_ids.add(str(row["id"]).strip())
    return frozenset(tuned_ids)


def check_margins(name: str, numbers: Iterable[float]) -> None:
    """Raise RecordingError if scores of pairs can hardly be margins, since none is negative."""
    values = sorted({number for number in numbers if not math.isnan(number)})
    if len(values) > 1 and values[0] >= 0:
        raise RecordingError(
            f"{name}: scores of pairs are margins, positive for A, negative for B and 0 for a tie, "
            f"and these are {values[0]:g} to {values[-1]:g}: write 1, -1 and 0, or A, B and tie"
        )


# How judges with other prompts express a rating or a choice in a sentence.
_BEFORE_RATING = (
    r"(?:\((?=\d *\)\.?$)|\b(?:scores?|rating|rated|(?:earn|scor|giv|receiv|deserv|mak)ing|earns"
    r"|gets|receives|deserves|merits|somewhat \w+|yes|good"
    r"|i\b[^,.\n]{0,20}\b(?:give|rate|score|assign))\b,?"
    r"(?: (?:[a-z'-]+|\([^()]*\))){0,6}? \(?(?:an? )?)"
)
_AFTER_CHOICE = (
    r" (?:is|wins|would be)(?: (?:the|clearly|much|slightly|more)){0,2} (?:better|best|preferred)"
    r"(?=[.!,;]|$| (?:than|overall))"
)
# What may follow a rating. A noun may not, because then the number counts things.
_AFTER_RATING = (
    r"(?![\w/%-]|,? (?:or|and) |, \d"
    r"| +(?!for|in|on|as|because|since|due|out|overall|stars?|points?)\w)"
)
# A sentence ends after . ! ? or ;, but not after the number of a list item such as "1. Dull".
_SENTENCE_END = re.compile(r"(?<!^\d\.)(?<=[.!?;])[\"')]{0,2} +", re.MULTILINE)
# Words of clauses that deny, wish or report something, and so do not state the judge's answer; and
# the first words of sentences that only suppose something.
_NOT_AN_ANSWER = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|could|would (?:need|have)|(?:love|want) to|far from"
    r"|doubt|tempted|considered|others?|another|confidence|best|maximum|highest"
    r"|perfect \w+ (?:is|gets)|false|untrue|or|maybe|says?|said|reads|claims|argues|asks)\b|n't\b",
    re.IGNORECASE,
)
_SUPPOSITION_STARTS = ("if ", "unless ", "for example")


def read_choice(text: str, choices: Sequence[str]) -> str:
    """Return the choice that a reply states; raises NoScoreError unless it states one."""
    return str(_read_answer(text, answer_form(tuple(choices), False)))


def _read_answer(text: str, form: AnswerForm, names: Collection[str] = ()) -> float | str:
    """Return the answer that a reply states, in our own judges' format or in a sentence.

    Raises NoScoreError if it states none, or several.
    """
    text = text[slice(*reply_text_span(text))]
    sentences = _SENTENCE_END.sub("\n", text)
    answer = find_answer(text, form, names) or find_answer(sentences, form, names)
    if answer and answer.value is not None:
        return answer.value
    if form.is_numeric:
        pattern = rf"{_BEFORE_RATING}(?P<value>-?{NUMBER_REGEX}){_AFTER_RATING}"
    else:
        choice_pattern = "|".join(map(re.escape, form.choice_by_text))
        pattern = rf"(?:{CANDIDATE_NOUN} )?\(?\b(?P<value>{choice_pattern})\b\)?{_AFTER_CHOICE}"
    values = {
        form.value(match)
        for line in plain_text(sentences, form).splitlines()
        for match in re.finditer(pattern, line, re.IGNORECASE)
        if not _NOT_AN_ANSWER.search(line[: match.end()].rpartition(",")[2])
        and not line.lower().startswith(_SUPPOSITION_STARTS)
        and not line.endswith("?")
    }
    value = values.pop() if len(values) == 1 else None
    if value is None:
        raise NoScoreError(f"no single answer in {quote(text)}")
    return value


def judgement_of(
    replies: Sequence[str],
    scale: Sequence[int],
    *,
    values: WordValues | None = None,
    names: Collection[str] = (),
) -> Judgement:
    """Return the mean of the scores that replies state; other replies are counted.

    Scores between two ratings ("3.5") count, since recorded prompts seldom forbid them. `values`
    holds the ratings that words stand for, and `names` the names of the dimension that a reply may
    put before its score.
    """
    rating_of_word = {
        word: rating for word, rating in (values or {}).items() if isinstance(rating, int | float)
    }
    form = answer_form(tuple(scale), True)
    scores, failures = [], []
    for reply in replies:
        with suppress(NoScoreError):
            if rating_of_word:
                scores.append(rating_of_word[read_choice(reply, list(rating_of_word))])
                continue
        try:
            scores.append(float(_read_answer(reply, form, names)))
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


def preference_of(pair: RecordedReplies, *, values: WordValues | None = None) -> Preference:
    """Return the preference of both orders' replies; a tie if they contradict each other.

    `values` says which words stand for the output shown first ("A"), for the output shown second
    ("B"), or for neither ("tie"). The letters A and B need no entry in `values`.
    """
    vote_of_word = {word: vote for word, vote in (values or {}).items() if isinstance(vote, str)}
    vote_of_choice: dict[str, str] = {"A": "A", "B": "B", **vote_of_word}
    try:
        choices = [read_choice(text, list(vote_of_choice)) for text in pair.replies]
        margin_ab, margin_ba = (MARGIN_OF_VOTE[vote_of_choice[choice]] for choice in choices)
    except NoScoreError as error:
        return Preference.failed(str(error))
    # In the second order, A is the letter of the second output.
    return Preference.from_orders(margin_ab, -margin_ba)


def _rows_on_dimension(path: str | Path, dimension: str | None) -> Iterator[tuple[str, Record]]:
    """Yield each row that does not name another dimension, with its place in the file."""
    for location, row in read_recorded_rows(Path(path)):
        row_dimension = row.get("dimension")
        if dimension in (None, row_dimension) or not isinstance(row_dimension, str):
            if not isinstance(row.get("id"), str | int) or row["id"] == "":
                raise RecordingError(
                    f"{location}: 'id' is missing, so the replies belong to no output"
                )
            yield location, row


def read_recorded_rows(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield each row with its place, which names the file without its folder."""
    try:
        for location, row in read_records(path):
            yield location.replace(str(path), path.name, 1), row
    except RowsError as error:
        raise RecordingError(str(error)) from error


def _read_texts(location: str, row: object, field: str) -> tuple[str, ...]:
    """Return the texts in a field, which holds a text or a list of texts."""
    value = row.get(field) if isinstance(row, dict) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RecordingError(f"{location}: {field!r} must be a text or a list of texts")
    return tuple(texts)
