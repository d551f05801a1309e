"""Import a package's names when they are first used, so that commands start without DSPy."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package_name: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which imports a name when it is used, and its `__dir__`.

    The package's names, also in `__all__`, are those that its file imports by `import A as A`.
    """
    namespace = vars(sys.modules[package_name])
    module_by_name = {}
    for statement in ast.walk(ast.parse(Path(str(namespace["__file__"])).read_text("utf-8"))):
        if isinstance(statement, ast.ImportFrom):
            names = [alias.name for alias in statement.names if alias.asname]
            module_by_name.update(dict.fromkeys(names, str(statement.module)))
    namespace["__all__"] = sorted(module_by_name)

    def import_name(name: str) -> object:
        if name not in module_by_name:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        namespace[name] = getattr(import_module(module_by_name[name]), name)
        return namespace[name]

    return import_name, lambda: sorted({*namespace, *module_by_name})
