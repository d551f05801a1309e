"""The catalogue: judges as data, one file a source."""

from judges.catalog.index import find, names

__all__ = ["find", "names"]
