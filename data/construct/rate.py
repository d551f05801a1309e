"""Rate a composed summary from what was done to it; the starter README tells the same in words."""

from collections.abc import Sequence
from itertools import combinations, pairwise

from data.construct.compose import Sentence, Summary
from data.construct.documents import Source
from data.construct.grammar import FAULTS

# A summary need not tell everything: this share of the points' weight earns full marks.
ENOUGH = 0.8
# A gist tells several points in few words, hence less of each.
IN_PASSING = 0.85


def ratings(source: Source, summary: Summary) -> dict[str, float]:
    """The four ratings, in quarters from 1 to 5."""
    return {
        "coherence": _quarters(coherence(source, summary)),
        "consistency": _quarters(consistency(summary)),
        "fluency": _quarters(fluency(summary)),
        "relevance": _quarters(relevance(source, summary)),
    }


def relevance(source: Source, summary: Summary) -> float:
    told = min(1.0, coverage(source, summary, wrong=0.5) / ENOUGH)
    return 1 + 4 * told - 0.6 * details(summary) - 0.25 * n_repeats(summary)


def consistency(summary: Summary) -> float:
    n_words = sum(sentence.n_words for sentence in summary)
    untrue = sum(sentence.n_words * _untruth(sentence) for sentence in summary)
    return 5 - 6 * untrue / n_words - 0.25 * n_dangling(summary)


def fluency(summary: Summary) -> float:
    spoiled = sum(_severity(sentence) for sentence in summary)
    return 5 - 5 * spoiled / max(2, len(summary))


def coherence(source: Source, summary: Summary) -> float:
    lost = (
        2.5 * inversions(summary)
        + 0.5 * n_dangling(summary)
        + 0.5 * n_repeats(summary)
        + 0.25 * n_interruptions(summary)
        + 0.25 * n_jumps(summary)
        + 0.5 * _starts_late(summary)
        + 0.5 * (len(summary) == 1)
        + 0.25 * sum(_loses(sentence) for sentence in summary)
    )
    if summary[0].role == "extract" and source.kind == "dialogue":
        lost += 1
    return 5 - lost


def coverage(source: Source, summary: Summary, *, wrong: float) -> float:
    """The share of the points' weight that is told, a contradicted point counting `wrong`."""
    n_points = len(source.points)
    credit = [0.0] * n_points
    for sentence in summary:
        earned = 1.0 if len(sentence.covers) == 1 or sentence.role == "extract" else IN_PASSING
        earned *= (wrong if sentence.wrong else 1) * (0.5 if _loses(sentence) else 1)
        for i in sentence.covers:
            credit[i] = max(credit[i], earned)
    weights = range(n_points, 0, -1)
    return sum(w * c for w, c in zip(weights, credit, strict=True)) / sum(weights)


def details(summary: Summary) -> float:
    """How many sentences tell nothing important; an extracted one counts three fifths."""
    strays = sum(sentence.role in ("trivia", "invented") for sentence in summary)
    return strays + 0.6 * sum(s.role == "extract" and not s.covers for s in summary)


def n_repeats(summary: Summary) -> int:
    """Sentences all of whose points an earlier one has told."""
    seen: set[int] = set()
    repeats = 0
    for sentence in summary:
        repeats += bool(sentence.covers) and seen.issuperset(sentence.covers)
        seen.update(sentence.covers)
    return repeats


def inversions(summary: Summary) -> float:
    """The share of pairs of sentences that stand in the wrong order."""
    order = [min(sentence.covers) for sentence in _telling(summary)]
    pairs = list(combinations(order, 2))
    return sum(first > second for first, second in pairs) / len(pairs) if pairs else 0.0


def n_dangling(summary: Summary) -> int:
    """Continuations that do not follow what they continue."""
    orphans = bool(summary[0].linked)
    return orphans + sum(
        after.linked and before.covers != (after.covers[0] - 1,)
        for before, after in pairwise(summary)
    )


def n_interruptions(summary: Summary) -> float:
    """Stray sentences, those at the very end counting half."""
    strays = [sentence.role in ("trivia", "invented") for sentence in summary]
    return sum(strays[:-1]) + 0.5 * strays[-1]


def n_jumps(summary: Summary) -> int:
    """Steps over a point that was never told, or over sentences of the document."""
    told = {i for sentence in summary for i in sentence.covers}
    jumps = sum(
        any(i not in told for i in range(max(before.covers) + 1, min(after.covers)))
        for before, after in pairwise(_telling(summary))
    )
    extracts = [sentence.place for sentence in summary if sentence.role == "extract"]
    return jumps + sum(after - before > 1 for before, after in pairwise(extracts))


def _telling(summary: Summary) -> Sequence[Sentence]:
    return [s for s in summary if s.role == "told" and not s.repeat]


def _starts_late(summary: Summary) -> bool:
    """Whether the first sentence, extracts apart, tells anything but the main point."""
    first = summary[0]
    return first.role != "extract" and 0 not in first.covers


def _untruth(sentence: Sentence) -> float:
    if sentence.wrong or sentence.role == "invented":
        return 1.0
    return 0.2 if _loses(sentence) else 0.0


def _severity(sentence: Sentence) -> float:
    if sentence.fault:
        return FAULTS[sentence.fault].severity
    # Headings and other fragments, copied as they stand.
    return 0.0 if sentence.text.endswith((".", "!", "?", '"')) else 0.25


def _loses(sentence: Sentence) -> bool:
    return sentence.fault is not None and FAULTS[sentence.fault].loses


def _quarters(rating: float) -> float:
    return round(4 * min(5.0, max(1.0, rating))) / 4
