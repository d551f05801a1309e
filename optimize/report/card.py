"""One judge's scorecard in words: whether to use the judge, and its figures."""

import math
from collections.abc import Callable, Iterator, Sequence

from optimize.figures.as_text import counted, figure_text, number_text, share_text, short_name
from optimize.items import DataCounts
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.scorecard import Scorecard, TwoValueFigures
from optimize.measuring.verification import Verification
from optimize.report.answer import Tile, Titled

# The share of pairs that tossing a coin orders as people do.
COIN = 0.5
# The heads of tables of two values.
RATES = ("TPR", "TNR", "kappa")


def verdict_on(card: Scorecard, data: DataCounts) -> str:
    """Whether the judge is of use: better than a coin, and than always saying the same word."""
    interval, two = card.beside_coin.interval, card.two_values
    if data.is_constructed:
        return "Do not use it: its labels were made from known faults, not given by people."
    if not card.rho.n_outputs:
        return "Do not use it yet: it gave no score."
    if interval is None or math.isnan(card.beside_coin.value):
        return "Do not use it yet: these labels are too few, or too alike, to tell it from a coin."
    if interval.low <= COIN:
        return "Do not use it yet: it may agree with people no more than a coin."
    if two:
        own, always = share_text(two.judge.accuracy.value), share_text(two.constant.accuracy.value)
        agrees = f"agrees with people on {own}, and always saying {two.constant_word} would on"
        if beats_constant(two):
            return f"Use it: it {agrees} {always}."
        return (
            f"Do not use its verdicts yet: it {agrees} {always}. It may choose what people look at "
            "first."
        )
    one = card.people.one_annotator if card.people else None
    if one and (gap := one.gap.interval):
        how = "better than" if gap.low > 0 else "not as well as" if gap.high < 0 else ""
        beside = f"{how or 'perhaps as well as'} one annotator"
        return f"Use it: it orders outputs better than a coin, {beside}."
    does = "prefers the same side" if card.is_pairs else "orders outputs"
    return f"Use it: it {does} as people do, clearly more often than a coin."


def beats_constant(card: TwoValueFigures) -> bool:
    """Whether the judge clearly agrees with people more often than always saying one word."""
    own = card.judge.accuracy.interval
    return own is not None and own.low > card.constant.accuracy.value


def is_useful(card: Scorecard) -> bool:
    """Whether the judge clearly beats a coin, and a constant judge."""
    interval = card.beside_coin.interval
    if interval is None or interval.low <= COIN:
        return False
    return not card.two_values or beats_constant(card.two_values)


def tiles_of(card: Scorecard) -> list[Tile]:
    """Three figures at most; those that do not exist are left out."""
    tiles = _rate_tiles(card, card.two_values) if card.two_values else _rank_tiles(card)
    return [tile for tile in tiles if tile.number != "undefined"]


def _rank_tiles(card: Scorecard) -> Iterator[Tile]:
    """Yield the share of pairs, rho, and the agreement of both orders or of one annotator."""
    rho, pairs, coin = card.rho, card.pairs, "a coin reaches 50%"
    what = f"Pairs{'' if rho.level == 'dataset' else ' of a document'} ordered as people do"
    if pairs:
        what, coin = "Pairs decided as people do", f"n={pairs.n_decided:,}; {coin}"
    yield Tile.of(what, card.order, coin, share=True)
    published = ""
    if rho.n_zero and (others := card.correlations[1:]):
        published = f"; most papers would print {number_text(others[0].value)}"
    beside = f"1 is people's ranking, 0 chance{published}"
    yield Tile.of(f"{rho.level.capitalize()}-level rho", rho, beside)
    if pairs:
        yield Tile(what="Same answer in both orders", number=share_text(pairs.order_agreement))
    elif card.people and (one := card.people.one_annotator):
        beside = f"the judge's: {number_text(one.judge.value)}"
        yield Tile.of("One annotator's rho with others", one.annotator, beside)


