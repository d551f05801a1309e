"""python -m optimize.estimate: what people would say on average, from few labels and a judge."""

import sys

from optimize.__main__ import run

if __name__ == "__main__":
    sys.exit(run("optimize.estimate", "optimize.cli.estimate"))
