"""One judge's scorecard in sentences: whether to use it, its figures, floors and labels to add."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from judges.tables.problems import count_text
from optimize.figures.as_text import figure_text, number_text, share_text, short_name
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard, VerdictFigures
from optimize.measuring.scored import TuningOverlap
from optimize.measuring.verification import floor_flags
from optimize.report.answer import Fact, Tile
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    MIN_PERFECT,
    IntervalEstimate,
)
from optimize.statistics.verdict_rates import MIN_DOCUMENTS_FOR_RATES, MIN_OUTPUTS_FOR_RATES

# A smaller share of tied pairs is not mentioned.
MIN_TIE_SHARE = 0.01
# The share of pairs that a coin orders as people do.
COIN_SHARE = 0.5
# The names of the columns in tables on judges of pass or fail.
RATE_COLUMNS = ("TPR", "TNR", "kappa")
# A step asks for more labels if half of the interval's width is larger than this.
WIDE_HALF_WIDTH = 0.10
LABEL_MORE = "Label more documents."
# A judge that is checked again and again passes by chance in the end, unless --looks allows for it.
LOOKS_ADVICE = "add --looks 2 then, or as many looks as you plan"
# A sentence for each outcome of a judge's floors.
FLOOR_SENTENCES = {
    "holds": "It holds its floors.",
    "falls short": "It falls short of what is required.",
    "undecided": "Undecided: these labels cannot tell if it holds its floors.",
}


class Obstacle(NamedTuple):
    """A reason not to use a judge, and the remedy, unless the remedy is to label more."""

    refusal: str
    remedy: str = ""


NO_SCORE = Obstacle(
    "Do not use it yet: it gave no score.",
    "Fix the failures: --report FILE.html lists the reasons.",
)
MOST_FAILED = Obstacle(
    "Do not use it yet: more than half of its judgements failed.", NO_SCORE.remedy
)
CONSTRUCTED_LABELS = Obstacle(
    "Do not use it: its labels were constructed, not given by people.",
    "Measure it on labels of your own (--data FILE).",
)
TUNED_ON_THESE_LABELS = Obstacle(
    "Do not use these figures: the judge was tuned on these labels, so they are too good.",
    "Measure it on labels that it was not tuned on (--data FILE).",
)
NO_INTERVAL = Obstacle(
    "Do not use it yet: labels are too few or too alike to show that it beats a coin."
)
NO_BETTER_THAN_COIN = Obstacle("Do not use it yet: it may be no better than a coin.")
OPPOSITE = Obstacle(
    "Do not use it: its scores and the labels run in opposite directions.",
    "If a low label is the best, reverse the labels by --values (1=5,2=4,4=2,5=1 or yes=0,no=1), "
    "else reverse the scores; more labels would not help.",
)
SAME_SCORES = Obstacle(
    "Do not use it: outputs that people order all get the same score.",
    "Read some of its replies, then change its prompt or model; more labels would not help.",
)


def is_perfect(card: Scorecard) -> bool:
    """Return whether a judge makes no error on documents that are enough for an interval."""
    share, order = card.share_right, card.pairwise_accuracy
    return share.value >= MIN_PERFECT and order.n_documents >= MIN_DOCUMENTS_FOR_INTERVAL


def obstacle_to_use(
    card: Scorecard, data: DataCounts, *, tuned_on_these: bool = False
) -> Obstacle | None:
    """Return the first reason not to use a judge; None if there is none.

    A judge that passes or fails must be clearly better than always giving the commoner verdict.
    """
    interval, rho, binary = card.share_right.interval, card.rho.interval, card.verdict_figures
    shows_rho = not (binary or card.is_pairwise)
    obstacles = (
        (NO_SCORE, not card.rho.n_outputs),
        (MOST_FAILED, card.rho.n_failed > card.rho.n_outputs),
        (CONSTRUCTED_LABELS, data.is_constructed),
        (TUNED_ON_THESE_LABELS, tuned_on_these),
        (SAME_SCORES, card.has_same_scores),
        (NO_INTERVAL, interval is None and not is_perfect(card)),
        (OPPOSITE, interval is not None and interval.high < COIN_SHARE),
        (NO_BETTER_THAN_COIN, interval is not None and interval.low <= COIN_SHARE),
        # A coin's rho is 0.
        (NO_BETTER_THAN_COIN, shows_rho and rho is not None and rho.low <= 0),
    )
    for obstacle, applies in obstacles:
        if applies:
            return obstacle
    if not binary:
        return None
    accuracy, constant = binary.judge.accuracy, binary.constant_judge.accuracy.value
    if accuracy.interval and accuracy.interval.low > constant:
        return None
    is_worse = accuracy.interval is not None and accuracy.interval.high < constant
    return Obstacle(
        f"Do not use its verdicts yet: it agrees with people on {share_text(accuracy.value)}; "
        f"always saying {binary.constant_verdict} would agree on {share_text(constant)}.",
        "It needs another prompt or model; more labels would not help." if is_worse else "",
    )


def recommendation(card: Scorecard, obstacle: Obstacle | None, floors: str | None = None) -> str:
    """Return a sentence on whether to use the judge; `floors` is the outcome for its floors.

    Only a judge that holds its floors is recommended. For any other judge the figures are given.
    """
    binary = card.verdict_figures
    strength, weakness = _verdict_quality(binary) if binary else _rank_quality(card)
    if floors == "holds" and not obstacle:
        return f"Use it: it holds its floors{weakness}."
    sentence = obstacle.refusal if obstacle else f"{strength}{weakness}."
    if not floors:
        return sentence
    return f"{FLOOR_SENTENCES[floors]} {sentence}" if obstacle else FLOOR_SENTENCES[floors]


def _verdict_quality(binary: VerdictFigures) -> tuple[str, str]:
    """Return what a judge of pass or fail does well, and the larger of its two kinds of errors."""
    misses, alarms = 1 - binary.judge.tnr.value, 1 - binary.judge.tpr.value
    error = f"misses {share_text(misses)} of the fails"
    if alarms > misses:
        error = f"fails {share_text(alarms)} of the passes"
    conjunction = "but" if max(misses, alarms) else "and"
    strength = f"It is better than always saying {binary.constant_verdict}"
    return strength, f", {conjunction} it {error}"


def _rank_quality(card: Scorecard) -> tuple[str, str]:
    """Return how well a judge orders outputs or pairs, and how it compares with one annotator."""
    if card.is_pairwise:
        pairs = Tile("Pairs decided as people do", card.share_right, is_share=True)
        return f"It decides {pairs.figure_text} of pairs as people do, more than a coin's 50%", ""
    comparison, annotator = "", card.people_figures.one_annotator if card.people_figures else None
    if annotator and (gap := annotator.rho_difference.interval):
        comparison = ", and perhaps orders outputs as well as one annotator"
        if gap.high < 0:
            comparison = ", but orders outputs worse than one annotator"
        elif gap.low > 0:
            comparison = ", and orders outputs better than one annotator"
    rho = Tile(f"{card.rho.level.capitalize()}-level rho", card.rho)
    return f"{rho.title} is {rho.figure_text}: it beats a coin", comparison


def tiles_of(card: Scorecard) -> list[Tile]:
    """Return at most three tiles on a judge; undefined figures are left out."""
    tiles = _rate_tiles(card, card.verdict_figures) if card.verdict_figures else _rank_tiles(card)
    return [tile for tile in tiles if not math.isnan(tile.figure.value)]


def _rank_tiles(card: Scorecard) -> Iterator[Tile]:
    """Yield tiles: pairs ordered as people do, rho, and one annotator's rho or order agreement."""
    rho, pairs, coin_note = card.rho, card.pair_figures, "a coin reaches 50%"
    if (tie_share := card.tie_share) and tie_share >= MIN_TIE_SHARE:
        coin_note = f"{share_text(tie_share)} tied, which count half; {coin_note}"
    title = f"Pairs{'' if rho.level == 'dataset' else ' of a document'} ordered as people do"
    if pairs:
        title, coin_note = "Pairs decided as people do", f"n={pairs.n_decided:,}; {coin_note}"
    yield Tile(title, card.pairwise_accuracy, coin_note, is_share=True)
    published_note = ""
    if rho.n_zero and (further_correlations := card.correlations[1:]):
        published_note = f"; most papers would print {number_text(further_correlations[0].value)}"
    note = f"1 is people's ranking, 0 chance{published_note}"
    yield Tile(f"{rho.level.capitalize()}-level rho", rho, note)
    if pairs:
        order_agreement = IntervalEstimate(pairs.order_agreement, None)
        yield Tile("Same answer in both orders", order_agreement, is_share=True)
    elif card.people_figures and (annotator := card.people_figures.one_annotator):
        note = f"the judge's: {number_text(annotator.judge_rho.value)}"
        if annotator.n_outputs < rho.n_outputs:  # only some were rated by two people or more
            note += f"; n={annotator.n_outputs:,}"
        yield Tile("One annotator's rho with others", annotator.annotator_rho, note)


