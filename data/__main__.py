"""python -m data check."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    sys.exit(run("data.check:main"))
