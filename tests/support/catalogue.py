"""Judges of the catalogue that many tests use."""

from judges.catalog import JUDGES

COHERENCE, FLUENCY, RELEVANCE, TLDR_CONCISE = (
    JUDGES[name] for name in ("coherence", "fluency", "relevance", "tldr_concise")
)
