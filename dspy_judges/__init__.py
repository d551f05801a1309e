"""The project's version, the console script `dspy-judges`, and the code that all packages share."""

__version__ = "0.1.0"
