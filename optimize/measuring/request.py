"""From a command's flags to what is judged and to all that judge it: judges and recordings."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast, get_args

import numpy as np

from judges.cli.flags import Flags, constructed_note, mapping, request_options, split_name
from judges.cli.table import total_estimate
from judges.client import ModelOptions, check_name
from judges.dimension import Comparison, Subject
from judges.labels.readers import read_labels
from judges.labels.values import Values
from judges.loading import load
from judges.protocol import is_embedded
from judges.terminal import print_error, print_note
from optimize.inputs.flags import ANNOTATIONS, SettingsError, add_label_flags, values_of
from optimize.inputs.labelled import find_subject, load_labels, only_dimension, words_of
from optimize.measuring.asking import (
    Entry,
    Task,
    from_numbers,
    from_replies,
    on_labels_scale,
    recorded_scale,
)
from optimize.measuring.exports import read_scores
from optimize.statistics.correlations import Level


def add_task_flags(group: Flags) -> None:
    """What was recorded, what is judged, and the labels of it (a parser's or a group's flags)."""
    add = group.add_argument
    for flag, what in (("--scores", "numbers"), ("--replies", "raw replies")):
        add(flag, metavar="FILE", action="append", default=[], help=f"any judge's {what}")
    add("--dimension", metavar="NAME", help="what recordings are about: a name or FILE.yaml")
    add("--pairwise", metavar="NAME", help="the same, of pairs")
    add_label_flags(group)
    add("--annotations", metavar="FILE", help=ANNOTATIONS)
    about = "of the labels (the dimension's); 'any': only their order counts"
    add("--scale", metavar="LOW-HIGH", help=about)
    levels = ("auto", *get_args(Level))
    about = f"of rho: {', '.join(levels)} (auto)"
    add("--level", choices=levels, default="auto", metavar="LEVEL", help=about)


def name_dimension(flags: argparse.Namespace) -> None:
    """Set --dimension to the only one of --data where neither a flag nor a JUDGE names any."""
    if flags.data and not (flags.judges or flags.dimension or flags.pairwise):
        labelled = read_labels(
            flags.data,
            map=mapping(flags.map),
            values=values_of(flags.values),
            annotations=flags.annotations,
            texts=(),
        )
        flags.dimension = only_dimension(labelled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is judged: its name, its definition where one is known, and whether pairs are.

    The definition (`subject`) has the texts that all judges read.
    """

    name: str
    subject: Subject | None
    is_pairwise: bool

    @classmethod
    def of(cls, flags: argparse.Namespace, entries: Sequence[Entry]) -> "Request":
        """What the flags and all judges are about; SettingsError where they disagree."""
        word, judges = flags.dimension or flags.pairwise, [e.judge for e in entries if e.judge]
        if (flags.dimension and flags.pairwise) or not (word or judges):
            raise SettingsError(
                "say what was judged: --dimension NAME, or --pairwise NAME for pairs"
            )
        subject = find_subject(word) if word else judges[0].subject
        is_pairwise = bool(flags.pairwise) if word else isinstance(subject, Comparison)
        name = subject.name if subject else word
        for entry, judge in zip(entries, judges, strict=True):
            if judge.name != name or (judge.kind == "pairwise") != is_pairwise:
                raise SettingsError(
                    f"{entry.name} is about {judge.name!r} ({judge.kind}), not {name!r}: leave it "
                    "out, or name what it judges by --dimension or --pairwise"
                )
        if judges:
            # Most judges read the same texts.
            inputs = dict(chain.from_iterable(judge.subject.inputs.items() for judge in judges))
            subject = replace(judges[0].subject, inputs=inputs)
        return cls(name=name, subject=subject, is_pairwise=is_pairwise)


def read_task(flags: argparse.Namespace, judges: Sequence[Entry]) -> tuple[Task, list[Entry]]:
    """The labels that flags name, the judges about them, and the recordings that flags name.

    Raises SettingsError and LabelError for what the user has to mend; prints notes and warnings.
    """
    name_dimension(flags)
    request = Request.of(flags, judges)
    labelled = load_labels(
        flags.data or None,
        request.name,
        request.subject,
        values=values_of(flags.values),
        annotations=flags.annotations,
        mapping=mapping(flags.map),
        scale=flags.scale if judges else None,
        recorded=not judges,
        pairwise=request.is_pairwise,
    )
    return with_recordings(flags, request, Task.of(labelled, request.name, flags.level), judges)


