"""dspy-judges list, show, export and --help: what is printed, and that it fits."""

import json

import pytest

from judges.__main__ import main
from judges.catalog import FLUENCY, names
from judges.judge import Judge
from judges.scoring import SamplingPlan

ONE = SamplingPlan(kind="one")
pytestmark = pytest.mark.usefixtures("table_folder")


def test_list_is_a_table_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "texts", "scale", "source"]
    assert [line.split()[0] for line in lines[1:]] == list(names())
    assert main(["list", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["fluency"]["texts"] == ["summary"]
    assert listed["tldr_concise"]["texts"] == ["post", "summary_a", "summary_b"]


def test_show_tells_where_a_frozen_judge_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"name": "labels.jsonl", "sha256": "0" * 64, "constructed": True}
    origin = {"data": data, "optimizer": "rank", "shipped": "seed"}
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, provenance=origin).save("j.json")
    assert main(["show", "j.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "frozen for embedded, plan one" in lines
    told = "untuned judge of optimizer rank, on labels.jsonl, whose labels no person gave"
    assert told in lines
    assert main(["show", "j.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"] == origin
    del origin["shipped"]  # as in a run's tuned.json
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, provenance=origin).save("t.json")
    assert main(["show", "t.json"]) == 0
    assert "tuned, not shipped: judge of optimizer rank, on " in capsys.readouterr().out
