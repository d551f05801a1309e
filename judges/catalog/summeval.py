"""SummEval's four dimensions, as G-Eval and its batch flow judge them.

Sources: Fabbri et al. 2021 (arXiv:2007.12626) for the definitions; Liu et al. 2023 (G-Eval,
arXiv:2303.16634) for judging them by prompt; fluency is judged from the summary alone.
"""

from judges.dimension import Dimension

DOCUMENT = "the text that was summarized"
SUMMARY = "the summary to judge"
SOURCE = "SummEval (arXiv:2007.12626), G-Eval (arXiv:2303.16634)"

COHERENCE = Dimension(
    name="coherence",
    definition="how well the sentences of the summary hold together as one ordered whole",
    inputs={"document": DOCUMENT, "summary": SUMMARY},
    anchors={
        1: "a heap of unconnected statements",
        2: "",
        3: "an order can be made out, with jumps or loose ends",
        4: "",
        5: "one well-built text that leads from sentence to sentence",
    },
    instruction=(
        "Judge the coherence of the summary: do its sentences build one organised whole, or are "
        "they a heap of related facts? Find the document's main topic and points, then see whether "
        "the summary presents them in a clear and logical order, with connected sentences."
    ),
    source=SOURCE,
)

CONSISTENCY = Dimension(
    name="consistency",
    definition="whether every fact the summary states is supported by the document",
    inputs={"document": DOCUMENT, "summary": SUMMARY},
    anchors={
        1: "most statements are contradicted or invented",
        2: "",
        3: "some statements have no support",
        4: "",
        5: "the document supports every statement",
    },
    instruction=(
        "Judge the factual consistency of the summary: does the document support each statement it "
        "makes? Check every fact of the summary against the document and lower the rating for "
        "facts that are contradicted, altered or made up."
    ),
    source=SOURCE,
)

FLUENCY = Dimension(
    name="fluency",
    definition="the quality of the summary's single sentences as English",
    inputs={"summary": SUMMARY},
    anchors={
        1: "hard to read: broken grammar, fragments, stray characters",
        2: "",
        3: "readable in spite of mistakes",
        4: "",
        5: "clean sentences without mistakes",
    },
    instruction=(
        "Judge the fluency of the summary, sentence by sentence: grammar, spelling, punctuation, "
        "capitals, choice of words and sentence structure. Lower the rating for mistakes that make "
        "it hard to read."
    ),
    source=SOURCE,
)

RELEVANCE = Dimension(
    name="relevance",
    definition="whether the summary picks the important content of the document and only that",
    inputs={"document": DOCUMENT, "summary": SUMMARY},
    anchors={
        1: "misses the point, or is full of side issues",
        2: "",
        3: "some main points, some missing or beside the point",
        4: "",
        5: "all main points and nothing superfluous",
    },
    instruction=(
        "Judge the relevance of the summary: does it select the important content of the document? "
        "Work out the main points, see how many the summary covers, and lower the rating for "
        "redundancy and for details that do not matter."
    ),
    source=SOURCE,
)

JUDGES = (COHERENCE, CONSISTENCY, FLUENCY, RELEVANCE)
