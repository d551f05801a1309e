"""The root of the errors that people can mend: a command tells one in a line, without a traceback.

Whatever else is raised is a mistake of this project and shows its traceback. What is wrong with a
table or with labels is a `data.tables.problems.DataError`, since judging texts needs no `data`.
"""

from typing import ClassVar


class JudgesError(Exception):
    """What is wrong, with the thing, the value and the way out."""

    # What a command ends with: 1, it failed; 2, it was used wrongly.
    exit_code: ClassVar[int] = 1


class UsageError(JudgesError, ValueError):
    """A flag or an option that makes no sense, by itself or with others."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a wrong value, as given in Python."""


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """A package that only an extra of this one installs."""
