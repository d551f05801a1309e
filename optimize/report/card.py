"""One judge's scorecard in sentences: whether to use it, its figures, floors and labels to add."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from judges.tables.problems import count_text
from optimize.figures.as_text import figure_text, number_text, share_text, short_name
from optimize.inputs.labelled import PASS_FAIL
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard, VerdictFigures
from optimize.measuring.scored import TuningOverlap
from optimize.report.answer import Fact, Tile
from optimize.report.capacity import labels_for_rates
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.floor import FloorOutcome, suggested_floors
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, MIN_PERFECT, IntervalEstimate

# The share of pairs to which the judge gives equal scores is printed if it is at least this.
MIN_TIE_SHARE = 0.01
# The share of pairs that a coin orders as people do.
COIN_SHARE = 0.5
# Column names of the tables on judges that pass or fail outputs.
RATE_COLUMNS = ("TPR", "TNR", "kappa")
# A reader is asked to label more if half of the width of an interval is larger than this.
WIDE_HALF_WIDTH = 0.10
LABEL_MORE = "Label more documents."
# A judge that is checked often passes by chance in the end, unless `--looks` widens its intervals.
LOOKS_ADVICE = "then verify again with --looks 2, or with as many looks as you plan"
# What to say for each outcome of checking a judge against its floors. A floor is the lowest TPR,
# TNR or rho that the user accepts (--min-tpr 0.8).
FLOOR_SENTENCES: dict[FloorOutcome | None, str] = {
    "holds": "It is above its floors.",
    "falls short": "It falls short of what is required.",
    "undecided": "Undecided: these labels cannot tell if it is above its floors.",
}
FIX_FAILURES = "Fix the failures: --report FILE.html lists the reasons."


class Obstacle(NamedTuple):
    """A reason not to use a judge, and its remedy, which is "" if the remedy is to label more."""

    refusal: str
    remedy: str = ""
    is_failure: bool = False  # the judge gave no score, or most of its judgements failed


# A judge that tosses a coin is right on half of the outputs and has a rho of 0.
NO_BETTER_THAN_COIN = Obstacle("Do not use it yet: it may be no better than a coin.")


def is_perfect(scorecard: Scorecard) -> bool:
    """Return whether a judge makes no error on as many documents as an interval would need."""
    n_documents = scorecard.pairwise_accuracy.n_documents
    return scorecard.share_right.value >= MIN_PERFECT and n_documents >= MIN_DOCUMENTS_FOR_INTERVAL


def obstacle_to_use(
    scorecard: Scorecard, label_counts: DataCounts, overlap: TuningOverlap | None = None
) -> Obstacle | None:
    """Return the most serious reason not to use a judge; None if there is no such reason."""
    is_tuned_on_labels = overlap is not None and overlap.tuned_on_these_labels
    return next(_obstacles(scorecard, label_counts, is_tuned_on_labels), None)


def _obstacles(
    scorecard: Scorecard, label_counts: DataCounts, is_tuned_on_labels: bool
) -> Iterator[Obstacle]:
    """Yield the reasons not to use a judge, the most serious first."""
    rho, interval = scorecard.rho, scorecard.share_right.interval
    if not rho.n_outputs:
        yield Obstacle("Do not use it yet: it gave no score.", FIX_FAILURES, is_failure=True)
    if rho.n_failed > rho.n_outputs:
        refusal = "Do not use it yet: more than half of its judgements failed."
        yield Obstacle(refusal, FIX_FAILURES, is_failure=True)
    if label_counts.is_constructed:
        refusal = "Do not use it: its labels were constructed, not given by people."
        yield Obstacle(refusal, "Measure it on labels of your own (--data FILE).")
    if is_tuned_on_labels:
        yield Obstacle(
            "Do not use these figures: the judge was tuned on these labels, so they are too good.",
            "Measure it on labels that it was not tuned on (--data FILE).",
        )
    if scorecard.has_same_scores:
        yield Obstacle(
            "Do not use it: outputs that people rank differently all get the same score.",
            "Read some replies of the judge, and change its prompt or model; more labels would not "
            "help.",
        )
    if interval is None:
        if not is_perfect(scorecard):
            refusal = "labels are too few or too alike to show that it beats a coin."
            yield Obstacle(f"Do not use it yet: {refusal}")
    elif interval.high < COIN_SHARE:
        yield Obstacle(
            "Do not use it: its scores and the labels run in opposite directions.",
            "If a low label is the best, reverse the labels by --values (1=5,2=4,4=2,5=1 or "
            "yes=0,no=1), else reverse the scores; more labels would not help.",
        )
    elif interval.low <= COIN_SHARE:
        yield NO_BETTER_THAN_COIN
    if scorecard.verdict_figures:
        yield from _obstacles_to_verdicts(scorecard.verdict_figures)
    elif not scorecard.is_pairwise and rho.interval and rho.interval.low <= 0:
        yield NO_BETTER_THAN_COIN


def _obstacles_to_verdicts(figures: VerdictFigures) -> Iterator[Obstacle]:
    """Yield an obstacle unless the judge clearly beats a judge that always gives one verdict."""
    agreement, constant_share = figures.judge.accuracy, figures.constant_judge.accuracy.value
    if agreement.interval and agreement.interval.low > constant_share:
        return
    refusal = (
        f"Do not use its verdicts yet: it agrees with people on {share_text(agreement.value)}; "
        f"always saying {figures.constant_verdict} would agree on {share_text(constant_share)}."
    )
    if agreement.value > constant_share:
        refusal += " The labels are too few to exclude luck."
    is_clearly_worse = agreement.interval and agreement.interval.high < constant_share
    remedy = "Change its prompt or model; more labels would not help." if is_clearly_worse else ""
    yield Obstacle(refusal, remedy)


def recommendation(
    scorecard: Scorecard, obstacle: Obstacle | None, floor_outcome: FloorOutcome | None = None
) -> str:
    """Return a sentence on whether to use the judge.

    `floor_outcome` is a key of `FLOOR_SENTENCES` if the user has set floors. Only a judge that is
    above its floors is recommended; without floors, the sentence says how good the judge is.
    """
    floor_sentence = FLOOR_SENTENCES.get(floor_outcome, "")
    if obstacle:
        return f"{floor_sentence} {obstacle.refusal}".strip()
    strength, weakness = _quality_texts(scorecard)
    if floor_outcome == "holds":
        return f"Use it: it is above its floors{weakness}."
    return floor_sentence or f"{strength}{weakness}."


def _quality_texts(scorecard: Scorecard) -> tuple[str, str]:
    """Return what a judge does well, and a clause on its errors or on people, which may be ""."""
    if figures := scorecard.verdict_figures:
        miss_share, alarm_share = 1 - figures.judge.tnr.value, 1 - figures.judge.tpr.value
        error_text = f"misses {share_text(miss_share)} of the fails"
        if alarm_share > miss_share:
            error_text = f"fails {share_text(alarm_share)} of the passes"
        conjunction = "but" if max(miss_share, alarm_share) else "and"
        strength = f"It is better than always saying {figures.constant_verdict}"
        return strength, f", {conjunction} it {error_text}"
    if scorecard.is_pairwise:
        accuracy_text = _pairs_tile(scorecard).figure_text
        return f"It decides {accuracy_text} of pairs as people do, more than a coin's 50%", ""
    rho_tile, people = _rho_tile(scorecard), scorecard.people_figures
    strength = f"{rho_tile.title} is {rho_tile.figure_text}: it beats a coin"
    gap = people.one_annotator.gap.interval if people and people.one_annotator else None
    if gap is None:
        return strength, ""
    if gap.high < 0:
        return strength, ", but orders outputs worse than one annotator"
    if gap.low > 0:
        return strength, ", and orders outputs better than one annotator"
    return strength, ", and perhaps orders outputs as well as one annotator"


def main_tiles(scorecard: Scorecard) -> list[Tile]:
    """Return at most three tiles with a judge's main figures; undefined figures are left out."""
    tiles = _rank_tiles(scorecard)
    if scorecard.verdict_figures:
        tiles = _verdict_tiles(scorecard, scorecard.verdict_figures)
    return [tile for tile in tiles if not math.isnan(tile.figure.value)]


