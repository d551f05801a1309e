"""Tune a judge from Python: one function, which does what the command does."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.cli.shell import print_error
from judges.define import read_subject
from judges.dimension import Comparison, Dimension
from judges.judge import Judge, load
from optimize.figures import SPLITS, scorecard
from optimize.lifecycle import RunLifecycle
from optimize.run import run_folder
from optimize.run.settings import SETTINGS

# What `tune` names itself, and what only a command line needs.
_OWN = frozenset({"dimension", "pairwise", "data", "out", "resume", "json"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """A finished run: its folder, and what its summary.json holds; print it for the scorecard."""

    folder: Path
    summary: Mapping[str, Any]

    @property
    def judge(self) -> Judge:
        """The frozen judge that ships: the tuned one, or the seed where tuning showed no gain."""
        return load(self.folder)

    @property
    def report(self) -> Path:
        """The page that shows how it got there."""
        return self.folder / run_folder.REPORT

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, shipped {self.summary['shipped']})"

    def __str__(self) -> str:
        return scorecard(self.summary, str(self.folder))

    def _repr_html_(self) -> str:
        """Both judges' rho on every split, with intervals and n, as notebooks show it."""
        from optimize.report.page import render_template

        return render_template("run_table.html", summary=self.summary, splits=SPLITS).strip()


def tune(
    dimension: str | Dimension | Comparison,
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Tune a judge against human labels, and measure it on labels it never saw.

    `dimension` is a catalogue name, FILE.yaml, FILE.py:NAME, or a definition itself; a comparison
    is tuned on pairs. `data` is a file of labels; without it, the starter set. `settings` are the
    command's other flags: lm, api_base, proposer_lm, proposer_api_base, optimizer, level, split,
    map (a dict from our names to columns), scale ("0-100", a pair of numbers, or "any"), samples,
    temperature, weighted, probes, max_calls, max_cost, concurrency, seed, keep_going, verbose.
    Progress goes to stderr unless `quiet`.
    Raises what the command tells in one line: SettingsError, LabelError, DimensionError ...
    """
    flags = {"resume": resume, **_checked(settings)}
    if not isinstance(dimension, str | Dimension | Comparison):
        raise TypeError(
            f"tune() takes a catalogue name, FILE.yaml, FILE.py:NAME, a Dimension or a Comparison, "
            f"not {dimension!r}"
        )
    for name, path in (("data", data), ("out", out)):
        if path is not None:
            flags[name] = os.fspath(path)
    subject = None if isinstance(dimension, str) else dimension
    if isinstance(dimension, str):
        pairwise = isinstance(read_subject(dimension), Comparison)
        flags["pairwise" if pairwise else "dimension"] = dimension
    lifecycle = RunLifecycle((lambda text: None) if quiet else print_error)
    summary = lifecycle.execute(flags, subject)
    return Run(folder=lifecycle.path, summary=summary)


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    allowed = [name for name in SETTINGS if name not in _OWN]
    for name in settings:
        if name not in allowed:
            raise TypeError(f"tune() knows no setting {name!r}; there are {', '.join(allowed)}")
    return {name: value for name, value in settings.items() if value is not None}
