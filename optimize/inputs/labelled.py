"""Read the human labels that a command is given, and check that they fit the judge."""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from dspy_judges.errors import SettingsError, option_name
from judges.cli.flags import read_map_flags
from judges.dimension import Comparison, Dimension, Subject
from judges.labels.cells import without_keys
from judges.labels.options import ANY_SCALE, ReadOptions, read_options
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import ColumnMapping, read_labelled_items, starter, starter_pairs
from judges.labels.splits import with_ratings
from judges.labels.types import AnyLabels as AnyLabels
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale, normalize_word
from judges.prompt import are_verdict_words
from judges.tables.in_memory import Rows, is_in_memory
from judges.tables.problems import joined_names
from optimize.inputs.flags import judge_scale, parse_scale, parse_values, usual_scale
from optimize.items import Items, annotation_matrix, defined_levels
from optimize.statistics.correlations import Level
from optimize.statistics.human import annotator_agreement

AnyPath = str | os.PathLike[str]
LevelOrAuto = Level | Literal["auto"]

# If there are more annotators than this, two of them rarely label the same outputs.
MAX_NAMED_ANNOTATORS = 10
# A verdict judge has these two answers if the words in the labels cannot be its answers.
PASS_FAIL = ("pass", "fail")
# The scale of a new judge if the labels have no usual scale.
DEFAULT_SCALE = (1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """Where labels come from, and how they are read.

    `data` is a file, rows or a labelled set; None means the starter set. `scale` is the scale that
    people used; by default the judge's scale, or the narrowest usual scale that has all ratings.
    """

    data: AnyPath | AnyLabels | Rows | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    scale: str | None = None

    @classmethod
    def of(
        cls,
        data: AnyPath | AnyLabels | Rows | None,
        *,
        map: list[str] | ColumnMapping | None = None,
        values: object = (),
        annotations: AnyPath | None = None,
        scale: str | None = None,
    ) -> "LabelSource":
        """Return the source; `map` and `values` are mappings, or arguments of these flags."""
        columns = read_map_flags(map) if isinstance(map, list) else map
        options = read_options(columns, parse_values(values))
        if annotations is not None:
            options = replace(options, annotations=os.fspath(annotations))
        return cls(data=data, options=options, scale=options.scale if scale is None else scale)

    @classmethod
    def from_flags(cls, flags: Namespace) -> "LabelSource":
        """Return the source that --data, --map, --values, --annotations and --scale describe."""
        names = "map", "values", "annotations", "scale"
        return cls.of(flags.data or None, **{name: getattr(flags, name) for name in names})

    def read(
        self, name: str, subject: Subject | None, *, is_pairwise: bool, texts: Sequence[str] | None
    ) -> AnyLabels:
        """Read the labels on one dimension, or the votes on pairs; `data` may hold them already."""
        data = self.data
        if isinstance(data, LabelledSet | LabelledPairs | None):
            if self.options != ReadOptions():
                raise SettingsError(
                    "map, values and annotations say how a file is read: name the file "
                    f"({option_name('data')})"
                )
            if data is None:
                return starter_pairs() if is_pairwise else starter()
            if is_pairwise != data.is_pairwise:
                noun, judged_noun = ("outputs", "pairs") if is_pairwise else ("pairs", "outputs")
                raise LabelError(f"{data.name} has {noun}, but {name} is judged on {judged_noun}")
            return data
        if is_pairwise:
            if self.options.annotations is not None:
                raise SettingsError(
                    f"{self.options.annotations}: votes on pairs are read only from the pairs' own "
                    f"file: add them as a column votes, and leave out {option_name('annotations')}"
                )
            options = replace(self.options, texts=texts)
            return read_labelled_items(self.file_or_rows, options, item_kind="pairs")
        label_source = self
        if isinstance(subject, Dimension) and subject.words:
            # The judge's own words are read as labels, even if --values does not name them.
            judge_values = dict(zip(map(normalize_word, subject.words), (1, 0), strict=True))
            label_source = replace(self, options=replace(self.options, judge_values=judge_values))
        return _read_on_scale(label_source, name, subject, texts)

    def read_outputs(
        self,
        *,
        dimensions: Sequence[str] | None = None,
        scales: Mapping[str, Scale] | None = None,
        texts: Sequence[str] | None = (),
    ) -> LabelledSet:
        """Read the labelled outputs in the file or rows, with the arguments of `read_labels`."""
        options = replace(self.options, dimensions=dimensions, scales=scales or {}, texts=texts)
        labelled_set = read_labelled_items(self.file_or_rows, options, item_kind="outputs")
        assert isinstance(labelled_set, LabelledSet)
        if SWAP_SAMPLE_COLUMN in labelled_set.reading.unread:
            raise LabelError(
                f"{labelled_set.name}: this file has only rows on which two judges differ; use it "
                "with verify --against OLD --changed FILE"
            )
        return labelled_set

    @property
    def file_or_rows(self) -> str | Rows:
        """The file's path, or the rows; raises TypeError for data of another type."""
        data = self.data
        if isinstance(data, str | os.PathLike):
            return os.fspath(data)
        if isinstance(data, LabelledSet | LabelledPairs | None) or not is_in_memory(data):
            types_text = "a file's path, a DataFrame, a Dataset, a list of dicts or a labelled set"
            raise TypeError(f"data is a {type(data).__name__}; it must be {types_text}")
        return data


def check_level(level: LevelOrAuto, items: Items, *, are_pairs: bool) -> None:
    """Raise SettingsError if the items do not allow Spearman's rho at `level`."""
    levels = ("dataset",) if are_pairs else defined_levels(items)
    if level not in ("auto", *levels):
        raise SettingsError(f"level {level}: these labels have the levels {', '.join(levels)}")


def new_judge_scale(
    labelled_set: LabelledSet, dimension: str, scale_text: str | None
) -> tuple[int, int]:
    """Return a new judge's scale: --scale, else a usual one; raises LabelError if none fits."""
    ratings = ratings_on(labelled_set, dimension)
    scale = judge_scale(scale_text) or usual_scale(ratings)
    if scale is None and scale_text != ANY_SCALE:
        raise LabelError(f"{labelled_set.name}: {_scale_advice(ratings)}")
    return scale or DEFAULT_SCALE


def ratings_on(labelled_set: LabelledSet, dimension: str) -> list[float]:
    """Return all ratings of all outputs on a dimension."""
    outputs = labelled_set.outputs
    return [rating for output in outputs for rating in output.ratings.get(dimension, ())]


def verdict_words(labelled_items: AnyLabels, dimension: str) -> tuple[str, str] | None:
    """Return the answers of a judge for these labels, the good one first; None for ratings."""
    label_words = labelled_items.words.get(dimension)
    if label_words is None or are_verdict_words(label_words):
        return label_words
    return PASS_FAIL  # people's own words cannot be answers


def load_labels(
    label_source: LabelSource, name: str, subject: Subject | None, *, is_pairwise: bool = False
) -> AnyLabels:
    """Read the labels on one dimension or comparison; labels on other dimensions are left out.

    `subject` is the dimension or comparison called `name`. For recorded scores of an unknown judge,
    `subject` is None, and `is_pairwise` says whether they compare pairs. Raises LabelError if no
    label is on this dimension or comparison, and if labels are on outputs but should be on pairs,
    or the other way round.
    """
    is_pairwise = is_pairwise or isinstance(subject, Comparison)
    input_names = tuple(subject.inputs) if subject else ()
    labelled_items = label_source.read(name, subject, is_pairwise=is_pairwise, texts=input_names)
    if isinstance(labelled_items, LabelledPairs):
        return labelled_items
    if label_source.data is None and name not in labelled_items.dimensions:
        raise LabelError(f"the starter set has no labels on {name}: give yours by --data FILE")
    if isinstance(subject, Dimension) and subject.words:
        labelled_items = _as_verdicts(labelled_items, name, subject.words)
    elif isinstance(subject, Dimension) and label_source.scale != ANY_SCALE:
        labelled_items = _as_ratings(labelled_items, subject)
    if name in labelled_items.words and (agreement := agreement_text(labelled_items, name)):
        notes = (f"{name}: {agreement}", *labelled_items.notes)
        labelled_items = replace(labelled_items, notes=notes)
    return with_ratings(labelled_items, name)


def only_dimension(labelled_set: LabelledSet) -> str:
    """Return the only dimension with labels; raises SettingsError if there are several."""
    if len(labelled_set.dimensions) > 1:
        names = joined_names(labelled_set.dimensions)
        raise SettingsError(f"{labelled_set.name} has labels on {names}: name one with --dimension")
    return labelled_set.dimensions[0]


def agreement_text(labelled_set: LabelledSet, dimension: str) -> str:
    """Return how often two annotators agree; "" if no output has labels of two annotators."""
    try:
        ratings, annotators = annotation_matrix(labelled_set, dimension)
    except LabelError:
        return ""
    if len(annotators) > MAX_NAMED_ANNOTATORS:
        # Each output's labels are moved to the left of its row: the columns of the matrix are now
        # the first label of each output, the second label and so on, by whichever annotator.
        labels_first_order = np.argsort(np.isnan(ratings), axis=1, kind="stable")
        ratings = np.take_along_axis(ratings, labels_first_order, axis=1)[:, :MAX_NAMED_ANNOTATORS]
    pair_agreements = annotator_agreement(ratings)
    n_shared_outputs = np.array([pair.n_outputs for pair in pair_agreements])
    if not n_shared_outputs.any():
        return ""
    # The mean of a coefficient leaves out pairs of annotators for which it is undefined.
    figures = np.ma.masked_invalid([(pair.equal, pair.kappa, pair.rho) for pair in pair_agreements])
    share_equal, *coefficients = np.ma.average(figures, axis=0, weights=n_shared_outputs)
    undefined = np.ma.masked
    kappa, rho = ("undefined" if mean is undefined else f"{mean:.2f}" for mean in coefficients)
    cases_text = f"{share_equal:.0%} of {sum(n_shared_outputs):,} cases"
    text = f"two annotators say the same in {cases_text}"
    if dimension in labelled_set.words:
        return f"{text}, kappa {kappa}"
    return f"{text}, weighted kappa {kappa}, rho {rho}"


def _as_verdicts(labelled_set: LabelledSet, name: str, judge_words: tuple[str, str]) -> LabelledSet:
    """Return the labels for a judge of two words; raises LabelError for labels of other values."""
    label_words = labelled_set.words.get(name)
    if label_words == judge_words[::-1]:
        raise LabelError(
            f"{labelled_set.name}: the labels count {label_words[0]!r} as 1, but the judge of "
            f"{name} counts it as 0"
        )
    if other_numbers := sorted({*ratings_on(labelled_set, name)} - {0, 1}):
        raise LabelError(
            f"{labelled_set.name}: {name} is {' or '.join(judge_words)}, but a label counts "
            f"{other_numbers[0]:g}; say which word it means, as in --values {other_numbers[0]:g}=1"
        )
    return replace(labelled_set, words={**labelled_set.words, name: label_words or judge_words})


def _as_ratings(labelled_set: LabelledSet, subject: Dimension) -> LabelledSet:
    """Return the labels for a rating judge; raises LabelError for labels of pass or fail."""
    name, label_words = subject.name, labelled_set.words.get(subject.name)
    if not label_words or subject.scale == (0, 1):
        return labelled_set
    (good_word, bad_word), (lowest, *_, highest) = label_words, subject.scale
    if not good_word.isdecimal():
        raise LabelError(
            f"{labelled_set.name}: the judge rates {name} from {lowest} to {highest}, but the "
            f"labels are the words {good_word!r} and {bad_word!r}; for a judge that answers with "
            "these words, give the labels another name (--map NAME=COLUMN --dimension NAME); else "
            f"give each word its number: --values '{good_word}={highest},{bad_word}={lowest}'"
        )
    # The two words are numbers: people used only two of the scale's ratings.
    return replace(labelled_set, words=without_keys(labelled_set.words, [name]))


def _read_on_scale(
    label_source: LabelSource, name: str, subject: Subject | None, texts: Sequence[str] | None
) -> LabelledSet:
    """Read the labels on one dimension; they must lie on the scale of --scale or of the judge."""
    scale = parse_scale(label_source.scale)
    if isinstance(subject, Dimension) and label_source.scale is None:
        scale = subject.scale[0], subject.scale[-1]
    read_outputs = partial(label_source.read_outputs, dimensions=[name], texts=texts)
    try:
        return read_outputs(scales=None if scale is None else {name: scale})
    except LabelError as error:
        if {problem.kind for problem in error.problems} != {"off-scale"}:
            raise
        unscaled_set = read_outputs()
        if isinstance(subject, Dimension) and not unscaled_set.words.get(name, "1")[0].isdecimal():
            return unscaled_set  # two words, which `_as_ratings` refuses
        ratings = ratings_on(unscaled_set, name)
        advice = _scale_advice(ratings)
        if isinstance(subject, Dimension) and subject.words:
            advice = f"say what counts as {subject.words[0]}, as in --values {max(ratings):g}=1"
        raise LabelError(f"{error}; {advice}", error.problems) from error


def _scale_advice(ratings: list[float]) -> str:
    """Return advice on --scale for ratings that exceed the scale, or that fit no usual scale."""
    advice = "add --scale any: the judge keeps its own scale, and only the order of labels counts"
    if scale := usual_scale(ratings):
        scale_text = f"{scale[0]}{':' if scale[0] < 0 else '-'}{scale[1]}"
        advice = f"add --scale {scale_text} (or --scale any: the judge keeps its own scale)"
    return f"ratings run from {min(ratings):g} to {max(ratings):g}; if that is right, {advice}"
