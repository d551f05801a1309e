"""python -m optimize.verify: how far any judge, asked or recorded, agrees with people."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.verify:command"))
