"""One run's work from what a user told it: settings, labels, a folder of its own, the run."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.describe import reading
from data.tables.atomic_write import in_use
from judges.define import is_python, read_subject
from judges.dimension import DimensionError, Subject
from optimize.run import run_folder
from optimize.run.pipeline import run
from optimize.run.prepare import PreparedRun, prepare
from optimize.run.settings import SettingsError, resolve

Say = Callable[[str], None]


class RunLifecycle:
    """Does one run, and knows its folder also when it fails."""

    def __init__(self, say: Say) -> None:
        self.folder: Path | None = None
        self._say = say
        self._fresh = False

    def do(self, told: Mapping[str, Any], subject: Subject | None = None) -> dict[str, Any]:
        """Run what `told` asks for, and return what summary.json holds.

        `told` is as the command's flags; `subject` stands for a definition in no file, which the
        folder then holds.
        """
        with ExitStack() as held:
            if not told.get("resume"):
                return self._begin(told, subject, held)
            self.folder = _find_started(told, subject)
            held.enter_context(in_use(self.folder))
            saved = _without_code(run_folder.read_config(self.folder), self.folder, told)
            endpoints = run_folder.read_endpoints(self.folder)
            if subject is not None:
                told = {**told, **run_folder.kept(subject, self.folder)}
            prepared = prepare(resolve(told, saved, endpoints))
            labels = prepared.labels
            run_folder.check_labels(self.folder, labels.counts(), labels.split)
            return self._run(prepared, self.folder)

    @property
    def path(self) -> Path:
        """The folder of a run that has ended."""
        assert self.folder is not None
        return self.folder

    @property
    def begun(self) -> bool:
        """Whether there is a run to resume."""
        return self.folder is not None and (self.folder / run_folder.CONFIG).exists()

    def clear(self) -> None:
        """Leave nothing of a run that got no reply at all, so that it can be started again."""
        if self.folder is None or not self._fresh:
            return
        run_folder.clear_unanswered(self.folder)
        if not (self.folder / run_folder.CONFIG).exists():
            (self.folder / run_folder.FILE).unlink(missing_ok=True)
            with suppress(OSError):
                # Something of the user's own is in it, or it is gone.
                self.folder.rmdir()

    def _begin(
        self, told: Mapping[str, Any], subject: Subject | None, held: ExitStack
    ) -> dict[str, Any]:
        """Start a run in a folder that no other run has or is about to have."""
        with tempfile.TemporaryDirectory() as scratch:
            named: dict[str, Any] = {}
            if subject is not None:
                named = run_folder.write(subject, Path(scratch))
            prepared = prepare(resolve({**told, **named}))
        settings, labels = prepared.settings, prepared.labels
        folder = run_folder.open_fresh(settings.out, prepared.subject.name)
        held.enter_context(in_use(folder))
        run_folder.check_fresh(folder)
        self.folder, self._fresh = folder, True
        if subject is not None:
            named = dict(run_folder.write(subject, folder))
            settings = replace(settings, **named)
            prepared = replace(prepared, settings=settings)
        elif is_python(settings.subject):
            # So that to go on with the run is not to run what its folder names.
            with suppress(DimensionError):
                run_folder.write(prepared.subject, folder)
        run_folder.begin(
            folder, settings.known(), labels.counts(), labels.split, settings.endpoints
        )
        return self._run(prepared, folder)

    def _run(self, prepared: PreparedRun, folder: Path) -> dict[str, Any]:
        outputs = len(prepared.labels.everything)
        self._say(f"{folder}: {prepared.level}-level rho, {outputs} outputs")
        if prepared.settings.data is not None:
            for line in reading(prepared.labels.labelled):
                self._say(line)
        for note in prepared.labels.labelled.notes:
            self._say(f"note: {note}")
        return run(prepared, folder, self._say)


def _without_code(
    saved: Mapping[str, Any], folder: Path, told: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A run's settings with the definition that its folder keeps in place of a Python file."""
    kept = folder / run_folder.FILE
    for name in ("dimension", "pairwise"):
        if name not in told and is_python(str(saved.get(name))) and kept.is_file():
            return {**saved, name: str(kept)}
    return saved


def _find_started(told: Mapping[str, Any], subject: Subject | None) -> Path:
    spec = told.get("dimension") or told.get("pairwise")
    if told.get("out"):
        return run_folder.find_started(told["out"], "")
    if subject is None and not spec:
        raise SettingsError("--resume: say which run by --out DIR, or by --dimension NAME")
    return run_folder.find_started(None, (subject or read_subject(str(spec))).name)
