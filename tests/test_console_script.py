"""dspy-judges: its words and helps, its start-up, its streams, and a user's modules beside it."""

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_runs import run
from jsonl import write_jsonl
from processes import TIMEOUT, run_python
from rating_files import weather_rows

from dspy_judges.__main__ import COMMANDS, main
from dspy_judges.startup import exit_on_ctrl_c

pytestmark = pytest.mark.usefixtures("here")
ROOT = Path(__file__).parents[1]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["dspy-judges"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


@pytest.mark.parametrize("line", ["check starter", "tune --dimension relevance --dry-run"])
def test_no_module_of_the_users_hides_the_console_script(line, here):
    for name in ("data/__init__.py", "judges.py", "optimize.py", "datasets.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("raise RuntimeError('a module of the user')\n")
    (here / "bin").mkdir()
    module, _, function = ENTRY.partition(":")
    # As an installer writes it.
    script = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    (here / "bin" / "dspy-judges").write_text(script)
    process = run_python("bin/dspy-judges", *line.split())
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout


def test_the_words_are_thirteen_and_the_scripts_help_has_a_line_for_each():
    words = "check label plan tune verify compare panel estimate score winrate list show export"
    assert list(COMMANDS) == words.split()
    code, text, _ = run(main, "--help")
    assert code == 0
    for name, (summary, _) in COMMANDS.items():
        assert text.count(f"\n  {name:<9} {summary}\n") == 1
    assert max(map(len, text.splitlines())) <= 80


def test_a_help_names_its_command_on_one_page_of_80_columns_and_all_have_at_most_55_flags():
    flags = set(FLAG.findall(run(main, "--help").stdout))
    for word in COMMANDS:
        code, text, _ = run(main, word, "--help")
        assert code == 0
        assert text.startswith(f"usage: dspy-judges {word} ")
        assert "python -m" not in text
        lines = text.splitlines()
        assert len(lines) <= 70
        assert [line for line in lines if len(line) > 80] == []
        flags |= set(FLAG.findall(text))
    assert len(flags) <= 55


def test_what_needs_no_model_starts_without_it(here):
    write_jsonl("outputs.jsonl", [{"input": f"I {n}", "output": f"T {n}"} for n in (1, 2)])
    script = (
        "import sys\nfrom dspy_judges.__main__ import main\n"
        "def loaded(*names): return {*names} & {*sys.modules}\n"
        "assert main(['list']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'scipy', 'datasets', 'aiohttp')\n"
        "assert main(['check', 'starter']) == main(['plan', 'outputs.jsonl']) == 0\n"
        "assert not loaded('dspy', 'pandas', 'litellm')\n"
    )
    process = run_python("-c", script, env={"PYTHONPATH": str(ROOT)})
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(("line", "suggestion"), [("scor", "score"), ("--versoin", "--version")])
def test_a_mistyped_word_gets_the_closest_one(line, suggestion):
    code, _, err = run(main, *line.split())
    assert (code, err.count("\n")) == (2, 1)
    assert f"did you mean {suggestion}?" in err


WORK = {
    "check": ("check labels.jsonl", 0),
    "verify": ("verify relevance --data labels.jsonl --min-spearman 0.99", 3),
    "tune": ("tune --dimension relevance --data labels.jsonl --out run", 0),
}


@pytest.mark.parametrize(("name", "n_read"), [*((name, 0) for name in WORK), ("check", 150)])
def test_a_reader_that_leaves_decides_nothing(name, n_read):
    write_jsonl("labels.jsonl", weather_rows(12, 4))
    line, code = WORK[name]
    command = [sys.executable, "-m", "dspy_judges", *line.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    running = subprocess.Popen(command, bufsize=0, **pipes)  # type: ignore[call-overload]
    text = running.stdout.read(n_read)
    running.stdout.close()
    assert running.wait(TIMEOUT) == code, text
    assert Path("run/summary.json").exists() == (name == "tune")


def shell(line: str) -> tuple[int, str, str]:
    line = line.replace("dspy-judges", f"{sys.executable} -m dspy_judges")
    process = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    return process.returncode, process.stdout, process.stderr


FULL = (1, "", "dspy-judges: stdout: No space left on device\n")
GONE = (1, "", "dspy-judges: the working folder is gone; change to one that exists\n")
needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="no device that is always full"
)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("dspy-judges --help | true; echo ${PIPESTATUS[0]}", (0, "0\n", "")),
        pytest.param("dspy-judges --help > /dev/full", FULL, marks=needs_full),
        pytest.param("dspy-judges check starter --json > /dev/full", FULL, marks=needs_full),
        ("mkdir gone && cd gone && rmdir ../gone && dspy-judges list", GONE),
    ],
)
def test_a_result_with_nowhere_to_go_is_one_line(line, result):
    assert shell(line) == result


def test_what_an_encoding_lacks_is_escaped_as_in_json():
    definition = "name: kind\ndefinition: 答え 😀\ninputs: [answer]\nscale: [1, 2]\nanchors: {}\n"
    Path("kind.yaml").write_text(definition, "utf-8")
    result = shell("PYTHONIOENCODING=ascii dspy-judges show kind.yaml")
    assert (result[0], result[2]) == (0, "")
    assert result[1].startswith("kind: \\u7b54\\u3048 \\ud83d\\ude00\n")


def test_ctrl_c_ends_a_command_that_is_loaded_at_once_and_afterwards_as_ever():
    loading = (
        "import os, signal, time\n"
        "from dspy_judges.startup import exit_on_ctrl_c\n"
        "with exit_on_ctrl_c():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    process = run_python("-c", loading)
    assert (process.returncode, process.stderr) == (130, "interrupted\n")
    before = signal.getsignal(signal.SIGINT)
    with exit_on_ctrl_c():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
