"""Measure the features of a text: numbers from which the facets of its quality are computed."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from judges.embedded.facets import FACET_BONUSES, FACET_INDEX, FloatArray
from judges.embedded.grammar import form_severity, grammar_severity, n_function_words
from judges.embedded.text import (
    FUNCTION_WORDS,
    WORDS,
    Sentence,
    SourceIndex,
    SplitText,
    index_source_text,
    split_sentences,
    stem_of,
    stem_weight,
    total_weight,
)

# The number of sentences at the beginning of a text that are compared with its source.
MAX_SENTENCES = 60


class SentenceMatch(NamedTuple):
    """The sentence of a source that is most similar to a given sentence of the judged text.

    `source_index` is -1 without a shared stem. `share` is the weight of the words that the two
    sentences have in common, divided by the weight of the given sentence. `shared_weights` maps the
    index of each source sentence to the weight of the words that it has in common with this one.
    """

    source_index: int
    share: float
    shared_weights: dict[int, float]


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text that is judged, with the sources that it is compared with.

    `matches` has a match for each of `sentences`. The text was made from the `document`, answers
    the conversation `turns`, and should use the `knowledge`; `source` is all three together.
    """

    text: SplitText
    sentences: list[Sentence]
    stems: Counter[str]
    matches: list[SentenceMatch]
    document: SourceIndex | None
    turns: SourceIndex | None
    last_turn: SourceIndex | None
    knowledge: SourceIndex | None
    source: SourceIndex | None


def _match_sentence(sentence: Sentence, source: SourceIndex) -> SentenceMatch:
    """Match a sentence with the first source sentence whose shared weight is almost the largest."""
    shared_weights: dict[int, float] = defaultdict(float)
    stems = dict.fromkeys(sentence.stems)
    for stem in stems:
        weight = stem_weight(stem)
        for index in source.sentence_indices.get(stem, ()):
            shared_weights[index] += weight
    if not shared_weights:
        return SentenceMatch(-1, 0.0, shared_weights)
    # The first of several similar sentences is taken, since articles often make a point briefly at
    # the beginning and repeat it later.
    threshold = 0.85 * max(shared_weights.values())
    best_index = min([index for index, shared in shared_weights.items() if shared >= threshold])
    share = shared_weights[best_index] / total_weight(stems)
    return SentenceMatch(best_index, share, shared_weights)


