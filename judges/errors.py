"""The errors that people can mend: a command tells one in a line, without a traceback.

All are JudgesErrors, as `judges.JudgesError` and `data.tables.problems.DataError` (what is wrong
with a table or with labels) are. Whatever else is raised is a mistake of this project and shows its
traceback.
"""

from dspy_judges.errors import JudgesError, MissingExtraError

__all__ = ["JudgesError", "MissingExtraError", "OptionError", "UsageError"]


class UsageError(JudgesError, ValueError):
    """A flag or an option that makes no sense, by itself or with others."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a wrong value, as given in Python."""
