"""The folder of a run: open a new folder, or continue the unfinished run of an existing one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from dspy_judges.errors import JudgesError, option_name
from dspy_judges.files import claim_file
from judges.client import Store, endpoint_of
from judges.decisions import template_for_model
from judges.labels.splits import Splits
from judges.labels.types import LabelledPairs, LabelledSet
from judges.prompt import utf8_text
from judges.tables.atomic_write import exclusive_lock, write_atomically
from judges.tables.text import read_json_file
from optimize.figures.as_json import JsonObject, json_text
from optimize.inputs.labelled import AnyPath
from optimize.tuning.preparation import PreparedRun
from optimize.tuning.settings import CHANGEABLE_SETTINGS

CONFIG_FILE = "config.json"
SPLITS_FILE = "splits.json"
LABELS_FILE = "labels.jsonl"
REPLIES_FILE = "replies.sqlite"
TRIALS_FILE = "trials.jsonl"
JUDGEMENTS_FILE = "judgements.jsonl"
JUDGE_FILE = "judge.json"
TUNED_FILE = "tuned.json"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
RUNS_FOLDER = Path("runs")
JsonType = TypeVar("JsonType")


class RunFolderError(JudgesError):
    """Raised if a run's folder cannot be used; the message says why and what to do."""


class RunConfig(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fields of config.json, by which a later start recognises the run.

    `started` is the time of the first start. `endpoints` maps "judge" and "proposer" to their
    models' addresses. `prompt` is a digest of the untuned judge's prompt and questions. `judges`
    are the names of the judges that are compared or joined in a panel.
    """

    started: str = "unknown"
    command: str
    settings: dict[str, object]
    endpoints: dict[str, str | None] = {}
    data: dict[str, str]
    prompt: str = ""
    judges: list[str] = []


class EarlierSummary(msgspec.Struct):
    """The fields of a run's summary.json that a later start of the same run reads."""

    left_out: list[object] = []
    request_changes: list[str] = []


@contextmanager
def open_run(
    chosen_folder: AnyPath | None, name: str, config: RunConfig, print_line: Callable[[str], None]
) -> Iterator[Path]:
    """Open the folder of a run, and lock it while this context is open.

    The default folder is the newest folder runs/NAME-NUMBER whose run can continue, or else a new
    one; NAME is `name`. If an error is raised before any call can have cost money, the folder is
    deleted. Raises RunFolderError if the folder holds other files, a finished run, or a run with
    other settings.
    """
    folder = _default_folder(name, config) if chosen_folder is None else Path(chosen_folder)
    folder.mkdir(parents=True, exist_ok=True)
    is_run_folder = False
    try:
        with exclusive_lock(folder):
            start_time = datetime.now(UTC).isoformat(timespec="seconds")
            if _can_continue(folder, config):
                start_time = first_start_time(folder)
                (folder / REPORT_FILE).unlink(missing_ok=True)
                print_line(f"continues with {folder} (delete the folder to start afresh)")
            is_run_folder = True
            config = msgspec.structs.replace(config, started=start_time)
            write_json(folder / CONFIG_FILE, msgspec.to_builtins(config))
            yield folder
    except Exception:
        if is_run_folder:
            _delete_if_unbilled(folder)
        raise


def run_config(run: PreparedRun) -> RunConfig:
    """Return the fields of a tuning run's config.json."""
    settings, labelled_items = run.settings, run.labelled_items
    prompt_text = str(template_for_model(settings.lm, run.untuned_prompt))
    if run.subject.questions:
        prompt_text += str(run.subject.questions)
    return RunConfig(
        command="optimize.tune",
        settings=msgspec.to_builtins(settings),
        endpoints={
            "judge": endpoint_of(settings.lm, settings.api_base),
            "proposer": endpoint_of(settings.proposer_model.lm, settings.proposer_model.api_base),
        },
        data={"name": labelled_items.name, "sha256": labelled_items.sha256},
        prompt=sha256(prompt_text.encode(errors="backslashreplace")).hexdigest(),
    )


def splits_json(splits: Splits[LabelledSet | LabelledPairs], seed: int) -> JsonObject:
    """Return the content of splits.json: the ids of the rows in each split."""
    return {
        "by": splits.by,
        "seed": seed,
        "sha256": splits.sha256,
        "held_out_systems": list(splits.held_out_systems),
        "n_unused": splits.n_unused,
        **splits.ids(),
    }


def first_start_time(folder: Path) -> str:
    """Return the time of a run's first start, in ISO format."""
    return _read_json(folder / CONFIG_FILE, RunConfig).started


def _read_json(path: Path, json_type: type[JsonType]) -> JsonType:
    try:
        return msgspec.convert(read_json_file(path), json_type)
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error


def read_summary(folder: Path) -> EarlierSummary:
    """Read an earlier start's summary.json; return an empty summary if it cannot be read."""
    try:
        return _read_json(folder / SUMMARY_FILE, EarlierSummary)
    except RunFolderError:
        return EarlierSummary()


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file atomically: a killed process leaves the whole old or the whole new file."""
    write_text(path, json_text(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    write_atomically(path, utf8_text(text).encode(), overwrite=True)


class Trials:
    """The trials of a search, in order; each is also appended to the file trials.jsonl."""

    def __init__(self, path: Path) -> None:
        self.rows: list[JsonObject] = []
        self._path = claim_file(path, replace=True)  # an earlier start's trials are deleted

    def record(self, stage: str, round_number: int | None = None, **fields: object) -> None:
        """Add a row, whose `stage` names a trial, a rejected reply or the gate's decision."""
        trial_row = {"trial": len(self.rows) + 1, "stage": stage, "round": round_number, **fields}
        self.rows.append(trial_row)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json_text(trial_row) + "\n")


