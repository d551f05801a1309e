"""The run folder: a fresh one, or one to resume; and a definition made in code kept in it."""

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.tables.atomic_write import write_atomically
from data.tables.in_memory import Rows, as_json_lines, rows_in_memory
from data.tables.text import read_json_file
from judges.define import read_subject
from judges.dimension import Comparison, DimensionError, Subject
from judges.errors import JudgesError
from judges.inference.budget import Budget
from judges.prompt import encodable
from optimize.search.trial_log import as_json

CONFIG = "config.json"
SPLITS = "splits.json"
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


class RunFolderError(JudgesError):
    """The folder cannot be used; the message says why and what to do."""


def open_fresh(out: str | None, name: str) -> Path:
    """Make the folder: `out`, or the next free runs/NAME-001; refused where it holds a run."""
    if out is None:
        return _next_free(name)
    folder = Path(out)
    check_fresh(folder)
    _make_folder(folder)
    return folder


def check_fresh(folder: Path) -> None:
    """RunFolderError where it holds a run; once more when nobody else can begin one there."""
    if folder.is_dir() and any((folder / file).exists() for file in (CONFIG, TRIALS, JUDGE)):
        raise RunFolderError(
            f"{folder} holds a run already: add --resume to go on with it, or name another --out"
        )


def find_started(out: str | None, name: str) -> Path:
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


def read_config(folder: Path) -> dict[str, Any]:
    """The settings that the run was started with, by name; raises RunFolderError."""
    settings = read_object(folder / CONFIG).get("settings")
    if not isinstance(settings, dict):
        raise RunFolderError(f"{folder / CONFIG}: not a run's configuration: it has no settings")
    return settings


def read_summary(folder: Path) -> dict[str, Any]:
    """What an earlier start of the run wrote; empty where there is none that can be read."""
    try:
        return read_object(folder / SUMMARY)
    except RunFolderError:
        return {}


def read_endpoints(folder: Path) -> dict[str, str] | None:
    """Where a run's models answered; None where it wrote none down."""
    endpoints = read_object(folder / CONFIG).get("endpoints")
    if not isinstance(endpoints, dict):
        return None
    return {str(role): str(address) for role, address in endpoints.items()}


def begin(
    folder: Path,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    split: Mapping[str, Any],
    endpoints: Mapping[str, str],
) -> None:
    """Write what a run was told, on which labels and how they are split, before all questions."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / SPLITS, split)
    config = {"started": now, "settings": settings, "endpoints": dict(endpoints), "data": data}
    write_json(folder / CONFIG, config)


def check_labels(folder: Path, data: Mapping[str, Any], split: Mapping[str, Any]) -> None:
    """RunFolderError where the labels are no longer those that the run was begun with."""
    config, splits = read_object(folder / CONFIG), read_object(folder / SPLITS)
    try:
        # Releases that did not write the labels' hash down wrote the split's.
        before = config.get("data", {}).get("sha256", data["sha256"])
        same = before == data["sha256"] and splits["sha256"] == split["sha256"]
    except (KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{folder}: {CONFIG} or {SPLITS} is damaged ({error!r})") from error
    if not same:
        raise RunFolderError(
            f"{folder}: {data['name']} has changed since the run was begun (sha256 "
            f"{before[:12]}... then, {data['sha256'][:12]}... now): resume with the labels as they "
            "were, or start another run"
        )


def clear_unanswered(folder: Path) -> None:
    """Take away what a run left that cost nothing; one with replies stays, to be resumed."""
    replies, budget = folder / REPLIES, folder / BUDGET
    if replies.exists() and replies.stat().st_size:
        return
    if budget.exists():
        with closing(Budget(path=budget)) as spending:
            if spending.answered:
                return
    for name in (CONFIG, SPLITS, TRIALS, REPLIES, PROPOSALS, BUDGET):
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
            _make_folder(folder, fresh=True)
        except FileExistsError:
            # Another run started at the same moment.
            number += 1
            continue
        return folder


def _make_folder(folder: Path, *, fresh: bool = False) -> None:
    """Make the folder and check that it can be written to; raises RunFolderError."""
    try:
        folder.mkdir(parents=True, exist_ok=not fresh)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        if fresh:
            raise
        raise RunFolderError(f"{folder}: is a file, not a folder; name another --out") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunFolderError(
            f"{folder}: cannot be written to ({reason}); name another --out"
        ) from error


DEFINITION = "definition.yaml"


def write_definition(subject: Subject, folder: Path) -> dict[str, str]:
    """Write it, and return the setting that names the file.

    Raises DimensionError where YAML cannot hold it, as with a scale of 1 and 5 and nothing between.
    """
    import yaml

    path = folder / DEFINITION
    text = yaml.safe_dump(_yaml_form(subject), sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    if read_subject(str(path)) != subject:
        path.unlink()
        raise DimensionError(
            f"{subject.name}: a YAML definition cannot say all of it; define it in a Python file "
            f"and name that, as in 'my_judges.py:{subject.name}'"
        )
    return _definition_setting(subject, path)


def check_definition(subject: Subject, folder: Path) -> dict[str, str]:
    """The setting that names what `write` left there; DimensionError if it defines another."""
    path = folder / DEFINITION
    if read_subject(str(path)) != subject:
        raise DimensionError(
            f"{path}: the run to resume judged another {subject.name!r}; start another run"
        )
    return _definition_setting(subject, path)


LABELS = "labels.jsonl"


def write_rows(rows: Rows, folder: Path) -> str:
    """Write labels that are in memory; returns the file's path."""
    path = folder / LABELS
    write_atomically(path, as_json_lines(rows_in_memory(rows)), overwrite=True)
    return str(path)


def check_rows(rows: Rows, folder: Path) -> str:
    """The path of what `write_rows` left there; RunFolderError if it is other rows."""
    path = folder / LABELS
    if not path.is_file() or path.read_bytes() != as_json_lines(rows_in_memory(rows)):
        raise RunFolderError(
            f"{folder}: the run to resume had other labels than these: leave out data, or start "
            "another run"
        )
    return str(path)


def _definition_setting(subject: Subject, path: Path) -> dict[str, str]:
    return {"pairwise" if isinstance(subject, Comparison) else "dimension": str(path)}


def _yaml_form(subject: Subject) -> dict[str, Any]:
    """The subject as a definition file holds it."""
    fields = {
        "name": subject.name,
        "definition": subject.definition,
        "inputs": dict(subject.inputs),
        "instruction": subject.instruction,
    }
    if subject.source:
        fields["source"] = subject.source
    if isinstance(subject, Comparison):
        return {"kind": "pairwise", **fields, "candidate": subject.candidate}
    anchors = {rating: text for rating, text in subject.anchors.items() if text}
    return {**fields, "scale": list(subject.scale), **({"anchors": anchors} if anchors else {})}
