"""The words of the command line that say how to read a file."""

import argparse

from data.numbers import Scale


def map_option(text: str) -> tuple[str, str]:
    """Read `NAME=COLUMN`; for argparse's `type`."""
    name, equals, column = text.partition("=")
    if not (name and equals and column):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN, as in document=article")
    return name, column


def scale_option(text: str) -> tuple[str, Scale]:
    """Read `LOW:HIGH`, for every dimension, or `DIMENSION=LOW:HIGH`; for argparse's `type`."""
    name, equals, bounds = text.rpartition("=")
    low, colon, high = bounds.partition(":")
    try:
        scale = float(low), float(high)
    except ValueError:
        colon = ""
        scale = (0.0, 0.0)
    if not colon or not scale[0] < scale[1] or (equals and not name):
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH, as in 1:5 or relevance=1:5")
    return name or "*", scale
