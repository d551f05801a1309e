"""Verify one judge: its figures, what else moves its scores, and the lowest figures to accept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import comb

import numpy as np

from judges.judgement import Judgement, Preference
from judges.labels.types import LabelledPair
from judges.winrate import win_rate
from optimize.figures.as_json import INLINED_IN_JSON
from optimize.items import DataCounts, judged_output_name
from optimize.measuring.misses import Miss, find_misses
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems, TuningOverlap
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Correlation, Level, correlation
from optimize.statistics.intervals import Interval, IntervalEstimate

# The result lists at most this many false passes and this many false alarms; a report lists all.
MAX_MISSES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAssociation:
    """Spearman's rho of outputs' lengths with the judge's scores, and with people's labels.

    `interval` is the interval of the difference between both rhos. A pair's length is the length of
    output A minus that of output B.
    """

    judge_rho: float = field(metadata={"json": "judge"})
    people_rho: float = field(metadata={"json": "people"})
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Associations:
    """Influences on the scores other than quality; an influence is None if it is not known.

    `position_bias` is the share of choices for the output shown first, minus the share for the
    second. `repeat_agreement` is how often two replies about the same row give the same verdict.
    """

    length: LengthAssociation | None
    position_bias: IntervalEstimate | None = field(metadata={"json": "position"})
    repeat_agreement: float | None = field(metadata={"json": "repeats"})

    @classmethod
    def from_scores(cls, scored_items: ScoredItems) -> "Associations":
        position_bias = None
        if scored_items.is_pairwise:
            preferences = [item for item in scored_items.judgements if isinstance(item, Preference)]
            rates = win_rate(preferences, documents=scored_items.document_ids)
            interval = Interval(rates.position_bias_low, rates.position_bias_high)
            position_bias = IntervalEstimate(rates.position_bias, interval)
        return cls(
            length=_length_association(scored_items),
            position_bias=position_bias,
            repeat_agreement=_repeat_agreement(scored_items),
        )


def _repeat_agreement(scored_items: ScoredItems) -> float | None:
    agreements = []
    for judgement in scored_items.judgements if scored_items.has_verdicts else ():
        if isinstance(judgement, Judgement) and judgement.distribution and judgement.samples > 1:
            n, shares = judgement.samples, judgement.distribution.values()
            agreements.append(sum(comb(round(share * n), 2) for share in shares) / comb(n, 2))
    return float(np.mean(agreements)) if agreements else None


def _length_association(scored_items: ScoredItems) -> LengthAssociation | None:
    lengths: list[float] = []
    for row, label in enumerate(scored_items.labelled_items):
        texts = scored_items.items[row].texts
        if isinstance(label, LabelledPair):
            lengths.append(len(label.response_a.strip()) - len(label.response_b.strip()))
        elif output_name := judged_output_name([*texts]):
            lengths.append(len(texts[output_name].strip()))
    if len(lengths) < len(scored_items.items):
        return None
    level: Level = "dataset" if scored_items.level == "dataset" else "summary"
    scores = scored_items.verdicts if scored_items.has_verdicts else scored_items.scores
    human = np.where(np.isnan(scores), np.nan, scored_items.human)
    documents = scored_items.document_ids
    return LengthAssociation(
        judge_rho=correlation(level, scores, lengths, documents).value,
        people_rho=correlation(level, human, lengths, documents).value,
        interval=contrast_judges(scores, human, lengths, documents, level=level).interval,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge compared with people's labels.

    `rho_on_tuned_rows` is the rho on the rows that the judge was tuned on, if these were left out.
    `floors` are the lowest figures that the user accepts, by their names in `FLOOR_FIGURES`. They
    are checked each time that the user adds labels, `looks` times in all.
    """

    judge: str
    dimension: str
    data_counts: DataCounts = field(metadata={"json": "data"})
    level: Level
    n_unjudged: int
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    rho_on_tuned_rows: Correlation | None = field(metadata={"json": "on_met"})
    scorecard: Scorecard = field(metadata=INLINED_IN_JSON)
    associations: Associations
    misses: Sequence[Miss] | None = None
    verdict_words: tuple[str, str] | None = field(metadata={"json": "words"})
    looks: int = 1
    floors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_scores(cls, scored_items: ScoredItems, figure_rows: ScoredItems) -> "Verification":
        """Return the figures on `figure_rows`; the other rows were left out."""
        overlap = TuningOverlap.from_scores(scored_items, figure_rows)
        is_left_out = overlap.n_rows and not overlap.tuned_on_these_labels
        tuned_rows, misses = scored_items.of_ids(scored_items.tuned_ids), None
        if figure_rows.has_verdicts:
            misses = [*chain(*find_misses(figure_rows, MAX_MISSES_SHOWN).values())]
        return cls(
            judge=scored_items.judge_name,
            dimension=scored_items.dimension,
            data_counts=DataCounts.from_items(figure_rows.labels, figure_rows.items),
            level=scored_items.level,
            n_unjudged=scored_items.n_unjudged,
            overlap=overlap,
            rho_on_tuned_rows=tuned_rows.rho if is_left_out else None,
            scorecard=Scorecard.from_scores(figure_rows, has_verdicts=figure_rows.has_verdicts),
            associations=Associations.from_scores(figure_rows),
            misses=misses,
            verdict_words=scored_items.labels.words.get(scored_items.dimension),
        )
