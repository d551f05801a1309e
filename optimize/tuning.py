"""Tune a judge from Python: one function, which does what the command does."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stderr
from dataclasses import MISSING, dataclass
from html import escape
from inspect import Parameter, Signature, signature
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_type_hints

from data.flags import did_you_mean, map_flags, split_mapping, values_flags
from data.tables.formats import read_json_lines
from data.tables.in_memory import Rows, is_in_memory
from dspy_judges.libraries import check_tuning
from judges.cli.shell import print_error
from judges.define import read_subject
from judges.dimension import Comparison, Dimension
from judges.judge import Judge
from judges.loading import load
from judges.models.dspy_lm import ConfiguredModel, configured_lm
from judges.protocol import Model
from optimize.figures import SPLITS
from optimize.frames import judgements_frame
from optimize.lifecycle import RunLifecycle
from optimize.run import run_folder
from optimize.run.evidence import read_evidence
from optimize.run.settings import SETTINGS, TuneOptions
from optimize.screen import scorecard

if TYPE_CHECKING:
    import pandas as pd

# What `tune` names itself, and what only a command line needs.
_OWN = frozenset({"dimension", "pairwise", "data", "out", "resume", "json", "dry_run", "quiet"})


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

    @property
    def judgements(self) -> "pd.DataFrame":
        """Both judges' scores of the test outputs beside people's, a row each (see `split`).

        Of a panel, `panel` beside each `members.NAME`, also of what its weights were learned from.
        Raises RunFolderError where the folder lacks them.
        """
        if self._is_panel:
            import pandas as pd

            return pd.json_normalize(self._rows(run_folder.MEMBER_SCORES))
        judged = read_evidence(self.folder).judged
        splits = [(split, judged["seed"][split].items.items) for split in judged["seed"]]
        return judgements_frame(
            [item for _, items in splits for item in items],
            {
                judge: [j for split in by_split.values() for j in split.judgements]
                for judge, by_split in judged.items()
            },
            [split for split, items in splits for _ in items],
        )

    @property
    def trials(self) -> "pd.DataFrame":
        """What the search tried, in its order, a row each: candidate, stage, value, gain ...

        Of a panel, the ways to join its members. Raises RunFolderError where the folder lacks them.
        """
        import pandas as pd

        if self._is_panel:
            return pd.json_normalize(list(self.summary.get("candidates", ())))
        return pd.DataFrame(self._rows(run_folder.TRIALS))

    @property
    def _is_panel(self) -> bool:
        return self.summary.get("command") == "optimize.panel"

    def _rows(self, name: str) -> list[dict[str, Any]]:
        """What a file of the folder holds; RunFolderError where there is none."""
        path = self.folder / name
        if not path.is_file():
            raise run_folder.RunFolderError(
                f"{self.folder}: holds no {name}; a panel without labels has none"
            )
        return [dict(row.cells) for row in read_json_lines(path)]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, shipped {self.summary['shipped']})"

    def __str__(self) -> str:
        if self._is_panel:
            from optimize.cli.panel import lines

            return "\n".join(lines(self.summary))
        return scorecard(self.summary, str(self.folder))

    def _repr_html_(self) -> str:
        """Both judges' rho on every split, with intervals and n, as notebooks show it."""
        if self._is_panel:
            return f"<pre>{escape(str(self))}</pre>"
        from optimize.report.page import render_template

        return render_template("run_table.html", summary=self.summary, splits=SPLITS).strip()


