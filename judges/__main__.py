"""The commands `python -m judges list`, `show`, `score`, `winrate` and `export`."""

import sys
from collections.abc import Sequence

from dspy_judges.startup import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code (see `dspy_judges.startup.run`)."""
    return run("judges.cli.main:command", argv)


if __name__ == "__main__":
    sys.exit(main())
