"""The built-in statistical model: free, offline, deterministic, and not a language model."""

from judges.models.embedded.model import EmbeddedModel

__all__ = ["EmbeddedModel"]
