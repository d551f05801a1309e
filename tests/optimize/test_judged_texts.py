"""What a judge reads that nobody has defined: texts by their names, and nothing about the label."""

from pathlib import Path

import pytest
from jsonl import read_jsonl, write_jsonl

from judges.labels.flags import read_map_file
from judges.labels.types import LabelError
from optimize import check
from optimize.inputs.labelled import LabelSource, subject_of

SECRET = {
    **{"annotator_note": "fine", "model": "m", "pass_rate": "85%", "date": "2026-10-01"},
    **{"trace_id": "a1", "url": "https://x.example/1", "reviewer": "kim", "prompt_tokens": "12"},
}


def texts_of(*, map: dict[str, str] | None = None, **columns: object) -> tuple[str, ...]:
    """What the judge of forty labelled rows reads; {} in a cell is the row's number."""
    rows: list[dict[str, object]] = [
        {name: str(cell).replace("{}", str(n)) for name, cell in columns.items()}
        | {"label": "pass" if n % 3 else "fail"}
        | SECRET
        for n in range(40)
    ]
    made = subject_of("quality", LabelSource(data=rows, map=map))
    assert made is not None
    return made[0].texts


@pytest.mark.parametrize(
    ("source", "output"),
    [("input", "output"), ("question", "answer"), ("prompt", "response"), ("query", "completion")],
)
def test_a_judge_reads_what_was_asked_and_answered_and_no_metadata(
    source: str, output: str
) -> None:
    assert texts_of(**{source: "{}+{}?", output: "so {}"}) == (source, output)


def test_headers_of_several_words_are_known_by_one_of_them() -> None:
    columns = {"User Input": "Ask {}.", "modelOutput": "Say {}.", "Output Language": "en"}
    assert texts_of(**columns) == ("user_input", "model_output")


@pytest.mark.parametrize("name", ["expected", "reference", "ground_truth", "correct_answer"])
def test_what_the_answer_should_be_is_read(name: str) -> None:
    assert texts_of(input="{}?", output="say {}", **{name: "{}"}) == ("input", name, "output")


@pytest.mark.parametrize("name", ["expected", "reference_answer"])
def test_a_reference_of_few_words_may_be_the_label_and_is_not_read(name: str) -> None:
    assert texts_of(input="{}?", output="say {}", **{name: "very good"}) == ("input", "output")


def test_a_text_that_some_rows_lack_is_not_read() -> None:
    assert texts_of(question="{}?", context="", answer="{}.") == ("question", "answer")


def test_where_it_is_open_what_is_judged_one_flag_says_so() -> None:
    with pytest.raises(LabelError, match="--map output=answer or --map output=response"):
        texts_of(question="{}?", answer="A {}.", response="Reply {}.")
    with pytest.raises(LabelError, match="--map output=bot_says"):
        texts_of(question="{}?", bot_says="This is a long reply {} to all of it.")
    mapped = texts_of(question="{}?", bot_says="Reply {}.", map={"output": "bot_says"})
    assert mapped == ("question", "output")


def test_a_mapping_file_of_check_names_no_metadata_which_a_judge_would_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet, map_file = tmp_path / "sheet.jsonl", tmp_path / "map.yaml"
    write_jsonl(sheet, [{"input": f"{n}?", "output": "Say.", "label": n % 2} for n in range(8)])
    write_jsonl(sheet, [{**row, "date": "2026-10-01"} for row in read_jsonl(sheet)])
    assert check.main([str(sheet), "--write-map", str(map_file)]) == 0
    made = subject_of("label", LabelSource(data=str(sheet), map=read_map_file(map_file)))
    assert made is not None
    assert made[0].texts == ("input", "output")
