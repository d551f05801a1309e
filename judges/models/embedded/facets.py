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

    `measure` gives about 0 for ordinary texts, higher for better, and exactly 0 where the texts it
    needs are absent. `asks` names it in an instruction, after "whether the text"; `strength` and
    `weakness` name it in a comparison. `halo` is its part in any overall impression.
    """

    name: str
    measure: Callable[[Evidence], float]
    asks: str
    strength: str
    weakness: str
    halo: float = 0.0


# An overall impression owes most to content where there is a source to hold it against, then to
# clean and complete sentences; length, tone and style enter only where an instruction names them.
FACETS: tuple[Facet, ...] = (
    Facet(
        "coverage", content.coverage,
        "covers the main points", "covers more of what matters", "misses main points", 0.6,
    ),
    Facet(
        "focus", content.focus,
        "leaves out unimportant details", "keeps to what matters", "dwells on side issues", 0.3,
    ),
    Facet(
        "support", content.support,
        "is supported by the source", "stays with its source", "lacks support in its source", 0.6,
    ),
    Facet(
        "truth", content.truth,
        "contradicts no number, name or fact", "gets the facts right", "alters facts", 0.3,
    ),
    Facet(
        "knowledge", content.knowledge,
        "makes use of the knowledge given", "uses what is known", "ignores what is known", 0.0,
    ),
    Facet(
        "closeness", content.closeness,
        "keeps the original wording", "keeps the original wording", "strays in wording", 0.0,
    ),
    Facet(
        "order", flow.order,
        "follows a logical order", "has a clear order", "jumps about", 0.4,
    ),
    Facet(
        "connection", flow.connection,
        "connects its sentences", "hangs together", "hangs together badly", 0.3,
    ),
    Facet(
        "repetition", flow.repetition,
        "avoids repetition", "says nothing twice", "repeats itself", 0.4,
    ),
    Facet(
        "grammar", grammar.grammar,
        "is grammatical", "is better grammar", "has broken grammar", 0.4,
    ),
    Facet(
        "form", form.form,
        "has clean spelling and punctuation", "is cleaner in form", "is careless in form", 0.3,
    ),
    Facet(
        "completeness", form.completeness,
        "ends with a complete sentence", "is complete", "breaks off", 0.3,
    ),
    Facet(
        "conciseness", manner.conciseness,
        "is brief and concise", "is more concise", "is wordy", 0.0,
    ),
    Facet(
        "detail", manner.detail,
        "is thorough and long enough", "tells more", "tells too little", 0.1,
    ),
    Facet(
        "specificity", manner.specificity,
        "is specific and informative", "is more specific", "stays vague", 0.1,
    ),
    Facet(
        "readability", manner.readability,
        "is simple and easy to read", "is easier to read", "is hard to read", 0.0,
    ),
    Facet(
        "engagement", manner.engagement,
        "is engaging and interesting", "is more engaging", "is dull", 0.1,
    ),
    Facet(
        "naturalness", manner.naturalness,
        "sounds natural", "sounds more natural", "sounds unnatural", 0.1,
    ),
    Facet(
        "answer", manner.answer,
        "responds to the last turn", "answers more to the point", "misses the question", 0.5,
    ),
    Facet(
        "courtesy", manner.courtesy,
        "is polite and harmless", "is kinder in tone", "is rude", 0.05,
    ),
    Facet(
        "structure", manner.structure,
        "has a clear layout of lists and paragraphs", "is laid out better", "has no layout", 0.0,
    ),
)  # fmt: skip
NAMES = tuple(facet.name for facet in FACETS)
INDEX = {name: place for place, name in enumerate(NAMES)}
HALO: Vector = np.array([facet.halo for facet in FACETS])


def measure(seen: Evidence) -> Vector:
    """All facets of one judged text."""
    values = np.array([facet.measure(seen) for facet in FACETS])
    return np.clip(values, -3.0, 3.0)
