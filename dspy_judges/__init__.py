"""The project by the name that it is installed under: its version and its commands."""

__version__ = "0.1.0"