def _rate_tiles(card: Scorecard, two: TwoValueFigures) -> Iterator[Tile]:
    """Yield how many fails are caught, how many passes are let through, and the agreement."""
    judge, counts = two.judge, two.judge.confusion
    misses = f"it misses {counts['fail_pass']:,} of {counted(judge.tnr.n, 'fail')}"
    yield Tile.of("Fails caught (TNR)", judge.tnr, misses, share=True)
    alarms = f"it fails {counts['pass_fail']:,} of {counted(judge.tpr.n, 'pass')}"
    yield Tile.of("False alarms (1 - TPR)", judge.tpr.complement, alarms, share=True)
    beside = f"always {two.constant_word}: {share_text(two.constant.accuracy.value)}"
    if card.people and (pairs := card.people.among_annotators):
        equal = span_text([row.equal for row in pairs], share_text)
        beside = f"two annotators agree on {equal}"
    beside += f"; kappa {figure_text(judge.kappa)}"
    yield Tile.of("Agreement", judge.accuracy, beside, share=True)


def measured(card: Scorecard, data: DataCounts, unseen: str = "") -> str:
    """How much the figures rest on."""
    rho, two, unit = card.rho, card.two_values, card.unit.removesuffix("s")
    n_documents = two.judge.n_documents if two else rho.n_documents
    amount = f"{counted(rho.n_outputs, unit)} of {counted(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount = counted(n_documents, "pair" if card.is_pairs else "row")
    weighted = ", drawn with unequal chances" if data.weighted else ""
    is_sure = any(figure.interval for figure in (two.rates if two else (rho, card.order)))
    intervals = "intervals are 95%" if is_sure else "too few for an interval"
    text = f"Measured on {amount}{unseen}{weighted}; {intervals}"
    if rho.n_undefined and not two:
        zero = f", {rho.n_zero:,} of which count 0" if rho.n_zero else ""
        text += f". Rho is undefined on {counted(rho.n_undefined, 'document')}{zero}"
    return f"{text}. {counted(rho.n_failed, unit)} got no score." if rho.n_failed else f"{text}."


def card_facts(card: Scorecard) -> Iterator[Titled]:
    """Yield how many pass, by people and by the judge; that scores are not people's ratings."""
    two, scales = card.two_values, card.scales
    if two:
        rates = (two.judge.base_rate, two.judge.judge_rate)
        people, judge = (share_text(rate.value) for rate in rates)
        yield "Rates", f"People pass {people}, the judge {judge}."
    elif scales and scales.is_shifted:
        means = f"{scales.judge_mean:.2f}, the labels' {scales.human_mean:.2f}"
        yield "Scores", f"Their mean is {means}: only their order is measured."


def tuned_on(judge: ComparedJudge | Verification, unit: str, name: str = "It") -> Iterator[Titled]:
    """Yield on how much of what is measured, and of what is set apart, a judge was tuned."""
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


def people_facts(card: Scorecard | None, most: float = math.inf) -> Iterator[Titled]:
    """Yield the judge beside annotators, and these; more than `most` pairs of them in one line."""
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
            text = f"equal labels {span_text([row.equal for row in group], share_text)}"
            # Ranges of three figures take two lines.
            if card.two_values or len(group) == 1:
                text += f", kappa {span_text([row.kappa for row in group], number_text)}"
            if not card.two_values:
                text += f", rho {span_text([row.rho for row in group], number_text)}"
            yield name, text
    yield "all annotators", f"Krippendorff's alpha {number_text(people.alpha)}"


def span_text(values: Sequence[float], text: Callable[[float], str]) -> str:
    """A figure, of several the lowest and the highest."""
    numbers = sorted(value for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys(map(text, numbers[:1] + numbers[-1:]))) or "undefined"


def _name(name: str) -> str:
    """An annotator's name, which may be a number alone."""
    return f"annotator {name}" if name.isdecimal() else short_name(name)


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