def _rank_tiles(scorecard: Scorecard) -> Iterator[Tile]:
    people = scorecard.people_figures
    yield _pairs_tile(scorecard)
    yield _rho_tile(scorecard)
    if scorecard.pair_figures:
        same_answer_share = IntervalEstimate(scorecard.pair_figures.order_agreement, None)
        yield Tile("Same answer in both orders", same_answer_share, is_share=True)
    elif people and (one_annotator := people.one_annotator):
        note = f"the judge's: {number_text(one_annotator.judge.value)}"
        if one_annotator.n_outputs < scorecard.rho.n_outputs:  # others have one rating
            note += f"; n={one_annotator.n_outputs:,}"
        yield Tile("One annotator's rho with others", one_annotator.annotator, note)


def _pairs_tile(scorecard: Scorecard) -> Tile:
    note = "a coin reaches 50%"
    if (scorecard.tie_share or 0) >= MIN_TIE_SHARE:
        note = f"{share_text(scorecard.tie_share)} tied, which count half; {note}"
    title = "Pairs ordered as people do"
    if scorecard.pair_figures:
        title = "Pairs decided as people do"
        note = f"n={scorecard.pair_figures.n_decided:,}; {note}"
    elif scorecard.rho.level != "dataset":
        title = "Pairs of a document ordered as people do"
    return Tile(title, scorecard.pairwise_accuracy, note, is_share=True)


