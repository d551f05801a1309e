"""The command `label`: serve a page on this machine on which people label outputs."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from dspy_judges.errors import SettingsError
from judges import catalog
from judges.cli.flags import JUDGE_HELP, Parser, add_flags, add_model_flags, request_options
from judges.client import BudgetSpentError
from judges.definition import make_comparison, make_dimension
from judges.dimension import Subject
from judges.judgement import AnyJudgement, Preference
from judges.labels.cells import value_at
from judges.labels.names import is_text_name, judge_name
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.rating_columns import similar_name
from judges.labels.readers import STARTER_FILE_BY_NAME, read_items
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.panel import AnyJudge
from judges.tables.atomic_write import exclusive_lock
from judges.tables.problems import count_text
from judges.tables.xlsx import split_sheet
from judges.terminal import Progress, print_note, print_notes, print_output
from judges.text_columns import find_columns
from optimize.figures.as_text import command_text
from optimize.inputs.flags import (
    CommandOutcome,
    fit_subject,
    judge_scale,
    parse_scale,
    run_and_print,
)
from optimize.inputs.labelled import PASS_FAIL, AnyLabels, LabelSource
from optimize.inputs.subjects import find_subject, new_judge_texts, unread_columns, usable_texts
from optimize.label_page.server import LabelServer
from optimize.label_page.session import JudgeAnswer, LabelSession, answer_numbers
from optimize.task_flags import load_judges

# On the page, each answer has a digit as its key, and there are ten digits.
MAX_ANSWERS = 10
MIN_LABELS_TO_TUNE = 50
ABOUT = """\
Open a page on this machine on which people label one output (or pair) at a
time. The page does not name its system, and shows the outputs of a document one
after another. Every label is saved at once; run the same command again to
continue. If several people label, the page shows where they disagree."""
EXAMPLES = """\
examples:
  dspy-judges label starter_unlabelled --dimension relevance
  dspy-judges label outputs.csv --dimension 'helpful=it answers what was asked'
  dspy-judges label outputs.csv --dimension clear --scale 1-5 --judge clear.json
  dspy-judges label pairs.jsonl --pairwise better