def _rate_tiles(card: Scorecard, binary: VerdictFigures) -> Iterator[Tile]:
    """Yield tiles: the share of fails caught, the share of false alarms, and the accuracy."""
    judge, counts = binary.judge, binary.judge.confusion
    misses_note = f"it misses {counts['fail_pass']:,} of {count_text(judge.tnr.n, 'fail')}"
    yield Tile("Fails caught (TNR)", judge.tnr, misses_note, is_share=True)
    alarms_note = f"it fails {counts['pass_fail']:,} of {count_text(judge.tpr.n, 'pass')}"
    yield Tile("False alarms (1 - TPR)", judge.tpr.complement, alarms_note, is_share=True)
    note = f"always {binary.constant_verdict}: {share_text(binary.constant_judge.accuracy.value)}"
    pairs = card.people_figures.among_annotators if card.people_figures else []
    if shares := sorted(row.equal for row in pairs if row.n_outputs):
        equal_text = " to ".join(dict.fromkeys(map(share_text, (shares[0], shares[-1]))))
        note = f"two annotators agree on {equal_text}"
    note += f"; kappa {figure_text(judge.kappa)}"
    yield Tile("Agreement", judge.accuracy, note, is_share=True)


def measured_sentence(card: Scorecard, data: DataCounts, remark: str = "") -> str:
    """Return a sentence with the numbers of outputs and documents that the figures rest on."""
    rho, binary, unit = card.rho, card.verdict_figures, card.unit
    n_documents = binary.judge.n_documents if binary else rho.n_documents
    amount_text = f"{count_text(rho.n_outputs, unit)} of {count_text(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount_text = count_text(n_documents, "pair" if card.is_pairwise else "row")
    weighted_text = ", drawn with unequal chances" if data.is_weighted else ""
    has_interval = any(tile.interval_text for tile in tiles_of(card))
    interval_text = "intervals are 95%" if has_interval else "too few for an interval"
    if is_perfect(card) and not has_interval:
        interval_text = "without an error there is no interval"
    sentences = [f"Measured on {amount_text}{remark}{weighted_text}; {interval_text}."]
    if rho.n_undefined and not binary:
        zero_text = f" ({rho.n_zero:,} counted as 0)" if rho.n_zero else ""
        documents = count_text(rho.n_undefined, "document")
        sentences.append(f"Rho is undefined on {documents}{zero_text}.")
    if rho.n_failed:
        sentences.append(f"{count_text(rho.n_failed, unit)} got no score.")
    return " ".join(sentences)


