"""The outside of optimize.report: draw a finished run's report again, asking no model anything."""

from collections.abc import Sequence
from pathlib import Path

from judges.cli.shell import DONE, print_output, run_command
from optimize.cli.tool import ANNOTATIONS, Parser
from optimize.report.run_report import read_run, run_table, write_report

NAME = "python -m optimize.report"


def parser() -> Parser:
    command_parser = Parser(
        prog=NAME,
        description="Draw a finished run's report again from its folder; no model is asked.",
        allow_abbrev=False,
    )
    command_parser.add_argument("folder", metavar="RUN_FOLDER", help="such as runs/relevance-001")
    command_parser.add_argument(
        "--annotations",
        metavar="FILE",
        help=ANNOTATIONS,
    )
    command_parser.add_argument(
        "--markdown", action="store_true", help="print a short table for a README instead"
    )
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed with one line, 2 wrong usage, 130 interrupted."""
    flags = parser().parse_args(arguments)
    folder = Path(flags.folder)
    annotations = Path(flags.annotations) if flags.annotations else None

    def draw() -> int:
        if flags.markdown:
            result = run_table(read_run(folder, annotations))
        else:
            result = str(write_report(folder, annotations))
        print_output(result.rstrip("\n"))
        return DONE

    return run_command(NAME, draw, quiet=flags.quiet)
