"""Commands on the pages: each is one that its parser takes, and no page names another flag."""

import argparse
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dspy_judges.__main__ import COMMANDS, main

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SCRIPTS = (ROOT / "benchmarks", ROOT / "notebooks")  # which have flags of their own
PAGES = [
    README,
    *(folder / "README.md" for folder in SCRIPTS),
    *sorted((ROOT / "docs").rglob("*.md")),
]
STARTED = re.compile(r"((?:dspy-judges|python -m (?:optimize|judges|data)\b)[^&>]*)")
OF_OTHER_TOOLS = {"--strict"}  # mkdocs build


def documented() -> Iterator[tuple[str, str]]:
    """Each page's commands: all in blocks, and those in sentences that have flags."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        in_blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
        in_sentences = re.findall(r"`((?:dspy-judges|python -m) [^`]* --[^`]*)`", text)
        for line in [*in_blocks.replace("\\\n", " ").splitlines(), *in_sentences]:
            # A comment begins after a blank: `--map id=#row` has none.
            typed = re.split(r"(?:^|\s)#", line)[0]
            for command in STARTED.findall(typed):
                yield page.name, " ".join(command.split())


DOCUMENTED = sorted(set(documented()))


def word_and_arguments(command: str) -> list[str]:
    """As the console script takes it."""
    program, *rest = shlex.split(command.replace("$D", "relevance"))
    if program == "dspy-judges":
        return rest
    module, *rest = rest[1:]
    if module == "optimize":
        return ["tune", *rest]
    return [module.removeprefix("optimize."), *rest] if "." in module else rest


class ParsedError(Exception):
    """Ends a command once its parser has taken the words."""


@pytest.fixture
def only_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def then_stop(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*arguments: Any, **options: Any) -> Any:
            parse(*arguments, **options)
            raise ParsedError

        return parsed

    for name in ("parse_args", "parse_intermixed_args"):
        parse = getattr(argparse.ArgumentParser, name)
        monkeypatch.setattr(argparse.ArgumentParser, name, then_stop(parse))


@pytest.mark.parametrize(("page", "command"), DOCUMENTED)
@pytest.mark.usefixtures("only_parsing")
def test_a_command_on_a_page_is_taken(page: str, command: str) -> None:
    with pytest.raises(ParsedError):
        main(word_and_arguments(command))


def help_of(word: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main([word, "--help"])
    return capsys.readouterr().out


def test_pages_name_no_flag_that_no_command_has(capsys: pytest.CaptureFixture[str]) -> None:
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
    flags = {name for word in COMMANDS for name in flag.findall(help_of(word, capsys))}
    flags.add("--version")
    named = {
        (page.name, name)
        for page in PAGES
        if page.parent not in SCRIPTS
        for name in flag.findall(page.read_text(encoding="utf-8"))
    }
    assert {(page, name) for page, name in named if name not in flags | OF_OTHER_TOOLS} == set()


@pytest.mark.usefixtures("only_parsing")
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
    assert "--dry-run" in command
    with pytest.raises(ParsedError):
        main(word_and_arguments(command))
    assert bill == "billed: 0 requests, $0.0000\n"
