"""The base classes of all errors that users can fix."""

from typing import ClassVar


class JudgesError(Exception):
    """An error that users can fix; its message names the problem, the value, and the way out."""

    # The exit code of a command that ends with this error: 1 for a failure, 2 for wrong usage.
    exit_code: ClassVar[int] = 1


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """A library that belongs to an optional extra is not installed."""


class ExistsError(JudgesError, FileExistsError):
    """A file exists, and it is not to be overwritten."""


class UsageError(JudgesError, ValueError):
    """A command-line flag has a wrong value, or cannot be combined with another flag."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a Python function has a wrong value."""
