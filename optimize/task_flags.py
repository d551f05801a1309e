"""Read what a command's flags name: people's labels, the judges to measure, and recordings."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import get_args

import numpy as np

from dspy_judges.errors import SettingsError
from judges.cli.costs import CostEstimate, estimate_costs, total_estimate
from judges.cli.flags import (
    READING_FLAGS,
    Parser,
    add_flags,
    note_constructed_labels,
    read_map_flags,
    split_named_value,
)
from judges.client import check_model_name, price_of
from judges.dimension import Comparison, Subject
from judges.labels.cells import without_keys
from judges.labels.readers import read_items
from judges.labels.types import LabelError, LabelledSet
from judges.labels.values import WordValues, looks_like_number
from judges.loading import load
from judges.panel import AnyJudge
from judges.protocol import is_embedded
from judges.tables.problems import count_text
from judges.terminal import print_error, print_note, print_notes
from optimize.inputs.flags import parse_scale, parse_values
from optimize.inputs.labelled import LabelSource, load_labels, only_dimension, verdict_words
from optimize.inputs.subjects import dimension_name, find_subject
from optimize.measuring.asking import JudgeEntry, Task, asked_models, on_label_scale, recorded_scale
from optimize.measuring.changed_swap import NEEDS_VERDICTS_MESSAGE
from optimize.measuring.exports import read_tool_results
from optimize.measuring.recorded import (
    SCORE_BY_WORD,
    JudgementsById,
    Recording,
    check_numbers,
    ids_are_numbers,
    read_own_scores,
)
from optimize.measuring.replies import read_reply_judgements
from optimize.measuring.scored import tuned_ids
from optimize.statistics.correlations import Level

# The name of a judge in a command, and the judge.
NamedJudge = tuple[str, AnyJudge]


def add_task_flags(group: Parser) -> None:
    """Add the flags for recordings, for what is judged, and for its labels."""
    add = group.add_argument
    add_repeatable = partial(add, metavar="FILE", action="append", default=[])
    add_repeatable("--scores", help="recorded scores of any judge")
    add_repeatable("--replies", help="recorded raw replies of any judge")
    add_flags(group, "--dimension", "--pairwise", "--data", *READING_FLAGS, "--annotations")
    add_flags(group, "--scale", "--json", "--verbose", "--quiet")
    levels = ("auto", *get_args(Level))
    help_text = f"level of rho: {', '.join(levels)} (auto)"
    add("--level", choices=levels, default="auto", metavar="LEVEL", help=help_text)
    group.set_defaults(changed=None)  # `verify` has the flag --changed


def set_only_dimension(flags: Namespace) -> None:
    """Set --dimension to the only dimension in --data, if no flag and no JUDGE names one."""
    is_dimension_named = flags.judges or flags.dimension or flags.pairwise
    if flags.data and flags.changed is None and not is_dimension_named:
        flags.dimension = only_dimension(LabelSource.from_flags(flags).read_outputs())


def read_task(
    flags: Namespace, judge_arguments: Iterable[tuple[str, str]], lm: str = ""
) -> tuple[Task, list[JudgeEntry]]:
    """Return the task that flags name, and an entry for each judge and each recording.

    `judge_arguments` are pairs of a name (or "") and JUDGE[@MODEL]; a judge without @MODEL gets the
    model `lm`, if any. With `verify --changed`, labels are not read.
    """
    label_source = LabelSource.from_flags(flags)
    judges = load_judges(flags, judge_arguments, lm, label_source.scale)
    set_only_dimension(flags)
    dimension, subject, is_pairwise = _find_subject(flags, judges)
    if flags.changed is None:
        known_subject = subject if judges else None
        labels = load_labels(label_source, dimension, known_subject, is_pairwise=is_pairwise)
        task = Task.from_labels(labels, dimension, flags.level)
    elif is_pairwise or isinstance(subject, Comparison):
        raise SettingsError(NEEDS_VERDICTS_MESSAGE)
    else:
        task = _unlabelled_task(flags, dimension, judges)
    print_notes(task.labels.notes)
    entries = [JudgeEntry(name=name, judge=one, items=task.items(one)) for name, one in judges]
    return task, [*entries, *_read_recordings(flags, subject, task, label_source.scale)]


def read_task_on_all_outputs(label_source: LabelSource, dimension_spec: str | None) -> Task:
    """Return a task on all outputs, some of them with labels on one dimension.

    The dimension is that of --dimension, else the only dimension of the labels. An output whose
    annotators are tied counts half a pass.
    """
    label_scale = parse_scale(label_source.scale)
    labelled_set = label_source.read_outputs(
        dimensions=dimension_spec and [dimension_name(dimension_spec)],
        scales=label_scale and {"*": label_scale},
    )
    dimension = only_dimension(labelled_set)
    task, notes = task_on_all_outputs(labelled_set, dimension), [*labelled_set.notes]
    n_tied = int((task.items().human == 0.5).sum())
    if n_tied and dimension in labelled_set.words:
        outputs_text = count_text(n_tied, "output")
        notes.insert(0, f"annotators are tied on {outputs_text}, each of which counts half a pass")
    print_notes(notes)
    return task


def task_on_all_outputs(labelled_set: LabelledSet, dimension: str) -> Task:
    return Task(dimension=dimension, labels=labelled_set, level="dataset", with_unlabelled=True)


def read_judgements_by_id(scores_argument: str, task: Task) -> JudgementsById:
    """Return the judgements in the file of --scores, by the output's id.

    Rows that the judge was tuned on are left out, since the judge errs less on them.
    """
    metric, file = split_named_value(scores_argument)
    recording = _read_scores(Path(file), task, metric, {})
    _print_notes(recording)
    if recording.tuned_ids:
        scores_text = count_text(len(recording.tuned_ids), "score")
        print_note(f"note: {scores_text} left out: the judge was tuned on them")
    judgement_by_id = without_keys(recording.judgement_by_id, recording.tuned_ids)
    if not any(item.id in judgement_by_id for item in task.labels.items):
        raise LabelError(f"{Path(file).name}: no id is the id of an output in {task.labels.name}")
    return judgement_by_id


def _read_scores(path: Path, task: Task, metric: str, value_by_word: WordValues) -> Recording:
    """Read scores from another tool's results, or in our own format, where words may be scores."""
    labels, dimension = task.labels, task.dimension
    if (tool_recording := read_tool_results(path, dimension, labels, metric)) is not None:
        return tool_recording
    if words := labels.words.get(dimension):
        value_by_word = {**SCORE_BY_WORD, words[0]: 1.0, words[1]: 0.0, **value_by_word}
    recording = read_own_scores(path, dimension, value_by_word, is_pairwise=labels.is_pairwise)
    if ids_are_numbers(labels) and (note := check_numbers(path, labels)):
        return recording._replace(notes=(note,))
    return recording


