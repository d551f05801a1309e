"""`check FILE`: what it prints, what it exits with, and the mapping that it leaves."""

import json
import shlex
from pathlib import Path

import pytest
from jsonl import write_jsonl
from label_files import csv_of, ended, file_of, refusal

import data
from optimize.__main__ import command as tune
from optimize.check import main
from optimize.verify import command as verify

GOOD = {"group": "g", "system": "s", "document": "A text.", "summary": "Short."}


def rated(*ratings: object) -> str:
    rows = [
        {"id": str(n), **GOOD, "group": f"g{n // 2}", "ratings": {"relevance": rating}}
        for n, rating in enumerate(ratings)
    ]
    return write_jsonl("labels.jsonl", rows)


def test_check_lists_every_problem_and_exits_one() -> None:
    path = rated(1, 6, "fair", 5, None)
    code, out, _ = ended(main, path, "--scale", "1:5")
    *printed, total = out.splitlines()
    assert [line.split(": ")[1].split(" is ")[0] for line in printed] == ["6", "'fair'"]
    assert (code, total) == (1, "2 problems")
    as_json = ended(main, "check", path, "--json")
    (problem,) = json.loads(as_json.out)["problems"]
    names = [problem[name] for name in ("kind", "line", "field", "value")]
    assert (as_json.code, *names) == (1, "not-a-number", 3, "ratings.relevance", "'fair'")


def test_a_sound_file_is_told_by_its_outputs_scales_and_notes() -> None:
    code, out, _ = ended(main, rated(1, 2, None))
    assert code == 0
    assert out.startswith("labels: no problem in 3 outputs for 2 documents by 1 system\n")
    assert "documents  by column 'group'" in out
    assert "ratings    relevance: 1 to 2, 2 outputs rated\n" in out
    assert "no rating on relevance: 1 of 3 outputs" in out
    assert "collect    6 documents let a judge be tuned, 30 are a fair start" in out
    assert max(map(len, out.splitlines())) <= 80


def test_pairs_are_told_by_their_votes_and_how_ties_count() -> None:
    rows = "1,P,x,y,A\n2,Q,x,y,tie\n3,R,x,y,tie\n"
    code, out, _ = ended(main, file_of(f"id,post,Antwort A,Antwort B,winner\n{rows}"))
    assert code == 0
    assert "votes      1 for A, 0 for B, and 2 ties, which count half for each side" in out
    read = " ".join(out.partition("read ")[2].split())
    assert read.count("Antwort A") == read.count("post") == 1
    assert "text response_a from Antwort A; text response_b from Antwort B; ratings votes" in read


def test_a_constant_dimension_is_noted_and_an_unrated_one_a_problem() -> None:
    code, out, _ = ended(main, rated(3, 3, 3))
    assert code == 0
    assert "collect    no other rating among 3 labels, so nothing to learn" in out
    code, out, _ = ended(main, "labels.jsonl", "--dimension", "fluency")
    assert code == 1
    assert "'fluency': no output has a rating on it" in out


@pytest.mark.parametrize("flags", [[], ["--dimension", "rel"]])
def test_a_files_own_words_cannot_steer_the_terminal(flags: list[str]) -> None:
    row = {"id": "a", **GOOD, "system": "\x1b[2Jred", "ratings": {"rel\x1b[31m": 3}}
    _, out, err = ended(main, *flags, file_of(json.dumps(row), "labels.jsonl"))
    assert "\x1b" not in out + err


@pytest.mark.parametrize("flags", ["--map a", "--map m.yaml", "--scale 5:1", "--values a=x"])
def test_wrong_usage_exits_two(flags: str) -> None:
    code, _, err = ended(main, "starter", *flags.split())
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("scale", ["1-5", "1:5", "-1:5", "-1-5"])
def test_a_scale_may_be_written_with_a_dash_or_a_colon(scale: str) -> None:
    assert "6 is off the scale" in ended(main, rated(6), "--scale", scale).out


def next_words(out: str) -> list[str]:
    """The flags of the command that check suggests, with which `tune` starts."""
    last = out.splitlines()[-1]
    assert last.startswith("next       dspy-judges tune --dimension ")
    words = shlex.split(last)[3:]
    assert ended(tune, *words, "--dry-run").code == 0
    return words


