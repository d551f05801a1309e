"""Read recorded judgements of any judge: files of scores, or of raw replies.

A reply is first read in the format of our own judges' replies. If that fails, a rating or choice is
searched for in sentences that judges with other prompts write: "I would give it a score of 4.",
"Therefore, Output (a) is better." Published tables were often made with parsers that find a number
in nearly any reply, so their figures may differ a little.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dspy_judges.errors import JudgesError
from judges.answer import (
    CANDIDATE_NOUN,
    NUMBER_REGEX,
    AnswerPatterns,
    answer_patterns,
    find_answer,
    plain_text,
)
from judges.frozen import TUNED_ON_KEY
from judges.judgement import (
    MAX_SCORE,
    AnyJudgement,
    Judgement,
    NoScoreError,
    Preference,
    preferred_output,
    quote,
)
from judges.labels.cells import as_object, first_value, is_blank
from judges.labels.names import judge_name
from judges.labels.values import MISSING, NUMBER, WordValues, looks_like_number, parse_cell
from judges.reading import reply_text_span
from judges.tables.formats import read_table
from judges.tables.problems import Problems, RowsError, excerpt, joined_names
from judges.tables.text import Record
from optimize.items import MARGIN_OF_VOTE

JudgementsById = Mapping[str, AnyJudgement]
SAME_NAME = "use the same name in labels and scores"
# If no column has the judge's name, the score is in the first of these columns that the file has.
# The command `winrate` writes `verdict`.
_USUAL_SCORE_COLUMNS = ("score", "verdict", "verdict_preferred", "preferred")


class RecordingError(JudgesError, ValueError):
    """A file of replies or scores that cannot be used; the message names file, line and column."""


class Recording(NamedTuple):
    """Judgements by id from a file, and the ids of the rows that the judge was tuned on."""

    judgement_by_id: JudgementsById
    tuned_ids: frozenset[str] = frozenset()


def judgement_of_score(score: float, is_pairwise: bool, reason: str | None = None) -> AnyJudgement:
    """Return the judgement with this score, or for pairs this margin for A; NaN means failed."""
    if math.isnan(score):
        return (Preference if is_pairwise else Judgement).failed(reason or "no score")
    if not is_pairwise:
        return Judgement(score=score, rationale=reason)
    return Preference(margin=score, preferred=preferred_output(score) or "tie", comparison=reason)


def read_recorded_rows(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield each row with its location: the file without its folder, and the line."""
    problems = Problems(str(path), strict=True)
    try:
        table = read_table(path, problems)
    except RowsError as error:
        raise RecordingError(str(error)) from error
    assert table is not None  # a strict list of problems raises the first one
    for row in table.rows:
        yield f"{path.name}, {problems.unit} {row.line}", row.cells


def _rows_on_dimension(path: Path, dimension: str | None) -> Iterator[tuple[str, str, Record]]:
    """Yield location, id and cells of each row that does not name another dimension."""
    for location, row in read_recorded_rows(path):
        row_dimension = row.get("dimension")
        if isinstance(row_dimension, str) and dimension not in (None, row_dimension):
            continue
        if is_blank(row.get("id")):
            raise RecordingError(
                f"{location}: 'id' is missing; add a column id with the labels' ids, or with their "
                "row numbers from 1 if the labels have no ids"
            )
        yield location, str(row["id"]).strip(), row


def read_own_scores(
    path: Path, dimension: str, value_by_word: WordValues | None = None, is_pairwise: bool = False
) -> Recording:
    """Read rows `{"id", "dimension", "score"}` on a dimension; an empty score becomes NaN.

    `value_by_word` has the score or vote that each word stands for. The score of a pair is its
    margin: 1 or "A", -1 or "B", 0 or "tie". Rows that `dspy-judges score` and `winrate` wrote can
    be read as well.
    """
    number_by_word = _number_by_word(value_by_word or {}, is_pairwise)
    judgement_by_id: dict[str, AnyJudgement] = {}
    tuned_ids, numbers = set[str](), set[float]()
    for location, item_id, row in _rows_on_dimension(path, dimension):
        if (record := _record_on_dimension(row, dimension)) is None:
            continue
        if (column := _score_column(record, dimension)) not in record:
            columns_text = joined_names(list(row))
            raise RecordingError(f"{location}: {column!r} is not among {columns_text}; {SAME_NAME}")
        cell = record[column]
        if isinstance(cell, dict):
            cell = cell.get("preferred", cell)
        if (score := score_of_cell(cell, number_by_word)) is None:
            raise RecordingError(
                f'{location}: expected {{"id", "dimension", "score"}}, with a number as '
                f"score, at most {MAX_SCORE:g}, or one of the labels' words, and not "
                f"{excerpt(cell)}; give other words a number, as in --values pass=1,fail=0"
            )
        if item_id in judgement_by_id:
            raise RecordingError(f"{location}: {item_id!r:.60} has two scores")
        judgement_by_id[item_id] = judgement_of_score(score, is_pairwise)
        if looks_like_number(cell) and not math.isnan(score):
            numbers.add(score)
        if _is_tuned_on(record, column):
            tuned_ids.add(item_id)
    if not judgement_by_id:
        raise RecordingError(f"{path.name}: no score on {dimension!r}; {SAME_NAME}")
    if is_pairwise:
        _check_margins(path.name, sorted(numbers))
    return Recording(judgement_by_id, frozenset(tuned_ids))


