"""The outside of optimize.verify: which judge, on what labels, and did it reach what was asked."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from judges.cli.arguments import (
    add_model_flags,
    add_reporting_flags,
    constructed_note,
    request_options,
    share,
    with_recordings,
)
from judges.cli.shell import DONE, FAILED, print_error, print_lines, print_note, run_command
from judges.dimension import Dimension
from judges.inference.progress import verbose_logging, visible
from judges.judge import Judge
from judges.loading import load
from judges.panel import Panel
from judges.parsing.recorded import Reading, letter_ratings
from judges.protocol import is_embedded
from optimize.cli.tool import (
    ANNOTATIONS,
    Parser,
    add_label_flags,
    add_missing_flag,
    print_json,
)
from optimize.figures import Cell
from optimize.injection import PROBES_NOT_REQUESTED
from optimize.items import items_of
from optimize.measuring.measure import (
    Measured,
    measure_scores,
    on_labels_scale,
    other_readings,
    reading_lines,
)
from optimize.measuring.sources import (
    ScoredItems,
    ask_judge,
    from_pair_replies,
    from_replies,
    from_scores,
)
from optimize.run.labels import check_level, find_subject, load_labels
from optimize.run.run_folder import write_text
from optimize.run.settings import (
    SettingsError,
    bounds_of,
    mapping,
    refuse_secret,
    values_of,
    whole_ratings,
)
from optimize.screen import correlation_lines
from optimize.search.objective import LEVELS

ABOUT = """\
Measure a judge, or any judge's recorded replies or scores, against people:
Spearman's rho, Kendall's tau-b and Pearson's r at every level that the labels
have, with intervals over documents; for pairs, the accuracy in both orders.

Recorded replies are JSONL, {"id", "dimension", "replies": [...]}; scores are
{"id", "dimension", "score"}, or rows as `python -m judges score` writes them."""

EXAMPLES = """\
examples:
  python -m optimize.verify runs/relevance-001 --data new_labels.jsonl \\
      --min-spearman 0.4
  python -m optimize.verify --scores scores.jsonl --data labels.jsonl \\
      --dimension coherence
  python -m optimize.verify --replies replies.jsonl --data labels.jsonl \\
      --dimension coherence --report coherence.html

It ends with 0, with 1 where it failed, rho fell short of --min-spearman or too
many judgements failed (--max-failed), and then says so; with 2 for wrong usage."""
MAX_FAILED = 0.1


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog="python -m optimize.verify",
        usage="python -m optimize.verify JUDGE [options], or --replies or --scores FILE",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    add(
        "judge",
        nargs="?",
        metavar="JUDGE",
        help="a catalogue name, a frozen judge's file, a run folder, FILE.yaml[:name] or "
        "FILE.py:NAME",
    )
    of_member = "instead, JSONL; of a recorded member beside a panel, [NAME=]FILE, repeatable"
    for flag, what in (("--replies", "raw replies"), ("--scores", "numbers")):
        about = f"{what} of any judge {of_member}"
        add(flag, metavar="FILE", action="append", default=[], help=about)
    add_missing_flag(command_parser)
    add_label_flags(command_parser)
    add("--dimension", metavar="NAME", help="what recorded replies or scores are about")
    add("--pairwise", metavar="NAME", help="the same for recorded replies on pairs")
    add("--prompt", metavar="NAME", help="which prompt's replies, where a file holds several")
    add(
        "--scale",
        metavar="LOW-HIGH",
        help="of recorded replies, or of the labels of a JUDGE (the dimension's); 'any': labels on "
        "any scale, since only their order counts",
    )
    add("--letters", metavar="ABCDE", help="recorded replies are letters, lowest rating first")
    add("--tie", metavar="LETTER", help="the recorded letter that prefers neither of a pair")
    add(
        "--reading",
        choices=get_args(Reading),
        default="strict",
        help="how replies are read (strict)",
    )
    add("--level", choices=("auto", *LEVELS), default="auto", help="for --min-spearman (auto)")
    add(
        "--min-spearman",
        type=float,
        metavar="X",
        help="exit 1 unless rho, as the first line has it (documents the judge rates alike count "
        "0), reaches X",
    )
    add(
        "--max-failed",
        type=share,
        default=MAX_FAILED,
        metavar="SHARE",
        help=f"exit 1 where more than this share of the judgements failed ({MAX_FAILED:g})",
    )
    add_model_flags(command_parser)
    add("--resume", metavar="JOURNAL", help="keep replies in this file and reuse those it has")
    add("--annotations", metavar="FILE", help=ANNOTATIONS)
    add("--report", metavar="FILE", help="draw a page: where it agrees, and where it does not")
    add("--markdown", metavar="FILE", help="write a short table for a README; - prints it instead")
    add("--probes", action="store_true", help="attack the judge, for --report (free: always)")
    add_reporting_flags(command_parser)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Measure a judge against labels and print it; returns 1 where it falls short."""
    flags = parser().parse_args(arguments)

    def print_result() -> int:
        with verbose_logging(flags.verbose):
            result = verify(flags)
        if flags.json:
            print_json(result)
        elif flags.markdown != "-":
            readings = reading_lines(result.get("readings", ()))
            print_lines([*correlation_lines(result), *readings])
        for reason in result.get("short", ()):
            print_error(f"python -m optimize.verify: falls short: {reason}")
        return DONE if result["passed"] else FAILED

    return run_command("python -m optimize.verify", print_result, quiet=flags.quiet)