def rate_facts(card: Scorecard) -> Iterator[Fact]:
    """Yield people's and the judge's share of passes."""
    if binary := card.verdict_figures:
        rates = (binary.judge.base_rate, binary.judge.judge_rate)
        people, judge = (share_text(rate.value) for rate in rates)
        yield "Rates", f"People pass {people}, the judge {judge}."


def scale_facts(card: Scorecard) -> Iterator[Fact]:
    """Yield people's and the judge's mean rating if they differ."""
    if not card.verdict_figures and (scales := card.scale_comparison) and scales.is_shifted:
        means = f"{scales.judge_mean:.2f}, the labels' mean {scales.human_mean:.2f}"
        yield "Scores", f"Their mean is {means}. The figures compare only how outputs are ordered."


def tuning_warnings(overlap: TuningOverlap, unit: str, name: str = "It") -> Iterator[Fact]:
    """Yield warnings if the judge was tuned on some of these labels or on their documents."""
    n_rows, n_document_rows = overlap.n_rows, overlap.n_document_rows
    if overlap.tuned_on_these_labels:
        yield (
            "Warning",
            f"{name} was tuned on {n_rows:,} of these {unit}s, which flatters it.",
        )
    elif n_rows:
        yield "Warning", f"{name} was tuned on {n_rows:,} further {unit}s; these are not measured."
    if n_document_rows:
        yield (
            "Warning",
            f"{name} was tuned on documents of {n_document_rows:,} of these {unit}s, which may "
            "flatter it.",
        )


