"""python -m optimize: tune a judge against human labels."""

import sys
from collections.abc import Callable, Sequence
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


def begin(name: str, load: Callable[[], Callable[[Sequence[str]], int]]) -> int:
    """Load a command and run it."""
    if wrong := hidden():
        sys.stderr.write(f"{name}: {wrong}\n")
        return 1
    from judges.cli.startup import loading_time, open_streams

    open_streams()
    with loading_time():
        command = load()
    return command(sys.argv[1:])


def main() -> int:
    """Exit code: 0 done, 1 failed with one line, 2 wrong usage, 130 interrupted."""

    def load() -> Callable[[Sequence[str]], int]:
        from optimize.cli.tune import command

        return command

    return begin("python -m optimize", load)


if __name__ == "__main__":
    sys.exit(main())
