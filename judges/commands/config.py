"""Read flags' values from a YAML file; flags on the command line beat them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from judges.commands.options import UsageError
from judges.yaml_text import YamlTextError, read_yaml

MOST_BYTES = 100_000


def read_config(
    parser: argparse.ArgumentParser, args: argparse.Namespace, argv: Sequence[str] | None
) -> argparse.Namespace:
    """Parse again with the file's values put before the flags given."""
    path = Path(args.config)
    try:
        values = read_yaml(path, most_bytes=MOST_BYTES)
    except YamlTextError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: flags' names and values are wanted, as in 'lm: openai/NAME'")
    import sys

    given = list(sys.argv[1:] if argv is None else argv)
    # After the command's name, so that what the user typed comes later and wins.
    return parser.parse_args([given[0], *_flags(path, values, args), *given[1:]])


def _flags(path: Path, values: dict[object, object], args: argparse.Namespace) -> list[str]:
    flags = []
    for name, value in values.items():
        known = str(name).replace("-", "_")
        if known not in vars(args) or known in {"config", "run", "judge", "judges"}:
            raise UsageError(f"{path}: no flag --{name}")
        flag = f"--{str(name).replace('_', '-')}"
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            if entry is True:
                flags.append(flag)
            elif entry is not False and entry is not None:
                flags.append(f"{flag}={entry}")
    return flags
