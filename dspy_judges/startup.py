"""A command's first moments: our own packages, closed streams, Ctrl-C while modules are loaded."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from dspy_judges.commands import COMMANDS, as_called
from dspy_judges.errors import MissingExtraError
from dspy_judges.libraries import naming_libraries

INTERRUPTED = 130
HOME = Path(__file__).resolve().parents[1]


def run(target: str, words: Sequence[str] | None = None) -> int:
    """The exit code of one of our commands, MODULE:FUNCTION, called with the command line's words.

    0 done, 1 failed with one line or fell short, 2 wrong usage, 130 interrupted.
    """
    use_own_packages()
    open_streams()
    module, _, function = target.partition(":")
    try:
        with naming_libraries():
            with loading_time():
                command = getattr(import_module(module), function)
            code: int = command(sys.argv[1:] if words is None else words)
    except MissingExtraError as error:
        name = next(known.module for known in COMMANDS.values() if known.target == target)
        sys.stderr.write(as_called(f"python -m {name}: {error}\n"))
        return 1
    return code


def use_own_packages(*, reorder: bool = True) -> None:
    """Import `data`, `judges` and `optimize` from beside this file, whatever else has their names.

    With `reorder`, the folder where `python -m` was started is searched last: its user's
    `datasets.py` hides no library, and what a definition of their own imports is found as before.
    """
    first = Path(sys.path[0] or ".").resolve() if sys.path else HOME
    if reorder and first == Path.cwd() and first != HOME and not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
    for name in ("data", "judges", "optimize"):
        file = HOME / name / "__init__.py"
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded and Path(loaded).resolve() == file:
            continue
        spec = spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


def open_streams() -> None:
    """Where stdout or stderr is closed (>&-), write to nowhere: Python has no stream there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


@contextmanager
def loading_time() -> Iterator[None]:
    """Nothing is under way yet, and an import that is interrupted may swallow the interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
