"""The root of what is wrong with tables and labels: a command tells it in a line."""


class DataError(Exception):
    """What is wrong, with file, line, field and value, and the way out."""