def tune(
    dimension: str | Dimension | Comparison,
    data: str | os.PathLike[str] | Rows | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    quiet: bool = False,
    panel: Sequence[str] | None = None,
    scores: Sequence[str] = (),
    replies: Sequence[str] = (),
    own: str | None = None,
    **options: Unpack[TuneOptions],
) -> Run:
    """Tune a judge against human labels, and measure it on labels it never saw.

    `dimension` is a catalogue name, FILE.yaml, FILE.py:NAME, or a definition itself; a comparison
    is tuned on pairs. `data` holds labels: a file's path, a DataFrame, a Dataset or a list of
    dicts, which the run's folder then keeps; without it, the starter set. `map` goes from our names
    to its columns. `options` are the command's flags by name, and `TuneOptions` their types; lm,
    level, max_cost, max_calls and seed are the usual ones. `scale` is "0-100", a pair of numbers,
    or "any"; a price is dollars for a million tokens read and written.
    `panel` joins judges in place of tuning one, as `python -m optimize.panel` does: its members,
    with recorded ones in the files `scores` and `replies`, and the `own` judge to beat.
    Without `lm`, the LM that DSPy is configured with, else the embedded model. Progress goes to
    stderr unless `quiet`.
    Raises what the command tells in one line: SettingsError, LabelError, DimensionError ...
    """
    check_tuning()
    flags = {"resume": resume, **_checked(options)}
    recorded = [("members", panel or ()), ("scores", scores), ("replies", replies)]
    if panel is None and (scores or replies or own):
        raise TypeError("scores, replies and own are of a panel: give panel=[...], its members")
    if panel is not None:
        if not isinstance(dimension, str):
            raise TypeError("a panel's dimension is a catalogue name, FILE.yaml or FILE.py:NAME")
        for name, given in recorded:
            if isinstance(given, str):
                raise TypeError(f"{name} is a list of texts, not {given!r} alone")
        members = {name: [os.fspath(member) for member in given] for name, given in recorded}
        return _join(dimension, data, out, {**flags, **members, "own": own}, quiet=quiet)
    if not isinstance(dimension, str | Dimension | Comparison):
        raise TypeError(
            f"tune() takes a catalogue name, FILE.yaml, FILE.py:NAME, a Dimension or a Comparison, "
            f"not {dimension!r}"
        )
    rows = None
    if isinstance(data, str | os.PathLike):
        flags["data"] = os.fspath(data)
    elif data is not None:
        if not is_in_memory(data):
            raise TypeError(
                "data is a file's path, a DataFrame, a Dataset or a list of dicts, not a "
                f"{type(data).__name__}"
            )
        rows = data
    if out is not None:
        flags["out"] = os.fspath(out)
    subject = None if isinstance(dimension, str) else dimension
    if isinstance(dimension, str):
        pairwise = isinstance(read_subject(dimension), Comparison)
        flags["pairwise" if pairwise else "dimension"] = dimension
    opened: dict[str, Model] = {}
    lm = configured_lm()
    if lm is not None and "lm" not in flags and (resume or "api_base" not in flags):
        model = ConfiguredModel(lm)
        opened[model.name] = model
        if not resume:  # a run that goes on names its model, and its user the address
            flags |= {"lm": model.name, "api_base": model.api_base}
    lifecycle = RunLifecycle(
        (lambda text: None) if quiet else print_error, opened, None if quiet else sys.stderr
    )
    summary = lifecycle.execute(flags, subject, rows)
    return Run(folder=lifecycle.path, summary=summary)


def _join(
    dimension: str,
    data: str | os.PathLike[str] | Rows | None,
    out: str | os.PathLike[str] | None,
    flags: dict[str, Any],
    *,
    quiet: bool,
) -> Run:
    """A panel by what its command does; labels in memory are read from a file for the while."""
    # The command line's own modules, which tuning one judge does without.
    from optimize.cli.compare import FLAGS_PER_MODEL
    from optimize.cli.panel import PanelRun, parser

    parsed, mapped = parser().parse_args([]), flags.pop("map", {})
    for name, value in flags.items():
        if not hasattr(parsed, name):
            raise TypeError(f"tune() knows no setting {name!r} of a panel")
        setattr(parsed, name, [_as_flag(value)] if name in FLAGS_PER_MODEL else value)
    if isinstance(mapped, str | os.PathLike):
        parsed.map = [os.fspath(mapped)]
    else:
        columns, words = split_mapping(mapped, None)
        parsed.map = [word for word in map_flags(columns) if word != "--map"]
        parsed.values = [*getattr(parsed, "values", ()), *values_flags(words)[1:]]
    if parsed.scale is not None and not isinstance(parsed.scale, str):
        parsed.scale = "-".join(f"{end:g}" for end in parsed.scale)
    comparison = isinstance(read_subject(dimension), Comparison)
    setattr(parsed, "pairwise" if comparison else "dimension", dimension)
    parsed.judges, parsed.lm = parsed.members, []
    parsed.out = None if out is None else os.fspath(out)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        if quiet:
            stack.enter_context(redirect_stderr(StringIO()))
        if isinstance(data, str | os.PathLike):
            parsed.data = os.fspath(data)
        elif data is not None:
            if not is_in_memory(data):
                raise TypeError(f"data is a path or rows, not a {type(data).__name__}")
            parsed.data = run_folder.write_rows(data, Path(scratch))
        summary = PanelRun(parsed).execute()
    assert summary is not None
    return Run(folder=Path(summary["folder"]), summary=summary)


def _as_flag(value: Any) -> str:
    """As the command line has it: a pair with a comma."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    allowed = [name for name in SETTINGS if name not in _OWN]
    for name in settings:
        if name not in allowed:
            hint = did_you_mean(name, allowed) or f"; there are {', '.join(allowed)}"
            raise TypeError(f"tune() knows no setting {name!r}{hint}")
    return {name: value for name, value in settings.items() if value is not None}


def _signature() -> Signature:
    """That of `tune` with each option, its type and its default, as editors and notebooks show."""
    given = signature(tune).parameters
    types, fixed = get_type_hints(TuneOptions), [p for p in given.values() if p.name != "options"]
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=SETTINGS[name].default, annotation=kind)
        for name, kind in types.items()
    ]
    options = [p.replace(default={}) if p.default is MISSING else p for p in options]
    return Signature([*fixed, *options], return_annotation=Run)


tune.__signature__ = _signature()  # type: ignore[attr-defined]
