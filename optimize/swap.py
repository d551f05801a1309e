"""The command `verify NEW --against OLD`: whether a new judge may replace an old one."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from judges.cli.flags import split_name
from judges.tables.problems import count_text
from optimize.figures.as_text import (
    cost_text,
    interval_text,
    interval_unit,
    looks_text,
    number_text,
    short_name,
    wrap_lines,
)
from optimize.inputs.flags import SettingsError, read_floors
from optimize.measuring.asking import ask_judges
from optimize.measuring.changed_swap import ChangedRowsSwap, decide_by_changed_rows
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.swap import SwapDecision, SwapResult, decide_swap
from optimize.measuring.task_flags import asking_options, check_names, read_task
from optimize.report.answer import VERIFY_LINES, Fact, ReportAnswer, Tile
from optimize.report.card import LOOKS_ADVICE, measured_sentence, tuning_warnings
from optimize.report.misses import change_text, changed_rows_group, label_text
from optimize.report.page import Section, page_html, save_page, source_section
from optimize.statistics.changed_rows import MIN_ROWS_TO_LABEL
from optimize.statistics.floor import round_up_to_two_digits

DEFAULT_MARGIN = 0.03
# Upper bound on the changed rows that are printed.
MAX_PRINTED_ROWS = 3


def verify_swap(flags: argparse.Namespace) -> tuple[SwapDecision, list[str]]:
    """Decide whether the new judge may replace the old one; returns lines on the decision, too."""
    margin = DEFAULT_MARGIN if flags.margin is None else flags.margin
    _check_flags(flags, margin)
    recordings = [split_name(spec) for spec in (*flags.scores, *flags.replies)]
    is_recorded = flags.against in [name or Path(file).stem for name, file in recordings]
    specs = [*flags.judges, *([] if is_recorded else [flags.against])]
    if len(specs) + len(recordings) != 2:
        raise SettingsError(
            "name one new judge (JUDGE, --scores FILE or --replies FILE), and the old judge by "
            "--against JUDGE, or if it is recorded by --scores OLD=FILE --against OLD"
        )
    task, entries = read_task(flags, map(split_name, specs), flags.lm or "")
    if task.items().is_weighted:
        raise SettingsError(
            f"{task.labelled_items.name}: its documents were drawn with unequal chances, and a "
            "swap is decided on labels drawn at random: leave out the rows with a "
            "sampling_weight, or verify each judge by itself, which uses the weights"
        )
    check_names(entries)
    entries = ask_judges(entries, task, seed=flags.seed, **asking_options(flags))
    names = [entry.name for entry in entries]
    old_index = names.index(flags.against) if is_recorded else len(specs) - 1
    new_and_old = entries[1 - old_index], entries[old_index]
    if flags.changed is not None:
        changed_swap = decide_by_changed_rows(flags, *new_and_old, task, margin)
        return changed_swap, changed_swap_lines(changed_swap)
    result = decide_swap(*new_and_old, task, margin, flags.looks)
    if flags.report:
        _write_page(Path(flags.report), result)
    return result, swap_lines(result, flags.report)


def _write_page(path: Path, result: SwapResult) -> None:
    report_answer = swap_answer(result)
    figures = [Section(title="Figures", facts=report_answer.facts)] if report_answer.facts else []
    sections = [*figures, source_section(result.comparison.data)]
    groups = [changed_rows_group(result)]
    save_page(path, page_html(report_answer, sections, groups, "What changes"))


def _check_flags(flags: argparse.Namespace, margin: float) -> None:
    if not 0 < margin < 1:
        raise SettingsError(f"--margin {margin:g}: it must be between 0 and 1")
    if read_floors(flags) or flags.all:
        raise SettingsError("--min-... and --all measure one judge: leave them out with --against")
    if flags.changed is None:
        return
    changed = Path(flags.changed)
    if changed.suffix != ".jsonl" and not changed.exists():
        raise SettingsError(f"--changed {changed}: name a file that ends in .jsonl")
    if flags.report:
        raise SettingsError(
            "--report cannot be combined with --changed: its page needs labels on random outputs"
        )


def changed_swap_lines(result: ChangedRowsSwap) -> list[str]:
    """Return lines on a swap if only changed rows are labelled: the verdict, or what to label."""
    n_changed, new, old = result.n_changed, short_name(result.new), short_name(result.old)
    n_outputs = count_text(result.n_outputs, "output")
    changes_text = f"{new} and {old} differ on {n_changed:,} of {n_outputs}"
    if (difference := result.difference) is None:
        sentences = [
            f"{changes_text} ({n_changed / result.n_outputs:.0%}). Labels on the other outputs "
            "tell nothing about the difference between the judges.",
            f"{result.file}: {count_text(result.n_drawn, 'changed output')} to label. If both "
            f"judges are equally good, {result.n_needed:,} labels of independent outputs show it "
            "in 80% of cases.",
            "Next: label them, then verify again with --changed and the file of the labels:",
        ]
        if result.n_needed > max(n_changed, MIN_ROWS_TO_LABEL):
            n_to_bring = round_up_to_two_digits(result.n_outputs * result.n_needed / n_changed)
            sentences[1] += (
                f" About {n_to_bring:,} outputs have that many changes: bring more outputs."
            )
        return [*wrap_lines(*sentences), str(result.next)]
    labelled_text = f"{result.n_labelled:,} of these outputs have a label"
    return wrap_lines(
        result.sentence,
        f"{changes_text}; {labelled_text}: {new} alone is right on {result.n_gained:,}, {old} "
        f"alone on {result.n_lost:,}.",
        f"Difference in accuracy {number_text(difference.value, signed=True)} on these outputs, "
        f"90% interval {interval_text(result.sample_interval, signed=True)}. On documents like "
        f"these (n={difference.n_documents:,}) its 90% interval is "
        f"{interval_text(difference.interval, signed=True)}.",
        f"Next: {_next_step(result)}",
    )


def _next_step(result: ChangedRowsSwap) -> str:
    if result.outcome == "worse":
        return "Keep the old judge."
    if result.outcome != "undecided":
        return "Use the new judge."
    if result.n_labelled < result.n_drawn:
        n_left = result.n_drawn - result.n_labelled
        return f"Label the other {count_text(n_left, 'output')} that were drawn."
    return "Bring outputs of further documents: all drawn outputs have a label."


def swap_lines(result: SwapResult, page: str | None = None) -> list[str]:
    """Return lines on a swap, the verdict first; `page` is the path of the report."""
    rows = []
    for row in result.changed[:MAX_PRINTED_ROWS]:
        human = label_text(result, row.human)
        rows.append(row.remarks.as_line(f"{change_text(result, row)} (people {human})", row.id))
    page_lines = [f"What changes: {Path(page).resolve().as_uri()}"] if page else []
    return swap_answer(result).lines(VERIFY_LINES, extra=rows, last=page_lines)


def swap_answer(result: SwapResult) -> ReportAnswer:
    """Return the answer on a swap: verdict, both judges' figures, changes, and next step."""
    comparison, card = result.comparison, result.comparison.scorecard
    new, old = short_name(result.new), short_name(result.old)
    judges = [*zip((new, old), comparison.judges, strict=True)]
    why: list[Fact] = [("", _changes_sentence(result, new, old))]
    n_failed = [(name, judge.scorecard.rho.n_failed) for name, judge in judges]
    if failed_text := ", ".join(f"{number:,} of {name}" for name, number in n_failed if number):
        why.append(("Failed and left out", f"{failed_text}."))
    for name, judge in judges:
        why += tuning_warnings(judge.overlap, card.unit, name)
    n_text = count_text(result.difference.n_documents, interval_unit(comparison.level))
    interval_note = f"90% interval{looks_text(result.looks)}, n={n_text}"
    return ReportAnswer(
        title=f"{comparison.dimension}: may {new} replace {old}?",
        headline=result.sentence,
        why=why,
        tiles=[
            *(_judge_tile(name, judge.scorecard) for name, judge in judges),
            Tile("Difference", result.difference, interval_note, is_difference=True),
        ],
        measured=measured_sentence(card, comparison.data),
        facts=[*_error_facts(judges), *_cost_facts(judges)],
        steps=[swap_step(result)],
    )


