"""What a label set can bear: which figures get an interval, whether a gain ships, what to label."""

import math

import numpy as np

import data
from data.splits import MIN_UNITS_TO_SPLIT
from data.tables.problems import count
from data.types import LabelError, LabelledSet
from optimize.items import Items, choose_level, items_of
from optimize.labels import Labelled, agreement_of
from optimize.search.gate import GAIN, chance_of_gain
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import FEW_DOCUMENTS
from optimize.statistics.two_values import two_values

# As many as show roughly how far two annotators agree.
SECOND_ANNOTATOR = 30
Words = tuple[str, str] | None


def bearing_of(labelled: Labelled, name: str) -> dict[str, str]:
    """What labels on a dimension, or pairs, can bear, by headings; empty where all are ties."""
    people, words, gain, wanted = "not counted for votes", None, "", 0
    if isinstance(labelled, LabelledSet):
        people, words = agreement_of(labelled, name), labelled.words.get(name)
        labelled = data.with_ratings(labelled, name)
    everything, test = items_of(labelled, name), Items(())
    human, n = everything.human, len(everything.places)
    level = choose_level(everything) if isinstance(labelled, LabelledSet) else "dataset"
    if not human.size:
        return {}
    try:
        # As a run deals them by its default seed.
        splits = data.split(labelled, seed=0)
    except LabelError:
        collect = [f"{MIN_UNITS_TO_SPLIT} documents let a judge be tuned, 30 are a fair start"]
    else:
        train, dev, test = (items_of(s, name) for s in (splits.train, splits.dev, splits.test))
        learned = Items((*train.items, *dev.items))
        collect = _for_intervals(everything, test, words, level)
        if np.ptp(learned.human):
            gain, wanted = chance_of_gain(everything, learned, balanced=words is not None)
    if wanted > n:
        collect.append(f"{wanted - n:,} more documents for a gain of {GAIN:g}")
    if not people:
        collect.append(f"a second annotator on {min(SECOND_ANNOTATOR, human.size)} outputs")
    if not np.ptp(human):
        other = words[int(human[0])] if words else "other rating"
        none = f"no {other} among {count(human.size, 'label')}"
        collect = [f"{none}: there is nothing to learn or to measure before there are some"]
    several = [rows for rows in everything.places.values() if rows.size > 1]
    n_contrast = sum(np.ptp(human[rows]) > 0 for rows in several)
    contrast = f"people tell outputs apart in {n_contrast:,} of {count(len(several), 'document')}"
    intervals = [
        f"verify on all {count(n, 'document')}: {_with_interval(everything, words, level)}"
    ]
    if len(test):
        where = f"tune on test, {count(len(test.places), 'document')}"
        intervals.append(f"{where}: {_with_interval(test, words, level)}")
    spread = f"mean {human.mean():.2f}, SD {human.std():.2f}"
    if words:
        spread = f"{human.mean():.0%} {words[0]}, {1 - human.mean():.0%} {words[1]}"
    texts = {
        "labels": f"{name}: {spread}",
        "people": people or "how far they agree is not known",
        "contrast": contrast if several else "none within documents, which have one output each",
        "intervals": "; ".join(intervals),
        "gain": gain,
        "collect": "; ".join(collect) or "nothing more: these labels bear a run",
    }
    return {heading: text for heading, text in texts.items() if text}


def lacking(items: Items, words: Words, level: Level) -> dict[str, int]:
    """Each figure of a judge, and what it lacks for an interval.

    These are passes of TPR and fails of TNR where labels have two `words`, else documents.
    """
    if words:
        n_more = two_values(items.human, items.human, items.document_ids).n_more
        return {"TPR": n_more["pass"], "TNR": n_more["fail"]}
    # At summary level documents without a contrast have no rho; over all outputs too many of one
    # label hide what tells judges apart.
    places = items.places.items()
    telling = {name for name, rows in places if np.ptp(items.human[rows]) > 0}
    if level == "dataset":
        labels, numbers = np.unique(items.human, return_counts=True)
        commonest = labels[numbers.argmax()]
        telling = {name for name, rows in places if (items.human[rows] != commonest).any()}
    return {f"{level}-level rho": max(0, FEW_DOCUMENTS - len(telling))}


def _with_interval(items: Items, words: Words, level: Level) -> str:
    """The figures that have one."""
    return ", ".join(name for name, n in lacking(items, words, level).items() if not n) or "none"


def _for_intervals(everything: Items, test: Items, words: Words, level: Level) -> list[str]:
    """What gives the figures on test their intervals, if its share stays."""
    n, advice = len(everything.places), []
    same = " (not more outputs of the same)" if len(everything) > n else ""
    lacks = lacking(test, words, level).items()
    kinds = [f"{word} outputs" for word in words] if words else [f"documents{same}"]
    for kind, (figure, number) in zip(kinds, lacks, strict=True):
        # What a document brings to test: of those in it some may tell nothing.
        brought = (len(test.places) if words else max(1, FEW_DOCUMENTS - number)) / n
        if number:
            advice.append(f"{math.ceil(number / brought):,} more {kind} for {figure} on test")
    return advice