USUAL = "id,document,summary,relevance"
MAP = "--map relevance=Note --map document=Frage --map summary=Antwort"
VALUES = "--values 1=0,2=25,3=50,4=75,5=100"


@pytest.mark.parametrize(
    ("header", "flags", "suggested"),
    [
        (USUAL, "", "--dimension relevance --data labels.csv"),
        ("Nr,Frage,Antwort,Note", MAP, MAP),
        (USUAL, VALUES, f"{VALUES} --scale 0:100"),
    ],
)
def test_the_suggested_command_runs_as_printed(header: str, flags: str, suggested: str) -> None:
    rows = [f"r{i},Words of {i} and what came of it.,Short text {i}.,{i % 5 + 1}" for i in range(8)]
    code, out, _ = ended(main, file_of("\n".join([header, *rows])), *flags.split())
    assert code == 0
    assert suggested in " ".join(next_words(out))


def sheet() -> Path:
    rows = [
        (i, i // 2, f"Words of {i // 2} and more.", f"Short {i}.", i % 5 + 1, f"{i % 3 + 1}.5")
        for i in range(16)
    ]
    return file_of(csv_of(("Nr", "doc", "Text", "Fazit", "Anna", "Ben"), *rows))


def test_a_mapping_is_left_as_a_file_that_every_reader_takes() -> None:
    path = sheet()
    columns = ["group=doc", "document=Text", "summary=Fazit", "relevance=Anna,Ben"]
    flags = [word for column in columns for word in ("--map", column)]
    told = [*flags, "--values", "1.5=1", "--scale", "1-5", "--write-map", "map.yaml"]
    code, out, _ = ended(main, path, *told)
    assert code == 0
    words = next_words(out)
    assert words[:6] == ["--dimension", "relevance", "--data", "labels.csv", "--map", "map.yaml"]
    assert ended(verify, "relevance", *words[2:6], "--json").code == 0
    mapping = {"group": "doc", "document": "Text", "summary": "Fazit", "relevance": ["Anna", "Ben"]}
    first = data.read_labels(path, map=mapping, values={"1.5": 1}).outputs
    assert data.read_labels(path, map="map.yaml").outputs == first
    assert data.read_labels(path, map={**mapping, "values": {"1.5": 1}}).outputs == first
    assert first[0].ratings == {"relevance": (1, 1)}
    # What is said beside the file goes before it, and no file is written over.
    again = data.read_labels(path, map="map.yaml", values={"1.5": 2})
    assert again.outputs[0].ratings == {"relevance": (1, 2)}
    assert "off the scale" in refusal(path, map="map.yaml", values={"1.5": 6})
    assert data.read_labels(path, map="map.yaml", values={"1.5": 6}, scales={"*": (1, 7)})
    code, _, err = ended(main, path, *told)
    taken = "dspy-judges check: map.yaml exists already; name another file\n"
    assert (code, err) == (1, taken)


@pytest.mark.parametrize(
    ("content", "fault"), [("- a", "write one"), ("a: {b: 1}", "a needs"), ("a: [", "not YAML")]
)
def test_a_mapping_file_that_is_none_is_refused_in_one_line(content: str, fault: str) -> None:
    file_of(content, "map.yaml")
    assert fault in refusal("starter", map="map.yaml")


@pytest.mark.parametrize(("column", "earns"), [("label", "a pass"), ("charm", "a high rating")])
def test_the_last_line_asks_for_a_definition_and_takes_it(column: str, earns: str) -> None:
    rows = [f"Ask {n}?,Answer {n}.,{('pass', 'fail')[n % 2]},{n % 5}" for n in range(12)]
    file_of("\n".join(["input,output,label,charm", *rows]), "sheet.csv")
    code, out, _ = ended(main, "sheet.csv", "--dimension", column)
    assert code == 0
    written = f"--dimension '{column}=one line that says what earns {earns}'"
    assert written in " ".join(" ".join(out.splitlines()[-4:]).split())
    code, out, _ = ended(main, "sheet.csv", "--dimension", f"{column}=It is kind.")
    assert next_words(out) == ["--dimension", f"{column}=It is kind.", "--data", "sheet.csv"]
