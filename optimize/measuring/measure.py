"""Measure a judge: how far its scores, or anybody's, rank outputs as people do."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from data.tables.in_memory import Rows
from data.types import LabelError, LabelledPairs, LabelledSet
from judges.client import ModelOptions, check_options
from judges.dimension import Dimension
from judges.judge import Judge
from judges.loading import load
from optimize.figures import (
    DIGITS,
    cell_by_convention,
    interval_cell,
    json_number,
)
from optimize.frames import judgements_frame
from optimize.items import Items, Vector, data_counts, items_of
from optimize.measuring.people import people_figures
from optimize.measuring.scored import Scored, labelled_in_order
from optimize.measuring.sources import ScoredItems, ask_judge, from_numbers
from optimize.run.labels import (
    AnyLevel,
    AnyPath,
    Labelled,
    check_level,
    find_subject,
    load_labels,
)
from optimize.run.plain_figures import order_figures, scale_figures
from optimize.run.settings import (
    SettingsError,
    bounds_of,
    refuse_secret,
    rescale,
    values_of,
)
from optimize.screen import verification_lines
from optimize.search.objective import LEVELS, Level, choose_level, correlation, levels_of
from optimize.statistics.accuracy import pair_accuracy
from optimize.statistics.agreement import Correlation
from optimize.statistics.bootstrap import stream
from optimize.statistics.coefficients import Coefficient
from optimize.statistics.levels import PRIMARY, Undefined

if TYPE_CHECKING:
    import pandas as pd

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "kendall", "pearson")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measured:
    """What one judge's scores are worth against people's labels; print it for the table.

    `tuned_on_these_labels`: the judge was tuned on this very file, so its figures flatter it.
    `every_correlation` holds every level that the data has times every coefficient, each by every
    convention on what is undefined (see `optimize.summary_level`). `order` is the share of pairs of
    outputs that the judge orders as people do; `scales` its mean and spread beside people's, None
    where they share no scale; both as `dspy-judges verify --json` prints them.
    """

    judge: str
    dimension: str
    data: Mapping[str, Any]
    level: Level
    scored_items: ScoredItems
    judged: Scored
    every_correlation: tuple[Correlation, ...]
    order: Mapping[str, Any]
    scales: Mapping[str, Any] | None
    tuned_on_these_labels: bool = False
    seed: int = 0

    @property
    def rho(self) -> Correlation:
        """Spearman's, at the level that suits the data, by the primary convention."""
        return self.at(self.level)

    @property
    def correlations(self) -> tuple[Correlation, ...]:
        """Every level and coefficient by the primary convention."""
        return tuple(result for result in self.every_correlation if result.undefined == PRIMARY)

    def at(
        self,
        level: Level,
        coefficient: Coefficient = "spearman",
        *,
        undefined: Undefined = PRIMARY,
    ) -> Correlation:
        """The correlation of this level, coefficient and convention; LookupError if there is none.

        Most published tables are "left_out".
        """
        for result in self.every_correlation:
            if (result.level, result.coefficient, result.undefined) == (
                level,
                coefficient,
                undefined,
            ):
                return result
        known = ", ".join(dict.fromkeys(result.level for result in self.every_correlation))
        raise LookupError(
            f"no {level}-level {coefficient}: these labels have the levels {known}; the "
            "coefficients are spearman, kendall and pearson"
        )

    @property
    def people(self) -> dict[str, Any] | None:
        """The judge among the annotators (see `people_figures`); None where they are not known."""
        return people_figures(self.judged, self.seed)

    @property
    def scores(self) -> dict[str, float]:
        """Output id -> score, or for a pair its margin in [-1, 1]; NaN where the judge failed."""
        items = self.scored_items.items.items
        return {
            item.id: float(score)
            for item, score in zip(items, self.scored_items.scores, strict=True)
        }

    @property
    def failures(self) -> dict[str, str]:
        """Output id -> why the judge gave it no score."""
        judged = zip(self.scored_items.items.items, self.scored_items.judgements, strict=True)
        return {
            item.id: judgement.failure
            for item, judgement in judged
            if judgement.failure is not None
        }

    @property
    def judgements(self) -> "pd.DataFrame":
        """Every labelled output or pair, a row each: people's rating, the judge's, the failure."""
        scored = self.scored_items
        return judgements_frame(scored.items.items, {"score": scored.judgements})

    def summary(self) -> dict[str, Any]:
        """What `dspy-judges verify --json` prints of it."""
        return {
            "judge": self.judge,
            "dimension": self.dimension,
            "data": dict(self.data),
            "level": self.level,
            "correlations": [cell_by_convention(result) for result in self.every_correlation],
            "order": dict(self.order),
            "scales": None if self.scales is None else dict(self.scales),
            "tuned_on_these_labels": self.tuned_on_these_labels,
            **(pair_figures(self.scored_items) if self.scored_items.verdicts else {}),
            **({"people": people} if (people := self.people) else {}),
        }

    def __repr__(self) -> str:
        rho = self.rho
        return f"Measured({self.judge!r}, {rho.level}-level rho {rho.value:.3f})"

    def __str__(self) -> str:
        return "\n".join(verification_lines(self.summary()))


