"""The command `verify NEW --against OLD`: whether a new judge may replace an old one."""

import argparse
from functools import partial
from pathlib import Path

from judges.cli.flags import split_name
from judges.judgement import choice_of
from optimize.figures.as_text import (
    address,
    cost_text,
    counted,
    interval_text,
    looks_text,
    number_text,
    short_name,
    wrapped,
)
from optimize.inputs.flags import SettingsError
from optimize.measuring.asking import ask_entries
from optimize.measuring.changed import ChangedSwap, changed_swap, unlabelled_task
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.request import (
    NamedSubject,
    asking_options,
    check_names,
    read_judges,
    read_task,
    with_recordings,
)
from optimize.measuring.swap import SwapResult, certificate
from optimize.report.answer import SCREEN_LINES, Answer, Tile
from optimize.report.card import measured, tuned_on
from optimize.report.misses import change_group
from optimize.report.next_steps import swap_step
from optimize.report.page import Page, Section, source_section, write
from optimize.statistics.balanced import THRESHOLD

MARGIN = 0.03
# The most changed rows that are printed.
MOST_SHOWN = 3
FLAGS_FOR_ONE_JUDGE = ("min_spearman", "min_tpr", "min_tnr", "all")


def swap(flags: argparse.Namespace) -> SwapResult | ChangedSwap:
    """Compare both judges; raises SettingsError if flags do not name two judges."""
    margin = MARGIN if flags.margin is None else flags.margin
    _check_flags(flags, margin)
    recordings = [split_name(spec) for spec in (*flags.scores, *flags.replies)]
    is_recorded = flags.against in [name or Path(file).stem for name, file in recordings]
    if not is_recorded and Path(flags.against).suffix == ".jsonl":
        raise SettingsError(
            f"--against {flags.against}: a recording is named by --scores OLD={flags.against}, and "
            "then by --against OLD"
        )
    specs = [*flags.judges, *([] if is_recorded else [flags.against])]
    if len(specs) + len(recordings) != 2:
        raise SettingsError(
            "name one new judge (JUDGE, --scores FILE or --replies FILE), and the old one by "
            "--against JUDGE, or recorded by --scores OLD=FILE --against OLD"
        )
    judges = read_judges(flags, map(split_name, specs), flags.lm or "")
    if flags.changed is not None:
        named_subject = NamedSubject.of(flags, judges)
        task = unlabelled_task(flags, named_subject)
        task, entries = with_recordings(flags, named_subject, task, judges)
    else:
        task, entries = read_task(flags, judges)
    if task.items().is_weighted:
        raise SettingsError(
            f"{task.labelled.name}: its documents were drawn with unequal chances, and a swap is "
            "decided on labels drawn at random: leave out the rows with a sampling_weight, or "
            "verify each judge by itself, which weighs them"
        )
    check_names(entries)
    entries = ask_entries(entries, task, seed=flags.seed, **asking_options(flags))
    names = [entry.name for entry in entries]
    old = names.index(flags.against) if is_recorded else len(specs) - 1
    pair = entries[1 - old], entries[old]
    if flags.changed is not None:
        return changed_swap(flags, *pair, task, margin)
    result = certificate(*pair, task, margin, flags.looks)
    if flags.report:
        answer = swap_answer(result)
        page = Page(
            answer=answer,
            groups=[change_group(result, partial(_word, result))],
            groups_title="What changes",
            sections=[
                Section(title="Figures", titled=answer.facts),
                source_section(result.comparison.data),
            ],
        )
        write(Path(flags.report), page)
    return result


def _check_flags(flags: argparse.Namespace, margin: float) -> None:
    """Raise SettingsError for flags that do not fit a swap."""
    if not 0 < margin < 1:
        raise SettingsError(f"--margin {margin:g}: it is between 0 and 1")
    values = [getattr(flags, name) for name in FLAGS_FOR_ONE_JUDGE]
    if any(value is not None and value is not False for value in values):  # 0 is a floor, too
        raise SettingsError("--min-... and --all measure one judge: leave them out with --against")
    if flags.report and flags.changed is not None:
        raise SettingsError("--report draws a swap on labels drawn at random, not one by --changed")


