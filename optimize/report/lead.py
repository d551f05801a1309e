"""The first screen of a page: whether to use the judge, three figures, the cost, the next step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimize.figures.as_text import (
    TOO_FEW,
    cost_text,
    counted,
    figure_text,
    number_text,
    share_text,
)
from optimize.items import DataCounts
from optimize.measuring.comparison import JudgeComparison
from optimize.measuring.scorecard import PeopleFigures, Scorecard, TwoValueFigures
from optimize.measuring.swap import SwapResult
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report.next_steps import comparison_step, swap_step, verification_step
from optimize.report.sentences import COIN, RANKED, beats_constant
from optimize.report.verification import gate_lines, span_text
from optimize.statistics.intervals import Figure, Interval, IntervalEstimate

GATES = {
    "holds": "It holds its floors.",
    "falls short": "It falls short of a floor.",
    "undecided": "Undecided: these labels cannot tell if it holds its floors.",
}


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
    verdict, sentences = verdict_on(result.card, result.data), gate_lines(result)
    if result.tuned_on_these_labels:
        verdict = "Do not use these figures: it was tuned on these labels, which flatters them."
    if result.gate and result.gate.gate:
        sentences.append(verdict)
        verdict = GATES[result.gate.gate]
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
    name = result.comparison.figure_name
    figures = [
        figure_tile(judge.card.headline, f"the {age} judge's {name}: {judge.name}")
        for age, judge in zip(("new", "old"), result.judges, strict=True)
    ]
    gap = figure_tile(result.difference, "the difference (90% interval)", signed=True)
    return Lead(
        verdict=result.verdict,
        tiles=[*figures, gap],
        lines=[_measured_on(result.comparison.card)],
        step=swap_step(result),
    )


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
    does, beside = "prefers the same side" if card.is_pairs else "orders outputs", ""
    one = card.people.one_annotator if card.people else None
    if one and (gap := one.gap.interval):
        how = "better than" if gap.low > 0 else "not as well as" if gap.high < 0 else ""
        beside = f", {how or 'perhaps as well as'} one annotator"
    return f"Use it: it {does} as people do, clearly more often than a coin{beside}."


def tuning_sentence(result: TuningResult) -> str:
    """What tuning did by the gate, and which of test and gate decides where they disagree."""
    is_tuned, test = result.shipped == "tuned", result.test
    did = "Tuning shows no gain that is sure and worth its price, so the untuned judge ships."
    if "--ship tuned" in result.why:
        did = "The tuned judge ships by --ship tuned; by the gate it shows no gain."
    elif is_tuned:
        did = "Tuning helped: by the gate, the tuned judge is better than the untuned one."
    gain = test.objective_gain if test else None
    if not test or not gain or math.isnan(gain.value):
        return did
    is_clear = gain.interval is not None and gain.interval.low > 0
    if gain.value >= 0 if is_tuned else not is_clear:
        return did
    n_test = test.tuned.rho.n_documents + test.tuned.rho.n_undefined
    return (
        f"{did} On test the difference is {figure_text(gain, signed=True)}: test is small "
        f"({counted(n_test, 'document')}), and the gate over the other "
        f"{result.data.n_documents - n_test:,} decides."
    )


def tiles_of(card: Scorecard, untuned: Scorecard | None = None) -> list[Tile]:
    """Three figures at most; those that do not exist are left out."""
    if card.two_values:
        return _rate_tiles(card.two_values, card.people)
    rho, one = card.rho, card.people.one_annotator if card.people else None
    pairs = "pairs of outputs" if rho.level == "dataset" else "pairs of one document's outputs"
    what = f"of {'pairs decided' if card.pairs else f'{pairs} ordered'} as people do"
    tiles = [figure_tile(card.order, f"{what}; a coin reaches 50%", share=True)]
    if card.pairs:
        same = share_text(card.pairs.order_agreement)
        tiles.append(Tile(number=same, what="of pairs with the same answer in both orders"))
    else:
        ranking = f"people's ranking of {RANKED[rho.level]}"
        tiles.append(figure_tile(rho, f"rho: 1 is {ranking}, 0 chance"))
    if one:
        own = number_text(one.judge.value)
        what = f"one annotator's rho with the others; the judge's is {own}"
        tiles.append(figure_tile(one.annotator, what))
    elif untuned:
        what = "the same of the untuned judge"
        tiles.append(figure_tile(untuned.headline, what, share=untuned.is_pairs))
    return [tile for tile in tiles if tile.number != "undefined"]


def _rate_tiles(card: TwoValueFigures, people: PeopleFigures | None) -> list[Tile]:
    """How many fails are caught, how many passes are false alarms, and the agreement."""
    judge, counts = card.judge, card.judge.confusion
    passes = judge.tpr.interval
    alarms = passes and Interval(1 - passes.high, 1 - passes.low)
    beside = (
        f"always saying {card.constant_word} reaches {share_text(card.constant.accuracy.value)}"
    )
    if people and people.among_annotators:
        equal = span_text([row.equal for row in people.among_annotators], share_text)
        beside = f"two annotators agree on {equal}"
    figures: list[tuple[Figure, str]] = [
        (judge.tnr, f"of fails caught; it misses {counts['fail_pass']:,} of {judge.tnr.n:,}"),
        (
            IntervalEstimate(1 - judge.tpr.value, alarms),
            f"false alarms; it fails {counts['pass_fail']:,} of {counted(judge.tpr.n, 'pass')}",
        ),
        (judge.accuracy, f"agreement with people; {beside}"),
    ]
    return [figure_tile(figure, what, share=True) for figure, what in figures]


def figure_tile(figure: Figure, what: str, *, share: bool = False, signed: bool = False) -> Tile:
    """A figure as a number or a share in percent, and its interval."""
    text = share_text if share else number_text
    number = number_text(figure.value, signed=True) if signed else text(figure.value)
    interval = TOO_FEW
    if figure.interval:
        interval = f"{text(figure.interval.low)} to {text(figure.interval.high)}"
    return Tile(number=number, what=what, interval=interval)


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
