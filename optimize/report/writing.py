"""Write a report into its run folder, whole or not at all."""

from pathlib import Path

from optimize.report.run_report import read_run, render
from optimize.run.run_folder import JUDGE, REPORT, SUMMARY, RunFolderError, write_text


def write(folder: Path, annotations: Path | None = None) -> Path:
    """report.html from what the folder holds; RunFolderError where the run has not ended.

    `annotations` is a long file of every annotator's ratings, for labels that hold means only.
    """
    path = folder / REPORT
    write_text(path, render(read_run(folder, annotations)))
    return path


def write_at_end(folder: Path) -> None:
    """The report of a run that has just ended; RunFolderError where it cannot be drawn."""
    try:
        write(folder)
    except OSError:
        raise
    except Exception as error:  # whatever it is, the run has its judge
        raise RunFolderError(
            f"{folder / REPORT} could not be drawn ({type(error).__name__}: {error}); "
            f"{JUDGE} and {SUMMARY} are whole: python -m optimize.report {folder} draws it again"
        ) from error
