"""Run `python -m data`."""

import os
import sys


def _run() -> int:
    for name in ("stdout", "stderr"):
        # Closed (>&-): what is written there goes nowhere.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        # In here, so that Ctrl-C ends the command cleanly also while it is loaded.
        from data.cli import main

        return main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


sys.exit(_run())
