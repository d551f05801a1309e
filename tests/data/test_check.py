"""`check FILE`: what it prints, what it exits with, and the mapping that it leaves."""

import json
import shlex
from pathlib import Path

import pytest
from jsonl import write_jsonl

import data
from optimize.__main__ import command as tune
from optimize.check import main
from optimize.verify import command as verify

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
    path = file_of(tmp_path, 1, 6, "fair", 5, None)
    assert main([str(path), "--scale", "1:5"]) == 1
    *printed, total = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].split(" is ")[0] for line in printed] == ["6", "'fair'"]
    assert total == "2 problems"
    assert main(["check", str(path), "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    named = [problem[name] for name in ("kind", "line", "field", "value")]
    assert named == ["not-a-number", 3, "ratings.relevance", "'fair'"]


def test_a_sound_file_is_told_by_its_outputs_scales_and_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(file_of(tmp_path, 1, 2, None))]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("labels: no problem in 3 outputs for 2 documents by 1 system\n")
    assert "documents  by column 'group'" in printed
    assert "ratings    relevance: 1 to 2, 2 outputs rated\n" in printed
    assert "no rating on relevance: 1 of 3 outputs" in printed
    assert "collect    6 documents let a judge be tuned, 30 are a fair start" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_pairs_are_told_by_their_votes_and_how_ties_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("id,post,Antwort A,Antwort B,winner\n1,P,x,y,A\n2,Q,x,y,tie\n3,R,x,y,tie\n")
    assert main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "votes      1 for A, 0 for B, and 2 ties, which count half for each side" in printed
    read = " ".join(printed.partition("read ")[2].split())
    assert read.count("Antwort A") == read.count("post") == 1
    assert "text response_a from Antwort A; text response_b from Antwort B; ratings votes" in read


def test_a_constant_dimension_is_noted_and_an_unrated_one_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(file_of(tmp_path, 3, 3, 3))
    assert main([path]) == 0
    assert (
        "collect    no other rating among 3 labels, so nothing to learn" in capsys.readouterr().out
    )
    assert main([path, "--dimension", "fluency"]) == 1
    assert "'fluency': no output has a rating on it" in capsys.readouterr().out


def test_a_files_own_words_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.jsonl"
    row = {"id": "a", **GOOD, "system": "\x1b[2Jred", "ratings": {"rel\x1b[31m": 3}}
    path.write_text(json.dumps(row))
    for arguments in ([], ["--dimension", "rel"]):
        main([*arguments, str(path)])
    assert "\x1b" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "arguments", [["--map", "a"], ["--scale", "5:1"], ["--values", "good"], ["--values", "a=x"]]
)
def test_wrong_usage_exits_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["starter", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["starter", "starter_pairs"])
def test_the_sets_that_ship_are_checked_by_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: no problem in ")


@pytest.mark.parametrize("scale", ["1-5", "1:5", "-1:5", "-1-5"])
def test_a_scale_may_be_written_with_a_dash_or_a_colon(
    tmp_path: Path, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(file_of(tmp_path, 6)), "--scale", scale]) == 1
    assert "6 is off the scale" in capsys.readouterr().out


SHEETS = {
    "usual names": ("id,document,summary,relevance", [], "--dimension relevance"),
    "another name": (
        "Nr,Frage,Antwort,Note",
        ["--map", "relevance=Note", "--map", "document=Frage", "--map", "summary=Antwort"],
        "--map relevance=Note --map document=Frage --map summary=Antwort",
    ),
    "another scale": (
        "id,document,summary,relevance",
        ["--values", "1=0,2=25,3=50,4=75,5=100"],
        "--values 1=0,2=25,3=50,4=75,5=100 --scale 0:100",
    ),
}


