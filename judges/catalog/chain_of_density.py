"""The five rating judges that GPT-4 gave Chain of Density summaries, on a scale from 1 to 5.

Source: Adams et al. 2023 (arXiv:2309.04269), the appendix on GPT-4 metrics: informative, quality,
coherence, attributable and overall preference. Quality and coherence see the summary alone. The
paper checks them by summary-level Pearson correlation with the number of first-place votes that
people gave each summary: .215, .120, .178, .245 and .311 in this order.
"""

from judges.dimension import Dimension

DOCUMENT = "the article that was summarized"
SUMMARY = "the summary to judge"
SOURCE = "Chain of Density (arXiv:2309.04269)"
BOTH = {"document": DOCUMENT, "summary": SUMMARY}
ALONE = {"summary": SUMMARY}
WORST_TO_BEST = {1: "worst", 2: "", 3: "", 4: "", 5: "best"}

INFORMATIVE = Dimension(
    name="cod_informative",
    definition="whether the summary gives the important information, accurately and in few words",
    inputs=BOTH,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge how informative the summary is. An informative summary covers the important points "
        "of the article, states them accurately, as the article supports them, and is concise."
    ),
    source=SOURCE,
)

QUALITY = Dimension(
    name="cod_quality",
    definition="whether a reader can follow and understand the summary",
    inputs=ALONE,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the quality of the summary. A summary of high quality is easy to read: a reader who "
        "sees nothing else can follow every sentence and understand what it says."
    ),
    source=SOURCE,
)

COHERENCE = Dimension(
    name="cod_coherence",
    definition="whether the summary is well structured and in a good order",
    inputs=ALONE,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the coherence of the summary. A coherent summary is well structured and well "
        "organised: its sentences are connected and stand in a logical order."
    ),
    source=SOURCE,
)

ATTRIBUTABLE = Dimension(
    name="cod_attributable",
    definition="whether everything the summary says can be found in the article",
    inputs=BOTH,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge how far the summary is attributable to the article: is all of its information fully "
        "supported by the article? Lower the rating for every fact the article does not support."
    ),
    source=SOURCE,
)

OVERALL = Dimension(
    name="cod_overall",
    definition="how good the summary is as a whole",
    inputs=BOTH,
    anchors=WORST_TO_BEST,
    instruction=(
        "Judge the summary as a whole, by how much a reader would prefer it. A good summary brings "
        "across the main points of the article, and is concise, logical and coherent."
    ),
    source=SOURCE,
)

JUDGES = (INFORMATIVE, QUALITY, COHERENCE, ATTRIBUTABLE, OVERALL)
