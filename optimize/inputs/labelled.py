"""Reads the human labels that a command is given, and finds the subject that they are about."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from dspy_judges.column_names import name_key
from judges import loading
from judges.dimension import Comparison, Dimension, Subject, UnknownDimensionError
from judges.labels.columns import ColumnNames
from judges.labels.conversations import CONVERSATION, JUDGED
from judges.labels.flags import MapEntry, split_mapping
from judges.labels.names import OUTPUTS, is_known_text, is_usual_text, known_word, map_flag
from judges.labels.readers import read_labels, read_pairs, starter, starter_pairs
from judges.labels.splits import with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Values
from judges.prompt import NAME, are_words
from judges.tables.in_memory import Rows, is_in_memory
from judges.tables.problems import joined_names
from optimize.inputs.flags import ANY_SCALE, SettingsError, bounds_of, fitting_scale, whole_ratings
from optimize.items import Items, annotation_matrix, levels_of
from optimize.statistics.correlations import Level
from optimize.statistics.human import annotator_agreement

Labelled = LabelledSet | LabelledPairs

AnyPath = str | os.PathLike[str]

AnyLevel = Level | Literal["auto"]

MANY_ANNOTATORS = 10
# A judge's words for labels with two values, where people's own cannot be used.
PASS_FAIL = ("pass", "fail")
# The kinds of problems in a file without labels on a dimension.
NO_SUCH_LABELS = {"no-rating", "no-column", "pairs"}
# A judge's scale where labels have no scale of their own.
DEFAULT_SCALE = (1, 5)


def check_level(level: AnyLevel, items: Items, *, pairs: bool) -> None:
    """Raise SettingsError for a level that labels do not have, before any model is asked."""
    levels = ("dataset",) if pairs else levels_of(items)
    if level not in ("auto", *levels):
        what = "pairs" if pairs else "these labels"
        raise SettingsError(f"level {level}: {what} have the levels {', '.join(levels)}")


def judge_name(text: str) -> str:
    """A name as judges have it: lower case, its words joined by underscores."""
    return re.sub("[^a-z0-9]+", "_", text.casefold()).strip("_")


def find_subject(name: str) -> Subject | None:
    """The dimension or comparison with this name; None where unknown, as recordings may be."""
    subject = _find(name)
    return None if isinstance(subject, UnknownDimensionError) else subject


def _find(name: str) -> Subject | UnknownDimensionError:
    """The subject of the catalogue or of a file, or the error that says why there is none."""
    try:
        return loading.read_subject(name)
    except UnknownDimensionError as error:
        return error


def subject_of(
    spec: str,
    source: AnyPath | Labelled | Rows | None,
    *,
    pairwise: bool = False,
    scale: str | None = None,
    map: Mapping[str, MapEntry],
    values: Mapping[str, object],
    annotations: AnyPath | None = None,
) -> tuple[Subject, Labelled] | None:
    """Return a subject made of labels, and the labels; None where there are none by its name.

    `spec` is the labels' name or NAME=DEFINITION, and ratings need the definition. `source` is a
    file, rows or a labelled set, `scale` is people's (by default the usual one that fits), and
    `map`, `values` and `annotations` say how a file is read.
    """
    written_name, equals, definition = (part.strip() for part in spec.partition("="))
    if equals and (source is None or not definition.strip(".…")):
        raise SettingsError(
            f"{written_name}=LINE defines labels of your own: write what earns a good one, "
            "and name them by --data"
        )
    if source is None:
        raise UnknownDimensionError(f"no --data FILE names labels, and {_find(written_name)}")
    name = judge_name(written_name)
    if not NAME.match(name):
        return None
    columns, words = split_mapping(map, values)
    if name_key(name) != name_key(written_name) and not pairwise:
        columns = {name: written_name, **columns}
    labelled: Labelled
    try:
        if isinstance(source, LabelledSet | LabelledPairs):
            labelled = source
        elif pairwise:
            labelled = read_pairs(_file_or_rows(source), map=columns, values=words)
        else:
            labelled = read_labels(
                _file_or_rows(source),
                map=columns,
                dimensions=[name],
                annotations=None if annotations is None else os.fspath(annotations),
                values=words,
            )
    except LabelError as error:
        unknown = _find(written_name)
        is_absent = not equals and {each.kind for each in error.problems} <= NO_SUCH_LABELS
        if is_absent and isinstance(unknown, UnknownDimensionError):
            raise UnknownDimensionError(f"{unknown}; or, of the labels: {error}") from error
        raise
    if pairwise != isinstance(labelled, LabelledPairs):
        return None
    if isinstance(labelled, LabelledPairs):
        texts = _usable_texts(filter(is_known_text, labelled.reading.texts), labelled)
        return loading.comparison_on(name, texts, labelled.candidate, definition), labelled
    if name not in labelled.dimensions:
        return None
    if name not in labelled.words and not equals:
        raise UnknownDimensionError(
            f"no judge {name!r} in the catalogue: say in one line what earns a high rating, "
            f"--dimension '{name}=...', or define it in FILE.yaml"
        )
    answers = words_of(labelled, name) or _scale_of(labelled, name, scale)
    texts = judged_texts(labelled, columns)
    return loading.dimension_on(name, answers, texts, definition), labelled


def judged_texts(labelled: LabelledSet, mapping: Mapping[str, object]) -> list[str]:
    """Return the texts that a judge without a definition reads, the judged one last.

    They have usual names, or the user's, and stand in every row; other texts may be about the
    label. Raises LabelError where several texts may be the judged one.
    """
    columns = labelled.reading.texts
    outputs = [text for text in columns if known_word(text) in OUTPUTS]
    if CONVERSATION in columns and (not outputs or JUDGED[1] in mapping.items()):
        return [CONVERSATION]
    candidates = [text for text in outputs if text in mapping] or outputs or [*columns][:2]
    if len(candidates) != 1 or not NAME.match(candidates[0]):
        # One of an output's name, or else the longest.
        rows = labelled.outputs
        longest = max(columns, key=lambda text: sum(len(row.texts.get(text, "")) for row in rows))
        ways = " or ".join(map_flag("output", [columns[text]]) for text in outputs or [longest])
        raise LabelError(f"{labelled.name}: say which text is judged: {ways}")
    others = [text for text in columns if text not in candidates]
    inputs = [text for text in others if text in mapping or is_usual_text(text)]
    return _usable_texts([*inputs, *candidates], labelled)


def _usable_texts(texts: Iterable[str], labelled: Labelled) -> list[str]:
    """The texts that a prompt can name and that stand in every row."""
    rows = [item.texts for item in labelled.items]
    return [text for text in texts if NAME.match(text) and all(text in row for row in rows)]


def _scale_of(labelled: LabelledSet, name: str, scale: str | None) -> tuple[int, int]:
    """The ends of the scale for a judge of these ratings; LabelError if no usual scale fits."""
    if (bounds := bounds_of(scale)) is not None:
        return whole_ratings(bounds)[0], whole_ratings(bounds)[-1]
    ratings = _ratings(labelled, name)
    usual = _usual_scale(ratings)
    if not usual and scale != ANY_SCALE:
        raise LabelError(f"{labelled.name}: {_scale_advice(ratings)}")
    return usual or DEFAULT_SCALE


def _ratings(labelled: LabelledSet, name: str) -> list[float]:
    return [rating for output in labelled.outputs for rating in output.ratings.get(name, ())]


def words_of(labelled: Labelled, name: str) -> tuple[str, str] | None:
    """Return a judge's words for labels with two values, the good one first; None for others.

    They are people's own words, unless a judge cannot answer with these.
    """
    words = labelled.words.get(name) if isinstance(labelled, LabelledSet) else None
    return words if words is None or are_words(words) else PASS_FAIL


def load_labels(
    source: AnyPath | Labelled | Rows | None,
    name: str,
    subject: Subject | None,
    *,
    mapping: Mapping[str, MapEntry] | str | Path | None = None,
    values: Mapping[str, object] | None = None,
    scale: str | None = None,
    annotations: AnyPath | None = None,
    recorded: bool = False,
    pairwise: bool = False,
) -> Labelled:
    """Return the labels on one subject alone; without a source, those of the starter set.

    With `recorded`, scores exist already, so neither texts nor the judge's own scale are needed.
    With `pairwise`, labels are pairs, whatever the subject is. Raises LabelError for labels of the
    other kind, or if there are none on the subject.
    """
    pairwise = pairwise or isinstance(subject, Comparison)
    judge = None if recorded else subject
    labelled: Labelled
    if source is None or isinstance(source, LabelledSet | LabelledPairs):
        if any((mapping, values, annotations)):
            how = "map, values and annotations say how a file is read"
            raise SettingsError(f"{how}: name it (--data)")
        labelled = source or (starter_pairs() if pairwise else starter())
    else:
        columns, words = split_mapping(mapping, values)
        if pairwise:
            texts = tuple(judge.inputs) if judge else ()
            labelled = read_pairs(_file_or_rows(source), map=columns, texts=texts, values=words)
        else:
            labelled = _read_outputs(source, name, judge, columns, words, scale, annotations)
    if pairwise != isinstance(labelled, LabelledPairs):
        holds, task = ("outputs", "compares two") if pairwise else ("pairs", "rates outputs")
        raise LabelError(f"{labelled.name}: holds {holds}, and {name} {task}")
    if isinstance(labelled, LabelledPairs):
        return labelled
    if source is None and name not in labelled.dimensions:
        raise LabelError(f"the starter set has no labels on {name}: name yours by --data FILE")
    if isinstance(judge, Dimension):
        labelled = _on_two_values(labelled, judge, any_scale=scale == ANY_SCALE)
    if name in labelled.words and (agreement := agreement_of(labelled, name)):
        labelled = replace(labelled, notes=(f"{name}: {agreement}", *labelled.notes))
    return with_ratings(labelled, name)


def _file_or_rows(source: AnyPath | Rows) -> str | Rows:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if not is_in_memory(source):
        raise TypeError(
            f"data is a {type(source).__name__}; a file's path, a DataFrame, a Dataset, a list "
            "of dicts or a labelled set is wanted"
        )
    return source


def only_dimension(labelled: LabelledSet) -> str:
    """Return the dimension that the labels are on; SettingsError if they are on several."""
    if len(labelled.dimensions) > 1:
        names = joined_names(labelled.dimensions)
        raise SettingsError(f"{labelled.name}: holds labels on {names}: name one by --dimension")
    return labelled.dimensions[0]


def agreement_of(labelled: LabelledSet, name: str) -> str:
    """Say how often two annotators agree, counting ties; empty if annotators are unknown."""
    try:
        ratings, names = annotation_matrix(labelled, name)
    except LabelError:
        return ""
    if len(names) > MANY_ANNOTATORS:
        # Few of many annotators share outputs, so compare each output's first label, second, ...
        order = np.argsort(np.isnan(ratings), axis=1, kind="stable")
        ratings = np.take_along_axis(ratings, order, axis=1)[:, :MANY_ANNOTATORS]
    rows = annotator_agreement(ratings)
    sizes = [row.n_outputs for row in rows]
    figures = [(row.equal, row.kappa, row.rho) for row in rows]
    equal, *others = np.average(figures, axis=0, weights=sizes)
    kappa, rho = ("undefined" if np.isnan(value) else f"{value:.2f}" for value in others)
    cases = f"two annotators say the same in {equal:.0%} of {sum(sizes):,} cases, kappa {kappa}"
    return cases if name in labelled.words else f"{cases}, rho {rho}"


def _on_two_values(labelled: LabelledSet, judge: Dimension, *, any_scale: bool) -> LabelledSet:
    """The labels with the judge's words; LabelError if only one of them has two values."""
    name, pair = judge.name, labelled.words.get(judge.name)
    if not judge.words:
        if not pair or judge.scale == (0, 1) or any_scale:
            return labelled
        if not pair[0].isdecimal():
            low, high = judge.scale[0], judge.scale[-1]
            column = labelled.reading.ratings.get(name, (name,))[0]
            own = f"{name}_{name_key(pair[0]).replace(' ', '_')}"
            raise LabelError(
                f"{labelled.name}: {name} is rated from {low} to {high}, and the labels say "
                f"{pair[0]!r} or {pair[1]!r}; tune a judge of these words by --dimension {own} "
                f"{map_flag(own, [column])}, or say what they count: "
                f"--values '{pair[0]}={high},{pair[1]}={low}'"
            )
        # People used two ratings of a longer scale.
        return replace(labelled, words={n: w for n, w in labelled.words.items() if n != name})
    if pair == judge.words[::-1]:
        raise LabelError(f"{labelled.name}: {pair[0]!r} counts 1, and 0 for the judge of {name}")
    if others := sorted({*_ratings(labelled, name)} - {0, 1}):
        raise LabelError(
            f"{labelled.name}: {name} is {' or '.join(judge.words)}, and a label counts "
            f"{others[0]:g}; say which it is, as in --values {others[0]:g}=1"
        )
    return replace(labelled, words={**labelled.words, name: pair or judge.words})


