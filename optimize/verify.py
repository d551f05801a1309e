"""python -m optimize.verify: how far any judge, asked or recorded, agrees with people."""

import sys
from collections.abc import Callable, Sequence

from optimize.__main__ import begin


def main() -> int:
    """Exit code: 0 done, 1 failed or fell short, 2 wrong usage, 130 interrupted."""

    def load() -> Callable[[Sequence[str]], int]:
        from optimize.cli.verify import command

        return command

    return begin("python -m optimize.verify", load)


if __name__ == "__main__":
    sys.exit(main())
