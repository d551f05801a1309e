"""Read a command's human labels, on the scale or with the words of what is judged."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from dspy_judges.errors import option_name
from judges.cli.flags import read_map_flags
from judges.dimension import Comparison, Dimension, Subject
from judges.labels.columns import ColumnNames
from judges.labels.flags import ANY_SCALE, split_mapping
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import read_labels, read_pairs, starter, starter_pairs
from judges.labels.splits import with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import WordValues
from judges.prompt import are_verdict_words
from judges.tables.in_memory import Rows, is_in_memory
from judges.tables.problems import joined_names
from optimize.inputs.flags import (
    SettingsError,
    judge_bounds,
    narrowest_scale,
    scale_bounds,
    word_values,
)
from optimize.items import Items, annotation_matrix, levels_of
from optimize.statistics.correlations import Level
from optimize.statistics.human import annotator_agreement

AnyLabels = LabelledSet | LabelledPairs

AnyPath = str | os.PathLike[str]

LevelOrAuto = Level | Literal["auto"]

MAX_NAMED_ANNOTATORS = 10
# The two answers of a verdict judge if people's own words cannot be used.
PASS_FAIL = ("pass", "fail")
# The scale of a new judge if the labels have no usual scale.
DEFAULT_SCALE = (1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """Where labels come from, and how they are read; see `read_labels`.

    `data` is a file, rows or a labelled set; None for the starter set. `scale` is the scale that
    people used; by default the judge's scale, or the narrowest usual scale that fits the labels.
    """

    data: AnyPath | AnyLabels | Rows | None = None
    map: Mapping[str, ColumnNames] = field(default_factory=dict)
    values: WordValues = field(default_factory=dict)
    annotations: AnyPath | None = None
    scale: str | None = None

    @classmethod
    def of(cls, flags: argparse.Namespace) -> "LabelSource":
        """Return the source that the flags of a command name."""
        columns, values, _ = split_mapping(read_map_flags(flags.map), word_values(flags.values))
        return cls(
            data=flags.data or None,
            map=columns,
            values=values,
            annotations=flags.annotations,
            scale=flags.scale,
        )

    def read_outputs(
        self,
        *,
        dimensions: Sequence[str] | None = None,
        scales: Mapping[str, tuple[float, float]] | None = None,
        texts: Sequence[str] | None = (),
    ) -> LabelledSet:
        """Read the labelled outputs in the file or rows; for the arguments see `read_labels`."""
        labelled = read_labels(
            self.file_or_rows,
            map=self.map,
            dimensions=dimensions,
            scales=scales,
            texts=texts,
            annotations=None if self.annotations is None else os.fspath(self.annotations),
            values=self.values,
        )
        if SWAP_SAMPLE_COLUMN in labelled.reading.unread:
            raise LabelError(
                f"{labelled.name}: its rows were drawn because two judges differ on them, and say "
                "nothing about other rows; use it with verify --against OLD --changed FILE"
            )
        return labelled

    @property
    def file_or_rows(self) -> str | Rows:
        """The file's path, or the rows; raises TypeError for data of another type."""
        data = self.data
        if isinstance(data, str | os.PathLike):
            return os.fspath(data)
        if isinstance(data, LabelledSet | LabelledPairs | None) or not is_in_memory(data):
            raise TypeError(
                f"data is a {type(data).__name__}; a file's path, a DataFrame of pandas or polars, "
                "a Dataset, a list of dicts or a labelled set is wanted"
            )
        return data


def check_level(level: LevelOrAuto, items: Items, *, pairs: bool) -> None:
    """Raise SettingsError if rho at this level is undefined for these labels."""
    levels = ("dataset",) if pairs else levels_of(items)
    if level not in ("auto", *levels):
        labels = "pairs" if pairs else "these labels"
        raise SettingsError(f"level {level}: {labels} have the levels {', '.join(levels)}")


def judge_scale(labelled: LabelledSet, name: str, scale: str | None) -> tuple[int, int]:
    """Return the ends of a judge's scale for these labels; LabelError if no scale fits."""
    if bounds := judge_bounds(scale):
        return bounds
    ratings = _ratings(labelled, name)
    usual_scale = _usual_scale(ratings)
    if not usual_scale and scale != ANY_SCALE:
        raise LabelError(f"{labelled.name}: {_scale_advice(ratings)}")
    return usual_scale or DEFAULT_SCALE


