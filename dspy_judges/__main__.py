"""dspy-judges: every command by its word."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from dspy_judges import __version__
from dspy_judges.startup import run


class Command(NamedTuple):
    """`module` is what `python -m` calls; `target` the function that is called with `words`."""

    summary: str
    module: str
    target: str
    words: tuple[str, ...] = ()


COMMANDS = {
    "check": Command(
        "what a label file holds, and every problem", "data check", "data.check:main", ("check",)
    ),
    "tune": Command("tune a judge to human labels", "optimize", "optimize.cli.tune:command"),
    "verify": Command(
        "how far a judge agrees with people; a gate for CI",
        "optimize.verify",
        "optimize.cli.verify:command",
    ),
    "compare": Command(
        "judges and models side by side on the same labels",
        "optimize.compare",
        "optimize.cli.compare:command",
    ),
    "panel": Command(
        "several judges joined in one", "optimize.panel", "optimize.cli.panel:command"
    ),
    "estimate": Command(
        "true means from few labels and many scores",
        "optimize.estimate",
        "optimize.cli.estimate:command",
    ),
    **{
        word: Command(summary, f"judges {word}", "judges.cli.command:command", (word,))
        for word, summary in {
            "score": "judge every row of a table",
            "winrate": "compare the two outputs of every pair",
            "list": "the judges that come with this package",
            "show": "what a judge is, and its prompt",
            "export": "write a judge as messages, or for DSPy",
        }.items()
    },
}
ABOUT = """\
Tune LLM judges to human labels, measure them on labels they never saw, use them."""
EXAMPLES = """\
examples:
  dspy-judges check labels.csv
  dspy-judges tune --dimension relevance
  dspy-judges verify runs/relevance-001 --data labels.csv --min-spearman 0.4
  dspy-judges score runs/relevance-001 --data rows.csv --out scored.csv

`dspy-judges COMMAND --help` lists a command's flags."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that the first word names."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"dspy-judges {__version__}")
        return 0
    if words[:1] in ([], ["-h"], ["--help"]):
        print(_help(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    name, *rest = words
    if name not in COMMANDS:
        close = get_close_matches(name, [*COMMANDS, "--help", "--version"], n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        what = "option" if name.startswith("-") else "command"
        sys.stderr.write(f"dspy-judges: no {what} {name!r}{hint} (--help lists them)\n")
        return 2
    command = COMMANDS[name]
    return run(command.target, [*command.words, *rest])


def _help() -> str:
    lines = [
        f"  {name:<9} {command.summary:<50} python -m {command.module}"
        for name, command in COMMANDS.items()
    ]
    head = ["usage: dspy-judges COMMAND ...", "", ABOUT, "", "commands, and the same with python:"]
    return "\n".join([*head, *lines, "", "options: --help, --version", "", EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
