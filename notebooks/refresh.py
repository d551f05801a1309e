"""Execute the notebooks, or those named, each in an empty folder, and store what they print."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
NOTEBOOKS = tuple(sorted(path.name for path in HERE.glob("*.ipynb")))
NEEDED = ("support_replies.csv",)
SECONDS = 180


def execute(name: str, folder: Path) -> NotebookNode:
    """Run one notebook in `folder`, beside the files it needs; a failing cell raises."""
    for file in NEEDED:
        shutil.copy(HERE / file, folder)
    notebook = nbformat.read(HERE / name, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        # What a cell prints is one output, however slowly it is printed.
        coalesce_streams=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--HistoryManager.enabled=False", "--IPKernelApp.log_level=ERROR"],
    )
    # The user's own IPython profile may print or import what it likes.
    profile = tempfile.mkdtemp(dir=folder)
    asyncio.run(client.async_execute(env={**os.environ, "IPYTHONDIR": profile}))
    return notebook


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop what differs from machine to machine: times, and the Python it ran on."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells, start=1):
        cell.metadata = {}
        cell.id = f"cell-{number}"
    return notebook


def main(names: Sequence[str] = NOTEBOOKS) -> None:
    """Refresh them."""
    for name in names or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            made = clean(execute(name, Path(folder)))
        nbformat.write(made, HERE / name)


if __name__ == "__main__":
    main(sys.argv[1:])
