"""The notebooks and benchmarks run; what notebooks store tells nothing of a machine."""

import re
import runpy
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command_runs import run
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# A path from the root, or a home: "/tmp/x", "C:\x", "~/x"; not "and/or", not "</td>".
PATH = re.compile(r"(?<![\w<.\"'/])/(?:\w[\w.+-]*/)+|[A-Za-z]:\\|~/|file://")


def script(name: str) -> Any:
    spec = spec_from_file_location(f"notebooks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def outputs(notebook: Any) -> list[Any]:
    return [one for cell in notebook.cells for one in cell.get("outputs", ())]


def kinds(notebook: Any) -> list[tuple[str, str]]:
    return [
        (output.output_type, output.get("name") or str(sorted(output.data)))
        for output in outputs(notebook)
    ]


@pytest.fixture(scope="module")
def refresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """notebooks/refresh.py with one kernel for all, which imports the libraries once."""
    refresh = script("refresh")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOTEBOOK_ROWS", "60")  # of the 100,000 that the stored run scored
        # Jupyter keeps files of its own: the folder of whoever runs this may be read-only.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        manager, client = start_new_kernel(extra_arguments=["--HistoryManager.enabled=False"])

        def of_this_kernel(notebook: Any, **options: Any) -> NotebookClient:
            # Two clients of one kernel would have one identity.
            runner = NotebookClient(notebook, manager, **options)
            runner.kc = client
            return runner

        patch.setattr(refresh, "NotebookClient", of_this_kernel)
        refresh.run_cell = client.execute_interactive
        yield refresh
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@by_name
def test_a_notebook_prints_what_it_stores(path, tmp_path, refresh):
    refresh.run_cell(f"%reset -f\n%cd -q {tmp_path}")
    fresh = refresh.execute(path.name, tmp_path)
    # The figures move with every change of the embedded model; what kind of output comes does not.
    assert kinds(fresh) == kinds(nbformat.read(path, as_version=4))


@by_name
def test_a_notebook_was_stored_by_one_clean_run(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert not any(cell.metadata for cell in notebook.cells)
    assert outputs(notebook)
    for output in outputs(notebook):
        assert output.output_type in ("stream", "execute_result", "display_data")
        assert output.get("name") != "stderr"
        content = output.get("data", {"text/plain": output.get("text")})
        text = "".join(words for kind, words in content.items() if kind.startswith("text/"))
        assert not PATH.search(text), text
        assert "Warning" not in text


def test_the_shipped_replies_are_what_their_rule_makes():
    rule = script("build_support_replies").build()
    assert (FOLDER / "support_replies.csv").read_text(encoding="utf-8") == rule


# The benchmarks.
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TEXTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted(BENCHMARKS.iterdir())
    if path.is_file()
}


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "parse_args" in text])
def test_a_benchmark_says_what_it_measures(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    path = str(BENCHMARKS / name)
    code, out, _ = run(lambda words: runpy.run_path(path, run_name="__main__") and 1)
    assert code == 0
    assert len(out.splitlines()) > 3
    assert f"python benchmarks/{name}" in TEXTS["README.md"]
