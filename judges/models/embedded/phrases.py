"""How replies and proposals speak of facets."""

from typing import NamedTuple

from judges.models.embedded.facets import NAMES


class Phrases(NamedTuple):
    """What to say of a facet.

    `asks` names it in an instruction, after "whether the text", in words that the lexicon reads
    back; `strength` and `weakness` name it in a comparison.
    """

    asks: str
    strength: str
    weakness: str


_BY_NAME = {
    "coverage": Phrases(
        "covers the main points", "covers more of what matters", "misses main points"
    ),
    "focus": Phrases(
        "leaves out unimportant details", "keeps to what matters", "dwells on side issues"
    ),
    "support": Phrases(
        "is supported by the source", "stays with its source", "lacks support in its source"
    ),
    "truth": Phrases("contradicts no number, name or fact", "gets the facts right", "alters facts"),
    "knowledge": Phrases(
        "makes use of the knowledge given", "uses what is known", "ignores what is known"
    ),
    "closeness": Phrases(
        "keeps the original wording", "keeps the original wording", "strays in wording"
    ),
    "order": Phrases("follows a logical order", "has a clear order", "jumps about"),
    "connection": Phrases("connects its sentences", "hangs together", "hangs together badly"),
    "continuity": Phrases(
        "tells of one thing in each sentence",
        "keeps each sentence to one thing",
        "is stitched together",
    ),
    "unity": Phrases("is told as one piece", "is told as one piece", "is pasted together"),
    "rewording": Phrases(
        "tells it in its own words", "tells it in its own words", "is pasted from its source"
    ),
    "repetition": Phrases("avoids repetition", "says nothing twice", "repeats itself"),
    "grammar": Phrases("is grammatical", "has better grammar", "has broken grammar"),
    "style": Phrases(
        "is written in full, varied sentences", "is better written", "is written poorly"
    ),
    "form": Phrases(
        "has clean spelling and punctuation", "is cleaner in form", "is careless in form"
    ),
    "completeness": Phrases("ends with a complete sentence", "is complete", "breaks off"),
    "conciseness": Phrases("is brief and concise", "is more concise", "is wordy"),
    "detail": Phrases("is thorough and long enough", "tells more", "tells too little"),
    "specificity": Phrases("is specific and informative", "is more specific", "stays vague"),
    "readability": Phrases("is simple and easy to read", "is easier to read", "is hard to read"),
    "engagement": Phrases("is engaging and interesting", "is more engaging", "is dull"),
    "naturalness": Phrases("sounds natural", "sounds more natural", "sounds unnatural"),
    "answer": Phrases(
        "responds to the last turn", "answers more to the point", "misses the question"
    ),
    "courtesy": Phrases("is polite and harmless", "is kinder in tone", "is rude"),
    "structure": Phrases(
        "has a clear layout of lists and paragraphs", "is laid out better", "has no layout"
    ),
}
PHRASES: tuple[Phrases, ...] = tuple(_BY_NAME[name] for name in NAMES)
