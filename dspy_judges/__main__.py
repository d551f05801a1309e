"""The console script `dspy-judges`: the first argument names the command to run."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches

from dspy_judges import __version__
from dspy_judges.startup import run, wrap_output_streams

# For each command: its summary in the help, and the MODULE:FUNCTION that runs it.
COMMANDS = {
    "check": ("what a label file holds, and every problem", "optimize.check:command"),
    "label": ("a web page to label outputs one by one", "optimize.label:command"),
    "plan": ("which documents to label next, and how many", "optimize.plan:command"),
    "tune": ("tune a judge to human labels", "optimize.__main__:command"),
    "verify": ("how far a judge agrees with people; can fail a CI run", "optimize.verify:command"),
    "compare": ("how far several judges and models agree with people", "optimize.compare:command"),
    "panel": ("several judges joined in one", "optimize.panel:command"),
    "estimate": ("the mean of people's labels, from few labels", "optimize.estimate:command"),
    "score": ("judge every row of a table", "judges.cli.commands:score"),
    "winrate": ("compare the two outputs of every pair", "judges.cli.commands:winrate"),
    "list": ("the judges that come with this package", "judges.cli.commands:list_judges"),
    "show": ("a judge's definition and its prompt", "judges.cli.commands:show"),
    "export": ("a judge's prompt as a chat-completions request", "judges.cli.commands:export"),
}
DESCRIPTION = """\
Tune LLM judges to human labels, measure them on labels that they never saw,
and use them."""
EPILOG = """\
options: --help, --version

Where the script is not installed, Python starts the same commands: `python -m
dspy_judges WORD`, or `python -m data WORD` for check and label, `python -m
optimize` for tune, `python -m optimize.WORD` for plan, verify, compare, panel
and estimate, `python -m judges WORD` for score, winrate, list, show, export.

examples:
  dspy-judges check labels.csv
  dspy-judges tune --dimension relevance
  dspy-judges verify runs/relevance-001 --data labels.csv --min-spearman 0.4
  dspy-judges score runs/relevance-001 --data rows.csv --out scored.csv

`dspy-judges WORD --help` explains a command and its flags."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command named by the first argument, and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    wrap_output_streams()
    if arguments == ["--version"]:
        print(f"dspy-judges {__version__}")
        return 0
    if arguments[:1] in ([], ["-h"], ["--help"]):
        summaries = "\n".join(f"  {name:<9} {summary}" for name, (summary, _) in COMMANDS.items())
        paragraphs = "usage: dspy-judges WORD ...", DESCRIPTION, f"commands:\n{summaries}", EPILOG
        help_text = "\n\n".join(paragraphs)
        print(help_text, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    command_name, *command_arguments = arguments
    if command_name not in COMMANDS:
        similar_names = get_close_matches(command_name, [*COMMANDS, "--help", "--version"], n=1)
        suggestion = f"; did you mean {similar_names[0]}?" if similar_names else ""
        message = f"no command {command_name!r}{suggestion} (--help lists them)"
        print(f"dspy-judges: {message}", file=sys.stderr)
        return 2
    return run(COMMANDS[command_name][1], command_arguments)


if __name__ == "__main__":
    sys.exit(main())
