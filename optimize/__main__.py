"""python -m optimize: tune a judge against human labels."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def hidden(packages: tuple[str, ...] = ("judges", "data")) -> str | None:
    """Say which of our packages a user's own module hides; None if all are ours."""
    home = Path(__file__).resolve().parents[1]
    for name in packages:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin != home / name / "__init__.py":
            return (
                f"{origin or name} hides this project's own package {name!r}: rename it, "
                "or start the command from another folder"
            )
    return None


def run(name: str, module: str) -> int:
    """The exit code of `python -m name`, whose work is done by `command` in `module`.

    0 done, 1 failed with one line or fell short, 2 wrong usage, 130 interrupted.
    """
    if wrong := hidden():
        sys.stderr.write(f"python -m {name}: {wrong}\n")
        return 1
    from judges.cli.startup import loading_time, open_streams

    open_streams()
    with loading_time():
        command = import_module(module).command
    code: int = command(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(run("optimize", "optimize.cli.tune"))
