"""python -m optimize.panel: several judges joined in one, by weights that labels support."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("optimize.cli.panel:command"))
