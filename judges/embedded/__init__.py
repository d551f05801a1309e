"""The embedded statistical model: free, offline, deterministic, and not a language model."""

from judges.embedded.model import EmbeddedModel

__all__ = ["EmbeddedModel"]
