"""python -m optimize.report: draw a finished run's report again."""

import sys

from optimize.__main__ import run

if __name__ == "__main__":
    sys.exit(run("optimize.report", "optimize.cli.report"))
