"""Import a package's names when they are first used, so that commands start without DSPy."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make `__getattr__`, `__dir__` and `__all__` for the names that a package imports as NAME."""
    namespace = vars(sys.modules[package])
    tree = ast.parse(Path(str(namespace["__file__"])).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    module_by_name = {
        alias.name: str(node.module) for node in imports for alias in node.names if alias.asname
    }
    namespace["__all__"] = sorted(module_by_name)

    def import_name(name: str) -> object:
        if name not in module_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            imported_object: object = getattr(import_module(module_by_name[name]), name)
        except ModuleNotFoundError as error:
            missing_package = str(error.name).partition(".")[0]
            module = sys.modules.get(missing_package)
            if missing_package not in ("judges", "optimize") or hasattr(module, "__path__"):
                raise
            hiding_file = getattr(module, "__file__", "a module of yours")
            raise ImportError(
                f"{hiding_file} hides the package {missing_package!r} of dspy-judges; rename that "
                "file"
            ) from None
        namespace[name] = imported_object
        return imported_object

    return import_name, lambda: sorted({*namespace, *module_by_name})
