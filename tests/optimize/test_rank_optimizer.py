"""RankOptimizer as DSPy's users call it: programs, examples, models and results of their own."""

import asyncio
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import dspy
import pandas as pd
import pytest
from openai_server import OpenAIServer

import judges
from judges.models.dspy_lm import ConfiguredModel
from optimize import RankOptimizer
from optimize.dspy_examples import ExampleReader, rows_of
from optimize.dspy_program import Answer, ProgramStudent, answer_of, student_of

STUDENT = judges.load("fluency").program()
KEY = "sk-Zq81LmXv47TbRw93KdPc"
HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
RATED = [
    {
        "document": f"Document number {number // 4}. {'It goes on and on. ' * 40}",
        "summary": f"Summary number {number}, of quality {1 + (7 * number) % 5}.",
        "score": [1 + (7 * number) % 5] * 3,
        "source": f"d{number // 4}",
    }
    for number in range(56)
]
EXAMPLES = [dspy.Example(**row).with_inputs("document", "summary") for row in RATED]


def example(number: int, **changes: object) -> dspy.Example:
    cells: Mapping[str, Any] = {
        "summary": f"Summary number {number}.",
        "human": 1 + number % 5,
        "document_id": f"d{number // 4}",
        **changes,
    }
    return dspy.Example(**{name: cell for name, cell in cells.items() if cell is not None})


SOME = [example(number) for number in range(12)]
OTHERS = [example(number, id=f"other-{number}") for number in range(100, 112)]


def opinion(body: dict[str, Any]) -> str:
    """A judge that sees the quality only where it is told to look, and a proposer that tells."""
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    asked = [name for name in HEADER.findall(last.rpartition("\n\n")[2]) if name != "completed"]
    if "instruction" in asked:
        return (
            "[[ ## instruction ## ]]\nRate by the quality that is stated.\n\n[[ ## completed ## ]]"
        )
    match = re.search(r"of quality (\d)", last)
    rating = 1 + zlib.crc32(last.encode()) % 5
    if match and "stated" in system:
        rating = int(match[1])
    values = {"rating": str(rating), "better": "AB"[rating < 3]}
    if "json" in last.rpartition("\n\n")[2].lower():
        return f'{{"reasoning": "Because.", "rating": {rating}}}'
    blocks = [f"[[ ## {name} ## ]]\n{values.get(name, 'Because.')}" for name in asked]
    return "\n\n".join([*blocks, "[[ ## completed ## ]]"]) if asked else str(rating)


