"""Measure the features of a text, such as its share of short sentences, for the embedded model."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np

from judges.embedded.facets import GAIN_LOSS_RATIOS, INDEX_BY_FACET, FloatArray
from judges.embedded.grammar import form_severity, grammar_severity, n_function_words
from judges.embedded.text import (
    FUNCTION_WORDS,
    WORD_CLASSES,
    Sentence,
    SourceIndex,
    SplitText,
    index_source_text,
    stem_of,
    stem_weight,
    total_stem_weight,
)

# Only this many sentences, at the beginning of a text, are compared with its source.
MAX_SENTENCES = 60


class SentenceMatch:
    """The sentence of a source that is most similar, or almost so, to a sentence of a text.

    `source_index` is the index of this source sentence, or -1 if none shares a stem.
    `shared_fraction` is the weight of the shared stems, divided by the weight of all stems of the
    text's sentence. `shared_weight_by_index` has the weight of the shared stems for every sentence
    of the source.
    """

    def __init__(self, sentence: Sentence, source: SourceIndex) -> None:
        self.source_index, self.shared_fraction = -1, 0.0
        self.shared_weight_by_index = shared_weights = defaultdict[int, float](float)
        stems = dict.fromkeys(sentence.stems)
        for stem in stems:
            weight = stem_weight(stem)
            for index in source.indices_by_stem.get(stem, ()):
                shared_weights[index] += weight
        if shared_weights:
            # The first of several similar sentences is taken, since articles often make a point
            # briefly at the beginning and repeat it later.
            min_weight = 0.85 * max(shared_weights.values())
            self.source_index = min([i for i, w in shared_weights.items() if w >= min_weight])
            self.shared_fraction = shared_weights[self.source_index] / total_stem_weight(stems)


class OutputText:
    """The judged text, its source texts, and a match for each of its first sentences.

    `document` is what the judged text was made from. `turns` is the conversation that the text
    answers, and `knowledge` has facts that the text should use. `source` joins the three.
    """

    def __init__(self, text: SplitText, document: str, turns: str, knowledge: str) -> None:
        self.text, self.sentences = text, text.sentences[:MAX_SENTENCES]
        self.stem_counts = Counter(text.stems)
        self.document, self.turns = index_source_text(document), index_source_text(turns)
        self.last_turn = index_source_text(turns.strip().rpartition("\n")[2])
        self.knowledge = index_source_text(knowledge)
        source_texts = filter(None, (document, turns, knowledge))
        self.source = source = index_source_text("\n".join(source_texts))
        self.matches = [SentenceMatch(s, source) for s in self.sentences] if source else []


def _content_features(output: OutputText, document: SourceIndex) -> Iterable[float]:
    """Return three features: similarity to the document, its coverage, and mean salience of stems.

    The similarity is 1 minus the Jensen-Shannon divergence of the stems. This measure ranks
    summarizers most as people do (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    n_stems, document_counts = len(output.text.stems), document.stem_counts
    similarity = salience = 0.0
    for stem, count in output.stem_counts.items():
        if stem in document_counts:
            p, q = count / n_stems, document_counts[stem] / document.n_stems
            similarity -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
            salience += p * min(2.5, document.salience_by_stem[stem] * document.n_salient)
    # For each sentence of the source, the most weight that a sentence of the text shares.
    shared_weights: dict[int, float] = defaultdict(float)
    for match in output.matches:
        for index, weight in match.shared_weight_by_index.items():
            shared_weights[index] = max(shared_weights[index], weight)
    coverage = 0.0
    for index, weight in shared_weights.items():
        # The indices count sentences of `source`, which begins with the document.
        if index < len(document.importances):
            covered_fraction = min(1.0, weight / document.covering_weights[index])
            coverage += document.importances[index] * covered_fraction
    return similarity, coverage, salience


def _support_features(output: OutputText, source: SourceIndex) -> Iterable[float]:
    n_stems = n_supported_stems = n_new_names = 0.0
    for sentence, match in zip(output.sentences, output.matches, strict=True):
        n_stems += len(sentence.stems)
        n_supported_stems += match.shared_fraction * len(sentence.stems)
        n_new_names += _count_new_names(sentence, source)
    word_pairs = output.text.word_pairs
    n_source_pairs = sum([pair in source.word_pairs for pair in word_pairs])
    source_pair_share = n_source_pairs / max(1, len(word_pairs))
    # The share of new word pairs is limited to 30 %, since more makes a text no better.
    new_pair_share = min(1 - source_pair_share, 0.3)
    new_name_rate = n_new_names / (len(output.sentences) + 1)
    return n_supported_stems / (n_stems or 1), source_pair_share, new_pair_share, new_name_rate


def _count_new_names(sentence: Sentence, source: SourceIndex) -> float:
    """Return the number of names (each counts half) and numbers that the source lacks."""
    n_new_names = 0.0
    for token in sentence.tokens[1:]:  # the first word is capitalised even if it is no name
        is_number, name = token[0].isdigit(), token.lower()
        if not (is_number or token[0].isupper()):
            continue
        is_known = name in source.words or name in FUNCTION_WORDS
        if not is_known and stem_of(name) not in source.stem_counts:
            n_new_names += 1.0 if is_number else 0.5
    return min(2.0, n_new_names)


def _answer_features(output: OutputText, turns: SourceIndex) -> Iterable[float]:
    stems, salience_by_stem = output.stem_counts, (output.last_turn or turns).salience_by_stem
    turn_overlap = sum([salience_by_stem.get(stem, 0.0) for stem in stems])
    turn_overlap /= sum(salience_by_stem.values()) or 1.0
    fact_source = output.knowledge or output.document or turns
    fact_stems = fact_source.stem_counts.keys() - turns.stem_counts
    fact_weight = total_stem_weight([stem for stem in stems if stem in fact_stems])
    return math.log1p(total_stem_weight(stems)), turn_overlap, math.log1p(fact_weight)


def _order_features(output: OutputText, document: SourceIndex) -> Iterable[float]:
    source_indices = [match.source_index for match in output.matches if match.shared_fraction > 0.2]
    are_reversed = [index > later_index for index, later_index in combinations(source_indices, 2)]
    nearness = [_nearness(*neighbours) for neighbours in pairwise(output.matches)]
    return (
        _mean(are_reversed, default=0.25),
        _mean([math.log1p(index) for index in source_indices], default=2.0),
        _mean(nearness, default=0.6),
        math.log(len(output.sentences)),  # more sentences can more often be in a wrong order
    )


def _nearness(match: SentenceMatch, next_match: SentenceMatch) -> float:
    """Return how near two source sentences are: 1 if the second directly follows the first."""
    if min(match.source_index, next_match.source_index) < 0:
        return 0.0
    return 1 / (1 + abs(next_match.source_index - match.source_index - 1) / 1.5)


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def _wording_features(output: OutputText, text: SplitText) -> Iterable[float]:
    stems, sentences = text.stems, output.sentences
    n_sentences, n_distinct_stems = len(sentences), len(output.stem_counts)
    link_strengths = [_link_strength(*neighbours) for neighbours in pairwise(sentences)]
    stem_pairs = list(pairwise(stems))
    n_short_sentences = sum([len(sentence.words) < 9 for sentence in sentences])
    return (
        _mean(link_strengths, default=0.4),
        n_short_sentences / n_sentences if n_sentences > 1 else 0.0,
        (len(stems) - n_distinct_stems) / max(4, len(stems)),
        (len(stem_pairs) - len(set(stem_pairs))) / max(4, len(stem_pairs)),
        math.log(len(text.words) / len(text.sentences) + 1),
        # Divided by the square root, the number of stems hardly depends on the length of the text.
        n_distinct_stems / math.sqrt(max(1, len(stems))),
        1 - len({sentence.words[0] for sentence in sentences}) / n_sentences,
    )


def _link_strength(sentence: Sentence, next_sentence: Sentence) -> float:
    """Return how closely shared stems, or a word such as "however", link two sentences: 0 to 1."""
    known_stems, next_stems = set(sentence.stems), dict.fromkeys(next_sentence.stems)
    shared_stems = [stem for stem in next_stems if stem in known_stems]
    strength = 0.5 * min(1.0, total_stem_weight(shared_stems))
    strength += 0.5 * (not WORD_CLASSES["connectives"].isdisjoint(next_sentence.words[:2]))
    # The link counts half if the next sentence says hardly anything new.
    return strength if len(next_stems) - len(shared_stems) > 1 else 0.5 * strength


# Grammar is judged only if at least this share of a text's words are English function words.
MIN_FUNCTION_WORD_SHARE = 0.1


def _grammar_features(output: OutputText, text: SplitText) -> Iterable[float]:
    sentences, words = output.sentences, text.words
    severities = [0.0]
    if n_function_words(words) >= MIN_FUNCTION_WORD_SHARE * len(words):
        severities = [min(2.5, grammar_severity(sentence)) for sentence in sentences]
    return (
        # Dividing by the square root lets both the number of faults and their density count.
        sum(severities) / math.sqrt(len(severities)),
        sum([form_severity(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_end_mark and (len(words) > 2 or len(sentences) > 1),
    )


# Each row has a function, the attribute of OutputText that it needs, and the number of features
# that it returns.
FEATURE_FUNCTIONS: tuple[tuple[Callable[..., Iterable[float]], str, int], ...] = (
    (_content_features, "document", 3),
    (_order_features, "document", 4),
    (_support_features, "source", 4),
    (_answer_features, "turns", 3),
    (_wording_features, "text", 7),
    (_grammar_features, "text", 3),
)
# The features, in the order of FEATURE_FUNCTIONS: each with its facet, its mean and its standard
# deviation (SD) in ordinary texts, and its weight within the facet. The SD is negative if a smaller
# value is better.
FEATURES = (
    # _content_features: similarity to the document, coverage of it, mean salience of stems.
    ("coverage", 0.5, 0.12, 0.6),
    ("coverage", 0.6, 0.17, 0.4),
    ("focus", 0.8, 0.2, 0.6),
    # _order_features: the share of sentence pairs in the reverse order, how late in the document
    # the matches are, how near the matches of neighbouring sentences are, the number of sentences.
    ("order", 0.25, -0.3, 0.6),
    ("order", 1.2, -0.7, 0.6),
    ("connection", 0.55, 0.35, 0.7),
    ("connection", 1.05, -0.4, 0.6),
    # _support_features: stems and word pairs that are in the source, new word pairs, new names.
    ("support", 0.65, 0.25, 0.6),
    ("support", 0.6, 0.25, 0.6),
    ("rewording", 0.14, 0.1, 1.0),
    ("truth", 0.05, -0.3, 1.0),
    # _answer_features: content, overlap with the last turn, use of facts.
    ("coverage", 1.8, 0.6, 1.0),
    ("focus", 0.15, 0.2, 0.6),
    ("support", 0.8, 0.8, 1.0),
    # _wording_features: links between sentences, short sentences, repeated stems, repeated stem
    # pairs, the length of sentences, the variety of stems, sentences with the same first word.
    ("connection", 0.4, 0.3, 0.5),
    ("connection", 0.1, -0.2, 0.4),
    ("repetition", 0.12, -0.1, 1.0),
    ("repetition", 0.02, -0.08, 1.0),
    ("style", 2.9, 0.35, 0.7),
    ("style", 4.8, 1.0, 0.5),
    ("style", 0.1, -0.2, 0.4),
    # _grammar_features: faults of grammar, faults of form, a text that breaks off.
    ("grammar", 0.2, -0.7, 1.4),
    ("grammar", 0.07, -0.3, 0.8),
    ("grammar", 0.1, -0.7, 0.4),
)
_MEANS, _SDS, FEATURE_SHARES = np.array([numbers for _, *numbers in FEATURES]).T
# For each feature, the index of its facet.
FACET_OF_FEATURE = np.array([INDEX_BY_FACET[facet_name] for facet_name, *_ in FEATURES])
# Features are clipped at this number of standard deviations.
MAX_Z_SCORE = 3.0
# The value of all features of a text without words.
EMPTY_TEXT_VALUE = -2.0


# The features are cached, since a search judges the same texts with many prompts.
@lru_cache(maxsize=4096)
def measure_features(text: str, document: str, turns: str, knowledge: str) -> FloatArray:
    """Return a text's features, in standard deviations above their means in ordinary texts."""
    split_output = SplitText(text)
    if not split_output.sentences:
        return np.full(len(FEATURES), EMPTY_TEXT_VALUE)
    output = OutputText(split_output, document, turns, knowledge)
    features: list[float] = []
    for measure, text_name, n_features in FEATURE_FUNCTIONS:
        needed_text = getattr(output, text_name)
        features += measure(output, needed_text) if needed_text else [math.nan] * n_features
    z_scores = np.nan_to_num((np.array(features) - _MEANS) / _SDS).clip(-MAX_Z_SCORE, MAX_Z_SCORE)
    gain_loss_ratios = np.where(z_scores > 0, GAIN_LOSS_RATIOS[FACET_OF_FEATURE], 1.0)
    return np.asarray(gain_loss_ratios * z_scores)
