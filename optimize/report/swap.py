"""The decision on a swap of judges in sentences: the verdict, what changes, and what to do next."""

from pathlib import Path

from judges.tables.problems import count_text
from judges.terminal import wrap_lines
from optimize.figures.as_json import JsonObject, fields_json
from optimize.figures.as_text import (
    TOO_FEW_FOR_INTERVAL,
    command_text,
    cost_text,
    interval_text,
    interval_unit,
    looks_text,
    number_text,
    short_name,
)
from optimize.measuring.changed_swap import MIN_ROWS_TO_LABEL, ChangedRowsSwap
from optimize.measuring.swap import MAX_CHANGED_ROWS, SwapResult
from optimize.report.answer import MAX_VERIFY_LINES, Fact, ReportAnswer, Tile, miss_line
from optimize.report.card import LOOKS_ADVICE, measured_sentence, tuning_warnings
from optimize.report.page import MissGroup, Section, source_section, write_page
from optimize.statistics.floor import round_up_to_two_digits

# The terminal shows at most this many of the rows on which two judges differ.
MAX_PRINTED_ROWS = 3


def swap_json(result: SwapResult | ChangedRowsSwap) -> JsonObject:
    """Return the decision as JSON, with the sentence on it, or with the command to label rows."""
    record = fields_json(result)
    if isinstance(result, ChangedRowsSwap):
        if result.file_to_label:
            record["next"] = label_command(result)
        return record
    sentence = decision_sentence(result)
    for key, outcome in (("short", "worse"), ("undecided", "undecided")):
        record[key] = [sentence] if result.outcome == outcome else []
    return record


def swap_faults(result: SwapResult | ChangedRowsSwap) -> list[str]:
    """Return the reason to fail in CI; none if the new judge may replace the old judge."""
    title = {"worse": "falls short", "undecided": "undecided"}.get(result.outcome)
    return [f"{title}: {decision_sentence(result)}"] if title else []


def decision_sentence(result: SwapResult | ChangedRowsSwap) -> str:
    """Return the outcome and its risk of error, or why labels cannot decide."""
    new, old = short_name(result.new_judge), short_name(result.old_judge)
    if isinstance(result, SwapResult):
        if names := result.comparison.judges_tuned_on_labels:
            names_text = " and ".join(map(short_name, names))
            return f"These labels cannot decide: they were used to tune {names_text}."
    elif result.file_to_label:
        return "no changed output has a label yet"
    elif loss := result.clear_loss:
        return (
            f"{new} is clearly worse on {loss.word}: of the labelled {loss.word}, "
            f"{loss.n_lost:,} are right only by {old}, {loss.n_gained:,} only by {new}. To "
            "decide about balanced accuracy, label outputs at random and leave out --changed."
        )
    by_more, loss_text = f"by more than {result.margin:g}", f"worse by {result.margin:g}"
    # What is claimed of the new judge, and of which judges the claim would be wrong.
    claims: dict[str, tuple[str, str]] = {
        "better": (f"better than {old}", "no better"),
        "not worse": (f"not worse than {old} {by_more}", loss_text),
        "worse": (f"worse than {old} {by_more}", f"{loss_text} or less"),
    }
    if result.is_interval_negative:
        claims["not worse"] = f"worse than {old}, but by less than {result.margin:g}", loss_text
        unsure = f"worse than {old}; these labels cannot tell whether {by_more}"
        claims["undecided"] = unsure, "not worse"
    if result.outcome not in claims:
        return f"These labels cannot tell whether {new} is worse than {old} {by_more}."
    claim, opposite = claims[result.outcome]
    looks_note = f" in any{looks_text(result.looks)}" if result.looks > 1 else ""
    return (
        f"On documents like these {new} is {claim}. Of judges that are {opposite}, at most 5% "
        f"would get this verdict{looks_note}."
    )


def label_command(result: ChangedRowsSwap) -> str:
    return command_text("label", str(result.file_to_label), dimension=result.dimension)


