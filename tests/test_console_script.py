"""dspy-judges: its thirteen words and their helps, start-up, and a user's own modules beside it."""

import re
import tomllib
from pathlib import Path

import pytest
from jsonl import write_jsonl
from label_files import ended
from processes import run_python

from dspy_judges.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[1]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["dspy-judges"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


@pytest.mark.parametrize("line", ["check starter", "tune --dimension relevance --dry-run"])
def test_no_module_of_the_users_hides_the_console_script(line: str, here: Path) -> None:
    for name in ("data/__init__.py", "judges.py", "optimize.py", "datasets.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("raise RuntimeError('a module of the user')\n")
    (here / "bin").mkdir()
    module, _, function = ENTRY.partition(":")
    # As an installer writes it.
    script = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    (here / "bin" / "dspy-judges").write_text(script)
    done = run_python("bin/dspy-judges", *line.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_words_are_thirteen_and_the_scripts_help_has_a_line_for_each() -> None:
    words = "check label plan tune verify compare panel estimate score winrate list show export"
    assert list(COMMANDS) == words.split()
    code, text, _ = ended(main, "--help")
    assert code == 0
    for name, (summary, _) in COMMANDS.items():
        assert text.count(f"\n  {name:<9} {summary}\n") == 1
    assert max(map(len, text.splitlines())) <= 80


def test_a_help_names_its_command_on_one_page_of_80_columns_and_all_have_at_most_55_flags() -> None:
    flags = set(FLAG.findall(ended(main, "--help").out))
    for word in COMMANDS:
        code, text, _ = ended(main, word, "--help")
        assert code == 0
        assert text.startswith(f"usage: dspy-judges {word} ")
        assert "python -m" not in text
        lines = text.splitlines()
        assert len(lines) <= 70
        assert [line for line in lines if len(line) > 80] == []
        flags |= set(FLAG.findall(text))
    assert len(flags) <= 55


def test_what_needs_no_model_starts_without_it(here: Path) -> None:
    write_jsonl("outputs.jsonl", [{"input": f"I {n}", "output": f"T {n}"} for n in (1, 2)])
    script = (
        "import sys\nfrom dspy_judges.__main__ import main\n"
        "def loaded(*names): return {*names} & {*sys.modules}\n"
        "assert main(['list']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'scipy', 'datasets', 'aiohttp')\n"
        "assert main(['check', 'starter']) == main(['plan', 'outputs.jsonl']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'litellm')\n"
    )
    done = run_python("-c", script, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("scor", "score"),
        ("--versoin", "--version"),
        ("tune --dimnsion relevance", "--dimension"),
        # What is missing may be what was mistyped.
        ("score relevance --dta rows.csv", "--data"),
        ("verify --min-spaerman=0.2", "--min-spearman"),
    ],
)
def test_a_mistyped_word_gets_the_closest_one(line: str, suggestion: str) -> None:
    code, _, err = ended(main, *line.split())
    assert (code, err.count("\n")) == (2, 1)
    assert f"did you mean {suggestion}?" in err
