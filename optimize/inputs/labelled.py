"""Human labels as a command takes them: read, with the subject that they are about."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from dspy_judges.column_names import name_key
from judges import loading
from judges.dimension import NAME, Comparison, Dimension, Subject, UnknownDimensionError, are_words
from judges.labels.columns import OUTPUTS, is_known_text, is_reference, known_word, map_flag
from judges.labels.conversations import CONVERSATION, JUDGED
from judges.labels.flags import split_mapping
from judges.labels.readers import read_labels, read_pairs, starter, starter_pairs
from judges.labels.splits import with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import USUAL_SCALES
from judges.tables.in_memory import Rows, is_in_memory
from judges.tables.problems import joined_names
from optimize.inputs.flags import ANY_SCALE, SettingsError, bounds_of, whole_ratings
from optimize.items import Items, annotation_matrix, levels_of
from optimize.statistics.correlations import Level
from optimize.statistics.human import annotator_agreement

Labelled = LabelledSet | LabelledPairs

AnyPath = str | os.PathLike[str]

AnyLevel = Level | Literal["auto"]

MANY_ANNOTATORS = 10
# What a judge says where labels of two values have no words that it could say.
PASS_FAIL = ("pass", "fail")
# The problems of a file that has no labels on a dimension.
NO_SUCH_LABELS = {"no-rating", "no-column", "pairs"}
# What a judge rates on where labels have no scale of their own.
DEFAULT_SCALE = (1, 5)
_NO_NAME = re.compile(r"[^a-z0-9]+")


def check_level(level: AnyLevel, items: Items, *, pairs: bool) -> None:
    """Raise SettingsError for a level that labels do not have, before any model is asked."""
    levels = ("dataset",) if pairs else levels_of(items)
    if level not in ("auto", *levels):
        what = "pairs" if pairs else "these labels"
        raise SettingsError(f"level {level}: {what} have the levels {', '.join(levels)}")


def find_subject(name: str) -> Subject | None:
    """The dimension or comparison of this name; None where unknown: for a recording it suffices."""
    try:
        return loading.read_subject(name)
    except UnknownDimensionError:
        return None


def subject_of(
    spec: str, source: Any, *, pairwise: bool = False, scale: str | None = None, **how: Any
) -> tuple[Subject, Labelled] | None:
    """What is judged, made of labels and their texts by its name or by NAME=DEFINITION; the labels.

    Ratings need the definition. None where there are no such labels. `scale` is people's, else the
    usual one that fits; `how` is the labels' mapping and values.
    """
    written, equals, definition = map(str.strip, spec.partition("="))
    if equals and (source is None or not definition.strip(".…")):
        raise SettingsError(
            f"{written}=LINE defines labels of your own: write what earns a good one, "
            "and name them by --data"
        )
    name = _NO_NAME.sub("_", written.casefold()).strip("_")
    if source is None:
        try:
            loading.read_subject(written)
        except UnknownDimensionError as error:
            raise UnknownDimensionError(f"no --data FILE names labels, and {error}") from None
    if source is None or not NAME.match(name):
        return None
    if name_key(name) != name_key(written) and not pairwise:
        how["map"] = {name: written, **how["map"]}
    try:
        labelled = source
        if not isinstance(source, LabelledSet | LabelledPairs):
            own: Any = {} if pairwise else {"dimensions": [name]}
            labelled = (read_pairs if pairwise else read_labels)(source, **own, **how)
    except LabelError as error:
        if not equals and {problem.kind for problem in error.problems} <= NO_SUCH_LABELS:
            try:
                loading.read_subject(written)
            except UnknownDimensionError as unknown:
                raise UnknownDimensionError(f"{unknown}; or, of the labels: {error}") from error
        raise
    if isinstance(labelled, LabelledPairs):
        texts = [t for t in labelled.reading.texts if is_known_text(t) and NAME.match(t)]
        texts = [text for text in texts if all(text in pair.texts for pair in labelled.pairs)]
        made = loading.comparison_on(name, texts, labelled.candidate, definition)
        return (made, labelled) if pairwise else None
    if pairwise or name not in labelled.dimensions:
        return None
    if name not in labelled.words and not equals:
        raise UnknownDimensionError(
            f"no judge {name!r} in the catalogue: say in one line what earns a high rating, "
            f"--dimension '{name}=...', or define it in FILE.yaml"
        )
    answers = words_of(labelled, name) or _scale_of(labelled, name, scale)
    texts = judged_texts(labelled, how["map"])
    return loading.dimension_on(name, answers, texts, definition), labelled


def judged_texts(labelled: LabelledSet, mapping: Mapping[str, Any]) -> list[str]:
    """The texts that a judge reads which nobody has defined, the judged one last.

    They go by known names, or the user's, and stand in every row: others may be about the label.
    Raises LabelError where it is open which is judged.
    """
    columns, rows = labelled.reading.texts, [output.texts for output in labelled.outputs]
    outputs = [text for text in columns if known_word(text) in OUTPUTS]
    if CONVERSATION in columns and (not outputs or JUDGED[1] in mapping.items()):
        return [CONVERSATION]
    judged = [text for text in outputs if text in mapping] or outputs or [*columns][:2]
    if len(judged) != 1 or not NAME.match(judged[0]):
        longest = max(columns, key=lambda text: sum(len(row.get(text, "")) for row in rows))
        flags = [map_flag("output", [columns[text]]) for text in outputs or [longest]]
        raise LabelError(f"{labelled.name}: say which text is judged: {' or '.join(flags)}")
    known = (t for t in columns if is_known_text(t) or is_reference(t) or t in mapping)
    texts = [text for text in known if text not in judged] + judged
    return [text for text in texts if NAME.match(text) and all(text in row for row in rows)]


def _scale_of(labelled: LabelledSet, name: str, scale: str | None) -> tuple[int, int]:
    """The ends of the scale that a judge of these ratings has; LabelError where none is usual."""
    if (bounds := bounds_of(scale)) is not None:
        return whole_ratings(bounds)[0], whole_ratings(bounds)[-1]
    ratings = [rating for output in labelled.outputs for rating in output.ratings.get(name, ())]
    usual = _usual_scale(ratings) or (DEFAULT_SCALE if scale == ANY_SCALE else None)
    if usual is None:
        raise LabelError(f"{labelled.name}: {_scale_advice(ratings)}")
    return usual


def words_of(labelled: Labelled, name: str) -> tuple[str, str] | None:
    """What a judge says of labels with two values, the good word first; None for other labels.

    These are people's own words, where they can be said.
    """
    words = labelled.words.get(name) if isinstance(labelled, LabelledSet) else None
    return words if words is None or are_words(words) else PASS_FAIL


def load_labels(
    source: AnyPath | Labelled | Rows | None,
    name: str,
    subject: Subject | None,
    *,
    mapping: Mapping[str, Any] | AnyPath | None = None,
    values: Mapping[str, Any] | None = None,
    scale: str | None = None,
    annotations: AnyPath | None = None,
    recorded: bool = False,
    pairwise: bool = False,
) -> Labelled:
    """The labels on one subject alone; without a source, the starter set.

    `recorded`: what judged them did so before, so that neither texts nor the judge's own scale are
    needed. `pairwise`: they are pairs, whatever the subject is known for. Raises LabelError
    for labels of the other kind, or none on the subject.
    """
    pairwise = pairwise or isinstance(subject, Comparison)
    judged = None if recorded else subject
    how: dict[str, Any] = {"map": mapping, "values": values}
    if (source is None or isinstance(source, LabelledSet | LabelledPairs)) and (
        mapping or values or annotations
    ):
        raise SettingsError("map, values and annotations say how a file is read: name it (--data)")
    if source is None:
        labelled: Labelled = starter_pairs() if pairwise else starter()
    elif isinstance(source, LabelledSet | LabelledPairs):
        labelled = source
    else:
        if isinstance(source, str | os.PathLike):
            source = os.fspath(source)
        elif not is_in_memory(source):
            raise TypeError(
                f"data is a {type(source).__name__}; a file's path, a DataFrame, a Dataset, a list "
                "of dicts or a labelled set is wanted"
            )
        if pairwise:
            texts = () if judged is None else tuple(judged.inputs)
            labelled = read_pairs(source, texts=texts, **how)
        else:
            labelled = _read_outputs(source, name, judged, how, scale, annotations)
    if isinstance(labelled, LabelledPairs):
        if not pairwise:
            raise LabelError(f"{labelled.name}: holds pairs, and {name} rates outputs")
        return labelled
    if pairwise:
        raise LabelError(f"{labelled.name}: holds outputs, and {name} compares two")
    if source is None and name not in labelled.dimensions:
        raise LabelError(f"the starter set has no labels on {name}: name yours by --data FILE")
    if isinstance(judged, Dimension):
        labelled = _on_two_values(labelled, judged, any_scale=scale == ANY_SCALE)
    if name in labelled.words and (agreement := agreement_of(labelled, name)):
        labelled = replace(labelled, notes=(f"{name}: {agreement}", *labelled.notes))
    return with_ratings(labelled, name)


def only_dimension(labelled: LabelledSet) -> str:
    """The dimension that the labels are on; SettingsError where they are on several."""
    if len(labelled.dimensions) > 1:
        known = joined_names(labelled.dimensions)
        raise SettingsError(f"{labelled.name}: holds labels on {known}: name one by --dimension")
    return labelled.dimensions[0]


def agreement_of(labelled: LabelledSet, name: str) -> str:
    """How far annotators say the same, ties among it; empty where they are not known."""
    try:
        ratings, names = annotation_matrix(labelled, name)
    except LabelError:
        return ""
    if len(names) > MANY_ANNOTATORS:
        # Few of them share outputs: an output's first label stands beside its second, and so on.
        order = np.argsort(np.isnan(ratings), axis=1, kind="stable")
        ratings = np.take_along_axis(ratings, order, axis=1)[:, :MANY_ANNOTATORS]
    rows = annotator_agreement(ratings)
    sizes = [row.n_outputs for row in rows]
    figures = [(row.equal, row.kappa, row.rho) for row in rows]
    equal, *others = np.average(figures, axis=0, weights=sizes)
    kappa, rho = ("undefined" if np.isnan(value) else f"{value:.2f}" for value in others)
    cases = f"two annotators say the same in {equal:.0%} of {sum(sizes):,} cases, kappa {kappa}"
    return cases if name in labelled.words else f"{cases}, rho {rho}"


def _on_two_values(labelled: LabelledSet, judged: Dimension, *, any_scale: bool) -> LabelledSet:
    """The labels with the judge's words; LabelError where either has two values and not both."""
    name, two = judged.name, labelled.words.get(judged.name)
    if not judged.words:
        if not two or judged.scale == (0, 1) or any_scale:
            return labelled
        if not two[0].isdecimal():
            raise LabelError(f"{labelled.name}: {_words_advice(labelled, judged, two)}")
        # Ratings of a longer scale, of which people gave two.
        return replace(labelled, words={n: w for n, w in labelled.words.items() if n != name})
    if two == judged.words[::-1]:
        raise LabelError(f"{labelled.name}: {two[0]!r} counts 1, and 0 for the judge of {name}")
    ratings = {rating for output in labelled.outputs for rating in output.ratings.get(name, ())}
    if others := sorted(ratings - {0, 1}):
        raise LabelError(
            f"{labelled.name}: {name} is {' or '.join(judged.words)}, and a label counts "
            f"{others[0]:g}; say which it is, as in --values {others[0]:g}=1"
        )
    return replace(labelled, words={**labelled.words, name: two or judged.words})


