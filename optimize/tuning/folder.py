"""A run's folder: begun, or gone on with where its run has not ended."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.client import Store, endpoint_of
from judges.prompt import encodable
from judges.tables.atomic_write import in_use, write_atomically
from judges.tables.text import read_json_file
from optimize.figures.as_json import as_json
from optimize.tuning.parts import PreparedRun
from optimize.tuning.settings import FREE, flag_of

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


class RunFolderError(JudgesError):
    """The folder cannot be used; the message says why and what to do."""


@contextmanager
def open_run(
    out: AnyPath | None, name: str, config: Mapping[str, Any], print_line: Callable[[str], None]
) -> Iterator[Path]:
    """The folder of a run, for this run alone: begun, or gone on with where it has not ended.

    `out` names it; without it, it is the newest runs/NAME-001 that can be gone on with, or the next
    free one. `config` is what config.json holds. RunFolderError where the folder holds a run that
    has ended, or one of other settings. A run that fails before it may be billed leaves nothing.
    """
    folder = Path(out) if out is not None else _unfinished(name, config) or _next_free(name)
    folder.mkdir(parents=True, exist_ok=True)
    is_ours = False
    try:
        with in_use(folder):
            started = datetime.now(UTC).isoformat(timespec="seconds")
            if goes_on := _goes_on(folder, config):
                started = started_at(folder)
                (folder / REPORT).unlink(missing_ok=True)
            is_ours = True
            write_json(folder / CONFIG, {"started": started, **config})
            if goes_on:
                print_line(f"goes on with {folder} (delete the folder to start afresh)")
            yield folder
    except Exception:  # whatever it was is raised again
        if is_ours:
            _remove_unanswered(folder)
        raise


def run_config(prepared: PreparedRun) -> dict[str, Any]:
    """What a tuning run is made with; `prompt` tells one definition from another."""
    settings, labelled = prepared.settings, prepared.labels.labelled
    template = str(prepared.untuned_judge.template())
    return {
        "command": "optimize.tune",
        "settings": msgspec.to_builtins(settings),
        "endpoints": {
            "judge": endpoint_of(settings.lm, settings.api_base),
            "proposer": endpoint_of(*settings.proposer),
        },
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "prompt": sha256(template.encode(errors="backslashreplace")).hexdigest(),
    }


def started_at(folder: Path) -> str:
    """When the run was begun, which going on does not change."""
    return str(read_object(folder / CONFIG).get("started", "unknown"))


def read_object(path: Path) -> dict[str, Any]:
    """A file of a run folder that holds one JSON object; raises RunFolderError."""
    try:
        value = read_json_file(path)
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: is damaged: it holds no JSON object")
    return value


def read_summary(folder: Path) -> dict[str, Any]:
    """What an earlier start of the run wrote; empty where there is none that can be read."""
    try:
        return read_object(folder / SUMMARY)
    except RunFolderError:
        return {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write whole or not at all, so that a kill leaves the old file or the new one."""
    write_text(path, as_json(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, encodable(text).encode(), overwrite=True)


class Trials:
    """What a search has tried, in its order; with a `path` also a line each of that file.

    The file is begun anew, since a run that goes on makes the same trials again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._path = path and claim_file(path, anew=True)

    def record(self, stage: str, round_number: int | None = None, **fields: Any) -> None:
        """Add the next trial; `stage` is where in the search it was made."""
        trial = {"trial": len(self.rows) + 1, "stage": stage, "round": round_number, **fields}
        self.rows.append(trial)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(as_json(trial) + "\n")


def _goes_on(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether a run of this configuration was begun here; raises RunFolderError for any other."""
    if not (folder / CONFIG).exists():
        if others := [path.name for path in folder.glob("[!.]*")]:
            raise RunFolderError(f"{folder} holds other files ({others[0]}): name another --out")
        return False
    summary = read_summary(folder)
    # The report is a run's last file. A larger limit may change what the limit has ended.
    cut_short = summary.get("limit_reached") or summary.get("left_out")
    if (folder / REPORT).exists() and not cut_short:
        raise RunFolderError(f"{folder} holds a run that has ended: name another --out")
    try:
        changed = _difference(read_object(folder / CONFIG), config)
    except (AttributeError, KeyError, TypeError) as error:
        raise RunFolderError(f"{folder / CONFIG}: is damaged ({error!r})") from error
    if changed:
        raise RunFolderError(
            f"{folder} holds an unfinished run of other settings ({changed}): name another --out, "
            "or delete the folder"
        )
    return True


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two configurations are not of one run, in a clause; empty where they are."""
    if before.get("command") != now["command"]:
        return f"it was begun by {before.get('command')}"
    for name, value in now["settings"].items():
        if name not in FREE and (other := before["settings"].get(name)) != value:
            return f"{flag_of(name)} was {other!r} and is {value!r}"
    for role, address in now.get("endpoints", {}).items():
        if (other := before["endpoints"].get(role)) != address:
            return f"its {role} was asked at {other} and not at {address}"
    clauses = {
        "data": "its labels were others",
        "prompt": "its definition was another",
        "judges": "its judges were others",
    }
    for name, clause in clauses.items():
        if before.get(name) != now.get(name):
            return clause
    return ""


def _unfinished(name: str, config: Mapping[str, Any]) -> Path | None:
    """The newest runs/NAME-001 that can be gone on with."""
    for folder in sorted(RUNS.glob(f"{name}-[0-9][0-9][0-9]*"), reverse=True):
        with suppress(RunFolderError):
            if _goes_on(folder, config):
                return folder
    return None


def _next_free(name: str) -> Path:
    """A new folder under RUNS, NAME- and the next number."""
    tails = [folder.name.removeprefix(f"{name}-") for folder in RUNS.glob(f"{name}-*")]
    for number in count(1 + max((int(tail) for tail in tails if tail.isdecimal()), default=0)):
        folder = RUNS / f"{name}-{number:03d}"
        # Another run may have started at the same moment.
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("numbers do not end")


def _remove_unanswered(folder: Path) -> None:
    """Take away what a run left that cost nothing; one that may be billed stays, to go on with."""
    if (folder / JUDGE).exists():
        return
    if (folder / REPLIES).exists():
        with closing(Store(folder / REPLIES)) as store:
            if store.can_go_on:
                return
    for name in (CONFIG, SPLITS, LABELS, TRIALS, REPLIES):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        # Something of the user's own is in it.
        folder.rmdir()
