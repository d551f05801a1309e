"""python -m optimize.verify: how far any judge, asked or recorded, agrees with people."""

import sys

from optimize.__main__ import hidden


def main() -> int:
    """Exit code: 0 done, 1 failed or fell short, 2 wrong usage, 130 interrupted."""
    if wrong := hidden():
        sys.stderr.write(f"python -m optimize.verify: {wrong}\n")
        return 1
    from optimize.commands.verify import command

    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
