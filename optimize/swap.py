"""`verify NEW --against OLD`: both judges on labels that taught neither, held against a margin."""

import argparse
from pathlib import Path

from judges.cli.flags import split_name
from optimize.inputs.flags import SettingsError
from optimize.measuring.asking import ask_entries
from optimize.measuring.request import asking_options, check_names, read_judges, read_task
from optimize.measuring.swap import SwapResult, certificate

MARGIN = 0.03
OF_ONE_JUDGE = ("min_spearman", "min_tpr", "min_tnr", "report", "all")


def swap(flags: argparse.Namespace) -> SwapResult:
    """Measure both judges; raises SettingsError for flags that name no two judges."""
    margin = MARGIN if flags.margin is None else flags.margin
    if not 0 < margin < 1:
        raise SettingsError(f"--margin {margin:g}: it is between 0 and 1")
    given = [getattr(flags, name) for name in OF_ONE_JUDGE]
    if any(value is not None and value is not False for value in given):  # 0 is a floor
        raise SettingsError(
            "--min-..., --report and --all are of one judge: leave them out beside --against "
            "(dspy-judges compare draws a page of both)"
        )
    recordings = [split_name(each) for each in (*flags.scores, *flags.replies)]
    is_recorded = flags.against in [name or Path(file).stem for name, file in recordings]
    specs = [*flags.judges, *([] if is_recorded else [flags.against])]
    if len(specs) + len(recordings) != 2:
        raise SettingsError(
            "name one new judge (JUDGE, --scores FILE or --replies FILE), and the old one by "
            "--against JUDGE, or recorded by --scores OLD=FILE --against OLD"
        )
    task, entries = read_task(flags, read_judges(flags, map(split_name, specs), flags.lm or ""))
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
    return certificate(entries[1 - old], entries[old], task, margin)
