"""Commands in this process: their exit codes and what they print."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

Command = Callable[[list[str]], object]


class Ended(NamedTuple):
    code: object
    stdout: str
    stderr: str

    @property
    def out(self) -> str:
        """The words of stdout, wherever its lines end."""
        return " ".join(self.stdout.split())

    @property
    def err(self) -> str:
        return " ".join(self.stderr.split())


def run(command: Command, *words: object) -> Ended:
    """Run a command with these words to its end."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            code = command([*map(str, words)])
        except SystemExit as end:
            code = end.code
    return Ended(code, out.getvalue(), err.getvalue())


def printed(command: Command, *words: object) -> str:
    """The words of stdout of a command that ends well."""
    ended = run(command, *words)
    assert ended.code == 0, ended.stderr
    return ended.out


def result_of(command: Command, *words: object, code: object = 0) -> Any:
    """What a command prints with --json."""
    ended = run(command, *words, "--json")
    assert ended.code == code, ended.stderr
    return json.loads(ended.stdout)
