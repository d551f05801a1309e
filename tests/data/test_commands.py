"""`python -m data`: what it prints, what it exits with, and where it runs."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonl import write_jsonl
from processes import TIMEOUT, run_python

from data.cli import main

GOOD = {"group": "g", "system": "s", "document": "A text.", "summary": "Short."}


def file_of(folder: Path, *ratings: object) -> Path:
    path = folder / "labels.jsonl"
    rows = [
        {"id": str(place), **GOOD, "group": f"g{place // 2}", "ratings": {"relevance": rating}}
        for place, rating in enumerate(ratings)
    ]
    write_jsonl(path, rows)
    return path


def test_check_lists_every_problem_and_exits_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, 1, 6, "good", 5, None)
    assert main(["check", str(path), "--scale", "1:5"]) == 1
    *printed, total = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].split(" is ")[0] for line in printed] == ["6", "'good'"]
    assert total == "2 problems"


def test_check_shortens_a_long_list_unless_all_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, *[9] * 50)
    assert main(["check", str(path), "--scale", "relevance=1:5"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2:] == [
        "... and 30 more of the same kind in field 'ratings.relevance' (--all)",
        "50 problems",
    ]
    assert main(["check", str(path), "--scale", "1:5", "--all"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 51


def test_check_of_a_sound_file_says_what_was_read_and_notes_what_is_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, 1, 2, None)
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    start = "labels: no problem in 3 outputs for 2 documents by 1 system, rated on"
    assert printed.startswith(start)
    assert "no rating on relevance: 1 of 3 outputs" in printed
    assert "too few documents to tune on: 2, and 6 are the least" in printed
    # Only the command that goes on is on one line, to be copied; here too few documents have none.
    assert max(map(len, printed.splitlines())) <= 80


def test_check_for_machines_carries_kind_line_field_and_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(file_of(tmp_path, 1, "x")), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["n_problems"] == 1
    problem = record["problems"][0]
    assert (problem["kind"], problem["line"], problem["field"], problem["value"]) == (
        "not-a-number",
        2,
        "ratings.relevance",
        "'x'",
    )


def test_a_constant_dimension_is_a_problem_only_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(file_of(tmp_path, 3, 3, 3))
    assert main(["check", path]) == 0
    assert "every rating on relevance is the same" in capsys.readouterr().out
    assert main(["check", path, "--dimension", "relevance"]) == 1
    assert "nothing to rank by" in capsys.readouterr().out
    assert main(["check", path, "--dimension", "fluency"]) == 1
    assert "'fluency': no output has a rating on it" in capsys.readouterr().out


def test_show_counts_documents_systems_and_constant_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(file_of(tmp_path, 3, 3, 1, 2, 5))
    assert main(["show", path]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "documents  3, by column 'group'" in printed
    assert main(["show", path, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["n_items"], record["n_documents"]) == ("outputs", 5, 3)
    rated = record["dimensions"]["relevance"]
    # Of three documents the first is constant, and the last has one output.
    assert (rated["n_constant"], rated["n_single"], rated["annotators"]) == (1, 1, 0)
    assert (rated["low"], rated["high"], rated["mean"]) == (1, 5, pytest.approx(14 / 5))


def test_show_of_pairs_counts_votes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pairs.jsonl"
    row = {"prompt": "Why?", "response_a": "x y z", "response_b": "y"}
    votes = (["A", "B"], ["A", "tie", "A"])
    path.write_text(
        "".join(json.dumps({"id": str(n), **row, "votes": v}) + "\n" for n, v in enumerate(votes))
    )
    assert main(["show", str(path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["n_items"], record["n_documents"]) == ("pairs", 2, 1)
    assert record["votes"] == {"A": 3, "B": 1, "tie": 1}
    assert (record["per_pair"], record["n_level"]) == ([2, 3], 1)
    assert main(["show", str(path)]) == 0
    assert "votes      A 3, B 1, tie 1; 2 to 3 for each pair" in capsys.readouterr().out


def test_a_files_own_words_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.jsonl"
    row = {"id": "a", **GOOD, "system": "\x1b[2Jred", "ratings": {"rel\x1b[31m": 3}}
    path.write_text(json.dumps(row))
    for arguments in (["show"], ["check"], ["check", "--dimension", "rel"]):
        main([*arguments, str(path)])
    assert "\x1b" not in "".join(capsys.readouterr())


def test_a_missing_file_is_one_line_on_stderr_and_exit_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", "nowhere.csv"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "error: nowhere.csv: does not exist; check the path\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["check"], ["check", "x", "--map", "a"], ["check", "x", "--scale", "5:1"], ["nonsense"]],
)
def test_wrong_usage_exits_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err


def test_a_name_given_to_list_is_sent_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["list", "starter"])
    assert caught.value.code == 2
    assert "`python -m data show starter` says what it holds" in capsys.readouterr().err


def test_the_sets_that_ship_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].startswith("starter ")
    assert "constructed, nobody's" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert main(["list", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["kind"] for record in records] == ["outputs", "pairs"]
    for name in ("starter", "starter_pairs"):
        assert main(["show", name]) == 0
        assert capsys.readouterr().out.startswith(f"{name}\n")
        assert main(["check", name]) == 0
        assert capsys.readouterr().out.startswith(f"{name}: no problem in ")


def test_a_users_own_data_folder_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.csv").write_text("id,document,relevance\na,Text,3\n")
    script = [sys.executable, "-m", "data", "check", "data/labels.csv"]
    done = subprocess.run(
        script, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("labels: no problem in 1 output for 1 document, rated on")


def test_reading_text_files_imports_no_heavy_library(tmp_path: Path) -> None:
    path = file_of(tmp_path, 1, 2)
    script = (
        "import data, sys\n"
        f"data.read_labels({str(path)!r})\n"
        "print({'pandas', 'pyarrow', 'datasets', 'scipy', 'dspy'} & set(sys.modules))"
    )
    done = run_python("-c", script, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("scale", ["1-5", "1:5", "relevance=1-5", "-1:5", "-1-5"])
def test_a_scale_may_be_written_with_a_dash_or_a_colon(
    tmp_path: Path, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"id": "a", "document": "A text.", "summary": "Short.", "relevance": 6}\n')
    assert main(["check", str(path), "--scale", scale]) == 1
    assert "6 is off the scale" in capsys.readouterr().out


def sheet(folder: Path, n_documents: int = 8) -> Path:
    path = folder / "labels.csv"
    lines = ["id,doc,article,summary,A,B,seen"]
    lines += [
        f"{i},{i // 2},Words of {i // 2}.,Short {i}.,{i % 5 * 20},{i % 3 * 50},{i % 2 == 0}"
        for i in range(2 * n_documents)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


FLAGS = ["--map", "group=doc", "--map", "document=article", "--map", "engaging=A"]


def test_check_prints_how_columns_were_understood_and_the_command_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet(tmp_path)
    monkeypatch.chdir(tmp_path)
    flags = [*FLAGS, "--map", "engaging=B", "--scale", "0-100"]
    assert main(["check", "labels.csv", *flags]) == 0
    printed = capsys.readouterr().out
    words = " ".join(printed.split())
    assert "rated on engaging (0 to 90)" in words
    assert (
        "read id; group from doc; text summary; text seen; text document from article; "
        "ratings engaging from A and B"
    ) in words
    assert (
        'first id 0, document 0; summary "Short 0."; seen "True"; document "Words of 0."' in words
    )
    assert "engaging 0, 0 by A, B" in words
    assert (
        "no judge of the catalogue is called engaging: write engaging.yaml, with words of your own "
        "name: engaging definition: what engaging means "
        "inputs: {summary: what it is, document: what it is} scale: [0, 100] next"
    ) in words
    assert printed.splitlines()[-1] == (
        "next       python -m optimize --dimension engaging.yaml --data labels.csv --map group=doc "
        "--map document=article --map engaging=A --map engaging=B --scale 0-100"
    )


@pytest.mark.parametrize(
    ("header", "flags", "advised"),
    [
        (
            "id,Dokument,Zusammenfassung,relevance",
            [],
            "--dimension relevance --data labels.csv --map document=Dokument "
            "--map summary=Zusammenfassung",
        ),
        (
            "id,document,summary,Rate it [Flüssigkeit]",
            [],
            "--dimension flussigkeit.yaml --data labels.csv "
            "--map 'flussigkeit=Rate it [Flüssigkeit]'",
        ),
        (
            "id,Der Text,rating,Wie gut? (1 bis 5)",
            ["--text", "rating"],
            "--dimension wie_gut.yaml --data labels.csv --map 'wie_gut=Wie gut? (1 bis 5)' "
            "--map 'der_text=Der Text' --map rating_text=rating",
        ),
    ],
)
def test_the_command_that_check_advises_works_as_it_stands(
    header: str,
    flags: list[str],
    advised: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from optimize.cli.tune import command

    monkeypatch.chdir(tmp_path)
    rows = [f"r{i},Words of {i} and what came of it.,Short text {i}.,{i % 5 + 1}" for i in range(8)]
    Path("labels.csv").write_text("\n".join([header, *rows]) + "\n")
    assert main(["check", "labels.csv", *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"next       python -m optimize {advised}"
    definition = [line.strip() for line in lines if line.startswith(" " * 13)]
    words = shlex.split(lines[-1])[4:]
    if definition:
        assert definition[-1] == "scale: [1, 5]"
        Path(words[words.index("--dimension") + 1]).write_text("\n".join(definition) + "\n")
    assert command([*words, "--dry-run"]) == 0


def test_optimize_prints_the_same_reading_and_refuses_what_check_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from optimize.cli.tune import command

    path = sheet(tmp_path)
    monkeypatch.chdir(tmp_path)
    flags = ["--map", "group=doc", "--map", "document=article", "--map", "relevance=A"]
    flags += ["--map", "relevance=B", "--scale", "0-100"]
    assert main(["check", "labels.csv", "--dimension", "relevance", *flags]) == 0
    read = [line for line in capsys.readouterr().out.splitlines() if line.startswith("read ")]
    tune = ["--dimension", "relevance", "--data", "labels.csv", "--max-calls", "60"]
    assert command([*tune, *flags]) == 0
    assert read[0] in capsys.readouterr().err.splitlines()

    # Two faults: the advice lists them with the flags as given, and so finds the same.
    path.write_text(path.read_text().replace("\n3,1,", "\n3,,").replace(",60,", ",sixty,"))
    assert command([*tune, *flags]) == 1
    printed = capsys.readouterr().err
    advised = printed.partition("python -m data check ")[2].partition(")")[0]
    assert "--map relevance=A --map relevance=B --scale relevance=0-100" in advised
    assert main(["check", *advised.split()]) == 1
    assert printed.partition(": ")[2].partition(" (and")[0].strip() in capsys.readouterr().out


def test_two_scales_of_one_dimension_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(sheet(tmp_path)), "--scale", "1-5", "--scale", "0-100"]) == 1
    assert "all dimensions is given two scales" in capsys.readouterr().err


def test_a_mapping_that_nothing_reads_and_numbers_among_words_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"
    words = ["3", "fair", "good", "poor"]
    lines = [f"{i},Text,Short {i}.,{i},{i},{words[i % 4]}" for i in range(8)]
    path.write_text("\n".join(["id,document,summary,relevance,mine,tone", *lines]) + "\n")
    flags = ["--dimension", "relevance", "--map", "relevence=mine"]
    assert main(["check", str(path), *flags]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "--map relevence=mine is not used: relevence is nothing that is read" in printed
    assert main(["check", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "column 'tone' was read as a text, though 2 cells of it hold numbers" in printed
