"""dspy-judges: its words and helps, its start-up, its streams, and a user's modules beside it."""

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_runs import run
from files import file_of, write_jsonl
from processes import TIMEOUT, run_python, start_command
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


@pytest.mark.parametrize("word", ["plan", "verify", "compare", "panel", "estimate"])
def test_no_module_of_the_users_hides_a_library_of_a_command(word, here):
    for name in ("numpy.py", "msgspec.py"):
        (here / name).write_text("raise RuntimeError('a module of the user')\n")
    process = run_python("-m", f"optimize.{word}", "--help", env={"PYTHONPATH": str(ROOT)})
    assert (process.returncode, process.stderr) == (0, "")


def test_thirteen_commands_have_one_page_of_help_each():
    words = "check label plan tune verify compare panel estimate score winrate list show export"
    assert list(COMMANDS) == words.split()
    flags = set[str]()
    for word in ("", *COMMANDS):
        code, text, _ = run(main, *word.split(), "--help")
        assert code == 0
        assert text.startswith(f"usage: dspy-judges {word}")
        lines = text.splitlines()
        assert len(lines) <= 70
        assert [line for line in lines if len(line) > 80] == []
        flags |= set(FLAG.findall(text))
    assert len(flags) <= 55
    text = run(main, "--help").stdout
    assert all(f"\n  {name:<9} {about}\n" in text for name, (about, _) in COMMANDS.items())


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


@pytest.mark.parametrize(
    ("line", "code", "n_read"),
    [
        ("check labels.jsonl", 0, 0),
        ("check labels.jsonl", 0, 150),
        ("verify relevance --data labels.jsonl --min-spearman 0.99", 3, 0),
        ("tune --dimension relevance --data labels.jsonl --out run", 0, 0),
    ],
)
def test_a_reader_that_leaves_decides_nothing(line, code, n_read):
    write_jsonl("labels.jsonl", weather_rows(12, 4))
    with start_command(*line.split(), stderr=subprocess.STDOUT, text=False, bufsize=0) as running:
        text = running.stdout.read(n_read)
        running.stdout.close()
        assert running.wait(TIMEOUT) == code, text
    assert Path("run/summary.json").exists() == line.startswith("tune")


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


def test_what_an_encoding_lacks_is_escaped():
    definition = "name: kind\ndefinition: 答え 😀\ninputs: [answer]\nscale: [1, 2]\nanchors: {}\n"
    Path("kind.yaml").write_text(definition, "utf-8")
    result = shell("PYTHONIOENCODING=ascii dspy-judges show kind.yaml")
    assert (result[0], result[2]) == (0, "")
    assert result[1].startswith("kind: \\u7b54\\u3048 \\U0001f600\n")


def test_ctrl_c_ends_a_command_that_is_loading():
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


def test_a_module_that_hides_judges_is_named_in_one_line(here):
    file_of("", "judges.py")
    process = run_python("-c", "import optimize; optimize.measure", env={"PYTHONPATH": str(ROOT)})
    hides = f"{here / 'judges.py'} hides the package 'judges' of dspy-judges; rename that file"
    assert process.stderr.splitlines()[-1] == f"ImportError: {hides}"
