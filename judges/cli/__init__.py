"""The commands of `python -m judges`."""