def _words_advice(labelled: LabelledSet, judged: Dimension, two: tuple[str, str]) -> str:
    """What to do about labels of two words where a judge rates."""
    name, low, high = judged.name, judged.scale[0], judged.scale[-1]
    column = labelled.reading.ratings.get(name, (name,))[0]
    own = f"{name}_{'ok' if two[0].isdecimal() else name_key(two[0]).replace(' ', '_')}"
    return (
        f"{name} is rated from {low} to {high}, and the labels say {two[0]!r} or {two[1]!r}; tune "
        f"a judge of these words by --dimension {own} {map_flag(own, [column])}, or say what they "
        f"count: --values '{two[0]}={high},{two[1]}={low}'"
    )


def _read_outputs(
    source: str | Rows,
    name: str,
    subject: Subject | None,
    how: Mapping[str, Any],
    scale: str | None,
    annotations: AnyPath | None,
) -> LabelledSet:
    """Outputs rated on one dimension; where off the scale, LabelError says how to state theirs."""
    bounds = bounds_of(scale)
    if scale is None and isinstance(subject, Dimension):
        bounds = float(subject.scale[0]), float(subject.scale[-1])
    if isinstance(subject, Dimension) and subject.words:
        # A judge's own words need no flag.
        good, bad = subject.words
        columns, said = split_mapping(how["map"], how["values"])
        how = {"map": columns, "values": {good: 1, bad: 0, **said}}

    def labels(bounds: tuple[float, float] | None) -> LabelledSet:
        return read_labels(
            source,
            dimensions=[name],
            scales=None if bounds is None else {name: bounds},
            texts=() if subject is None else tuple(subject.inputs),
            annotations=None if annotations is None else os.fspath(annotations),
            **how,
        )

    try:
        return labels(bounds)
    except LabelError as error:
        if not error.problems or any(problem.kind != "off-scale" for problem in error.problems):
            raise
        unbound = labels(None)
        if isinstance(subject, Dimension) and not unbound.words.get(name, "1")[0].isdecimal():
            return unbound  # words where a judge rates: `_on_two_values` refuses them
        ratings = [rating for output in unbound.outputs for rating in output.ratings.get(name, ())]
        if isinstance(subject, Dimension) and subject.words:
            advice = f"say which count as {subject.words[0]}, as in --values {max(ratings):g}=1"
            raise LabelError(f"{error}; {advice}", error.problems) from error
        raise LabelError(f"{error}; {_scale_advice(ratings)}", error.problems) from error


def _usual_scale(ratings: list[float]) -> tuple[int, int] | None:
    """The narrowest usual scale that holds the ratings; None where a judge would tie too many."""
    low, high = min(ratings), max(ratings)
    usual = (scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1])
    first, last = next(usual, (0, 0))
    # A judge that says 0 or 1 would tie what fractions tell apart.
    fits = last - first > 2 or (first < last and all(rating.is_integer() for rating in ratings))
    return (first, last) if fits else None


def _scale_advice(ratings: list[float]) -> str:
    """Which scale to state, by what the file holds."""
    advice = "add --scale any: the judge keeps its own, and only the labels' order counts"
    if usual := _usual_scale(ratings):
        ends = f"{usual[0]}{':' if usual[0] < 0 else '-'}{usual[1]}"
        advice = f"add --scale {ends} (or --scale any, and the judge keeps its own)"
    low, high = min(ratings), max(ratings)
    return f"ratings run from {low:g} to {high:g}; if that is right, {advice}"
