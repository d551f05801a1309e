"""RankOptimizer as DSPy's users call it: programs, examples, models and results of their own."""

import re
import zlib
from dataclasses import replace
from pathlib import Path

import dspy
import pytest
from dspy_engine import Engine
from dspy_engine import lm_of as lm_in_process
from judge_cases import form
from rated_programs import INPUTS, ROWS, compile_with

import judges
from dspy_judges.errors import JudgesError
from optimize import RankOptimizer
from optimize.tuning.program import UserProgram

RELEVANCE = judges.load("relevance").program()
KEY = "sk-Zq81LmXv47TbRw93KdPc"
HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
RATED = ROWS[:56]
EXAMPLES = [dspy.Example(**row).with_inputs("document", "summary") for row in RATED]


def example(number, **changes):
    cells = {
        "document": f"Document {number // 4}.",
        "summary": f"Summary number {number}.",
        "human": 1 + number % 5,
        "document_id": f"d{number // 4}",
        **changes,
    }
    return dspy.Example(**{name: cell for name, cell in cells.items() if cell is not None})


SOME = [example(number) for number in range(12)]
TWO_TEXTS = [{"text": f"Text {n}.", "human": n} for n in range(2)]


def opinion(body):
    """A judge that sees the quality only where it is told to look, and a proposer that tells."""
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    names = [name for name in HEADER.findall(last.rpartition("\n\n")[2]) if name != "completed"]
    if "instruction" in names:
        return form(instruction="Rate by the quality that is stated.")
    match = re.search(r"of quality (\d)", last)
    rating = 1 + zlib.crc32(last.encode()) % 5
    if match and "stated" in system:
        rating = int(match[1])
    values = {"rating": str(rating), "short": "yes"}
    if "json" in last.rpartition("\n\n")[2].lower():
        return f'{{"reasoning": "Because.", "rating": {rating}}}'
    if not names:
        return str(rating)
    return form(**{name: values.get(name, "Because.") for name in names})


