"""The catalogue: judges as data, one file a source."""
