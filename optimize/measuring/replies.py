"""Read recorded raw replies of any judge, and find the rating or choice that each reply states.

A reply is first read in the format of our own judges' replies. If that fails, a rating or choice is
searched for in sentences that judges with other prompts write: "I would give it a score of 4.",
"Therefore, Output (a) is better." Published tables were often made with parsers that find a number
in nearly any reply, so their figures may differ a little.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from judges.answer import (
    CANDIDATE_NOUN,
    NUMBER_REGEX,
    AnswerPatterns,
    answer_patterns,
    find_answer,
    plain_text,
)
from judges.judgement import AnyJudgement, Judgement, NoScoreError, Preference, quote
from judges.labels.values import WordValues
from judges.reading import reply_text_span
from optimize.items import MARGIN_OF_VOTE
from optimize.measuring.recorded import Recording, RecordingError, rows_on_dimension


def read_replies(
    path: Path, dimension: str | None = None, *, is_pairwise: bool = False
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield ids and raw replies from rows `{"id", "dimension", "replies": [...]}`.

    Rows on pairs are `{"id", "order_ab", "order_ba"}`, with the reply for each order of the
    outputs; an object `judge` may have both orders under the judge's name. Rows that name another
    dimension are skipped.
    """
    for location, item_id, row in rows_on_dimension(path, dimension):
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
    value = record.get(key) if isinstance(record, dict) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RecordingError(f"{location}: {key!r} must be a text or a list of texts")
    return tuple(texts)


def read_reply_judgements(
    path: Path, dimension: str, scale: Sequence[int], value_by_word: WordValues, is_pairwise: bool
) -> Recording:
    """Read a file with any judge's raw replies; several replies to an output are averaged.

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
    return Recording(judgement_by_id)


def judgement_of_replies(
    replies: Sequence[str],
    scale: Sequence[int],
    value_by_word: WordValues | None = None,
    headings: Collection[str] = (),
) -> Judgement:
    """Return the mean of the scores that the replies state; replies without a score are counted.

    Scores between two ratings ("3.5") count, since recorded prompts seldom forbid them. A reply
    may put one of the `headings`, such as the dimension's name, before its score.
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
    if answer:
        return answer[0]
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
