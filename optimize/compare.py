"""python -m optimize.compare: models and judges side by side, agreement, dollars and seconds."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.compare:command"))
