"""Commands on the pages: every one that README and docs/ show is one that its parser takes."""

import re
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data.check import parser as data_parser
from judges.cli.command import build_parser
from optimize.cli import alternative, compare, estimate, panel, report, tune, verify

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PARSERS: dict[str, Callable[[], ArgumentParser]] = {
    "optimize": tune.parser,
    "optimize.verify": verify.parser,
    "optimize.compare": compare.parser,
    "optimize.panel": panel.parser,
    "optimize.estimate": estimate.parser,
    "optimize.alternative": alternative.parser,
    "optimize.report": report.parser,
    "judges": lambda: build_parser()[0],
    "data": data_parser,
}


def commands() -> Iterator[tuple[str, str]]:
    """Each page's commands, a logical line each."""
    for page in PAGES:
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                # A comment begins after a blank: `--map id=#line` has none.
                typed = re.split(r"(?:^|\s)[#>]", line)[0]
                for command in re.findall(r"python -m ((?:optimize|judges|data)\b[^&]*)", typed):
                    yield page.name, " ".join(command.split())


COMMANDS = [*commands()]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_on_a_page_is_taken(page: str, command: str) -> None:
    module, *arguments = shlex.split(command.replace("$D", "relevance"))
    PARSERS[module]().parse_args(arguments)


def test_the_first_paid_run_shows_every_flag_that_a_paid_run_needs() -> None:
    text = (ROOT / "docs" / "first_paid_run.md").read_text(encoding="utf-8")
    flags = set(re.findall(r"--[a-z][a-z-]*[a-z]", text))
    known = {flag for module in PARSERS for flag in options(PARSERS[module]())}
    assert flags - known == set()
    needed = "--api-key-env --dry-run --max-cost --resume --reasoning --max-demos --prefer --cache"
    assert set(needed.split()) <= flags


def test_a_paid_run_can_be_rehearsed(tmp_path: Path) -> None:
    server = ROOT / "benchmarks" / "simulated_server.py"
    with subprocess.Popen(
        [sys.executable, server, tmp_path / "rehearsal"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        variables, command = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        bill = process.stdout.read()
    assert variables.startswith("export OPENAI_API_KEY=simulated OPENAI_BASE_URL=http://127.0.0.1:")
    flags = tune.parser().parse_args(shlex.split(command)[3:])
    assert Path(flags.dimension).exists()
    assert Path(flags.data).exists()
    assert flags.dry_run
    assert bill == "billed: 0 requests, $0.0000\n"


def options(parser: ArgumentParser) -> Iterator[str]:
    """A parser's flags, and those of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from options(command)