def with_recordings(
    flags: argparse.Namespace, request: Request, task: Task, judges: Sequence[Entry]
) -> tuple[Task, list[Entry]]:
    """The task, the judges about what it holds, and the recordings that flags name."""
    values = values_of(flags.values)
    scale = () if request.is_pairwise else recorded_scale(flags.scale, request.subject)
    two = words_of(task.labelled, request.name)
    if two and (request.subject is None or request.subject.scale == (0, 1)):
        scale, values = (0, 1), {two[0]: 1.0, two[1]: 0.0, **values}
    if flags.replies and not (scale or request.is_pairwise):
        raise SettingsError("--scale LOW-HIGH is needed: the dimension is not in the catalogue")
    for note in task.labelled.notes:
        print_note(f"note: {note}")
    entries = [entry.about(task.items(entry.judge), flags.price) for entry in judges]
    return task, [*entries, *_recordings(flags, request, task, scale, values)]


def _recordings(
    flags: argparse.Namespace, request: Request, task: Task, scale: Sequence[int], values: Values
) -> Iterator[Entry]:
    """Yield each recording of --scores, then of --replies, beside the labels."""
    pairwise = request.is_pairwise
    for text in [*flags.scores, *flags.replies]:
        own_name, file = split_name(text)
        path = Path(file)
        if text in flags.scores:
            numbers = read_scores(path, request.name, task.labelled, print_error, own_name)
            by_id = from_numbers(numbers.items(), pairwise=pairwise)
        else:
            by_id = from_replies(path, request.name, scale, values, pairwise=pairwise)
        name = own_name or path.stem
        scored = task.scored(name, by_id, None, scale)
        if np.array_equal(scored.scores, scored.human):
            print_error(f"warning: {name}: every score is people's own label; is it theirs?")
        if scored.n_unjudged:
            print_error(
                f"warning: {name}: {scored.n_unjudged} labelled outputs have no record, and "
                f"{scored.n_unknown} records no labelled output: both are left out"
            )
        yield Entry(name=name, scored=scored)


def read_judges(
    flags: argparse.Namespace, specs: Iterable[tuple[str, str]], lm: str = ""
) -> list[Entry]:
    """The judges of NAME and JUDGE[@MODEL], each on the labels' scale; `lm` where no MODEL is.

    An address or a key that flags name are of one provider: SettingsError where several are asked.
    """
    entries, providers = [], set()
    for name, spec in specs:
        # The name of a model may hold another @.
        file, at, model = spec.partition("@")
        if not at or Path(spec).exists():
            file, model = spec, lm
        if model:
            check_name(model)
        judge = on_labels_scale(load(file), flags.scale).with_model(model or None)
        if note := constructed_note(judge):
            print_note(f"note: {note}")
        if not is_embedded(judge.lm):
            judge = judge.with_model(api_base=flags.api_base)
            providers.add(judge.lm.partition("/")[0])
        # Folders above say more of a machine than of a judge.
        own_name = "/".join(Path(file).parts[-2:]) + (f"@{model}" if model else "")
        entries.append(Entry(name=name or own_name, judge=judge))
    if len(providers) > 1 and (flags.api_base or flags.api_key_env):
        raise SettingsError(
            f"--api-base and --api-key-env are of one provider, and {', '.join(sorted(providers))} "
            "are asked: set the address of each in the environment (OPENAI_BASE_URL, "
            "SYSTEMONE_BASE_URL), or score with one first and join it by --scores"
        )
    return entries


def check_names(entries: Sequence[Entry]) -> None:
    """SettingsError for judges that are too few, or cannot be told apart."""
    (name, count), *others = Counter(entry.name for entry in entries).most_common() or [("", 0)]
    if count > 1:
        raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")
    if not others:
        raise SettingsError("name two judges or more: JUDGE, --lm, --scores or --replies")


def asking_options(flags: argparse.Namespace) -> ModelOptions:
    """How the judges' models are asked, and the limits for all of them."""
    limits = {"max_calls": flags.max_calls, "max_cost": flags.max_cost}
    return cast(ModelOptions, limits | request_options(flags))


def expectation_lines(entries: Sequence[Entry]) -> list[str]:
    """What each judge that is asked may take, before anything is sent, and all together."""
    paid = {entry.name: entry.expected for entry in entries if entry.expected}
    if len(paid) > 1:
        paid["all together"] = tuple(chain.from_iterable(paid.values()))
    lines = [f"{name}: {total_estimate(expected)}" for name, expected in paid.items()]
    return lines or ["no paid model is asked: free"]