def verify(flags: argparse.Namespace) -> dict[str, Any]:
    """The result that --json prints."""
    sources = [flags.judge] if flags.judge else [*flags.replies, *flags.scores]
    loaded = load(flags.judge) if flags.judge else None
    is_panel = isinstance(loaded, Panel)
    files = [*flags.replies, *flags.scores]
    if len(sources) != 1 or (loaded is not None and files and not is_panel):
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    refuse_secret(flags.api_base)
    if flags.min_spearman is not None and not -1 <= flags.min_spearman <= 1:
        raise SettingsError(f"--min-spearman {flags.min_spearman:g}: rho is between -1 and 1")
    if flags.json and flags.markdown == "-":
        raise SettingsError("--json and --markdown - both print to stdout: name a file for one")
    for file in (flags.report, flags.markdown):
        # Before anything is asked and paid for.
        if file and not Path(file).parent.is_dir():
            raise SettingsError(f"{file}: the folder {Path(file).parent} does not exist")
        if file and Path(file).is_dir():
            raise SettingsError(f"{file}: is a folder; name a file in it")
    readings: list[dict[str, Any]] = []
    if loaded is not None:
        measured = _measure_judge(loaded, flags)
    else:
        measured, readings = _measure_recorded(flags)
    scored = measured.scored_items
    if scored.n_unjudged or scored.n_unknown:
        print_error(
            f"{scored.n_unjudged} labelled outputs have no record, and {scored.n_unknown} "
            "records no labelled output: both are left out"
        )
    result = {**measured.summary(), **({"readings": readings} if readings else {})}
    shortfalls = _shortfalls(result["correlations"][0], len(scored.items), flags)
    result["passed"] = not shortfalls
    if shortfalls:
        result["short"] = shortfalls
    if flags.report or flags.markdown:
        _write_reports(flags, result, measured)
    return result


def _write_reports(flags: argparse.Namespace, result: dict[str, Any], measured: Measured) -> None:
    """Write the page and the short table that --report and --markdown name."""
    # Drawing takes matplotlib, which a check in CI need not load.
    from optimize.report.measures import measure_split
    from optimize.report.verification_report import PROBES_NEED_A_MODEL, render, verification_table

    judged, scored = measured.judged, measured.scored_items
    probes = scored.probes or (PROBES_NOT_REQUESTED if scored.lm else PROBES_NEED_A_MODEL)
    if flags.report:
        page = render(result, judged, probes, seed=flags.seed, lm=scored.lm)
        write_text(Path(flags.report), page)
    if flags.markdown:
        table = verification_table(result, measure_split(judged, probes, flags.seed))
        if flags.markdown == "-":
            sys.stdout.write(visible(table))
        else:
            write_text(Path(flags.markdown), table)


