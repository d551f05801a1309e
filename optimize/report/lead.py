"""The first screen of a page: whether to use the judge, three figures, the cost, the next step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimize.figures.as_text import cost_text, counted, figure_text, number_text, share_text
from optimize.items import DataCounts
from optimize.measuring.comparison import JudgeComparison
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report.next_steps import comparison_step, swap_step, verification_step
from optimize.report.sentences import COIN, RANKED, beats_constant
from optimize.report.verification import gate_lines
from optimize.statistics.intervals import Figure, Interval, IntervalEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure: the number, what it is of, and its interval in words."""

    number: str
    what: str
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The verdict first, then what tuning did, the figures, and what to do."""

    verdict: str
    sentences: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    lines: Sequence[str] = ()
    step: str = ""


def run_lead(result: TuningResult, step: str) -> Lead:
    """The first screen of a tuning run."""
    if not (result.test and result.card):
        unknown = "Do not use it yet: no labels were held out, so nobody knows if it agrees."
        return Lead(verdict=unknown, sentences=[tuning_sentence(result)], step=step)
    return Lead(
        verdict=verdict_on(result.card, result.data),
        sentences=[tuning_sentence(result)],
        tiles=tiles_of(result.card, result.test.untuned if result.shipped == "tuned" else None),
        lines=[_price_line(result), _measured_on(result.card, " that tuning did not see")],
        step=step,
    )


def verification_lead(result: Verification) -> Lead:
    """The first screen of a verification; with floors, whether they hold comes first."""
    use = verdict_on(result.card, result.data)
    held = {"holds": "It holds its floors.", "falls short": "It falls short of a floor."}
    gate, sentences = result.gate, gate_lines(result)
    if result.tuned_on_these_labels:
        use = "Do not use these figures: it was tuned on these labels, which flatters them."
    verdict = use
    if gate and gate.gate:
        verdict = held.get(gate.gate, "Undecided: these labels cannot tell if it holds its floors.")
        sentences = [*sentences, use]
    return Lead(
        verdict=verdict,
        sentences=sentences,
        tiles=tiles_of(result.card),
        lines=[_measured_on(result.card)],
        step=verification_step(result, has_page=True),
    )


def comparison_lead(result: JudgeComparison) -> Lead:
    """The first screen of a comparison: which judge to use, and the figures of the best."""
    best = result.judges[0]
    return Lead(
        verdict=comparison_step(result),
        sentences=[f"These figures are of {best.name}. {verdict_on(best.card, result.data)}"],
        tiles=tiles_of(best.card),
        lines=[_measured_on(best.card)],
    )


def swap_lead(result: SwapResult) -> Lead:
    """The first screen of a swap: the certificate, both judges' figures, and the difference."""
    gap, name = result.difference, result.comparison.figure_name
    words = ("the new judge's", "the old judge's")
    tiles = [
        figure_tile(judge.card.headline, f"{word} {name}: {judge.name}")
        for word, judge in zip(words, result.judges, strict=True)
    ]
    difference = Tile(
        number=number_text(gap.value, signed=True),
        what="the difference (90% interval)",
        interval=_ends(gap.interval),
    )
    return Lead(
        verdict=result.verdict,
        tiles=[*tiles, difference],
        lines=[_measured_on(result.comparison.card)],
        step=swap_step(result),
    )


def verdict_on(card: Scorecard, data: DataCounts) -> str:
    """Whether the judge is of use: better than a coin, and than always saying the same word."""
    share, two = card.beside_coin, card.two_values
    if data.is_constructed:
        return "Do not use it: its labels were made from known faults, not given by people."
    if not card.rho.n_outputs:
        return "Do not use it yet: it gave no score."
    if share.interval is None or math.isnan(share.value):
        return "Do not use it yet: these labels are too few, or too alike, to tell it from a coin."
    if share.interval.low <= COIN:
        return "Do not use it yet: it may agree with people no more than a coin."
    if two:
        own, always = two.judge.accuracy, two.constant.accuracy.value
        reach = f"agrees with people on {share_text(own.value)}, and always saying "
        reach += f"{two.constant_word} would on {share_text(always)}"
        if beats_constant(two):
            return f"Use it: it {reach}."
        return f"Do not use its verdicts yet: it {reach}. It may choose what people look at first."
    one = card.people.one_annotator if card.people else None
    does = "prefers the same side" if card.is_pairs else "orders outputs"
    verdict = f"Use it: it {does} as people do, clearly more often than a coin"
    if one and one.gap.interval:
        low, high = one.gap.interval.low, one.gap.interval.high
        how = "better than" if low > 0 else "not as well as" if high < 0 else "perhaps as well as"
        verdict += f", {how} one annotator"
    return f"{verdict}."


