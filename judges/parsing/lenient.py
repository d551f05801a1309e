"""Lenient readings of a reply, only to reproduce published tables that were made with them.

They find a number in nearly any reply, often a wrong one: `last_digit` takes the 5 of "3/5" and
`first_digit` the 1 of "in 1805 ...". On SummEval that moves GPT-4's dataset-level rho for relevance
from .422 to .427, three replies of 1200 being misread; on Topical-Chat it moves the mean
per-context tau of groundedness from .591 to .566. New judgements are always read strictly.
"""

import re
from collections.abc import Sequence

from judges.judgement import NoScoreError
from judges.parsing.text import shortened


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
