"""Simulated systems, judged and rated: what intervals at system level have to hold."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from optimize.statistics.coefficients import Coefficient, Vector, correlate

Rows = dict[str, Vector]


@dataclass(frozen=True)
class Systems:
    """What systems are like: how good, how much either judge favours them, which documents suit."""

    quality: Vector
    favour: dict[str, Vector]
    taste: Vector


def systems(rng: np.random.Generator, n: int) -> Systems:
    """As if drawn from all systems there could be."""
    quality, taste = rng.normal(0, 0.45, n), rng.normal(0, 0.3, n)
    favour = {"human": np.zeros(n), "a": rng.normal(0, 0.3, n), "b": rng.normal(0, 0.5, n)}
    return Systems(quality, favour, taste)


def answers(rng: np.random.Generator, of: Systems, documents: int) -> Rows:
    """Clustered documents, tied ratings from 1 to 5, and 5 % failures of each judge."""
    n = of.quality.size
    document = np.repeat(np.arange(documents), n)
    system = np.tile(np.arange(n), documents)
    quality = of.quality[system] + of.taste[system] * rng.normal(size=documents)[document]
    quality = quality + rng.normal(0, 0.7, documents)[document] + rng.normal(0, 0.8, document.size)
    uneven = rng.lognormal(0, 0.5, documents)[document]
    rows: Rows = {"document": document.astype(float), "system": system.astype(float)}
    for who, noise in (("human", 0.2), ("a", 0.6), ("b", 1.2)):
        shift = rng.normal(0, 0.4, documents)[document] + of.favour[who][system]
        noisy = quality + shift + noise * uneven * rng.normal(size=document.size)
        rows[who] = np.clip(np.round(3.5 + noisy), 1, 5)
    for judge in ("a", "b"):
        rows[judge][rng.random(document.size) < 0.05] = np.nan
    return rows


def means(rows: Rows, judge: str, n: int) -> tuple[Vector, Vector]:
    """Each system's mean score, and mean rating over the same outputs."""
    seen = ~np.isnan(rows[judge])
    system = rows["system"][seen].astype(int)
    counts = np.bincount(system, minlength=n)
    return tuple(np.bincount(system, rows[side][seen], n) / counts for side in (judge, "human"))  # type: ignore[return-value]


@cache
def truth(coefficient: Coefficient) -> tuple[float, float]:
    """Judge a's and b's correlation over 4,000 systems on 2,000 documents."""
    rng, n = np.random.default_rng(1), 4000
    of = systems(rng, n)
    blocks = [answers(rng, of, 100) for _ in range(20)]
    result = []
    for judge in "ab":
        sides = [
            np.mean(side, axis=0)
            for side in zip(*(means(b, judge, n) for b in blocks), strict=True)
        ]
        result.append(float(correlate(sides[0][None], sides[1][None], coefficient)[0]))
    return result[0], result[1]
