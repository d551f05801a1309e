"""What a label set can bear: the figures with an interval, the chance of a gain, what to label."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

import data
from optimize.__main__ import command as tune
from optimize.check import main as check
from optimize.items import Item, Items
from optimize.measuring.capacity import capacity_of, missing_for_intervals
from optimize.statistics.correlations import Level, correlation
from optimize.statistics.intervals import stream
from optimize.statistics.two_values import two_values


def items(documents: Sequence[Sequence[float]]) -> Items:
    return Items(
        tuple(
            Item(id=f"{d}-{i}", document_id=f"d{d}", system=None, texts={}, human=human)
            for d, labels in enumerate(documents)
            for i, human in enumerate(labels)
        )
    )


def sheet(path: Path, *rows: str) -> Path:
    lines = [f"{i},Ask {i}.,Say {i}.,{row}" for i, row in enumerate(rows)]
    path.write_text("\n".join(["id,input,output,label", *lines]) + "\n")
    return path


DOCUMENTS = st.lists(
    st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.0]), min_size=1, max_size=4), min_size=1, max_size=40
)


@pytest.mark.parametrize("level", ["summary", "dataset"])
@given(DOCUMENTS)
def test_a_rho_lacks_documents_exactly_where_it_has_no_interval(
    level: Level, documents: list[list[float]]
) -> None:
    labels = items(documents)
    scores = labels.human + stream(0, "judge").normal(0, 2, len(labels))
    cell = correlation(level, scores, labels.human, labels.document_ids)
    # A rho of 1 in each of 15 documents with two outputs has no interval for another reason.
    if level == "summary" and abs(cell.value) == 1:
        return
    n_missing = missing_for_intervals(labels, None, level)
    assert (cell.interval is not None) == (n_missing == {f"{level}-level rho": 0})


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=3), min_size=1))
def test_rates_lack_labels_exactly_where_they_have_no_interval(
    documents: list[list[float]],
) -> None:
    labels = items(documents)
    figures = two_values(labels.human, labels.human, labels.document_ids)
    n_missing = missing_for_intervals(labels, ("pass", "fail"), "dataset")
    assert (figures.tpr.interval is not None) == (n_missing["TPR"] == 0)
    assert (figures.tnr.interval is not None) == (n_missing["TNR"] == 0)


def test_rare_fails_are_asked_for_by_their_number(tmp_path: Path) -> None:
    rows = ["fail" if i % 5 == 0 else "pass" for i in range(60)]
    texts = capacity_of(data.read_labels(sheet(tmp_path / "a.csv", *rows)), "label")
    assert texts["labels"] == "label: 80% pass, 20% fail"
    fails = int(texts["collect"].split()[0])
    # A quarter of 55 is ten or more in nine deals of ten (binomial), and 12 are there.
    assert fails == 55 - 12
    more = data.read_labels(sheet(tmp_path / "b.csv", *rows, *["fail"] * fails))
    assert "more fail" not in capacity_of(more, "label")["collect"]
    assert f"{fails} more fail outputs for an interval of TNR on test; " in texts["collect"]
    assert texts["intervals"].startswith("verify on all 60 documents: TPR, TNR; tune on test, 15")
    assert texts["contrast"].startswith("none within documents")


def test_few_documents_with_many_outputs_take_documents_and_not_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {
            **{"id": f"{d}-{i}", "group": f"g{d}", "document": f"D {d}.", "summary": f"S {i}."},
            "annotations": {"relevance": rng.integers(1, 6, 2).tolist()},
        }
        for d in range(24)
        for i in range(6)
    ]
    write_jsonl(tmp_path / "a.jsonl", rows)
    texts = capacity_of(data.read_labels(tmp_path / "a.jsonl"), "relevance")
    # Of 24 documents 6 are in test: 9 more there are 36 more in all.
    assert texts["collect"].startswith(
        "36 more documents (not more outputs of the same) for an interval"
    )
    assert texts["contrast"] == "people tell outputs apart in 24 of 24 documents"
    assert texts["people"].startswith("two annotators say the same in ")
    assert "of 144 cases, kappa " in texts["people"]
    assert "second annotator" not in texts["collect"]


def test_of_a_crowd_it_does_not_matter_who_gave_which_label(tmp_path: Path) -> None:
    # Of two labels each by 40 people the first and the second are the same: kappa 1.
    rows = ["id,input,output,annotator,label"]
    for i in range(20):
        word = ("pass", "fail")[i % 2]
        rows += [f"{i},Ask {i}.,Say {i}.,person {2 * i + k},{word}" for k in (0, 1)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows))
    texts = capacity_of(data.read_labels(path), "label")
    assert texts["people"] == "two annotators say the same in 100% of 20 cases, kappa 1.00"


def test_two_annotators_who_never_differ_agree_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{i},Ask {i}.,Say {i}.,{v},{v}" for i, v in enumerate(["pass", "fail"] * 8)]
    path.write_text("\n".join(["id,input,output,Anna,Ben", *lines]))
    texts = capacity_of(data.read_labels(path, map={"label": ["Anna", "Ben"]}), "label")
    assert texts["people"] == "two annotators say the same in 100% of 16 cases, kappa 1.00"
    lines = [f"{i},Ask {i}.,Say {i}.,pass,fail" for i in range(8)]
    path.write_text("\n".join(["id,input,output,Anna,Ben", *lines]))
    assert capacity_of(data.read_labels(path, map={"label": ["Anna", "Ben"]}), "label") == {}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["starter", "--dimension", "relevance"], ["--dimension", "relevance"]),
        (["starter_pairs"], ["--pairwise", "tldr_concise", "--data", "starter_pairs"]),
        (["a.csv"], ["--dimension", "label", "--data", "a.csv"]),
    ],
)
def test_check_and_a_dry_run_say_the_same_chance_of_a_gain(
    words: list[str],
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    sheet(tmp_path / "a.csv", *["pass", "pass", "fail"] * 20)
    assert check(["check", *words, "--json"]) == 0
    gain = json.loads(capsys.readouterr().out)["bearing"]["gain"]
    assert tune([*flags, "--dry-run"]) == 0
    assert gain in " ".join(capsys.readouterr().out.split())


def test_single_outputs_and_annotators_who_never_meet_are_said_to_be_so(tmp_path: Path) -> None:
    words = ["pass,Ann,g0", "fail,Ann,g0", *(f"pass,Ben,g{i}" for i in range(1, 18))]
    path = sheet(tmp_path / "labels.csv", *words)
    path.write_text(path.read_text().replace("label", "label,annotator,group", 1))
    texts = capacity_of(data.read_labels(path), "label")
    assert texts["contrast"].endswith(
        "1 of 1 document with several outputs; 17 of 18 have one each"
    )
    assert texts["collect"].endswith("let two annotators label the same 30 outputs")
