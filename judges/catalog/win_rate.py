"""The three pairwise judges behind DPO's GPT-4 win rates.

Source: Rafailov et al. 2023 (arXiv:2305.18290), the appendix on GPT-4 prompts for win rates:
summaries of forum posts by their most important points (S, here `tldr_salience`) and by the same
without unimportant detail (C, `tldr_concise`), and chatbot responses by helpfulness. Each writes a
comparing sentence, then A or B, as its fields say; there the order of the two was drawn at random
for every pair.
"""

from judges.dimension import Comparison

POST = "the forum post that was summarized"
QUERY = "what the user asked the chatbot"
SOURCE = "DPO win rates (arXiv:2305.18290)"

TLDR_SALIENCE = Comparison(
    name="tldr_salience",
    definition="which summary better gives the post's most important points",
    inputs={"post": POST},
    candidate="summary",
    instruction=(
        "Decide which of the two summaries of the forum post is better. The better summary covers "
        "more of the most important points of the post."
    ),
    source=SOURCE,
)

TLDR_CONCISE = Comparison(
    name="tldr_concise",
    definition="which summary gives the post's most important points and no unimportant detail",
    inputs={"post": POST},
    candidate="summary",
    instruction=(
        "Decide which of the two summaries of the forum post is better. A good summary gives the "
        "most important points of the post without unimportant or irrelevant details: it is both "
        "precise and concise."
    ),
    source=SOURCE,
)

DIALOGUE_HELPFUL = Comparison(
    name="dialogue_helpful",
    definition="which response is more helpful to the user who asked the query",
    inputs={"query": QUERY},
    candidate="response",
    instruction=(
        "Decide which of the two responses to the user's query is more helpful. Which one is "
        "more helpful decides: prefer the more helpful one."
    ),
    source=SOURCE,
)

JUDGES = (TLDR_SALIENCE, TLDR_CONCISE, DIALOGUE_HELPFUL)