def needs_any_scale(labelled: LabelledSet, name: str) -> bool:
    """Whether a new judge needs --scale any, since labels are ratings that fit no usual scale."""
    return name not in labelled.words and not _usual_scale(_ratings(labelled, name))


def _ratings(labelled: LabelledSet, name: str) -> list[float]:
    return [rating for output in labelled.outputs for rating in output.ratings.get(name, ())]


def verdict_words(labelled: AnyLabels, name: str) -> tuple[str, str] | None:
    """Return the two answers of a judge, the good one first; None if labels are not two-valued."""
    words = labelled.words.get(name)
    # Some of people's own words cannot be answers.
    return words if words is None or are_verdict_words(words) else PASS_FAIL


def load_labels(
    source: LabelSource, name: str, subject: Subject | None, *, pairwise: bool = False
) -> AnyLabels:
    """Read the labels on one subject; the labels on other dimensions are left out.

    `subject` is what is judged; None if all scores are recorded. If `pairwise`, the labels are on
    pairs, even if the subject is unknown. Raises LabelError if the labels are on outputs instead of
    pairs or the reverse, or if no label is on the subject.
    """
    pairwise = pairwise or isinstance(subject, Comparison)
    is_file = not isinstance(source.data, LabelledSet | LabelledPairs | None)
    if not is_file and any((source.map, source.values, source.annotations)):
        raise SettingsError(
            "map, values and annotations say how a file is read: name the file "
            f"({option_name('data')})"
        )
    texts = tuple(subject.inputs) if subject else ()
    labelled = read_source(source, name, pairwise=pairwise, texts=texts, subject=subject)
    if pairwise != isinstance(labelled, LabelledPairs):
        content, task = ("outputs", "compares two") if pairwise else ("pairs", "rates outputs")
        raise LabelError(f"{labelled.name} has {content}, but {name} {task}")
    if isinstance(labelled, LabelledPairs):
        return labelled
    if source.data is None and name not in labelled.dimensions:
        raise LabelError(
            f"the starter set has no labels on {name}: name your labels by --data FILE"
        )
    if isinstance(subject, Dimension):
        labelled = _with_two_words(labelled, subject, any_scale=source.scale == ANY_SCALE)
    if name in labelled.words and (agreement := agreement_text_of(labelled, name)):
        labelled = replace(labelled, notes=(f"{name}: {agreement}", *labelled.notes))
    return with_ratings(labelled, name)


def read_source(
    source: LabelSource,
    name: str,
    *,
    pairwise: bool,
    texts: Sequence[str] | None = None,
    subject: Subject | None = None,
) -> AnyLabels:
    """Read a file or rows for one dimension or for pairs; other sources already hold labels."""
    if source.data is None:
        return starter_pairs() if pairwise else starter()
    if isinstance(source.data, LabelledSet | LabelledPairs):
        return source.data
    if pairwise:
        if source.annotations is not None:
            raise SettingsError(
                f"{source.annotations}: votes on pairs are read only from the pairs' own file: add "
                f"them to it as a column votes, and leave out {option_name('annotations')}"
            )
        return read_pairs(source.file_or_rows, map=source.map, texts=texts, values=source.values)
    if isinstance(subject, Dimension) and subject.words:
        # The judge's own words are labels without --values, too.
        own_values = {subject.words[0]: 1, subject.words[1]: 0}
        source = replace(source, values={**own_values, **source.values})
    return _read_on_scale(source, name, subject, texts)


def only_dimension(labelled: LabelledSet) -> str:
    """Return the only dimension with labels; raises SettingsError if there are several."""
    if len(labelled.dimensions) > 1:
        names = joined_names(labelled.dimensions)
        raise SettingsError(f"{labelled.name}: has labels on {names}: name one with --dimension")
    return labelled.dimensions[0]


def agreement_text_of(labelled: LabelledSet, name: str) -> str:
    """Return how often two annotators agree, ties included; "" if ratings are not by annotator."""
    try:
        ratings, names = annotation_matrix(labelled, name)
    except LabelError:
        return ""
    if len(names) > MAX_NAMED_ANNOTATORS:
        # If there are many annotators, two of them rarely share outputs. So the columns become the
        # first label of each output, the second label, and so on.
        order = np.argsort(np.isnan(ratings), axis=1, kind="stable")
        ratings = np.take_along_axis(ratings, order, axis=1)[:, :MAX_NAMED_ANNOTATORS]
    pairs = annotator_agreement(ratings)
    n_shared_outputs = np.array([pair.n_outputs for pair in pairs])
    if not n_shared_outputs.any():
        return ""
    # The mean of a coefficient is over the pairs of annotators for which it is defined.
    figures = np.ma.masked_invalid([(pair.equal, pair.kappa, pair.rho) for pair in pairs])
    share_equal, *coefficients = np.ma.average(figures, axis=0, weights=n_shared_outputs)
    kappa, rho = (
        "undefined" if value is np.ma.masked else f"{value:.2f}" for value in coefficients
    )
    cases = f"{share_equal:.0%} of {sum(n_shared_outputs):,} cases"
    text = f"two annotators say the same in {cases}, kappa {kappa}"
    return text if name in labelled.words else f"{text}, rho {rho}"


