"""What to do next, in two to four sentences, each derived from a figure on the page."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from data.readers import is_constructed
from optimize.answer import (
    MEND,
    how_to_use,
    label_your_own,
    on_agreement,
    on_the_interval,
    on_the_run,
)
from optimize.figures import value_cell
from optimize.measuring.scored import Scored
from optimize.report.measures import Measures, PairMeasures

MAX_SENTENCES = 4
FAILED, TIED = 0.02, 0.25
# Shares of the human ceiling.
FAR, NEAR = 0.75, 0.95
# Shares of the scale that an attack may move a score beyond what a neutral line does.
MOVED = 0.10

Cell = Mapping[str, Any]


def advice(
    judged: Scored,
    measures: Measures,
    cell: Cell,
    summary: Mapping[str, Any] | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    people: Mapping[str, Any] | None = None,
) -> list[str]:
    """The most pressing first; `cell` is this judge's rho here, `summary` a run's.

    `data` says which labels, where there is no run to say it, and `people` the judge's place among
    the annotators. On constructed ones no figure speaks
    of people, so there is one thing to do.
    """
    labels, paired = (summary or {}).get("data") or data or {}, measures.pairs is not None
    if is_constructed(str(labels.get("sha256"))):
        shipped = summary["shipped"] if summary else None
        return [label_your_own(judged.dimension, paired=paired, shipped=shipped)]
    if all(math.isnan(score) for score in judged.scores):
        return [MEND]
    main = cell if measures.pairs is None else _accuracy_cell(measures.pairs)
    sentences = [
        *_on_failures(judged),
        *on_agreement(main, paired=paired),
        *(on_the_run(summary) if summary else []),
        *([] if summary and summary["shipped"] == "seed" else on_the_interval(main, paired=paired)),
        *_on_scores(judged, measures),
        *_on_people(people, summary),
    ]
    pressing = sentences[: MAX_SENTENCES - 1]
    if len(pressing) == MAX_SENTENCES - 1 or cell["value"] is None:
        return pressing
    return [*pressing, how_to_use(run=summary is not None, paired=paired)]


def _on_failures(judged: Scored) -> Iterator[str]:
    n_failed, n = len(judged.failures), len(judged.items)
    if n_failed / max(1, n) > FAILED:
        unit = "pairs" if judged.verdicts else "outputs"
        yield (
            f"{n_failed:,} of {n:,} {unit} have no score "
            f"({n_failed / n:.0%}): look at the reasons below before trusting any figure."
        )


def _accuracy_cell(pairs: PairMeasures) -> Cell:
    """Accuracy in the form of a correlation's cell."""
    accuracy = pairs.accuracy
    return {
        **value_cell(accuracy.value, accuracy.interval),
        "n_documents": accuracy.n_documents,
    }


def _on_scores(judged: Scored, measures: Measures) -> Iterator[str]:
    """What else moves the judge: ties, attacks, length, position."""
    use, length, pairs = measures.use, measures.length, measures.pairs
    if use and use.tied > TIED:
        yield (
            f"The judge gives {use.tied:.0%} of the pairs within a document the same score, and "
            "ties cost rank agreement: try `--plan weighted` where the model gives probabilities, "
            "or `--plan mean --samples 10`."
        )
    scale_width = judged.scale[-1] - judged.scale[0] if judged.scale else 2
    control = next((shift.mean for attack, shift in measures.shifts if attack.control), 0.0)
    gains = [
        (shift.mean - control, attack.name, attack.title)
        for attack, shift in measures.shifts
        if not attack.control and shift.interval is not None and shift.interval.low > 0
    ]
    if gains and max(gains)[0] >= MOVED * scale_width:
        gain, _, attack_title = max(gains)
        yield (
            f"Outputs can talk the judge up ({attack_title}: +{gain:.2f} beyond a neutral "
            "line): do not let it gate outputs whose authors gain from its scores."
        )
    if length and length.interval and 0 not in length.interval:
        side = "longer" if length.value > 0 else "shorter"
        yield (
            f"The judge favours {side} outputs beyond what people do (rho {length.value:+.2f}): "
            "say in the instruction that length alone earns nothing, or compare systems of like "
            "length."
        )
    if pairs and pairs.rate.flip_rate > TIED:
        yield (
            f"{pairs.rate.flip_rate:.0%} of the preferences follow the order in which the two are "
            "shown: always ask in both orders, as this project does, and count disagreement as a "
            "tie."
        )


def _on_people(
    people: Mapping[str, Any] | None, summary: Mapping[str, Any] | None
) -> Iterator[str]:
    """What the share of the human ceiling says, as far as its interval goes."""
    if not people or people["share_of_ceiling"]["low"] is None:
        return
    share, low, high = (people["share_of_ceiling"][name] for name in ("value", "low", "high"))
    gain = summary["gain"]["test"] if summary else {}
    if share < FAR and high < NEAR:
        yield (
            f"The judge reaches {share:.0%} of what annotators reach among themselves, so there is "
            "room: a stronger `--lm`, or more train documents for demonstrations, come first."
        )
    # Nothing that a gain on this very page denies.
    elif share >= NEAR and low >= FAR and not (gain.get("low") or 0) > 0:
        yield (
            "The judge agrees with annotators about as well as they agree with each other: these "
            "labels cannot show a better judge; more annotators an output could."
        )
