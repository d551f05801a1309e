"""The catalogue: twelve judges as data, from three sources.

SummEval: Fabbri et al. 2021 (arXiv:2007.12626) for the definitions, Liu et al. 2023 (G-Eval,
arXiv:2303.16634) for judging them by prompt; fluency is judged from the summary alone.

Chain of Density: Adams et al. 2023 (arXiv:2309.04269), the appendix on GPT-4 metrics. Quality and
coherence see the summary alone. The paper checks them by Pearson correlation with people's
first-place votes: .215 (informative), .120 (quality), .178 (coherence), .245 (attributable), .311.

DPO win rates: Rafailov et al. 2023 (arXiv:2305.18290), the appendix on GPT-4 prompts. Summaries of
forum posts are compared by their most important points (S, `tldr_salience`) and by the same without
unimportant detail (C, `tldr_concise`), and chatbot responses by helpfulness.
"""

import difflib
from dataclasses import replace

from judges.dimension import Comparison, Dimension, Subject, UnknownDimensionError

Texts = dict[str, str]
SUMMARY = {"summary": "the summary to judge"}
DOCUMENT = {"document": "the text that was summarized", **SUMMARY}
ARTICLE = {"document": "the article that was summarized", **SUMMARY}
POST = {"post": "the forum post that was summarized"}


def _summeval(
    name: str,
    definition: str,
    levels: tuple[str, str, str],
    instruction: str,
    inputs: Texts = DOCUMENT,
) -> Dimension:
    """A dimension of SummEval; `levels` say what earns 1, 3 and 5."""
    return Dimension(
        name=name,
        definition=definition,
        inputs=inputs,
        anchors={1: levels[0], 2: "", 3: levels[1], 4: "", 5: levels[2]},
        instruction=instruction,
        source="SummEval (arXiv:2007.12626), G-Eval (arXiv:2303.16634)",
    )


def _density(name: str, definition: str, instruction: str, inputs: Texts = ARTICLE) -> Dimension:
    judge = _summeval(name, definition, ("worst", "", "best"), instruction, inputs)
    return replace(judge, source="Chain of Density (arXiv:2309.04269)")


def _preferred(
    name: str, definition: str, inputs: Texts, candidate: str, instruction: str
) -> Comparison:
    return Comparison(
        name=name,
        definition=definition,
        inputs=inputs,
        candidate=candidate,
        instruction=instruction,
        source="DPO win rates (arXiv:2305.18290)",
    )


COHERENCE = _summeval(
    "coherence",
    "how well the sentences of the summary hold together as one ordered whole",
    (
        "a heap of unconnected statements",
        "an order can be made out, with jumps or loose ends",
        "one well-built text that leads from sentence to sentence",
    ),
    "Judge the coherence of the summary: do its sentences build one organised whole, or are they a "
    "heap of related facts? Find the document's main topic and points, then see whether the "
    "summary presents them in a clear and logical order, with connected sentences.",
)

CONSISTENCY = _summeval(
    "consistency",
    "whether every fact the summary states is supported by the document",
    (
        "most statements are contradicted or invented",
        "some statements have no support",
        "the document supports every statement",
    ),
    "Judge the factual consistency of the summary: does the document support each statement it "
    "makes? Check every fact of the summary against the document and lower the rating for facts "
    "that are contradicted, altered or made up.",
)

FLUENCY = _summeval(
    "fluency",
    "the quality of the summary's single sentences as English",
    (
        "hard to read: broken grammar, fragments, stray characters",
        "readable in spite of mistakes",
        "clean sentences without mistakes",
    ),
    "Judge the fluency of the summary, sentence by sentence: grammar, spelling, punctuation, "
    "capitals, choice of words and sentence structure. Lower the rating for mistakes that make it "
    "hard to read.",
    SUMMARY,
)

RELEVANCE = _summeval(
    "relevance",
    "whether the summary picks the important content of the document and only that",
    (
        "misses the point, or is full of side issues",
        "some main points, some missing or beside the point",
        "all main points and nothing superfluous",
    ),
    "Judge the relevance of the summary: does it select the important content of the document? "
    "Work out the main points, see how many the summary covers, and lower the rating for "
    "redundancy and for details that do not matter.",
)

COD_INFORMATIVE = _density(
    "cod_informative",
    "whether the summary gives the important information, accurately and in few words",
    "Judge how informative the summary is. An informative summary covers the important points of "
    "the article, states them accurately, as the article supports them, and is concise.",
)

COD_QUALITY = _density(
    "cod_quality",
    "whether a reader can follow and understand the summary",
    "Judge the quality of the summary. A summary of high quality is easy to read: a reader who "
    "sees nothing else can follow every sentence and understand what it says.",
    SUMMARY,
)

COD_COHERENCE = _density(
    "cod_coherence",
    "whether the summary is well structured and in a good order",
    "Judge the coherence of the summary. A coherent summary is well structured and well organised: "
    "its sentences are connected and stand in a logical order.",
    SUMMARY,
)

COD_ATTRIBUTABLE = _density(
    "cod_attributable",
    "whether everything the summary says can be found in the article",
    "Judge how far the summary is attributable to the article: is all of its information fully "
    "supported by the article? Lower the rating for every fact the article does not support.",
)

COD_OVERALL = _density(
    "cod_overall",
    "how good the summary is as a whole",
    "Judge the summary as a whole, by how much a reader would prefer it. A good summary brings "
    "across the main points of the article, and is concise, logical and coherent.",
)

TLDR_SALIENCE = _preferred(
    "tldr_salience",
    "which summary better gives the post's most important points",
    POST,
    "summary",
    "Decide which of the two summaries of the forum post is better. The better summary covers more "
    "of the most important points of the post.",
)

TLDR_CONCISE = _preferred(
    "tldr_concise",
    "which summary gives the post's most important points and no unimportant detail",
    POST,
    "summary",
    "Decide which of the two summaries of the forum post is better. A good summary gives the most "
    "important points of the post without unimportant or irrelevant details: it is both precise "
    "and concise.",
)

DIALOGUE_HELPFUL = _preferred(
    "dialogue_helpful",
    "which response is more helpful to the user who asked the query",
    {"query": "what the user asked the chatbot"},
    "response",
    "Decide which of the two responses to the user's query is more helpful. Which one is more "
    "helpful decides: prefer the more helpful one.",
)

JUDGES: dict[str, Subject] = {
    judge.name: judge
    for judge in (
        *(COHERENCE, CONSISTENCY, FLUENCY, RELEVANCE),
        *(COD_INFORMATIVE, COD_QUALITY, COD_COHERENCE, COD_ATTRIBUTABLE, COD_OVERALL),
        *(TLDR_SALIENCE, TLDR_CONCISE, DIALOGUE_HELPFUL),
    )
}


def names() -> tuple[str, ...]:
    """The names of all catalogue judges, source by source."""
    return tuple(JUDGES)


def find(name: str) -> Subject:
    """The dimension or comparison of that name; UnknownDimensionError suggests similar names."""
    if name in JUDGES:
        return JUDGES[name]
    similar = difflib.get_close_matches(name.lower(), JUDGES, n=3, cutoff=0.5)
    raise UnknownDimensionError(
        f"no judge {name!r} in the catalogue; near it: {', '.join(similar or JUDGES)} (dspy-judges "
        "list shows all); one of your own is a file, FILE.yaml"
    )
