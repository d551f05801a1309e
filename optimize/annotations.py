"""Labels as numbers: every annotator's ratings as a matrix, and any judge's scores by id."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from data.columns import CellRatings
from data.readers import read_annotations as read_long_file
from data.readers import refusal
from data.tables.problems import Problems, RowsError
from data.tables.read import read_json_lines
from data.types import LabelError, LabelledSet
from optimize.statistics.coefficients import Matrix


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """(outputs, annotators) ratings, NaN where unrated, and the annotators' names.

    Ratings without names are taken by their place, if every output with several has as many. A
    single rating by nobody named may be a mean: NaN. Raises LabelError where only such are known,
    or who gave a rating is not.
    """
    known = [one.annotators.get(dimension, ()) for one in labelled.outputs]
    marks = [one.ratings.get(dimension, ()) for one in labelled.outputs]
    marks = [
        given if some or len(given) > 1 else () for some, given in zip(known, marks, strict=True)
    ]
    sizes = {len(given) for given in marks if given}
    if max(sizes, default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's, in `annotations` or a long file (--annotations)"
        )
    if not any(known) and len(sizes) == 1:
        known = [tuple(str(place + 1) for place in range(len(given))) for given in marks]
    names = tuple(sorted({name for some in known for name in some}))
    matrix = np.full((len(marks), len(names)), np.nan)
    for row, (some, given) in enumerate(zip(known, marks, strict=True)):
        if given and len(some) != len(given):
            raise LabelError(
                f"{labelled.name}: output {labelled.outputs[row].id!r} has {len(given)} ratings on "
                f"{dimension!r} and {len(some)} annotators' names: say who gave which"
            )
        for name, mark in zip(some, given, strict=True):
            matrix[row, names.index(name)] = mark
    return matrix, names


def read_annotations(path: Path, dimension: str) -> Mapping[str, CellRatings]:
    """Who gave what on a dimension, by output id, from a long file.

    Its columns are id, dimension, annotator, rating. Raises LabelError for what `data.read_labels`
    refuses, and where it holds no rating on the dimension.
    """
    problems = Problems(str(path))
    rated, _ = read_long_file(path, problems, {})
    if problems:
        raise refusal(problems)
    found = {item: marks[dimension] for item, marks in rated.items() if dimension in marks}
    if not found:
        raise LabelError(f"{path}: no rating on {dimension!r}")
    return found


def read_scores(path: Path, dimension: str) -> Mapping[str, float]:
    """Read `{"id", "dimension", "score"}` lines on a dimension; NaN for a null score.

    Rows as `judges score` writes them, with their scores under `judgements`, will do as well.
    Raises LabelError for any other line, a second score of an id, or none at all.
    """
    scores: dict[str, float] = {}
    for number, row in _rows(path):
        where = f"{path.name}, line {number}"
        try:
            if row.get("dimension", dimension) != dimension:
                continue
            judged = row["judgements"].get(dimension) if "judgements" in row else row
            if judged is None:
                continue
            name, score = str(row["id"]), judged["score"]
            value = math.nan if score is None else float(score)
            if math.isinf(value):
                raise ValueError("an infinite score")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise LabelError(
                f'{where}: expected {{"id", "dimension", "score"}} with a number ({error!r:.200})'
            ) from error
        if name in scores:
            raise LabelError(f"{where}: {name!r:.60} has a score already")
        scores[name] = value
    if not scores:
        raise LabelError(f"{path.name}: no score on {dimension!r}")
    return scores


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from read_json_lines(path)
    except RowsError as error:
        raise LabelError(str(error)) from error
