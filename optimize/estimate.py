"""python -m optimize.estimate: what people would say on average, from few labels and a judge."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.estimate:command"))
