"""python -m optimize: tune a judge against human labels."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.tune:command"))