def _with_two_words(labelled: LabelledSet, subject: Dimension, *, any_scale: bool) -> LabelledSet:
    """Return the labels with the judge's two words as values; refuse two words for ratings."""
    name, label_words = subject.name, labelled.words.get(subject.name)
    if not subject.words:
        if not label_words or subject.scale == (0, 1) or any_scale:
            return labelled
        if not label_words[0].isdecimal():
            low, high = subject.scale[0], subject.scale[-1]
            raise LabelError(
                f"{labelled.name}: {name} is rated from {low} to {high}, and the labels say "
                f"{label_words[0]!r} or {label_words[1]!r}; give the labels another name "
                "(--map NAME=COLUMN --dimension NAME) to tune a judge of these words, or say what "
                f"they count: --values '{label_words[0]}={high},{label_words[1]}={low}'"
            )
        # The labels are ratings, of which people used only two.
        other_words = {key: pair for key, pair in labelled.words.items() if key != name}
        return replace(labelled, words=other_words)
    if label_words == subject.words[::-1]:
        raise LabelError(
            f"{labelled.name}: the labels count {label_words[0]!r} as 1, but the judge of {name} "
            "counts it as 0"
        )
    if other_values := sorted({*_ratings(labelled, name)} - {0, 1}):
        raise LabelError(
            f"{labelled.name}: {name} is {' or '.join(subject.words)}, but a label counts "
            f"{other_values[0]:g}; say which word it means, as in --values {other_values[0]:g}=1"
        )
    return replace(labelled, words={**labelled.words, name: label_words or subject.words})


def _read_on_scale(
    source: LabelSource, name: str, subject: Subject | None, texts: Sequence[str] | None
) -> LabelledSet:
    """Read the labels on one dimension, on the scale of --scale, else on the judge's scale."""
    bounds = scale_bounds(source.scale)
    if isinstance(subject, Dimension) and source.scale is None:
        bounds = subject.scale[0], subject.scale[-1]
    read_outputs = partial(source.read_outputs, dimensions=[name], texts=texts)
    try:
        return read_outputs(scales=None if bounds is None else {name: bounds})
    except LabelError as error:
        if {problem.kind for problem in error.problems} != {"off-scale"}:
            raise
        on_any_scale = read_outputs()
        if isinstance(subject, Dimension) and not on_any_scale.words.get(name, "1")[0].isdecimal():
            return on_any_scale  # two words, which `_with_two_words` refuses
        ratings = _ratings(on_any_scale, name)
        advice = _scale_advice(ratings)
        if isinstance(subject, Dimension) and subject.words:
            advice = f"say which count as {subject.words[0]}, as in --values {max(ratings):g}=1"
        raise LabelError(f"{error}; {advice}", error.problems) from error


def _usual_scale(ratings: list[float]) -> tuple[int, int] | None:
    """Return the narrowest usual scale for ratings; None if a judge would give too many ties."""
    scale = narrowest_scale(ratings)
    # On a scale of two or three ratings, a judge would tie outputs that people rank by fractions.
    if scale and scale[1] - scale[0] <= 2 and not all(rating.is_integer() for rating in ratings):
        return None
    return scale


def _scale_advice(ratings: list[float]) -> str:
    advice = "add --scale any: the judge keeps its own scale, and only the labels' order counts"
    scale = narrowest_scale(ratings)
    # On 0 and 1, a judge would tie outputs that people rank by fractions.
    if scale and (scale != (0, 1) or {*ratings} <= {0, 1}):
        scale_text = f"{scale[0]}{':' if scale[0] < 0 else '-'}{scale[1]}"
        advice = f"add --scale {scale_text} (or --scale any: the judge keeps its own scale)"
    low, high = min(ratings), max(ratings)
    return f"ratings run from {low:g} to {high:g}; if that is right, {advice}"
