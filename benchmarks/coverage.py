"""How often 95 % intervals hold the truth: python benchmarks/coverage.py [--simulations 1000].

Every simulation draws documents anew (at system level systems, too): clustered, tied, three
annotators, 5 % failed judgements. The truth is the figure on 20,000 such documents, at system level
on 4,000 systems. Printed: the share of intervals that hold the truth, of those that are not
withheld; * where it is not within 93-97 %; - where more than half are withheld.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optimize.statistics.intervals import Interval, Vector

DOCUMENTS = (15, 30, 100)
Figures = Mapping[str, tuple[float, Interval | None]]
# Where ratings 1 to 5 begin on a normal scale: all over it, or mostly 5.
EVEN, MOSTLY_5 = (-1.3, -0.5, 0.5, 1.3), (-2.2, -1.9, -1.5, -0.8)
PASS, RARE = (-1.28,), (-1.88,)


@dataclass(frozen=True)
class World:
    """Outputs of one document by several systems, labelled on a scale with these thresholds."""

    cuts: tuple[float, ...] = EVEN
    outputs: int = 4
    systems: int = 0

    def draw(self, rng: np.random.Generator, documents: int, systems: int = 0) -> dict[str, Vector]:
        """Judges a and b, annotators' ratings and mean, documents and systems."""
        k = systems or self.outputs
        document = np.repeat(np.arange(documents), k)
        system = np.tile(np.arange(k), documents)
        n = document.size
        better = 0.5 * rng.normal(size=k)[system] if systems else 0.0
        quality = better + 0.5 * rng.normal(size=documents)[document] + 0.7 * rng.normal(size=n)
        # What a judge likes of a document, whatever people do.
        taste = 0.4 * rng.normal(size=documents)[document]

        def rated(noise: float, shift: float = 0.0) -> Vector:
            return 1.0 + np.searchsorted(self.cuts, quality + shift + noise * rng.normal(size=n))

        ratings = np.stack([rated(0.5) for _ in range(3)], axis=1)
        a, b = rated(0.4, 0.2 + taste), rated(1.0)
        a[rng.random(n) < 0.05] = np.nan
        b[rng.random(n) < 0.05] = np.nan
        return {
            "a": a, "b": b, "ratings": ratings, "human": ratings.mean(axis=1).round(9),
            "document": document, "system": system,
        }  # fmt: skip
