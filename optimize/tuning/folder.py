"""A run's folder: a new one, or the folder of an unfinished run, which continues."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.client import Store, endpoint_of
from judges.labels.splits import Splits
from judges.labels.types import LabelledPairs, LabelledSet
from judges.prompt import encodable
from judges.tables.atomic_write import in_use, write_atomically
from judges.tables.text import read_json_file
from optimize.figures.as_json import JsonObject, as_json
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.settings import CHANGEABLE, flag_of

CONFIG = "config.json"
SPLITS = "splits.json"
LABELS = "labels.jsonl"
REPLIES = "replies.sqlite"
TRIALS = "trials.jsonl"
JUDGEMENTS = "judgements.jsonl"
JUDGE = "judge.json"
TUNED = "tuned.json"
SUMMARY = "summary.json"
REPORT = "report.html"
RUNS = Path("runs")
AnyPath = str | os.PathLike[str]
T = TypeVar("T")


class RunFolderError(JudgesError):
    """The run's folder cannot be used; the message says why and what to do."""


class RunConfig(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of config.json.

    The digest `prompt` changes with the definition and questions; `judges` are those that a
    command compares or joins.
    """

    started: str = "unknown"
    command: str
    settings: dict[str, object]
    endpoints: dict[str, str | None] = {}
    data: dict[str, str]
    prompt: str = ""
    judges: list[str] = []


class EarlierSummary(msgspec.Struct):
    """What a further start reads from the summary.json of an earlier one."""

    limit_reached: bool = False
    left_out: list[object] = []
    request_changes: list[str] = []


@contextmanager
def open_run(
    out: AnyPath | None, name: str, config: RunConfig, print_line: Callable[[str], None]
) -> Iterator[Path]:
    """Open the folder of a run and lock it.

    An unfinished run continues if it has the same `config`. The folder of a run that fails before
    it may be billed is deleted.

    Args:
        out: The folder. By default, the newest folder runs/NAME-NUMBER whose run can continue, else
            a new one.
        name: The NAME of a default folder.
        config: The content of config.json.
        print_line: Called with a line for the user if an earlier run continues.

    Raises:
        RunFolderError: The folder holds other files, a finished run, or a run with other settings.
    """
    folder = Path(out) if out is not None else _unfinished(name, config) or _make_next(name)
    folder.mkdir(parents=True, exist_ok=True)
    has_lock = False
    try:
        with in_use(folder):
            started = datetime.now(UTC).isoformat(timespec="seconds")
            if continues := _can_continue(folder, config):
                started = started_at(folder)
                (folder / REPORT).unlink(missing_ok=True)
            has_lock = True
            write_json(
                folder / CONFIG,
                msgspec.to_builtins(msgspec.structs.replace(config, started=started)),
            )
            if continues:
                print_line(f"goes on with {folder} (delete the folder to start afresh)")
            yield folder
    except Exception:  # raised again below
        if has_lock:
            _delete_unbilled(folder)
        raise


def run_config(prepared: PreparedRun) -> RunConfig:
    """The content of a tuning run's config.json."""
    settings, labelled = prepared.settings, prepared.labels.labelled
    template = str(prepared.untuned_judge.template())
    if prepared.subject.questions:
        template += str(prepared.subject.questions)
    return RunConfig(
        command="optimize.tune",
        settings=msgspec.to_builtins(settings),
        endpoints={
            "judge": endpoint_of(settings.lm, settings.api_base),
            "proposer": endpoint_of(settings.proposer.lm, settings.proposer.api_base),
        },
        data={"name": labelled.name, "sha256": labelled.sha256},
        prompt=sha256(template.encode(errors="backslashreplace")).hexdigest(),
    )


def splits_json(splits: Splits[LabelledSet | LabelledPairs], seed: int) -> JsonObject:
    """The content of splits.json."""
    return {
        "by": splits.by,
        "seed": seed,
        "sha256": splits.sha256,
        "held_out_systems": list(splits.held_out_systems),
        "n_unused": splits.n_unused,
        **splits.ids(),
    }


def started_at(folder: Path) -> str:
    """The time at which the run was first started, in ISO format."""
    return _read(folder / CONFIG, RunConfig).started


def _read(path: Path, kind: type[T]) -> T:
    """The content of a JSON file; raises RunFolderError if it cannot be read or is damaged."""
    try:
        return msgspec.convert(read_json_file(path), kind)
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error


def read_summary(folder: Path) -> EarlierSummary:
    """The summary.json of an earlier start; empty if there is no readable one."""
    try:
        return _read(folder / SUMMARY, EarlierSummary)
    except RunFolderError:
        return EarlierSummary()


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file atomically: after a kill, the whole old or the whole new file is there."""
    write_text(path, as_json(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, encodable(text).encode(), overwrite=True)


class Trials:
    """The trials of a search, in order; with a `path`, they are also written to that file.

    The file is written anew at each start, because a run that continues repeats its trials.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.rows: list[JsonObject] = []
        self._path = path and claim_file(path, replace=True)

    def record(self, stage: str, round_number: int | None = None, **fields: object) -> None:
        """Add a trial with these fields; `stage` is the part of the search that made it."""
        trial = {"trial": len(self.rows) + 1, "stage": stage, "round": round_number, **fields}
        self.rows.append(trial)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(as_json(trial) + "\n")


def _can_continue(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds an unfinished run with this configuration; False if it is empty.

    Raises RunFolderError if it holds anything else.
    """
    if not (folder / CONFIG).exists():
        if names := [path.name for path in folder.glob("[!.]*")]:
            raise RunFolderError(f"{folder} holds other files ({names[0]}): name another --out")
        return False
    summary = read_summary(folder)
    # The report is the last file of a run. If a limit ended the run, a larger one may continue it.
    cut_short = summary.limit_reached or summary.left_out
    if (folder / REPORT).exists() and not cut_short:
        raise RunFolderError(f"{folder} holds a finished run: name another --out")
    if difference := _difference(_read(folder / CONFIG, RunConfig), config):
        raise RunFolderError(
            f"{folder} holds an unfinished run with other settings ({difference}): name another "
            "--out, or delete the folder"
        )
    return True


def _difference(before: RunConfig, now: RunConfig) -> str:
    """A phrase about the first difference between two configurations; "" if there is none."""
    if before.command != now.command:
        return f"it was started by {before.command}"
    for name, value in now.settings.items():
        if name not in CHANGEABLE and (earlier := before.settings.get(name)) != value:
            return f"{flag_of(name)} was {earlier!r} and is {value!r}"
    for role, address in now.endpoints.items():
        if (earlier := before.endpoints.get(role)) != address:
            return f"the address of its {role} was {earlier} and is {address}"
    if before.data != now.data:
        return "it had other labels"
    if before.prompt != now.prompt:
        return "it had another definition"
    return "it had other judges" if before.judges != now.judges else ""


def _unfinished(name: str, config: RunConfig) -> Path | None:
    """The newest folder runs/NAME-NUMBER whose run can continue; None if there is none."""
    for folder in sorted(RUNS.glob(f"{name}-[0-9][0-9][0-9]*"), reverse=True):
        with suppress(RunFolderError):
            if _can_continue(folder, config):
                return folder
    return None


def _make_next(name: str) -> Path:
    """Make the folder runs/NAME-NUMBER with the next unused number."""
    suffixes = [folder.name.removeprefix(f"{name}-") for folder in RUNS.glob(f"{name}-*")]
    numbers = (int(suffix) for suffix in suffixes if suffix.isdecimal())
    for number in count(1 + max(numbers, default=0)):
        folder = RUNS / f"{name}-{number:03d}"
        # Another run may have made the same folder at the same moment.
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("count() is endless")


def _delete_unbilled(folder: Path) -> None:
    """Delete a run's files if it cannot have been billed; otherwise keep them to continue."""
    if (folder / JUDGE).exists():
        return
    if (folder / REPLIES).exists():
        with closing(Store(folder / REPLIES)) as store:
            if store.can_go_on:
                return
    for name in (CONFIG, SPLITS, LABELS, TRIALS, REPLIES):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        # This fails if the user has a file in the folder.
        folder.rmdir()
