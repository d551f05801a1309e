"""Judges that were tuned on some rows."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import judges
from judges.scoring import SamplingPlan


def tuned_on(path: Path, keys: Iterable[str], choice: str = "tuned") -> str:
    """A file of the judge `relevance` that was tuned on the rows of these keys."""
    judge = judges.load("relevance").with_plan(SamplingPlan(kind="weighted"))
    origin = {"tuned_on": [*keys], "shipped": choice}
    return str(replace(judge, provenance=origin).save(path))
