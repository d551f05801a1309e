"""The project by the name that it is installed under: its version, its commands, its functions.

`import dspy_judges` has every public name of `judges`, `optimize` and `data` (`load`, `tune`,
`measure`, `read_labels`, ...) and these packages themselves, also where a module of the user's is
called like one of them. From the first use of such a name on, `import judges` (or optimize, data)
means the project's own.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dspy_judges.version import __version__

if TYPE_CHECKING:
    import data as data
    import judges as judges
    import optimize as optimize
    from data import *  # noqa: F403
    from judges import *  # noqa: F403
    from optimize import *  # noqa: F403

__all__ = ["__version__"]
_PACKAGES = ("judges", "optimize", "data")


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        for package in _packages():
            if name in (package.__name__, *package.__all__):
                value = package if name == package.__name__ else getattr(package, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module 'dspy_judges' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for package in _packages() for name in package.__all__)})


def _packages() -> list[ModuleType]:
    from dspy_judges.startup import use_own_packages

    use_own_packages(reorder=False)
    return [import_module(name) for name in _PACKAGES]
