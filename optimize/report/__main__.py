"""python -m optimize.report: draw a finished run's report again."""

import sys
from collections.abc import Callable, Sequence

from optimize.__main__ import begin


def main() -> int:
    """Exit code: 0 done, 1 failed with one line, 2 wrong usage, 130 interrupted."""

    def load() -> Callable[[Sequence[str]], int]:
        from optimize.cli.report import main as command

        return command

    return begin("python -m optimize.report", load)


if __name__ == "__main__":
    sys.exit(main())