def changed_swap_lines(result: ChangedRowsSwap) -> list[str]:
    """Return lines on replacing a judge, by labels where the two judges' verdicts differ."""
    n_changed, n_outputs = result.n_changed, count_text(result.n_outputs, "output")
    new, old = short_name(result.new_judge), short_name(result.old_judge)
    changes_text = f"{new} and {old} differ on {n_changed:,} of {n_outputs}"
    if (difference := result.difference) is None:
        what_to_label = (
            f"{result.file_to_label}: {count_text(result.n_drawn, 'changed output')} to label. "
            f"{result.n_needed:,} labels of independent outputs are needed, so that an equally "
            "good judge is found to be no worse in 80% of cases."
        )
        if result.n_needed > max(n_changed, MIN_ROWS_TO_LABEL):
            n_to_bring = round_up_to_two_digits(result.n_outputs * result.n_needed / n_changed)
            what_to_label += f" Bring more: about {n_to_bring:,} outputs have that many changes."
        lines = wrap_lines(
            f"{changes_text} ({n_changed / result.n_outputs:.0%}). Labels on the other outputs "
            "tell nothing about the difference between the judges.",
            what_to_label,
            "Next: label them, then verify again with --changed and the file of the labels:",
        )
        return [*lines, label_command(result)]
    return wrap_lines(
        decision_sentence(result),
        f"{changes_text}; {result.n_labelled:,} of these outputs have a label: {new} alone is "
        f"right on {result.n_gained:,}, {old} alone on {result.n_lost:,}.",
        f"Difference in accuracy {number_text(difference.value, signed=True)} on these outputs, "
        f"90% interval {interval_text(result.sample_interval, signed=True)}. On documents like "
        f"these (n={difference.n_documents:,}) its 90% interval is "
        f"{interval_text(difference.interval, signed=True)}.",
        f"Next: {_next_step(result)}",
    )


def _next_step(result: ChangedRowsSwap) -> str:
    if result.outcome != "undecided":
        return "Keep the old judge." if result.outcome == "worse" else "Use the new judge."
    if (n_left := result.n_drawn - result.n_labelled) > 0:
        return f"Label the other {count_text(n_left, 'output')} that were drawn."
    return "Bring outputs of further documents: all drawn outputs have a label."


def swap_lines(result: SwapResult, report_path: str | None = None) -> list[str]:
    """Return lines on a swap: the verdict first, and last some outputs on which judges differ."""
    changes = [row.change for row in result.changed_rows[:MAX_PRINTED_ROWS]]
    row_lines = [
        miss_line(f"{change.verdict} (people {change.label})", change) for change in changes
    ]
    footer = f"What changes: {Path(report_path).resolve().as_uri()}" if report_path else ""
    return swap_answer(result).lines(MAX_VERIFY_LINES, details=row_lines, footer=footer)


def write_swap(path: Path, result: SwapResult) -> None:
    """Write the page on a swap, with the rows on which the judges differ most."""
    answer, units = swap_answer(result), f"{result.comparison.scorecard.unit}s"
    changes_group = MissGroup(
        title=f"Changes: {result.n_changed:,}",
        caption=f"The {units} on which the judges differ, old → new; {MAX_CHANGED_ROWS} at most.",
        misses=[row.change for row in result.changed_rows],
    )
    figures = Section(title="Figures", facts=answer.facts)
    sections = [figures, source_section(result.comparison.data_counts)]
    write_page(path, answer, sections, [changes_group], "What changes")


