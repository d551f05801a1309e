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
from label_files import ended

from dspy_judges.__main__ import COMMANDS, main

ROOT = Path(__file__).parent.parent
SCRIPTS = (ROOT / "benchmarks", ROOT / "notebooks")  # which have flags of their own
PAGES = {
    page: page.read_text(encoding="utf-8")
    for page in (
        *(folder / "README.md" for folder in (ROOT, *SCRIPTS)),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}
STARTED = re.compile(r"((?:dspy-judges|python -m (?:optimize|judges|data)\b)[^&>]*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def documented(text: str) -> Iterator[str]:
    """A page's commands: all in blocks, and those in sentences that have flags."""
    in_blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    in_sentences = re.findall(r"`((?:dspy-judges|python -m) [^`]* --[^`]*)`", text)
    for line in [*in_blocks.replace("\\\n", " ").splitlines(), *in_sentences]:
        # A comment begins after a blank: `--map id=#row` has none.
        for command in STARTED.findall(re.split(r"(?:^|\s)#", line)[0]):
            yield " ".join(command.split())


DOCUMENTED = {(page.name, command) for page, text in PAGES.items() for command in documented(text)}


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


@pytest.mark.parametrize(("page", "command"), sorted(DOCUMENTED))
@pytest.mark.usefixtures("only_parsing")
def test_a_command_on_a_page_is_taken(page: str, command: str) -> None:
    with pytest.raises(ParsedError):
        main(word_and_arguments(command))


def test_pages_name_no_flag_that_no_command_has() -> None:
    of_ours = {name for word in COMMANDS for name in FLAG.findall(ended(main, word, "--help").out)}
    # mkdocs build --strict
    flags = of_ours | {"--version", "--strict"}
    for page, text in PAGES.items():
        assert page.parent in SCRIPTS or {*FLAG.findall(text)} <= flags, page.name


@pytest.mark.usefixtures("only_parsing")
def test_a_paid_run_can_be_rehearsed(tmp_path: Path) -> None:
    server = [sys.executable, ROOT / "benchmarks" / "simulated_server.py", tmp_path / "rehearsal"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        variables, command = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        bill = process.stdout.read()
    assert variables.startswith("export OPENAI_API_KEY=simulated OPENAI_BASE_URL=http://127.0.0.1:")
    assert "--dry-run" in command
    with pytest.raises(ParsedError):
        main(word_and_arguments(command))
    assert bill == "billed: 0 requests, $0.0000\n"
