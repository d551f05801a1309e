"""The command `label`: serve a page on this machine on which people label outputs."""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from judges import catalog
from judges.cli.flags import JUDGE_HELP, add_model_flags, read_map_flags
from judges.client import BudgetSpentError
from judges.definition import make_comparison, make_dimension
from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement, Preference
from judges.labels.flags import split_mapping
from judges.labels.names import judge_name
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.rating_columns import similar_name
from judges.labels.readers import STARTER_FILE_BY_NAME, read_items
from judges.labels.types import LabelledPairs, LabelledSet
from judges.panel import AnyJudge
from judges.tables.atomic_write import exclusive_lock
from judges.tables.problems import count_text
from judges.tables.xlsx import split_sheet
from judges.terminal import DONE_EXIT_CODE, Progress, print_lines, print_note, run_command
from judges.text_columns import find_columns
from optimize.inputs.flags import (
    MAP_HELP,
    CommandParser,
    SettingsError,
    add_turns_flag,
    find_label_scale,
    parse_judge_scale,
    parse_label_scale,
    rescale_subject,
)
from optimize.inputs.labelled import PASS_FAIL, AnyLabels
from optimize.inputs.subjects import find_subject, text_names_for_judge, usable_texts
from optimize.label_page.server import LabelServer
from optimize.label_page.session import JudgeAnswer, LabelSession, answer_numbers
from optimize.measuring.task_flags import asking_options, load_judges

COMMAND_NAME = "dspy-judges label"
MAX_ANSWERS = 10
MIN_LABELS_TO_TUNE = 50
ABOUT = """\
Open a page on this machine to give labels: one output (or pair) at a time,
without its system, the outputs of a document together. Every label is saved
before the next output is shown; run the same command again to continue. Several
people may label in turn; their disagreements are shown at the end."""
EXAMPLES = """\
examples:
  dspy-judges label starter_unlabelled --dimension relevance
  dspy-judges label outputs.csv --dimension 'helpful=it answers what was asked'
  dspy-judges label outputs.csv --dimension clear --scale 1-5 --judge clear.json
  dspy-judges label pairs.jsonl --pairwise better
exit codes: 0 ended by Ctrl-C, 1 failed, 2 wrong usage"""