def order_facts(card: Scorecard) -> Iterator[Fact]:
    """Yield a pairwise judge's accuracy in either order of the outputs."""
    if pairs := card.pair_figures:
        shares = map(share_text, (pairs.accuracy_order_ab, pairs.accuracy_order_ba))
        yield "accuracy in one order", "{} with A first, {} with B first".format(*shares)


def unweighted_sentence(data: DataCounts) -> str:
    """Return a sentence on the coefficients that are left out for weighted labels, or ""."""
    names = [each.symbol or name for name, each in COEFFICIENTS.items() if not each.of_weighted]
    if not (data.is_weighted and names):
        return ""
    return f"Left out at dataset level: {', '.join(names)} (no weighted form)."


def annotator_facts(card: Scorecard | None, n_tied: int) -> Iterator[Fact]:
    """Yield the agreement of judge and annotators, or why `n_tied` outputs do not allow figures."""
    if n_tied:
        yield (
            "annotators",
            f"not compared, because {count_text(n_tied, 'output')} on which they are tied are left "
            "out, and on the rest they agree too well; dspy-judges check compares them on all",
        )
    if not (card and (people := card.people_figures)):
        return
    for row in people.agreement:
        text = f"equal labels {share_text(row.equal)}, kappa {number_text(row.kappa)}"
        if not card.verdict_figures:
            text += f", rho {number_text(row.rho)}"
        names = (
            f"annotator {name}" if name.isdecimal() else short_name(name)
            for name in people.names_of(row)
        )
        yield " and ".join(names), text
    yield "all annotators", f"Krippendorff's alpha {number_text(people.alpha)}"


def labels_text(data: DataCounts, unit: str) -> str:
    """Return the labels' name and how many documents, systems and outputs (or pairs) they cover."""
    systems = f"{count_text(data.n_systems, 'system')}, " if data.n_systems else ""
    documents = count_text(data.n_documents, "document")
    if data.is_weighted:
        documents += " (weighted; differences are unweighted)"
    number = count_text(data.n_outputs, unit)
    if unit == "output" and data.n_outputs == data.n_documents and not data.is_weighted:
        return f"{systems}{count_text(data.n_outputs, 'row')} of {short_name(data.name, 40)}"
    return f"{documents}, {systems}{number} of {short_name(data.name, 40)}"


def floors_advice(card: Scorecard, command: str = "") -> str:
    """Return which floors suit CI, and how to set them (in `command`, if there is one)."""
    floors = "--min-tpr X --min-tnr X" if card.verdict_figures else "--min-spearman X"
    floors = f"`{command} {floors}`" if command else floors
    ci_advice = (
        "Labels are too few, or the judge is too weak, for a floor in CI with a safe margin: use "
        "`--against`."
    )
    if flags := floor_flags(card.verdict_figures.judge if card.verdict_figures else card.rho):
        ci_advice = f"For CI: `{flags}` (an equally good judge passes 9 of 10 times)."
    return f"Give the floors that it must hold: {floors}. {ci_advice}"


def labels_advice(card: Scorecard, where: str) -> str:
    """Return which labels to add for an interval or a narrower interval; "" if none are needed."""
    binary, figure = card.verdict_figures, card.share_right
    n_documents = card.pairwise_accuracy.n_documents
    if binary:
        n_documents = binary.judge.n_documents
        need_text = (
            f"it needs {MIN_OUTPUTS_FOR_RATES} {where}, from {MIN_DOCUMENTS_FOR_RATES} documents"
        )
        sentences = [
            f"Label {count_text(n_missing, f'more {label}')} for an interval: {need_text}."
            for label, n_missing in binary.judge.n_missing_labels.items()
            if n_missing
        ]
        if sentences:
            return " ".join(sentences)
    documents_text = count_text(n_documents, "document")
    if figure.interval is None and not is_perfect(card):
        return f"Label more documents: too few for an interval ({documents_text}), or too alike."
    interval = figure.interval
    if interval and figure.value < MIN_PERFECT and interval.half_width > WIDE_HALF_WIDTH:
        return f"Label more documents: with {documents_text} the interval is still wide."
    return ""
