"""The catalogue: twelve judges as data, from three sources, found by their names.

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

from judges.dimension import Comparison, Dimension, Subject, UnknownDimensionError

SUMMARY = {"summary": "the summary to judge"}
DOCUMENT = {"document": "the text that was summarized", **SUMMARY}
ARTICLE = {"document": "the article that was summarized", **SUMMARY}
POST = {"post": "the forum post that was summarized"}


def _five(worst: str, middle: str, best: str) -> dict[int, str]:
    return {1: worst, 2: "", 3: middle, 4: "", 5: best}


SUMMEVAL = "SummEval (arXiv:2007.12626), G-Eval (arXiv:2303.16634)"

COHERENCE = Dimension(
    name="coherence",
    definition="how well the sentences of the summary hold together as one ordered whole",
    inputs=DOCUMENT,
    anchors=_five(
        "a heap of unconnected statements",
        "an order can be made out, with jumps or loose ends",
        "one well-built text that leads from sentence to sentence",
    ),
    instruction=(
        "Judge the coherence of the summary: do its sentences build one organised whole, or are "
        "they a heap of related facts? Find the document's main topic and points, then see whether "
        "the summary presents them in a clear and logical order, with connected sentences."
    ),
    source=SUMMEVAL,
)

CONSISTENCY = Dimension(
    name="consistency",
    definition="whether every fact the summary states is supported by the document",
    inputs=DOCUMENT,
    anchors=_five(
        "most statements are contradicted or invented",
        "some statements have no support",
        "the document supports every statement",
    ),
    instruction=(
        "Judge the factual consistency of the summary: does the document support each statement it "
        "makes? Check every fact of the summary against the document and lower the rating for "
        "facts that are contradicted, altered or made up."
    ),
    source=SUMMEVAL,
)

FLUENCY = Dimension(
    name="fluency",
    definition="the quality of the summary's single sentences as English",
    inputs=SUMMARY,
    anchors=_five(
        "hard to read: broken grammar, fragments, stray characters",
        "readable in spite of mistakes",
        "clean sentences without mistakes",
    ),
    instruction=(
        "Judge the fluency of the summary, sentence by sentence: grammar, spelling, punctuation, "
        "capitals, choice of words and sentence structure. Lower the rating for mistakes that make "
        "it hard to read."
    ),
    source=SUMMEVAL,
)

RELEVANCE = Dimension(
    name="relevance",
    definition="whether the summary picks the important content of the document and only that",
    inputs=DOCUMENT,
    anchors=_five(
        "misses the point, or is full of side issues",
        "some main points, some missing or beside the point",
        "all main points and nothing superfluous",
    ),
    instruction=(
        "Judge the relevance of the summary: does it select the important content of the document? "
        "Work out the main points, see how many the summary covers, and lower the rating for "
        "redundancy and for details that do not matter."
    ),
    source=SUMMEVAL,
)

DENSITY = "Chain of Density (arXiv:2309.04269)"
WORST_TO_BEST = _five("worst", "", "best")

COD_INFORMATIVE = Dimension(
    name="cod_informative",
    definition="whether the summary gives the important information, accurately and in few words",
    inputs=ARTICLE,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge how informative the summary is. An informative summary covers the important points "
        "of the article, states them accurately, as the article supports them, and is concise."
    ),
    source=DENSITY,
)

COD_QUALITY = Dimension(
    name="cod_quality",
    definition="whether a reader can follow and understand the summary",
    inputs=SUMMARY,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the quality of the summary. A summary of high quality is easy to read: a reader who "
        "sees nothing else can follow every sentence and understand what it says."
    ),
    source=DENSITY,
)

COD_COHERENCE = Dimension(
    name="cod_coherence",
    definition="whether the summary is well structured and in a good order",
    inputs=SUMMARY,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the coherence of the summary. A coherent summary is well structured and well "
        "organised: its sentences are connected and stand in a logical order."
    ),
    source=DENSITY,
)

COD_ATTRIBUTABLE = Dimension(
    name="cod_attributable",
    definition="whether everything the summary says can be found in the article",
    inputs=ARTICLE,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge how far the summary is attributable to the article: is all of its information fully "
        "supported by the article? Lower the rating for every fact the article does not support."
    ),
    source=DENSITY,
)

COD_OVERALL = Dimension(
    name="cod_overall",
    definition="how good the summary is as a whole",
    inputs=ARTICLE,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the summary as a whole, by how much a reader would prefer it. A good summary brings "
        "across the main points of the article, and is concise, logical and coherent."
    ),
    source=DENSITY,
)

DPO = "DPO win rates (arXiv:2305.18290)"

TLDR_SALIENCE = Comparison(
    name="tldr_salience",
    definition="which summary better gives the post's most important points",
    inputs=POST,
    candidate="summary",
    instruction=(
        "Decide which of the two summaries of the forum post is better. The better summary covers "
        "more of the most important points of the post."
    ),
    source=DPO,
)

TLDR_CONCISE = Comparison(
    name="tldr_concise",
    definition="which summary gives the post's most important points and no unimportant detail",
    inputs=POST,
    candidate="summary",
    instruction=(
        "Decide which of the two summaries of the forum post is better. A good summary gives the "
        "most important points of the post without unimportant or irrelevant details: it is both "
        "precise and concise."
    ),
    source=DPO,
)

DIALOGUE_HELPFUL = Comparison(
    name="dialogue_helpful",
    definition="which response is more helpful to the user who asked the query",
    inputs={"query": "what the user asked the chatbot"},
    candidate="response",
    instruction=(
        "Decide which of the two responses to the user's query is more helpful. Which one is "
        "more helpful decides: prefer the more helpful one."
    ),
    source=DPO,
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
    """The catalogue judge of that name; UnknownDimensionError names its neighbours."""
    if name in JUDGES:
        return JUDGES[name]
    near = difflib.get_close_matches(name.lower(), JUDGES, n=3, cutoff=0.5)
    raise UnknownDimensionError(
        f"no judge {name!r} in the catalogue; near it: {', '.join(near or JUDGES)} (dspy-judges "
        "list shows all); one of your own is a file, FILE.yaml"
    )
