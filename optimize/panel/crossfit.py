"""What ways to weights reach on documents and systems that the weights were not learned from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.panel.maps import Codes
from optimize.panel.members import LabelledScores, Mask
from optimize.panel.weights import Plan, moments_of, weighted_mean
from optimize.statistics.coefficients import Vector
from optimize.statistics.difference import Contrast, mean_of_differences

DOCUMENT_FOLDS, SYSTEM_FOLDS, DEALS = 5, 4, 3
# With fewer there is no telling an order among those left, nor among those left out.
FEWEST_SYSTEMS = 6


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Each plan's rho by document, all of them on the outputs that have a score of every member.

    A document's value at dataset level and of pairs is what it adds to the one rho; NaN: people
    rate it alike. `holds_systems_out`: no output was scored by weights that had met its system.
    """

    documents: tuple[str, ...]
    values: Mapping[Plan, Vector]
    n_outputs: int
    holds_systems_out: bool

    def rho(self, plan: Plan) -> float:
        values = self.values[plan]
        return float(np.nanmean(values)) if not np.isnan(values).all() else np.nan

    def contrast(self, plan: Plan, base: Plan | None = None) -> Contrast:
        """How much better one plan does than another, or than chance."""
        values = self.values[plan]
        return mean_of_differences(
            values - self.values[base] if base is not None else values, self.documents
        )


def cross_fit(
    labelled: LabelledScores, plans: Sequence[Plan], rng: np.random.Generator
) -> CrossFit:
    """Score every output by weights from other documents and systems, several times over.

    The best single judge's plan, if it is among them, comes first.
    Maps are not learned anew, since they know no labels.
    """
    comparable = _comparable(labelled, plans[0])
    rows = np.flatnonzero(comparable)
    n_systems = len(np.unique(labelled.system[rows]))
    holds_systems_out = n_systems >= FEWEST_SYSTEMS and not labelled.pairs
    together = not labelled.group.any()
    sums = np.zeros((len(plans), labelled.human.size))
    for _ in range(DEALS):
        for documents, systems in _folds(labelled, rows, holds_systems_out, rng):
            of_test = comparable & np.isin(labelled.document, documents)
            of_new = np.isin(labelled.system, systems)
            shown = comparable & ~of_test & ~(of_new & holds_systems_out)
            moments = moments_of(labelled, np.flatnonzero(shown))
            weights = [plan.weights(moments) for plan in plans]
            # Ranks are among all that is ranked together; terms are taken of new systems' outputs.
            ranked = rows if together else np.flatnonzero(of_test)
            values = [weighted_mean(labelled.mapped[ranked], vector) for vector in weights]
            terms = labelled.terms(np.stack(values, axis=1), ranked)
            sums[:, ranked] += np.where((of_test & of_new)[ranked], terms.T, 0)
    document = labelled.document[rows]
    counts = np.bincount(document)
    # At dataset level a document's terms count the more, the more outputs it has.
    sizes = np.full(counts.size, rows.size / max(1, int(np.count_nonzero(counts))))
    sizes = sizes if together else np.maximum(counts, 1)
    values_of = {}
    for plan, total in zip(plans, sums, strict=True):
        by_document = np.bincount(document, total[rows]) / DEALS
        values_of[plan] = np.where(counts > 0, by_document / sizes, np.nan)
    return CrossFit(
        documents=tuple(f"{code:09}" for code in range(counts.size)),
        values=values_of,
        n_outputs=rows.size,
        holds_systems_out=holds_systems_out,
    )


def _comparable(labelled: LabelledScores, first: Plan) -> Mask:
    """The outputs that all members scored, and the best single judge, where that is compared."""
    scored = ~np.isnan(labelled.mapped)
    every = np.all(scored[:, labelled.usable], axis=1)
    if first.kind == "own":
        every = every & scored[:, first.members.index(True)]
    comparable: Mask = every
    return comparable


def _folds(
    labelled: LabelledScores, rows: Codes, holds_systems_out: bool, rng: np.random.Generator
) -> Iterator[tuple[Codes, Codes]]:
    """The documents and systems of each fold; every output is in one fold's both."""
    documents = rng.permutation(np.unique(labelled.document[rows]))
    systems = rng.permutation(np.unique(labelled.system[rows]))
    n_systems = min(SYSTEM_FOLDS, systems.size // 2) if holds_systems_out else 1
    for held_out in np.array_split(documents, max(1, min(DOCUMENT_FOLDS, documents.size))):
        for new in np.array_split(systems, n_systems):
            yield held_out, new
