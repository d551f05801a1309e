"""`check FILE`: what it prints, the mapping it leaves, and scales that a flag states."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import run
from files import csv_of, file_of, read_jsonl, refusal, write_jsonl

import data
import judges
import optimize
from judges.dimension import Dimension
from judges.labels.options import read_scale
from optimize.__main__ import command as tune
from optimize.check import command
from optimize.tuning.preparation import prepare_run
from optimize.tuning.settings import Settings
from optimize.verify import command as verify

GOOD = {"group": "g", "system": "s", "document": "A text.", "summary": "Short."}


def with_ratings(*ratings: object) -> str:
    rows = [
        {"id": str(n), **GOOD, "group": f"g{n // 2}", "ratings": {"relevance": rating}}
        for n, rating in enumerate(ratings)
    ]
    return write_jsonl("labels.jsonl", rows)


def test_check_lists_every_problem_and_exits_one():
    path = with_ratings(1, 6, "fair", 5, None)
    code, out, _ = run(command, path, "--scale", "1:5")
    *lines, total = out.splitlines()
    assert [line.split(": ")[1].split(" is ")[0] for line in lines] == ["6", "'fair'"]
    assert (code, total) == (1, "2 problems")
    as_json = run(command, path, "--json")
    (problem,) = json.loads(as_json.stdout)["problems"]
    names = [problem[name] for name in ("kind", "line", "field", "value")]
    assert (as_json.code, *names) == (1, "not-a-number", 3, "ratings.relevance", "'fair'")


def test_a_line_lists_other_rows_with_their_own_values_and_faults():
    ids = ["a", "b", "a", "b", "a"]
    rows = [{**GOOD, "id": name, "relevance": n % 3} for n, name in enumerate(ids)]
    first, _ = run(command, write_jsonl("labels.jsonl", rows)).stdout.splitlines()
    assert first.startswith("labels.jsonl, line 3, field 'id': 'a' is the id of line 1 too; ")
    assert first.endswith(" (also in 2 more lines: 4: 'b' is the id of line 2 too; 5)")
    texts = [f"{word}, said nobody at all in this town or the next" for word in "xyz"]
    ratings = [*range(1, 6), *texts, 9, 8, 9]
    out = run(command, with_ratings(*ratings), "--scale", "1:5").stdout
    assert "line 9, field 'ratings.relevance': 9 is off the scale" in out
    assert "(also in 2 more lines: 10: 8; 11)" in out
    assert f"(also in 2 more lines: 7: '{texts[1]}'; 8: '{texts[2]}')" in out


def test_a_sound_file_is_told_by_its_outputs_scales_and_notes():
    code, out, _ = run(command, with_ratings(1, 2, None))
    assert code == 0
    assert out.startswith("labels: no problem in 3 outputs for 2 documents by 1 system\n")
    assert "documents  by column 'group'" in out
    assert "ratings    relevance: 1 to 2, 2 outputs rated\n" in out
    assert "no rating on relevance: 1 of 3 outputs" in out
    assert "collect    6 documents let a judge be tuned, 30 are a fair start" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_document_with_a_fifth_of_the_rows_is_noted(tmp_path):
    rows = [
        {"id": n, "group": "unknown" if n < 26 else n, "output": f"A{n}.", "ok": n % 2}
        for n in range(100)
    ]
    out = run(command, write_jsonl(tmp_path / "l.jsonl", rows)).out
    assert "26 of 100 rows are of document 'unknown'" in " ".join(out.split())
    del rows[:10]
    assert "of document" not in run(command, write_jsonl(tmp_path / "m.jsonl", rows)).out


def test_pairs_are_told_by_their_votes_and_how_ties_count():
    rows = "1,P,x,y,A\n2,Q,x,y,tie\n3,R,x,y,tie\n"
    code, out, _ = run(command, file_of(f"id,post,Antwort A,Antwort B,winner\n{rows}"))
    assert code == 0
    assert "votes      1 for A, 0 for B, and 2 ties, which count half for each side" in out
    read = " ".join(out.partition("read ")[2].split())
    assert read.count("Antwort A") == read.count("post") == 1
    assert "text response_a from Antwort A; text response_b from Antwort B; ratings votes" in read


WRONG = ("--map a", "--map m.yaml", "--scale 5:1", "--values good", "--values a=x")


@pytest.mark.parametrize("flags", WRONG)
def test_wrong_usage_exits_two(flags):
    code, _, err = run(command, "starter", *flags.split())
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("scale", ["1-5", "1:5", "-1:5", "-1-5"])
def test_a_scale_may_be_written_with_a_dash_or_a_colon(scale):
    assert "6 is off the scale" in run(command, with_ratings(6), "--scale", scale).stdout


def next_words(out: str) -> list[str]:
    """The flags of the command that check suggests, with which `tune` starts."""
    last = out.splitlines()[-1]
    assert last.startswith("next       dspy-judges tune --dimension ")
    words = shlex.split(last)[3:]
    assert run(tune, *words, "--dry-run").code == 0
    return words


USUAL = "id,document,summary,relevance"
MAP = "--map relevance=Note --map document=Frage --map summary=Antwort"
CHARM = "--dimension charm=kind"
VALUES = "--values 1=0,2=25,3=50,4=75,5=100"


@pytest.mark.parametrize(
    ("header", "flags", "words"),
    [
        (USUAL, "", "--dimension relevance --data labels.csv"),
        ("Nr,Frage,Antwort,Note", MAP, MAP),
        (USUAL, VALUES, f"{VALUES} --scale 0:100"),
        ("id,Customer message,answer,charm", CHARM, f"{CHARM} --data labels.csv --map input=Cust"),
    ],
)
def test_the_suggested_command_runs_as_printed(header, flags, words):
    rows = [f"r{i},Words of {i} and what came of it.,Short text {i}.,{i % 5 + 1}" for i in range(8)]
    code, out, _ = run(command, file_of("\n".join([header, *rows])), *flags.split())
    assert code == 0
    assert words in " ".join(next_words(out))


def sheet() -> Path:
    rows = [
        (i, i // 2, f"Words of {i // 2} and more.", f"Short {i}.", i % 5 + 1, f"{i % 3 + 1}.5")
        for i in range(16)
    ]
    return file_of(csv_of(("Nr", "doc", "Text", "Fazit", "Anna", "Ben"), *rows))


def test_a_mapping_is_left_as_a_file_that_every_reader_takes():
    path = sheet()
    columns = ["group=doc", "document=Text", "summary=Fazit", "relevance=Anna,Ben"]
    flags = [word for column in columns for word in ("--map", column)]
    words_in = [*flags, "--values", "1.5=1", "--scale", "1-5", "--write-map", "map.yaml"]
    code, out, _ = run(command, path, *words_in)
    assert code == 0
    words = next_words(out)
    assert words[:6] == ["--dimension", "relevance", "--data", "labels.csv", "--map", "map.yaml"]
    assert run(verify, "relevance", *words[2:6], "--json").code == 0
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
    code, _, err = run(command, path, *words_in)
    message = "dspy-judges check: map.yaml exists already; name another file\n"
    assert (code, err) == (1, message)


def test_a_mapping_files_scale_counts_like_the_flag_which_wins():
    path = with_ratings(0, 25, 50, 75, 100, 100)
    assert run(command, path, "--scale", "0-100", "--write-map", "map.yaml").code == 0
    ask = ("relevance", "--data", path, "--json")
    by_flag = run(verify, *ask, "--scale", "0-100")
    assert (by_flag.code, run(verify, *ask, "--map", "map.yaml").stdout) == (0, by_flag.stdout)
    in_python = optimize.measure("relevance", path, map="map.yaml")
    assert in_python.scored.scale == tuple(range(101))
    for each in (command, verify):
        words = [path] if each is command else ask
        assert run(each, *words, "--map", "map.yaml", "--scale", "1-5").code == 1


@pytest.mark.parametrize(("column", "earns"), [("label", "a pass"), ("charm", "a high rating")])
def test_the_last_line_asks_for_a_definition_and_takes_it(column, earns):
    rows = [f"Ask {n}?,Answer {n}.,{('pass', 'fail')[n % 2]},{n % 5}" for n in range(12)]
    file_of("\n".join(["input,output,label,charm", *rows]), "sheet.csv")
    code, out, _ = run(command, "sheet.csv", "--dimension", column)
    assert code == 0
    flag = f"--dimension '{column}=one line that says what earns {earns}'"
    assert flag in " ".join(" ".join(out.splitlines()[-4:]).split())
    code, out, _ = run(command, "sheet.csv", "--dimension", f"{column}=It is kind.")
    assert next_words(out) == ["--dimension", f"{column}=It is kind.", "--data", "sheet.csv"]


def test_a_command_with_which_tuning_cannot_start_is_not_suggested():
    rows = [f"{n},Short text {n}.,{n % 5 + 1}" for n in range(12)]
    out = run(command, file_of("\n".join(["id,summary,relevance", *rows]))).out
    assert "judge labels.csv, field 'document': there is no such column, but the judge" in out
    assert "dspy-judges tune" not in out


def test_a_column_name_in_other_letters_gets_a_name_to_replace():
    rows = [f"Long text {n}.,Short text {n}.,{n % 5 + 1}" for n in range(12)]
    out = run(command, file_of("\n".join(["document,summary,качество", *rows]))).stdout
    words = next_words(out.partition("\ndefine ")[0])
    assert words[1].startswith("quality=one line")
    assert words[-2:] == ["--map", "quality=качество"]


ROWS = read_jsonl(Path(data.__file__).with_name("starter") / "outputs.jsonl")[:60]

# A rating of 1 to 5 on other scales; the way out names the narrowest usual one that fits.
SCALES: dict[str, Callable[[float], object]] = {
    "0-100": lambda mark: round(25 * (mark - 1)),
    "1-10": lambda mark: round(1 + 9 / 4 * (mark - 1)),
    "0-1": lambda mark: int(mark > 3),
    "-1:1": lambda mark: (mark > 3.5) - (mark < 2.5),
    "any": lambda mark: (mark - 1) / 4,
}


@pytest.mark.parametrize("scale", SCALES)
def test_labels_off_the_scale_are_told_which_scale_to_state(scale):
    change = SCALES[scale]
    rows = [{"fluency": change(row.pop("ratings")["fluency"]), **row} for row in map(dict, ROWS)]
    ask = ["--dimension", "fluency", "--data", write_jsonl("labels.jsonl", rows)]
    code, out, err = run(tune, *ask, "--max-calls", "300", "--out", "run")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "labels.jsonl, line " in err
    assert "is off the scale 1 to 5" in err
    assert f"--scale {scale}" in err
    assert not Path("run").exists()
    # Done as told, the labels are read and the judge's scale is theirs.
    settings = Settings(dimension="fluency", data="labels.jsonl", scale=scale)
    subject = prepare_run(settings).subject
    assert isinstance(subject, Dimension)
    assert (subject.scale[0], subject.scale[-1]) == (read_scale(scale) or (1, 5))


def test_a_number_in_values_that_changes_another_dimension_too_is_told():
    rows = [f"Ask {n}?,Answer {n}.,{n % 2},{n % 5},{100 - n}" for n in range(40)]
    header = "input,output,violates_policy,quality,severity"
    path = file_of("\n".join([header, *rows]), "sheet.csv")
    flags = [*("--map", "violates_policy=violates_policy"), *("--map", "quality=quality")]
    out = run(command, path, *flags, "--values", "1=0,0=1").out
    assert "quality: read '0' as 1, '1' as 0; --values changes this" in out
    out = run(command, path, *flags, "--values", "1=0,0=1", "--dimension", "violates_policy").out
    assert "quality: read" not in out
    # 40 numbers are too many to list in --values.
    out = run(command, path, "--map", "severity=severity").out
    assert "severity: a higher rating is read as the better one" in out
    assert "reverse them in the file" in out


def test_anchors_move_with_their_places_and_fall_out_between_two():
    fluency = judges.load("fluency").subject
    worst, middle, best = (fluency.anchors[rating] for rating in (1, 3, 5))
    # Of 1 to 5, 3 lies halfway: at 4 of 1 to 7, at 50 of 0 to 100, and between 2 and 3 of 1 to 4.
    for low, high, places in ((1, 7, (1, 4, 7)), (0, 100, (0, 50, 100)), (1, 4, (1, None, 4))):
        expected = dict(zip(places, (worst, middle, best), strict=True))
        anchors = fluency.on_scale(low, high).anchors
        assert anchors == {rating: expected.get(rating, "") for rating in range(low, high + 1)}
