"""The commands `python -m data check` and `python -m data label`."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    if sys.argv[1:2] == ["label"]:
        sys.exit(run("optimize.label:command", sys.argv[2:]))
    arguments = sys.argv[2:] if sys.argv[1:2] == ["check"] else sys.argv[1:]
    sys.exit(run("optimize.check:command", arguments))
