"""dspy-judges, or python -m dspy_judges: every command of the project by its name."""

import sys
from collections.abc import Sequence

from dspy_judges.commands import COMMANDS, SCRIPT, name_by_script
from dspy_judges.startup import open_streams, run, use_own_packages

ABOUT = """\
LLM judges tuned against human labels, and measured on labels they never saw."""
EXAMPLES = """\
examples:
  dspy-judges tune --dimension relevance
  dspy-judges verify runs/relevance-001 --data labels.jsonl
  dspy-judges score runs/relevance-001 --data rows.csv --out scored.csv

`dspy-judges COMMAND --help` lists a command's flags. Where no module of your own
is called judges, optimize or data, `python -m judges`, `python -m optimize` and
`python -m data` are the same commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that the first word names."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    name_by_script()
    if words in (["--version"], ["-V"]):
        from dspy_judges.version import __version__

        print(f"{SCRIPT} {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    name, *rest = words
    if name not in COMMANDS:
        return _no_such_command(name)
    return run(COMMANDS[name].target, [*COMMANDS[name].words, *rest])


def _help() -> str:
    lines = [f"  {name:<11}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        (
            f"usage: {SCRIPT} COMMAND ...",
            "",
            ABOUT,
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  -h, --help    print this",
            "  --version     print the version",
            "",
            EXAMPLES,
        )
    )


def _no_such_command(name: str) -> int:
    use_own_packages()
    from data.flags import did_you_mean
    from judges.cli.shell import print_error

    what = "option" if name.startswith("-") else "command"
    known = [*COMMANDS, "--help", "--version"]
    print_error(f"{SCRIPT}: no {what} {name!r}{did_you_mean(name, known)} (--help lists them)")
    return 2


if __name__ == "__main__":
    sys.exit(main())