def score_of_cell(cell: object, number_by_word: Mapping[str, float]) -> float | None:
    """Return the number that a cell stands for: NaN for a blank cell, None if it is not a score."""
    if is_blank(cell):
        return math.nan
    word = str(cell).strip().casefold()
    if word in number_by_word:
        return number_by_word[word]
    parsed_cell = parse_cell(cell)
    if parsed_cell.kind == MISSING:
        return math.nan
    if parsed_cell.kind != NUMBER or abs(parsed_cell.number) > MAX_SCORE:
        return None
    return parsed_cell.number


def _number_by_word(value_by_word: WordValues, is_pairwise: bool) -> dict[str, float]:
    """Return the score that each word stands for."""
    votes = MARGIN_OF_VOTE if is_pairwise else {}
    number_by_word = {vote.casefold(): margin for vote, margin in votes.items()}
    for word, value in value_by_word.items():
        number = MARGIN_OF_VOTE[value] if isinstance(value, str) else value
        # Numbers in --values are those of labels; a score that is a number counts as it is.
        if not looks_like_number(word):
            number_by_word[word.casefold()] = math.nan if number is None else number
    return number_by_word


def _record_on_dimension(row: Record, dimension: str) -> Mapping[str, object] | None:
    """Return the row, or its entry in `judgements` for the dimension; None if there is no entry."""
    if (judgements := as_object(row.get("judgements"))) is None:
        return row
    return as_object(judgements.get(dimension, judgements.get(judge_name(dimension))))


def _score_column(record: Mapping[str, object], dimension: str) -> str:
    """Return the column with the score; the dimension's name if there is none."""
    # `score` writes a column NAME_judge if people's ratings are in NAME, and NAME_judge_failure.
    # NAME is the judge's name, which is made from the name of the labels' column.
    for name in (dimension, judge_name(dimension)):
        for column in (f"{name}_judge", name):
            if f"{column}_failure" in record:
                return column
    return next((column for column in _USUAL_SCORE_COLUMNS if column in record), dimension)


def _is_tuned_on(record: Mapping[str, object], column: str) -> bool:
    """Return whether `score` or `winrate` noted that the judge was tuned on the row."""
    prefix = column.removesuffix("_preferred")
    mark_columns = TUNED_ON_KEY, f"{column}.{TUNED_ON_KEY}", f"{prefix}_{TUNED_ON_KEY}"
    return str(first_value(record, mark_columns)).casefold() == "true"


def _check_margins(file_name: str, numbers: Sequence[float]) -> None:
    """Raise RecordingError if no score is negative, since margins favour A as well as B."""
    if len(numbers) > 1 and numbers[0] >= 0:
        raise RecordingError(
            f"{file_name}: scores of pairs are margins, positive for A, negative for B, 0 for a "
            f"tie; these are {numbers[0]:g} to {numbers[-1]:g}: write 1, -1 and 0, or A, B and tie"
        )