def _find_subject(flags: Namespace, judges: list[NamedJudge]) -> tuple[str, Subject | None, bool]:
    """Return the name of what is judged, its definition if known, and whether pairs are judged."""
    dimension_argument = flags.dimension or flags.pairwise
    if (flags.dimension and flags.pairwise) or not (dimension_argument or judges):
        raise SettingsError("say what was judged: --dimension NAME, or --pairwise NAME for pairs")
    subject = find_subject(dimension_argument) if dimension_argument else judges[0][1].subject
    name = subject.name if subject else dimension_argument
    is_pairwise = bool(flags.pairwise) if dimension_argument else isinstance(subject, Comparison)
    all_inputs = dict[str, str]()
    for judge_name, judge in judges:
        if judge.name != name or judge.subject.is_pairwise != is_pairwise:
            raise SettingsError(
                f"{judge_name} is about {judge.name!r} ({judge.kind}), not {name!r}: leave it out, "
                "or name what it judges by --dimension or --pairwise"
            )
        all_inputs |= judge.subject.inputs
        # Judges of the same subject may read different texts: the subject gets all of them.
        subject = replace(judges[0][1].subject, inputs=all_inputs)
    return name, subject, is_pairwise


def _unlabelled_task(flags: Namespace, dimension: str, judges: list[NamedJudge]) -> Task:
    """Return a task on the outputs of --data that no judge was tuned on; labels are ignored."""
    if not flags.data:
        raise SettingsError("--changed: name the outputs by --data FILE; they need no labels")
    labelled_set = read_items(flags.data, map=read_map_flags(flags.map) or None)
    assert isinstance(labelled_set, LabelledSet)
    task = task_on_all_outputs(labelled_set, dimension)
    ids_tuned_on = {row_id for _, judge in judges for row_id in tuned_ids(judge, task.items(judge))}
    new_outputs = tuple(one for one in labelled_set.outputs if one.id not in ids_tuned_on)
    if not new_outputs:
        raise LabelError(f"{labelled_set.name}: a judge was tuned on all outputs; bring new ones")
    if ids_tuned_on:
        outputs_text = count_text(len(ids_tuned_on), "output")
        print_note(f"note: left out {outputs_text} that a judge was tuned on")
    return replace(task, labels=replace(labelled_set, outputs=new_outputs))


