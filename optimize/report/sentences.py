"""Sentences about figures that runs, verifications and comparisons share, on screen and page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimize.figures.as_text import (
    certainty_text,
    counted,
    figure_text,
    number_text,
    share_text,
    short_name,
    wrapped,
)
from optimize.items import DataCounts
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.scorecard import Scorecard, TwoValueFigures
from optimize.measuring.verification import Verification
from optimize.statistics.correlations import Level

# What a sentence is about, in a word or two, and the sentence.
Titled = tuple[str, str]

# The share of pairs that tossing a coin orders as people do.
COIN = 0.5
# The titles of `two_value_sentences`, and the heads of tables of two values.
TWO_VALUES = ("Fails", "Passes", "Agreement", "Rates")
RATES = ("TPR", "TNR", "kappa")
# What is ranked, by the level of rho.
RANKED = {
    "summary": "each document's outputs",
    "dataset": "all outputs",
    "system": "the systems",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


def agreement(card: Scorecard, data: DataCounts, *, held_out: bool = False) -> list[Titled]:
    """How the judge agrees with people: of pass and fail by rates, else beside a coin."""
    if card.two_values:
        return list(zip(TWO_VALUES, two_value_sentences(card.two_values), strict=True))
    people, order = "the constructed labels" if data.is_constructed else "people", card.order
    if not card.rho.n_outputs:
        return [("Agreement", "It gave no score at all.")]
    if math.isnan(order.value):
        none = f"No agreement can be counted: {people} tell no two {card.unit} with a score apart."
        return [("Agreement", none)]
    unseen = " that tuning did not see" if held_out else ""
    of_one = "" if card.rho.level == "dataset" else " of one document"
    does = f"orders two outputs{of_one} as {people} do in"
    if card.is_pairs:
        does = f"prefers the same side as {people} in"
    coin = f"reaches {COIN:.0%}"
    if order.interval and order.interval.low <= COIN:
        coin = "may do as well" if order.interval.high >= COIN else "does better"
    text = (
        f"It {does} {order.value:.0%} of pairs ({certainty_text(order)}), on "
        f"{counted(order.n_documents, 'document')}{unseen}. A coin {coin}."
    )
    return [("Agreement", text)]


def two_value_sentences(card: TwoValueFigures) -> list[str]:
    """What a judge lets through, its false alarms, and what always saying one word reaches."""
    judge, always, word = card.judge, card.constant.accuracy, card.constant_word
    sentences = []
    for unit, name, rate, error, success, count in (
        ("fail", "TNR", judge.tnr, "misses", "catches", judge.confusion["fail_pass"]),
        ("pass", "TPR", judge.tpr, "fails", "passes", judge.confusion["pass_fail"]),
    ):
        certainty, n_more = certainty_text(rate), judge.n_more[unit]
        if rate.interval is None and n_more:
            certainty = f"{n_more:,} more for an interval"
        elif unit == "pass" and judge.tnr.interval:  # what the ends are of was said of fails
            certainty = certainty.removeprefix("95% interval ")
        sentences.append(
            f"It {error} {count:,} of {counted(rate.n, unit)} ({name}, it {success} "
            f"{share_text(rate.value)}; {certainty})."
            if rate.n
            else f"People call none of these outputs a {unit}: {name} is not known."
        )
    return [
        *sentences,
        f"It agrees on {share_text(judge.accuracy.value)} (always saying {word} would on "
        f"{share_text(always.value)}), kappa {figure_text(judge.kappa)}.",
        f"People pass {share_text(judge.base_rate.value)}, the judge "
        f"{share_text(judge.judge_rate.value)}.",
    ]


def beats_constant(card: TwoValueFigures) -> bool:
    """Whether the judge clearly agrees with people more often than always saying one word."""
    own = card.judge.accuracy.interval
    return own is not None and own.low > card.constant.accuracy.value


def as_one_annotator(card: Scorecard) -> Iterator[Titled]:
    """Yield whether the judge is as good as one annotator, where several labelled the same."""
    one = card.people.one_annotator if card.people and not card.two_values else None
    if not one:
        return
    interval, verdict = one.gap.interval, "Perhaps as good as one of these annotators"
    if interval is None:
        verdict = "Too few documents to say whether it is as good as one of these annotators"
    elif 0 not in interval:
        verdict = (
            f"{'Better than' if interval.low > 0 else 'Not as good as'} one of these annotators"
        )
    rhos = [number_text(one.judge.value), number_text(one.annotator.value)]
    text = "{}: rho with the other annotators {}, an annotator's {}.".format(verdict, *rhos)
    yield "One person", text


def tuned_on_sentences(
    judge: ComparedJudge | Verification, unit: str, name: str = "It"
) -> Iterator[str]:
    """Yield on how much of what is measured, and of what is set apart, a judge was tuned."""
    if judge.tuned_on_these_labels:
        yield f"{name} was tuned on {judge.n_met:,} of these {unit}, which flatters it."
    elif judge.n_met:
        yield f"{name} was tuned on {judge.n_met:,} more {unit}, which are set apart."
    if judge.n_given:
        yield (
            f"{name} was tuned on documents of {judge.n_given:,} of these {unit}, which may "
            "flatter it."
        )


def scale_warning(card: Scorecard) -> Iterator[Titled]:
    """Yield that scores are not people's ratings, where their means differ."""
    scales = card.scales
    if scales and scales.is_shifted and not card.two_values:
        yield (
            "Scores",
            f"Its mean is {scales.judge_mean:.2f}, the labels' {scales.human_mean:.2f}: "
            "only the order of its scores is measured.",
        )


def figure_meaning(card: Scorecard | None, level: Level) -> str:
    """What rho says, in a sentence; of two values what their rates say."""
    if card and card.two_values:
        return "TPR is the share of passes that the judge passes, TNR that of fails that it fails."
    ranked = "pairs by preference" if card and card.is_pairs else RANKED[level]
    return f"Rho: 1 is people's ranking of {ranked}, 0 a random one."


def labels_text(data: DataCounts, unit: str) -> str:
    """Which labels, and how many."""
    systems = f"{counted(data.n_systems, 'system')}, " if data.n_systems else ""
    documents = counted(data.n_documents, "document")
    if data.weighted:
        documents += " (weighted; differences are unweighted)"
    number = counted(data.n_outputs, unit.removesuffix("s"))
    if unit == "outputs" and data.n_outputs == data.n_documents and not data.weighted:
        return f"{systems}{counted(data.n_outputs, 'row')} of {short_name(data.name, 40)}"
    return f"{documents}, {systems}{number} of {short_name(data.name, 40)}"


def paragraphs(sentences: Sequence[Titled]) -> list[str]:
    return [line for title, text in sentences for line in wrapped(f"{title}: {text}")]
