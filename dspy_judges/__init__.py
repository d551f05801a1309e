"""The version of the project and the console script `dspy-judges`."""

__version__ = "0.1.0"
