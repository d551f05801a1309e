"""dspy-judges and python -m beside a user's own modules: names, suggestions, versions, start-up."""

import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from dspy_judges.completion import _parser_of
from processes import run_python

from dspy_judges import __version__, commands
from dspy_judges.__main__ import main
from dspy_judges.commands import COMMANDS, as_called

ROOT = Path(__file__).parents[1]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["dspy-judges"]
# As an installer writes it.
SCRIPT = "import sys\nfrom {} import {}\nsys.exit({}())\n"


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


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python(*words, cwd=folder, env=environment)


@pytest.fixture(autouse=True)
def not_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_script_is_running", False)


@pytest.mark.parametrize(
    "words", [("list",), ("describe", "starter"), ("tune", "--dimension", "relevance", "--dry-run")]
)
def test_no_module_of_the_users_hides_the_console_script(
    project: Path, words: tuple[str, ...]
) -> None:
    done = run(project, "bin/dspy-judges", *words, PYTHONPATH=str(project))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_python_m_optimize_works_beside_modules_of_our_names(tmp_path: Path) -> None:
    for name in ("data.py", "judges.py", "datasets.py"):
        (tmp_path / name).write_text("raise RuntimeError('a module of the user')\n")
    done = run(tmp_path, "-m", "optimize", "--dimension", "relevance", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "relevance judged by embedded" in done.stdout


def test_a_script_of_the_users_has_our_functions_beside_modules_of_our_names(
    project: Path,
) -> None:
    (project / "script.py").write_text(
        "import dspy_judges\n"
        "print(dspy_judges.load('relevance').name, dspy_judges.tune.__module__)\n"
        "print(dspy_judges.data.starter().name, dspy_judges.measure.__name__)\n"
    )
    done = run(project, "script.py", PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "relevance optimize.tuning\nstarter measure\n"


def test_advice_names_the_commands_as_they_were_called(tmp_path: Path) -> None:
    """A page that goes on, a refusal of many problems, and a refusal of a command."""
    rows = "".join(f"r{i},Text {i},Short {i},{i % 5 + 1}\n" for i in range(8))
    (tmp_path / "good.csv").write_text(f"id,document,summary,relevance\n{rows}")
    (tmp_path / "bad.csv").write_text("id,document,summary,relevance\na,T,S,1\na,T,R,2\na,T,Q,3\n")
    called = (
        ["check", "good.csv"],
        ["describe", "bad.csv"],
        ["verify", "relevance", "--data", "bad.csv"],
        ["list", "relevence"],
    )
    for words in called:
        done = run(tmp_path, "-m", "dspy_judges", *words)
        assert "python -m" not in done.stdout + done.stderr
        assert "dspy-judges" in done.stdout + done.stderr
        module = COMMANDS[words[0]]
        done = run(tmp_path, "-m", module.module, *module.words, *words[1:])
        assert "dspy-judges" not in done.stdout + done.stderr
        assert "python -m" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--version"], ["list"], ["--help"]])
def test_what_needs_no_model_starts_without_dspy_and_pandas(words: list[str]) -> None:
    script = (
        f"import sys\nfrom dspy_judges.__main__ import main\nassert main({words}) == 0\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'datasets', 'aiohttp'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run(ROOT, "-c", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["optimize", "optimize.verify", "judges", "data"])
def test_every_command_tells_its_version(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = next(c for c in COMMANDS.values() if c.module == module)
    file, _, function = command.target.partition(":")
    with pytest.raises(SystemExit) as ended:
        getattr(import_module(file), function)(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"dspy-judges {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_scripts_help_names_the_scripts_commands_in_80_columns(name: str) -> None:
    commands.name_by_script()
    text = _parser_of(COMMANDS[name]).format_help()
    assert f"dspy-judges {name}" in text
    # A usage goes on below its first flag.
    usage = text.partition("\n\n")[0].splitlines()
    indents = {len(line) - len(line.lstrip()) for line in usage[1:]}
    if usage[0].startswith(f"usage: dspy-judges {name} ["):
        assert indents <= {len(f"usage: dspy-judges {name} ")}
    assert "python -m" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_command_is_named_as_it_was_called() -> None:
    text = "python -m optimize.compare, python -m optimize --resume; python -m judges winrate X"
    assert as_called(text) == text
    commands.name_by_script()
    assert (
        as_called(text) == "dspy-judges compare, dspy-judges tune --resume; dspy-judges winrate X"
    )
    # Not cut out of a longer name, and a group of commands has none.
    assert as_called("python -m optimize_mine") == "python -m optimize_mine"
    assert as_called("python -m judges COMMAND --help") == "dspy-judges COMMAND --help"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["scor"], "did you mean score?"),
        (["--versoin"], "did you mean --version?"),
        (["tune", "--dimnsion", "relevance"], "did you mean --dimension?"),
        # What is missing may be what was mistyped.
        (["score", "relevance", "--dta", "rows.csv"], "did you mean --data?"),
        (["score", "relevance", "--data", "rows.csv", "--batch-api", "colect"], "mean collect?"),
        (["verify", "--min-spaerman=0.2"], "did you mean --min-spearman?"),
    ],
)
def test_a_mistyped_word_gets_the_closest_one(
    words: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(words)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    told = capsys.readouterr().err
    assert suggestion in told
    assert told.count("\n") == 1


def test_a_word_like_no_other_gets_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_a_value_that_looks_like_a_flag_after_two_dashes_is_taken(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "data", "check", "--", "--labels.csv")
    assert "--labels.csv: does not exist" in done.stdout


def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    script = run(ROOT, "-m", "dspy_judges", "completion", "bash").stdout
    complete = (
        "COMP_WORDS=(dspy-judges {0}); COMP_CWORD={1}; COMPREPLY=(); _shtab_dspy_judges; "
        'echo "${{COMPREPLY[@]}}"\n'
    )
    (tmp_path / "complete.sh").write_text(
        script + complete.format("ver", 1) + complete.format("verify --min", 2)
    )
    done = subprocess.run(
        ["bash", str(tmp_path / "complete.sh")], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["verify", "--min-spearman"], done.stderr


def test_zsh_gets_its_own_completions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef dspy-judges")
