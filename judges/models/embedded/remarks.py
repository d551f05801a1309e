"""Say in one sentence which facets decided: for rationales and comparisons."""

import numpy as np

from judges.models.embedded.facets import Vector
from judges.models.embedded.judge import Opinion
from judges.models.embedded.phrases import PHRASES

LEAST_PART = 0.05


def rationale(opinion: Opinion, name: str) -> str:
    """What speaks for and against the one text."""
    good, bad = _sides(opinion.parts)
    what = f"The {name.replace('_', ' ')}"
    praise = _listed([PHRASES[i].asks for i in good])
    blame = _listed([PHRASES[i].weakness for i in bad])
    if praise and blame:
        return f"{what} {praise}, but it {blame}."
    if praise or blame:
        return f"{what} {praise or blame}."
    return f"{what} is ordinary in every respect."


def comparison(opinion: Opinion, word: str) -> str:
    """Which of the two is preferred, and by what; the same whichever stands first."""
    first = opinion.latent >= 0
    better, worse = ("A", "B") if first else ("B", "A")
    good, bad = _sides(opinion.parts if first else -opinion.parts)
    title = word.replace("_", " ").capitalize()
    if not good and not bad:
        return f"{title} A and {word} B are alike in every respect."
    praise = _listed([PHRASES[i].strength for i in good])
    blame = _listed([PHRASES[i].strength for i in bad[:1]])
    though = f", though {word} {worse} {blame}" if blame else ""
    return f"{title} {better} {praise or 'is slightly better on the whole'}{though}."


def _sides(parts: Vector) -> tuple[list[int], list[int]]:
    """The two facets that speak most for, and the two most against."""
    order = np.argsort(-parts, kind="stable")
    good = [int(i) for i in order[:2] if parts[i] > LEAST_PART]
    bad = [int(i) for i in order[::-1][:2] if parts[i] < -LEAST_PART]
    return good, bad


def _listed(phrases: list[str]) -> str:
    return " and ".join(phrases)
