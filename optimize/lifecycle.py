"""One run from what its user gave to its report: settings, labels, a folder of its own."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from data.check import reading_lines
from data.tables.atomic_write import in_use
from data.tables.in_memory import Rows
from judges.define import is_python, read_subject
from judges.dimension import DimensionError, Subject
from judges.protocol import Model
from optimize.run import run_folder
from optimize.run.labels import PreparedRun, check_rows, prepare
from optimize.run.pipeline import estimate, run
from optimize.run.run_estimate import RunEstimate
from optimize.run.settings import SettingsError, resolve

PrintLine = Callable[[str], None]


class RunLifecycle:
    """Does one run, and knows its folder also when it fails.

    `opened` are models that are open already, by their names; the progress line goes to `stderr`,
    where that is given.
    """

    def __init__(
        self,
        print_line: PrintLine,
        opened: Mapping[str, Model] | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.folder: Path | None = None
        self._print_line = print_line
        self._opened, self._stderr = opened, stderr
        self._fresh = False

    def execute(
        self, flags: Mapping[str, Any], subject: Subject | None = None, rows: Rows | None = None
    ) -> dict[str, Any]:
        """Run with these flags, and return what summary.json holds.

        `flags` are the command's; `subject` stands for a definition in no file, and `rows` for
        labels in none: the folder then holds them. The report is drawn at the end. A run that fails
        before any reply leaves nothing, so that it can be started again.
        """
        try:
            with ExitStack() as stack:
                start = self._resume if flags.get("resume") else self._begin
                summary = start(flags, subject, rows, stack)
            # Drawing takes matplotlib, which a run that fails early need not load.
            from optimize.report.run_report import write_report_at_end

            write_report_at_end(self.path)
        except Exception:  # whatever it was is raised again
            self._remove_unanswered()
            raise
        return summary

    def estimate(self, flags: Mapping[str, Any]) -> tuple[PreparedRun, RunEstimate]:
        """What a run with these flags would take, or one that is resumed takes in all."""
        if flags.get("resume"):
            self.folder = _find_started(flags, None)
            prepared = _prepare_resumed(self.folder, flags, None)
        else:
            prepared = prepare(resolve(flags))
        return prepared, estimate(prepared)

    @property
    def path(self) -> Path:
        """The folder of a run that has ended."""
        assert self.folder is not None
        return self.folder

    @property
    def can_resume(self) -> bool:
        """Whether there is a run to resume."""
        return self.folder is not None and (self.folder / run_folder.CONFIG).exists()

    def _remove_unanswered(self) -> None:
        """Remove what a fresh run has written where no model has answered yet."""
        if self.folder is None or not self._fresh:
            return
        run_folder.clear_unanswered(self.folder)
        if not (self.folder / run_folder.CONFIG).exists():
            for name in (run_folder.DEFINITION, run_folder.LABELS):
                (self.folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                # Something of the user's own is in it, or it is gone.
                self.folder.rmdir()

    def _resume(
        self,
        flags: Mapping[str, Any],
        subject: Subject | None,
        rows: Rows | None,
        stack: ExitStack,
    ) -> dict[str, Any]:
        """Go on with a run from its folder; returns its summary."""
        folder = self.folder = _find_started(flags, subject)
        if rows is not None:
            flags = {**flags, "data": run_folder.check_rows(rows, folder)}
        stack.enter_context(in_use(folder))
        return self._run(_prepare_resumed(folder, flags, subject), folder)

    def _begin(
        self,
        flags: Mapping[str, Any],
        subject: Subject | None,
        rows: Rows | None,
        stack: ExitStack,
    ) -> dict[str, Any]:
        """Start a run in a folder that no other run has or is about to have."""
        with tempfile.TemporaryDirectory() as scratch:
            definition_setting: dict[str, Any] = {}
            if subject is not None:
                definition_setting = run_folder.write_definition(subject, Path(scratch))
            settings = resolve({**flags, **definition_setting})
            if rows is not None:
                # As they are in memory, so that what is wrong with one says where it is there.
                check_rows(rows, settings)
                settings = replace(settings, data=run_folder.write_rows(rows, Path(scratch)))
            prepared = prepare(settings)
        settings, labels = prepared.settings, prepared.labels
        folder = run_folder.open_fresh(settings.out, prepared.subject.name)
        stack.enter_context(in_use(folder))
        run_folder.check_fresh(folder)
        self.folder, self._fresh = folder, True
        if subject is not None:
            definition_setting = dict(run_folder.write_definition(subject, folder))
            settings = replace(settings, **definition_setting)
        elif is_python(settings.subject):
            # So that to go on with the run is not to run what its folder names.
            with suppress(DimensionError):
                run_folder.write_definition(prepared.subject, folder)
        if rows is not None:
            settings = replace(settings, data=run_folder.write_rows(rows, folder))
        prepared = replace(prepared, settings=settings)
        run_folder.begin(
            folder, settings.to_json(), labels.counts(), labels.split, settings.endpoints
        )
        return self._run(prepared, folder)

    def _run(self, prepared: PreparedRun, folder: Path) -> dict[str, Any]:
        """Print what is about to be run, then run it; returns its summary."""
        outputs = len(prepared.labels.everything)
        self._print_line(f"{folder}: {prepared.level}-level rho, {outputs} outputs")
        if prepared.settings.data is not None:
            for line in reading_lines(prepared.labels.labelled):
                self._print_line(line)
        for note in prepared.labels.labelled.notes:
            self._print_line(f"note: {note}")
        return run(prepared, folder, self._print_line, self._opened, self._stderr)


def _prepare_resumed(
    folder: Path, flags: Mapping[str, Any], subject: Subject | None
) -> PreparedRun:
    """The run that the flags resume, as its folder holds it."""
    saved = _with_saved_definition(run_folder.read_config(folder), folder, flags)
    endpoints = run_folder.read_endpoints(folder)
    if subject is not None:
        flags = {**flags, **run_folder.check_definition(subject, folder)}
    prepared = prepare(resolve(flags, saved, endpoints))
    labels = prepared.labels
    run_folder.check_labels(folder, labels.counts(), labels.split)
    return prepared


def _with_saved_definition(
    saved: Mapping[str, Any], folder: Path, flags: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A run's settings with the definition that its folder keeps in place of a Python file."""
    definition = folder / run_folder.DEFINITION
    for name in ("dimension", "pairwise"):
        if name not in flags and is_python(str(saved.get(name))) and definition.is_file():
            return {**saved, name: str(definition)}
    return saved


def _find_started(flags: Mapping[str, Any], subject: Subject | None) -> Path:
    """The folder of the run to resume, by --out or by the latest of its subject."""
    spec = flags.get("dimension") or flags.get("pairwise")
    if flags.get("out"):
        return run_folder.find_started(flags["out"], "")
    if subject is None and not spec:
        raise SettingsError("--resume: say which run by --out DIR, or by --dimension NAME")
    return run_folder.find_started(None, (subject or read_subject(str(spec))).name)