def _rho_tile(scorecard: Scorecard) -> Tile:
    note = "1 is people's ranking, 0 chance"
    if scorecard.rho.n_zero and scorecard.correlations[1:]:
        published_rho = number_text(scorecard.correlations[1].value)
        note += f"; most papers would print {published_rho}"
    return Tile(f"{scorecard.rho.level.capitalize()}-level rho", scorecard.rho, note)


def _verdict_tiles(scorecard: Scorecard, figures: VerdictFigures) -> Iterator[Tile]:
    judge, confusion = figures.judge, figures.judge.confusion
    misses_note = f"it misses {confusion['fail_pass']:,} of {count_text(judge.tnr.n, 'fail')}"
    yield Tile("Fails caught (TNR)", judge.tnr, misses_note, is_share=True)
    alarms_note = f"it fails {confusion['pass_fail']:,} of {count_text(judge.tpr.n, 'pass')}"
    yield Tile("False alarms (1 - TPR)", judge.tpr.complement, alarms_note, is_share=True)
    constant_share = share_text(figures.constant_judge.accuracy.value)
    note = f"always {figures.constant_verdict}: {constant_share}"
    people = scorecard.people_figures
    shares = [row.equal for row in people.agreement if row.first is not None] if people else []
    if shares:
        lowest, highest = share_text(min(shares)), share_text(max(shares))
        range_text = lowest if lowest == highest else f"{lowest} to {highest}"
        note = f"two annotators agree on {range_text}"
    note += f"; kappa {figure_text(judge.kappa)}"
    yield Tile("Agreement", judge.accuracy, note, is_share=True)


