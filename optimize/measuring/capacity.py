"""What labels can show: which figures get an interval, how likely a gain is, labels to add."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledSet
from judges.tables.problems import count_text
from optimize.inputs.labelled import AnyLabels, agreement_text
from optimize.items import Items, choose_level, items_of
from optimize.search.power import PLANNED_GAIN, power_text
from optimize.statistics.correlations import Level
from optimize.statistics.floor import (
    ERROR_RATIOS,
    PLANNED_POWER,
    labels_to_decide,
    round_up_to_two_digits,
)
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL
from optimize.statistics.verdict_rates import (
    MIN_DOCUMENTS_FOR_RATES,
    MIN_OUTPUTS_FOR_RATES,
    verdict_agreement,
)

# People's words for pass and for fail; None if labels are ratings.
VerdictWords = tuple[str, str] | None
# `check` prints how many labels it takes to decide whether a judge holds these floors.
USUAL_FLOORS = {"tpr": 0.8, "tnr": 0.8}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsNeeded:
    """How many independent labels are needed to decide whether a judge holds its floors.

    `n_labels` has two numbers, by the judge's true rates: for a judge that errs half as often as
    its floors allow, and for a judge that errs three quarters as often. A number is None if it is
    too large.
    """

    floors: Mapping[str, float]
    fail_share: float = field(metadata={"json": "fails"})
    n_labels: Mapping[str, int | None]

    @classmethod
    def of(cls, floors: Mapping[str, float], fail_share: float) -> "LabelsNeeded":
        n_labels = {}
        for share in ERROR_RATIOS:
            rates = {name: 1 - share * (1 - floor) for name, floor in floors.items()}
            true_rates = " and ".join(f"{name.upper()} {rate:.3g}" for name, rate in rates.items())
            n_labels[true_rates] = labels_to_decide(floors, fail_share, share)
        return cls(floors=floors, fail_share=fail_share, n_labels=n_labels)

    def __str__(self) -> str:
        floors = " and ".join(f"{name.upper()} {floor:g}" for name, floor in self.floors.items())
        n_texts = (
            f"{f'{round_up_to_two_digits(n):,}' if n else 'too many'} labels for a judge of "
            f"{true_rates}"
            for true_rates, n in self.n_labels.items()
        )
        return (
            f"Floors of {floors} take {', '.join(n_texts)} ({self.fail_share:.0%} fails, a chance "
            f"of {PLANNED_POWER:.0%}, independent outputs)"
        )


def capacity_texts(labelled: AnyLabels, name: str) -> dict[str, str]:
    """Return what these labels can show, a text for each heading that `check` prints."""
    people_text, words = "not computed for votes", None
    if isinstance(labelled, LabelledSet):
        people_text, words = agreement_text(labelled, name), labelled.words.get(name)
        labelled = with_ratings(labelled, name)
    items = items_of(labelled, name)
    if not items.human.size:
        return {}
    intervals, gain, advice = _tuning_capacity(labelled, items, name, words)
    if not people_text:
        advice.append("a second annotator on 30 outputs")
    if not np.ptp(items.human):
        absent = words[int(items.human[0])] if words else "other rating"
        advice = [f"no {absent} among {len(items):,} labels, so nothing to learn or to measure"]
    mean, fails = items.human.mean(), 1 - float(items.human.mean())
    distribution_text, floors_text = f"mean {mean:.2f}, SD {items.human.std():.2f}", ""
    if words:
        distribution_text = f"{mean:.0%} {words[0]}, {fails:.0%} {words[1]}"
        floors_text = str(LabelsNeeded.of(USUAL_FLOORS, fails)) if 0 < fails < 1 else ""
    text_by_heading = {
        "labels": f"{name}: {distribution_text}",
        "people": people_text or "how far they agree is not known",
        "contrast": _contrast_text(items),
        "intervals": intervals,
        "floors": floors_text,
        "gain": gain,
        "collect": "; ".join(advice) or "nothing more: these labels suffice for a tuning run",
    }
    return {heading: text for heading, text in text_by_heading.items() if text}


def _tuning_capacity(
    labelled: AnyLabels, items: Items, name: str, words: VerdictWords
) -> tuple[str, str, list[str]]:
    """Return three texts: figures with an interval, the chance of a gain, labels to add."""
    level = choose_level(items) if isinstance(labelled, LabelledSet) else "dataset"
    intervals_text = f"verify on all {_figures_with_interval(items, words, level)}"
    try:
        # A tuning run with the default seed makes the same splits.
        splits = split(labelled, seed=0)
    except LabelError:
        too_few = f"{MIN_DOCUMENTS_TO_SPLIT} documents let a judge be tuned, 30 are a fair start"
        return intervals_text, "", [too_few]
    train, dev, test = (items_of(part, name) for part in (splits.train, splits.dev, splits.test))
    intervals_text += f"; tune on test, {_figures_with_interval(test, words, level)}"
    advice = _advice_for_intervals(items, test, words, level)
    training = Items((*train.items, *dev.items))
    if not np.ptp(training.human):
        return intervals_text, "", advice
    gain_text, n_needed = power_text(items, training, search_goal="balanced" if words else level)
    if (n_more := n_needed - len(items.documents)) > 0:
        advice.append(f"{n_more:,} more documents to show a gain of {PLANNED_GAIN:g}")
    return intervals_text, gain_text, advice


def _contrast_text(items: Items) -> str:
    document_ratings = [items.human[rows] for rows in items.document_rows.values() if len(rows) > 1]
    n_with_several = len(document_ratings)
    if not n_with_several:
        return "none within documents, which have one output each"
    n_varied = sum(bool(np.ptp(ratings) > 0) for ratings in document_ratings)
    text = f"people tell outputs apart in {n_varied:,} of {count_text(n_with_several, 'document')}"
    if n_with_one := len(items.documents) - n_with_several:
        text += f" with several outputs; {count_text(n_with_one, 'document')} have only one"
    return text


def n_missing_for_intervals(items: Items, words: VerdictWords, level: Level) -> dict[str, int]:
    """Return how many more passes (TPR), fails (TNR) or documents each interval needs."""
    if words:
        n_more = verdict_agreement(items.human, items.human, items.document_ids).n_missing_labels
        return {"TPR": n_more["pass"], "TNR": n_more["fail"]}
    # Some documents add nothing to rho: at summary level a document whose labels are all equal, at
    # dataset level a document that has only the commonest label.
    labels, counts = np.unique(items.human, return_counts=True)
    has_contrast = [
        np.ptp(ratings) > 0 if level == "summary" else (ratings != labels[counts.argmax()]).any()
        for ratings in (items.human[rows] for rows in items.document_rows.values())
    ]
    return {f"{level}-level rho": max(0, MIN_DOCUMENTS_FOR_INTERVAL - int(sum(has_contrast)))}


def _figures_with_interval(items: Items, words: VerdictWords, level: Level) -> str:
    n_missing = n_missing_for_intervals(items, words, level)
    figures = [figure for figure, n in n_missing.items() if not n]
    return f"{count_text(len(items.documents), 'document')}: {', '.join(figures) or 'none'}"


def _advice_for_intervals(
    all_items: Items, test: Items, words: VerdictWords, level: Level
) -> list[str]:
    """Return how many more labels give an interval on test to each figure that has none."""
    n_missing, n_documents = n_missing_for_intervals(test, words, level), len(all_items.documents)
    if not words:
        ((figure, n_on_test),) = n_missing.items()
        if not n_on_test:
            return []
        # Test grows with the total in proportion; some documents of test may have no contrast.
        n_with_contrast = max(1, MIN_DOCUMENTS_FOR_INTERVAL - n_on_test)
        n_more = max(n_on_test, math.ceil(n_on_test * n_documents / n_with_contrast))
        clarification = " (not more outputs of the same)" if len(all_items) > n_documents else ""
        return [f"{n_more:,} more documents{clarification} for an interval of {figure} on test"]
    advice, test_share = [], len(test) / len(all_items)
    for word, label, (figure, n_on_test) in zip(words, (1, 0), n_missing.items(), strict=True):
        if not n_on_test:
            continue
        rows = np.flatnonzero(test.human == label)
        n_short = MIN_DOCUMENTS_FOR_RATES - len({test.document_ids[row] for row in rows})
        if rows.size >= MIN_OUTPUTS_FOR_RATES and n_short > 0:
            n_more = math.ceil(n_short * n_documents / len(test.documents))
            amount = f"{n_more:,} more documents with {word} outputs"
        else:
            n_labelled = int((all_items.human == label).sum())
            n_more = max(n_on_test, _outputs_for_test(test_share) - n_labelled)
            amount = f"{n_more:,} more {word} outputs"
        advice.append(f"{amount} for an interval of {figure} on test")
    return advice


def _outputs_for_test(test_share: float) -> int:
    """Return how many outputs to label, so that nine of ten splits give test enough outputs."""
    from scipy.special import nbdtrik

    n_elsewhere = float(nbdtrik(0.9, MIN_OUTPUTS_FOR_RATES, test_share))
    return math.ceil(MIN_OUTPUTS_FOR_RATES + n_elsewhere)
