"""What a judge reads that nobody has defined: texts by their names, and nothing about the label."""

import pytest
from command_runs import output_of
from files import write_jsonl

from judges.labels.types import LabelError
from optimize import check
from optimize.inputs.labelled import LabelSource
from optimize.inputs.subjects import subject_from_labels

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
    subject, _ = subject_from_labels("quality", LabelSource.of(rows, map=map))
    return subject.texts


INPUT, ANSWER = {"input": "{}+{}?"}, {"output": "say {}"}


@pytest.mark.parametrize(
    ("columns", "unread"),
    [
        (INPUT | ANSWER, ""),
        ({"question": "{}?", "answer": "so {}"}, ""),
        ({"prompt": "{}?", "response": "so {}"}, ""),
        ({"query": "{}?", "completion": "so {}"}, ""),
        # What the answer should be is read; of few words it may be the label, and is not.
        *((INPUT | {name: "{}"} | ANSWER, "") for name in ("expected", "ground_truth")),
        *((INPUT | {name: "{}"} | ANSWER, "") for name in ("reference", "correct_answer")),
        *((INPUT | {name: "very good"} | ANSWER, name) for name in ("expected", "reference")),
        # A text that some rows lack is not read.
        ({"question": "{}?", "context": "", "answer": "{}."}, "context"),
        # The id of a document is not a text; an answer may be a word like an id.
        ({"article": "cnn-test-{}4f85", "document": "Text {}.", "summary": "{}."}, "article"),
        ({"question": "{}?", "answer": "order-{}4f85"}, ""),
    ],
)
def test_a_new_judge_reads_question_and_answer_and_no_column_about_labels(columns, unread):
    assert texts_of(**columns) == tuple(name for name in columns if name != unread)


def test_check_names_the_texts_that_a_new_judge_of_pairs_reads(here):
    rows = [
        {"instruction": f"Do {n}.", "app": f"No. {n} of our apps", "input": "x" * (n % 2)}
        | {"response_a": f"A {n}.", "response_b": f"B {n}.", "winner": "AB"[n % 2]}
        for n in range(20)
    ]
    file = write_jsonl("pairs.jsonl", rows)
    read = "id from #row; text instruction; text response_a; text response_b; ratings votes"
    out = " ".join(output_of(check.command, file).split())
    assert f"read {read}" in out
    assert "not read app, input" in out
    subject, _ = subject_from_labels("better=Which?", LabelSource(data=file), is_pairwise=True)
    assert subject.inputs.keys() == {"instruction"}


def test_a_header_of_several_words_is_recognised_by_one_word():
    columns = {"User Input": "Ask {}.", "modelOutput": "Say {}.", "Output Language": "en"}
    assert texts_of(**columns) == ("user_input", "model_output")


def test_if_it_is_unclear_which_text_is_judged_one_flag_tells():
    with pytest.raises(LabelError, match="--map output=answer or --map output=response"):
        texts_of(question="{}?", answer="A {}.", response="Reply {}.")
    with pytest.raises(LabelError, match="--map output=bot_says"):
        texts_of(question="{}?", bot_says="This is a long reply {} to all of it.")
    texts = texts_of(question="{}?", bot_says="Reply {}.", map={"output": "bot_says"})
    assert texts == ("question", "output")
