"""The run folder: a fresh one, or one to resume."""

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from data.tables.atomic_write import write_atomically
from data.tables.in_memory import Rows, as_json_lines, rows_in_memory
from data.tables.text import read_json_file
from dspy_judges.errors import JudgesError
from judges.client import Budget
from judges.prompt import encodable
from optimize.run import settings
from optimize.run.labels import PreparedRun
from optimize.search.trial_log import as_json

CONFIG = "config.json"
SPLITS = "splits.json"
LABELS = "labels.jsonl"
REPLIES = "replies.jsonl"
PROPOSALS = "proposals.jsonl"
BUDGET = "budget.json"
TRIALS = "trials.jsonl"
MEMBER_SCORES = "members.jsonl"
JUDGE = "judge.json"
FINALISTS = "finalists"
TUNED = "tuned.json"
SUMMARY = "summary.json"
REPORT = "report.html"
RUNS = Path("runs")
AnyPath = str | os.PathLike[str]


class RunFolderError(JudgesError):
    """The folder cannot be used; the message says why and what to do."""


def open_fresh(out: AnyPath | None, name: str) -> Path:
    """Make the folder: `out`, or the next free runs/NAME-001; refused where it holds a run."""
    if out is None:
        return _next_free(name)
    folder = Path(out)
    check_fresh(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_fresh(folder: Path) -> None:
    """RunFolderError where it holds a run; once more when nobody else can begin one there."""
    if folder.is_dir() and any((folder / file).exists() for file in (CONFIG, TRIALS, JUDGE)):
        raise RunFolderError(
            f"{folder} holds a run already: add --resume to go on with it, or name another --out"
        )


def find_started(out: AnyPath | None, name: str) -> Path:
    """The folder to resume: `out`, or the newest runs/NAME-001."""
    folders = [Path(out)] if out else sorted(RUNS.glob(f"{name}-[0-9][0-9][0-9]*"))
    started = [folder for folder in folders if (folder / CONFIG).is_file()]
    if not started:
        where = out or f"{RUNS}/{name}-..."
        raise RunFolderError(f"{where}: no run to resume; start one without --resume")
    return started[-1]


def read_object(path: Path) -> dict[str, Any]:
    """A file of a run folder that holds one JSON object; raises RunFolderError."""
    try:
        value = read_json_file(path)
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{path.parent}: holds no {path.name}; a run folder has one once its run has ended"
        ) from error
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: is damaged: it holds no JSON object")
    return value


def read_summary(folder: Path) -> dict[str, Any]:
    """What an earlier start of the run wrote; empty where there is none that can be read."""
    try:
        return read_object(folder / SUMMARY)
    except RunFolderError:
        return {}


def begin(folder: Path, prepared: PreparedRun) -> None:
    """Write what a run was told, on which labels and how they are split, before all questions."""
    write_json(folder / SPLITS, prepared.labels.split)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / CONFIG, {"started": started, **_config(prepared)})


def check_resumed(folder: Path, prepared: PreparedRun) -> None:
    """Raise SettingsError or RunFolderError where the run in the folder is another one."""
    before, now = read_object(folder / CONFIG), _config(prepared)
    try:
        settings.check_resumed(before["settings"], before["endpoints"], prepared.settings)
        same = before["prompt"] == now["prompt"]
        same_labels = before["data"]["sha256"] == now["data"]["sha256"]
    except (KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{folder / CONFIG}: is damaged ({error!r})") from error
    if not same:
        raise RunFolderError(
            f"{folder}: the definition of {prepared.subject.name} has changed since the run was "
            "begun: resume with the definition as it was, or start another run"
        )
    if not same_labels:
        raise RunFolderError(
            f"{folder}: {now['data']['name']} has changed since the run was begun: resume with "
            "the labels as they were, or start another run"
        )


def write_settings(folder: Path, prepared: PreparedRun) -> None:
    """Write the settings of a run that is resumed: some may differ from those it began with."""
    config = read_object(folder / CONFIG)
    write_json(folder / CONFIG, config | {"settings": prepared.settings.to_json()})


def _config(prepared: PreparedRun) -> dict[str, Any]:
    """What a run is made with; `prompt` tells one definition from another."""
    text = str(prepared.seed_judge.template())
    return {
        "settings": prepared.settings.to_json(),
        "endpoints": prepared.settings.endpoints,
        "data": prepared.labels.counts(),
        "prompt": sha256(text.encode(errors="backslashreplace")).hexdigest(),
    }


def clear_unanswered(folder: Path) -> None:
    """Take away what a run left that cost nothing; one with replies stays, to be resumed."""
    replies, budget = folder / REPLIES, folder / BUDGET
    if replies.exists() and replies.stat().st_size:
        return
    if budget.exists():
        with closing(Budget(path=budget)) as spending:
            if spending.answered:
                return
    for name in (CONFIG, SPLITS, LABELS, TRIALS, REPLIES, PROPOSALS, BUDGET):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        # Something of the user's own is in it.
        folder.rmdir()


def started(folder: Path) -> str:
    """When the run was begun, which resuming does not change."""
    return str(read_object(folder / CONFIG).get("started", "unknown"))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write whole or not at all, so that a kill leaves the old file or the new one."""
    write_text(path, as_json(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, encodable(text).encode(), overwrite=True)


def _next_free(name: str) -> Path:
    """A new folder under RUNS, NAME- and the next number."""
    number = 1
    numbers_used = [folder.name.removeprefix(f"{name}-") for folder in RUNS.glob(f"{name}-*")]
    number += max((int(tail) for tail in numbers_used if tail.isdecimal()), default=0)
    while True:
        folder = RUNS / f"{name}-{number:03d}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            # Another run started at the same moment.
            number += 1
            continue
        return folder


def write_rows(rows: Rows, folder: Path) -> None:
    """Write labels that are in memory."""
    write_atomically(folder / LABELS, as_json_lines(rows_in_memory(rows)), overwrite=True)