def measure(
    judge: AnyPath | Judge | Mapping[str, float],
    data: AnyPath | LabelledSet | LabelledPairs | Rows | None = None,
    *,
    dimension: str | None = None,
    map: Mapping[str, Any] | AnyPath | None = None,
    values: Mapping[str, float | str | None] | None = None,
    scale: str | tuple[float, float] | None = None,
    annotations: AnyPath | None = None,
    level: AnyLevel = "auto",
    seed: int = 0,
    keep_going: bool = True,
    **options: Unpack[ModelOptions],
) -> Measured:
    """Measure a judge against human labels, as `dspy-judges verify` does.

    `judge` is a Judge, what `judges.load` takes, or any judge's numbers by output id (a mapping or
    a Series; NaN: it gave none), whose subject `dimension` must tell. `data` is a file of labels, a
    DataFrame, a Dataset, a list of dicts, what `data.read_labels` or `read_pairs` returned, or None
    for the starter set. `map` goes from our names to columns, or is a mapping file; `values` from
    words to what they count; `scale` is what people were given ("0-100", a pair of numbers, or
    "any"); `annotations` is a long file of ratings. `options` are of its model, as of
    `judge.score`; `store` keeps every reply, so none is paid twice.
    Raises TypeError for other things, and LabelError, SettingsError, UnknownDimensionError,
    FrozenJudgeError, ModelError and BudgetSpentError with messages for users.
    """
    check_options(options)
    refuse_secret(options.get("api_base"))
    if level not in ("auto", *LEVELS):
        raise SettingsError(f"level {level!r}: choose from auto, {', '.join(LEVELS)}")
    scale_text = _scale(scale)
    reading: dict[str, Any] = {
        "mapping": map,
        "values": values_of(values or {}),
        "scale": scale_text,
        "annotations": annotations,
    }
    if not isinstance(judge, Judge | str | os.PathLike):
        if not hasattr(judge, "items"):
            raise TypeError(
                f"measure() takes a Judge, its name or file, or scores by id; not {judge!r}"
            )
        if dimension is None:
            raise TypeError("measure() needs dimension=NAME, to know what the scores are about")
        subject = find_subject(dimension)
        labelled = load_labels(data, dimension, subject, recorded=True, **reading)
        scored = from_numbers(_scores_by_id(judge), items_of(labelled, dimension))
        return measure_scores(
            "scores",
            dimension,
            labelled,
            scored,
            level=level,
            seed=seed,
            scale=subject.scale if subject else (),
        )
    loaded = on_labels_scale(judge if isinstance(judge, Judge) else load(judge), scale_text)
    if dimension not in (None, loaded.name):
        raise TypeError(
            f"this judge is about {loaded.name!r}, not {dimension!r}; if the labels call it "
            f"otherwise, say map={{{loaded.name!r}: COLUMN}}"
        )
    labelled = load_labels(data, loaded.name, loaded.subject, **reading)
    items = items_of(labelled, loaded.name, loaded.subject)
    check_level(level, items, pairs=loaded.kind == "pairwise")
    scored = ask_judge(
        loaded,
        items,
        seed=seed,
        keep_going=keep_going,
        **options,
    )
    name = loaded.name if isinstance(judge, Judge) else os.fspath(judge)
    return measure_scores(
        name,
        loaded.name,
        labelled,
        scored,
        level=level,
        seed=seed,
        scale=loaded.subject.scale,
        frozen=loaded,
    )


def measure_scores(
    judge: str,
    dimension: str,
    labelled: Labelled,
    scored: ScoredItems,
    *,
    level: AnyLevel = "auto",
    seed: int = 0,
    scale: tuple[int, ...] = (),
    frozen: Judge | None = None,
) -> Measured:
    """Every figure of scores that are there already.

    `scale` is the judge's, where it is known, and `frozen` the judge itself, where one was asked.
    """
    items = scored.items
    pairs = isinstance(labelled, LabelledPairs)
    check_level(level, items, pairs=pairs)
    if level == "auto":
        # By what is labelled, not by what has a record: a judge must not choose its level.
        level = "dataset" if pairs else choose_level(items_of(labelled, dimension))
    judged = Scored(
        judge=judge,
        dimension=dimension,
        split="these labels",
        level=level,
        items=items,
        judgements=scored.judgements,
        scale=scale,
        labelled=labelled_in_order(labelled, items),
    )
    return Measured(
        judge=judge,
        dimension=dimension,
        data=data_counts(labelled, items),
        level=level,
        scored_items=scored,
        judged=judged,
        every_correlation=tuple(
            all_correlations(scored.scores, items, seed, level=level, pairs=pairs)
        ),
        order=order_figures(judged),
        scales=scale_figures(judged),
        tuned_on_these_labels=is_tuned_on(frozen, labelled.sha256),
        seed=seed,
    )