@pytest.fixture
def server(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    openai_server.key, openai_server.judge = KEY, opinion
    openai_server.models = ("gpt-4.1-mini",)
    return openai_server


def lm_of(server: OpenAIServer, **arguments: Any) -> dspy.LM:
    return dspy.LM("openai/gpt-4.1-mini", api_key=KEY, api_base=server.url, **arguments)


class Rater(dspy.Module):  # type: ignore[misc]
    """A program of its user's own: other names, texts made ready first, another output beside."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = dspy.ChainOfThought("document, summary -> rating: Literal['1','2','3','4','5']")
        self.trials = "a name of its own"

    def forward(self, source_text: str, reply: str) -> dspy.Prediction:
        answer = self.rate(document=source_text.upper(), summary=reply.strip())
        return dspy.Prediction(rating=answer.rating, length=len(reply))


class Two(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = dspy.Predict("a -> rating: int")
        self.second = dspy.Predict("b -> rating: int")


# --- what is refused


@pytest.mark.parametrize(
    ("student", "says"),
    [
        (None, r"cannot tune a NoneType: it tunes .*judges\.load\('relevance'\)\.program\(\)"),
        ("fluency", r"cannot tune a str: .*dspy\.ChainOfThought\('document, summary -> rating"),
        (Two(), r"one predictor, and Two has 2 predictors \(first, second\): .*_compiled = True"),
        (dspy.Module(), "one predictor, and Module has none"),
        (
            dspy.Predict("text -> rating"),
            r"Predict writes no rating and no choice \(rating: str\): type its output, as in "
            r"'\.\.\. -> rating: int'",
        ),
        (
            dspy.ChainOfThought("text -> verdict: Literal['bad', 'fair', 'good']"),
            "no rating and no choice",
        ),
        (
            dspy.Predict("text -> style: int, content: int"),
            r"2 ratings or choices \(style: int, content: int\): .*output='content'",
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_what_can(student: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        RankOptimizer(quiet=True).compile(student, trainset=SOME, valset=OTHERS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("train", "val", "says"),
    [
        (SOME, [], "valset is empty"),
        ([], SOME, "trainset is empty"),
        ([example(1, human=None)], SOME, "train example 0 has no 'human'; an example has summary"),
        (SOME, [SOME[0], example(1, summary=None)], "val example 1 has no 'summary'"),
        (SOME, [example(0), example(1, human=float("nan"))], "val example 1 has human nan"),
        (SOME, [example(0), example(1, human="four")], "val example 1 has human 'four'"),
        (SOME, [example(number, human=3) for number in range(4)], "valset: human is 3 in every"),
        (SOME, SOME[4:], r"share 2 documents \(document_id\): d1, d2; .*leave valset out"),
        (
            [example(number, document_id=None) for number in range(12)],
            [example(number, document_id=None) for number in range(10, 20)],
            "share 2 examples: val-0, val-1",
        ),
        (SOME[:8], None, "trainset has 2 documents, and 10 are the least to split"),
        ([*SOME, example(3, id="x"), example(4, id="x")], None, "two examples have the id 'x'"),
        (["a text"] * 12, None, "example 0 is a str; a dspy.Example or a dict is wanted"),
    ],
)
def test_examples_that_cannot_carry_a_choice_are_refused(train: Any, val: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        RankOptimizer(quiet=True).compile(STUDENT, trainset=train, valset=val)


def test_arguments_that_there_are_none_of_are_refused() -> None:
    with pytest.raises(ValueError, match="level 'paragraph': choose from auto, summary, dataset"):
        RankOptimizer(level="paragraph")
    with pytest.raises(ValueError, match="takes no teacher"):
        RankOptimizer().compile(STUDENT, trainset=SOME, valset=OTHERS, teacher=STUDENT)
    with pytest.raises(TypeError, match="no 'num_trials', but student, trainset and valset"):
        RankOptimizer().compile(STUDENT, trainset=SOME, num_trials=3)


# --- examples


@pytest.mark.parametrize(
    ("label", "cells", "expected"),
    [
        (None, {"human": 4}, 4),
        (None, {"rating": 4}, 4),
        ("score", {"score": 3.5, "human": 1}, 3.5),
        ("score", {"score": [3, 4, 5]}, 4),
        (["ann", "bob"], {"ann": 2, "bob": 5}, 3.5),
        (["ann", "bob"], {"ann": 2, "bob": None}, 2),
        (lambda row: 10 - row["errors"], {"errors": 3}, 7),
    ],
)
def test_a_label_is_named_once(label: Any, cells: Mapping[str, Any], expected: float) -> None:
    rows = [{"summary": "One.", **cells}, {"summary": "Two.", **cells}]
    reader = ExampleReader(student=student_of(STUDENT), label=label)
    with pytest.raises(ValueError, match=f"is {expected:g} in every example"):
        reader.read(rows, "train")


def test_a_data_frame_and_dicts_and_examples_are_read_alike() -> None:
    reader = ExampleReader(student=student_of(STUDENT), group="document_id")
    frame = pd.DataFrame([row.toDict() for row in SOME])
    sets = [reader.read(rows_of(rows), "train") for rows in (SOME, frame, frame.to_dict("records"))]
    assert sets[0].items == sets[1].items == sets[2].items


def test_a_cell_that_is_missing_in_a_data_frame_is_missing() -> None:
    reader = ExampleReader(student=student_of(STUDENT), group="document_id")
    rows = [{**row.toDict(), "id": f"{n}", "system": f"s{n % 2}"} for n, row in enumerate(SOME)]

    def with_missing(column: str) -> pd.DataFrame:
        frame = pd.DataFrame(rows)
        frame.loc[3, column] = float("nan")
        return frame

    items = reader.read(rows_of(with_missing("system")), "train")
    assert items.items[3].system is None
    assert items.systems == ("s0", "s1")
    assert reader.read(rows_of(with_missing("id")), "train").items[3].id == "train-3"
    for column in ("document_id", "summary"):
        frame = with_missing(column)
        examples = [dspy.Example(**row).with_inputs("summary") for row in frame.to_dict("records")]
        for given in (frame, frame.to_dict("records"), examples):
            with pytest.raises(ValueError, match=f"train example 3 has no '{column}'"):
                reader.read(rows_of(given), "train")


def test_a_level_that_examples_lack_is_refused_before_a_model_is_asked() -> None:
    optimizer = RankOptimizer(quiet=True, level="system", lm="openai/none-such")
    with pytest.raises(ValueError, match="level system: these labels have the levels summary, da"):
        optimizer.compile(STUDENT, trainset=SOME, valset=OTHERS)


def test_votes_and_labels_of_a_choice_become_numbers() -> None:
    pairwise = student_of(judges.load("tldr_concise").program())
    texts = dict.fromkeys(pairwise.text_names, "A text.")
    rows = [{**texts, "human": cell} for cell in ("A", "B", "tie", ["A", "A", "B", "tie"], 0.5)]
    assert list(ExampleReader(student=pairwise).read(rows, "train").human) == [1, -1, 0, 0.25, 0.5]
    asks = dspy.Predict("text -> polite: bool")
    rows = [{"text": "A text.", "polite": cell} for cell in (True, False, [True, False])]
    assert list(ExampleReader(student=student_of(asks)).read(rows, "train").human) == [1, 0, 0.5]


def test_without_a_valset_documents_are_split_and_rows_where_nothing_names_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [example(number, document_id=f"d{number // 2}") for number in range(40)]
    RankOptimizer(max_calls=40).compile(STUDENT, trainset=rows)
    assert capsys.readouterr().err.startswith(
        "trainset split by document: 18 examples teach, 22 choose (9 and 11 documents)\n"
    )
    rows = [example(number, document_id=None) for number in range(40)]
    RankOptimizer(max_calls=40).compile(STUDENT, trainset=rows)
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith("no example names its document, so trainset is split by row")
    assert "group='summary'" in first
    assert second.startswith("trainset split by row: 19 examples teach, 21 choose")


# --- programs


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("rating: int", Answer(name="rating")),
        ("rating: float", Answer(name="rating", kind=float)),
        ("score: Optional[int]", Answer(name="score")),
        ("rating: Literal[5, 1, 3]", Answer(name="rating", values=(1, 3, 5))),
        ("rating: Literal['1', '2', '10']", Answer(name="rating", values=("1", "2", "10"))),
        (
            "better: Literal['A', 'B']",
            Answer(name="better", values=("A", "B"), is_choice=True),
        ),
        ("polite: bool", Answer(name="polite", values=(True, False), is_choice=True)),
        ("reasoning, rating: int, advice", Answer(name="rating")),
    ],
)
def test_ratings_and_choices_are_known_by_their_type(output: str, expected: Answer) -> None:
    assert answer_of("Predict", dspy.Signature(f"text -> {output}")) == expected


def test_what_a_forward_makes_of_the_texts_is_what_the_search_sees() -> None:
    student = ProgramStudent(Rater())
    texts = student.texts("1", {"source_text": "a text", "reply": " a reply "})
    assert texts == {"document": "A TEXT", "summary": "a reply"}
    with pytest.raises(KeyError, match="reply"):
        student.texts("2", {"source_text": "a text"})


def test_an_image_is_refused() -> None:
    looks = dspy.Predict("picture: dspy.Image -> rating: int")
    row = {"picture": dspy.Image(url="https://example.com/a.png"), "human": 3}
    with pytest.raises(TypeError, match=r"picture is a dspy\.Image; RankOptimizer reads texts"):
        RankOptimizer(quiet=True).compile(looks, trainset=[row] * 12)


def test_a_chain_of_thought_is_tuned_by_the_configured_model_and_keeps_its_reasoning(
    server: OpenAIServer, tmp_path: Path
) -> None:
    program = dspy.ChainOfThought("document, summary -> rating: int", temperature=0.5)
    optimizer = RankOptimizer(
        label="score", group="source", max_calls=600, folder=tmp_path / "run", quiet=True
    )
    with dspy.context(lm=lm_of(server, temperature=0, top_p=0.9)), dspy.track_usage() as usage:
        tuned = optimizer.compile(program, trainset=EXAMPLES)
        result = tuned.detailed_results
        assert result.summary["shipped"] == "tuned", str(result)
        total = usage.get_total_tokens()["openai/gpt-4.1-mini"]["prompt_tokens"]
        assert total == server.tokens_in == result.summary["tokens"]["in"]
        prediction = tuned(document="A document.", summary="A summary of quality 2.")
        assert (prediction.rating, prediction.reasoning) == (2, "Because.")
        evaluate = dspy.Evaluate(
            devset=EXAMPLES[:20],
            metric=lambda row, said, trace=None: said.rating == row.score[0],
            display_progress=False,
        )
        assert evaluate(tuned).score == 100
    assert type(tuned) is dspy.ChainOfThought
    assert "stated" in tuned.predict.signature.instructions
    assert list(tuned.predict.signature.output_fields) == ["reasoning", "rating"]
    assert program.predict.signature.instructions != tuned.predict.signature.instructions
    assert {body["top_p"] for body in (seen.body for seen in server.log)} == {0.9}
    assert max(result.trials, key=lambda trial: trial["calls"])["calls"] <= 600
    assert str(result).startswith("rating judged by openai/gpt-4.1-mini, rank search, seed 0\n")
    assert "\ntest " not in str(result)
    tuned.save(tmp_path / "tuned.json")
    again = dspy.ChainOfThought("document, summary -> rating: int")
    again.load(tmp_path / "tuned.json")
    assert again.predict.signature.instructions == tuned.predict.signature.instructions
    assert not [path for path in tmp_path.rglob("*.*") if KEY in path.read_text()]


def test_a_module_with_a_forward_of_its_own_stays_what_it_is(server: OpenAIServer) -> None:
    rows = [
        {"source_text": row["document"], "reply": row["summary"], "score": row["score"][0]}
        for row in RATED
    ]
    optimizer = RankOptimizer(
        lm=lm_of(server), label="score", group="source_text", max_calls=600, quiet=True
    )
    tuned = optimizer.compile(Rater(), trainset=pd.DataFrame(rows))
    assert type(tuned) is Rater
    assert tuned.trials == "a name of its own"
    assert tuned.detailed_results.summary["shipped"] == "tuned"
    with dspy.context(lm=lm_of(server)):
        prediction = tuned(source_text="A document.", reply="A summary of quality 2.")
    assert (prediction.rating, prediction.length) == ("2", 23)


def test_demonstrations_are_in_the_programs_own_types_and_its_adapter_shows_them(
    server: OpenAIServer,
) -> None:
    program = dspy.ChainOfThought("document, summary -> rating: float")
    student = ProgramStudent(program)
    reader = ExampleReader(student=student, label="score", group="source")
    items = reader.read(EXAMPLES, "train")
    judge = student.describe(list(items.human))
    assert judge.prompt.outputs[-1].choices == (1, 2, 3, 4, 5)
    for item in items.items:
        student._examples[tuple(item.texts.values())] = item.id, item.human
    reasons = {"reasoning": "The better one is 3.", "rating": 3}
    demos = ({**items.items[0].texts, **reasons}, {**items.items[1].texts, **reasons})
    tuned = student.tuned(
        judge.prompt.__class__(
            instruction="Rate.",
            fields=judge.prompt.fields,
            demos=(demos[0], {**demos[1], "reasoning": "It is short."}),
        )
    )
    first, second = tuned.predict.demos
    assert dict(first) == {**items.items[0].texts, "rating": 1.0}
    assert second["reasoning"] == "It is short."
    for adapter in (dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()):
        shown = adapter.format(tuned.predict.signature, tuned.predict.demos, items.items[2].texts)
        assert [message["role"] for message in shown[1:]] == ["user", "assistant"] * 2 + ["user"]


def test_a_choice_is_tuned_at_dataset_level_in_an_adapter_of_its_own(server: OpenAIServer) -> None:
    class Better(dspy.Signature):  # type: ignore[misc]
        """Say which reply is better."""

        question: str = dspy.InputField()
        reply: str = dspy.InputField()
        better: Literal["A", "B"] = dspy.OutputField()

    rows = [
        {"question": row["document"], "reply": row["summary"], "better": "AB"[row["score"][0] < 3]}
        for row in RATED
    ]
    with dspy.context(lm=lm_of(server), adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        tuned = RankOptimizer(group="question", max_calls=600, quiet=True).compile(
            dspy.Predict(Better), trainset=rows
        )
    assert tuned.detailed_results.summary["level"] == "dataset"
    assert tuned.detailed_results.summary["level"] == "dataset"
    assert tuned.detailed_results.summary["shipped"] == "tuned"


def test_what_a_program_returns_must_hold_the_rating(server: OpenAIServer) -> None:
    class Silent(Rater):
        def forward(self, source_text: str, reply: str) -> dspy.Prediction:
            return dspy.Prediction(value=super().forward(source_text, reply).rating)

    rows = [
        {"source_text": row["document"], "reply": row["summary"], "human": row["score"][0]}
        for row in RATED
    ]
    optimizer = RankOptimizer(lm=lm_of(server), group="source_text", quiet=True)
    with pytest.raises(TypeError, match="Silent returns value, and no 'rating'"):
        optimizer.compile(Silent(), trainset=rows)


def test_a_wrong_key_ends_the_run_in_one_line(server: OpenAIServer) -> None:
    wrong = dspy.LM("openai/gpt-4.1-mini", api_key="sk-Wr0ngKeyAbCdEf12345", api_base=server.url)
    optimizer = RankOptimizer(lm=wrong, label="score", group="source", quiet=True)
    for program in (dspy.ChainOfThought("document, summary -> rating: int"), None):
        student = program or judges.load("relevance").program()
        with pytest.raises(judges.protocol.ModelError) as caught:
            optimizer.compile(student, trainset=EXAMPLES)
        assert "sk-Wr0ngKey" not in str(caught.value)


def test_a_notebooks_running_loop_is_no_obstacle(server: OpenAIServer) -> None:
    async def cell() -> dspy.Module:
        optimizer = RankOptimizer(label="score", group="source", max_calls=300, quiet=True)
        with dspy.context(lm=lm_of(server)):
            return optimizer.compile(judges.load("relevance").program(), trainset=EXAMPLES)

    assert isinstance(asyncio.run(cell()), judges.RatingJudge)


def test_a_judges_own_demonstrations_stay_where_the_search_shows_none() -> None:
    demo = {"summary": "A summary.", "rating": 3}
    program = judges.load("fluency").with_prompt(demos=[demo]).program()
    student = student_of(program)
    seed = student.judge.prompt
    assert student.tuned(seed.__class__(instruction="Rate.", fields=seed.fields)).judge.demos == [
        dspy.Example(**demo).with_inputs("summary")
    ]


# --- models


def test_the_configured_model_is_taken_unless_another_is_named() -> None:
    task = student_of(judges.load("fluency").program())
    (predictor,) = task.program.predictors()
    configured = dspy.LM("openai/judge-1", api_base="http://127.0.0.1:9/v1", api_key=KEY)
    own = dspy.LM("openai/judge-2", api_key=KEY)
    with dspy.context(lm=configured, num_threads=3):
        opened, settings = RankOptimizer()._settings(task, predictor)
        assert (settings.lm, settings.api_base) == ("openai/judge-1", "http://127.0.0.1:9/v1")
        assert isinstance(opened["judge"], ConfiguredModel)
        assert opened["proposer"] is opened["judge"]
        assert settings.concurrency == 3
        opened, settings = RankOptimizer(lm="embedded", proposer_lm=own)._settings(task, predictor)
        assert (settings.lm, settings.proposer_lm) == ("embedded", "openai/judge-2")
        assert set(opened) == {"proposer"}
        _, settings = RankOptimizer(api_base="http://127.0.0.1:8/v1")._settings(task, predictor)
        assert settings.api_base == "http://127.0.0.1:8/v1"
        _, settings = RankOptimizer(price=(0.4, 1.6), max_demos=4)._settings(task, predictor)
        assert (settings.price, settings.max_demos) == ("0.4,1.6", 4)
        predictor.lm = own
        assert RankOptimizer()._settings(task, predictor)[1].lm == "openai/judge-2"


def test_the_page_on_dspy_runs_as_it_stands(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import dspy\nfrom optimize .*?)```", page, re.DOTALL)
    rated = [(row["document"], row["summary"], row["score"][0]) for row in RATED]
    monkeypatch.setattr(dspy, "configure", lambda lm: None)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"rated": rated}
    with dspy.context(lm=lm_of(server, temperature=0)):
        exec(block, names)
    summary = names["tuned"].detailed_results.summary
    assert (summary["shipped"], summary["cost_usd"] < 2) == ("tuned", True)


def test_the_docstring_shows_the_pages_example() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    lines = (RankOptimizer.__doc__ or "").partition("        import dspy\n")[2].splitlines()
    code = "".join(page.split())
    assert len(lines) > 10
    for line in lines:
        assert "".join(line.split()) in code, line