def _can_continue(folder: Path, config: RunConfig) -> bool:
    """Return whether the folder holds this unfinished run; raises RunFolderError for other runs."""
    advice = f"name another {option_name('out')}"
    if not (folder / CONFIG_FILE).exists():
        for path in folder.glob("[!.]*"):
            raise RunFolderError(f"{folder} holds other files ({path.name}): {advice}")
        return False
    # A run writes its report last. But a comparison that left out some judges can continue after
    # its report. A search that a limit ended cannot continue: another limit changes its requests.
    if (folder / REPORT_FILE).exists() and not read_summary(folder).left_out:
        raise RunFolderError(f"{folder} holds a finished run: {advice}")
    earlier_config = _read_json(folder / CONFIG_FILE, RunConfig)
    if difference := _describe_difference(earlier_config, config):
        raise RunFolderError(
            f"{folder} holds an unfinished run with other settings ({difference}): {advice}, "
            "or delete the folder"
        )
    return True


def _describe_difference(earlier_config: RunConfig, config: RunConfig) -> str:
    """Describe the first difference between two configurations; "" if they are equal."""
    if earlier_config.command != config.command:
        return f"it was started by {earlier_config.command}"
    for name, value in config.settings.items():
        earlier_value = earlier_config.settings.get(name)
        if earlier_value != value and name not in CHANGEABLE_SETTINGS:
            return f"{option_name(name)} was {earlier_value!r} and is {value!r}"
    for role, address in config.endpoints.items():
        earlier_address = earlier_config.endpoints.get(role)
        if earlier_address != address:
            return f"the address of the {role} was {earlier_address} and is {address}"
    if earlier_config.data != config.data:
        return "it had other labels"
    if earlier_config.prompt != config.prompt:
        return "it had another definition"
    return "it had other judges" if earlier_config.judges != config.judges else ""


def _default_folder(name: str, config: RunConfig) -> Path:
    """Return the newest folder runs/NAME-NUMBER whose run can continue, or a new one."""
    for folder in sorted(RUNS_FOLDER.glob(f"{name}-[0-9][0-9][0-9]*"), reverse=True):
        with suppress(RunFolderError):
            if _can_continue(folder, config):
                return folder
    suffixes = [folder.name.removeprefix(f"{name}-") for folder in RUNS_FOLDER.glob(f"{name}-*")]
    last_number = max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=0)
    for run_number in count(last_number + 1):
        folder = RUNS_FOLDER / f"{name}-{run_number:03d}"
        # If another run has just made the same folder, try the next number.
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder


def _delete_if_unbilled(folder: Path) -> None:
    """Delete a run's files, but keep them for a later start if a call may have cost money."""
    if (folder / JUDGE_FILE).exists():
        return
    if (folder / REPLIES_FILE).exists():
        with closing(Store(folder / REPLIES_FILE)) as store:
            if store.can_resume:
                return
    for name in (CONFIG_FILE, SPLITS_FILE, LABELS_FILE, TRIALS_FILE, REPLIES_FILE):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # the user has put another file into the folder
        folder.rmdir()
