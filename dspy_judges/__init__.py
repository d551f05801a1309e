"""The project's own name: its version, and the console script `dspy-judges`."""

__version__ = "0.1.0"