def tuning_sentence(result: TuningResult) -> str:
    """What tuning did by the gate, and which of test and gate decides where they disagree."""
    ships, test = result.shipped == "tuned", result.test
    did = "Tuning shows no gain that is sure and worth its price, so the untuned judge ships."
    if ships:
        did = "Tuning helped: by the gate, the tuned judge is better than the untuned one."
    if "--ship tuned" in result.why:
        did = "The tuned judge ships by --ship tuned; by the gate it shows no gain."
    if not test or math.isnan(test.objective_gain.value):
        return did
    gain = test.objective_gain
    low = gain.interval.low if gain.interval else -math.inf
    if gain.value >= 0 if ships else low <= 0:
        return did
    rho = test.tuned.rho
    n_test = rho.n_documents + rho.n_undefined
    return (
        f"{did} On test the difference is {figure_text(gain, signed=True)}: test is small "
        f"({counted(n_test, 'document')}), and the gate over the other "
        f"{result.data.n_documents - n_test:,} decides."
    )


def tiles_of(card: Scorecard, untuned: Scorecard | None = None) -> list[Tile]:
    """Three figures at most; those that do not exist are left out."""
    rho, people = card.rho, card.people
    if two := card.two_values:
        judge, always = two.judge, two.constant.accuracy
        counts, word = judge.confusion, two.constant_word
        beside = f"always saying {word} reaches {share_text(always.value)}"
        if people and (equal := sorted(row.equal for row in people.among_annotators)):
            ends = dict.fromkeys(map(share_text, (equal[0], equal[-1])))
            beside = f"two annotators agree on {' to '.join(ends)}"
        passes = judge.tpr.interval
        alarms = passes and Interval(1 - passes.high, 1 - passes.low)
        caught = f"of fails caught; it misses {counts['fail_pass']:,} of {judge.tnr.n:,}"
        failed = f"it fails {counts['pass_fail']:,} of {counted(judge.tpr.n, 'pass')}"
        figures: list[tuple[Figure, str]] = [
            (judge.tnr, caught),
            (IntervalEstimate(1 - judge.tpr.value, alarms), f"false alarms; {failed}"),
            (judge.accuracy, f"agreement with people; {beside}"),
        ]
        return [figure_tile(figure, what, share=True) for figure, what in figures]
    if card.pairs:
        what, same = "of pairs decided as people do", share_text(card.pairs.order_agreement)
        second = Tile(number=same, what="of pairs with the same answer in both orders")
    else:
        pairs = "pairs of outputs" if rho.level == "dataset" else "pairs of one document's outputs"
        what, ranked = f"of {pairs} ordered as people do", RANKED[rho.level]
        second = figure_tile(rho, f"rho: 1 is people's ranking of {ranked}, 0 chance")
    tiles = [figure_tile(card.order, f"{what}; a coin reaches 50%", share=True), second]
    if one := people.one_annotator if people else None:
        own = number_text(one.judge.value)
        what = f"one annotator's rho with the others; the judge's is {own}"
        tiles.append(figure_tile(one.annotator, what))
    elif untuned:
        figure = untuned.headline
        tiles.append(figure_tile(figure, "the same of the untuned judge", share=untuned.is_pairs))
    return [tile for tile in tiles if tile.number != "undefined"]


def figure_tile(figure: Figure, what: str, *, share: bool = False) -> Tile:
    """A figure and its interval."""
    number = share_text(figure.value) if share else number_text(figure.value)
    return Tile(number=number, what=what, interval=_ends(figure.interval, share=share))


def _ends(interval: Interval | None, *, share: bool = False) -> str:
    if interval is None:
        return "too few for an interval"
    text = share_text if share else number_text
    return f"{text(interval.low)} to {text(interval.high)}"


def _measured_on(card: Scorecard, unseen: str = "") -> str:
    """How much the figures rest on."""
    rho, unit = card.rho, card.unit.removesuffix("s")
    n_documents = card.two_values.judge.n_documents if card.two_values else rho.n_documents
    failed = f" {counted(rho.n_failed, unit)} got no score." if rho.n_failed else ""
    amount = f"{counted(rho.n_outputs, unit)} of {counted(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount = counted(n_documents, "pair" if card.is_pairs else "row")
    return f"Measured on {amount}{unseen}; intervals are 95%.{failed}"


def _price_line(result: TuningResult) -> str:
    """What 1,000 rows cost with the judge that ships, beside the untuned one."""
    if not (costs := result.cost_per_1000_rows):
        return f"1,000 rows: {cost_text(0 if result.cost_usd == 0 else None)}."
    own, untuned = costs[f"{result.shipped}_judge"], costs["seed_judge"]
    line = f"1,000 rows cost {cost_text(own)}"
    if result.shipped == "tuned" and untuned:
        line += f"; with the untuned judge {cost_text(untuned)} ({own / untuned:.1f} times)"
    return f"{line}."
