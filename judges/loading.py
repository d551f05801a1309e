"""Load a judge from a catalogue name, a frozen judge's file, a run folder, or a YAML definition."""

import os
from pathlib import Path

from msgspec import convert

from dspy_judges.bounds import MAX_JUDGE_BYTES
from dspy_judges.files import read_bytes
from judges import frozen
from judges.catalog import SUBJECT_BY_NAME, find_subject
from judges.definition import Definition
from judges.dimension import DimensionError, Subject
from judges.frozen import FrozenJudgeError, PanelFile, one_line_message
from judges.judge import Judge
from judges.panel import AnyJudge, Panel

DEFINITION_SUFFIXES = (".yaml", ".yml")
EMPTY_YAML_VALUES = ("", "null", "~")  # how YAML writes that a key has no value


def load(
    judge: str | os.PathLike[str], *, lm: str | None = None, api_base: str | None = None
) -> AnyJudge:
    """Load a judge or a panel.

    Args:
        judge: A catalogue name, the path of a frozen judge or of a run folder, or FILE.yaml with a
            definition. If a catalogue name is also the name of a folder, the catalogue judge is
            loaded; write "./name" for the folder.
        lm: The model to ask (see `Judge.with_model`); by default the model that the judge names.
        api_base: The address of an OpenAI-compatible server. Default: the provider's address.

    Returns:
        A Judge, or a Panel for a panel's file.

    Raises:
        UnknownDimensionError: The catalogue has no judge of that name.
        FrozenJudgeError: The file is not a frozen judge, or was changed by hand.
        DimensionError: The definition cannot be used.
        PanelError: `lm` is given for a panel.

    Examples:
        >>> judges.load("relevance", lm="openai/gpt-4.1-mini")
        >>> judges.load("runs/relevance-001")
    """
    name_or_path = os.fspath(judge)
    path = Path(name_or_path)
    may_be_file = name_or_path and (path.exists() or path.suffix or len(path.parts) > 1)
    is_definition = name_or_path.lower().endswith(DEFINITION_SUFFIXES)
    if is_definition or name_or_path in SUBJECT_BY_NAME or not may_be_file:
        return Judge.of(read_subject(name_or_path)).with_model(lm, api_base)
    path = path / "judge.json" if path.is_dir() else path
    file_judge: AnyJudge
    try:
        file = frozen.loads(read_bytes(path, MAX_JUDGE_BYTES))
        # A judge refuses a prompt and weights that do not fit its subject.
        file_judge = Panel.from_file(file) if isinstance(file, PanelFile) else Judge.from_file(file)
    except (OSError, ValueError) as error:
        from judges.tables.formats import READABLE_FORMATS  # imported late, for this error alone

        message = one_line_message(error)
        if path.is_file() and path.suffix in {*READABLE_FORMATS} - {".json"}:
            message = "a table and no judge; give labels by --data, and recorded scores by --scores"
        raise FrozenJudgeError(f"{path}: {message}") from error
    return file_judge.with_model(lm, api_base)


def read_subject(name_or_path: str) -> Subject:
    """Return the dimension or comparison that a catalogue name or a FILE.yaml stands for.

    Raises:
        UnknownDimensionError: The catalogue has no subject of that name.
        DimensionError: The definition cannot be read, or cannot be used.
    """
    if not name_or_path.lower().endswith(DEFINITION_SUFFIXES):
        return find_subject(name_or_path)
    from judges.tables.text import read_yaml_file  # imported late, since only YAML files need it

    try:
        values = read_yaml_file(Path(name_or_path))
        if isinstance(values, dict):  # a key may have no value, as in "candidate: null"
            values = {key: value for key, value in values.items() if value not in EMPTY_YAML_VALUES}
        subject = convert(values, Definition).subject()
        Judge.of(subject, questions=subject.questions)  # raises an error if two names clash
        return subject
    except (OSError, ValueError) as error:
        raise DimensionError(f"{name_or_path}: {one_line_message(error)}") from error
