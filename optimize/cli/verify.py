"""The command `verify`: how far a judge agrees with labels, and whether that is what was asked."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judges.cli.flags import (
    add_model_flags,
    add_reporting_flags,
    constructed_note,
    mapping,
    request_options,
)
from judges.client import is_embedded
from judges.dimension import Dimension
from judges.judge import Judge
from judges.loading import load
from judges.terminal import (
    DONE,
    FAILED,
    print_error,
    print_lines,
    print_note,
    run_command,
)
from optimize.cli.tool import ANNOTATIONS, Parser, add_label_flags, add_level_flag, print_json
from optimize.figures import Cell
from optimize.injection import PROBES_NOT_REQUESTED, Probes
from optimize.items import items_of
from optimize.measuring.measure import Measured, measure_scores, on_labels_scale
from optimize.measuring.sources import (
    ask_judge,
    from_pair_replies,
    from_replies,
    from_scores,
    only_prompt,
)
from optimize.report.page import write_verification
from optimize.run.labels import check_level, find_subject, load_labels
from optimize.run.settings import (
    SettingsError,
    bounds_of,
    refuse_secret,
    values_of,
    whole_ratings,
)
from optimize.screen import verify_answer, verify_lines, verify_steps

NAME = "dspy-judges verify"
ABOUT = """\
How far a judge, or any judge's recorded replies or scores, agrees with people:
Spearman's rho, or the accuracy on pairs, with its interval over documents.
Where annotators are known: the judge beside each of them, its share of the
human ceiling, and the alternative-annotator test.

Recorded replies are JSONL, {"id", "dimension", "replies": [...]}; scores are
{"id", "dimension", "score"}, or rows as `dspy-judges score` writes them."""

EXAMPLES = """\
examples:
  dspy-judges verify runs/relevance-001 --data new_labels.jsonl \\
      --min-spearman 0.4
  dspy-judges verify --scores scores.jsonl --data labels.jsonl \\
      --dimension coherence --report coherence.html

It ends with 0; with 1 where it failed, rho fell short of --min-spearman or more
than a tenth of the judgements failed; with 2 for wrong usage."""
# A gate has no figure where more than this share of the judgements failed.
PROBES_NEED_A_MODEL = Probes(reason="recorded judgements cannot be asked again")
MAX_FAILED = 0.1


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} JUDGE | --replies FILE | --scores FILE [flags]",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    add(
        "judge",
        nargs="?",
        metavar="JUDGE",
        help="a catalogue name, a run folder, or a judge's file",
    )
    for flag, what in (("--replies", "raw replies"), ("--scores", "numbers")):
        add(flag, metavar="FILE", help=f"{what} of any judge instead, JSONL")
    add_label_flags(command_parser)
    add("--annotations", metavar="FILE", help=ANNOTATIONS)
    add("--dimension", metavar="NAME", help="what recorded replies or scores are about")
    add("--pairwise", metavar="NAME", help="the same for recorded replies on pairs")
    add(
        "--scale",
        metavar="LOW-HIGH",
        help="of replies or labels; 'any': only their order counts",
    )
    add_level_flag(command_parser)
    add("--min-spearman", type=float, metavar="X", help="exit 1 unless rho reaches X")
    add_model_flags(command_parser)
    add("--report", metavar="FILE", help="draw a page: where it agrees, and where it does not")
    add("--probes", action="store_true", help="attack the judge, for --report (free: always)")
    add("--all", action="store_true", help="print every level and coefficient, too")
    add_reporting_flags(command_parser)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Measure a judge against labels and print it; returns 1 where it falls short."""
    flags = parser().parse_args(arguments)

    def print_result() -> int:
        result = verify(flags)
        if flags.json:
            print_json(result)
        else:
            print_lines(verify_lines(result, everything=flags.all, page=flags.report))
        for reason in result.get("short", ()):
            print_error(f"{NAME}: falls short: {reason}")
        return DONE if result["passed"] else FAILED

    return run_command(NAME, print_result, verbose=flags.verbose, quiet=flags.quiet)


def verify(flags: argparse.Namespace) -> dict[str, Any]:
    """The result that --json prints."""
    if sum(map(bool, (flags.judge, flags.replies, flags.scores))) != 1:
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    refuse_secret(flags.api_base)
    if flags.min_spearman is not None and not -1 <= flags.min_spearman <= 1:
        raise SettingsError(f"--min-spearman {flags.min_spearman:g}: rho is between -1 and 1")
    if flags.probes and not flags.report:
        raise SettingsError("--probes is shown on the page: give --report FILE")
    if flags.report:
        # Before anything is asked and paid for.
        folder = Path(flags.report).parent
        if not folder.is_dir():
            raise SettingsError(f"{flags.report}: the folder {folder} does not exist")
        if Path(flags.report).is_dir():
            raise SettingsError(f"{flags.report}: is a folder; name a file in it")
    measured = _measure_judge(load(flags.judge), flags) if flags.judge else _measure_recorded(flags)
    scored = measured.scored_items
    if scored.n_unjudged or scored.n_unknown:
        print_error(
            f"{scored.n_unjudged} labelled outputs have no record, and {scored.n_unknown} "
            "records no labelled output: both are left out"
        )
    result = measured.summary()
    shortfalls = _shortfalls(result["correlations"][0], len(scored.items), flags.min_spearman)
    result["passed"] = not shortfalls
    if shortfalls:
        result["short"] = shortfalls
    if flags.report:
        _write_report(flags, result, measured)
    return result


