"""The ten facets of quality that the embedded model, a small offline judge, measures in a text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judges.embedded.text import read_word_table

FloatArray = NDArray[np.float64]


class Facet(NamedTuple):
    """How much one facet counts in the overall impression that a text makes.

    `is_about_content` is true if the facet is about what the text says, and not how. The facet has
    `document_weight` for a text that was made from a document, and `turn_weight` for an answer.
    `gain_loss_ratio` divides the gain of a better text by the loss of an equally worse text.
    """

    is_about_content: bool
    document_weight: float
    turn_weight: float
    gain_loss_ratio: float


FACETS = {
    # The text says what matters in the document. An answer says much.
    "coverage": Facet(True, 0.8, 0.6, 1.0),
    # The text says only what matters in the document. An answer responds to the last turn.
    "focus": Facet(True, 0.3, 0.4, 1.0),
    # The source supports what the text says. An answer uses the facts in the source.
    "support": Facet(True, 0.2, 0.4, 1.0),
    # All numbers and names in the text are also in the source.
    "truth": Facet(True, 0.1, 0.1, 1.0),
    # The text follows the document's order, from the document's beginning.
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
INDEX_BY_FACET = {facet_name: index for index, facet_name in enumerate(FACET_NAMES)}
_IS_ABOUT_CONTENT, _DOCUMENT_WEIGHTS, _TURN_WEIGHTS, GAIN_LOSS_RATIOS = np.array(
    list(FACETS.values()), dtype=np.float64
).T


# How much a word or phrase in a prompt asks for each facet, by the index of the facet.
ShareByFacet = dict[int, float]


def _read_facet_words() -> tuple[dict[str, ShareByFacet], dict[str, ShareByFacet]]:
    """Read how much each word, and each phrase, of a prompt asks for each facet."""
    shares_by_word: dict[str, ShareByFacet] = {}
    shares_by_phrase: dict[str, ShareByFacet] = {}
    for facets_and_shares, words_and_phrases in read_word_table("facet_words.txt"):
        pairs = [pair.split("=") for pair in facets_and_shares.split()]
        shares = {INDEX_BY_FACET[facet_name]: float(share) for facet_name, share in pairs}
        shares_by_phrase |= dict.fromkeys(re.findall(r'"([^"]+)"', words_and_phrases), shares)
        words = re.sub(r'"[^"]+"', "", words_and_phrases).split()
        shares_by_word |= dict.fromkeys(words, shares)
    return shares_by_word, shares_by_phrase


_SHARES_BY_WORD, _SHARES_BY_PHRASE = _read_facet_words()
_PHRASE_PATTERN = re.compile("|".join(rf"(\b{phrase}\b)" for phrase in _SHARES_BY_PHRASE))
_PHRASE_SHARES = list(_SHARES_BY_PHRASE.values())
_WORD_PATTERN = re.compile(r"[a-z]+(?:-[a-z]+)*")
# The number of mentions of a facet is raised to this power, so that later mentions add less.
MENTION_EXPONENT = 0.5
# The weight of the overall impression; the facets that the prompt asks for have weight 1 together.
IMPRESSION_WEIGHT = 1.3
# The share of IMPRESSION_WEIGHT that is lost if a prompt asks only to check facts, since a check of
# facts depends little on the overall impression.
FACT_CHECK_DISCOUNT = 0.85
_IS_FACTUAL = np.isin(FACET_NAMES, ("support", "truth"))


def facet_weights(weighted_texts: Sequence[tuple[str, float]], *, is_turn: bool) -> FloatArray:
    """Return the weight of each facet: what a prompt asks for, plus an overall impression."""
    prompt_weights = np.zeros(len(FACETS))
    for text, text_weight in weighted_texts:
        n_mentions = count_mentions(text)
        damped_counts = np.sign(n_mentions) * np.abs(n_mentions) ** MENTION_EXPONENT
        prompt_weights += text_weight * damped_counts / (np.abs(damped_counts).sum() or 1.0)
    prompt_weights /= np.abs(prompt_weights).sum() or 1.0
    prompt_shares = np.abs(prompt_weights)
    factual_share = prompt_shares[_IS_FACTUAL].sum()
    impression_weight = IMPRESSION_WEIGHT * (1 - FACT_CHECK_DISCOUNT * factual_share)
    weights = _TURN_WEIGHTS if is_turn else _DOCUMENT_WEIGHTS
    impression_weights = weights.copy()
    if prompt_shares.any() and not is_turn:
        # A summary's content counts in the impression only as far as the prompt asks about content.
        impression_weights[_IS_ABOUT_CONTENT == 1] *= prompt_shares @ _IS_ABOUT_CONTENT
    return np.asarray(prompt_weights + impression_weight * impression_weights / weights.sum())


def count_mentions(text: str) -> FloatArray:
    """Return, for each facet, the weighted number of words and phrases in a text that name it."""
    text = text.lower()
    mentions = [_PHRASE_SHARES[(m.lastindex or 1) - 1] for m in _PHRASE_PATTERN.finditer(text)]
    other_text = _PHRASE_PATTERN.sub("\n", text)
    mentions += [_shares_of_word(match[0]) for match in _WORD_PATTERN.finditer(other_text)]
    n_mentions = np.zeros(len(FACETS))
    for share_by_facet in mentions:
        for index, share in share_by_facet.items():
            n_mentions[index] += share
    return n_mentions


def _shares_of_word(word: str) -> ShareByFacet:
    """Return how much a word asks for each facet, by the word or its longest known beginning."""
    table_words = [f"{word}.", *(word[:length] for length in range(len(word), 0, -1))]
    return next((_SHARES_BY_WORD[w] for w in table_words if w in _SHARES_BY_WORD), {})