def _read_outputs(
    source: AnyPath | Rows,
    name: str,
    judge: Subject | None,
    columns: Mapping[str, ColumnNames],
    words: Values,
    scale: str | None,
    annotations: AnyPath | None,
) -> LabelledSet:
    """The outputs rated on one dimension; LabelError says how to state another scale."""
    bounds, good_and_bad = bounds_of(scale), None
    if isinstance(judge, Dimension):
        good_and_bad = judge.words
        bounds = (judge.scale[0], judge.scale[-1]) if scale is None else bounds
    if good_and_bad:
        # A judge's own words need no flag.
        words = {good_and_bad[0]: 1, good_and_bad[1]: 0, **words}
    read = partial(
        read_labels,
        _file_or_rows(source),
        map=columns,
        dimensions=[name],
        texts=() if judge is None else tuple(judge.inputs),
        annotations=None if annotations is None else os.fspath(annotations),
        values=words,
    )
    try:
        return read(scales=None if bounds is None else {name: bounds})
    except LabelError as error:
        if {problem.kind for problem in error.problems} != {"off-scale"}:
            raise
        unbound = read()
        if isinstance(judge, Dimension) and not unbound.words.get(name, "1")[0].isdecimal():
            return unbound  # words where a judge rates: `_on_two_values` refuses them
        ratings = _ratings(unbound, name)
        advice = _scale_advice(ratings)
        if good_and_bad:
            advice = f"say which count as {good_and_bad[0]}, as in --values {max(ratings):g}=1"
        raise LabelError(f"{error}; {advice}", error.problems) from error


def _usual_scale(ratings: list[float]) -> tuple[int, int] | None:
    """The narrowest usual scale that fits the ratings; None if a judge would tie too many."""
    first, last = fitting_scale(ratings) or (0, 0)
    # On a scale of two or three ratings, a judge would tie outputs that fractions tell apart.
    fits = last - first > 2 or (first < last and all(rating.is_integer() for rating in ratings))
    return (first, last) if fits else None


def _scale_advice(ratings: list[float]) -> str:
    advice = "add --scale any: the judge keeps its own, and only the labels' order counts"
    if usual := _usual_scale(ratings):
        ends = f"{usual[0]}{':' if usual[0] < 0 else '-'}{usual[1]}"
        advice = f"add --scale {ends} (or --scale any, and the judge keeps its own)"
    low, high = min(ratings), max(ratings)
    return f"ratings run from {low:g} to {high:g}; if that is right, {advice}"
