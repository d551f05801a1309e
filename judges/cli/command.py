"""One command from its arguments, those of a --config file too, to its exit code."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from data.flags import add_version
from judges.cli import export, show, table_commands
from judges.cli.arguments import Parser
from judges.cli.shell import run_command
from judges.errors import UsageError
from judges.inference.progress import quiet_notes, verbose_logging
from judges.yaml_text import YamlTextError, read_yaml

ABOUT = """\
Judge texts with rating judges and pairwise judges: from the catalogue, frozen
after tuning (python -m optimize), or defined in a file of your own. The
embedded model answers offline and for free unless --lm names another."""

EXAMPLES = """\
examples:
  python -m judges list
  python -m judges show relevance
  python -m judges score relevance --data rows.csv --out scored.csv
  python -m judges compare tldr_concise --data pairs.jsonl --out verdicts.jsonl

`python -m judges COMMAND --help` tells each command's flags. Keys are read
from the environment (OPENAI_API_KEY and its like) and written nowhere. A
command ends with 0, or 1 where it failed, 2 for wrong usage, 130 where it was
interrupted (--resume goes on). `python -m optimize` tunes a judge, `python -m
optimize.verify` measures one, `python -m data` looks at labels."""


CONFIG_BYTES = 100_000
# What names the command itself, or is no flag.
NO_FLAG = frozenset({"config", "help", "run", "judge", "judges", "file"})


def command(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    command_parser, commands = build_parser()
    args = argparse.Namespace()

    def work() -> int:
        command_parser.parse_args(_with_config(commands, argv), args)
        with (
            verbose_logging(getattr(args, "verbose", False)),
            quiet_notes(getattr(args, "quiet", False)),
        ):
            code: int = args.run(args)
        return code

    return run_command(
        "judges",
        work,
        verbose="--verbose" in argv,
        interrupted=lambda: "judges: interrupted",
    )


def parser() -> argparse.ArgumentParser:
    return build_parser()[0]


def build_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and its commands' own by their names."""
    command_parser: argparse.ArgumentParser = Parser(
        prog="python -m judges",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add_version(command_parser)
    commands = command_parser.add_subparsers(metavar="COMMAND", required=True)
    show.add(commands)
    table_commands.add_score(commands)
    table_commands.add_compare(commands)
    export.add(commands)
    return command_parser, commands.choices


def _with_config(
    commands: Mapping[str, argparse.ArgumentParser], argv: Sequence[str]
) -> Sequence[str]:
    """The arguments with those of a file named by --config put before them."""
    if not argv or argv[0] not in commands:
        return argv
    # Looked for before the rest is parsed, since the file may give what the command requires.
    config_parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    config_parser.add_argument("--config")
    try:
        file = config_parser.parse_known_args(list(argv[1:]))[0].config
    except argparse.ArgumentError:
        return argv
    if file is None:
        return argv
    known = {action.dest for action in commands[argv[0]]._actions} - NO_FLAG
    # After the command's name, so that what the user typed comes later and wins.
    return [argv[0], *_flags(Path(file), known), *argv[1:]]


def _flags(path: Path, known: set[str]) -> list[str]:
    """A YAML file's entries as the words of a command line; raises UsageError."""
    try:
        values = read_yaml(path, max_bytes=CONFIG_BYTES)
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
