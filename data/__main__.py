"""Run `python -m data`."""

import sys


def _run() -> int:
    try:
        # In here, so that Ctrl-C ends the command cleanly also while it is loaded.
        from data.commands import main

        return main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


sys.exit(_run())
