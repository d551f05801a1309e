"""The data sets that ship with the project: constructed, so that everything runs on first use."""

from dataclasses import replace
from pathlib import Path

from data.readers import read_labels, read_pairs
from data.types import LabelledPairs, LabelledSet

_STARTER = Path(__file__).with_name("starter")

NAMES = {"starter": _STARTER / "outputs.jsonl", "starter_pairs": _STARTER / "pairs.jsonl"}


def starter() -> LabelledSet:
    """Return the starter outputs, whose ratings are constructed and nobody's."""
    return replace(read_labels(NAMES["starter"]), name="starter")


def starter_pairs() -> LabelledPairs:
    """Return the starter pairs, whose votes are constructed and nobody's."""
    return replace(read_pairs(NAMES["starter_pairs"]), name="starter_pairs")
