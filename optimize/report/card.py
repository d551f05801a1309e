"""One judge's scorecard in sentences: whether to use the judge, and its figures."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from optimize.figures.as_text import counted, figure_text, number_text, share_text, short_name
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard, TwoValueFigures
from optimize.measuring.scored import TuningOverlap
from optimize.report.answer import Fact, Tile
from optimize.statistics.intervals import Interval

# The share of pairs that a coin orders as people do.
COIN_SHARE = 0.5
# The names of the columns in tables on judges of pass or fail.
RATES = ("TPR", "TNR", "kappa")


# The reasons not to use a judge, or not to use it yet.
Obstacle = Literal["no score", "constructed", "tuned on these", "no interval", "coin", "constant"]
REFUSALS: Mapping[Obstacle | None, str] = {
    "no score": "Do not use it yet: it gave no score.",
    "constructed": "Do not use it: its labels were constructed, not given by people.",
    "tuned on these": (
        "Do not use these figures: the judge was tuned on these labels, so they are too good."
    ),
    "no interval": (
        "Do not use it yet: labels are too few or too alike to show that it beats a coin."
    ),
    "coin": "Do not use it yet: it may be no better than a coin.",
}


def obstacle_to_use(
    card: Scorecard, data: DataCounts, *, tuned_on_these: bool = False
) -> Obstacle | None:
    """The first reason not to use a judge; None if it can be used.

    Args:
        card: The judge's figures.
        data: The labels that it was measured on.
        tuned_on_these: Whether the judge was tuned on these labels.

    Returns:
        "no score" if all judgements failed, "constructed" if the labels were made from known
        faults, "tuned on these" if the judge was tuned on the labels, "no interval" if there are
        too few labels for an interval, "coin" if the judge may be no better than a coin, "constant"
        if it may be no better than always giving the commoner verdict.
    """
    interval, binary = card.share_against_coin.interval, card.two_values
    if not card.rho.n_outputs:
        return "no score"
    if data.is_constructed:
        return "constructed"
    if tuned_on_these:
        return "tuned on these"
    if interval is None or math.isnan(card.share_against_coin.value):
        return "no interval"
    if interval.low <= COIN_SHARE:
        return "coin"
    agreement = binary.judge.accuracy.interval if binary else None
    if binary and not (agreement and agreement.low > binary.constant.accuracy.value):
        return "constant"
    return None


def recommendation(card: Scorecard, obstacle: Obstacle | None) -> str:
    """A sentence on whether to use the judge; `obstacle` comes from `obstacle_to_use`."""
    if refusal := REFUSALS.get(obstacle):
        return refusal
    if binary := card.two_values:
        share = share_text(binary.judge.accuracy.value)
        constant_share = share_text(binary.constant.accuracy.value)
        advice = "Do not use its verdicts yet" if obstacle else "Use it"
        return (
            f"{advice}: it agrees with people on {share}; always saying "
            f"{binary.constant_verdict} would agree on {constant_share}."
        )
    if is_worse_than_annotator(card):
        return "Use it with care: it beats a coin, but orders outputs worse than one annotator."
    if difference := difference_from_annotator(card):
        comparison_text = "better than" if difference.low > 0 else "perhaps as well as"
        return f"Use it: it orders outputs better than a coin, {comparison_text} one annotator."
    verb = "prefers the same side" if card.is_pairs else "orders outputs"
    return f"Use it: it {verb} as people do, clearly more often than a coin."


def difference_from_annotator(card: Scorecard) -> Interval | None:
    """The interval of the judge's rho minus one annotator's; None without several annotators."""
    annotator = card.people.one_annotator if card.people else None
    return annotator.gap.interval if annotator else None


def is_worse_than_annotator(card: Scorecard) -> bool:
    difference = difference_from_annotator(card)
    return difference is not None and difference.high < 0


def tiles_of(card: Scorecard) -> list[Tile]:
    """At most three tiles on a judge; undefined figures are left out."""
    tiles = _rate_tiles(card, card.two_values) if card.two_values else _rank_tiles(card)
    return [tile for tile in tiles if tile.number != "undefined"]


def _rank_tiles(card: Scorecard) -> Iterator[Tile]:
    """Yield tiles: pairs ordered as people do, rho, and one annotator's rho or order agreement."""
    rho, pairs, coin_note = card.rho, card.pairs, "a coin reaches 50%"
    title = f"Pairs{'' if rho.level == 'dataset' else ' of a document'} ordered as people do"
    if pairs:
        title, coin_note = "Pairs decided as people do", f"n={pairs.n_decided:,}; {coin_note}"
    yield Tile.of(title, card.order, coin_note, share=True)
    published_note = ""
    if rho.n_zero and (further_correlations := card.correlations[1:]):
        published_note = f"; most papers would print {number_text(further_correlations[0].value)}"
    note = f"1 is people's ranking, 0 chance{published_note}"
    yield Tile.of(f"{rho.level.capitalize()}-level rho", rho, note)
    if pairs:
        yield Tile(title="Same answer in both orders", number=share_text(pairs.order_agreement))
    elif card.people and (annotator := card.people.one_annotator):
        note = f"the judge's: {number_text(annotator.judge.value)}"
        yield Tile.of("One annotator's rho with others", annotator.annotator, note)


