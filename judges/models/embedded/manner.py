"""Length, detail, ease, interest, tone and how a reply answers: the manner of a text."""

import math

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.text import weight
from judges.models.embedded.words import FUNCTION, POLITE, REFUSING, RUDE


def _expected(seen: Evidence) -> float:
    """How many words such a text has: a share of what it condenses, or a few for a talk's turn."""
    if seen.condenses and seen.document is not None:
        return max(12.0, min(90.0, 0.5 * math.pow(seen.document.text.n_words, 0.8)))
    if seen.condenses:
        return 50.0
    if seen.turns is not None and seen.turns.text.lines > 2:
        return 20.0
    return 50.0


def _length(seen: Evidence) -> float:
    ratio = (seen.text.n_words + 2) / (_expected(seen) + 2)
    return scaled(math.log(ratio), 0.0, 0.5)


def detail(seen: Evidence) -> float:
    """How much is told at all."""
    return _length(seen)


def conciseness(seen: Evidence) -> float:
    """How few words are used, and how few of them are padding."""
    words = [word for s in seen.text.sentences for word in s.words]
    if not words:
        return 0.0
    dense = sum(word not in FUNCTION for word in words) / len(words)
    return -0.8 * _length(seen) + 0.4 * scaled(dense, 0.55, 0.08)


def specificity(seen: Evidence) -> float:
    """Numbers, names and rare words, against everyday ones."""
    stems = seen.text.stems
    if not stems:
        return -1.5
    rare = [weight(stem) for stem in stems]
    exact = sum(stem[0].isdigit() for stem in stems)
    return (
        0.4 * scaled(math.fsum(rare) / len(rare), 0.85, 0.2)
        + 0.3 * scaled(math.log1p(math.fsum(rare)), 2.2, 0.8)
        + 0.3 * scaled(math.log1p(exact), 0.6, 0.6)
    )


def readability(seen: Evidence) -> float:
    """Short sentences of short words."""
    sentences = seen.text.sentences
    if not sentences:
        return 0.0
    words = [word for s in sentences for word in s.words]
    length = len(words) / len(sentences)
    letters = sum(map(len, words)) / len(words)
    longest = max(len(s.words) for s in sentences)
    return (
        0.4 * scaled(length, 18.0, -8.0)
        + 0.3 * scaled(letters, 4.7, -0.7)
        + 0.3 * scaled(float(longest), 28.0, -14.0)
    )


def engagement(seen: Evidence) -> float:
    """What keeps a talk going: something to tell, an own view, a question, some warmth."""
    text = seen.text
    if not text.sentences:
        return -3.0
    words = [word for s in text.sentences for word in s.words]
    tokens = [token for s in text.sentences for token in s.tokens]
    said = math.log1p(math.fsum(weight(stem) for stem in set(text.stems)))
    flat = _refuses(words) or len(words) < 6
    return (
        0.6 * scaled(said, 2.0, 0.7)
        + 0.3 * ("?" in tokens)
        + 0.15 * ("!" in tokens)
        + 0.2 * any(word in {"i", "my", "you", "your"} for word in words)
        - 0.6 * flat
        - 0.3
    )


def naturalness(seen: Evidence) -> float:
    """A turn as people speak: neither a word nor a lecture, not said before, in spoken forms."""
    text = seen.text
    if not text.sentences:
        return -3.0
    words = [word for s in text.sentences for word in s.words]
    far = abs(_length(seen))
    before = seen.turns
    said = 0.0
    if before is not None:
        triples = text.triples
        said = sum(three in before.triples for three in triples) / max(3, len(triples))
    spoken = any(word in {"i", "you", "n't", "'s", "'m", "'re", "yeah", "we"} for word in words)
    return 0.3 - 0.35 * far - 1.5 * said + 0.3 * spoken


def answer(seen: Evidence) -> float:
    """How the text takes up what it answers, the last turn above all, and does not refuse."""
    if seen.turns is None or not seen.text.sentences:
        return 0.0
    told = set(seen.text.stems)
    last = seen.last or seen.turns
    asked = math.fsum(last.salience.values()) or 1.0
    recent = math.fsum(last.salience.get(stem, 0.0) for stem in told) / asked
    whole = math.fsum(weight(stem) for stem in told if stem in seen.turns.where)
    total = math.fsum(weight(stem) for stem in told) or 1.0
    words = [word for s in seen.text.sentences for word in s.words]
    return (
        0.45 * scaled(recent, 0.25, 0.2)
        + 0.35 * scaled(whole / total, 0.4, 0.25)
        - 0.8 * _refuses(words)
        + 0.1
    )


def courtesy(seen: Evidence) -> float:
    """Polite words, and no rude ones."""
    words = [word for s in seen.text.sentences for word in s.words]
    rude = sum(word in RUDE for word in words)
    polite = sum(word in POLITE for word in words)
    return 0.3 - 1.0 * min(3, rude) + 0.4 * min(2, polite)


def structure(seen: Evidence) -> float:
    """Lines, lists and paragraphs that show how a longer text is built."""
    text = seen.text
    if text.n_words < 40:
        return 0.0
    return scaled(math.log1p(text.lines), 1.0, 0.8)


def _refuses(words: list[str]) -> bool:
    whole = " ".join(words[:40])
    return any(refusal in whole for refusal in _REFUSALS)


_REFUSALS = tuple({phrase.replace("n't", " n't").replace("  ", " ") for phrase in REFUSING})
