"""One judge's scorecard in sentences: whether to use the judge, and its figures."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from optimize.figures.as_text import counted, figure_text, number_text, share_text, short_name
from optimize.items import DataCounts
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.scorecard import Scorecard, TwoValueFigures
from optimize.measuring.verification import Verification
from optimize.report.answer import Fact, Tile
from optimize.statistics.intervals import Interval

# The share of pairs that a coin orders as people do.
COIN_SHARE = 0.5
# The names of the columns in tables on judges of pass or fail.
RATES = ("TPR", "TNR", "kappa")


# The first thing that stands in the way of using a judge.
Obstacle = Literal["no score", "constructed", "tuned on these", "no interval", "coin", "constant"]
REFUSALS: Mapping[Obstacle | None, str] = {
    "no score": "Do not use it yet: it gave no score.",
    "constructed": "Do not use it: its labels were made from known faults, not given by people.",
    "tuned on these": (
        "Do not use these figures: it was tuned on these labels, which flatters them."
    ),
    "no interval": (
        "Do not use it yet: labels are too few or too alike to show that it beats a coin."
    ),
    "coin": "Do not use it yet: it may be no better than a coin.",
}


def obstacle_to_use(
    card: Scorecard, data: DataCounts, *, tuned_on_these: bool = False
) -> Obstacle | None:
    """What stands in the way of using a judge; None if it can be used.

    Args:
        card: The judge's figures.
        data: The labels that it was measured on.
        tuned_on_these: Whether the judge was tuned on these labels.

    Returns:
        "no score" if all judgements failed, "constructed" if nobody gave the labels, "tuned on
        these" if the judge has seen them, "no interval" if labels do not suffice for one, "coin" if
        the judge may be no better than a coin, "constant" if it may be no better than one verdict
        for all outputs.
    """
    interval, two = card.beside_coin.interval, card.two_values
    if not card.rho.n_outputs:
        return "no score"
    if data.is_constructed:
        return "constructed"
    if tuned_on_these:
        return "tuned on these"
    if interval is None or math.isnan(card.beside_coin.value):
        return "no interval"
    if interval.low <= COIN_SHARE:
        return "coin"
    agreement = two.judge.accuracy.interval if two else None
    if two and not (agreement and agreement.low > two.constant.accuracy.value):
        return "constant"
    return None


def recommendation(card: Scorecard, obstacle: Obstacle | None) -> str:
    """A sentence on whether to use the judge, for its figures and its `obstacle_to_use`."""
    if refusal := REFUSALS.get(obstacle):
        return refusal
    if two := card.two_values:
        own, fixed = share_text(two.judge.accuracy.value), share_text(two.constant.accuracy.value)
        use = "Do not use its verdicts yet" if obstacle else "Use it"
        return (
            f"{use}: it agrees with people on {own}; always saying {two.constant_word} would agree "
            f"on {fixed}."
        )
    if is_worse_than_annotator(card):
        return "Use it with care: it beats a coin, but orders outputs worse than one annotator."
    if gap := annotator_gap(card):
        how = "better than" if gap.low > 0 else "perhaps as well as"
        return f"Use it: it orders outputs better than a coin, {how} one annotator."
    verb = "prefers the same side" if card.is_pairs else "orders outputs"
    return f"Use it: it {verb} as people do, clearly more often than a coin."


def annotator_gap(card: Scorecard) -> Interval | None:
    """The interval of the judge's rho less one annotator's, if several people gave labels."""
    annotator = card.people.one_annotator if card.people else None
    return annotator.gap.interval if annotator else None


def is_worse_than_annotator(card: Scorecard) -> bool:
    gap = annotator_gap(card)
    return gap is not None and gap.high < 0


def tiles_of(card: Scorecard) -> list[Tile]:
    """At most three tiles on a judge; undefined figures are left out."""
    tiles = _rate_tiles(card, card.two_values) if card.two_values else _rank_tiles(card)
    return [tile for tile in tiles if tile.number != "undefined"]


def _rank_tiles(card: Scorecard) -> Iterator[Tile]:
    """Yield tiles on the share of pairs, on rho, and on one annotator or on consistency."""
    rho, pairs, coin = card.rho, card.pairs, "a coin reaches 50%"
    title = f"Pairs{'' if rho.level == 'dataset' else ' of a document'} ordered as people do"
    if pairs:
        title, coin = "Pairs decided as people do", f"n={pairs.n_decided:,}; {coin}"
    yield Tile.of(title, card.order, coin, share=True)
    published = ""
    if rho.n_zero and (others := card.correlations[1:]):
        published = f"; most papers would print {number_text(others[0].value)}"
    note = f"1 is people's ranking, 0 chance{published}"
    yield Tile.of(f"{rho.level.capitalize()}-level rho", rho, note)
    if pairs:
        yield Tile(title="Same answer in both orders", number=share_text(pairs.order_agreement))
    elif card.people and (annotator := card.people.one_annotator):
        note = f"the judge's: {number_text(annotator.judge.value)}"
        yield Tile.of("One annotator's rho with others", annotator.annotator, note)


def _rate_tiles(card: Scorecard, two: TwoValueFigures) -> Iterator[Tile]:
    """Yield tiles on the fails that are caught, the false alarms and the agreement."""
    judge, counts = two.judge, two.judge.confusion
    misses = f"it misses {counts['fail_pass']:,} of {counted(judge.tnr.n, 'fail')}"
    yield Tile.of("Fails caught (TNR)", judge.tnr, misses, share=True)
    alarms = f"it fails {counts['pass_fail']:,} of {counted(judge.tpr.n, 'pass')}"
    yield Tile.of("False alarms (1 - TPR)", judge.tpr.complement, alarms, share=True)
    note = f"always {two.constant_word}: {share_text(two.constant.accuracy.value)}"
    if card.people and (pairs := card.people.among_annotators):
        equal = range_text([row.equal for row in pairs], share_text)
        note = f"two annotators agree on {equal}"
    note += f"; kappa {figure_text(judge.kappa)}"
    yield Tile.of("Agreement", judge.accuracy, note, share=True)


def measured(card: Scorecard, data: DataCounts, unseen: str = "") -> str:
    """A sentence on how many outputs and documents the figures were measured on."""
    rho, two, unit = card.rho, card.two_values, card.unit.removesuffix("s")
    n_documents = two.judge.n_documents if two else rho.n_documents
    amount = f"{counted(rho.n_outputs, unit)} of {counted(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount = counted(n_documents, "pair" if card.is_pairs else "row")
    weighted = ", drawn with unequal chances" if data.weighted else ""
    has_interval = any(figure.interval for figure in (two.rates if two else (rho, card.order)))
    intervals = "intervals are 95%" if has_interval else "too few for an interval"
    text = f"Measured on {amount}{unseen}{weighted}; {intervals}"
    if rho.n_undefined and not two:
        zero = f", {rho.n_zero:,} of which count 0" if rho.n_zero else ""
        text += f". Rho is undefined on {counted(rho.n_undefined, 'document')}{zero}"
    return f"{text}. {counted(rho.n_failed, unit)} got no score." if rho.n_failed else f"{text}."


def card_facts(card: Scorecard) -> Iterator[Fact]:
    """Yield the shares of passes; for ratings, a note if the judge's mean is not people's."""
    two, scales = card.two_values, card.scales
    if two:
        rates = (two.judge.base_rate, two.judge.judge_rate)
        people, judge = (share_text(rate.value) for rate in rates)
        yield "Rates", f"People pass {people}, the judge {judge}."
    elif scales and scales.is_shifted:
        means = f"{scales.judge_mean:.2f}, the labels' mean {scales.human_mean:.2f}"
        yield "Scores", f"Their mean is {means}. The figures compare only how outputs are ordered."


def tuned_on(judge: ComparedJudge | Verification, unit: str, name: str = "It") -> Iterator[Fact]:
    """Yield warnings if the judge was tuned on some of these labels or on their documents."""
    if judge.tuned_on_these_labels:
        yield "Warning", f"{name} was tuned on {judge.n_met:,} of these {unit}, which flatters it."
    elif judge.n_met:
        yield "Warning", f"{name} was tuned on {judge.n_met:,} more {unit}, which are set apart."
    if judge.n_given:
        yield (
            "Warning",
            f"{name} was tuned on documents of {judge.n_given:,} of these {unit}, which may "
            "flatter it.",
        )


def people_facts(card: Scorecard | None, most: float = math.inf) -> Iterator[Fact]:
    """Yield how annotators agree with the judge and each other; one line for over `most` pairs."""
    if not (card and (people := card.people)):
        return
    for who, rows in (
        ("judge and annotators", people.with_judge),
        ("annotators", people.among_annotators),
    ):
        groups = [(" and ".join(map(_name, people.pair_of(row))), [row]) for row in rows]
        if len(rows) > most:
            groups = [(f"{who}, {len(rows)} pairs", rows)]
        for name, group in groups:
            text = f"equal labels {range_text([row.equal for row in group], share_text)}"
            # Kappa is left out if three ranges would take two lines.
            if card.two_values or len(group) == 1:
                text += f", kappa {range_text([row.kappa for row in group], number_text)}"
            if not card.two_values:
                text += f", rho {range_text([row.rho for row in group], number_text)}"
            yield name, text
    yield "all annotators", f"Krippendorff's alpha {number_text(people.alpha)}"


def range_text(values: Sequence[float], text: Callable[[float], str]) -> str:
    """A figure as text; for several figures, the lowest and the highest."""
    numbers = sorted(value for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys(map(text, numbers[:1] + numbers[-1:]))) or "undefined"


def _name(name: str) -> str:
    """An annotator's name for a sentence; a number alone becomes "annotator 1"."""
    return f"annotator {name}" if name.isdecimal() else short_name(name)


def labels_text(data: DataCounts, unit: str) -> str:
    """The name of the labels, with the numbers of documents, systems and outputs or pairs."""
    systems = f"{counted(data.n_systems, 'system')}, " if data.n_systems else ""
    documents = counted(data.n_documents, "document")
    if data.weighted:
        documents += " (weighted; differences are unweighted)"
    number = counted(data.n_outputs, unit.removesuffix("s"))
    if unit == "outputs" and data.n_outputs == data.n_documents and not data.weighted:
        return f"{systems}{counted(data.n_outputs, 'row')} of {short_name(data.name, 40)}"
    return f"{documents}, {systems}{number} of {short_name(data.name, 40)}"