def measured_sentence(scorecard: Scorecard, label_counts: DataCounts, remark: str = "") -> str:
    """Return sentences on how many outputs and documents the figures were computed from."""
    rho, figures, unit = scorecard.rho, scorecard.verdict_figures, scorecard.unit
    n_documents = figures.judge.n_documents if figures else rho.n_documents
    amount_text = f"{count_text(rho.n_outputs, unit)} of {count_text(n_documents, 'document')}"
    if rho.n_outputs == n_documents:
        amount_text = count_text(n_documents, "pair" if scorecard.is_pairwise else "row")
    weighted_text = ", drawn with unequal chances" if label_counts.is_weighted else ""
    interval_text = "too few for an interval"
    if any(tile.interval_text for tile in main_tiles(scorecard)):
        interval_text = "intervals are 95%"
    elif is_perfect(scorecard):
        interval_text = "the judge makes no error, so there is no interval"
    sentences = [f"Measured on {amount_text}{remark}{weighted_text}; {interval_text}."]
    if rho.n_undefined and not figures:
        zero_text = f" ({rho.n_zero:,} counted as 0)" if rho.n_zero else ""
        undefined_text = count_text(rho.n_undefined, "document")
        sentences.append(f"Rho is undefined on {undefined_text}{zero_text}.")
    if rho.n_failed:
        sentences.append(f"{count_text(rho.n_failed, unit)} got no score.")
    return " ".join(sentences)


def rate_facts(scorecard: Scorecard) -> Iterator[Fact]:
    """Yield which shares of outputs people and the judge pass, for a judge of pass or fail."""
    if figures := scorecard.verdict_figures:
        people_rate = share_text(figures.judge.base_rate.value)
        judge_rate = share_text(figures.judge.judge_rate.value)
        yield "Rates", f"People pass {people_rate}, the judge {judge_rate}."


def scale_facts(scorecard: Scorecard) -> Iterator[Fact]:
    """Yield the judge's mean score and people's mean rating if the two clearly differ."""
    scales = scorecard.scale_comparison
    if scales and scales.is_shifted and not scorecard.verdict_figures:
        means = f"{scales.judge_mean:.2f}, the labels' mean {scales.human_mean:.2f}"
        yield "Scores", f"Their mean is {means}. The figures compare only how outputs are ordered."


def tuning_warnings(overlap: TuningOverlap, unit_noun: str, judge_name: str = "It") -> list[Fact]:
    """Return warnings if the judge was tuned on some of these labels or on their documents."""
    warnings = []
    if overlap.tuned_on_these_labels:
        warnings.append(f"{overlap.n_rows:,} of these {unit_noun}s, which flatters it.")
    elif overlap.n_rows:
        warnings.append(f"{overlap.n_rows:,} further {unit_noun}s; these are not measured.")
    if n_rows := overlap.n_document_rows:
        warnings.append(f"documents of {n_rows:,} of these {unit_noun}s, which may flatter it.")
    return [("Warning", f"{judge_name} was tuned on {warning}") for warning in warnings]


def correlation_lines(scorecard: Scorecard, n_systems: int) -> list[str]:
    """Return a line on every coefficient at every level; equal lines are returned once."""
    lines = []
    for rho in scorecard.correlations:
        zero_note = f" ({rho.n_zero:,} of them count 0)" if rho.n_zero else ""
        counts = [
            count_text(n_systems, "system") if rho.level == "system" else "",
            f"{rho.n_documents:,} documents",
            count_text(rho.n_outputs, scorecard.unit),
            f"{rho.n_undefined:,} undefined{zero_note}" if rho.n_undefined else "",
            f"{rho.n_failed:,} failed" if rho.n_failed else "",
        ]
        counts_text = ", ".join(filter(None, counts))
        lines.append(f"{rho.level}-level {rho.symbol} {figure_text(rho)}, n={counts_text}")
    return [*dict.fromkeys(lines)]


def unweighted_sentence(label_counts: DataCounts) -> str:
    """Return which coefficients have no weighted form, or "" if the labels are not weighted."""
    if not label_counts.is_weighted:
        return ""
    coefficient_names = [name for name in COEFFICIENTS if not COEFFICIENTS[name].of_weighted]
    symbols = ", ".join(COEFFICIENTS[name].symbol or name for name in coefficient_names)
    return f"Left out at dataset level: {symbols} (no weighted form)."


