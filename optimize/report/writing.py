"""Write a report into its run folder, whole or not at all."""

from pathlib import Path

from optimize.report.run_report import read_run, render
from optimize.run.run_folder import REPORT, write_text


def write(folder: Path, annotations: Path | None = None) -> Path:
    """report.html from what the folder holds; RunFolderError where the run has not ended.

    `annotations` is a long file of every annotator's ratings, for labels that hold means only.
    """
    path = folder / REPORT
    write_text(path, render(read_run(folder, annotations)))
    return path
