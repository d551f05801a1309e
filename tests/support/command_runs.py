"""Commands in this process: their exit codes and what they print."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from typing import Any, NamedTuple

Command = Callable[[list[str]], object]


class Result(NamedTuple):
    """The exit code of a command, and what it printed."""

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

    @property
    def last(self) -> str:
        """The last line of stderr."""
        return self.stderr.splitlines()[-1]


def run(command: Command, *words: object) -> Result:
    """Run a command with these words to its end, also where its parser ends the process."""
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command([*map(str, words)])
        except SystemExit as end:
            code = end.code
    return Result(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def output_of(command: Command, *words: object) -> str:
    """The words of stdout of a command that ends well."""
    result = run(command, *words)
    assert result.code == 0, result.stderr
    return result.out


def json_of(command: Command, *words: object, code: object = 0) -> Any:
    """What a command prints with --json."""
    result = run(command, *words, "--json")
    assert result.code == code, result.stderr
    return json.loads(result.stdout)
