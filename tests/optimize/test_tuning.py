"""Tuning from Python: the same run as the command's, as an object."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from jsonl import write_jsonl
from processes import run_python

import judges
import optimize
from data.types import LabelError
from judges.dimension import DimensionError
from judges.protocol import ModelError

PLAIN = judges.Dimension(
    name="plain_words",
    definition="how plain the words are",
    inputs={"document": "the text", "summary": "the summary to judge"},
    anchors={1: "hard", 2: "", 3: "", 4: "", 5: "plain"},
    instruction="Say how plain the words of the summary are.",
    source="made up for this test",
)
SHORTER = judges.Comparison(
    name="shorter_one",
    definition="which summary says it in fewer words",
    inputs={"post": "the post"},
    candidate="summary",
    instruction="Decide which summary says it in fewer words.",
)
NAMED = {"plain_words": "plainness"}
CALLS = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(autouse=True)
def in_the_folder(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


@pytest.fixture(scope="module")
def labels(folder: Path) -> str:
    """The starter set, its fluency ratings under another name."""
    whole = (Path(optimize.__file__).parents[1] / "data" / "starter" / "outputs.jsonl").read_text()
    rows = [json.loads(line) for line in whole.splitlines()]
    for row in rows:
        row["plainness"] = row.pop("ratings")["fluency"]
    path = folder / "plain.jsonl"
    write_jsonl(path, rows)
    return path.name


@pytest.fixture(scope="module")
def run(folder: Path) -> optimize.Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return optimize.tune("fluency", quiet=True, max_calls=CALLS)


def test_a_run_holds_what_the_commands_summary_holds(run: optimize.Run) -> None:
    assert run.folder == Path("runs/fluency-001")
    assert run.summary == json.loads((run.folder / "summary.json").read_text())


def test_a_run_prints_as_the_commands_scorecard_and_shows_as_a_table(run: optimize.Run) -> None:
    assert str(run).splitlines()[0] == "fluency judged by embedded, rank search, seed 0"
    assert str(run).splitlines()[-1] == str(run.folder)
    value = run.summary["seed_judge"]["test"]["value"]
    assert f"{value:.3f}" in str(run)
    assert f"<td>{value:.3f} [" in run._repr_html_()
    assert repr(run) == f"Run('runs/fluency-001', shipped {run.summary['shipped']})"


def test_a_runs_judge_is_its_frozen_judge(run: optimize.Run) -> None:
    assert run.judge == judges.load(run.folder)
    assert run.report.is_file()


def test_the_command_makes_the_same_run(run: optimize.Run) -> None:
    command = ["-m", "optimize", "--dimension", "fluency", "--json"]
    done = run_python(*command, "--max-calls", str(CALLS), "--out", "by-command", check=True)
    theirs = json.loads(done.stdout)
    assert {**theirs, "seconds": 0} == {**run.summary, "seconds": 0}


def test_progress_goes_to_stderr_unless_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    optimize.tune("fluency", quiet=True, max_calls=CALLS, out="quiet")
    assert capfd.readouterr() == ("", "")
    optimize.tune("fluency", max_calls=CALLS, out="quiet", resume=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("quiet: summary-level rho, 306 outputs\n")


@pytest.fixture(scope="module")
def plain(folder: Path, labels: str) -> optimize.Run:
    """A run on a definition that stands in no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return optimize.tune(PLAIN, data=labels, map=NAMED, quiet=True, max_calls=CALLS)


def test_a_definition_in_code_is_tuned_and_kept_in_a_file(plain: optimize.Run) -> None:
    assert plain.judge.subject == PLAIN
    assert judges.read_subject(str(plain.folder / "definition.yaml")) == PLAIN


def test_a_run_on_a_definition_in_code_can_be_resumed(plain: optimize.Run) -> None:
    again = optimize.tune(PLAIN, resume=True, quiet=True)
    assert again.folder == plain.folder
    assert {**again.summary, "seconds": 0} == {**plain.summary, "seconds": 0}


def test_the_command_resumes_it_too(plain: optimize.Run) -> None:
    done = run_python("-m", "optimize", "--resume", "--out", plain.folder, "--json", check=True)
    assert {**json.loads(done.stdout), "seconds": 0} == {**plain.summary, "seconds": 0}


def test_another_definition_of_the_same_name_does_not_resume_it(plain: optimize.Run) -> None:
    other = replace(PLAIN, definition="how few words there are")
    with pytest.raises(DimensionError, match="judged another 'plain_words'"):
        optimize.tune(other, resume=True, out=plain.folder, quiet=True)


def test_a_comparison_is_tuned_on_pairs() -> None:
    by_name = optimize.tune("tldr_concise", quiet=True, max_calls=600)
    assert by_name.judge.kind == "pairwise"
    assert "accuracy" in by_name.summary
    by_object = optimize.tune(SHORTER, quiet=True, max_calls=600)
    assert by_object.judge.subject == SHORTER


@pytest.mark.parametrize("given", ["nowhere.jsonl", None])
def test_what_cannot_start_leaves_nothing_behind(given: str | None, labels: str) -> None:
    with pytest.raises((LabelError, FileNotFoundError)):
        optimize.tune(PLAIN, data=given, out="not-begun", quiet=True)
    assert not Path("not-begun").exists()


def test_a_run_that_got_no_reply_leaves_nothing_behind(
    labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(prepared: object, folder: Path, *opened: object) -> None:
        assert (folder / "definition.yaml").is_file()
        raise ModelError("nobody answers")

    monkeypatch.setattr("optimize.lifecycle.run", unreachable)
    with pytest.raises(ModelError):
        optimize.tune(PLAIN, data=labels, map=NAMED, out="no-answer", quiet=True)
    assert not Path("no-answer").exists()


def test_a_scale_with_a_gap_is_refused(labels: str) -> None:
    gap = judges.Dimension(
        name="ends_only",
        definition="good or bad",
        inputs={"summary": "the summary to judge"},
        anchors={1: "bad", 5: "good"},
        instruction="Judge it.",
    )
    with pytest.raises(DimensionError, match=r"cannot hold its scale \[1, 5\]"):
        optimize.tune(gap, data=labels, quiet=True)


def test_an_unknown_setting_is_named_with_those_there_are() -> None:
    with pytest.raises(TypeError, match=r"no setting 'max_call'; did you mean max_calls"):
        optimize.tune("fluency", max_call=3)


def test_every_public_name_can_be_imported_and_importing_none_loads_dspy() -> None:
    for name in optimize.__all__:
        assert getattr(optimize, name).__name__ == name
    assert optimize.__all__ == sorted(optimize.__all__)
    heavy = "import optimize, sys; print({'dspy', 'scipy', 'pandas'} & set(sys.modules))"
    done = run_python("-c", heavy, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("wrong", [{"max_calls": "many"}, {"seed": "x"}, {"lm": 3}, {"map": "x"}])
def test_a_setting_of_the_wrong_kind_is_named_and_nothing_else(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(optimize.SettingsError, match=f"^--{name.replace('_', '-')} .*: expected"):
        optimize.tune("fluency", quiet=True, **wrong)


@pytest.mark.parametrize("given", [None, 3, Path("fluency")])
def test_what_is_no_dimension_is_refused_with_what_is_wanted(given: object) -> None:
    with pytest.raises(TypeError, match=r"a catalogue name, FILE\.yaml, .*not "):
        optimize.tune(given, quiet=True)  # type: ignore[arg-type]
