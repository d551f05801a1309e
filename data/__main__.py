"""Run `python -m data`."""

import sys

from data.commands import main

sys.exit(main())