exit codes: 0 ended by Ctrl-C, 1 failed, 2 wrong usage"""


def parser() -> Parser:
    command_parser = Parser(prog="dspy-judges label", description=ABOUT, epilog=EXAMPLES)
    add = command_parser.add_argument
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(STARTER_FILE_BY_NAME)}")
    subject_flags = command_parser.add_mutually_exclusive_group(required=True)
    help_text = "a catalogue name, FILE.yaml, or any name: NAME or 'NAME=what it means'"
    add_flags(subject_flags, "--dimension", help=help_text)
    add_flags(subject_flags, "--pairwise")
    add("--out", type=Path, metavar="FILE.jsonl", help="file of labels (default: FILE.NAME.jsonl)")
    add_flags(command_parser, "--map", "--turns", "--quiet")
    help_text = "the scale of ratings (default: the catalogue's scale, else pass or fail)"
    add_flags(command_parser, "--scale", help=help_text)
    help_text = f"a judge; its answers that differ from yours are shown at the end: {JUDGE_HELP}"
    add("--judge", metavar="JUDGE", help=help_text)
    add("--port", type=int, default=0, metavar="N", help="the page's port (default: any free)")
    add_model_flags(command_parser, ", for each start")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, label)


def label(flags: Namespace) -> CommandOutcome:
    """Serve the label page until Ctrl-C; return the command that tunes on its labels."""
    label_source = LabelSource.of(flags.file, map=flags.map, scale=flags.scale)
    flags.scale = label_source.scale  # a mapping file may name it
    are_pairs = flags.pairwise is not None
    items_to_label = read_items(flags.file, map=label_source.options.mapping, pairwise=are_pairs)
    if isinstance(items_to_label, LabelledPairs):
        text_names = usable_texts(items_to_label.reading.texts, items_to_label)
        input_names, field_by_output = text_names, {"A": "response_a", "B": "response_b"}
    else:
        text_names = new_judge_texts(items_to_label, label_source.options)
        *input_names, output_name = text_names
        field_by_output = {output_name: output_name}
    subject = _subject_to_label(flags, items_to_label, text_names)
    label_rows = _label_file_rows(items_to_label, flags.seed)
    label_path = _label_file_path(flags, items_to_label.name, subject)
    judge = _load_judge(flags, subject)
    with exclusive_lock(label_path):
        session = LabelSession(
            subject=subject,
            rows=label_rows,
            text_fields=input_names,
            output_fields=field_by_output,
            path=label_path,
            seed=flags.seed,
        )
        try:
            shown_texts = (*input_names, *field_by_output.values())
            unread_text = unread_columns(items_to_label.reading, shown_texts)
            unread_notes = [f"columns not read: {unread_text}"] if unread_text else []
            print_notes([*items_to_label.notes, *unread_notes, *session.label_log.notes])
            if judge:
                session.judge_answers = _ask_judge(judge, label_rows, flags, subject)
            with LabelServer(session, flags.port) as server, suppress(KeyboardInterrupt):
                answers_text = ", ".join(map(str, answer_numbers(subject)))
                print_output(f"{subject.name}: {answers_text}", f"labels go to {label_path}")
                print_output(f"open {server.address}")
                print_output("Ctrl-C ends; run the same command again to continue")
                server.serve_forever()
        finally:
            n_labels = session.label_log.close()
    if not n_labels:
        return CommandOutcome(None, ["", "nothing was labelled"])
    labels_text = f"{count_text(n_labels, 'label')} in {label_path}"
    if n_labels < MIN_LABELS_TO_TUNE:
        labels_text += f"; {MIN_LABELS_TO_TUNE} labels on 20 documents are enough to start tuning"
    mapped_texts = [name for name in text_names if name in label_source.options.columns_by_name]
    next_step_text = _tune_command(flags, subject, label_path, mapped_texts)
    if SWAP_SAMPLE_COLUMN in label_rows[0]:
        next_step_text = f"run verify --against with --changed {shlex.quote(str(label_path))}"
    return CommandOutcome(None, ["", labels_text, f"next: {next_step_text}"])


def _tune_command(flags: Namespace, subject: Subject, path: Path, mapped_texts: list[str]) -> str:
    subject_flag = "pairwise" if flags.pairwise else "dimension"
    subject_text = flags.pairwise or flags.dimension
    if not find_subject(subject_text):
        _, _, definition = subject_text.partition("=")
        subject_text = f"{subject.name}={definition}" if definition else subject.name
    values = {"data": str(path), subject_flag: subject_text, "scale": flags.scale}
    # The label file has these texts by their new names. Unusual names are only read by --map.
    map_flags = [f"{name}={name}" for name in mapped_texts if not is_text_name(name)]
    return command_text("tune", **values, map=map_flags)


def _label_file_rows(items_to_label: AnyLabels, seed: int) -> list[Mapping[str, object]]:
    """Return a row for each output or pair, without labels; a pair's sides are shuffled."""
    if isinstance(items_to_label, LabelledSet):
        return [output.row for output in items_to_label.outputs]
    rows: list[Mapping[str, object]] = []
    for pair in items_to_label.pairs:
        responses = [(pair.response_a, pair.system_a), (pair.response_b, pair.system_b)]
        shuffled_responses = Random(f"{seed} {pair.id}").sample(responses, 2)
        row = {"id": pair.id, "group": pair.document_id, **pair.texts}
        for side, (response, system) in zip("ab", shuffled_responses, strict=True):
            row[f"response_{side}"] = response
            if system:
                row[f"system_{side}"] = system
        rows.append(row)
    return rows


