"""The base classes of all errors that users can fix, and the names of options in messages."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar


class JudgesError(Exception):
    """Raised if users can fix the error; the message names problem, value and remedy."""

    # The exit code of a command that ends with this error: 1 for a failure, 2 for wrong usage.
    exit_code: ClassVar[int] = 1


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """Raised if a library that belongs to an optional extra is not installed."""


class ExistsError(JudgesError, FileExistsError):
    """Raised if a file exists and must not be overwritten."""


class UsageError(JudgesError, ValueError):
    """Raised if a command-line flag has a wrong value, or does not go with another flag."""

    exit_code = 2


class OptionError(JudgesError, ValueError):
    """Raised if an argument of a Python function has a wrong value."""


# None if options are flags; otherwise the names of the arguments that differ from the options'.
_argument_names: ContextVar[Mapping[str, str] | None] = ContextVar("_argument_names", default=None)


# Messages on labels name these flags, whether a command or a function reads the labels.
_FLAGS_IN_PYTHON = {
    "--map": "map={'NAME': 'COLUMN'}",
    "--scale": "scale='LOW-HIGH'",
    "--values": "values={'WORD': 1}",
}


@contextmanager
def arguments_in_messages(**argument_names: str) -> Iterator[None]:
    """Make messages name arguments, not flags; `argument_names` maps options to other names."""
    token = _argument_names.set(argument_names)
    try:
        yield
    except JudgesError as error:
        message = str(error)
        arguments = [
            f"{text} for {flag}" for flag, text in _FLAGS_IN_PYTHON.items() if flag in message
        ]
        if arguments:
            error.args = (f"{message}. In Python, write {' and '.join(arguments)}",)
        raise
    finally:
        _argument_names.reset(token)


def option_name(name: str, value: object = "") -> str:
    """Return an option in a message as its user writes it, with the value if there is one.

    For a command it is a flag, such as `--price proposer=1,4`; in `arguments_in_messages`, it is an
    argument, such as `proposer_price=1,4`.
    """
    if (argument_names := _argument_names.get()) is not None:
        argument = argument_names.get(name, name)
        return argument if value == "" else f"{argument}={value}"
    flag_name = name.removeprefix("proposer_")
    if flag_name in (name, "lm"):
        return f"--{name.replace('_', '-')} {value}".rstrip()
    return f"--{flag_name.replace('_', '-')} proposer={value}"
