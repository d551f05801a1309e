"""The data sets that ship with the project: constructed, so that everything runs on first use."""

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from data.readers import read_labels, read_pairs
from data.types import LabelledPairs, LabelledSet

_STARTER = Path(__file__).with_name("starter")

SHIPPED_NAMES = {"starter": _STARTER / "outputs.jsonl", "starter_pairs": _STARTER / "pairs.jsonl"}


def is_constructed(sha256: str) -> bool:
    """Whether a file's bytes are those of a set that ships, whatever the file is called."""
    return sha256 in _hashes()


@cache
def _hashes() -> frozenset[str]:
    return frozenset(
        hashlib.sha256(path.read_bytes()).hexdigest() for path in SHIPPED_NAMES.values()
    )


def starter() -> LabelledSet:
    """Return the starter outputs, whose ratings are constructed and nobody's."""
    return replace(read_labels(SHIPPED_NAMES["starter"]), name="starter")


def starter_pairs() -> LabelledPairs:
    """Return the starter pairs, whose votes are constructed and nobody's."""
    return replace(read_pairs(SHIPPED_NAMES["starter_pairs"]), name="starter_pairs")