def parser() -> CommandParser:
    command_parser = CommandParser(prog=COMMAND_NAME, description=ABOUT, epilog=EXAMPLES)
    add = command_parser.add_argument
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(STARTER_FILE_BY_NAME)}")
    group = command_parser.add_mutually_exclusive_group(required=True)
    help_text = "a catalogue name, FILE.yaml, or any name: NAME or 'NAME=what it means'"
    group.add_argument("--dimension", metavar="NAME", help=help_text)
    group.add_argument("--pairwise", metavar="NAME", help="the same, for pairs: which is better")
    help_text = "the labels (FILE's name with .NAME.jsonl)"
    add("--out", type=Path, metavar="FILE.jsonl", help=help_text)
    add_repeatable = partial(add, action="append", default=[])
    add_repeatable("--map", metavar="NAME=COLUMN", help=MAP_HELP)
    help_text = "the scale of ratings (the catalogue's; for other names pass or fail)"
    add("--scale", metavar="LOW-HIGH", help=help_text)
    add_turns_flag(command_parser)
    help_text = f"a judge; its answers that differ from yours are shown at the end: {JUDGE_HELP}"
    add_repeatable("--judge", metavar="JUDGE", help=help_text)
    add("--port", type=int, default=0, metavar="N", help="the port of the page (any free port)")
    add_model_flags(command_parser, limits=" for each start")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Run `dspy-judges label`; returns 0 after Ctrl-C, 1 after an error, 2 for wrong usage."""
    flags = parser().parse_args(arguments)
    return run_command(COMMAND_NAME, lambda: label(flags), quiet=flags.quiet)


def label(flags: argparse.Namespace) -> int:
    """Serve the label page until Ctrl-C, and print the command that tunes on its labels."""
    flags.scale = find_label_scale(flags)
    columns = split_mapping(read_map_flags(flags.map), None).columns
    labelled = read_items(flags.file, map=columns or None, pairwise=flags.pairwise is not None)
    if isinstance(labelled, LabelledPairs):
        texts = usable_texts(labelled.reading.texts, labelled)
        inputs, outputs = texts, {"A": "response_a", "B": "response_b"}
    else:
        texts = text_names_for_judge(labelled, columns)
        inputs, outputs = texts[:-1], {texts[-1]: texts[-1]}
    subject = _label_subject(flags, labelled, texts)
    rows, out = _label_rows(labelled, flags.seed), _label_file_path(flags, labelled, subject)
    judge = _load_judge(flags, subject)
    with exclusive_lock(out):
        session = LabelSession(
            subject=subject,
            rows=rows,
            text_fields=inputs,
            output_fields=outputs,
            path=out,
            seed=flags.seed,
        )
        for note in (*labelled.notes, *session.log.notes):
            print_note(f"note: {note}")
        session.judge_answers = _ask_judge(judge, rows, flags, subject) if judge else None
        with LabelServer(session, flags.port) as server, suppress(KeyboardInterrupt):
            lines = [
                f"{subject.name}: {', '.join(map(str, answer_numbers(subject)))}",
                f"labels go to {out}",
                f"open {server.address}",
                "Ctrl-C ends; run the same command again to continue",
            ]
            print_lines(lines)
            server.serve_forever()
        n_labels = session.log.close()
    if not n_labels:
        print_lines(["", "nothing was labelled"])
        return DONE_EXIT_CODE
    labels_text = f"{count_text(n_labels, 'label')} in {out}"
    if n_labels < MIN_LABELS_TO_TUNE:
        labels_text += f"; {MIN_LABELS_TO_TUNE} on 20 documents are enough to start tuning"
    next_step = _tune_command(flags, subject, out)
    if SWAP_SAMPLE_COLUMN in rows[0]:
        next_step = f"verify --against again, with --changed {shlex.quote(str(out))}"
    print_lines(["", labels_text, f"next: {next_step}"])
    return DONE_EXIT_CODE


def _tune_command(flags: argparse.Namespace, subject: Subject, out: Path) -> str:
    flag, spec = "--dimension", flags.dimension
    if flags.pairwise:
        flag, spec = "--pairwise", flags.pairwise
    if not find_subject(spec):
        _, _, definition = spec.partition("=")
        spec = f"{subject.name}={definition}" if definition else subject.name
    scale = ["--scale", flags.scale] if flags.scale else []
    return shlex.join(["dspy-judges", "tune", "--data", str(out), flag, spec, *scale])


def _label_rows(labelled: AnyLabels, seed: int) -> list[Mapping[str, object]]:
    """Return each output's or pair's fields for the label file; a pair's order is random."""
    if isinstance(labelled, LabelledSet):
        return [output.row for output in labelled.outputs]
    rows: list[Mapping[str, object]] = []
    for item in labelled.pairs:
        first, second = (item.response_a, item.system_a), (item.response_b, item.system_b)
        sides = Random(f"{seed} {item.id}").sample([first, second], 2)
        row = {"id": item.id, "group": item.document_id, **item.texts}
        for side, (response, system) in zip("ab", sides, strict=True):
            row[f"response_{side}"] = response
            if system:
                row[f"system_{side}"] = system
        rows.append(row)
    return rows


def _label_subject(flags: argparse.Namespace, labelled: AnyLabels, texts: Sequence[str]) -> Subject:
    """Return the dimension or comparison to label; SettingsError if flags contradict each other."""
    spec, bounds = flags.dimension or flags.pairwise or "", parse_label_scale(flags.scale)
    title, _, definition = map(str.strip, spec.partition("="))
    if flags.scale and (flags.pairwise or not bounds):
        raise SettingsError(f"--scale {flags.scale}: a scale is for ratings, as in 1-5")
    name = judge_name(title)
    subject = None if definition else find_subject(title) or find_subject(name)
    if subject is None:
        subject = _new_subject(name, definition, labelled, texts, flags.scale)
    elif isinstance(subject, Comparison) is not isinstance(labelled, LabelledPairs):
        flag = "--pairwise" if isinstance(subject, Comparison) else "--dimension"
        raise SettingsError(f"{subject.name}: name it by {flag}")
    else:
        subject = rescale_subject(subject, flags.scale)
    if (n_answers := len(answer_numbers(subject))) > MAX_ANSWERS:
        raise SettingsError(
            f"{subject.name} has {n_answers} answers, and the page has keys for {MAX_ANSWERS}; "
            "give people fewer answers, as in --scale 1-10"
        )
    return subject


