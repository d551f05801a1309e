"""Traits of a text: plain counts, neither good nor bad until demonstrations give them a sense.

Facets are bounded and know which way is up; traits are not, and so tell texts apart more finely.
Shares are in [0, 1]; what is counted or measured in words is a logarithm, from 0 up.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from judges.embedded.request import Roles
from judges.embedded.source import (
    MAX_VECTORS,
    JudgedText,
    Match,
    Source,
    digest,
    read_judged_text,
)
from judges.embedded.text import AUXILIARIES, FUNCTION, VERBS, Sentence, Text, stem_of

# How many traits each kind has; those beside a source are 0 where there is none.
KINDS = {
    **{"size": 7, "marks": 13, "repetition": 8},
    **{"extractiveness": 11, "rewriting": 17, "position": 15, "content": 9},
}
N_TRAITS = sum(KINDS.values())
# Bounds on what is looked at.
MAX_WORDS, MAX_SENTENCES, MAX_WORDS_IN_ORDER = 4000, 80, 80
# A sentence much shorter than the one it comes from is cut to this share of it at least.
MIN_CUT = 0.05
# So many sentences are the lead of an article.
LEAD = 3
_QUOTES = ('"', "``", "''", "'", "`", "“", "”")
_DASHES = ("-", "--", "–", "—", ":", ";")
_USUAL_MARKS = frozenset({*_QUOTES, *_DASHES, *".,!?()", "…"})


@cached(LRUCache(MAX_VECTORS), key=digest, lock=Lock())
def traits_of(roles: Roles, texts: Mapping[str, str], candidate: str) -> NDArray[np.float64]:
    """All traits of one judged text, in the order of KINDS; 0 of a text without words."""
    judged = read_judged_text(roles, texts, candidate)
    text, source = _beginning(judged.text), judged.source
    values: list[float] = []
    if text.sentences:
        values += [*_size(text), *_marks(text), *_repetition(text)]
        if source is not None and source.salience:
            values += _extractiveness(text, source)
            values += _rewriting(text, judged, source)
            values += _position(judged, source)
            values += _content(text, source)
    traits = np.zeros(N_TRAITS)
    traits[: len(values)] = np.nan_to_num(np.array(values))
    traits.setflags(write=False)
    return traits


def _beginning(text: Text) -> Text:
    """The text, or its beginning where it is much longer than what systems write."""
    sentences: list[Sentence] = []
    n_words = 0
    for sentence in text.sentences[:MAX_SENTENCES]:
        n_words += len(sentence.words)
        if sentences and n_words > MAX_WORDS:
            break
        sentences.append(sentence)
    return Text(tuple(sentences), text.lines, text.has_capitals)


def _size(text: Text) -> Iterable[float]:
    """How long the text, its sentences and its words are: too short says little, too long pads."""
    lengths, n_words = [len(sentence.words) for sentence in text.sentences], len(text.words)
    return (
        math.log1p(n_words),  # words
        math.log(len(lengths)),  # sentences
        math.log1p(n_words / len(lengths)),  # words of a mean sentence
        math.log1p(max(lengths)),  # of the longest
        math.log1p(min(lengths)),  # of the shortest, often a fragment
        math.log1p(lengths[-1]),  # of the last, short where it was cut off
        sum(map(len, text.words)) / n_words,  # letters of a mean word, 1 up
    )


def _marks(text: Text) -> Iterable[float]:
    """Punctuation, capitals and digits: the hand of a system, and of a careless one."""
    tokens, count, n_tokens = text.tokens, Counter(text.tokens), len(text.tokens)
    later_tokens = [token for sentence in text.sentences for token in sentence.tokens[1:]]
    starts = [sentence.tokens[0][0] for sentence in text.sentences]
    return (
        count[","] / n_tokens,  # share of commas: clauses and lists
        sum(count[mark] for mark in _QUOTES) / n_tokens,  # of quotation marks
        (count["("] + count[")"]) / n_tokens,  # of brackets
        sum(count[mark] for mark in _DASHES) / n_tokens,  # of dashes and colons
        float(count["?"] > 0),  # 1 if it asks
        float(count["!"] > 0),  # 1 if it exclaims
        _mean(token[0].isdigit() for token in tokens),  # share of numbers: hard facts
        _mean(token[0].isupper() for token in later_tokens),  # of names
        # Share of sentences that begin as sentences do, and that end so.
        _mean(start.isupper() or not start.isalpha() for start in starts),
        _mean(sentence.has_stop for sentence in text.sentences),
        float(text.sentences[-1].has_stop),  # 0 if the last one breaks off
        # Share of strange characters.
        _mean(
            not (token[0].isalnum() or "'" in token or token in _USUAL_MARKS) for token in tokens
        ),
        # Share of sentences with a full stop inside, glued to the next.
        sum("." in sentence.tokens[:-1] for sentence in text.sentences) / len(text.sentences),
    )


def _repetition(text: Text) -> Iterable[float]:
    """What comes back: some of it holds a text together, more of it bores."""
    stems, stem_sets = text.stems, [set(sentence.stems) for sentence in text.sentences]
    links = [len(a & b) / max(1, min(len(a), len(b))) for a, b in pairwise(stem_sets)]
    n_doubled = sum(a == b for s in text.sentences for a, b in pairwise(s.words))
    return (
        *(  # shares of stems, bigrams and trigrams that were there before
            1 - len(set(items)) / max(1, len(items))
            for items in (stems, text.bigrams, text.trigrams)
        ),
        math.log1p(max(Counter(stems).values(), default=0)),  # the commonest stem's count
        _mean(links),  # share of stems in common of mean neighbouring sentences
        max(links, default=0.0),  # of the two most alike
        len(set(stems)) / math.sqrt(max(1, len(stems))),  # types per root of tokens, 0 up
        n_doubled / len(text.words),  # share of words written twice in a row
    )


def _extractiveness(text: Text, source: Source) -> Iterable[float]:
    """What of the source's wording is kept, in runs of what length: copies are safe but stiff."""
    runs_of = [source.copied_runs(sentence) for sentence in text.sentences]
    runs = [run for sentence_runs in runs_of for run in sentence_runs]
    n_words = len(text.words)
    return (
        _mean(word not in source.words for word in text.words),  # share of new words
        _mean(bigram not in source.bigrams for bigram in text.bigrams),  # of new bigrams
        _mean(trigram not in source.trigrams for trigram in text.trigrams),  # of new trigrams
        math.log1p(sum(run * run for run in runs) / n_words),  # density: the run of a mean word
        sum(runs) / n_words,  # their coverage: share of words in runs
        math.log1p(len(runs)),  # runs
        len(runs) / len(text.sentences),  # runs of a mean sentence, 0 up
        math.log1p(max(runs, default=0)),  # words of the longest run
        _mean(  # share of sentences copied but for a word at most
            max(sentence_runs, default=0) >= len(sentence.words) - 1
            for sentence_runs, sentence in zip(runs_of, text.sentences, strict=True)
        ),
        math.log((n_words + 1) / (len(source.text.words) + 1)),  # compression, below 0 if shorter
        _mean(not sentence_runs for sentence_runs in runs_of),  # share of sentences without runs
    )