def _judge_tile(name: str, card: Scorecard) -> Tile:
    """Return a tile with a judge's figure; for pass or fail, its TPR and TNR stand below."""
    note = ""
    if card.verdict_figures:
        tpr, tnr, _ = card.verdict_figures.rates
        note = f"TPR {number_text(tpr.value)}, TNR {number_text(tnr.value)}"
    return Tile(f"{card.headline_name.capitalize()} of {name}", card.headline, note)


def _error_facts(judges: Sequence[tuple[str, ComparedJudge]]) -> Iterator[Fact]:
    """Yield how many of people's fails each judge passes, and how many of their passes it fails."""
    verdicts = [
        (name, binary.judge)
        for name, judge in judges
        if (binary := judge.scorecard.verdict_figures)
    ]
    misses = (f"{name} {each.confusion['fail_pass']:,}/{each.tnr.n:,}" for name, each in verdicts)
    alarms = (f"{name} {each.confusion['pass_fail']:,}/{each.tpr.n:,}" for name, each in verdicts)
    if verdicts:
        yield "Missed fails", f"{', '.join(misses)}; false alarms: {', '.join(alarms)}."


def _cost_facts(judges: Sequence[tuple[str, ComparedJudge]]) -> Iterator[Fact]:
    """Yield what 1,000 rows cost and how long they take, by each judge that was asked."""
    texts = []
    for name, judge in judges:
        usage = judge.judge_entry.usage
        seconds = usage.seconds_per_1000_rows
        time_text = "time unknown" if seconds is None else f"{seconds:,.3g} s"
        if judge.judge_entry.judge:
            texts.append(f"{name} {cost_text(usage.cost_per_1000_rows)}, {time_text}")
    if texts:
        yield "1,000 rows", f"{'; '.join(texts)}."


