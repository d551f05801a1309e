"""The facets of quality: how each is measured, and its part in an overall impression."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judges.models.embedded import content, flow, form, grammar, manner
from judges.models.embedded.evidence import Evidence

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet of quality.

    `measure` counts, higher for better; `middle` and `spread` are what it gives for ordinary system
    outputs, so that facets weigh alike (a facet that counting measures badly has a wide spread).
    `needs` names the text without which it is 0. `halo` is its part in any overall impression of a
    text made from a document, `talk` in that of a turn or an answer. `content` tells what is said
    from how.
    """

    name: str
    measure: Callable[[Evidence], float]
    middle: float
    spread: float
    halo: float = 0.0
    talk: float = 0.0
    needs: str = ""
    content: bool = False


# An overall impression owes most to full sentences, and where there is a source, to what is told of
# it and that it is told anew, then to order, clean sentences and nothing said twice; a turn of talk
# owes it to what it takes up and what it gives to go on with. Length, tone and style of layout
# enter only where an instruction names them.
FACETS: tuple[Facet, ...] = (
    Facet("coverage", content.coverage, 0.5, 0.85, halo=0.8, needs="document", content=True),
    Facet("focus", content.focus, 0, 1.2, halo=0.3, needs="document", content=True),
    Facet("support", content.support, 0.3, 0.75, halo=0.2, talk=0.2, needs="ground", content=True),
    Facet("truth", content.truth, 0.7, 0.65, halo=0.1, talk=0.1, needs="ground", content=True),
    Facet("knowledge", content.knowledge, 1.5, 0.6, talk=0.3, needs="ground", content=True),
    Facet("closeness", content.closeness, 0.5, 0.8, needs="ground"),
    Facet("order", flow.order, 0.6, 0.65, halo=0.4, needs="document"),
    Facet("connection", flow.connection, 0.2, 0.45, halo=0.3, talk=0.1),
    Facet("continuity", flow.continuity, 0.2, 0.65, halo=0.1, needs="ground"),
    Facet("unity", flow.unity, 0, 1, halo=0.3, needs="document"),
    Facet("rewording", flow.rewording, 0, 1, halo=0.8, needs="document"),
    Facet("repetition", flow.repetition, 0.7, 0.6, halo=0.5, talk=0.4),
    Facet("grammar", grammar.grammar, 0.6, 0.5, halo=0.4, talk=0.4),
    Facet("style", grammar.style, 0.5, 0.6, halo=1, talk=0.2),
    Facet("form", form.form, 0.6, 0.5, halo=0.2, talk=0.2),
    Facet("completeness", form.completeness, 0.4, 0.45, halo=0.2, talk=0.2),
    Facet("conciseness", manner.conciseness, -0.2, 0.75),
    Facet("detail", manner.detail, 0.3, 0.8, halo=0.1, talk=0.3, content=True),
    Facet("specificity", manner.specificity, 0.7, 0.45, halo=0.1, talk=0.3, content=True),
    Facet("readability", manner.readability, 0, 0.5),
    Facet("engagement", manner.engagement, 0.7, 0.4, halo=0.1, talk=0.5),
    Facet("naturalness", manner.naturalness, 0.15, 0.35, halo=0.1, talk=0.3),
    Facet("answer", manner.answer, 0, 0.6, halo=0.5, talk=0.6, needs="turns", content=True),
    Facet("courtesy", manner.courtesy, 0.3, 0.3, halo=0.05, talk=0.1),
    Facet("structure", manner.structure, -0.3, 0.5),
)  # fmt: skip
NAMES = tuple(facet.name for facet in FACETS)
INDEX = {name: place for place, name in enumerate(NAMES)}
HALO: Vector = np.array([facet.halo for facet in FACETS])
TALK: Vector = np.array([facet.talk for facet in FACETS])
IS_CONTENT = np.array([facet.content for facet in FACETS])
IS_CHECKED = np.isin(NAMES, ("support", "truth"))
BOUND = 4.0
# What being better than usual earns, beside what being worse costs: all where it is asked for in
# degrees, hardly anything where readers take it for granted, a little more elsewhere.
_DEGREES = (
    *("support", "truth", "knowledge", "answer", "engagement", "detail"),
    *("focus", "unity", "rewording"),
)
_GRANTED = ("grammar", "form", "completeness")
EXCELLENCE: Vector = np.select(
    [np.isin(NAMES, _DEGREES), np.isin(NAMES, _GRANTED)], [1.0, 0.2], default=0.3
)


def measure(seen: Evidence) -> Vector:
    """All facets of one judged text."""
    values = [
        (facet.measure(seen) - facet.middle) / facet.spread if _has(seen, facet.needs) else 0.0
        for facet in FACETS
    ]
    # Soft bounds: no single facet runs away, and none stops telling texts apart.
    bounded: Vector = BOUND * np.tanh(np.array(values) / BOUND)
    return np.where(bounded > 0, EXCELLENCE * bounded, bounded)


def _has(seen: Evidence, needs: str) -> bool:
    return not needs or getattr(seen, needs) is not None
