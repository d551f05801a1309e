"""dspy-judges completion: what a shell needs to complete our commands and their flags."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from data.flags import Parser
from dspy_judges.commands import COMMANDS, SCRIPT, Command

ABOUT = """\
Print what completes the commands and their flags, for bash or zsh.

examples:
  eval "$(dspy-judges completion bash)"      # in ~/.bashrc
  dspy-judges completion zsh > ~/.zfunc/_dspy-judges    # a folder of fpath"""


def command(arguments: Sequence[str]) -> int:
    """Print the completions of one shell."""
    shell = parser().parse_args(arguments).shell
    import shtab

    print(shtab.complete(_whole_parser(), shell=shell))
    return 0


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(prog=f"{SCRIPT} completion", description=ABOUT)
    command_parser.add_argument("shell", choices=("bash", "zsh"), help="whose completions to print")
    return command_parser


def _whole_parser() -> argparse.ArgumentParser:
    """All commands as one parser's subcommands."""
    whole = Parser(prog=SCRIPT)
    whole.add_argument("--version", action="store_true", help="print the version")
    subcommands: Any = whole.add_subparsers()
    for name, listed in COMMANDS.items():
        subcommands.add_parser(name, help=listed.summary)
        subcommands.choices[name] = _parser_of(listed)
    return whole


def _parser_of(listed: Command) -> argparse.ArgumentParser:
    module = import_module(listed.target.partition(":")[0])
    command_parser: argparse.ArgumentParser = module.parser()
    for word in listed.words:
        actions = command_parser._actions
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):
                command_parser = action.choices[word]
    return command_parser
