"""The command verify as tests run it, and judges that were tuned on some rows."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import judges
from judges.scoring import SamplingPlan
from optimize.verify import command


def said(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    """The exit code, what is printed, and the errors on one line."""
    capsys.readouterr()
    code = command(list(arguments))
    out, err = capsys.readouterr()
    return code, out, " ".join(err.split())


def verified(capsys: Any, *arguments: str, code: int | None = None) -> dict[str, Any]:
    """What --json prints."""
    ended, out, err = said(capsys, *arguments, "--json")
    assert code is None or ended == code, err
    result: dict[str, Any] = json.loads(out)
    return result


def tuned_on(path: Path, keys: Iterable[str], shipped: str = "tuned") -> str:
    """A file of the judge `relevance` that was tuned on the rows of these keys."""
    judge = judges.load("relevance").with_plan(SamplingPlan(kind="weighted"))
    origin = {"tuned_on": [*keys], "shipped": shipped}
    return str(replace(judge, provenance=origin).save(path))
