"""Import a package's names when they are first used, so that commands start without DSPy."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that imports its names under TYPE_CHECKING.

    The names are those that the package imports in the form `from ... import NAME as NAME`; its
    `__all__` is set to them.
    """
    namespace = vars(sys.modules[package])
    tree = ast.parse(Path(str(namespace["__file__"])).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    module_of = {a.name: str(node.module) for node in imports for a in node.names if a.asname}
    namespace["__all__"] = sorted(module_of)

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value: object = getattr(import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            package_name = str(error.name).partition(".")[0]
            module = sys.modules.get(package_name)
            if package_name not in ("judges", "optimize") or hasattr(module, "__path__"):
                raise
            path = getattr(module, "__file__", "a module of yours")
            reason = f"{path} hides the package {package_name!r} of dspy-judges; rename that file"
            raise ImportError(reason) from None
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *module_of})
