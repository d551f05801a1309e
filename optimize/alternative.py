"""python -m optimize.alternative: may a judge replace an annotator?."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.alternative:command"))
