"""Tell by the words of a heading whether the value after it is a judge's answer: "Rating: 4"."""

import re
from enum import IntEnum


class Heading(IntEnum):
    """The kinds of headings before answers. Only answers of the highest kind in a reply count."""

    NONE = 0  # no heading
    UNRELATED = 1  # such as "Word count"; a value under it makes answers of the kind OTHER unclear
    OTHER = 2  # such as "Tone"; also an answer that opens the reply
    ANSWER = 3  # such as "Rating" or the dimension's name; also an answer alone on its line
    FINAL = 4  # such as "Final rating" or "Overall"


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words in the heading of a final answer, and in the heading of an answer.
_FINAL_WORDS = _word_set("final overall revised updated corrected correction edit")
_ANSWER_WORDS = _word_set(
    "rating ratings rate score scores grade mark answer verdict result judgement judgment label"
    " evaluation assessment preferred preference choice winner decision best"
)
# Words in a heading that do not tell whether an answer follows.
_NEUTRAL_WORDS = _word_set(
    "the a an my your our is i it for of on this here s total would give to level"
)
# Words in headings of something other than the answer: "word count", "previous rating".
_NON_ANSWER_WORDS = _word_set(
    "number count amount sum mean average percentage ratio confidence certainty probability length"
    " page chapter section line paragraph sentence step item example case figure question part rule"
    " criterion id rank position version year month day date time age maximum max minimum min"
    " highest lowest possible threshold scale baseline first second third draft initial previous"
    " original expected target reason reasoning explanation feedback document prompt instruction"
    " user human author annotator expert ideal reference alternative requested error attempt"
    " priority injected iteration"
)
# Words in a heading of an answer that is quoted, denied, hypothetical, or the worse of two.
_DENYING_WORDS = _word_set(
    "says say claims claimed states reads wrote asks wants contains ends example if not no never"
    " less least worse worst weaker loser rejected before after"
)
# The end of a heading in the plural, after which a number counts things: "errors", "errors found".
# "Correctness", "analysis" and "ethics" are not plurals.
_PLURAL_NOUN = re.compile(r"[^siu]s(?<!ics)(?: \w+ed| found| made)?\Z")


def heading_kind(heading: str, answer_names: frozenset[str]) -> Heading:
    """Return the kind of a heading with this text; `answer_names` are names of the answer."""
    words = re.findall(r"[^\W_]+", heading.lower())
    content_words = set(words) - _NEUTRAL_WORDS
    is_no_name = not content_words or len(words) > 9 or re.search(r"\d|^[a-z]$", " ".join(words))
    # The head noun is "clarity" in "clarity of terms", and "count" in "word count".
    phrase = re.split(r" (?:of|in|for|to|across|between|from|with)\b", " ".join(words))[0]
    nouns = [word for word in phrase.split() if word not in _NEUTRAL_WORDS]
    head_noun = nouns[-1] if nouns else "number"
    answer_words = _ANSWER_WORDS | answer_names
    is_denied = content_words & _DENYING_WORDS - answer_names
    is_count = head_noun not in answer_words and _PLURAL_NOUN.search(phrase)
    non_answer_words = content_words & _NON_ANSWER_WORDS - answer_names
    is_of_something_else = non_answer_words and head_noun in _NON_ANSWER_WORDS | _ANSWER_WORDS
    if is_no_name or is_denied or is_count or is_of_something_else:
        return Heading.UNRELATED
    if content_words & _FINAL_WORDS:
        return Heading.FINAL
    return Heading.ANSWER if content_words <= answer_words else Heading.OTHER
