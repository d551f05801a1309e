"""The commands of `dspy-judges`."""
