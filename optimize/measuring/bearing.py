"""What a label set can bear: which figures get an interval, whether a gain ships, what to label."""

import math
from typing import Any

import numpy as np

from judges.labels.splits import MIN_UNITS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledSet
from judges.tables.problems import count
from optimize.inputs.labelled import Labelled, agreement_of
from optimize.items import Items, choose_level, items_of
from optimize.search.power import GAIN, chance_of_gain
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import FEW_DOCUMENTS
from optimize.statistics.two_values import FEW_OUTPUTS, two_values

Words = tuple[str, str] | None


def bearing_of(labelled: Labelled, name: str) -> dict[str, str]:
    """What labels on a dimension, or pairs, can bear, by headings; empty where all are ties."""
    people, words = "not counted for votes", None
    if isinstance(labelled, LabelledSet):
        people, words = agreement_of(labelled, name), labelled.words.get(name)
        labelled = with_ratings(labelled, name)
    everything = items_of(labelled, name)
    human, n = everything.human, len(everything.documents)
    if not human.size:
        return {}
    any_labelled: Any = labelled  # since split's type variable is solved for one kind of labels
    level = choose_level(everything) if isinstance(labelled, LabelledSet) else "dataset"
    intervals, gain, collect = f"verify on all {_with_interval(everything, words, level)}", "", []
    try:
        # As a run deals them by its default seed.
        splits = split(any_labelled, seed=0)
    except LabelError:
        collect.append(f"{MIN_UNITS_TO_SPLIT} documents let a judge be tuned, 30 are a fair start")
    else:
        train, dev, test = (items_of(s, name) for s in (splits.train, splits.dev, splits.test))
        intervals += f"; tune on test, {_with_interval(test, words, level)}"
        collect += _for_intervals(everything, test, words, level)
        learned = Items((*train.items, *dev.items))
        if np.ptp(learned.human):
            gain, wanted = chance_of_gain(everything, learned, goal="balanced" if words else level)
            more = f"{wanted - n:,} more documents to show a gain of {GAIN:g}"
            collect += [more] if wanted > n else []
    annotators = {by for o in getattr(labelled, "outputs", ()) for by in o.annotators.get(name, ())}
    second = "let two annotators label the same" if len(annotators) > 1 else "a second annotator on"
    collect += [] if people else [f"{second} 30 outputs"]
    if not np.ptp(human):
        other = words[int(human[0])] if words else "other rating"
        collect = [f"no {other} among {human.size:,} labels, so nothing to learn or to measure"]
    documents = (human[rows] for rows in everything.document_rows.values())
    varied = [np.ptp(own) > 0 for own in documents if own.size > 1]
    contrast = f"people tell outputs apart in {sum(varied):,} of {count(len(varied), 'document')}"
    if len(varied) < n:
        contrast += f" with several outputs; {n - len(varied):,} of {n:,} have one each"
    spread = f"mean {human.mean():.2f}, SD {human.std():.2f}"
    if words:
        spread = f"{human.mean():.0%} {words[0]}, {1 - human.mean():.0%} {words[1]}"
    texts = {
        "labels": f"{name}: {spread}",
        "people": people or "how far they agree is not known",
        "contrast": contrast if varied else "none within documents, which have one output each",
        "intervals": intervals,
        "gain": gain,
        "collect": "; ".join(collect) or "nothing more: these labels bear a run",
    }
    return {heading: text for heading, text in texts.items() if text}


def lacking(items: Items, words: Words, level: Level) -> dict[str, int]:
    """Each figure, and how many passes (TPR), fails (TNR) or documents it lacks for an interval."""
    if words:
        n_more = two_values(items.human, items.human, items.document_ids).n_more
        return {"TPR": n_more["pass"], "TNR": n_more["fail"]}
    # What people rate alike has no rho: at summary level a document, else nearly all outputs.
    labels, numbers = np.unique(items.human, return_counts=True)
    differ = [
        np.ptp(own) > 0 if level == "summary" else (own != labels[numbers.argmax()]).any()
        for own in (items.human[rows] for rows in items.document_rows.values())
    ]
    return {f"{level}-level rho": max(0, FEW_DOCUMENTS - int(sum(differ)))}


def _with_interval(items: Items, words: Words, level: Level) -> str:
    """How many documents there are, and the figures that have an interval on them."""
    figures = (figure for figure, n in lacking(items, words, level).items() if not n)
    return f"{count(len(items.documents), 'document')}: {', '.join(figures) or 'none'}"


def _for_intervals(everything: Items, test: Items, words: Words, level: Level) -> list[str]:
    """What would give the figures on test an interval, if its part stays the same."""
    from scipy.special import nbdtrik

    n, advice = len(everything.documents), []
    kinds = ["documents (not more outputs of the same)" if len(everything) > n else "documents"]
    kinds = [f"{word} outputs" for word in words] if words else kinds
    lacks_of = lacking(test, words, level).items()
    for kind, value, (figure, lacks) in zip(kinds, (1, 0), lacks_of, strict=False):
        # Of the documents in test some may tell nothing.
        wanted = lacks * n / max(1, FEW_DOCUMENTS - lacks)
        if words:  # So many that nine deals of ten leave enough of them in test.
            wanted = FEW_OUTPUTS + float(nbdtrik(0.9, FEW_OUTPUTS, len(test) / len(everything)))
            wanted -= int((everything.human == value).sum())
        if lacks:
            more = f"{max(lacks, math.ceil(wanted)):,} more {kind}"
            advice.append(f"{more} for an interval of {figure} on test")
    return advice
