"""Labels as numbers: every annotator's ratings as a matrix, and any judge's scores by id."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import data.readers
from data.tables.problems import RowsError
from data.tables.read import read_json_lines
from data.types import LabelError, LabelledSet
from optimize.statistics.coefficients import Matrix


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """(outputs, annotators) ratings, NaN where unrated, and the annotators' names.

    Ratings without names are taken by their place, if every output with several has as many. A
    single rating by nobody named may be a mean: NaN. Raises LabelError where only such are known,
    or who gave a rating is not.
    """
    names_of = [output.annotators.get(dimension, ()) for output in labelled.outputs]
    ratings = [output.ratings.get(dimension, ()) for output in labelled.outputs]
    ratings = [
        values if annotators or len(values) > 1 else ()
        for annotators, values in zip(names_of, ratings, strict=True)
    ]
    sizes = {len(values) for values in ratings if values}
    if max(sizes, default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's, in `annotations` or a long file (--annotations)"
        )
    if not any(names_of) and len(sizes) == 1:
        names_of = [tuple(str(place + 1) for place in range(len(values))) for values in ratings]
    names = tuple(sorted({name for annotators in names_of for name in annotators}))
    matrix = np.full((len(ratings), len(names)), np.nan)
    for row, (annotators, values) in enumerate(zip(names_of, ratings, strict=True)):
        if values and len(annotators) != len(values):
            raise LabelError(
                f"{labelled.name}: output {labelled.outputs[row].id!r} has {len(values)} ratings "
                f"on {dimension!r} and {len(annotators)} annotators' names: say who gave which"
            )
        for name, value in zip(annotators, values, strict=True):
            matrix[row, names.index(name)] = value
    return matrix, names


def read_annotations(path: Path, dimension: str) -> Mapping[str, Mapping[str, float]]:
    """Who gave what on a dimension, by output id, from a long file.

    Its columns are id, dimension, annotator, rating. Raises LabelError for what `data.read_labels`
    refuses, and where it holds no rating on the dimension.
    """
    by_output = {
        item: {str(annotator): rating for annotator, rating in ratings[dimension].items()}
        for item, ratings in data.readers.read_annotations(path).items()
        if dimension in ratings
    }
    if not by_output:
        raise LabelError(f"{path}: no rating on {dimension!r}")
    return by_output


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
