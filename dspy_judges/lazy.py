"""Import a package's names when they are first used, so that commands start without DSPy."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package_name: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which imports a name when it is used, and its `__dir__`.

    A package's names are those that its file imports by `import A as A`; `__all__` lists them.
    """
    namespace = vars(sys.modules[package_name])
    module_by_name = {}
    for statement in ast.walk(ast.parse(Path(str(namespace["__file__"])).read_text("utf-8"))):
        if isinstance(statement, ast.ImportFrom):
            imported_names = [alias.name for alias in statement.names if alias.asname]
            module_by_name.update(dict.fromkeys(imported_names, str(statement.module)))
    namespace["__all__"] = sorted(module_by_name)

    def import_name(name: str) -> object:
        if name not in module_by_name:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        try:
            imported_object: object = getattr(import_module(module_by_name[name]), name)
        except ModuleNotFoundError as error:
            missing_package = str(error.name).partition(".")[0]
            hiding_module = sys.modules.get(missing_package)
            if missing_package not in ("judges", "optimize") or hasattr(hiding_module, "__path__"):
                raise
            # A user's file, such as judges.py, was imported in place of the package.
            problem = f"hides the package {missing_package!r} of dspy-judges; rename that file"
            raise ImportError(f"{getattr(hiding_module, '__file__', '')} {problem}") from None
        namespace[name] = imported_object
        return imported_object

    return import_name, lambda: sorted({*namespace, *module_by_name})
