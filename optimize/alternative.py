"""python -m optimize.alternative: may a judge replace an annotator?."""

import sys

from optimize.__main__ import run

if __name__ == "__main__":
    sys.exit(run("optimize.alternative", "optimize.cli.alternative"))
