"""All that a report says of one judge on one split beyond its correlations, computed once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from data.types import LabelError, LabelledSet
from judges.judgement import Judgement
from judges.winrate import WinRate, win_rate
from optimize.agreement import pair_accuracy
from optimize.alternative import AlternativeTest, alternative_test
from optimize.annotations import annotation_matrix
from optimize.audits.injection import Attack, Probes, ScoreShift
from optimize.audits.preferences import Discriminant, Preference, discriminant, preference
from optimize.audits.scale_use import ScaleUse, SelfConsistency, scale_use, self_consistency
from optimize.human import Ceiling, human_ceiling, krippendorff_alpha
from optimize.run.judged_split import JudgedSplit
from optimize.search.chance import stream
from optimize.search.objective import choose_level
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Vector
from optimize.statistics.errors import Errors, errors
from optimize.statistics.levels import Level
from optimize.statistics.ties import PairwiseAccuracy, pairwise_accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Annotators among themselves and the judge among them; `why` where that is unknown."""

    annotators: tuple[str, ...] = ()
    ceiling: Ceiling | None = None
    alpha: float = np.nan
    test: AlternativeTest | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """How a pairwise judge chooses.

    `accuracy` is over the pairs that people decided, by the side that the judge prefers in both
    orders together; a judge's tie is half right.
    """

    rate: WinRate
    people_rate: float
    accuracy: float
    accuracy_interval: Interval | None
    n_decided: int
    n_ties: int
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """None, or nothing, where the data do not tell."""

    people: People = field(default_factory=People)
    pairs: Pairs | None = None
    use: ScaleUse | None = None
    people_use: ScaleUse | None = None
    errors: Errors | None = None
    accuracy: PairwiseAccuracy | None = None
    length: Preference | None = None
    kinds: Mapping[str, Preference] = field(default_factory=dict)
    consistency: SelfConsistency | None = None
    dimensions: Discriminant | None = None
    shifts: tuple[tuple[Attack, ScoreShift], ...] = ()
    probes_why: str = ""


def find(evidence: JudgedSplit, probes: Probes, seed: int) -> Findings:
    """Everything that this evidence can tell, for a fixed seed."""
    shifts = probes.shifts(lambda attack: stream(seed, "probe", attack))
    if evidence.verdicts:
        return Findings(pairs=of_pairs(evidence), shifts=shifts, probes_why=probes.why)
    if np.isnan(evidence.scores).all():
        people = People(why="the judge gave no score at all")
        return Findings(people=people, shifts=shifts, probes_why=probes.why)
    scores, human, documents = evidence.scores, evidence.human, evidence.documents
    scale = evidence.scale
    return Findings(
        people=_people(evidence, seed),
        use=scale_use(scores, documents, scale) if scale else None,
        people_use=scale_use(human, documents, scale) if evidence.on_scale else None,
        errors=errors(scores, human, scale) if evidence.on_scale else None,
        accuracy=pairwise_accuracy(
            scores, human, documents, rng=stream(seed, "report", "accuracy")
        ),
        length=_preference(evidence, evidence.lengths(), seed),
        kinds=_kinds(evidence, seed),
        consistency=_consistency(evidence),
        dimensions=_dimensions(evidence, seed),
        shifts=shifts,
        probes_why=probes.why,
    )


def _people(evidence: JudgedSplit, seed: int) -> People:
    outputs = evidence.outputs
    if len(outputs) != len(evidence.items):
        return People(why="the labels say nothing of single annotators")
    try:
        labelled = LabelledSet(name="the data", sha256="", outputs=outputs)
        marks, names = annotation_matrix(labelled, evidence.dimension)
    except LabelError as error:
        return People(why=str(error).partition(": ")[2].partition(";")[0])
    level: Level = evidence.level
    alpha = krippendorff_alpha(marks)
    try:
        ceiling = human_ceiling(
            evidence.scores,
            marks,
            evidence.documents,
            rng=stream(seed, "report", "ceiling"),
            level=level,
            system=evidence.systems if level == "system" else None,
        )
    except ValueError as error:
        return People(annotators=names, alpha=alpha, why=str(error))
    test = None
    if evidence.on_scale and len(names) > 2:
        test = alternative_test(evidence.scores, marks, evidence.documents)
    return People(annotators=names, ceiling=ceiling, alpha=alpha, test=test)


def _preference(evidence: JudgedSplit, feature: Vector | None, seed: int) -> Preference | None:
    if feature is None or np.ptp(feature) == 0:
        return None
    level: Level = choose_level(evidence.items)
    rng = stream(seed, "report", "preference")
    return preference(
        evidence.scores, evidence.human, feature, evidence.documents, level=level, rng=rng
    )


def _kinds(evidence: JudgedSplit, seed: int) -> dict[str, Preference]:
    found = {}
    for name, values in evidence.kinds().items():
        distinct = sorted(set(values))
        # Of two kinds, one preference is the other's negative.
        for value in distinct[: 1 if len(distinct) == 2 else None]:
            feature = np.array([float(one == value) for one in values])
            one = _preference(evidence, feature, seed)
            if one is not None and not np.isnan(one.value):
                found[f"{name} is {value}" if value else f"no {name}"] = one
    return found


def _consistency(evidence: JudgedSplit) -> SelfConsistency | None:
    """From the shares of samples that gave each rating, where several were averaged."""
    rows = [
        _samples(one)
        for one in evidence.judgements
        if isinstance(one, Judgement) and one.samples > 1 and one.distribution
    ]
    if len(rows) < 2:
        return None
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, samples in zip(table, rows, strict=True):
        row[: len(samples)] = samples
    return self_consistency(table)


def _samples(one: Judgement) -> list[float]:
    shares = one.distribution or {}
    return [
        float(rating) for rating, share in shares.items() for _ in range(round(share * one.samples))
    ]


def _dimensions(evidence: JudgedSplit, seed: int) -> Discriminant | None:
    outputs = evidence.outputs
    if len(outputs) != len(evidence.items):
        return None
    names = set(outputs[0].ratings) if outputs else set()
    for one in outputs:
        names &= {name for name, marks in one.ratings.items() if marks}
    if len(names) < 2 or evidence.dimension not in names:
        return None
    order = [evidence.dimension, *sorted(names - {evidence.dimension})]
    people = {name: [one.rating(name) for one in outputs] for name in order}
    return discriminant(
        {evidence.dimension: evidence.scores},
        people,
        evidence.documents,
        level=choose_level(evidence.items),
        rng=stream(seed, "report", "dimensions"),
    )


def of_pairs(evidence: JudgedSplit) -> Pairs:
    """Accuracy, order and win rate of a pairwise judge."""
    together = pair_accuracy(evidence.scores, evidence.human, evidence.documents)
    return Pairs(
        rate=win_rate(
            evidence.verdicts, documents=evidence.documents, lengths=evidence.pair_lengths()
        ),
        people_rate=float((1 + evidence.human).mean() / 2),
        accuracy=together.value,
        accuracy_interval=together.interval,
        n_decided=together.n_decided,
        n_ties=together.n_ties,
        n_documents=together.n_documents,
    )
