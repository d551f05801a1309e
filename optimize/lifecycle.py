"""One run from its settings to its report, in a folder of its own."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from data.tables.atomic_write import in_use
from data.tables.in_memory import Rows
from judges.client import Model
from judges.dimension import Subject
from optimize.run import run_folder
from optimize.run.labels import PreparedRun, prepare
from optimize.run.pipeline import estimate, run
from optimize.run.run_estimate import RunEstimate
from optimize.run.settings import Settings

PrintLine = Callable[[str], None]


class RunLifecycle:
    """Does one run, and knows its folder also when it fails.

    `out` names the folder (None: the next of runs/NAME-001, or the latest to resume). `opened` are
    models that are open already, by their names; the progress line goes to `stderr`, where that is
    given.
    """

    def __init__(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        resume: bool = False,
        print_line: PrintLine,
        opened: Mapping[str, Model] | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.folder: Path | None = None
        self._out, self._resume = out, resume
        self._print_line = print_line
        self._opened, self._stderr = opened, stderr

    def execute(
        self, settings: Settings, subject: Subject | None = None, rows: Rows | None = None
    ) -> dict[str, Any]:
        """Run, and return what summary.json holds; the report is drawn at the end.

        `subject` stands for a definition in no file, and `rows` for labels in none: the folder then
        holds them. A run that fails before any reply leaves nothing, so that it can be started
        again.
        """
        prepared = prepare(settings, subject, rows)
        if self._resume:
            self.folder = run_folder.find_started(self._out, prepared.subject.name)
            with in_use(self.folder):
                run_folder.check_resumed(self.folder, prepared)
                run_folder.write_settings(self.folder, prepared)
                return self._run(prepared, self.folder)
        folder = run_folder.open_fresh(self._out, prepared.subject.name)
        try:
            with in_use(folder):
                run_folder.check_fresh(folder)
                self.folder = folder
                if rows is not None:
                    run_folder.write_rows(rows, folder)
                run_folder.begin(folder, prepared)
                return self._run(prepared, folder)
        except Exception:  # whatever it was is raised again
            if self.folder is not None:
                run_folder.clear_unanswered(folder)
            raise

    def estimate(self, settings: Settings) -> tuple[PreparedRun, RunEstimate]:
        """What a run with these settings would take, or one that is resumed takes in all."""
        prepared = prepare(settings)
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

    def _run(self, prepared: PreparedRun, folder: Path) -> dict[str, Any]:
        """Print what is about to be run, run it and draw its report; returns its summary."""
        labels = prepared.labels
        self._print_line(f"{folder}: {prepared.level}-level rho, {len(labels.everything)} outputs")
        if unread := ", ".join(labels.labelled.reading.unread):
            self._print_line(f"columns not read: {unread}")
        for note in labels.labelled.notes:
            self._print_line(f"note: {note}")
        summary, evidence = run(prepared, folder, self._print_line, self._opened, self._stderr)
        # Drawing takes matplotlib, which a run that fails early need not load.
        from optimize.report.run_report import render, write_report_at_end

        config, judge = (
            run_folder.read_object(folder / name) for name in (run_folder.CONFIG, run_folder.JUDGE)
        )
        provenance = judge.get("provenance") or {}
        write_report_at_end(folder, lambda: render(summary, evidence, config, provenance))
        return summary
