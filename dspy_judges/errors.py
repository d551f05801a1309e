"""The base classes of all errors that users can fix."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple


class Setting(NamedTuple):
    """A setting in the message of an error, with its value if the message states one.

    A command has a flag for it, such as `--price proposer=1,4`, and a Python function an argument,
    such as `proposer_price=1,4`.
    """

    name: str
    value: object = ""

    @property
    def flag(self) -> str:
        base_name = self.name.removeprefix("proposer_")
        if base_name in (self.name, "lm"):
            return f"--{self.name.replace('_', '-')} {self.value}".rstrip()
        return f"--{base_name.replace('_', '-')} proposer={self.value}"

    @property
    def argument(self) -> str:
        return f"{self.name}={self.value}" if self.value != "" else self.name


class JudgesError(Exception):
    """An error that users can fix; its message names the problem, the value, and the way out.

    Its arguments are the parts of the message: texts and settings.
    """

    # The exit code of a command that ends with this error: 1 for a failure, 2 for wrong usage.
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return "".join(part.flag if isinstance(part, Setting) else str(part) for part in self.args)


@contextmanager
def name_arguments(**argument_names: str) -> Iterator[None]:
    """Let errors raised in the block name settings as arguments, and not as flags.

    `argument_names` are the names of arguments that differ from the names of the settings.
    """
    try:
        yield
    except JudgesError as error:
        error.args = tuple(
            Setting(argument_names.get(part.name, part.name), part.value).argument
            if isinstance(part, Setting)
            else part
            for part in error.args
        )
        raise


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """A library that belongs to an optional extra is not installed."""


class ExistsError(JudgesError, FileExistsError):
    """A file exists, and it is not to be overwritten."""


class UsageError(JudgesError, ValueError):
    """A command-line flag has a wrong value, or cannot be combined with another flag."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """An argument of a Python function has a wrong value."""
