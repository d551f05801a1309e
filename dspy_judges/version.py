"""To go with the last user."""

from dspy_judges import __version__

__all__ = ["__version__"]
