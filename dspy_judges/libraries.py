"""Imports when first used, and a line that names a library which an install leaves out."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from dspy_judges.errors import MissingExtraError

ALL = "pip install . in the project's checkout"
# Modules that may be missing, with what pip installs and who needs it.
LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "datasets": ("datasets>=3.0", "Hugging Face data sets need"),
    "dspy": ("dspy-ai>=3.4.1,<3.5", "DSPy programs, and models that DSPy's clients ask, need"),
    "openai": ("openai>=2.0", "batch files need"),
    "openpyxl": ("openpyxl>=3.1", "Excel workbooks need"),
    "pandas": ("pandas>=2.1", "DataFrames need"),
    "pyarrow": ("pyarrow", "Parquet files need"),
    "shtab": ("shtab>=1.7", "completion needs"),
}
# Whoever needs one of these needs most of them, and some of those above.
OF_TUNING = frozenset({"jinja2", "krippendorff", "matplotlib", "scipy"})


@contextmanager
def naming_libraries() -> Iterator[None]:
    """Raise MissingExtraError, with the command that installs it, where such a library is missing.

    What else cannot be imported raises as it does.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        line = _line(error.name or "")
        if line is None or isinstance(error, MissingExtraError):
            raise
        raise MissingExtraError(line, name=error.name) from None


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, whose names are imported when first used.

    So commands start at once, without DSPy. `homes` lists each module's names, as words.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with naming_libraries():
            value: object = getattr(import_module(modules[name]), name)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *modules})


def check_tuning() -> None:
    """Raise MissingExtraError where a library of tuning is missing, before anything is asked."""
    with naming_libraries():
        for module in sorted(OF_TUNING):
            if find_spec(module) is None:
                raise ModuleNotFoundError(name=module)


def _line(name: str) -> str | None:
    module = name.partition(".")[0]
    if module in OF_TUNING:
        return f"tuning, measuring and reports need {module}, which is not installed: {ALL}"
    if module not in LEFT_OUT:
        return None
    requirement, needs = LEFT_OUT[module]
    return f"{needs} {module}, which is not installed: pip install '{requirement}', or {ALL}"