def _write_report(flags: argparse.Namespace, result: dict[str, Any], measured: Measured) -> None:
    """Write the page that --report names."""
    scored = measured.scored_items
    probes = scored.probes or (PROBES_NOT_REQUESTED if scored.lm else PROBES_NEED_A_MODEL)
    write_verification(
        Path(flags.report),
        result,
        measured.judged,
        probes,
        sentences=[sentence for _, sentence in verify_answer(result)],
        steps=verify_steps(result),
        seed=flags.seed,
    )


def _shortfalls(cell: Cell, number: int, min_spearman: float | None) -> list[str]:
    """What the judge falls short of, a reason each; `cell` is the headline's."""
    reasons, failed = [], cell["n_failed"]
    if failed > MAX_FAILED * number:
        reasons.append(
            f"{failed / number:.1%} of the judgements failed ({failed:,} of {number:,}); at most "
            f"{MAX_FAILED:.0%} may"
        )
    if min_spearman is not None:
        goal = f"--min-spearman asks for {min_spearman:g}"
        if cell["value"] is None:
            reasons.append(f"there is no {cell['level']}-level rho; {goal}")
        elif cell["value"] < min_spearman:
            reasons.append(f"{cell['level']}-level rho is {cell['value']:.4f}; {goal}")
    return reasons


def _check_name(judge: Judge, flags: argparse.Namespace) -> None:
    """Raise SettingsError where a flag names something else than what the judge judges."""
    own = "--pairwise" if judge.kind == "pairwise" else "--dimension"
    for flag, word in (("--dimension", flags.dimension), ("--pairwise", flags.pairwise)):
        subject = find_subject(word) if word else None
        name = subject.name if subject else word
        if word and (flag, name) != (own, judge.name):
            raise SettingsError(
                f"{flags.judge} judges {own} {judge.name}, not {flag} {word}: leave {flag} out"
            )


def _measure_judge(loaded: Judge, flags: argparse.Namespace) -> Measured:
    """Have the judge score the labelled items, and measure its scores."""
    _check_name(loaded, flags)
    if note := constructed_note(loaded):
        print_note(f"note: {note}")
    judge = on_labels_scale(loaded, flags.scale)
    subject = judge.subject
    labelled = load_labels(
        flags.data or None,
        subject.name,
        subject,
        mapping=mapping(flags.map),
        values=values_of(flags.values),
        scale=flags.scale,
        annotations=flags.annotations,
    )
    for note in labelled.notes:
        print_note(f"note: {note}")
    items = items_of(labelled, subject.name, subject)
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
        keep_going=False,
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


def _measure_recorded(flags: argparse.Namespace) -> Measured:
    """As `_measure_judge` from recorded replies or scores."""
    if (flags.dimension is None) == (flags.pairwise is None):
        raise SettingsError("say what was judged: --dimension NAME, or --pairwise NAME for pairs")
    name = flags.dimension or flags.pairwise
    subject = find_subject(name)
    name = subject.name if subject else name
    words = values_of(flags.values)
    labelled = load_labels(
        flags.data or None,
        name,
        subject,
        mapping=mapping(flags.map),
        values=words,
        annotations=flags.annotations,
        recorded=True,
        pairwise=flags.pairwise is not None,
    )
    items, scale = items_of(labelled, name), subject.scale if subject else ()
    path = Path(flags.scores or flags.replies)
    if flags.scores:
        scored = from_scores(path, items, name)
    elif flags.pairwise:
        scored = only_prompt(path, from_pair_replies(path, items, name, words))
    else:
        scale = recorded_scale(flags.scale, subject)
        scored = only_prompt(path, from_replies(path, items, name, scale, words))
    return measure_scores(
        str(path), name, labelled, scored, level=flags.level, seed=flags.seed, scale=scale
    )


def recorded_scale(scale: str | None, subject: object) -> tuple[int, ...]:
    """The whole ratings of --scale, else the subject's; SettingsError where neither is known."""
    bounds = bounds_of(scale) if scale else None
    if bounds is not None:
        return whole_ratings(bounds)
    if isinstance(subject, Dimension):
        return subject.scale
    raise SettingsError("--scale LOW-HIGH is needed: the dimension is not in the catalogue")
