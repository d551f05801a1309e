"""The base classes of all errors that users can fix, and how messages name options."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar


class JudgesError(Exception):
    """Raised if users can fix the problem; the message names the problem, the value and the fix."""

    # The exit code of a command that ends with this error: 1 for a failure, 2 for wrong usage.
    exit_code: ClassVar[int] = 1


class MissingExtraError(JudgesError, ModuleNotFoundError):
    """Raised if a library that belongs to an optional extra is not installed."""


class ExistsError(JudgesError, FileExistsError):
    """Raised if a file exists and must not be overwritten."""


class UsageError(JudgesError, ValueError):
    """Raised if a command-line flag has a wrong value, or does not go with another flag."""

    exit_code = 2


class SettingsError(UsageError):
    """Raised if a setting is wrong, or if two settings do not go together."""


class OptionError(JudgesError, ValueError):
    """Raised if an argument of a Python function has a wrong value."""


# Maps an option to the Python argument that sets it, if their names differ. None while a command
# runs, because a command's options are flags.
_argument_by_option: ContextVar[Mapping[str, str] | None] = ContextVar("arguments", default=None)
# The flags that messages about label files name, and the Python argument in place of each flag.
_ARGUMENT_BY_FLAG = {
    "--map": "map={'NAME': 'COLUMN'}",
    "--scale": "scale='LOW-HIGH'",
    "--values": "values={'WORD': 1}",
}


@contextmanager
def arguments_in_messages(**argument_by_option: str) -> Iterator[None]:
    """Within this context, error messages name arguments of Python functions in place of flags."""
    reset_token = _argument_by_option.set(argument_by_option)
    try:
        yield
    except JudgesError as error:
        named_flags = [flag for flag in _ARGUMENT_BY_FLAG if flag in str(error)]
        if named_flags:
            advice = " and ".join(f"{_ARGUMENT_BY_FLAG[flag]} for {flag}" for flag in named_flags)
            error.args = (f"{error}. In Python, write {advice}",)
        raise
    finally:
        _argument_by_option.reset(reset_token)


def option_name(option: str, value: object = "") -> str:
    """Return an option for a message as users write it, with its value if there is a value.

    The user of a command writes a flag, such as `--price proposer=1,4`. In the context
    `arguments_in_messages`, the user writes an argument, such as `proposer_price=1,4`.
    """
    if (argument_by_option := _argument_by_option.get()) is not None:
        argument = argument_by_option.get(option, option)
        return argument if value == "" else f"{argument}={value}"
    if option.startswith("proposer_") and option != "proposer_lm":
        flag = option.removeprefix("proposer_").replace("_", "-")
        return f"--{flag} proposer={value}"
    return f"--{option.replace('_', '-')} {value}".rstrip()
