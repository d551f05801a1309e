"""python -m judges: list, show, score, compare, export, journal."""

import sys
from collections.abc import Sequence

from judges.cli.startup import loading_time, open_streams


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    open_streams()
    with loading_time():
        from judges.cli.command import command

    return command(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