def _read_recordings(
    flags: Namespace, subject: Subject | None, task: Task, scale_text: str | None
) -> Iterator[JudgeEntry]:
    value_by_word = parse_values(flags.values)
    if flags.scores and any(map(looks_like_number, value_by_word)):
        print_note("note: numbers in --values apply to labels; scores that are numbers are kept")
    scale = () if task.is_pairwise else recorded_scale(scale_text, subject)
    label_words = verdict_words(task.labels, task.dimension)
    if label_words and (subject is None or subject.scale == (0, 1)):
        pass_word, fail_word = label_words
        scale, value_by_word = (0, 1), {pass_word: 1.0, fail_word: 0.0, **value_by_word}
    if flags.replies and not (scale or task.is_pairwise):
        raise SettingsError("--scale LOW-HIGH is needed: the dimension is not in the catalogue")
    for name, file in map(split_named_value, flags.scores):
        recording = _read_scores(Path(file), task, name, value_by_word)
        yield _make_entry(name or Path(file).stem, task, recording, scale)
    for name, file in map(split_named_value, flags.replies):
        recording = read_reply_judgements(
            Path(file), task.dimension, scale, value_by_word, is_pairwise=task.is_pairwise
        )
        yield _make_entry(name or Path(file).stem, task, recording, scale)


def _make_entry(name: str, task: Task, recording: Recording, scale: Sequence[int]) -> JudgeEntry:
    """Make a recording's entry; warn if its scores equal all labels, or if a label has none."""
    _print_notes(recording)
    scored_items = task.match_judgements(
        name, recording.judgement_by_id, None, scale, recording.tuned_ids
    )
    if np.array_equal(scored_items.scores, scored_items.human):
        print_error(f"warning: {name}: every score equals people's label: did a judge give them?")
    if scored_items.n_unjudged:
        unjudged_text = count_text(scored_items.n_unjudged, "labelled output")
        unlabelled_text = count_text(scored_items.n_unlabelled, "record")
        left_out_text = f"{unjudged_text} without a record, {unlabelled_text} without a label"
        print_error(f"warning: {name}: left out: {left_out_text}")
    return JudgeEntry(name=name, scored_items=scored_items)


def _print_notes(recording: Recording) -> None:
    print_notes(recording.notes)
    for warning in recording.warnings:
        print_error(f"warning: {warning}")


def load_judges(
    flags: Namespace, judge_arguments: Iterable[tuple[str, str]], lm: str, scale_text: str | None
) -> list[NamedJudge]:
    """Load the judges, and set them to the labels' scale and to the model that flags name."""
    judges, providers = list[NamedJudge](), set[str]()
    for name, argument in judge_arguments:
        # The first @ separates judge and model, since the name of a model may contain an @, too.
        judge_path, separator, model = argument.partition("@")
        if not separator or Path(argument).exists():
            judge_path, model = argument, lm
        if model:
            check_model_name(model)
        judge = on_label_scale(load(judge_path), scale_text).with_model(model or None)
        note_constructed_labels(judge)
        if not is_embedded(judge.lm):
            judge = judge.with_model(api_base=flags.api_base)
            providers.add(judge.lm.partition("/")[0])
        # By default, a judge is named by its file and folder: folders above do not describe it.
        default_name = "/".join(Path(judge_path).parts[-2:]) + (f"@{model}" if model else "")
        judges.append((name or default_name, judge))
    if len(providers) > 1 and (flags.api_base or flags.api_key_env):
        raise SettingsError(
            "--api-base and --api-key-env are for one provider, but "
            f"{', '.join(sorted(providers))} are asked: set each provider's address in the "
            "environment (OPENAI_BASE_URL, SYSTEMONE_BASE_URL), or score with one provider first "
            "and add its scores by --scores"
        )
    return judges


def check_names(judge_entries: Sequence[JudgeEntry]) -> None:
    """Raise SettingsError for fewer than two judges, or for two judges with the same name."""
    if len(judge_entries) < 2:
        raise SettingsError("name two judges or more: JUDGE, --lm, --scores or --replies")
    for name, n_judges in Counter(entry.name for entry in judge_entries).items():
        if n_judges > 1:
            raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")


def cost_lines(judge_entries: Sequence[JudgeEntry], price: tuple[float, float] | None) -> list[str]:
    """Return lines with the estimated cost of each judge that will be asked, and of all."""
    estimate = partial(estimate_costs, lms=asked_models(judge_entries), price=price_of(price))
    costs_by_name: dict[str, list[CostEstimate]] = {}
    for entry in judge_entries:
        if entry.judge is None or entry.sends_no_request:
            continue
        n_rows = len(entry.items)
        n_characters = sum(len(text) for item in entry.items for text in item.texts.values())
        costs = estimate(entry.judge, n_rows=n_rows, n_characters=n_characters)
        costs_by_name[entry.name] = [cost for cost in costs if not all(map(is_embedded, cost.lms))]
    if len(costs_by_name) > 1:
        costs_by_name["all together"] = [*chain.from_iterable(costs_by_name.values())]
    lines = [f"{name}: {total_estimate(costs)}" for name, costs in costs_by_name.items()]
    return lines or ["no paid model is asked: free"]