def is_tuned_on(judge: Judge | None, sha256: str) -> bool:
    """Whether a frozen judge has learned from these very labels, so that its figures flatter it."""
    provenance = (judge and judge.provenance) or {}
    data = provenance.get("data")
    return (
        isinstance(data, Mapping)
        and data.get("sha256") == sha256
        and provenance.get("shipped") != "seed"
    )


def all_correlations(
    scores: Vector, items: Items, seed: int, *, level: Level | None = None, pairs: bool = False
) -> list[Correlation]:
    """Every level that the data has, every coefficient, by both conventions; the primary one first.

    `level` is put first. Pairs have the dataset level only: within a document there are few
    margins, and no systems.
    """
    levels: tuple[Level, ...] = ("dataset",) if pairs else levels_of(items)
    return [
        result
        for name in sorted(levels, key=lambda name: name != level)
        for coefficient in COEFFICIENTS
        for result in _by_convention(scores, items, name, coefficient, seed)
    ]


def _by_convention(
    scores: Vector, items: Items, level: Level, coefficient: Coefficient, seed: int
) -> list[Correlation]:
    """The correlation by either convention on undefined documents, the primary one first."""

    def by(undefined: Undefined) -> Correlation:
        rng = stream(seed, "verify", level)
        return correlation(scores, items, level, rng, coefficient, undefined)

    primary = by(PRIMARY)
    # Only documents can be undefined one by one: elsewhere one figure, whatever the convention.
    if level != "summary" and abs(primary.value) > 0:
        return [primary, replace(primary, undefined="left_out")]
    return [primary, by("left_out")]


def pair_figures(scored: ScoredItems) -> dict[str, Any]:
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin), as runs and reports have
    it. The orders taken alone are told apart by which output came first, and their mean is what
    some tables call accuracy; `order_agreement` is the share of pairs with the same answer in both,
    failed pairs left out.
    """
    items = scored.items
    accuracy = pair_accuracy(scored.scores, items.human, items.document_ids)
    decided = [
        (verdict, "A" if margin > 0 else "B")
        for verdict, margin in zip(scored.verdicts, items.human, strict=True)
        if margin != 0 and verdict.failure is None
    ]
    # Both orders were asked of every pair: where neither has a preference, both called it a tie.
    in_order = {
        order: [
            0.5 if (choice := getattr(verdict, order)) is None else float(choice == preferred)
            for verdict, preferred in decided
        ]
        for order in ("order_ab", "order_ba")
    }
    judged = [verdict for verdict in scored.verdicts if verdict.failure is None]
    same_answer = [float(verdict.order_ab == verdict.order_ba) for verdict in judged]
    interval = interval_cell(accuracy.interval, DIGITS)
    return {
        "accuracy": json_number(accuracy.value, DIGITS),
        "accuracy_low": interval["low"],
        "accuracy_high": interval["high"],
        "accuracy_mean_of_orders": _mean([*in_order["order_ab"], *in_order["order_ba"]]),
        **{f"accuracy_{order}": _mean(correct) for order, correct in in_order.items()},
        "order_agreement": _mean(same_answer),
        "n_pairs": len(scored.verdicts),
        "n_decided": accuracy.n_decided,
        "n_ties": accuracy.n_ties,
        "n_documents": accuracy.n_documents,
        "n_failed": accuracy.n_failed,
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), DIGITS) if values else None


def _scores_by_id(scores: Any) -> dict[str, float]:
    numbers = {str(item): _number(item, score) for item, score in scores.items()}
    if len(numbers) != len(list(scores.items())):
        raise LabelError("an id has two scores; give every output an id of its own")
    return numbers


def _number(item: object, score: object) -> float:
    if score is None:
        return math.nan
    if isinstance(score, str) or not hasattr(score, "__float__"):
        raise TypeError(f"the score of {item!r} is {score!r}; a number is wanted, or NaN for none")
    return float(score)


def on_labels_scale(judge: Judge, scale: str | None) -> Judge:
    """The judge on the labels' scale; one that is frozen keeps the scale it was tuned on."""
    bounds = bounds_of(scale) if scale else None
    if bounds is None or not isinstance(judge.subject, Dimension) or judge.is_frozen:
        return judge
    return Judge.of(rescale(judge.subject, bounds), lm=judge.lm)


def _scale(scale: str | tuple[float, float] | None) -> str | None:
    if scale is None or isinstance(scale, str):
        return scale
    if not isinstance(scale, list | tuple) or len(scale) != 2:
        raise TypeError(f"scale is {scale!r}; '0-100', (0, 100) or 'any' is wanted")
    return f"{scale[0]}:{scale[1]}"
