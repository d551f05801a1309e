"""python -m optimize.verify: how far any judge, asked or recorded, agrees with people."""

import sys

from optimize.__main__ import run

if __name__ == "__main__":
    sys.exit(run("optimize.verify", "optimize.cli.verify"))