def _rewriting(text: Text, judged: JudgedText, source: Source) -> Iterable[float]:
    """How sentences are made of those they come from: cut, joined, or put anew, each its risk."""
    sentences, origins = text.sentences, source.text.sentences
    matches, n_words = judged.matches, len(text.words)
    subsequence_shares, origin_shares, cuts = [], [], []
    for sentence, match in zip(sentences, matches, strict=False):
        words, origin = sentence.words, origins[match.index].words if match.index >= 0 else ()
        start, origin_start = words[:MAX_WORDS_IN_ORDER], origin[:MAX_WORDS_IN_ORDER]
        common = common_subsequence(start, origin_start)
        subsequence_shares.append(common / len(start))
        origin_shares.append(common / max(1, len(origin_start)))
        cuts.append(max(MIN_CUT, len(words) / len(origin)) if origin else MIN_CUT)
    elsewhere = [match.anywhere - match.share for match in matches]
    openings = {sentence.words[:2] for sentence in origins}
    endings = {sentence.words[-2:] for sentence in origins}
    new_words = [word for word in text.words if word not in source.words]
    return (
        _lowercase_names(text, source),
        _mean(s.words[:2] in openings for s in sentences),  # share that open as one of the source
        _mean(s.words[-2:] in endings for s in sentences),  # that end as one
        float(sentences[0].words[:2] == origins[0].words[:2]),  # 1 if it opens as the source does
        float(matches[0].index == 0),  # 1 if it begins with the source's first sentence
        # Share of a sentence's words that stand in this order in its origin: mean, least, all.
        _mean(subsequence_shares),
        min(subsequence_shares),
        _mean(share > 0.99 for share in subsequence_shares),
        _mean(origin_shares),  # share of the origin's words that were left
        _mean(math.log(cut) for cut in cuts),  # length against the origin's: below 0 if cut
        min(cuts),  # of the sentence cut most, MIN_CUT up
        _mean(elsewhere),  # share of a sentence's weight from other places: joined sentences
        max(elsewhere),  # of the most joined
        # Share of the words that are new and small, auxiliaries, verbs, or forms of the source's.
        sum(word in FUNCTION for word in new_words) / n_words,
        sum(word in AUXILIARIES for word in new_words) / n_words,
        sum(word in VERBS or word.endswith(("ed", "ing", "s")) for word in new_words) / n_words,
        sum(word not in FUNCTION and stem_of(word) in source.sentences_with for word in new_words)
        / n_words,
    )


