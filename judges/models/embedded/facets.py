"""The facets of quality: how each is measured, and the words in which replies speak of it."""

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
    outputs, so that facets weigh alike. `needs` names the text without which it is 0. `asks` names it in an instruction, after "whether the text"; `strength` and
    `weakness` name it in a comparison. `halo` is its part in any overall impression.
    """

    name: str
    measure: Callable[[Evidence], float]
    middle: float
    spread: float
    asks: str
    strength: str
    weakness: str
    halo: float = 0.0
    needs: str = ""


# An overall impression owes most to content where there is a source to hold it against, then to
# clean and complete sentences; length, tone and style enter only where an instruction names them.
FACETS: tuple[Facet, ...] = (
    Facet(
        "coverage", content.coverage, 0.6, 0.85,
        "covers the main points", "covers more of what matters", "misses main points", 0.6, "document",
    ),
    Facet(
        "focus", content.focus, -0.3, 0.9,
        "leaves out unimportant details", "keeps to what matters", "dwells on side issues", 0.3, "document",
    ),
    Facet(
        "support", content.support, 0.3, 0.75,
        "is supported by the source", "stays with its source", "lacks support in its source", 0.6, "ground",
    ),
    Facet(
        "truth", content.truth, 0.7, 0.5,
        "contradicts no number, name or fact", "gets the facts right", "alters facts", 0.3, "ground",
    ),
    Facet(
        "knowledge", content.knowledge, 1.5, 0.6,
        "makes use of the knowledge given", "uses what is known", "ignores what is known", 0.0, "ground",
    ),
    Facet(
        "closeness", content.closeness, 0.5, 0.8,
        "keeps the original wording", "keeps the original wording", "strays in wording", 0.0, "ground",
    ),
    Facet(
        "order", flow.order, 0.2, 0.65,
        "follows a logical order", "has a clear order", "jumps about", 0.4, "document",
    ),
    Facet(
        "connection", flow.connection, 0, 0.45,
        "connects its sentences", "hangs together", "hangs together badly", 0.3,
    ),
    Facet(
        "continuity", flow.continuity, 0.2, 0.65,
        "runs on without a break", "runs on smoothly", "is stitched together", 0.1, "ground",
    ),
    Facet(
        "repetition", flow.repetition, 0.7, 0.6,
        "avoids repetition", "says nothing twice", "repeats itself", 0.8,
    ),
    Facet(
        "grammar", grammar.grammar, 0.6, 0.5,
        "is grammatical", "is better grammar", "has broken grammar", 0.4,
    ),
    Facet(
        "style", grammar.style, 0.3, 0.6,
        "is written in full, varied sentences", "is better written", "is written poorly", 0.4,
    ),
    Facet(
        "form", form.form, 0.6, 0.5,
        "has clean spelling and punctuation", "is cleaner in form", "is careless in form", 0.3,
    ),
    Facet(
        "completeness", form.completeness, 0.4, 0.45,
        "ends with a complete sentence", "is complete", "breaks off", 0.3,
    ),
    Facet(
        "conciseness", manner.conciseness, -0.2, 0.75,
        "is brief and concise", "is more concise", "is wordy", 0.0,
    ),
    Facet(
        "detail", manner.detail, 0.3, 0.8,
        "is thorough and long enough", "tells more", "tells too little", 0.1,
    ),
    Facet(
        "specificity", manner.specificity, 0.7, 0.45,
        "is specific and informative", "is more specific", "stays vague", 0.1,
    ),
    Facet(
        "readability", manner.readability, 0, 0.5,
        "is simple and easy to read", "is easier to read", "is hard to read", 0.0,
    ),
    Facet(
        "engagement", manner.engagement, 0.7, 0.4,
        "is engaging and interesting", "is more engaging", "is dull", 0.1,
    ),
    Facet(
        "naturalness", manner.naturalness, 0.15, 0.35,
        "sounds natural", "sounds more natural", "sounds unnatural", 0.1,
    ),
    Facet(
        "answer", manner.answer, 0, 0.6,
        "responds to the last turn", "answers more to the point", "misses the question", 0.5, "turns",
    ),
    Facet(
        "courtesy", manner.courtesy, 0.3, 0.3,
        "is polite and harmless", "is kinder in tone", "is rude", 0.05,
    ),
    Facet(
        "structure", manner.structure, -0.3, 0.5,
        "has a clear layout of lists and paragraphs", "is laid out better", "has no layout", 0.0,
    ),
)  # fmt: skip
# What is said, as against how: people who judge one let the other in, content the less readily.
CONTENT = frozenset("coverage focus support truth knowledge detail specificity answer".split())
_IN_TALK = {
    **{"answer": 0.6, "engagement": 0.5, "repetition": 0.4, "grammar": 0.4, "naturalness": 0.3},
    **{"specificity": 0.3, "knowledge": 0.3, "detail": 0.3, "support": 0.2, "style": 0.2},
    **{"form": 0.2, "completeness": 0.2, "truth": 0.1, "connection": 0.1, "courtesy": 0.1},
}
NAMES = tuple(facet.name for facet in FACETS)
INDEX = {name: place for place, name in enumerate(NAMES)}
HALO: Vector = np.array([facet.halo for facet in FACETS])
# Of a turn in a talk, or an answer: whether it takes up what was said and gives something to go on.
TALK: Vector = np.array([_IN_TALK.get(facet.name, 0.0) for facet in FACETS])
BOUND = 4.0
IS_CONTENT = np.array([facet.name in CONTENT for facet in FACETS])


def measure(seen: Evidence) -> Vector:
    """All facets of one judged text."""
    values = [
        (facet.measure(seen) - facet.middle) / facet.spread if _has(seen, facet.needs) else 0.0
        for facet in FACETS
    ]
    # Soft bounds: no single facet runs away, and none stops telling texts apart.
    return np.asarray(BOUND * np.tanh(np.array(values) / BOUND))


def _has(seen: Evidence, needs: str) -> bool:
    return not needs or getattr(seen, needs) is not None
