"""Find a judge by what its user calls it: a catalogue name, a file, a run folder, a definition."""

import os
from pathlib import Path

from dspy_judges.errors import OptionError
from judges.dimension import NAME, UnknownDimensionError
from judges.judge import Judge


def load(
    judge: str | os.PathLike[str], *, lm: str | None = None, api_base: str | None = None
) -> Judge:
    """Load a judge by catalogue name, frozen file, run folder, or FILE.yaml.

    A catalogue name beats a folder of that name; write "./name" for the folder. `lm` and `api_base`
    name the model it asks and the endpoint: a file chooses no endpoint, so that a judge of one's
    own server is asked once its address is given here, where it is used, or in OPENAI_BASE_URL.
    A panel's file or folder gives a `judges.Panel`, which is a judge (see its `with_model`).
    """
    from judges.client import holds_secret

    if not isinstance(judge, str | os.PathLike):
        raise TypeError(
            f"load() takes a catalogue name, a frozen judge's file, a run folder or "
            f"FILE.yaml, not {judge!r}"
        )
    loaded = _find(os.fspath(judge))
    if api_base is not None and holds_secret(api_base):
        raise OptionError("api_base holds a password or a key: give it by OPENAI_API_KEY")
    return loaded.with_model(lm, api_base)


def read_judge(path: Path | str) -> Judge:
    """A frozen judge's file, a panel's too; raises FrozenJudgeError, PanelError or OSError."""
    from judges import frozen
    from judges.panel import Panel, PanelError

    file = frozen.load(path)
    if isinstance(file, frozen.JudgeFile):
        return Judge.of_file(file)
    try:
        return Panel.from_panel_file(file)
    except PanelError as error:
        raise frozen.FrozenJudgeError(f"{path}: {error}") from error


def _find(source: str) -> Judge:
    """The judge of a catalogue name, a definition, a frozen judge's file or a run folder."""
    from judges.catalog import find
    from judges.define import is_definition, read_subject

    path = Path(source)
    if not source:
        raise UnknownDimensionError("no judge's name is empty (dspy-judges list shows them)")
    if is_definition(source):
        return Judge.of(read_subject(source))
    if NAME.match(source):
        try:
            return Judge.of(find(source))
        except UnknownDimensionError:
            if not path.exists():
                raise
    if not path.is_dir():
        return read_judge(path)
    if not (path / "judge.json").exists():
        from judges.frozen import FrozenJudgeError

        raise FrozenJudgeError(
            f"{path}: holds no judge.json; a run folder has one once its run has ended"
        )
    return read_judge(path / "judge.json")
