"""The set-level objective: Spearman's rho of a whole split, and what each document adds to it.

Every level is reduced to one number a document whose mean is the statistic, so that the race and
the gate can compare judges document by document. At summary level that number is the rho within
the document, exactly. At the others it is the document's jackknife pseudo-value.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from optimize.search.items import Indices, Items, Vector

Level = Literal["summary", "dataset", "system"]
LEVELS: tuple[Level, ...] = ("summary", "dataset", "system")
OUTPUTS_FOR_SUMMARY_LEVEL = 3
# Past this many documents, neighbours share a pseudo-value: one of a thousand tells little.
MOST_BLOCKS = 60


def choose_level(items: Items) -> Level:
    """Summary where documents have three outputs or more on average, else dataset."""
    per_document = len(items) / max(1, len(items.documents))
    return "summary" if per_document >= OUTPUTS_FOR_SUMMARY_LEVEL else "dataset"


def tells(items: Items, level: Level) -> tuple[str, ...]:
    """The documents that can tell judges apart: at summary level, those people do not rate alike.

    All of them where there is none, so that a search ends for another reason.
    """
    if level != "summary":
        return items.documents
    told = [name for name, rows in items.places.items() if np.ptp(items.human[rows]) > 0]
    return tuple(told) or items.documents


def rho(scores: Vector, human: Vector) -> float:
    """Spearman's rho for the objective; NaN where people say the same of all.

    A judge that says the same of all has told nothing: 0. Outputs it failed on are left out, and
    rho is scaled by the share it did judge, so that failing on hard outputs earns nothing.
    """
    if len(human) < 2 or np.ptp(human) == 0:
        return float("nan")
    judged = ~np.isnan(scores)
    told, people = scores[judged], human[judged]
    if len(told) < 2 or np.ptp(told) == 0 or np.ptp(people) == 0:
        return 0.0
    ours, theirs = rankdata(told), rankdata(people)
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    value = float(ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs)))
    return value * len(told) / len(scores)


def document_terms(scores: Vector, items: Items, level: Level) -> Vector:
    """One number a document, in the order of `items.documents`, whose mean is the objective.

    NaN where a document has no rho (people rate all its outputs alike): left out of the mean.
    """
    places = list(items.places.values())
    if level == "summary":
        return np.array([rho(scores[rows], items.human[rows]) for rows in places])
    if level == "system":
        names = items.systems
        code = {name: number for number, name in enumerate(names)}
        systems = np.array([code.get(item.system or "", -1) for item in items.items], np.intp)
        return _pseudo_values(places, lambda rows: _system_rho(scores, items, systems, rows))
    return _pseudo_values(places, lambda rows: rho(scores[rows], items.human[rows]))


def objective(scores: Vector, items: Items, level: Level) -> float:
    """The objective itself; NaN where undefined."""
    if level == "summary":
        terms = document_terms(scores, items, level)
        return float(np.nanmean(terms)) if np.isfinite(terms).any() else float("nan")
    if level == "system":
        names = items.systems
        code = {name: number for number, name in enumerate(names)}
        systems = np.array([code.get(item.system or "", -1) for item in items.items], np.intp)
        return _system_rho(scores, items, systems, np.arange(len(items)))
    return rho(scores, items.human)


def _system_rho(scores: Vector, items: Items, systems: Indices, rows: Indices) -> float:
    """Rho over the systems' means; outputs without a score are left out of both means."""
    rows = rows[(systems[rows] >= 0) & ~np.isnan(scores[rows])]
    counts = np.bincount(systems[rows])
    present = counts > 0
    if present.sum() < 2:
        return float("nan")
    judge = np.bincount(systems[rows], scores[rows])[present] / counts[present]
    human = np.bincount(systems[rows], items.human[rows])[present] / counts[present]
    return rho(judge, human)


def _pseudo_values(places: list[Indices], statistic: Callable[[Indices], float]) -> Vector:
    """Jackknife pseudo-values, one a document; documents in one block share theirs."""
    number = len(places)
    if number == 0:
        return np.empty(0)
    everything = np.sort(np.concatenate(places))
    whole = statistic(everything)
    blocks = np.array_split(np.arange(number), min(number, MOST_BLOCKS))
    if np.isnan(whole) or len(blocks) < 2:
        return np.full(number, whole)
    values = np.empty(number)
    for block in blocks:
        out = np.concatenate([places[index] for index in block])
        rest = np.setdiff1d(everything, out, assume_unique=True)
        without = statistic(rest)
        values[block] = len(blocks) * whole - (len(blocks) - 1) * without
    # A rest without a rho says nothing about the document left out; and the mean is the statistic.
    values[np.isnan(values)] = whole
    values += whole - values.mean()
    return values


def placement_terms(
    scores: Vector, items: Items, chosen: Mapping[str, frozenset[str]], level: Level
) -> Vector:
    """How well a document's outputs by the systems `chosen` for it are placed among all of them.

    `chosen` holds every document's systems. The mean over their outputs of s = 1 - (z - z')² / 2,
    with z and z' the standardised mid-ranks by judge and people; over a whole document the mean of
    s is its rho. NaN where there is nothing to place.
    """
    groups = list(items.places.values())
    ranked = groups if level != "dataset" else [np.arange(len(items))]
    terms = np.full(len(items), np.nan)
    for rows in ranked:
        told = rows[~np.isnan(scores[rows])]
        if len(told) < 2 or np.ptp(items.human[told]) == 0:
            continue
        if np.ptp(scores[told]) == 0:
            terms[told] = 0.0
            continue
        gap = _standard(scores[told]) - _standard(items.human[told])
        terms[told] = 1 - gap**2 / 2
    means = []
    for name, rows in items.places.items():
        systems = chosen[name]
        named = np.array([items.items[row].system in systems for row in rows], bool)
        there = terms[rows][named & ~np.isnan(terms[rows])]
        means.append(float(there.mean()) if len(there) else float("nan"))
    return np.array(means)


def _standard(values: Vector) -> Vector:
    ranks = rankdata(values)
    standard: Vector = (ranks - ranks.mean()) / ranks.std()
    return standard
