"""A package's public names, imported when first used: commands start at once, without DSPy."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from dspy_judges.libraries import naming_libraries


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `homes` lists each module's names, as words."""
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
