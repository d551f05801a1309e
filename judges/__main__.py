"""`python -m judges WORD` is the same as `dspy-judges WORD`."""

import sys

from dspy_judges.__main__ import main as main

if __name__ == "__main__":
    sys.exit(main())
