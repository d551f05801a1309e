"""Human ceilings in reports: from the labels, from a file beside them, and from neither."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_cases import folder, outputs, pairs, plain

from data.types import LabelError
from optimize.cli import report, tune
from optimize.items import annotation_matrix, read_annotations
from optimize.report.run_report import read_run, render
from optimize.run.evidence import JudgedSplit


def means_only(evidence: JudgedSplit) -> JudgedSplit:
    """The same, with labels that hold means only."""
    people = tuple(
        replace(output, ratings={"relevance": (output.rating("relevance"),)}, annotators={})
        for output in evidence.outputs
    )
    return replace(evidence, labelled=people)


def long_file(path: Path, evidence: JudgedSplit) -> Path:
    """Each annotator's ratings."""
    rows = [
        {"id": output.id, "dimension": "relevance", "annotator": who, "rating": mark}
        for output in evidence.outputs
        for who, mark in zip(
            output.annotators["relevance"], output.ratings["relevance"], strict=True
        )
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_annotations_beside_a_run_give_the_ceiling_that_its_labels_would(tmp_path: Path) -> None:
    evidence = plain()
    ratings = long_file(tmp_path / "ratings.jsonl", evidence)
    without = folder(tmp_path / "without", means_only(evidence))
    assert "The human ceiling is unknown" in render(read_run(without))
    within = read_run(folder(tmp_path / "within", evidence)).measures.annotator_agreement
    beside = read_run(without, ratings)
    assert beside.measures.annotator_agreement.annotators == ("ann", "bob")
    assert beside.measures.annotator_agreement.ceiling == within.ceiling
    page = render(beside)
    assert "of the human ceiling: an annotator agrees" in page
    assert "ratings.jsonl" in page


def test_the_command_takes_annotations_and_names_what_is_wrong_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder(tmp_path / "run", means_only(plain()))
    good = long_file(tmp_path / "ratings.jsonl", plain())
    other = tmp_path / "other.jsonl"
    other.write_text(
        '{"id": "x", "dimension": "relevance", "annotator": "m", "rating": 3}\n', encoding="utf-8"
    )
    for name, code, says in (
        (good, 0, "report.html"),
        (other, 1, "none of its 1 ids"),
        (tmp_path / "none.jsonl", 1, "does not exist"),
        (run / "judgements.jsonl", 1, "columns id, dimension, annotator, rating"),
    ):
        assert report.command([str(run), "--annotations", str(name)]) == code
        out, err = capsys.readouterr()
        assert says in (err if code else out)
        assert err.count("\n") == code
    assert "of the human ceiling: an annotator" in (run / "report.html").read_text("utf-8")


def test_pairs_take_no_annotations(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", pairs([("A", "A")], [("A",)]))
    with pytest.raises(LabelError, match="votes and no ratings"):
        read_run(run, long_file(tmp_path / "ratings.jsonl", plain()))


def test_annotations_on_another_dimension_are_refused(tmp_path: Path) -> None:
    path = long_file(tmp_path / "ratings.jsonl", plain())
    with pytest.raises(LabelError, match="no rating on 'fluency'"):
        read_annotations(path, "fluency")


def test_outputs_of_which_only_a_mean_is_known_are_left_out_of_the_ceiling() -> None:
    from data.types import LabelledSet

    evidence = outputs([1, 2, 3], [[1, 2, 3], [2], [4, 4, 5]], list("abc"))
    matrix, names = annotation_matrix(
        LabelledSet(name="l", sha256="", outputs=evidence.outputs), "relevance"
    )
    assert names == ("1", "2", "3")
    assert matrix[[0, 2]].tolist() == [[1, 2, 3], [4, 4, 5]]
    assert (matrix[1] != matrix[1]).all()


def test_a_run_on_labels_with_annotations_reports_the_ceiling_or_why_there_is_none(
    tmp_path: Path,
) -> None:
    import data

    rows = []
    for number, one in enumerate(data.starter().outputs):
        mean = one.rating("relevance")
        marks = [min(5.0, max(1.0, mean + shift)) for shift in (-0.5, 0.25 * (number % 3), 0.5)]
        rows.append(
            {
                "id": one.id,
                "group": one.document_id,
                "system": one.system,
                **one.texts,
                "annotations": {"relevance": marks},
            }
        )
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    told = ["--dimension", "relevance", "--data", str(labels), "--out", str(tmp_path / "run")]
    assert tune.command([*told, "--max-calls", "400"]) == 0
    html = (tmp_path / "run" / "report.html").read_text("utf-8")
    # Test has eight documents.
    assert "10 are needed for a ceiling" in html
    assert "Krippendorff" in html