@pytest.fixture
def server(openai_server, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    openai_server.key, openai_server.judge = KEY, opinion
    openai_server.models = ("gpt-4.1-mini",)
    return openai_server


def lm_of(server, **arguments):
    return dspy.LM("openai/gpt-4.1-mini", api_key=KEY, api_base=server.url, **arguments)


class Retrieving(dspy.Module):
    """A program of its user's own, whose tuned predictor reads what another one writes."""

    def __init__(self, alone=True):
        super().__init__()
        self.rate = dspy.Predict("facts, summary -> rating: int")
        self.collect = dspy.Predict("document -> facts")
        self.collect._compiled = alone

    def forward(self, document, summary, tag=""):
        facts = self.collect(document=document).facts
        rating = self.rate(facts=facts, summary=summary.strip()).rating
        self.collect(document=tag)
        return dspy.Prediction(rating=rating, length=len(summary))


NO_RATING = "of which 0 are the rating or choice that people labelled"


@pytest.mark.parametrize(
    ("student", "says"),
    [
        ("fluency", r"such as dspy\.ChainOfThought\('document, summary -> rating.*str has 0"),
        (Retrieving(alone=False), r"Retrieving has 2 \(rate, collect\): .*_compiled = True"),
        (dspy.Predict("text -> rating"), rf"rating: str, {NO_RATING}: give one output a type"),
        (
            dspy.Predict("text -> style: int, content: int"),
            r"style: int, content: int, of which 2 are the rating .*output='content'",
        ),
    ],
)
def test_the_error_on_an_untunable_program_says_what_can_be_tuned(student, says):
    with pytest.raises(TypeError, match=says) as error:
        RankOptimizer(quiet=True).compile(student, trainset=SOME)
    assert "\n" not in str(error.value)


def test_a_users_module_keeps_its_class_and_its_compiled_predictors(server):
    with dspy.context(lm=lm_of(server)):
        tuned = compile_with(Retrieving(), RATED, max_calls=500)
        prediction = tuned(**INPUTS)
    assert type(tuned) is Retrieving
    assert not any(trial.get("demos") for trial in tuned.detailed_results.trials)
    assert "stated" in tuned.rate.signature.instructions
    assert "stated" not in tuned.collect.signature.instructions
    assert (prediction.rating, prediction.length) == (2, 23)


def test_errors_name_arguments_and_not_flags_and_a_metric_is_refused(server):
    with pytest.raises(JudgesError, match=r"max_calls=3: too little .* is max_calls=\d") as error:
        compile_with(RELEVANCE, EXAMPLES, max_calls=3, lm=lm_of(server))
    assert "--" not in str(error.value)
    with pytest.raises(JudgesError, match=r"^num_threads=0: "):
        compile_with(RELEVANCE, EXAMPLES, num_threads=0, lm=lm_of(server))
    for price in (0.4, (0.4,), "0.4"):
        with pytest.raises(JudgesError, match=r"^price=.*: write IN,OUT, as in 0\.40,1\.60$"):
            compile_with(RELEVANCE, EXAMPLES, price=price, lm=lm_of(server))
    with pytest.raises(JudgesError, match=r"leave metric out.*label="):
        RankOptimizer(metric=lambda *_: 1)


@pytest.mark.parametrize(
    ("train", "says"),
    [
        ([], "the examples have 0 documents"),
        ([example(1, human=None)], "example 0 has no 'rating'; an example needs document, summary"),
        ([SOME[0], example(1, summary=None)], "example 1 has no 'summary'"),
        (
            [example(0), example(1, human=float("nan"))],
            "example 1: human: nan is not a label; write a number",
        ),
        ([example(0), example(1, human="four")], "example 1: human: 'four' is not a label; write"),
        # A DataFrame iterates over the names of its columns.
        (["document"], r"example 0 is 'document'; .*trainset=frame\.to_dict\('records'\)"),
        ([example(number, human=3) for number in range(48)], "examples are all rated 3"),
        (SOME, "the examples have 3 documents; at least 10 are needed"),
    ],
)
def test_examples_without_valid_labels_of_a_choice_are_refused(train, says):
    with pytest.raises(ValueError, match=says):
        RankOptimizer(quiet=True).compile(RELEVANCE, trainset=train)


@pytest.mark.parametrize(
    ("output", "label", "says"),
    [
        ("polite: bool", 3, r"3 is not a label; write True, False, or a number"),
        ("ok: Literal['pass', 'fail']", -1, r"-1 is not a label; write 'pass', 'fail'"),
        ("ok: Literal[0, 1]", 2, r"2 is not a label; write 0, 1, or a number from 0 to 1"),
        ("better: Literal['A', 'B']", 2, r"2 is not a label; .* a number from -1 to 1"),
    ],
)
def test_a_label_outside_two_values_is_refused_by_its_example(output, label, says):
    rows = [{"text": "A text.", "human": 1}, {"text": "Another.", "human": label}]
    with pytest.raises(ValueError, match=f"example 1: human: {says}"):
        UserProgram(dspy.Predict(f"text -> {output}")).read_examples(rows, None, None)


def test_a_catalogue_judge_tuned_with_the_embedded_model_shows_labels(capsys):
    rows = [example(number, document_id=None) for number in range(40)]
    tuned = RankOptimizer().compile(RELEVANCE, trainset=rows)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no example names its document, so trainset is split by row")
    kinds = {trial["how"] for trial in tuned.detailed_results.trials if trial["stage"] == "dev"}
    assert kinds == {"all"}
    # A notebook shows the `repr`.
    assert "Shipped: " in repr(tuned.detailed_results)


def test_a_tuned_chain_of_thought_keeps_its_reasoning(server, tmp_path):
    program = dspy.ChainOfThought("document, summary -> rating: int", temperature=0.5)
    settings = {"max_calls": 500, "folder": tmp_path / "run"}
    with dspy.context(lm=lm_of(server, temperature=0, top_p=0.9)), dspy.track_usage() as usage:
        tuned = compile_with(program, EXAMPLES, **settings)
        result = tuned.detailed_results
        total = usage.get_total_tokens()["openai/gpt-4.1-mini"]["prompt_tokens"]
        assert total == server.tokens_in == result.summary["tokens"]["in"]
        n_requests = len(server.log)
        # The folder keeps every reply.
        again = compile_with(program, EXAMPLES, **settings)
        assert again.detailed_results.trials == result.trials
        assert len(server.log) == n_requests <= 500
        prediction = tuned(**INPUTS)
        assert (prediction.rating, prediction.reasoning) == (2, "Because.")
    assert type(tuned) is dspy.ChainOfThought
    assert "stated" in tuned.predict.signature.instructions
    assert list(tuned.predict.signature.output_fields) == ["reasoning", "rating"]
    assert "stated" not in program.predict.signature.instructions
    assert {entry.body["top_p"] for entry in server.log} == {0.9}
    assert str(result).startswith("rating judged by openai/gpt-4.1-mini")
    tuned.save(tmp_path / "tuned.json")
    second = dspy.ChainOfThought("document, summary -> rating: int")
    second.load(tmp_path / "tuned.json")
    assert second.predict.signature.instructions == tuned.predict.signature.instructions
    assert not [path for path in tmp_path.rglob("*.*") if KEY.encode() in path.read_bytes()]


def test_a_programs_other_choices_are_questions_that_keep_their_weights(server):
    question = judges.Question(name="short", text="is it short")
    weights = judges.AnswerWeights(intercept=0.5, slopes={"rating": 0.5, "short": 1.0})
    judge = judges.Judge.of(judges.load("relevance").subject, questions=[question])
    judge = replace(judge, weights=weights)
    tuned = compile_with(judge.program(), EXAMPLES, lm=lm_of(server), max_calls=500)
    # No example answers the question, so none is a demonstration.
    assert not any(trial.get("demos") for trial in tuned.detailed_results.trials)
    again = judges.Judge.from_program(tuned, judge.subject)
    assert (again.prompt.question_fields, again.weights) == (judge.prompt.question_fields, weights)
    with dspy.context(lm=lm_of(server)):
        prediction = tuned(**INPUTS)
    assert (prediction.rating, prediction.short) == (2, "yes")
    assert prediction.score == 0.5 + 0.5 * 2 + 1.0


@pytest.mark.parametrize(
    ("outputs", "answers", "intercept", "slopes", "score"),
    [
        (
            "polite: bool, tone: Literal[1, 2, 3], rating: float",
            {"polite": True, "tone": 3, "rating": 2.5},
            *(0.5, {"polite": 0.5, "tone": 0.1, "rating": 0.4}, 0.5 + 0.5 + 0.1 * 3 + 0.4 * 2.5),
        ),
        (
            "shorter: Literal['A', 'B'], rating: Literal['A', 'B']",
            {"shorter": "B", "rating": "A"},
            # Of 1 and 0 in the search, where .25 keeps the score in [0, 1].
            *(0.25, {"shorter": 0.25, "rating": 0.5}, 0.5 - 0.25),
        ),
    ],
)
def test_the_compiled_program_scores_by_weights(outputs, answers, intercept, slopes, score):
    weights = judges.AnswerWeights(intercept=intercept, slopes=slopes)
    program = UserProgram(dspy.Predict(f"text -> {outputs}"), "rating")
    items = program.read_examples(TWO_TEXTS, None, None)
    prompt = program.describe_judge(items)[1]
    assert [field.name for field in prompt.choices] == list(answers)
    with dspy.context(lm=lm_in_process(Engine(lambda _: form(**answers)))):
        prediction = program.tuned_copy(prompt, weights)(text="A text.")
    assert prediction.score == pytest.approx(score)
    assert {name: prediction[name] for name in answers} == answers
    # It can be tuned again: the answer is known and the weights are its own.
    again = UserProgram(program.tuned_copy(prompt, weights))
    assert (again.rated_answer, again.weights.slopes) == (program.rated_answer, slopes)


def test_the_code_on_the_page_about_dspy_runs_unchanged(server, here, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import dspy\nfrom optimize .*?)```", page, re.DOTALL)
    rated = [(row["document"], row["summary"], row["score"]) for row in RATED]
    monkeypatch.setattr(dspy, "configure", lambda lm: None)
    names = {"rated": rated}
    with dspy.context(lm=lm_of(server, temperature=0)):
        exec(block, names)
    summary = names["tuned"].detailed_results.summary
    assert (summary["shipped"], summary["cost_usd"] < 2) == ("tuned", True)
