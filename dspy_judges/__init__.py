"""The project's version, its console script `dspy-judges`, and what all its packages share."""

__version__ = "0.1.0"
