"""The root of all errors that users can mend."""

from typing import ClassVar


class JudgesError(Exception):
    """An error that users can mend; the message says what is wrong, the value, and what to do."""

    # The exit code of a command: 1 failed, 2 wrong usage.
    exit_code: ClassVar[int] = 1


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """A library of an optional extra is not installed."""


class UsageError(JudgesError, ValueError):
    """A flag or an option has a wrong value, or does not go with another."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a Python function has a wrong value."""
