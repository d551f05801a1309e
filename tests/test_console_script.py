"""dspy-judges: its thirteen words and their helps, start-up, and a user's own modules beside it."""

import re
import tomllib
from pathlib import Path

import pytest
from jsonl import write_jsonl
from processes import run_python

from dspy_judges.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[1]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["dspy-judges"]
# As an installer writes it.
SCRIPT = "import sys\nfrom {} import {}\nsys.exit({}())\n"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder where every one of our packages' names, and a library's, is theirs."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "data").mkdir()
    for name in ("data/__init__.py", "judges.py", "optimize.py", "datasets.py"):
        (folder / name).write_text("raise RuntimeError('a module of the user')\n")
    (folder / "bin").mkdir()
    module, _, function = ENTRY.partition(":")
    (folder / "bin" / "dspy-judges").write_text(SCRIPT.format(module, function, function))
    return folder


def ended(words: list[str]) -> object:
    """The exit code, also of a parser that ends the process."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def help_of(word: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert ended([word, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [("check", "starter"), ("tune", "--dimension", "relevance", "--dry-run")]
)
def test_no_module_of_the_users_hides_the_console_script(
    project: Path, words: tuple[str, ...]
) -> None:
    done = run_python("bin/dspy-judges", *words, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_words_are_thirteen_and_the_scripts_help_has_a_line_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(COMMANDS) == [
        *("check", "label", "plan", "tune", "verify", "compare", "panel", "estimate"),
        *("score", "winrate", "list", "show", "export"),
    ]
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(
        text.count(f"\n  {name:<9} {summary}\n") == 1 for name, (summary, _) in COMMANDS.items()
    )
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("word", COMMANDS)
def test_a_help_names_its_command_on_one_page_of_80_columns(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(word, capsys)
    assert text.startswith(f"usage: dspy-judges {word} ")
    assert "python -m" not in text
    lines = text.splitlines()
    assert len(lines) <= 70
    assert [line for line in lines if len(line) > 80] == []


def test_all_helps_together_have_at_most_55_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    flags = set(FLAG.findall(capsys.readouterr().out))
    for word in COMMANDS:
        flags |= set(FLAG.findall(help_of(word, capsys)))
    assert len(flags) <= 55


def test_what_needs_no_model_starts_without_it(tmp_path: Path) -> None:
    rows = [{"input": f"I {n}", "output": f"T {n}"} for n in (1, 2)]
    write_jsonl(tmp_path / "outputs.jsonl", rows)
    script = (
        "import sys\nfrom dspy_judges.__main__ import main\n"
        "def loaded(*names): return {*names} & {*sys.modules}\n"
        "assert main(['list']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'scipy', 'datasets', 'aiohttp')\n"
        "assert main(['check', 'starter']) == main(['plan', 'outputs.jsonl']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'litellm')\n"
    )
    done = run_python("-c", script, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["scor"], "did you mean score?"),
        (["--versoin"], "did you mean --version?"),
        (["tune", "--dimnsion", "relevance"], "did you mean --dimension?"),
        # What is missing may be what was mistyped.
        (["score", "relevance", "--dta", "rows.csv"], "did you mean --data?"),
        (["verify", "--min-spaerman=0.2"], "did you mean --min-spearman?"),
    ],
)
def test_a_mistyped_word_gets_the_closest_one(
    words: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(words) == 2
    message = capsys.readouterr().err
    assert suggestion in message
    assert message.count("\n") == 1