def _shortfalls(cell: Cell, number: int, flags: argparse.Namespace) -> list[str]:
    """What the judge falls short of, a reason each; `cell` is the headline's."""
    reasons, failed, min_spearman = [], cell["n_failed"], flags.min_spearman
    if failed > flags.max_failed * number:
        reasons.append(
            f"{failed / number:.1%} of the judgements failed ({failed:,} of {number:,}); "
            f"--max-failed allows {flags.max_failed:.1%}"
        )
    if min_spearman is not None:
        goal = f"--min-spearman asks for {min_spearman:g}"
        if cell["value"] is None:
            reasons.append(f"there is no {cell['level']}-level rho; {goal}")
        elif cell["value"] < min_spearman:
            reasons.append(f"{cell['level']}-level rho is {cell['value']:.4f}; {goal}")
    return reasons


def _measure_judge(loaded: Judge, flags: argparse.Namespace) -> Measured:
    """Have the judge score the labelled items, and measure its scores."""
    if note := constructed_note(loaded):
        print_note(f"note: {note}")
    judge = with_recordings(on_labels_scale(loaded, flags.scale), flags)
    subject = judge.subject
    # A panel of recordings reads no text.
    reads = bool(judge.parts)
    labelled = load_labels(
        flags.data or None,
        subject.name,
        subject,
        recorded=not reads,
        mapping=mapping(flags.map),
        values=values_of(flags.values),
        scale=flags.scale,
        annotations=flags.annotations,
    )
    for note in labelled.notes:
        print_note(f"note: {note}")
    items = items_of(labelled, subject.name, subject if reads else None)
    check_level(flags.level, items, pairs=judge.kind == "pairwise")
    scored = ask_judge(
        judge,
        items,
        lm=flags.lm,
        api_base=flags.api_base,
        max_calls=flags.max_calls,
        max_cost=flags.max_cost,
        **request_options(flags),
        seed=flags.seed,
        journal=Path(flags.resume) if flags.resume else None,
        keep_going=flags.keep_going,
        with_probes=flags.probes or (bool(flags.report) and is_embedded(flags.lm or judge.lm)),
    )
    if scored.cache_note:
        print_note(scored.cache_note)
    return measure_scores(
        flags.judge,
        subject.name,
        labelled,
        scored,
        level=flags.level,
        seed=flags.seed,
        scale=subject.scale,
        frozen=loaded,
    )


def _measure_recorded(flags: argparse.Namespace) -> tuple[Measured, list[dict[str, Any]]]:
    """As `_measure_judge` from recorded replies or scores, and how the replies were read."""
    if (flags.dimension is None) == (flags.pairwise is None):
        raise SettingsError("say what was judged: --dimension NAME, or --pairwise NAME for pairs")
    if flags.missing:
        raise SettingsError("--missing is for a panel: leave it out")
    name = flags.dimension or flags.pairwise
    subject = find_subject(name)
    name = subject.name if subject else name
    labelled = load_labels(
        flags.data or None,
        name,
        subject,
        mapping=mapping(flags.map),
        values=values_of(flags.values),
        annotations=flags.annotations,
        recorded=True,
        pairwise=flags.pairwise is not None,
    )
    items, scale = items_of(labelled, name), subject.scale if subject else ()
    readings: list[dict[str, Any]] = []
    (file,) = flags.scores or flags.replies
    path = Path(file)
    if flags.tie and not (flags.pairwise and flags.replies):
        raise SettingsError("--tie is of recorded replies on pairs: leave it out")
    if flags.scores:
        scored = from_scores(path, items, name)
    elif flags.pairwise:
        scored = from_pair_replies(path, items, name, flags.prompt, flags.tie)
    else:
        scale = recorded_scale(flags.scale, subject)
        letters = letter_ratings(flags.letters or "", scale)

        def read(reading: Reading) -> ScoredItems:
            return from_replies(
                path, items, name, scale, prompt=flags.prompt, letters=letters, reading=reading
            )

        scored = read(flags.reading)
        if flags.reading == "strict" and letters is None:
            readings = other_readings(scored, scale, read)
    measured = measure_scores(
        file,
        name,
        labelled,
        scored,
        level=flags.level,
        seed=flags.seed,
        scale=scale,
    )
    return measured, readings


def recorded_scale(scale: str | None, subject: object) -> tuple[int, ...]:
    """The whole ratings of --scale, else the subject's; SettingsError where neither is known."""
    bounds = bounds_of(scale) if scale else None
    if bounds is not None:
        return whole_ratings(bounds)
    if isinstance(subject, Dimension):
        return subject.scale
    raise SettingsError("--scale LOW-HIGH is needed: the dimension is not in the catalogue")
