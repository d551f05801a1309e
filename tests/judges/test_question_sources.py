"""Questions of a definition and of the catalogue, answered offline, and shown by the commands."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_runs import json_of, run
from files import read_jsonl, write_jsonl
from judge_cases import DEADLINE, PAIR, PAIRED, RELEVANCE, ROW, TLDR_CONCISE, TONE, WEIGHED
from refusals import refuses

import judges
from judges import Dimension, Judge, Question, catalog
from judges.__main__ import main
from judges.catalog import candidate_questions
from judges.dimension import DimensionError
from judges.loading import read_subject
from judges.scoring import WEIGHTED_PLAN

pytestmark = pytest.mark.usefixtures("here")

# Defining.
BASE = "name: a\ndefinition: d\ninputs: [x, y]\nscale: [1, 5]\nquestions:\n"
PAIRS = "name: a\ndefinition: d\ninputs: [x]\ncandidate: y\nquestions:\n"


def same_publication_questions(subject: Any) -> tuple[Question, ...]:
    return candidate_questions(replace(subject, questions=()), 16)


def define(text: str) -> tuple[Question, ...]:
    Path("mine.yaml").write_text(text, encoding="utf-8")
    return read_subject("mine.yaml").questions


def test_a_definition_lists_questions_which_an_untuned_judge_does_not_ask():
    text = BASE + (
        "  deadline: does it say until when\n"
        "  tone: {text: how friendly it is, answers: [1, 3], anchors: {1: rude}}\n"
        "  clear: {text: is it clear, answers: [clear, unclear]}\n"
    )
    assert define(text) == (
        Question(name="deadline", text="does it say until when"),
        TONE,
        Question(name="clear", text="is it clear", answers=("clear", "unclear")),
    )
    judge: Any = judges.load("mine.yaml")
    assert judge.prompt.question_fields == ()
    assert candidate_questions(judge.subject, 2) == judge.subject.questions[:2]


def test_a_comparisons_questions_are_answered_by_a_or_b():
    for text in ("  briefer: which one is shorter\n", "  briefer: {text: t, answers: [A, B]}\n"):
        (question,) = define(PAIRS + text)
        assert question.answers == ("A", "B")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BASE + "  p: {text: t, answers: [1, 30]}", "2 to 10 ascending ratings from 0 to 9"),
        (BASE + "  p: {text: t, colour: red}", "unknown field `colour`"),
        (BASE + "  x: t", "a question may not be called 'x'"),
    ],
)
def test_a_bad_question_of_a_definition_is_one_clear_line(text, why):
    with refuses(DimensionError, f"mine.yaml: .*{why}"):
        define(text)


# The catalogue.
RATED = [
    name for name in catalog.SUBJECT_BY_NAME if isinstance(catalog.find_subject(name), Dimension)
]


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        (RELEVANCE, ["coherence", "consistency", "fluency"]),
        (TLDR_CONCISE, []),
        # Another definition is of no publication.
        (replace(RELEVANCE, definition="mine"), []),
    ],
)
def test_siblings_judge_the_same_text_by_the_same_source(subject, names):
    assert [question.name for question in same_publication_questions(subject)] == names


# The embedded model.
DOCUMENT = (
    "The town of Marl will close its swimming pool in May. The council said that repairs would cost"
    " two million. Swimmers started a petition, which 900 people signed."
)
GOOD = "Marl will close its swimming pool in May because repairs would cost two million."
BROKEN = "of a pool pool sells sells and [UNK] the . 700 the"


def offline(judge: Judge, summary: str) -> Any:
    return judge(document=DOCUMENT, summary=summary)


@pytest.mark.parametrize("reasoning", ["none", "brief"])
@pytest.mark.parametrize("name", RATED)
def test_catalogue_judges_have_questions_for_the_embedded_model(name, reasoning):
    subject = catalog.find_subject(name)
    assert 4 <= len(subject.questions) <= 8
    questions = candidate_questions(subject, 16)
    assert questions == (*same_publication_questions(subject), *subject.questions)
    if subject.texts == ("summary",):
        assert not any("document" in q.text or "article" in q.text for q in subject.questions)
    judge = Judge.of(subject, reasoning=reasoning, questions=questions)
    texts = dict(zip(subject.texts, (DOCUMENT, GOOD)[-len(subject.texts) :], strict=True))
    sound: Any = judge(**texts)
    faulty: Any = judge(**{**texts, "summary": BROKEN})
    assert [*sound.answers] == [*(question.name for question in questions), "rating"]
    assert all(sound.answers[each] >= faulty.answers[each] for each in sound.answers)
    assert sound.score == sound.answers["rating"]
    # Questions leave the rating as it is.
    assert sound.score == Judge.of(subject, reasoning=reasoning)(**texts).score


# Showing.
def test_show_prints_each_answer_with_its_share_of_the_score():
    WEIGHED.save("judge.json")
    # Of the 4 from 1 to 5: 1 * 1, 0.5 * 2 and 0.5 * 4.
    text = run(main, "show", "judge.json").stdout
    assert "   25%  deadline (yes/no): does the reply say until when to ask\n" in text
    assert "   25%  tone (1-3): how friendly it is (1 = rude)\n" in text
    assert "   50%  rating (1-5): how far the reply helps\n" in text
    first, second = json_of(main, "show", "judge.json")["questions"]
    assert (first["name"], first["text"]) == ("deadline", DEADLINE.text)
    assert (first["answers"], first["share"], first["loss"]) == (["yes", "no"], 0.25, None)
    assert (second["answers"], second["share"]) == ([1, 2, 3], 0.25)
    assert "questions" not in json_of(main, "show", "relevance")


def test_export_asks_all_questions_without_their_weights(capsys):
    assert main(["export", str(WEIGHED.save("judge.json"))]) == 0
    exported = capsys.readouterr()
    assert json.loads(exported.out)["messages"] == WEIGHED.template()
    assert "by the weights in the judge's file" in exported.err


def test_score_and_winrate_write_the_answers():
    WEIGHED.with_plan(WEIGHTED_PLAN).save("judge.json")
    replace(PAIRED, plan=WEIGHTED_PLAN).save("pairs.json")
    write_jsonl("rows.jsonl", [ROW, {"query": "When?", "reply": " "}])
    write_jsonl("pairs.jsonl", [PAIR])
    score = ["score", "judge.json", "--data", "rows.jsonl", "--out"]
    winrate = ["winrate", "pairs.json", "--data", "pairs.jsonl", "--out"]
    for ask in ([*score, "o.jsonl"], [*score, "o.csv", "--answers"], [*score, "plain.csv"]):
        assert main(ask) == 0
    for ask in ([*winrate, "p.jsonl"], [*winrate, "p.csv", "--answers"]):
        assert main(ask) == 0
    first, second = (row["judgements"]["helpful"] for row in read_jsonl("o.jsonl"))
    assert [*first["answers"]] == ["deadline", "tone", "rating"]
    assert "answers" not in second
    table = pd.read_csv("o.csv")
    new = ["helpful", "helpful_failure", "helpful_deadline", "helpful_tone", "helpful_rationale"]
    assert [*table][-5:] == new
    assert table["helpful_tone"][0] == round(first["answers"]["tone"], 3)
    assert math.isnan(table["helpful_tone"][1])
    assert table["helpful_failure"][1] == "reply is empty"
    assert not {"helpful_deadline", "helpful_tone"} & {*pd.read_csv("plain.csv")}
    (verdict,) = (row["verdict"]["answers"] for row in read_jsonl("p.jsonl"))
    assert [*verdict] == ["briefer", "preferred"]
    assert pd.read_csv("p.csv")["verdict_briefer"][0] == round(verdict["briefer"], 3)
