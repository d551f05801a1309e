"""Write a report into its run folder, whole or not at all."""

from pathlib import Path

from optimize.report.run_report import read_run, render
from optimize.run.run_folder import REPORT, write_text


def write(folder: Path) -> Path:
    """report.html from what the folder holds; RunFolderError where the run has not ended."""
    path = folder / REPORT
    write_text(path, render(read_run(folder)))
    return path
