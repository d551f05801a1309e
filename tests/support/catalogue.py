"""Judges of the catalogue that many tests use."""

from judges.catalog import SUBJECT_BY_NAME

COHERENCE, FLUENCY, RELEVANCE, TLDR_CONCISE = (
    SUBJECT_BY_NAME[name] for name in ("coherence", "fluency", "relevance", "tldr_concise")
)
