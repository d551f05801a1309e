"""python -m optimize.report: draw a finished run's report again."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.report:command"))
