"""What labels can show: which figures get an interval, how likely a gain is, labels to add."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledSet
from judges.tables.problems import count_text
from optimize.inputs.labelled import AnyLabels, agreement_text
from optimize.items import Items, choose_level, make_items
from optimize.search.power import PLANNED_GAIN, power_text
from optimize.statistics.correlations import Level
from optimize.statistics.floor import (
    ERROR_RATIOS,
    PLANNED_POWER,
    labels_to_decide,
    round_up_to_two_digits,
)
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Vector
from optimize.statistics.verdict_rates import (
    MIN_DOCUMENTS_FOR_RATES,
    MIN_OUTPUTS_FOR_RATES,
    verdict_agreement,
)

# People's words for pass and for fail; None if labels are ratings.
VerdictWords = tuple[str, str] | None
# The lowest TPR and TNR that many users accept. `check` prints how many labels it takes to decide
# whether a judge's rates lie above them.
USUAL_FLOORS = {"tpr": 0.8, "tnr": 0.8}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsNeeded:
    """How many independent labels decide whether a judge's TPR and TNR lie above their floors.

    `n_labels` has two numbers, by the judge's true rates: for a judge that errs half as often as
    the floors allow, and for a judge that errs three quarters as often. A number is None if it is
    too large.
    """

    floors: Mapping[str, float]
    fail_share: float = field(metadata={"json": "fails"})
    n_labels: Mapping[str, int | None]

    def __str__(self) -> str:
        label_counts = [
            f"{_label_count_text(n)} labels for a judge of {true_rates}"
            for true_rates, n in self.n_labels.items()
        ]
        return (
            f"Floors of {_rates_text(self.floors, 'g')} take {', '.join(label_counts)} "
            f"({self.fail_share:.0%} fails, a chance of {PLANNED_POWER:.0%}, independent outputs)"
        )


def _label_count_text(n_labels: int | None) -> str:
    return "too many" if n_labels is None else f"{round_up_to_two_digits(n_labels):,}"


def labels_needed_for_floors(floors: Mapping[str, float], fail_share: float) -> LabelsNeeded:
    """Return how many labels these floors need, if people fail this share of the outputs."""
    n_labels = {}
    for error_ratio in ERROR_RATIOS:
        true_rates = {name: 1 - error_ratio * (1 - floor) for name, floor in floors.items()}
        n_labels[_rates_text(true_rates, ".3g")] = labels_to_decide(floors, fail_share, error_ratio)
    return LabelsNeeded(floors=floors, fail_share=fail_share, n_labels=n_labels)


def _rates_text(rates: Mapping[str, float], format_spec: str) -> str:
    return " and ".join(f"{name.upper()} {rate:{format_spec}}" for name, rate in rates.items())


def capacity_texts(labelled_items: AnyLabels, dimension: str) -> dict[str, str]:
    """Return what these labels can show: a text for each heading that `check` prints."""
    people_text, verdict_words = "not computed for votes", None
    if isinstance(labelled_items, LabelledSet):
        people_text = agreement_text(labelled_items, dimension)
        verdict_words = labelled_items.words.get(dimension)
        labelled_items = with_ratings(labelled_items, dimension)
    items = make_items(labelled_items, dimension)
    if not items.human.size:
        return {}
    capacity = _tuning_capacity(labelled_items, items, dimension, verdict_words)
    advice = capacity.advice
    if not people_text:
        advice.append("a second annotator on 30 outputs")
    if not np.ptp(items.human):
        absent_word = verdict_words[int(items.human[0])] if verdict_words else "other rating"
        advice = [
            f"no {absent_word} among {len(items):,} labels, so nothing to learn or to measure"
        ]
    text_by_heading = {
        "labels": f"{dimension}: {_distribution_text(items.human, verdict_words)}",
        "people": people_text or "how far they agree is not known",
        "contrast": _contrast_text(items),
        "intervals": capacity.intervals_text,
        "floors": _floors_text(items.human) if verdict_words else "",
        "gain": capacity.gain_text,
        "collect": "; ".join(advice) or "nothing more: these labels suffice for a tuning run",
    }
    return {heading: text for heading, text in text_by_heading.items() if text}


def _distribution_text(human: Vector, verdict_words: VerdictWords) -> str:
    mean = float(human.mean())
    if verdict_words:
        return f"{mean:.0%} {verdict_words[0]}, {1 - mean:.0%} {verdict_words[1]}"
    return f"mean {mean:.2f}, SD {human.std():.2f}"


def _floors_text(human: Vector) -> str:
    fail_share = 1 - float(human.mean())
    return str(labels_needed_for_floors(USUAL_FLOORS, fail_share)) if 0 < fail_share < 1 else ""


class _TuningCapacity(NamedTuple):
    """Which figures get an interval, how likely a tuning run shows a gain, and labels to add."""

    intervals_text: str
    gain_text: str
    advice: list[str]


def _tuning_capacity(
    labelled_items: AnyLabels, items: Items, dimension: str, verdict_words: VerdictWords
) -> _TuningCapacity:
    level = choose_level(items) if isinstance(labelled_items, LabelledSet) else "dataset"
    intervals_text = f"verify on all {_figures_with_interval(items, verdict_words, level)}"
    try:
        # A tuning run with the default seed makes the same splits.
        splits = split(labelled_items, seed=0)
    except LabelError:
        too_few = f"{MIN_DOCUMENTS_TO_SPLIT} documents let a judge be tuned, 30 are a fair start"
        return _TuningCapacity(intervals_text, "", [too_few])
    test = make_items(splits.test, dimension)
    intervals_text += f"; tune on test, {_figures_with_interval(test, verdict_words, level)}"
    if verdict_words:
        advice = _advice_for_rates(items, test, verdict_words)
    else:
        advice = _advice_for_rho(items, test, level)
    training = make_items(splits.train, dimension) + make_items(splits.dev, dimension)
    if not np.ptp(training.human):
        return _TuningCapacity(intervals_text, "", advice)
    gain_text, n_needed = power_text(
        items, training, search_goal="balanced" if verdict_words else level
    )
    if (n_more := n_needed - len(items.documents)) > 0:
        advice.append(f"{n_more:,} more documents to show a gain of {PLANNED_GAIN:g}")
    return _TuningCapacity(intervals_text, gain_text, advice)


def _contrast_text(items: Items) -> str:
    """Return within how many documents people give different labels."""
    rows_by_document = items.rows_by_document.values()
    document_labels = [items.human[rows] for rows in rows_by_document if len(rows) > 1]
    n_with_several = len(document_labels)
    if not n_with_several:
        return "none within documents, which have one output each"
    n_varied = sum(bool(np.ptp(labels) > 0) for labels in document_labels)
    text = f"people tell outputs apart in {n_varied:,} of {count_text(n_with_several, 'document')}"
    if n_with_one := len(items.documents) - n_with_several:
        text += f" with several outputs; {count_text(n_with_one, 'document')} have only one"
    return text


def n_missing_for_intervals(
    items: Items, verdict_words: VerdictWords, level: Level
) -> dict[str, int]:
    """Return how many more passes (TPR), fails (TNR) or documents (rho) each interval needs."""
    if verdict_words:
        n_more = verdict_agreement(items.human, items.human, items.document_ids).n_missing_labels
        return {"TPR": n_more["pass"], "TNR": n_more["fail"]}
    return {f"{level}-level rho": _n_missing_for_rho(items, level)}


def _n_missing_for_rho(items: Items, level: Level) -> int:
    """Return how many more documents an interval of rho needs.

    Some documents add nothing to rho: at summary level a document whose labels are all equal, at
    dataset level a document that has only the commonest label.
    """
    labels, counts = np.unique(items.human, return_counts=True)
    commonest_label, n_informative = labels[counts.argmax()], 0
    for rows in items.rows_by_document.values():
        document_labels = items.human[rows]
        if level == "summary":
            n_informative += bool(np.ptp(document_labels) > 0)
        else:
            n_informative += bool((document_labels != commonest_label).any())
    return max(0, MIN_DOCUMENTS_FOR_INTERVAL - n_informative)


def _figures_with_interval(items: Items, verdict_words: VerdictWords, level: Level) -> str:
    n_missing = n_missing_for_intervals(items, verdict_words, level)
    figures = [figure for figure, n in n_missing.items() if not n]
    return f"{count_text(len(items.documents), 'document')}: {', '.join(figures) or 'none'}"


def _advice_for_rho(all_items: Items, test: Items, level: Level) -> list[str]:
    """Return how many more documents give rho an interval on test; [] if rho has an interval."""
    n_missing_on_test = _n_missing_for_rho(test, level)
    if not n_missing_on_test:
        return []
    n_documents = len(all_items.documents)
    # Test grows with the total in proportion; some documents of test may have no contrast.
    n_with_contrast = max(1, MIN_DOCUMENTS_FOR_INTERVAL - n_missing_on_test)
    n_more = max(n_missing_on_test, math.ceil(n_missing_on_test * n_documents / n_with_contrast))
    clarification = " (not more outputs of the same)" if len(all_items) > n_documents else ""
    return [
        f"{n_more:,} more documents{clarification} for an interval of {level}-level rho on test"
    ]


def _advice_for_rates(all_items: Items, test: Items, verdict_words: tuple[str, str]) -> list[str]:
    """Return how many more passes or fails give TPR and TNR an interval on test."""
    n_missing, advice = n_missing_for_intervals(test, verdict_words, "dataset"), []
    for word, label, figure in zip(verdict_words, (1, 0), n_missing, strict=True):
        if n_missing[figure]:
            amount = _amount_for_rate(all_items, test, word, label, n_missing[figure])
            advice.append(f"{amount} for an interval of {figure} on test")
    return advice


def _amount_for_rate(
    all_items: Items, test: Items, word: str, label: int, n_missing_on_test: int
) -> str:
    """Return what to add: documents if the test split has enough outputs of the label."""
    rows = np.flatnonzero(test.human == label)
    n_missing_documents = MIN_DOCUMENTS_FOR_RATES - len({test[row].document_id for row in rows})
    if rows.size >= MIN_OUTPUTS_FOR_RATES and n_missing_documents > 0:
        n_more = math.ceil(n_missing_documents * len(all_items.documents) / len(test.documents))
        return f"{n_more:,} more documents with {word} outputs"
    n_labelled = int((all_items.human == label).sum())
    n_outputs = _outputs_for_test(len(test) / len(all_items))
    return f"{max(n_missing_on_test, n_outputs - n_labelled):,} more {word} outputs"


def _outputs_for_test(test_share: float) -> int:
    """Return how many outputs to label, so that nine of ten splits give test enough outputs."""
    from scipy.special import nbdtrik

    n_elsewhere = float(nbdtrik(0.9, MIN_OUTPUTS_FOR_RATES, test_share))
    return math.ceil(MIN_OUTPUTS_FOR_RATES + n_elsewhere)