def swap_answer(result: SwapResult) -> ReportAnswer:
    """Return the answer on a swap: verdict, both judges' figures, changes, and next step."""
    comparison, scorecard = result.comparison, result.comparison.scorecard
    new, old = short_name(result.new_judge), short_name(result.old_judge)
    reasons, facts = [("", _changes_sentence(result, new, old))], list[Fact]()
    warnings, tiles, failures = list[Fact](), list[Tile](), list[str]()
    missed_fails, false_alarms, costs = list[str](), list[str](), list[str]()
    for name, judge in zip((new, old), comparison.judges, strict=True):
        warnings += tuning_warnings(judge.overlap, scorecard.unit, name)
        if n_failed := judge.scorecard.rho.n_failed:
            failures.append(f"{n_failed:,} of {name}")
        rates_text = ""
        if figures := judge.scorecard.verdict_figures:
            confusion, (tpr, tnr, _) = figures.judge.confusion, figures.rates
            missed_fails.append(f"{name} {confusion['fail_pass']:,}/{tnr.n:,}")
            false_alarms.append(f"{name} {confusion['pass_fail']:,}/{tpr.n:,}")
            rates_text = f"TPR {number_text(tpr.value)}, TNR {number_text(tnr.value)}"
        title = f"{judge.scorecard.headline_name.capitalize()} of {name}"
        tiles.append(Tile(title, judge.scorecard.headline, rates_text))
        if judge.judge_entry.judge:  # the judge was asked, not recorded
            usage = judge.judge_entry.usage
            seconds = usage.seconds_per_1000_rows
            time_text = "time unknown" if seconds is None else f"{seconds:,.3g} s"
            costs.append(f"{name} {cost_text(usage.cost_per_1000_rows)}, {time_text}")
    if failures:
        reasons.append(("Failed and left out", f"{', '.join(failures)}."))
    if missed_fails:
        errors_text = f"{', '.join(missed_fails)}; false alarms: {', '.join(false_alarms)}."
        facts.append(("Missed fails", errors_text))
    if costs:
        facts.append(("1,000 rows", f"{'; '.join(costs)}."))
    note = TOO_FEW_FOR_INTERVAL
    if result.difference.interval:
        note = f"90% interval{looks_text(result.looks)}"
    note += f", n={count_text(result.difference.n_documents, interval_unit(comparison.level))}"
    tiles.append(Tile("Difference", result.difference, note, is_difference=True))
    return ReportAnswer(
        title=f"{comparison.dimension}: may {new} replace {old}?",
        headline=decision_sentence(result),
        reasons=[*reasons, *warnings],
        tiles=tiles,
        measured_on=measured_sentence(scorecard, comparison.data_counts),
        facts=facts,
        next_steps=[swap_step(result)],
    )


def _changes_sentence(result: SwapResult, new_name: str, old_name: str) -> str:
    n_changed, scorecard = result.n_changed, result.comparison.scorecard
    if not n_changed:
        unit = scorecard.unit
        return f"None of these {unit}s changes; {unit}s of other documents may."
    verb = "changes" if n_changed == 1 else "change"
    text = f"{count_text(n_changed, scorecard.unit)} {verb}"
    if scorecard.verdict_figures:
        n_to_pass, n_to_fail = result.n_by_direction["up"], result.n_by_direction["down"]
        text += f" ({n_to_pass:,} fail → pass, {n_to_fail:,} pass → fail)"
    elif not scorecard.is_pairwise:
        text += " rank"
    n_new, n_old = result.n_by_side["new"], result.n_by_side["old"]
    return f"{text}; people side with {new_name} on {n_new:,}, with {old_name} on {n_old:,}."


def swap_step(result: SwapResult) -> str:
    """Return the next step after a new judge was compared with an old judge."""
    comparison, unit = result.comparison, interval_unit(result.comparison.level)
    if comparison.data_counts.is_constructed:
        return "Measure both judges on labels that people gave (--data FILE)."
    if comparison.judges_tuned_on_labels:
        return "Bring labels that neither judge was tuned on (--data FILE): there are too few."
    if result.outcome == "worse":
        return "Keep the old judge, or tune the new one on other labels (dspy-judges tune)."
    if result.outcome in ("better", "not worse"):
        if result.is_interval_negative:
            return "The new judge is worse by less than the margin: use it if it is cheap enough."
        return "Use the new judge; the same command checks it in CI."
    if not result.documents_to_decide:
        return f"Label more {unit}s."
    advice = "Keep the old judge, or label" if result.is_interval_negative else "Label"
    amount_text = count_text(result.documents_to_decide, unit)
    advice += f" more: about {amount_text} in all would decide, if the difference stays"
    return f"{advice}; {LOOKS_ADVICE}." if result.looks == 1 else f"{advice}."
