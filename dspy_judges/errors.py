"""The one root of the errors that people can mend, below `data` and `judges` alike."""

from typing import ClassVar


class JudgesError(Exception):
    """What is wrong, with the thing, the value and the way out."""

    # What a command ends with: 1, it failed; 2, it was used wrongly.
    exit_code: ClassVar[int] = 1


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """A library that an extra installs, or that an install of the judges alone leaves out."""


class UsageError(JudgesError, ValueError):
    """A flag or an option that makes no sense, by itself or with others."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a wrong value, as given in Python."""