def _subject_to_label(flags: Namespace, items: AnyLabels, text_names: Sequence[str]) -> Subject:
    """Return the subject to label, by default of pass and fail; SettingsError for wrong flags."""
    subject_text = flags.dimension or flags.pairwise or ""
    written_name, _, definition = map(str.strip, subject_text.partition("="))
    if flags.scale and (flags.pairwise or not parse_scale(flags.scale)):
        raise SettingsError(f"--scale {flags.scale}: a scale is for ratings, as in 1-5")
    name = judge_name(written_name)
    subject = None if definition else find_subject(written_name) or find_subject(name)
    if subject is None:
        known_names = {*catalog.SUBJECT_BY_NAME, *items.reading.ratings, *items.reading.unread}
        suggestion = similar_name(name, known_names)
        if suggestion and not definition and name not in map(judge_name, known_names):
            advice = f"did you mean {suggestion}? If not, say what it means: '{name}=...'"
            raise SettingsError(f"{name}: {advice}")
        if isinstance(items, LabelledPairs):
            subject = make_comparison(name, text_names, items.candidate, definition)
        else:
            answers = judge_scale(flags.scale) or PASS_FAIL
            subject = make_dimension(name, answers, text_names, definition)
    subject = fit_subject(subject, flags.scale, is_pairwise=flags.pairwise is not None)
    if (n_answers := len(answer_numbers(subject))) > MAX_ANSWERS:
        raise SettingsError(
            f"{subject.name} has {n_answers} answers, and the page has keys for {MAX_ANSWERS}; "
            "give people fewer answers, as in --scale 1-10"
        )
    return subject


def _load_judge(flags: Namespace, subject: Subject) -> AnyJudge | None:
    """Return the judge of --judge; raises SettingsError if people may give other answers."""
    if flags.judge is None:
        return None
    ((_, judge),) = load_judges(flags, [("", flags.judge)], flags.lm or "", flags.scale)
    if judge.kind != subject.kind or judge.subject.scale != subject.scale:
        answers_text = ", ".join(map(str, answer_numbers(subject)))
        raise SettingsError(
            f"--judge {flags.judge}: a {judge.kind} judge, which does not give the answers of "
            f"{subject.name}; name a judge that answers {answers_text}"
        )
    return judge


def _ask_judge(
    judge: AnyJudge, label_rows: Sequence[Mapping[str, object]], flags: Namespace, subject: Subject
) -> dict[str, JudgeAnswer]:
    """Return the judge's answers by row id; a limit on calls or cost may leave out rows."""
    columns = find_columns(judge.subject, {}, label_rows, print_note)
    texts_by_row = ({name: value_at(row, c) for name, c in columns.items()} for row in label_rows)
    answer_by_id: dict[str, JudgeAnswer] = {}
    with (
        judge.open_client(keep_going=False, **request_options(flags)) as client,
        Progress(judge.name, len(label_rows), sys.stderr, budget=client.account.budget) as progress,
    ):
        judgements = judge.judge_rows(texts_by_row, client, seed=flags.seed)
        try:
            for row, judgement in zip(label_rows, progress.track(judgements), strict=True):
                if judgement.failure is None:
                    answer_by_id[str(row["id"])] = _page_answer(judgement, subject)
        except BudgetSpentError as error:
            print_note(f"note: {error}. Judged {len(answer_by_id):,} of {len(label_rows):,} rows")
    return answer_by_id


def _page_answer(judgement: AnyJudgement, subject: Subject) -> JudgeAnswer:
    """Return a judgement for the page, with the possible answer that is nearest to its score."""
    rationale, score = judgement.rationale or "", judgement.score
    if isinstance(judgement, Preference):
        return JudgeAnswer(judgement.preferred, score, rationale)
    number_by_answer = answer_numbers(subject)
    nearest_answer = min(number_by_answer, key=lambda answer: abs(number_by_answer[answer] - score))
    return JudgeAnswer(nearest_answer, score, rationale)


def _label_file_path(flags: Namespace, file_name: str, subject: Subject) -> Path:
    """Return the path of the label file: --out, else FILE's name with .NAME.jsonl."""
    path_to_label = split_sheet(Path(flags.file))[0]
    folder = path_to_label.parent if path_to_label.is_file() else Path()
    label_path: Path = flags.out or folder / f"{file_name}.{subject.name}.jsonl"
    if label_path.suffix != ".jsonl":
        raise SettingsError(f"--out {label_path}: labels are written to a file that ends in .jsonl")
    if not label_path.parent.is_dir():
        raise LabelError(f"{label_path}: the folder {label_path.parent} does not exist")
    return label_path
