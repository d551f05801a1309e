"""The pairwise judges behind DPO's GPT-4 win rates (Rafailov et al. 2023, arXiv:2305.18290)."""

from judges.dimension import Comparison

POST = "the forum post that was summarized"
SOURCE = "DPO win rates (arXiv:2305.18290)"

TLDR_CONCISE = Comparison(
    name="tldr_concise",
    definition="which summary gives the post's most important points and no unimportant detail",
    inputs={"post": POST},
    candidate="summary",
    instruction=(
        "Decide which of the two summaries of the forum post is better. A good summary gives the "
        "most important points of the post without unimportant or irrelevant details: it is both "
        "precise and concise. First compare the two in one sentence that says which you prefer and "
        "why, then name the preferred one."
    ),
    source=SOURCE,
)

JUDGES = (TLDR_CONCISE,)