@pytest.mark.parametrize("name", SHEETS)
def test_the_command_that_check_suggests_runs_as_printed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header, flags, suggested = SHEETS[name]
    monkeypatch.chdir(tmp_path)
    rows = [f"r{i},Words of {i} and what came of it.,Short text {i}.,{i % 5 + 1}" for i in range(8)]
    Path("labels.csv").write_text("\n".join([header, *rows]) + "\n")
    assert main(["labels.csv", *flags]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("next       dspy-judges tune --dimension relevance --data labels.csv")
    assert suggested in last
    words = shlex.split(last)[3:]
    assert tune([*words, "--dry-run"]) == 0


def sheet(folder: Path) -> Path:
    path = folder / "labels.csv"
    lines = ["Nr,doc,Text,Fazit,Anna,Ben"]
    lines += [
        f"{i},{i // 2},Words of {i // 2} and more of them.,Short {i}.,{i % 5 + 1},{i % 3 + 1}.5"
        for i in range(16)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


FLAGS = ["group=doc", "document=Text", "summary=Fazit", "relevance=Anna,Ben"]


def test_a_mapping_is_left_as_a_file_that_every_reader_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sheet(tmp_path)
    monkeypatch.chdir(tmp_path)
    flags = [word for flag in FLAGS for word in ("--map", flag)]
    given = [*flags, "--values", "1.5=1", "--scale", "1-5", "--write-map", "map.yaml"]
    assert main(["labels.csv", *given]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])[3:]
    assert words[:6] == ["--dimension", "relevance", "--data", "labels.csv", "--map", "map.yaml"]
    assert tune([*words, "--dry-run"]) == 0
    assert verify(["relevance", *words[2:6], "--json"]) == 0
    mapping = {"group": "doc", "document": "Text", "summary": "Fazit", "relevance": ["Anna", "Ben"]}
    first = data.read_labels(path, map=mapping, values={"1.5": 1}).outputs
    assert data.read_labels(path, map="map.yaml").outputs == first
    assert data.read_labels(path, map={**mapping, "values": {"1.5": 1}}).outputs == first
    assert first[0].ratings == {"relevance": (1, 1)}
    # What is said beside the file goes before it, and no file is written over.
    again = data.read_labels(path, map="map.yaml", values={"1.5": 2})
    assert again.outputs[0].ratings == {"relevance": (1, 2)}
    with pytest.raises(data.LabelError, match="off the scale"):
        data.read_labels(path, map="map.yaml", values={"1.5": 6})
    assert data.read_labels(path, map="map.yaml", values={"1.5": 6}, scales={"*": (1, 7)})
    capsys.readouterr()
    assert main(["labels.csv", *given]) == 1
    assert (
        capsys.readouterr().err == "dspy-judges check: map.yaml exists already; name another file\n"
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot be read"),
        ("- a", "write one"),
        ("a: {b: 1}", "a needs"),
        ("a: [", "not YAML"),
    ],
)
def test_a_mapping_file_that_is_none_is_refused_in_one_line(
    content: str | None, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, mapping = sheet(tmp_path), tmp_path / "map.yaml"
    if content is not None:
        mapping.write_text(content)
    assert main([str(path), "--map", str(mapping)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert fault in printed
    with pytest.raises(data.LabelError, match=fault):
        data.read_labels(path, map=mapping)


def test_labels_without_a_definition_end_with_a_line_that_asks_for_one_and_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"Ask {n}?,Answer {n}.,{('pass', 'fail')[n % 2]},{n % 5}" for n in range(12)]
    Path("sheet.csv").write_text("\n".join(["input,output,label,charm", *rows]) + "\n")
    for column, earns in (("label", "a pass"), ("charm", "a high rating")):
        assert main(["sheet.csv", "--dimension", column]) == 0
        asked = " ".join(capsys.readouterr().out.splitlines()[-4:]).split()
        written = f"--dimension '{column}=one line that says what earns {earns}'"
        assert written in " ".join(asked)
        assert main(["sheet.csv", "--dimension", f"{column}=It is kind."]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert (
            last
            == f"next       dspy-judges tune --dimension '{column}=It is kind.' --data sheet.csv"
        )
        assert tune([*shlex.split(last)[3:], "--dry-run"]) == 0
        capsys.readouterr()