def _content_features(output: OutputText, document: SourceIndex) -> Iterable[float]:
    """Return three features: similarity to the document, its coverage, and mean salience.

    The similarity is 1 minus the Jensen-Shannon divergence, in bits, between the distributions of
    stems. Of the measures without a reference text, this one ranks summarizers most like people who
    judge content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    n_stems, frequency = len(output.text.stems), document.frequency
    similarity = salience = 0.0
    for stem, count in output.stems.items():
        if stem in frequency:
            p, q = count / n_stems, frequency[stem] / document.n_stems
            similarity -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
            salience += p * min(2.5, document.salience[stem] * document.n_salient)
    # For each source sentence, the largest weight that it shares with any sentence of the text.
    shared_weights: dict[int, float] = defaultdict(float)
    for match in output.matches:
        for index, shared_weight in match.shared_weights.items():
            shared_weights[index] = max(shared_weights[index], shared_weight)
    coverage = sum(
        [
            document.importances[index] * min(1.0, shared_weight / document.covering_weights[index])
            for index, shared_weight in shared_weights.items()
            # Indices are those of the source, which begins with the document and may be longer.
            if index < len(document.importances)
        ]
    )
    return similarity, coverage, salience


def _support_features(output: OutputText, source: SourceIndex) -> Iterable[float]:
    """Return four features of how far the source supports the text.

    The features are the shares of stems and of word pairs that are in the source, the share of new
    word pairs, and the number of names and numbers per sentence that the source lacks. A name is a
    capitalised word within a sentence.
    """
    sizes = [len(sentence.stems) for sentence in output.sentences]
    support = sum([match.share * size for match, size in zip(output.matches, sizes, strict=True)])
    bigrams = output.text.bigrams
    source_pair_share = sum(map(source.bigrams.__contains__, bigrams)) / max(1, len(bigrams))
    total_new_names = sum([_count_new_names(sentence, source) for sentence in output.sentences])
    # The share of new word pairs is cut at 30 %, since a higher share makes a text no better.
    new_pair_share = min(1 - source_pair_share, 0.3)
    mean_new_names = total_new_names / (len(sizes) + 1)
    return support / (sum(sizes) or 1), source_pair_share, new_pair_share, mean_new_names


def _count_new_names(sentence: Sentence, source: SourceIndex) -> float:
    """Return the number of names (each counts half) and numbers that the source lacks."""
    n_new_names = 0.0
    for token in sentence.tokens[1:]:
        if token[0].isdigit() or token[0].isupper():
            name = token.lower()
            is_known = name in source.words or name in FUNCTION_WORDS
            if not (is_known or stem_of(name) in source.frequency):
                n_new_names += 1.0 if name[0].isdigit() else 0.5
    return min(2.0, n_new_names)


def _answer_features(output: OutputText, turns: SourceIndex) -> Iterable[float]:
    """Return three features: content, overlap with the last turn, and facts not in the turns."""
    stems, salience = output.stems, (output.last_turn or turns).salience
    overlap = sum([salience.get(stem, 0.0) for stem in stems]) / (sum(salience.values()) or 1.0)
    facts = (output.knowledge or output.document or turns).frequency.keys() - turns.frequency
    fact_use = total_weight(filter(facts.__contains__, stems))
    return math.log1p(total_weight(stems)), overlap, math.log1p(fact_use)


def _order_features(output: OutputText, document: SourceIndex) -> Iterable[float]:
    """Return four features of how well the text follows the order of the document.

    The features are the share of sentence pairs in reversed order, how late in the document the
    matches are, how near the matches of neighbouring sentences are, and the log number of
    sentences, since more sentences can more often be in a wrong order.
    """
    indices = [match.source_index for match in output.matches if match.share > 0.2]
    reversed_pairs = [a > b for a, b in combinations(indices, 2)]
    nearness = [
        1 / (1 + abs(b.source_index - a.source_index - 1) / 1.5)
        if min(a.source_index, b.source_index) >= 0
        else 0.0
        for a, b in pairwise(output.matches)
    ]
    return (
        _mean(reversed_pairs, default=0.25),
        _mean([*map(math.log1p, indices)], default=2.0),
        _mean(nearness, default=0.6),
        math.log(len(output.sentences)),
    )


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def _wording_features(output: OutputText, text: SplitText) -> Iterable[float]:
    """Return seven features of the wording of the text, in the order of FEATURES."""
    stems, sentences = text.stems, output.sentences
    links: list[float] = []
    for first, second in pairwise(sentences):
        second_stems, first_stems = dict.fromkeys(second.stems), set(first.stems)
        shared_stems = [stem for stem in second_stems if stem in first_stems]
        # Two sentences are linked by shared stems, or by a connective in the second.
        link = 0.5 * min(1.0, total_weight(shared_stems))
        link += 0.5 * (not WORDS["connectives"].isdisjoint(second.words[:2]))
        # The link counts half if the second sentence says hardly anything new.
        links.append(link * (1.0 if len(second_stems) - len(shared_stems) > 1 else 0.5))
    stem_pairs = list(pairwise(stems))
    n_short = sum([len(sentence.words) < 9 for sentence in sentences])
    return (
        _mean(links, default=0.4),
        (len(sentences) > 1) * n_short / len(sentences),
        (len(stems) - len(output.stems)) / max(4, len(stems)),
        (len(stem_pairs) - len(set(stem_pairs))) / max(4, len(stem_pairs)),
        math.log(len(text.words) / len(text.sentences) + 1),
        # The number of distinct stems over the root of all stems hardly depends on text length.
        len(output.stems) / math.sqrt(max(1, len(stems))),
        1 - len({sentence.words[0] for sentence in sentences}) / len(sentences),
    )


# Grammar is judged only if at least this share of a text's words are English function words.
MIN_FUNCTION_WORD_SHARE = 0.1


def _grammar_features(output: OutputText, text: SplitText) -> Iterable[float]:
    """Return three features: faults of grammar, faults of form, and whether the text breaks off."""
    sentences, words = output.sentences, text.words
    faults = [0.0]
    if n_function_words(words) >= MIN_FUNCTION_WORD_SHARE * len(words):
        faults = [min(2.5, grammar_severity(sentence)) for sentence in sentences]
    return (
        # The total is divided by the root of the number of sentences, so that both the number of
        # faults and their density count.
        sum(faults) / math.sqrt(len(faults)),
        sum([form_severity(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_end_mark and (len(words) > 2 or len(sentences) > 1),
    )


class Feature(NamedTuple):
    """A number that measures a facet.

    `mean` and `sd` are the feature's mean and standard deviation (SD) in ordinary texts. The SD is
    negative if a smaller value is better. `share` is the feature's share in the facet.
    """

    facet: str
    mean: float
    sd: float
    share: float


# The functions that measure features, the attribute of OutputText that they compare the text with,
# and the number of their features.
FEATURE_FUNCTIONS: tuple[tuple[Callable[..., Iterable[float]], str, int], ...] = (
    (_content_features, "document", 3),
    (_order_features, "document", 4),
    (_support_features, "source", 4),
    (_answer_features, "turns", 3),
    (_wording_features, "text", 7),
    (_grammar_features, "text", 3),
)
# The features of all facets, in the order in which FEATURE_FUNCTIONS measure them.
FEATURES = (
    # Content, if there is a document: similarity, coverage, salience.
    Feature("coverage", 0.5, 0.12, 0.6),
    Feature("coverage", 0.6, 0.17, 0.4),
    Feature("focus", 0.8, 0.2, 0.6),
    # Order, if there is a document: reversed pairs, lateness, nearness, number of sentences.
    Feature("order", 0.25, -0.3, 0.6),
    Feature("order", 1.2, -0.7, 0.6),
    Feature("connection", 0.55, 0.35, 0.7),
    Feature("connection", 1.05, -0.4, 0.6),
    # Support, if there is any source: supported sentences, word pairs, new word pairs, new names.
    Feature("support", 0.65, 0.25, 0.6),
    Feature("support", 0.6, 0.25, 0.6),
    Feature("rewording", 0.14, 0.1, 1.0),
    Feature("truth", 0.05, -0.3, 1.0),
    # Answer, if there are turns: content, overlap with the last turn, use of facts.
    Feature("coverage", 1.8, 0.6, 1.0),
    Feature("focus", 0.15, 0.2, 0.6),
    Feature("support", 0.8, 0.8, 1.0),
    # Wording, for every text: links, short sentences, repeated stems, repeated stem pairs, length
    # of sentences, variety, same first words.
    Feature("connection", 0.4, 0.3, 0.5),
    Feature("connection", 0.1, -0.2, 0.4),
    Feature("repetition", 0.12, -0.1, 1.0),
    Feature("repetition", 0.02, -0.08, 1.0),
    Feature("style", 2.9, 0.35, 0.7),
    Feature("style", 4.8, 1.0, 0.5),
    Feature("style", 0.1, -0.2, 0.4),
    # Grammar, for every text: faults of grammar, faults of form, broken end.
    Feature("grammar", 0.2, -0.7, 1.4),
    Feature("grammar", 0.07, -0.3, 0.8),
    Feature("grammar", 0.1, -0.7, 0.4),
)
_MEANS, _SDS, FEATURE_SHARES = np.array([feature[1:] for feature in FEATURES]).T
# For each feature, the index of its facet.
FACET_OF_FEATURE = np.array([FACET_INDEX[feature.facet] for feature in FEATURES])
# Features are clipped at this number of standard deviations.
MAX_SDS = 3.0
# The value of all features of a text without words.
EMPTY_TEXT_VALUE = -2.0


# Cached, since a search judges the same texts with many prompts.
@lru_cache(maxsize=4096)
def measure_features(text: str, document: str, turns: str, knowledge: str) -> FloatArray:
    """Return a text's features, in SDs above the mean of ordinary texts; a source may be ""."""
    split_text = split_sentences(text)
    if not split_text.sentences:
        return np.full(len(FEATURES), EMPTY_TEXT_VALUE)
    sentences = split_text.sentences[:MAX_SENTENCES]
    source = index_source_text("\n".join(filter(None, (document, turns, knowledge))))
    output = OutputText(
        text=split_text,
        sentences=sentences,
        stems=Counter(split_text.stems),
        matches=[_match_sentence(sentence, source) for sentence in sentences] if source else [],
        document=index_source_text(document),
        turns=index_source_text(turns),
        last_turn=index_source_text(turns.strip().rpartition("\n")[2]),
        knowledge=index_source_text(knowledge),
        source=source,
    )
    values: list[float] = []
    for feature_function, source_name, n_features in FEATURE_FUNCTIONS:
        other_text = getattr(output, source_name)
        values += feature_function(output, other_text) if other_text else [math.nan] * n_features
    z_scores = np.nan_to_num((np.array(values) - _MEANS) / _SDS).clip(-MAX_SDS, MAX_SDS)
    return np.asarray(np.where(z_scores > 0, FACET_BONUSES[FACET_OF_FEATURE], 1.0) * z_scores)
