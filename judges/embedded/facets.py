"""The ten facets of quality that the embedded model, a small offline judge, measures in a text."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from judges.embedded.text import read_word_table

FloatArray = NDArray[np.float64]

# Each facet has four numbers. The first is 1 if the facet is about what a text says, and 0 if it is
# about how the text says it. The next two are its weights in the overall impression: of a summary,
# and of an answer in a conversation. The last is the gain of a good text, divided by the loss of an
# equally bad text.
FACETS = {
    # A summary says what matters in the document; an answer has much content.
    "coverage": (1, 0.8, 0.6, 1.0),
    # A summary says only what matters in the document; an answer responds to the last turn.
    "focus": (1, 0.3, 0.4, 1.0),
    # The source supports what the text says; an answer uses the facts in the source.
    "support": (1, 0.2, 0.4, 1.0),
    # All numbers and names in the text are also in the source.
    "truth": (1, 0.1, 0.1, 1.0),
    # The text follows the document's order, from the document's beginning.
    "order": (0, 0.4, 0.0, 0.3),
    # Each sentence is linked to the previous sentence, so the sentences could not be shuffled.
    "connection": (0, 0.5, 0.1, 0.3),
    # The text is not copied from the document; copied sentences do not fit together.
    "rewording": (0, 0.8, 0.0, 1.0),
    # The text says nothing twice.
    "repetition": (0, 0.5, 0.4, 0.3),
    # The text has no faults of grammar, of punctuation and of characters.
    "grammar": (0, 0.6, 0.6, 0.2),
    # The sentences are long and the words varied, as a practised writer writes.
    "style": (0, 1.0, 0.6, 0.3),
}
FACET_NAMES = tuple(FACETS)
INDEX_BY_FACET = {facet_name: index for index, facet_name in enumerate(FACET_NAMES)}
_FACET_COLUMNS = np.array([*FACETS.values()]).T
_IS_ABOUT_CONTENT, _SUMMARY_WEIGHTS, _ANSWER_WEIGHTS, GAIN_LOSS_RATIOS = _FACET_COLUMNS


def _read_facet_words() -> dict[str, FloatArray]:
    """Read how much each word or quoted pattern in a prompt is about each of the facets."""
    shares_by_word: dict[str, FloatArray] = {}
    for facets_and_shares, words in read_word_table("facet_words.txt"):
        facet_shares = np.zeros(len(FACETS))
        for facet_and_share in facets_and_shares.split():
            facet_name, share = facet_and_share.split("=")
            facet_shares[INDEX_BY_FACET[facet_name]] = float(share)
        shares_by_word |= dict.fromkeys(re.findall(r'"[^"]+"|\S+', words), facet_shares)
    return shares_by_word


_SHARES_BY_WORD = _read_facet_words()
_PHRASES = [word for word in _SHARES_BY_WORD if word[0] == '"']
_PHRASE_PATTERN = re.compile("|".join(rf"(\b{phrase[1:-1]}\b)" for phrase in _PHRASES))
_WORD_PATTERN = re.compile(r"[a-z]+(?:-[a-z]+)*")
# The number of mentions of a facet is raised to this power, so that further mentions add less.
MENTION_EXPONENT = 0.5
# The weight of the overall impression. The facets in the prompt have the weight 1 in total.
IMPRESSION_WEIGHT = 1.3
# The share of IMPRESSION_WEIGHT that is lost if a prompt asks only to check facts, since a check of
# facts depends little on the overall impression.
FACT_CHECK_DISCOUNT = 0.85
_IS_FACTUAL = np.isin(FACET_NAMES, ("support", "truth"))


def facet_weights(weighted_texts: Sequence[tuple[str, float]], *, is_answer: bool) -> FloatArray:
    """Return each facet's weight, from what a prompt asks for and from the overall impression."""
    prompt_weights = np.zeros(len(FACETS))
    for text, text_weight in weighted_texts:
        n_mentions = count_mentions(text)
        damped_counts = np.sign(n_mentions) * np.abs(n_mentions) ** MENTION_EXPONENT
        prompt_weights += text_weight * damped_counts / (np.abs(damped_counts).sum() or 1.0)
    prompt_weights /= np.abs(prompt_weights).sum() or 1.0
    prompt_shares = np.abs(prompt_weights)
    factual_share = prompt_shares[_IS_FACTUAL].sum()
    impression_weight = IMPRESSION_WEIGHT * (1 - FACT_CHECK_DISCOUNT * factual_share)
    usual_weights = _ANSWER_WEIGHTS if is_answer else _SUMMARY_WEIGHTS
    impression_weights = usual_weights.copy()
    if prompt_shares.any() and not is_answer:
        # A summary's content counts in the impression only as far as the prompt asks about content.
        impression_weights[_IS_ABOUT_CONTENT == 1] *= prompt_shares @ _IS_ABOUT_CONTENT
    return np.asarray(prompt_weights + impression_weight * impression_weights / usual_weights.sum())


def count_mentions(text: str) -> FloatArray:
    """Return, for each facet, the weighted number of words and phrases that name the facet."""
    text, n_mentions = text.lower(), np.zeros(len(FACETS))
    for match in _PHRASE_PATTERN.finditer(text):
        n_mentions += _SHARES_BY_WORD[_PHRASES[(match.lastindex or 1) - 1]]
    for word in _WORD_PATTERN.findall(_PHRASE_PATTERN.sub("\n", text)):
        # In the table, "fact." is a word, and "fact" the beginning of a word. The longest counts.
        table_words = [f"{word}.", *(word[:length] for length in range(len(word), 0, -1))]
        n_mentions += next((_SHARES_BY_WORD[w] for w in table_words if w in _SHARES_BY_WORD), 0.0)
    return n_mentions
