"""Every annotator's ratings for a run whose labels held only their means."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from data.numbers import Marks
from data.types import LabelError, LabelledOutput
from optimize.annotations import read_annotations
from optimize.run.judged_split import AnyLabelled, JudgedSplit
from optimize.run.record_evidence import RunEvidence


def annotated(recorded: RunEvidence, path: Path) -> RunEvidence:
    """The same evidence with the ratings of a long file beside it; rho stays what it was.

    Raises LabelError where the file cannot be read or rates no output of the run.
    """
    first = next(one for splits in recorded.judged.values() for one in splits.values())
    if first.verdicts:
        raise LabelError(f"{path}: this run judged pairs, which have votes and no ratings")
    rated = read_annotations(path, first.dimension)
    judged = {item.id for splits in recorded.judged.values() for item in _items(splits)}
    if not judged & rated.keys():
        raise LabelError(
            f"{path}: none of its {len(rated):,} ids is that of an output this run was tested on"
        )
    shown = {
        judge: {split: _with(evidence, rated) for split, evidence in splits.items()}
        for judge, splits in recorded.judged.items()
    }
    return replace(recorded, judged=shown)


def _items(splits: Mapping[str, JudgedSplit]) -> list[LabelledOutput]:
    return [one for evidence in splits.values() for one in evidence.outputs]


def _with(evidence: JudgedSplit, rated: Mapping[str, Marks]) -> JudgedSplit:
    return replace(
        evidence,
        labelled=tuple(_marked(one, evidence.dimension, rated) for one in evidence.labelled),
    )


def _marked(person: AnyLabelled, dimension: str, rated: Mapping[str, Marks]) -> AnyLabelled:
    marks = rated.get(person.id)
    if marks is None or not isinstance(person, LabelledOutput):
        return person
    return replace(
        person,
        ratings={**person.ratings, dimension: marks.ratings},
        annotators={**person.annotators, dimension: marks.annotators},
    )
