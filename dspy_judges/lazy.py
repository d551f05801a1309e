"""Names of a package that are imported when first used, so that commands start without DSPy."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`; `__all__` is set, too.

    The names are those that its file imports for type checkers.
    """
    namespace = vars(sys.modules[package])
    tree = ast.parse(Path(str(namespace["__file__"])).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules = {n.name: str(each.module) for each in imports for n in each.names if n.asname}
    namespace["__all__"] = sorted(modules)

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *modules})
