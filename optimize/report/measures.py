"""All that a report says of one judge on one split beyond its correlations, measured once."""

from dataclasses import dataclass

import numpy as np

from judges.winrate import WinRate, win_rate
from optimize.injection import Attack, Probes, ScoreShift
from optimize.measuring.scored import Scored
from optimize.search.objective import choose_level
from optimize.statistics.accuracy import PairAccuracy, pair_accuracy
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Difference, paired_difference
from optimize.statistics.scale import Errors, ScaleUse, errors, scale_use


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMeasures:
    """How a pairwise judge chooses, and how far people choose alike."""

    rate: WinRate
    human_rate: float
    accuracy: PairAccuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """None, or empty, where the data do not allow it.

    `length` is the judge's rho with the outputs' length (`a`) less people's (`b`).
    """

    pairs: PairMeasures | None = None
    use: ScaleUse | None = None
    human_use: ScaleUse | None = None
    errors: Errors | None = None
    length: Difference | None = None
    shifts: tuple[tuple[Attack, ScoreShift], ...] = ()
    probes_reason: str = ""


def measure_split(judged: Scored, probes: Probes, seed: int) -> Measures:
    """Everything that the data allow, for a fixed seed."""
    shifts = probes.shifts(lambda attack: stream(seed, "probe", attack))
    if judged.verdicts:
        return Measures(pairs=measure_pairs(judged), shifts=shifts, probes_reason=probes.reason)
    if np.isnan(judged.scores).all():
        return Measures(shifts=shifts, probes_reason=probes.reason)
    scores, human, documents, scale = judged.scores, judged.human, judged.documents, judged.scale
    return Measures(
        use=scale_use(scores, documents, scale) if scale else None,
        human_use=scale_use(human, documents, scale) if judged.within_scale else None,
        errors=errors(scores, human, scale) if judged.within_scale else None,
        length=_length_preference(judged, seed),
        shifts=shifts,
        probes_reason=probes.reason,
    )


def _length_preference(judged: Scored, seed: int) -> Difference | None:
    """Whether the judge favours long outputs beyond what people do; None where that is unknown.

    A judge that likes long outputs is not at fault if people like them as much.
    """
    lengths = judged.lengths()
    if lengths is None or np.ptp(lengths) == 0:
        return None
    difference = paired_difference(
        judged.scores,
        judged.human,
        lengths,
        judged.documents,
        level=choose_level(judged.items),
        rng=stream(seed, "report", "length"),
    )
    return None if np.isnan(difference.value) else difference


def measure_pairs(judged: Scored) -> PairMeasures:
    """Accuracy, order and win rate of a pairwise judge."""
    return PairMeasures(
        rate=win_rate(judged.verdicts, documents=judged.documents, lengths=judged.pair_lengths()),
        human_rate=float((1 + judged.human).mean() / 2),
        accuracy=pair_accuracy(judged.scores, judged.human, judged.documents),
    )
