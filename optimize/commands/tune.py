"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import os
import sys
from collections.abc import Sequence

from data.types import LabelError
from judges.dimension import DimensionError, UnknownDimensionError
from judges.engine.journal import JournalError
from judges.engine.ledger import BudgetFileError, BudgetSpentError
from judges.engine.telling import trace_of, visible
from judges.frozen import FrozenJudgeError
from judges.loading_time import loading_time
from judges.models.protocol import ModelError
from judges.models.secrets import Secrets
from judges.tables.landing import InUseError
from optimize.commands.flags import parser
from optimize.run.run_folder import RunFolderError, as_json
from optimize.run.settings import SettingsError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# What a user can mend, told in one line; anything else is our fault and shows its traceback.
EXPECTED = (
    LabelError,
    DimensionError,
    FrozenJudgeError,
    JournalError,
    RunFolderError,
    ModelError,
    BudgetSpentError,
    BudgetFileError,
    OSError,
)


def one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def show(text: str) -> None:
    """Print a result; a reader that leaves early (head, less) has seen enough."""
    try:
        sys.stdout.write(visible(text) + "\n")
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"stdout: {error.strerror}")
            raise SystemExit(FAILED) from error


def say(text: str) -> None:
    sys.stderr.write(visible(Secrets().blot(text)) + "\n")
    sys.stderr.flush()


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.run.work import Work

    work = Work(say)
    try:
        summary = work.do(flags)
        # Drawing takes matplotlib, which a run that fails early need not load.
        from optimize.report.writing import write_at_end

        write_at_end(work.path)
    except (SettingsError, UnknownDimensionError) as error:
        work.clear()
        say(f"python -m optimize: {one_line(error)}")
        return USAGE
    except EXPECTED as error:
        work.clear()
        if flags.get("verbose"):
            say(trace_of(error).rstrip())
        way_out = ""
        if isinstance(error, OSError) and not isinstance(error, InUseError) and work.begun:
            way_out = f"; python -m optimize --resume --out {work.folder} goes on from here"
        if isinstance(error, BudgetSpentError) and work.folder and work.folder.exists():
            way_out = f" (--resume --out {work.folder}, with the larger limit)"
        say(f"python -m optimize: {one_line(error)}{way_out}")
        return FAILED
    except KeyboardInterrupt:
        where = f" --out {work.folder}" if work.folder else ""
        say(f"interrupted: python -m optimize --resume{where} goes on from here")
        return INTERRUPTED
    if flags.get("json"):
        show(as_json(summary, indent=1))
    else:
        from optimize.run.scorecard import scorecard

        show(scorecard(summary, str(work.folder)))
    return DONE