def _new_subject(
    name: str, definition: str, labelled: AnyLabels, texts: Sequence[str], scale: str | None
) -> Subject:
    """Make a subject that is not in the catalogue: pairs, ratings on a scale, or pass and fail."""
    names = {*catalog.SUBJECT_BY_NAME, *labelled.reading.ratings, *labelled.reading.unread}
    if not definition and name not in names and (suggestion := similar_name(name, names)):
        raise SettingsError(
            f"{name}: did you mean {suggestion}? If not, say what it means: '{name}=...'"
        )
    if isinstance(labelled, LabelledPairs):
        return make_comparison(name, texts, labelled.candidate, definition)
    return make_dimension(name, parse_judge_scale(scale) or PASS_FAIL, texts, definition)


def _load_judge(flags: argparse.Namespace, subject: Subject) -> AnyJudge | None:
    """Return the judge of --judge; SettingsError if its possible answers differ from people's."""
    if not flags.judge:
        return None
    if len(flags.judge) > 1:
        raise SettingsError(f"--judge {' --judge '.join(flags.judge)}: name one judge")
    _, judge = load_judges(flags, [("", flags.judge[0])], flags.lm or "")[0]
    if judge.kind != subject.kind or judge.subject.scale != subject.scale:
        answers = ", ".join(map(str, answer_numbers(subject)))
        raise SettingsError(
            f"--judge {flags.judge[0]}: a {judge.kind} judge, which does not give the answers of "
            f"{subject.name}; name a judge that answers {answers}"
        )
    return judge


def _ask_judge(
    judge: AnyJudge,
    rows: Sequence[Mapping[str, object]],
    flags: argparse.Namespace,
    subject: Subject,
) -> dict[str, JudgeAnswer]:
    """Return the judge's answers by the rows' ids, as many as limits allow."""
    columns, answers = find_columns(judge.subject, {}, rows[0]), dict[str, JudgeAnswer]()
    texts = ({name: row.get(column) for name, column in columns.items()} for row in rows)
    with (
        judge.open_client(keep_going=False, **asking_options(flags)) as client,
        Progress(judge.name, len(rows), sys.stderr, budget=client.account.budget) as progress,
    ):
        judgements = judge.judge_rows(texts, client, seed=flags.seed)
        try:
            for row, judgement in zip(rows, judgements, strict=True):
                progress.step(failed=judgement.failure is not None)
                if judgement.failure is None:
                    answers[str(row["id"])] = _page_answer(judgement, subject)
        except BudgetSpentError as error:
            print_note(f"note: {error}: {len(answers):,} of {len(rows):,} are judged")
    return answers


def _page_answer(judgement: AnyJudgement, subject: Subject) -> JudgeAnswer:
    """Return a judgement as the page shows it, with the possible answer nearest to its score."""
    numbers = answer_numbers(subject)
    value = min(numbers, key=lambda answer: abs(numbers[answer] - judgement.score))
    if isinstance(judgement, Preference):
        value = judgement.preferred
    return JudgeAnswer(value, judgement.score, judgement.rationale or "")


def _label_file_path(flags: argparse.Namespace, labelled: AnyLabels, subject: Subject) -> Path:
    """Return --out, by default FILE's name with .NAME.jsonl; SettingsError for another format."""
    file = split_sheet(Path(flags.file))[0]
    folder = file.parent if file.is_file() else Path()
    out: Path = flags.out or folder / f"{labelled.name}.{subject.name}.jsonl"
    if out.suffix != ".jsonl":
        raise SettingsError(f"--out {out}: labels are written to a file that ends with .jsonl")
    return out
