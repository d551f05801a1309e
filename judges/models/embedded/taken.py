"""Traits of a text beside its source: what it tells of it, copies, cuts, joins and puts anew."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from judges.models.embedded.alignment import Match
from judges.models.embedded.evidence import Evidence
from judges.models.embedded.source import Source
from judges.models.embedded.text import Sentence, Text, stem
from judges.models.embedded.words import AUXILIARIES, FUNCTION, VERBS

# How many traits each kind has.
KINDS = {"kept": 11, "wording": 17, "places": 15, "told": 9}
# Bounds on what is looked at.
MOST_SENTENCES, MOST_IN_ORDER = 80, 80
# A sentence much shorter than the one it comes from is cut to this share of it at least.
LEAST_CUT = 0.05
_LEAD = 3


def read_taken(text: Text, seen: Evidence, source: Source) -> tuple[float, ...]:
    """All of them, in the order of KINDS; `text` is the judged text or its beginning."""
    return (
        *_kept(text, source),
        *_wording(text, seen.matches, source),
        *_places(seen, source),
        *_told(text, source),
    )


def _kept(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's wording is kept, and in runs of what length."""
    words = [word for sentence in text.sentences for word in sentence.words]
    pairs = [pair for sentence in text.sentences for pair in sentence.pairs]
    triples = text.triples
    runs_of = [_runs(s.pairs, s.triples, source) for s in text.sentences]
    runs = [run for own in runs_of for run in own]
    n = max(1, len(words))
    whole = [
        max(own, default=0) >= len(sentence.words) - 1
        for own, sentence in zip(runs_of, text.sentences, strict=True)
    ]
    return (
        share(word not in source.words for word in words),
        share(pair not in source.pairs for pair in pairs),
        share(three not in source.triples for three in triples),
        # The density of Grusky et al. (2018, arXiv:1804.11283), without its search for the longest.
        math.log1p(sum(run * run for run in runs) / n),
        sum(runs) / n,
        math.log1p(len(runs)),
        len(runs) / len(text.sentences),
        math.log1p(max(runs, default=0)),
        share(whole),
        math.log((text.n_words + 1) / (source.text.n_words + 1)),
        share(not run for run in runs_of),
    )


def _runs(pairs: Sequence[str], triples: Sequence[str], source: Source) -> list[int]:
    """The lengths in words of a sentence's runs of neighbours that the source has, too."""
    runs, length = [], 0
    for place, pair in enumerate(pairs):
        kept = pair in source.pairs
        if kept and (not length or triples[place - 1] in source.triples):
            length += 1
            continue
        if length:
            runs.append(length + 1)
        length = int(kept)
    return [*runs, length + 1] if length else runs


def _wording(text: Text, matches: Sequence[Match], source: Source) -> tuple[float, ...]:
    """How the sentences are made of those they come from: cut, joined, or put anew."""
    sentences, theirs = text.sentences, source.text.sentences
    made = [_made(one, match, source) for one, match in zip(sentences, matches, strict=False)]
    kept, back, cuts = zip(*made, strict=True) if made else ((), (), ())
    openings = {one.words[:2] for one in theirs}
    endings = {one.words[-2:] for one in theirs}
    joined = [match.found - match.share for match in matches]
    fresh = [word for one in sentences for word in one.words if word not in source.words]
    n = max(1, text.n_words)
    return (
        _lowered(text, source),
        share(one.words[:2] in openings for one in sentences),
        share(one.words[-2:] in endings for one in sentences),
        float(sentences[0].words[:2] == theirs[0].words[:2]),
        float(bool(matches) and matches[0].place == 0),
        mean(kept),
        min(kept, default=0.0),
        share(value > 0.99 for value in kept),
        mean(back),
        mean([math.log(cut) for cut in cuts]),
        min(cuts, default=0.0),
        mean(joined),
        max(joined, default=0.0),
        sum(word in FUNCTION for word in fresh) / n,
        sum(word in AUXILIARIES for word in fresh) / n,
        sum(word in VERBS or word.endswith(("ed", "ing", "s")) for word in fresh) / n,
        sum(word not in FUNCTION and stem(word) in source.where for word in fresh) / n,
    )


def _made(sentence: Sentence, match: Match, source: Source) -> tuple[float, float, float]:
    """How much of a sentence is its origin's in order, and of that kept; their lengths' ratio."""
    if match.place < 0:
        return 0.0, 0.0, LEAST_CUT
    one, other = sentence.words, source.text.sentences[match.place].words
    first, second = one[:MOST_IN_ORDER], other[:MOST_IN_ORDER]
    common = _in_order(first, second)
    return (
        common / len(first),
        common / len(second),
        max(LEAST_CUT, len(one) / len(other)),
    )


def _lowered(text: Text, source: Source) -> float:
    """The share of names, always with a capital in the source, that have lost it; ½ of none."""
    cases: dict[str, bool] = {}
    for sentence in source.text.sentences[:MOST_SENTENCES]:
        for token in sentence.tokens[1:]:
            if token[0].isalpha():
                low = token.lower()
                cases[low] = cases.get(low, True) and token[0].isupper()
    told = [
        token[0].islower()
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if cases.get(token.lower(), False)
    ]
    return share(told) if told else 0.5


def _in_order(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence, by bits (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    whole = (1 << len(one)) - 1
    row = whole
    for word in other:
        met = row & places.get(word, 0)
        row = ((row + met) | (row - met)) & whole
    return len(one) - row.bit_count()


def _places(seen: Evidence, source: Source) -> tuple[float, ...]:
    """Where in the source the sentences come from, and how surely."""
    matches = seen.matches[:MOST_SENTENCES]
    places = [match.place for match in matches if match.place >= 0]
    steps = [other - one for one, other in pairwise(places)]
    n = len(source.text.sentences)
    return (
        mean([math.log1p(place) for place in places]),
        math.log1p(places[0]) if places else 0.0,
        math.log1p(max(places, default=0)),
        mean(places) / n,
        share(place == 0 for place in places),
        share(place < _LEAD for place in places),
        share(step == 1 for step in steps) if steps else 0.5,
        share(step == 0 for step in steps),
        share(step < 0 for step in steps),
        mean([math.log1p(abs(step)) for step in steps]),
        mean([match.share for match in matches]),
        min((match.share for match in matches), default=0.0),
        mean([match.found for match in matches]),
        min((match.found for match in matches), default=0.0),
        seen.met,
    )


def _told(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's content is told, and what of the text's is not the source's."""
    stems, told = text.stems, set(text.stems)
    lead = {stem for sentence in source.text.sentences[:_LEAD] for stem in sentence.stems}
    first = set(source.text.sentences[0].stems)
    fresh = [
        token
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if token.lower() not in source.words
    ]
    share = Counter(stems)
    alike = math.fsum(min(n / len(stems), source.share.get(one, 0.0)) for one, n in share.items())
    return (
        math.fsum(source.salience.get(one, 0.0) for one in told),
        mean([min(2.5, source.salience.get(one, 0.0) / source.mean) for one in stems]),
        alike,
        len(told & first) / max(1, len(first)),
        len(told & lead) / max(1, len(lead)),
        len(told & source.core) / max(1, len(told)),
        len(told & source.core) / max(1, len(source.core)),
        min(3.0, sum(token[0].isdigit() for token in fresh)),
        min(4.0, sum(token[0].isupper() for token in fresh)),
    )


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def share(truths: Iterable[bool]) -> float:
    """The share of truths among them; 0 of none."""
    told = list(truths)
    return sum(told) / len(told) if told else 0.0
