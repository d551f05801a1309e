"""The function `measure`: how far a judge, or its scores, agree with people's labels."""

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, Unpack

from dspy_judges.errors import arguments_in_messages
from judges.client import ModelOptions, read_options
from judges.dimension import Comparison, Subject
from judges.frozen import TUNED_ON_KEY
from judges.judgement import AnyJudgement
from judges.labels.columns import ROW_NUMBER_COLUMN
from judges.labels.options import MappingValue
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.in_memory import Rows
from judges.terminal import Progress
from optimize.figures.as_json import JsonObject, judgement_rows
from optimize.inputs.flags import refuse_key_in_address
from optimize.inputs.labelled import AnyLabels, AnyPath, LabelSource, LevelOrAuto, load_labels
from optimize.inputs.subjects import find_subject
from optimize.measuring.asking import Task, on_label_scale, recorded_scale
from optimize.measuring.recorded import ids_are_numbers, judgement_of_score
from optimize.measuring.scored import ScoredItems
from optimize.measuring.verification import Verification
from optimize.report.verification import verification_json, verification_lines
from optimize.statistics.correlations import (
    DEFAULT_UNDEFINED_RULE,
    Correlation,
    Level,
    UndefinedRule,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement:
    """One judge's scores compared with people's labels; `print` shows the figures.

    The figures are computed on `held_out`: the rows whose texts the judge was not tuned on. If
    there are too few such rows, `held_out` has all rows, so that the figures flatter the judge, and
    `tuned_on_these_labels` is true in the summary.
    """

    scored: ScoredItems

    @property
    def held_out(self) -> ScoredItems:
        return self.scored.without_ids_if_enough_remain(self.scored.tuned_ids)

    @property
    def labelled(self) -> AnyLabels:
        return self.scored.labels

    @property
    def rho(self) -> Correlation:
        """Spearman's rho over `held_out`, at the level that `measure` was given or chose."""
        return self.held_out.rho

    def at(
        self,
        level: Level,
        coefficient: str = "spearman",
        undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    ) -> Correlation:
        """Return the correlation at a given level, by a given coefficient.

        Rho is undefined in a document whose outputs all have the same score. By default it is 0 for
        such a document. Most published tables leave such documents out (`undefined="left_out"`).
        """
        return self.held_out.correlation(level, coefficient, undefined)

    @property
    def judgements(self) -> "pd.DataFrame":
        """A table of the labelled outputs or pairs: people's rating, and the judge's score."""
        import pandas as pd

        rows = judgement_rows(self.scored.items.items, {"score": self.scored.judgements})
        return pd.DataFrame(rows)

    @property
    def result(self) -> Verification:
        """All figures, as a dataclass."""
        return Verification.from_scores(self.scored, self.held_out)

    def summary(self) -> JsonObject:
        """Return the figures as the JSON object that `dspy-judges verify --json` prints."""
        return verification_json(self.result)

    def __str__(self) -> str:
        return "\n".join(verification_lines(self.result))

    __repr__ = __str__


@arguments_in_messages()
def measure(
    judge: AnyPath | AnyJudge | Mapping[str, float],
    data: AnyPath | AnyLabels | Rows | None = None,
    *,
    dimension: str | None = None,
    map: Mapping[str, MappingValue] | str | Path | None = None,
    values: Mapping[str, float | str | None] | None = None,
    scale: str | tuple[float, float] | None = None,
    annotations: AnyPath | None = None,
    level: LevelOrAuto = "auto",
    seed: int = 0,
    keep_going: bool = True,
    **options: Unpack[ModelOptions],
) -> Measurement:
    """Measure a judge against human labels, as `dspy-judges verify` does.

    Args:
        judge: A Judge, or its name or file, as `judges.load` takes it; or scores of any judge: a
            mapping or Series from output ids to numbers, with NaN for a failed judgement. If `data`
            is a DataFrame without ids, scores (such as those from `judge.score`) are matched by the
            DataFrame's index.
        data: A file of labels, a DataFrame, a Dataset, a list of dicts, or the result of
            `read_labels` or `read_pairs`. The default is the starter set.
        dimension: The name of the dimension or comparison that was judged; needed if `judge` holds
            scores. A name that is not in the catalogue may name a comparison, for labels on pairs.
        map: The name of the column for each field, as a mapping or a mapping file.
        values: The rating or vote that each word in the labels stands for.
        scale: The labels' scale: "0-100", a pair of numbers, or "any" if only their order counts.
        annotations: A file with a row for each rating by an annotator (long format).
        level: The level at which rho is computed: "summary", "dataset" or "system"; "auto" takes
            the level that suits the labels.
        seed: The random seed for the judge's samples.
        keep_going: Whether to go on even if almost all judgements fail.
        **options: Options for the judge's model, as for `judge.score`. With `store`, replies are
            kept in a file, so that no reply is paid for twice.

    Raises:
        TypeError: An argument has a wrong type.
        LabelError: The labels cannot be used.
        SettingsError: Arguments have wrong values or contradict each other.
        UnknownDimensionError: There is no judge of this name.
        FrozenJudgeError: The judge's file cannot be read.
        ModelError: The model cannot be asked.
        BudgetSpentError: A limit on calls or cost was reached.
    """
    read_options(options)
    refuse_key_in_address(options.get("api_base"))
    if isinstance(scale, list | tuple) and len(scale) == 2:
        scale = f"{scale[0]}:{scale[1]}"
    if scale is not None and not isinstance(scale, str):
        raise TypeError(f"scale is {scale!r}; it must be '0-100', (0, 100) or 'any'")
    label_source = LabelSource.of(
        data, map=map, values=values or {}, annotations=annotations, scale=scale
    )
    if hasattr(judge, "items"):
        return _measure_scores(judge, label_source, dimension, level)
    if isinstance(judge, str | os.PathLike):
        name, judge = os.fspath(judge), load(judge)
    elif isinstance(judge, AnyJudge):
        name = judge.name
    else:
        raise TypeError(f"measure() takes a Judge, its name or file, or scores, not {judge!r}")
    judge = on_label_scale(judge, label_source.scale)
    if dimension not in (None, judge.name):
        raise TypeError(
            f"this judge judges {judge.name!r}, not {dimension!r}; if the labels are in a column "
            f"with another name, pass map={{{judge.name!r}: COLUMN}}"
        )
    labels = load_labels(label_source, judge.name, judge.subject)
    task = Task.from_labels(labels, judge.name, level)
    judge = judge.with_model(options.pop("lm", None), options.pop("api_base", None))
    items = task.items(judge)
    with (
        judge.open_client(keep_going=keep_going, **options) as client,
        Progress(name, len(items), sys.stderr, interactive_only=True) as progress,
    ):
        return Measurement(scored=task.judge_items(name, judge, items, client, seed, progress))


def _measure_scores(
    scores: Any, label_source: LabelSource, dimension: str | None, level: LevelOrAuto
) -> Measurement:
    if dimension is None:
        raise TypeError("measure() needs dimension=NAME if it gets scores")
    subject = find_subject(dimension)
    labels = _read_labels(label_source, dimension, subject)
    task = Task.from_labels(labels, dimension, level)
    judgement_by_id = dict[str, AnyJudgement]()
    row_id_by_key = _match_score_keys(scores, label_source, labels)
    for key, score in scores.items():
        if not isinstance(score, SupportsFloat | None):
            raise TypeError(
                f"the score of {key!r} is {score!r}; it must be a number, or NaN if the judgement "
                "failed"
            )
        if row_id_by_key[key] in judgement_by_id:
            raise LabelError(f"an id has two scores ({key!r:.60}); make the ids unique")
        number = math.nan if score is None else float(score)
        judgement_by_id[row_id_by_key[key]] = judgement_of_score(number, task.is_pairwise)
    # `judge.score` notes in `attrs` the keys of the rows that the judge was tuned on.
    tuned_keys = {*getattr(scores, "attrs", {}).get(TUNED_ON_KEY, ())}
    tuned_ids = frozenset(row_id_by_key[key] for key in tuned_keys & row_id_by_key.keys())
    scale = recorded_scale(label_source.scale, subject)
    scored_items = task.match_judgements("scores", judgement_by_id, None, scale, tuned_ids)
    return Measurement(scored=scored_items)


def _read_labels(label_source: LabelSource, dimension: str, subject: Subject | None) -> AnyLabels:
    holds_pairs = subject is None and isinstance(label_source.data, LabelledPairs)
    is_pairwise = isinstance(subject, Comparison) or holds_pairs
    try:
        return load_labels(label_source, dimension, None, is_pairwise=is_pairwise)
    except LabelError as error:
        if subject is not None or {problem.kind for problem in error.problems} != {"pairs"}:
            raise
    labelled_pairs = load_labels(label_source, dimension, None, is_pairwise=True)
    if dimension in labelled_pairs.reading.unread:
        votes_column = ", ".join(labelled_pairs.reading.ratings["votes"])
        raise LabelError(
            f"{labelled_pairs.name}: people's votes on pairs are in {votes_column!r}, not in "
            f"{dimension!r}; write dimension={votes_column!r}, or map={{'votes': {dimension!r}}}"
        )
    return labelled_pairs


def _match_score_keys(scores: Any, source: LabelSource, labels: AnyLabels) -> dict[object, str]:
    import pandas as pd

    keys, keys_are_ids = {*scores.keys()}, not ids_are_numbers(labels)
    frame = source.data if isinstance(source.data, pd.DataFrame) else None
    if keys_are_ids and frame is not None and isinstance(scores, pd.Series):
        _check_keys_are_ids(scores, frame, "".join(labels.reading.rows.get("id", ())))
    if isinstance(source.data, LabelledSet | LabelledPairs):
        keys_are_ids |= all(isinstance(key, str) for key in keys)  # the ids in the set are texts
    if keys_are_ids or source.options.columns_by_name.get("id") == ROW_NUMBER_COLUMN:
        return {key: str(key) for key in keys}
    # Scores for a DataFrame without ids are matched by its index.
    if frame is not None and frame.index.is_unique:
        id_by_index = {index: str(number) for number, index in enumerate(frame.index, start=1)}
        if keys <= id_by_index.keys() or keys >= id_by_index.keys():
            # A score whose key is not in the index gets an id that no labelled row has.
            return {key: id_by_index.get(key, f"{key} (no row)") for key in keys}
    raise LabelError(
        f"{labels.name}: its rows have no ids, by which scores could be joined; use the index "
        "of the rows as the keys of the scores, name a column of ids (map={'id': COLUMN}), or "
        "write map={'id': '#row'} if the keys are 1 for the first row, 2 for the second and so on"
    )


def _check_keys_are_ids(scores: "pd.Series[float]", frame: "pd.DataFrame", id_column: str) -> None:
    """Raise LabelError if the scores are indexed by the DataFrame's index, not by its ids."""
    has_index_of_frame = id_column in frame and scores.index.equals(frame.index)
    if has_index_of_frame and [*map(str, frame.index)] != [*map(str, frame[id_column])]:
        raise LabelError(
            f"the scores have the index of the DataFrame, whose ids are in its column "
            f"{id_column!r}; pass scores.set_axis(frame[{id_column!r}]) if they are in the order "
            "of its rows, or scores.to_dict() if they are by id"
        )
