"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.types import LabelError
from judges.dimension import DimensionError, UnknownDimensionError
from judges.frozen import FrozenJudgeError
from judges.ledger import BudgetSpentError
from judges.models.protocol import ModelError
from optimize import run_folder
from optimize.run_folder import RunFolderError
from optimize.settings import SettingsError, parser, resolve

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# What a user can mend, told in one line; anything else is our fault and shows its traceback.
EXPECTED = (
    LabelError,
    DimensionError,
    FrozenJudgeError,
    RunFolderError,
    ModelError,
    BudgetSpentError,
    OSError,
)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    work = _Work()
    try:
        summary = work.do(flags)
    except (SettingsError, UnknownDimensionError) as error:
        work.clear()
        say(f"python -m optimize: {one_line(error)}")
        return USAGE
    except EXPECTED as error:
        work.clear()
        say(f"python -m optimize: {one_line(error)}")
        return FAILED
    except KeyboardInterrupt:
        where = f" --out {work.folder}" if work.folder else ""
        say(f"interrupted: python -m optimize --resume{where} goes on from here")
        return INTERRUPTED
    if flags.get("json"):
        sys.stdout.write(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    else:
        from optimize.scorecard import scorecard

        sys.stdout.write(scorecard(summary, str(work.folder)) + "\n")
    return DONE


class _Work:
    """One command's work, which knows its folder also when it fails."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._fresh = False

    def do(self, flags: dict[str, Any]) -> dict[str, Any]:
        from optimize.run import prepare, run

        saved = None
        if flags.get("resume"):
            name = flags.get("dimension") or flags.get("pairwise")
            if not name and not flags.get("out"):
                raise SettingsError("--resume: say which run by --out DIR, or by --dimension NAME")
            self.folder = run_folder.find_started(flags.get("out"), Path(name or "").stem)
            saved = run_folder.read_config(self.folder)
        settings = resolve(flags, saved)
        prepared = prepare(settings)
        if self.folder is None:
            self.folder = run_folder.open_fresh(settings.out, prepared.subject.name)
            self._fresh = True
            run_folder.begin(self.folder, settings.known(), prepared.labels.split)
        say(f"{self.folder}: {prepared.level}-level rho, {len(prepared.labels.everything)} outputs")
        return run(prepared, self.folder, say)

    def clear(self) -> None:
        """Leave nothing of a run that got no reply at all, so that the command can be repeated."""
        if self.folder and self._fresh:
            run_folder.clear_unanswered(self.folder)
