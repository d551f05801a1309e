"""What labels can show: which figures get intervals, and how likely tuning shows a gain."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledSet
from judges.tables.problems import count_text
from optimize.inputs.labelled import AnyLabels, agreement_text
from optimize.items import Items, make_items, n_missing_for_intervals
from optimize.measuring.asking import Task
from optimize.search.power import PLANNED_GAIN, power_text
from optimize.search.problem import Goal
from optimize.statistics.floor import labels_needed_for_floors
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import (
    MIN_DOCUMENTS_FOR_RATES,
    MIN_OUTPUTS_FOR_RATES,
    VerdictAgreement,
    verdict_agreement,
)

# People's words for pass and for fail; None if labels are ratings.
VerdictWords = tuple[str, str] | None
# The lowest TPR and TNR that many users accept. `dspy-judges check` prints how many labels are
# needed to show that a judge has higher rates.
USUAL_FLOORS = {"tpr": 0.8, "tnr": 0.8}


def capacity_texts(labels: AnyLabels, dimension: str) -> dict[str, str]:
    """Return what these labels can show: a text for each heading that `check` prints."""
    people_text = "not computed for votes"
    if isinstance(labels, LabelledSet):
        people_text = agreement_text(labels, dimension)
        labels = with_ratings(labels, dimension)
    task = Task.from_labels(labels, dimension)
    items, words = task.items(), labels.words.get(dimension)
    if not items.human.size:
        return {}
    mean = float(items.human.mean())
    distribution_text, floors_text = f"mean {mean:.2f}, SD {items.human.std():.2f}", ""
    if words:
        distribution_text = f"{mean:.0%} {words[0]}, {1 - mean:.0%} {words[1]}"
        if 0 < mean < 1:
            floors_text = str(labels_needed_for_floors(USUAL_FLOORS, 1 - mean))
    intervals_text, gain_text, advice = _tuning_texts(task, items, words)
    if not people_text:
        advice.append("a second annotator on 30 outputs")
    if not np.ptp(items.human):
        word = words[int(items.human[0])] if words else "other rating"
        advice = [f"no {word} among {len(items):,} labels, so nothing to learn or to measure"]
    text_by_heading = {
        "labels": f"{dimension}: {distribution_text}",
        "people": people_text or "how far they agree is not known",
        "contrast": _contrast_text(items),
        "intervals": intervals_text,
        "floors": floors_text,
        "gain": gain_text,
        "collect": "; ".join(advice) or "nothing more: these labels suffice for a tuning run",
    }
    return {heading: text for heading, text in text_by_heading.items() if text}


def _tuning_texts(task: Task, items: Items, words: VerdictWords) -> tuple[str, str, list[str]]:
    """Return which figures get an interval, how likely tuning shows a gain, and what to label."""
    n_missing_on_all = n_missing_for_intervals(items, task.level, has_verdicts=bool(words))
    intervals_text = f"verify on all {_figures_with_interval(items, n_missing_on_all)}"
    try:
        # These are the splits that a tuning run makes with its default seed.
        splits = split(task.labels, seed=0)
    except LabelError:
        advice = [f"{MIN_DOCUMENTS_TO_SPLIT} documents let a judge be tuned, 30 are a fair start"]
        return intervals_text, "", advice
    train, dev, test = (
        make_items(labels, task.dimension) for labels in (splits.train, splits.dev, splits.test)
    )
    n_missing_on_test = n_missing_for_intervals(test, task.level, has_verdicts=bool(words))
    intervals_text += f"; tune on test, {_figures_with_interval(test, n_missing_on_test)}"
    advice = [*_labels_to_add(items, test, n_missing_on_test, words)]
    if not np.ptp((train + dev).human):
        return intervals_text, "", advice
    goal: Goal = "balanced" if words else task.level
    gain_text, n_documents_needed = power_text(items, train + dev, search_goal=goal)
    if (n_more_documents := n_documents_needed - len(items.documents)) > 0:
        advice.append(f"{n_more_documents:,} more documents to show a gain of {PLANNED_GAIN:g}")
    return intervals_text, gain_text, advice


def _contrast_text(items: Items) -> str:
    n_documents = len(items.documents)
    n_single_output = sum(rows.size == 1 for rows in items.rows_by_document.values())
    if n_single_output == n_documents:
        return "none within documents, which have one output each"
    several_text = count_text(n_documents - n_single_output, "document")
    text = f"people tell outputs apart in {items.n_documents_with_contrast:,} of {several_text}"
    if n_single_output:
        text += f" with several outputs; {count_text(n_single_output, 'document')} have only one"
    return text


def _figures_with_interval(items: Items, n_missing_by_figure: Mapping[str, int]) -> str:
    figures = [figure for figure, n in n_missing_by_figure.items() if not n]
    return f"{count_text(len(items.documents), 'document')}: {', '.join(figures) or 'none'}"


def _labels_to_add(
    all_items: Items, test: Items, n_missing_by_figure: Mapping[str, int], words: VerdictWords
) -> Iterator[str]:
    """Yield what to label for each figure that has no interval on the test split."""
    n_documents, n_outputs = len(all_items.documents), len(all_items)
    if words:
        agreement = verdict_agreement(scored_rows(test.human, test.human, test.document_ids))
        n_passes = int((all_items.human == 1).sum())
        yield from labels_for_rates(agreement, len(test), n_passes, n_outputs, words)
        return
    for figure, n_missing in n_missing_by_figure.items():
        if n_missing:
            # The test split gets a fixed share of all documents; some may have equal labels.
            n_with_contrast = max(1, MIN_DOCUMENTS_FOR_INTERVAL - n_missing)
            n_more = max(n_missing, math.ceil(n_missing * n_documents / n_with_contrast))
            remark = " (not more outputs of the same)" if n_outputs > n_documents else ""
            yield f"{n_more:,} more documents{remark} for an interval of {figure} on test"


def labels_for_rates(
    agreement: VerdictAgreement, n_test: int, n_passes: int, n_outputs: int, words: tuple[str, str]
) -> Iterator[str]:
    """Yield what to add to all labels for each rate of `agreement` that has no interval.

    The rates are of `n_test` of all `n_outputs`, and `n_passes` of all outputs are passes.
    """
    from scipy.special import nbdtrik

    # With so many passes (or fails) in all, nine of ten random test splits have enough of them.
    n_outside_test = float(nbdtrik(0.9, MIN_OUTPUTS_FOR_RATES, n_test / n_outputs))
    n_needed = math.ceil(MIN_OUTPUTS_FOR_RATES + n_outside_test)
    rates, n_labelled = (agreement.tpr, agreement.tnr), (n_passes, n_outputs - n_passes)
    for figure, rate, n, word in zip(("TPR", "TNR"), rates, n_labelled, words, strict=True):
        purpose = f"for an interval of {figure}{' on test' if n_test < n_outputs else ''}"
        n_missing_documents = max(0, MIN_DOCUMENTS_FOR_RATES - (rate.n_documents or 0))
        if rate.n < MIN_OUTPUTS_FOR_RATES:
            n_more = max(MIN_OUTPUTS_FOR_RATES - rate.n, n_missing_documents, n_needed - n)
            yield f"{n_more:,} more {word} outputs {purpose}"
        elif n_missing_documents:
            n_more = math.ceil(n_missing_documents * n_outputs / n_test)
            yield f"{n_more:,} more documents with {word} outputs {purpose}"