def read_replies(
    path: Path, dimension: str | None = None, *, is_pairwise: bool = False
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield ids and raw replies from rows `{"id", "dimension", "replies": [...]}`.

    Rows on pairs are `{"id", "order_ab", "order_ba"}`, with the reply for each order of the
    outputs; an object `judge` may have both orders under the judge's name. Rows that name another
    dimension are skipped.
    """
    for location, item_id, row in _rows_on_dimension(path, dimension):
        if not is_pairwise:
            yield item_id, _read_texts(location, row, "replies")
            continue
        judge = row.get("judge")
        record = next(iter(judge.values())) if isinstance(judge, dict) and len(judge) == 1 else row
        texts_ab = _read_texts(location, record, "order_ab")
        texts_ba = _read_texts(location, record, "order_ba")
        if len(texts_ab) != 1 or len(texts_ba) != 1:
            raise RecordingError(f"{location}: 'order_ab' and 'order_ba' must hold one text each")
        yield item_id, (*texts_ab, *texts_ba)


def _read_texts(location: str, record: object, key: str) -> tuple[str, ...]:
    """Return the texts under a key of the record: one text, or a list of texts."""
    value = record.get(key) if isinstance(record, dict) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RecordingError(f"{location}: {key!r} must be a text or a list of texts")
    return tuple(texts)


def judgements_from_replies(
    path: Path, dimension: str, scale: Sequence[int], value_by_word: WordValues, is_pairwise: bool
) -> JudgementsById:
    """Read judgements by id from a file with any judge's raw replies, averaged for each output.

    `value_by_word` has the rating or vote that each word stands for; numbers always count.
    """
    judgement_by_id: dict[str, AnyJudgement] = {}
    for item_id, replies in read_replies(path, dimension, is_pairwise=is_pairwise):
        if item_id in judgement_by_id:
            raise RecordingError(
                f"{path.name}: {item_id!r:.60} is recorded twice; keep one record for each id, and "
                "put replies to different prompts into separate files"
            )
        if is_pairwise:
            judgement_by_id[item_id] = preference_of_replies(replies, value_by_word)
        else:
            judgement = judgement_of_replies(replies, scale, value_by_word, headings=(dimension,))
            judgement_by_id[item_id] = judgement
    if not judgement_by_id:
        raise RecordingError(f"{path.name}: no replies on {dimension!r}")
    return judgement_by_id


def judgement_of_replies(
    replies: Sequence[str],
    scale: Sequence[int],
    value_by_word: WordValues | None = None,
    headings: Collection[str] = (),
) -> Judgement:
    """Return the mean of the scores that the replies state; replies without a score are counted.

    Scores between two ratings ("3.5") count, since recorded prompts seldom forbid them. `headings`
    are names of the dimension, which a reply may put before its score.
    """
    values = (value_by_word or {}).items()
    rating_by_word = {word: value for word, value in values if isinstance(value, int | float)}
    patterns = answer_patterns(tuple(scale), allow_fractions=True)
    scores, failures = [], []
    for reply in replies:
        # A reply that states none of the words may state a number.
        with suppress(NoScoreError):
            if rating_by_word:
                scores.append(rating_by_word[read_choice(reply, list(rating_by_word))])
                continue
        try:
            scores.append(float(_read_answer(reply, patterns, headings)))
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


def preference_of_replies(replies: Sequence[str], value_by_word: WordValues) -> Preference:
    """Return the preference by the replies in both orders; a tie if the two orders disagree.

    `value_by_word` has words for the output shown first ("A"), the second ("B") and for a tie.
    """
    votes = {word: value for word, value in value_by_word.items() if isinstance(value, str)}
    vote_by_choice: dict[str, str] = {"A": "A", "B": "B", **votes}
    try:
        choices = [read_choice(reply, list(vote_by_choice)) for reply in replies]
    except NoScoreError as error:
        return Preference.failed(str(error))
    margin_ab, margin_ba = (MARGIN_OF_VOTE[vote_by_choice[choice]] for choice in choices)
    # In the second order, A is the letter of the second output.
    return Preference.from_orders(margin_ab, -margin_ba)


def read_choice(reply: str, choices: Sequence[str]) -> str:
    """Return the choice that a reply states; raises NoScoreError unless it states one."""
    return str(_read_answer(reply, answer_patterns(tuple(choices)), ()))


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


def _read_answer(reply: str, patterns: AnswerPatterns, headings: Collection[str]) -> float | str:
    """Return the only answer that a reply states, in our own judges' format or in a sentence."""
    text = reply[slice(*reply_text_span(reply))]
    sentences = _SENTENCE_END.sub("\n", text)
    answer = find_answer(text, patterns, headings) or find_answer(sentences, patterns, headings)
    if answer and answer.value is not None:
        return answer.value
    values = set(_values_in_sentences(plain_text(sentences, patterns), patterns))
    value = values.pop() if len(values) == 1 else None
    if value is None:
        raise NoScoreError(f"no single answer in {quote(text)}")
    return value


def _values_in_sentences(text: str, patterns: AnswerPatterns) -> Iterator[float | str | None]:
    """Yield the answers that sentences state; each line of the text is a sentence."""
    if patterns.is_numeric:
        pattern = rf"{_BEFORE_RATING}(?P<value>-?{NUMBER_REGEX}){_AFTER_RATING}"
    else:
        choice_pattern = "|".join(map(re.escape, patterns.choice_by_text))
        pattern = rf"(?:{CANDIDATE_NOUN} )?\(?\b(?P<value>{choice_pattern})\b\)?{_AFTER_CHOICE}"
    for sentence in text.splitlines():
        if sentence.endswith("?") or sentence.lower().startswith(_SUPPOSITION_STARTS):
            continue
        for match in re.finditer(pattern, sentence, re.IGNORECASE):
            clause = sentence[: match.end()].rpartition(",")[2]
            if not _NOT_AN_ANSWER.search(clause):
                yield patterns.stated_value(match)