def _rate_tiles(card: Scorecard, binary: TwoValueFigures) -> Iterator[Tile]:
    """Yield tiles: the share of fails caught, the share of false alarms, and the accuracy."""
    judge, counts = binary.judge, binary.judge.confusion
    misses_note = f"it misses {counts['fail_pass']:,} of {counted(judge.tnr.n, 'fail')}"
    yield Tile.of("Fails caught (TNR)", judge.tnr, misses_note, share=True)
    alarms_note = f"it fails {counts['pass_fail']:,} of {counted(judge.tpr.n, 'pass')}"
    yield Tile.of("False alarms (1 - TPR)", judge.tpr.complement, alarms_note, share=True)
    note = f"always {binary.constant_verdict}: {share_text(binary.constant.accuracy.value)}"
    if card.people and (pairs := card.people.among_annotators):
        equal_text = range_text([row.equal for row in pairs], share_text)
        note = f"two annotators agree on {equal_text}"
    note += f"; kappa {figure_text(judge.kappa)}"
    yield Tile.of("Agreement", judge.accuracy, note, share=True)


def measured_sentence(card: Scorecard, data: DataCounts, remark: str = "") -> str:
    """A sentence with the numbers of outputs and documents that the figures rest on."""
    rho, binary, unit = card.rho, card.two_values, card.unit.removesuffix("s")
    n_documents = binary.judge.n_documents if binary else rho.n_documents
    amount_text = f"{counted(rho.n_outputs, unit)} of {counted(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount_text = counted(n_documents, "pair" if card.is_pairs else "row")
    weighted_text = ", drawn with unequal chances" if data.weighted else ""
    has_interval = any(
        figure.interval for figure in (binary.rates if binary else (rho, card.order))
    )
    interval_text = "intervals are 95%" if has_interval else "too few for an interval"
    text = f"Measured on {amount_text}{remark}{weighted_text}; {interval_text}"
    if rho.n_undefined and not binary:
        zero_text = f", {rho.n_zero:,} of which count 0" if rho.n_zero else ""
        text += f". Rho is undefined on {counted(rho.n_undefined, 'document')}{zero_text}"
    return f"{text}. {counted(rho.n_failed, unit)} got no score." if rho.n_failed else f"{text}."


def card_facts(card: Scorecard) -> Iterator[Fact]:
    """Yield people's and the judge's share of passes; for ratings, both means if they differ."""
    binary, scales = card.two_values, card.scales
    if binary:
        rates = (binary.judge.base_rate, binary.judge.judge_rate)
        people, judge = (share_text(rate.value) for rate in rates)
        yield "Rates", f"People pass {people}, the judge {judge}."
    elif scales and scales.is_shifted:
        means = f"{scales.judge_mean:.2f}, the labels' mean {scales.human_mean:.2f}"
        yield "Scores", f"Their mean is {means}. The figures compare only how outputs are ordered."


def tuning_warnings(overlap: TuningOverlap, unit: str, name: str = "It") -> Iterator[Fact]:
    """Yield warnings if the judge was tuned on some of these labels or on their documents."""
    n_rows, n_document_rows = overlap.n_rows, overlap.n_document_rows
    if overlap.tuned_on_these_labels:
        yield (
            "Warning",
            f"{name} was tuned on {n_rows:,} of these {unit}, which flatters it.",
        )
    elif n_rows:
        yield "Warning", f"{name} was tuned on {n_rows:,} more {unit}, which are left out."
    if n_document_rows:
        yield (
            "Warning",
            f"{name} was tuned on documents of {n_document_rows:,} of these {unit}, which may "
            "flatter it.",
        )


def people_facts(card: Scorecard | None, max_pairs: float = math.inf) -> Iterator[Fact]:
    """Yield the agreement for each pair of annotators, or one line for more than `max_pairs`."""
    if not (card and (people := card.people)):
        return
    for group_name, rows in (
        ("judge and annotators", people.with_judge),
        ("annotators", people.among_annotators),
    ):
        groups = [(" and ".join(map(_annotator_name, people.pair_of(row))), [row]) for row in rows]
        if len(rows) > max_pairs:
            groups = [(f"{group_name}, {len(rows)} pairs", rows)]
        for name, group in groups:
            text = f"equal labels {range_text([row.equal for row in group], share_text)}"
            # Kappa is left out if three ranges would take two lines.
            if card.two_values or len(group) == 1:
                text += f", kappa {range_text([row.kappa for row in group], number_text)}"
            if not card.two_values:
                text += f", rho {range_text([row.rho for row in group], number_text)}"
            yield name, text
    yield "all annotators", f"Krippendorff's alpha {number_text(people.alpha)}"


def range_text(values: Sequence[float], format_value: Callable[[float], str]) -> str:
    """The lowest and the highest value as text; a single text if they look the same."""
    ordered = sorted(value for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys(map(format_value, ordered[:1] + ordered[-1:]))) or "undefined"


def _annotator_name(name: str) -> str:
    """An annotator's name for a sentence; a number alone becomes "annotator 1"."""
    return f"annotator {name}" if name.isdecimal() else short_name(name)


def labels_text(data: DataCounts, unit: str) -> str:
    """The labels' name and how many documents, systems and outputs (or pairs) they cover."""
    systems = f"{counted(data.n_systems, 'system')}, " if data.n_systems else ""
    documents = counted(data.n_documents, "document")
    if data.weighted:
        documents += " (weighted; differences are unweighted)"
    number = counted(data.n_outputs, unit.removesuffix("s"))
    if unit == "outputs" and data.n_outputs == data.n_documents and not data.weighted:
        return f"{systems}{counted(data.n_outputs, 'row')} of {short_name(data.name, 40)}"
    return f"{documents}, {systems}{number} of {short_name(data.name, 40)}"
