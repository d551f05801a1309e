"""All that a report says of one judge on one split beyond its correlations, measured once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from data.types import LabelledSet
from judges.judgement import Judgement
from judges.winrate import WinRate, win_rate
from optimize.injection import Attack, Probes, ScoreShift
from optimize.items import AnnotationsError, annotation_matrix
from optimize.run.evidence import JudgedSplit
from optimize.search.objective import choose_level
from optimize.statistics.accuracy import (
    PairAccuracy,
    PairwiseAccuracy,
    pair_accuracy,
    pairwise_accuracy,
)
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Difference
from optimize.statistics.human import (
    AlternativeTest,
    Ceiling,
    alternative_test,
    human_ceiling,
    krippendorff_alpha,
)
from optimize.statistics.levels import Level
from optimize.statistics.preferences import Discriminant, discriminant, preference
from optimize.statistics.scale import (
    Errors,
    ScaleUse,
    SelfConsistency,
    errors,
    scale_use,
    self_consistency,
)

LENGTH = "length in characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """Annotators among themselves and the judge among them.

    `annotators` are their names, in the order of the ceiling's and the test's indices; without a
    ceiling `unavailable_reason` says why.
    """

    annotators: tuple[str, ...] = ()
    ceiling: Ceiling | None = None
    alpha: float = np.nan
    alternative_annotator_test: AlternativeTest | None = None
    unavailable_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMeasures:
    """How a pairwise judge chooses, and how far people choose alike."""

    rate: WinRate
    human_rate: float
    accuracy: PairAccuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """None, or empty, where the data do not allow it."""

    annotator_agreement: AnnotatorAgreement = field(default_factory=AnnotatorAgreement)
    pairs: PairMeasures | None = None
    use: ScaleUse | None = None
    human_use: ScaleUse | None = None
    errors: Errors | None = None
    accuracy: PairwiseAccuracy | None = None
    # By the feature of outputs that the judge may favour; their length in characters is LENGTH.
    preferences: Mapping[str, Difference] = field(default_factory=dict)
    consistency: SelfConsistency | None = None
    dimensions: Discriminant | None = None
    shifts: tuple[tuple[Attack, ScoreShift], ...] = ()
    probes_reason: str = ""


def measure_split(judged: JudgedSplit, probes: Probes, seed: int) -> Measures:
    """Everything that the data allow, for a fixed seed."""
    shifts = probes.shifts(lambda attack: stream(seed, "probe", attack))
    if judged.verdicts:
        return Measures(pairs=measure_pairs(judged), shifts=shifts, probes_reason=probes.reason)
    if np.isnan(judged.scores).all():
        agreement = AnnotatorAgreement(unavailable_reason="the judge gave no score at all")
        return Measures(annotator_agreement=agreement, shifts=shifts, probes_reason=probes.reason)
    scores, human, documents, scale = judged.scores, judged.human, judged.documents, judged.scale
    rng = stream(seed, "report", "accuracy")
    return Measures(
        annotator_agreement=_annotator_agreement(judged, seed),
        use=scale_use(scores, documents, scale) if scale else None,
        human_use=scale_use(human, documents, scale) if judged.within_scale else None,
        errors=errors(scores, human, scale) if judged.within_scale else None,
        accuracy=pairwise_accuracy(scores, human, documents, rng=rng),
        preferences=_preferences(judged, seed),
        consistency=_consistency(judged),
        dimensions=_dimensions(judged, seed),
        shifts=shifts,
        probes_reason=probes.reason,
    )


def _annotator_agreement(judged: JudgedSplit, seed: int) -> AnnotatorAgreement:
    """Alpha, the human ceiling and the alternative-annotator test, as far as the labels allow."""
    outputs = judged.outputs
    if len(outputs) != len(judged.items):
        return AnnotatorAgreement(unavailable_reason="the labels say nothing of single annotators")
    try:
        labelled = LabelledSet(name="the data", sha256="", outputs=outputs)
        ratings, names = annotation_matrix(labelled, judged.dimension)
    except AnnotationsError as error:
        return AnnotatorAgreement(unavailable_reason=error.fault)
    level: Level = judged.level
    alpha = krippendorff_alpha(ratings)
    try:
        ceiling = human_ceiling(
            judged.scores,
            ratings,
            judged.documents,
            rng=stream(seed, "report", "ceiling"),
            level=level,
            system=judged.systems if level == "system" else None,
        )
    except ValueError as error:
        return AnnotatorAgreement(annotators=names, alpha=alpha, unavailable_reason=str(error))
    alternative_annotator_test = None
    if judged.within_scale and len(names) > 2:
        alternative_annotator_test = alternative_test(judged.scores, ratings, judged.documents)
    return AnnotatorAgreement(
        annotators=names,
        ceiling=ceiling,
        alpha=alpha,
        alternative_annotator_test=alternative_annotator_test,
    )


def _preferences(judged: JudgedSplit, seed: int) -> dict[str, Difference]:
    """By every feature in which the outputs differ, where it has a preference."""
    features = {LENGTH: judged.lengths()}
    for name, values in judged.kinds().items():
        distinct = sorted(set(values))
        # Of two kinds, one preference is the other's negative.
        for value in distinct[: 1 if len(distinct) == 2 else None]:
            label = f"{name} is {value}" if value else f"no {name}"
            features[label] = np.array([float(kind == value) for kind in values])
    preferences = {
        name: preference(
            judged.scores,
            judged.human,
            feature,
            judged.documents,
            level=choose_level(judged.items),
            rng=stream(seed, "report", "preference"),
        )
        for name, feature in features.items()
        if feature is not None and np.ptp(feature) > 0
    }
    return {
        name: difference
        for name, difference in preferences.items()
        if not np.isnan(difference.value)
    }


def _consistency(judged: JudgedSplit) -> SelfConsistency | None:
    """From the shares of samples that gave each rating, where several were averaged."""
    rows = [
        np.repeat(
            np.array(list(judgement.distribution), dtype=float),
            [round(share * judgement.samples) for share in judgement.distribution.values()],
        )
        for judgement in judged.judgements
        if isinstance(judgement, Judgement) and judgement.samples > 1 and judgement.distribution
    ]
    if len(rows) < 2:
        return None
    samples = np.full((len(rows), max(map(len, rows))), np.nan)
    for index, row in enumerate(rows):
        samples[index, : row.size] = row
    consistency = self_consistency(samples)
    return None if np.isnan(consistency.reliability) else consistency


def _dimensions(judged: JudgedSplit, seed: int) -> Discriminant | None:
    """The judge against people's ratings of each dimension; None with fewer than two of them."""
    outputs = judged.outputs
    if len(outputs) != len(judged.items):
        return None
    names = set(outputs[0].ratings) if outputs else set()
    for output in outputs:
        names &= {name for name, ratings in output.ratings.items() if ratings}
    if len(names) < 2 or judged.dimension not in names:
        return None
    order = [judged.dimension, *sorted(names - {judged.dimension})]
    human = {name: [output.rating(name) for output in outputs] for name in order}
    return discriminant(
        judged.scores,
        judged.dimension,
        human,
        judged.documents,
        level=choose_level(judged.items),
        rng=stream(seed, "report", "dimensions"),
    )


def measure_pairs(judged: JudgedSplit) -> PairMeasures:
    """Accuracy, order and win rate of a pairwise judge."""
    return PairMeasures(
        rate=win_rate(judged.verdicts, documents=judged.documents, lengths=judged.pair_lengths()),
        human_rate=float((1 + judged.human).mean() / 2),
        accuracy=pair_accuracy(judged.scores, judged.human, judged.documents),
    )