def _changes_sentence(result: SwapResult, new_name: str, old_name: str) -> str:
    n_changed, card = result.n_changed, result.comparison.scorecard
    if not n_changed:
        return f"None of these {card.unit}s changes; {card.unit}s of other documents may."
    text = f"{count_text(n_changed, card.unit)} change{'s' * (n_changed == 1)}"
    if card.verdict_figures:
        n_up, n_down = result.n_by_direction["up"], result.n_by_direction["down"]
        text += f" ({n_up:,} fail → pass, {n_down:,} pass → fail)"
    elif not card.is_pairwise:
        text += " rank"
    n_new, n_old = result.n_by_side["new"], result.n_by_side["old"]
    return f"{text}; people side with {new_name} on {n_new:,}, with {old_name} on {n_old:,}."


def swap_step(result: SwapResult) -> str:
    """Return what to do after a new judge was compared with an old judge."""
    comparison, unit = result.comparison, interval_unit(result.comparison.level)
    if comparison.data.is_constructed:
        return "Measure both judges on labels that people gave (--data FILE)."
    if any(judge.overlap.tuned_on_these_labels for judge in comparison.judges):
        return (
            "Bring labels that neither judge was tuned on (--data FILE): too few of these are left."
        )
    use_step = "Use the new judge; the same command checks it in CI."
    if result.is_interval_negative:
        use_step = "The new judge is worse by less than the margin: use it if it is cheap enough."
    keep_step = "Keep the old judge, or tune the new one on other labels (dspy-judges tune)."
    steps = {"better": use_step, "not worse": use_step, "worse": keep_step}
    if result.outcome in steps:
        return steps[result.outcome]
    if not result.documents_to_decide:
        return f"Label more {unit}s."
    advice = "Keep the old judge, or label" if result.is_interval_negative else "Label"
    number = count_text(result.documents_to_decide, unit)
    advice += f" more: about {number} in all would decide, if the difference stays"
    return f"{advice}; {LOOKS_ADVICE}." if result.looks == 1 else f"{advice}."
