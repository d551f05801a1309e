"""The ten facets of a text's quality, and how much a prompt asks for each of them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judges.embedded.text import read_word_table

FloatArray = NDArray[np.float64]


class Facet(NamedTuple):
    """How much a facet counts in the overall impression that a text makes.

    `is_content` is true if the facet is about what the text says, and not how. `document_weight` is
    for a text that was made from a document, `turn_weight` for an answer. `bonus` is the gain of a
    better text, relative to the loss of an equally worse text; it is small for what all expect.
    """

    is_content: bool
    document_weight: float
    turn_weight: float
    bonus: float


FACETS = {
    # The text says what matters in the document. A turn of a conversation says much.
    "coverage": Facet(True, 0.8, 0.6, 1.0),
    # The text says only what matters in the document. A turn responds to the last turn.
    "focus": Facet(True, 0.3, 0.4, 1.0),
    # The source supports what the text says. A turn uses the facts in the source.
    "support": Facet(True, 0.2, 0.4, 1.0),
    # All numbers and names in the text are also in the source.
    "truth": Facet(True, 0.1, 0.1, 1.0),
    # The sentences have the same order as in the document, and begin with the document's beginning.
    "order": Facet(False, 0.4, 0.0, 0.3),
    # Each sentence is linked to the previous sentence, so the sentences could not be shuffled.
    "connection": Facet(False, 0.5, 0.1, 0.3),
    # The text is not copied from the document; copied sentences do not fit together.
    "rewording": Facet(False, 0.8, 0.0, 1.0),
    # The text says nothing twice.
    "repetition": Facet(False, 0.5, 0.4, 0.3),
    # The text has no faults of grammar, of punctuation and of characters.
    "grammar": Facet(False, 0.6, 0.6, 0.2),
    # The sentences are long and the words varied, as a practised writer writes.
    "style": Facet(False, 1.0, 0.6, 0.3),
}
FACET_NAMES = tuple(FACETS)
FACET_INDEX = {name: index for index, name in enumerate(FACET_NAMES)}
_IS_CONTENT, _DOCUMENT_WEIGHTS, _TURN_WEIGHTS, FACET_BONUSES = np.array(
    list(FACETS.values()), dtype=np.float64
).T


# How much a word or phrase in a prompt asks for each facet, by the index of the facet.
FacetShares = dict[int, float]


def _read_facet_words() -> tuple[dict[str, FacetShares], dict[str, FacetShares]]:
    """Return the shares of facets by words, and by phrases, which are regular expressions.

    A word stands for all words that begin with it, unless it ends in a full stop.
    """
    words: dict[str, FacetShares] = {}
    phrases: dict[str, FacetShares] = {}
    for facet_shares, terms in read_word_table("facet_words.txt"):
        pairs = [item.split("=") for item in facet_shares.split()]
        shares = {FACET_INDEX[name]: float(share) for name, share in pairs}
        phrases |= dict.fromkeys(re.findall(r'"([^"]+)"', terms), shares)
        words |= dict.fromkeys(re.sub(r'"[^"]+"', "", terms).split(), shares)
    return words, phrases


_SHARES_BY_WORD, _SHARES_BY_PHRASE = _read_facet_words()
_PHRASE = re.compile("|".join(rf"(\b{phrase}\b)" for phrase in _SHARES_BY_PHRASE))
_PHRASE_SHARES = list(_SHARES_BY_PHRASE.values())
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
# The number of mentions of a facet is raised to this power, so that later mentions add less.
MENTION_EXPONENT = 0.5
# The weight of the overall impression, compared with 1 for the facets that the prompt asks for.
IMPRESSION_WEIGHT = 1.3
# The share of the weight IMPRESSION_WEIGHT that is lost if a prompt asks only to check facts, since
# a check of facts depends little on the overall impression.
FACT_CHECK_DISCOUNT = 0.85
_IS_FACTUAL = np.isin(FACET_NAMES, ("support", "truth"))


def facet_weights(texts: Sequence[tuple[str, float]], *, is_turn: bool) -> FloatArray:
    """Return the weights of the facets: what a prompt's texts ask for, plus an overall impression.

    `texts` are pairs of a text and its weight. `is_turn` is true if the judged text is an answer.
    """
    prompt_weights = np.zeros(len(FACETS))
    for text, text_weight in texts:
        counts = count_mentions(text)
        damped_counts = np.sign(counts) * np.abs(counts) ** MENTION_EXPONENT
        prompt_weights += text_weight * damped_counts / (np.abs(damped_counts).sum() or 1.0)
    prompt_weights /= np.abs(prompt_weights).sum() or 1.0
    shares = np.abs(prompt_weights)
    impression = IMPRESSION_WEIGHT * (1 - FACT_CHECK_DISCOUNT * shares[_IS_FACTUAL].sum())
    weights = _TURN_WEIGHTS if is_turn else _DOCUMENT_WEIGHTS
    # The impression of a summary's content counts only as far as the prompt asks about content.
    content_share = 1.0 if is_turn or not shares.any() else shares @ _IS_CONTENT
    impression_weights = np.where(_IS_CONTENT, content_share * weights, weights)
    return np.asarray(prompt_weights + impression * impression_weights / weights.sum())


def count_mentions(text: str) -> FloatArray:
    """Return, for each facet, the weighted number of words and phrases in a text that name it."""
    counts = np.zeros(len(FACETS))
    text = text.lower()
    mentions = [_PHRASE_SHARES[(match.lastindex or 1) - 1] for match in _PHRASE.finditer(text)]
    mentions += [_facet_shares(match[0]) for match in _WORD.finditer(_PHRASE.sub("\n", text))]
    for shares in mentions:
        for index, share in shares.items():
            counts[index] += share
    return counts


def _facet_shares(word: str) -> FacetShares:
    """Return how much a word asks for each facet, by the word or its longest known beginning."""
    terms = [f"{word}.", *(word[:length] for length in range(len(word), 0, -1))]
    return next((_SHARES_BY_WORD[term] for term in terms if term in _SHARES_BY_WORD), {})
