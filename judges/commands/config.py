"""Read flags' values from a YAML file; flags on the command line beat them."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from judges.errors import UsageError
from judges.yaml_text import YamlTextError, read_yaml

MOST_BYTES = 100_000
# What names the command itself, or is no flag.
NO_FLAG = frozenset({"config", "help", "run", "judge", "judges", "file"})


def with_config(
    commands: Mapping[str, argparse.ArgumentParser], given: Sequence[str]
) -> Sequence[str]:
    """The arguments with those of a file named by --config put before them."""
    if not given or given[0] not in commands:
        return given
    # Looked for before the rest is parsed, since the file may give what the command requires.
    only = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    only.add_argument("--config")
    try:
        file = only.parse_known_args(list(given[1:]))[0].config
    except argparse.ArgumentError:
        return given
    if file is None:
        return given
    known = {action.dest for action in commands[given[0]]._actions} - NO_FLAG
    # After the command's name, so that what the user typed comes later and wins.
    return [given[0], *_flags(Path(file), known), *given[1:]]


def _flags(path: Path, known: set[str]) -> list[str]:
    try:
        values = read_yaml(path, most_bytes=MOST_BYTES)
    except YamlTextError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: flags' names and values are wanted, as in 'lm: openai/NAME'")
    flags = []
    for name, value in values.items():
        if str(name).replace("-", "_") not in known:
            raise UsageError(f"{path}: no flag --{name}")
        flag = f"--{str(name).replace('_', '-')}"
        entries = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            entries = [f"{key}={column}" for key, column in value.items()]
        for entry in entries:
            if entry is True:
                flags.append(flag)
            elif entry is not False and entry is not None:
                flags.append(f"{flag}={entry}")
    return flags
