"""One run from its settings to its report, in a folder of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from data.tables.in_memory import Rows
from judges.client import Model
from judges.dimension import Subject
from optimize.report.page import write_run
from optimize.run import run_folder
from optimize.run.labels import prepare
from optimize.run.pipeline import run
from optimize.run.run_folder import AnyPath
from optimize.run.settings import Settings


def run_in_folder(
    settings: Settings,
    out: AnyPath | None = None,
    *,
    print_line: Callable[[str], None],
    subject: Subject | None = None,
    rows: Rows | None = None,
    opened: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> tuple[Path, dict[str, Any]]:
    """A run's folder, and what its summary.json holds; the report is drawn at the end.

    `out` names the folder, which goes on where its run has not ended (None: see `open_run`).
    `subject` stands for a definition in no file, and `rows` for labels in none: the folder then
    holds them. `opened` are models that are open already, by their names; the progress line goes to
    `stderr`, where that is given.
    """
    prepared = prepare(settings, subject, rows)
    config, labels = run_folder.run_config(prepared), prepared.labels
    with run_folder.open_run(out, prepared.subject.name, config, print_line) as folder:
        if rows is not None:
            run_folder.write_rows(rows, folder)
        run_folder.write_json(folder / run_folder.SPLITS, labels.split)
        print_line(f"{folder}: {prepared.level}-level rho, {len(labels.everything)} outputs")
        if unread := ", ".join(labels.labelled.reading.unread):
            print_line(f"columns not read: {unread}")
        for note in labels.labelled.notes:
            print_line(f"note: {note}")
        summary, evidence = run(prepared, folder, print_line, opened, stderr)
        provenance = run_folder.read_object(folder / run_folder.JUDGE).get("provenance") or {}
        page = folder / run_folder.REPORT
        write_run(page, summary, evidence.judged, evidence.prompts, evidence.probes, provenance)
        return folder, summary
