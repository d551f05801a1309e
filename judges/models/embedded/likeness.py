"""How alike texts are in their traits, on a yardstick taken from the texts that teach."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from judges.models.embedded.facets import Vector

# What lies farther out than so many spreads of the teaching texts is far enough.
FARTHEST = 3.0


@dataclass(frozen=True, slots=True)
class Likeness:
    """Texts that teach, as places in a space of traits, one part of it for each kind of trait.

    In each part likeness falls with distance as a normal density does, and the parts count alike:
    a text like none of those that teach is left to what was known before.
    """

    kept: NDArray[np.intp]
    middle: Vector
    spread: Vector
    starts: NDArray[np.intp]
    sizes: Vector
    taught: Vector

    def places(self, traits: Vector) -> Vector:
        """Where texts stand, (n, kept), from their traits, (n, all)."""
        standard = (traits[:, self.kept] - self.middle) / self.spread
        return np.clip(standard, -FARTHEST, FARTHEST)

    def to(self, traits: Vector) -> Vector:
        """The likeness of each of n texts to each that teaches, in [0, 1]."""
        if not len(self.starts):
            return np.zeros((len(traits), len(self.taught)))
        return np.array([self._one(place) for place in self.places(traits)])

    def among(self) -> Vector:
        """The likeness of the teaching texts to each other."""
        if not len(self.starts):
            return np.zeros((len(self.taught), len(self.taught)))
        return np.array([self._one(place) for place in self.taught])

    def _one(self, place: Vector) -> Vector:
        squares = (self.taught - place) ** 2
        apart = np.add.reduceat(squares, self.starts, axis=1) / self.sizes
        return np.asarray(np.exp(-0.5 * apart).mean(axis=1))


def read_likeness(traits: Vector, kinds: Mapping[str, int]) -> Likeness:
    """The space of the teaching texts' traits, (n, all); one in which they agree has no part."""
    middle, spread = traits.mean(axis=0), traits.std(axis=0)
    varied = spread > 1e-9 * (1 + np.abs(middle))
    kind = np.repeat(np.arange(len(kinds)), list(kinds.values()))[varied]
    starts = np.flatnonzero(np.diff(kind, prepend=-1))
    sizes = np.diff(np.append(starts, len(kind))).astype(np.float64)
    space = Likeness(
        np.flatnonzero(varied), middle[varied], spread[varied], starts, sizes, traits[:, varied]
    )
    return replace(space, taught=space.places(traits))