def changed_lines(result: ChangedSwap) -> list[str]:
    """Lines for a certificate by labels on changed rows, the verdict first; or what to label."""
    n_changed, new, old = result.n_changed, short_name(result.new), short_name(result.old)
    changes = f"{new} and {old} differ on {n_changed:,} of {counted(result.n_outputs, 'output')}"
    if (difference := result.difference) is None:
        drawn = "drawn at random" if result.n_drawn < n_changed else "all that there are"
        needed = "these labels show it"
        if result.n_drawn < result.n_needed:
            needed = f"it takes {result.n_needed:,} labels to show it"
        return [
            *wrapped(
                f"{changes} ({n_changed / result.n_outputs:.0%}). Labels on the others tell "
                "nothing about their difference.",
                f"{result.file}: {counted(result.n_drawn, 'changed output')}, {drawn}. If both "
                f"judges are equally good, {needed} in 80% of cases.",
                "Next: label them, then verify again with --changed and the file of the labels:",
            ),
            str(result.next),
        ]
    labelled = f"{result.n_labelled:,} of these have a label"
    here_text = f", 90% interval {interval_text(result.here, signed=True)}"
    if result.here and result.here.low == result.here.high:
        here_text = ", exactly"
    return wrapped(
        result.verdict,
        f"{changes}; {labelled}: {new} alone is right on {result.n_gained:,}, {old} alone on "
        f"{result.n_lost:,}.",
        f"Difference in accuracy {number_text(difference.value, signed=True)} on these outputs"
        f"{here_text}. On documents like these (n={difference.n_documents:,}) its 90% interval is "
        f"{interval_text(difference.interval, signed=True)}.",
        f"Next: {_changed_step(result)}",
    )


def _changed_step(result: ChangedSwap) -> str:
    if result.swap == "worse":
        return "keep the old judge"
    if result.swap != "undecided":
        return "use the new judge"
    if result.n_labelled < result.n_drawn:
        return f"label the other {result.n_drawn - result.n_labelled:,} that were drawn"
    return "bring more outputs, of further documents; all that were drawn have a label"


def swap_lines(result: SwapResult, page: str | None = None) -> list[str]:
    """Lines for a certificate, the verdict first; `page` is the file of the report."""
    rows = []
    for row in result.changed[:MOST_SHOWN]:
        old, new, human = (_word(result, score) for score in (row.old, row.new, row.human))
        rows.append(row.remarks.line(f"{old} → {new} (people {human})", row.id))
    page_lines = [f"What changes: {address(Path(page))}"] if page else []
    return swap_answer(result).lines(SCREEN_LINES, extra=rows, last=page_lines)


def swap_answer(result: SwapResult) -> Answer:
    """The answer for a swap: the certificate, both judges' figures, what changes, the next step."""
    comparison, looks = result.comparison, looks_text(result.looks)
    rho = f"{comparison.level}-level rho"
    figure = rho if comparison.figure_name == "rho" else comparison.figure_name
    new, old = map(short_name, result.names)
    judges = [*zip((new, old), result.judges, strict=True)]
    failed = ", ".join(
        f"{n_failed:,} of {name}" for name, judge in judges if (n_failed := judge.card.rho.n_failed)
    )
    tuned = [fact for name, judge in judges for fact in tuned_on(judge, comparison.card.unit, name)]
    prices = "; ".join(f"{name} {_price(judge)}" for name, judge in judges)
    interval = f"90% interval{looks}, n={counted(result.difference.n_documents, result.unit)}"
    return Answer(
        title=f"{comparison.dimension}: may {new} replace {old}, on {comparison.data.name}?",
        headline=result.verdict,
        why=[
            ("", _changes_sentence(result, new, old)),
            *([("Failed and left out", f"{failed}.")] if failed else []),
            *tuned,
        ],
        tiles=[
            *(
                Tile.of(f"{figure.capitalize()} of {name}", judge.card.headline)
                for name, judge in judges
            ),
            Tile.of("Difference", result.difference, interval, sign=True),
        ],
        measured=measured(comparison.card, comparison.data),
        facts=[("1,000 rows", f"{prices}.")],
        steps=[swap_step(result)],
    )


def _changes_sentence(result: SwapResult, new: str, old: str) -> str:
    """How many rows change, and with which judge people agree there."""
    n_changed, unit = result.n_changed, result.comparison.card.unit
    if not n_changed:
        return f"None of the {unit} changes."
    moved, n_by_side, directions = result.moved, result.people_side_with, ""
    if result.comparison.card.two_values:
        directions = f" ({moved['up']:,} fail → pass, {moved['down']:,} pass → fail)"
    changes = f"{counted(n_changed, unit.removesuffix('s'))} change{'s' * (n_changed == 1)}"
    return (
        f"{changes}{directions}; people side with {new} on {n_by_side['new']:,}, with {old} on "
        f"{n_by_side['old']:,}."
    )


def _word(result: SwapResult, value: float) -> str:
    if result.comparison.card.two_values:
        return "pass" if value >= THRESHOLD else "fail"
    if result.comparison.card.is_pairs:
        return choice_of(value) or "tie"
    return f"{value:.3g}"


def _price(judge: ComparedJudge) -> str:
    """The cost and time for 1,000 rows; "recorded" for a recording."""
    if judge.entry.judge is None:
        return "recorded"
    seconds = judge.usage.seconds_per_1000_rows
    time = "time unknown" if seconds is None else f"{seconds:,.3g} s"
    return f"{cost_text(judge.usage.cost_per_1000_rows)}, {time}"
