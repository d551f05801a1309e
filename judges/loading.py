"""Find a judge by its catalogue name, frozen file, run folder or definition."""

import os
from dataclasses import replace
from pathlib import Path

from judges.dimension import NAME, UnknownDimensionError
from judges.errors import OptionError
from judges.frozen import FrozenJudgeError
from judges.judge import Judge
from judges.models.redaction import holds_secret


def load(
    judge: str | os.PathLike[str], *, lm: str | None = None, api_base: str | None = None
) -> Judge:
    """Load a judge by catalogue name, frozen file, run folder, or FILE.yaml / FILE.py with :NAME.

    A catalogue name beats a folder of that name; write "./name" for the folder. `lm` and `api_base`
    name the model it asks and the endpoint: a file chooses no endpoint, so that a judge of one's
    own server is asked once its address is given here, where it is used, or in OPENAI_BASE_URL.
    """
    loaded = _load(judge)
    if api_base is not None and holds_secret(api_base):
        raise OptionError("api_base holds a password or a key: give it by OPENAI_API_KEY")
    if lm is not None:
        loaded = replace(loaded, lm=lm, from_file=False)
    return loaded if api_base is None else replace(loaded, api_base=api_base)


def _load(judge: str | os.PathLike[str]) -> Judge:
    from judges.define import is_definition, read_subject

    if not isinstance(judge, str | os.PathLike):
        raise TypeError(
            f"load() takes a catalogue name, a frozen judge's file, a run folder, FILE.yaml or "
            f"FILE.py:NAME, not {judge!r}"
        )
    wanted = os.fspath(judge)
    if not wanted:
        raise UnknownDimensionError("no judge's name is empty (python -m judges list shows them)")
    path = Path(wanted)
    if is_definition(wanted):
        return Judge.of(read_subject(wanted))
    if NAME.match(wanted):
        from judges.catalog import find

        try:
            return Judge.of(find(wanted))
        except UnknownDimensionError:
            if not path.exists():
                raise
    if path.is_dir():
        return _from_folder(path)
    return Judge.load(path)


def _from_folder(folder: Path) -> Judge:
    path = folder / "judge.json"
    if not path.exists():
        raise FrozenJudgeError(
            f"{folder}: holds no judge.json; a run folder has one once its run has ended"
        )
    return Judge.load(path)