def annotator_facts(scorecard: Scorecard | None, n_tied: int) -> Iterator[Fact]:
    """Yield how well the judge and the annotators agree, or why this is not known."""
    if n_tied:
        yield (
            "annotators",
            f"not compared: {count_text(n_tied, 'output')} on which annotators are tied are left "
            "out, so annotators would seem to agree better than they do; dspy-judges check "
            "compares annotators on all outputs",
        )
    if not (scorecard and (people := scorecard.people_figures)):
        return
    for row in people.agreement:
        sentence, kappa = f"equal labels {share_text(row.equal)}", number_text(row.kappa)
        if scorecard.verdict_figures:
            sentence += f", kappa {kappa}"
        else:
            sentence += f", weighted kappa {kappa}, rho {number_text(row.rho)}"
        names = people.names_of(row)
        titles = (f"annotator {name}" if name.isdecimal() else short_name(name) for name in names)
        yield " and ".join(titles), sentence
    yield "all annotators", f"Krippendorff's alpha {number_text(people.alpha)}"


def labels_text(label_counts: DataCounts, unit_noun: str) -> str:
    """Return the labels' name and how many documents, systems and outputs (or pairs) they cover."""
    n_systems, n_outputs = label_counts.n_systems, label_counts.n_outputs
    documents_text = count_text(label_counts.n_documents, "document")
    systems_text = count_text(n_systems, "system") if n_systems else ""
    if label_counts.is_weighted:
        documents_text += " (weighted; differences are unweighted)"
    elif unit_noun == "output" and n_outputs == label_counts.n_documents:
        documents_text, unit_noun = "", "row"
    amount_texts = filter(None, (documents_text, systems_text, count_text(n_outputs, unit_noun)))
    return f"{', '.join(amount_texts)} of {short_name(label_counts.name, 40)}"


def floors_advice(scorecard: Scorecard, command: str = "") -> str:
    """Return advice on the lowest figures to demand in CI, as flags that complete `command`."""
    figures = scorecard.verdict_figures
    flags_text = "--min-tpr X --min-tnr X" if figures else "--min-spearman X"
    if command:
        flags_text = f"`{command} {flags_text}`"
    ci_advice = (
        "Labels are too few for a floor in CI with a safe margin: label more documents, or compare "
        "the judge with another one (`--against`)."
    )
    if floors := suggested_floors(figures.judge if figures else scorecard.rho):
        suggested_flags = " ".join(f"--min-{name} {floor:.2f}" for name, floor in floors.items())
        ci_advice = f"For CI: `{suggested_flags}` (an equally good judge passes 9 of 10 times)."
    return f"Give the floors that it must stay above: {flags_text}. {ci_advice}"


def labels_advice(scorecard: Scorecard, n_passes: int = 0, n_outputs: int = 0) -> str:
    """Return which labels to add so that the interval gets narrow; "" if it is narrow.

    If the figures are on the test split, all `n_outputs` labels have `n_passes` passes.
    """
    n_documents = scorecard.pairwise_accuracy.n_documents
    if figures := scorecard.verdict_figures:
        n_documents = figures.judge.n_documents
        n_test = scorecard.rho.n_outputs + scorecard.rho.n_failed
        numbers = n_test, n_passes, n_outputs or n_test
        if amounts := "; ".join(labels_for_rates(figures.judge, *numbers, PASS_FAIL)):
            return f"Label {amounts}."
    if is_perfect(scorecard):
        return ""
    interval, documents_text = scorecard.share_right.interval, count_text(n_documents, "document")
    if interval is None:
        return f"Label more documents: too few for an interval ({documents_text}), or too alike."
    if interval.half_width > WIDE_HALF_WIDTH:
        return f"Label more documents: with {documents_text} the interval is still wide."
    return ""
