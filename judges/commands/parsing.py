"""A command line that says what is wrong in one line, and takes no flag for another."""

import argparse
from typing import Any, NoReturn

from judges.engine.telling import visible
from judges.models.secrets import Secrets


class Parser(argparse.ArgumentParser):
    """Ends with 2 and one line; a flag's name is written out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        told = visible(Secrets().blot(" ".join(message.split())))
        self.exit(2, f"{self.prog}: {told} (--help lists the flags)\n")


def count(text: str) -> int:
    """A whole number, 1 or more; for argparse's `type`."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return number


def seed(text: str) -> int:
    number = whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return number


def positive(text: str) -> float:
    number = number_of(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return number


def share(text: str) -> float:
    number = number_of(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be within 0 and 1")
    return number


def temperature(text: str) -> float:
    number = number_of(text)
    if not 0 <= number <= 10:
        raise argparse.ArgumentTypeError(f"{text}: must be within 0 and 10")
    return number


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