def _lowercase_names(text: Text, source: Source) -> float:
    """The share of the source's names that the text writes without a capital; ½ if it has none.

    Systems that write in small letters show by it, and people mind it.
    """
    lowercase = [
        token[0].islower()
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if token.lower() in source.names
    ]
    return _mean(lowercase) if lowercase else 0.5


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, by bits (Hyyrö 2004)."""
    bits: dict[str, int] = {}
    for index, word in enumerate(first):
        bits[word] = bits.get(word, 0) | 1 << index
    ones = (1 << len(first)) - 1
    row = ones
    for word in second:
        hits = row & bits.get(word, 0)
        row = ((row + hits) | (row - hits)) & ones
    return len(first) - row.bit_count()


def _position(judged: JudgedText, source: Source) -> Iterable[float]:
    """Where in the source sentences come from, and how surely: writers put first what matters."""
    matches: Sequence[Match] = judged.matches[:MAX_SENTENCES]
    indices = [match.index for match in matches if match.index >= 0]
    steps = [b - a for a, b in pairwise(indices)]
    return (
        _mean(math.log1p(index) for index in indices),  # the mean index
        math.log1p(indices[0]) if indices else 0.0,  # the first sentence's
        math.log1p(max(indices, default=0)),  # the latest
        _mean(indices) / len(source.text.sentences),  # the mean index, as a share of the source
        _mean(index == 0 for index in indices),  # share from the source's first sentence
        _mean(index < LEAD for index in indices),  # from its lead
        _mean(step == 1 for step in steps) if steps else 0.5,  # share of steps to the next sentence
        _mean(step == 0 for step in steps),  # of sentences from the same place as the one before
        _mean(step < 0 for step in steps),  # of steps back
        _mean(math.log1p(abs(step)) for step in steps),  # length of steps
        # Share of a sentence's weight that its best match has, then all the source: mean, least.
        _mean(match.share for match in matches),
        min(match.share for match in matches),
        _mean(match.anywhere for match in matches),
        min(match.anywhere for match in matches),
        judged.adjacency,  # share of neighbouring content words that are close in the source
    )


def _content(text: Text, source: Source) -> Iterable[float]:
    """What of the source's content the text says, and what of the text's is not the source's."""
    stems, distinct, mean = text.stems, set(text.stems), 1 / source.n_salient
    first, lead = (
        {stem for sentence in source.text.sentences[:n] for stem in sentence.stems}
        for n in (1, LEAD)
    )
    new_tokens = [
        token
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if token.lower() not in source.words
    ]
    return (
        math.fsum(source.salience.get(stem, 0.0) for stem in distinct),  # salience said, 0 up
        # Salience of a mean stem, in means of the source's heaviest; 0 to 2.5.
        _mean(min(2.5, source.salience.get(s, 0.0) / mean) for s in stems),
        math.fsum(  # share in which the frequencies of stems agree
            min(n / len(stems), source.frequency.get(stem, 0.0))
            for stem, n in Counter(stems).items()
        ),
        len(distinct & first) / max(1, len(first)),  # share said of the first sentence's stems
        len(distinct & lead) / max(1, len(lead)),  # of the lead's
        len(distinct & source.key_stems) / max(1, len(distinct)),  # share of key stems
        len(distinct & source.key_stems) / max(1, len(source.key_stems)),  # share of them said
        min(3.0, sum(token[0].isdigit() for token in new_tokens)),  # invented numbers, up to 3
        min(4.0, sum(token[0].isupper() for token in new_tokens)),  # invented names, up to 4
    )


def _mean(values: Iterable[float]) -> float:
    """The mean, of truths the share that are true; 0 of none."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0
