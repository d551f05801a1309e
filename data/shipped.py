"""The data sets that ship with the project: constructed, so that everything runs on first use."""

from pathlib import Path

from data.readers import read_labels, read_pairs
from data.types import LabelledPairs, LabelledSet

_STARTER = Path(__file__).with_name("starter")

OUTPUTS = {"starter": _STARTER / "outputs.jsonl"}
PAIRS = {"starter_pairs": _STARTER / "pairs.jsonl"}


def starter() -> LabelledSet:
    """Return the starter outputs, whose ratings are constructed and nobody's."""
    labelled = read_labels(OUTPUTS["starter"])
    return LabelledSet(
        name="starter",
        sha256=labelled.sha256,
        outputs=labelled.outputs,
        grouped_by=labelled.grouped_by,
        notes=labelled.notes,
    )


def starter_pairs() -> LabelledPairs:
    """Return the starter pairs, whose votes are constructed and nobody's."""
    labelled = read_pairs(PAIRS["starter_pairs"])
    return LabelledPairs(
        name="starter_pairs",
        sha256=labelled.sha256,
        pairs=labelled.pairs,
        candidate=labelled.candidate,
        grouped_by=labelled.grouped_by,
        notes=labelled.notes,
    )
