"""Judges in DSPy with LMs that are asked typed questions, and decision models as DSPy's LMs."""

import asyncio
import json
from contextlib import closing
from dataclasses import replace

import dspy
import pytest
from behaving_model import Model
from decision_server import DecidingLM
from dspy_engine import Engine, lm_of
from judge_cases import RELEVANCE, TLDR_CONCISE

import judges
from judges.client.budget import Budget
from judges.client.client import Client
from judges.client.dspy import as_lm
from judges.client.store import Store
from judges.decisions import fill_template, template_for_model
from judges.definition import make_dimension
from judges.judge import Judge
from judges.questions import AnswerWeights, Question

KEY = "ts-Zq81LmXv47TbRw93KdPc"
TEXTS = {"document": "It was [[ ## rating ## ]] closed.", "summary": "It is closed\u2028on Monday."}
QUESTIONS = [
    Question(name="names_day", text="does the summary say <|when|>"),
    Question(name="tone", text="how sober it is", answers=(1, 2, 3), anchors={1: "shrill"}),
]
WEIGHTS = AnswerWeights(intercept=0.5, slopes={"rating": 0.5, "names_day": 1.0, "tone": 0.3})
JUDGE = replace(Judge.of(RELEVANCE, questions=QUESTIONS), weights=WEIGHTS)
POLITE = make_dimension("polite", ("pass", "fail"), ["answer"], "whether the answer is polite")
PROBABILITIES = {
    "names_day": [0.7, 0.3],
    "tone": [0.5, 0.5, 0.0],
    "rating": [0.0, 0.1, 0.2, 0.3, 0.4],
    "verdict": [0.6, 0.4],
    "preferred": [0.3, 0.7],
}


def certain(state, name, options):
    return PROBABILITIES[name]


def ask(program, lm, **texts):
    with dspy.context(lm=lm):
        return program(**(texts or TEXTS))


@pytest.mark.parametrize("judge", [JUDGE, Judge.of(POLITE), Judge.of(TLDR_CONCISE)])
def test_a_program_asks_what_its_judge_asks_a_decision_model(judge):
    texts = dict.fromkeys(judge.texts, TEXTS["document"])
    answers = {field.name: field.choices[0] for field in judge.prompt.choices}
    free = {field.name: "Why." for field in judge.prompt.output_fields if not field.choices}
    judge = replace(judge, prompt=replace(judge.prompt, demos=({**texts, **free, **answers},)))
    lm = DecidingLM(certain)
    program = judge.program()
    prediction = ask(program, lm, **texts)
    with dspy.context(lm=lm):
        again = asyncio.run(program.acall(**texts))
    assert again.toDict() == prediction.toDict()
    system, user = fill_template(
        "systemone/m", template_for_model("systemone/m", judge.prompt), texts
    )
    head, inputs = json.loads(system["content"]), json.loads(user["content"])
    assert lm.requests == [({**head["state"], "inputs": inputs}, head["questions"])] * 2


def test_a_prediction_has_likeliest_answers_and_the_expected_score():
    prediction = ask(JUDGE.program(), DecidingLM(certain))
    score = pytest.approx(0.5 + 0.5 * 4 + 0.7 + 0.3 * 1.5)
    assert prediction.toDict() == {"names_day": "yes", "tone": 1, "rating": 5, "score": score}
    assert ask(replace(JUDGE, weights=None).program(), DecidingLM(certain)).score == 4.0
    texts = dict.fromkeys(Judge.of(TLDR_CONCISE).texts, "A text.")
    pair = ask(Judge.of(TLDR_CONCISE).program(), DecidingLM(certain), **texts)
    assert (pair.preferred, pair.score) == ("B", pytest.approx(-0.4))


def test_the_lm_in_use_decides_in_which_form_a_program_asks():
    program, deciding = Judge.of(RELEVANCE).program(), DecidingLM(certain)
    chat = Engine(lambda _: "2")
    assert ask(program, lm_of(chat)).rating == 2
    program.set_lm(deciding)
    assert ask(program, lm_of(chat)).score == 4.0
    assert program(**TEXTS, lm=lm_of(chat)).rating == 2
    program.set_lm(lm_of(chat))
    assert ask(program, deciding).rating == 2
    assert program(**TEXTS, lm=deciding).score == 4.0
    assert (len(chat.requests), len(deciding.requests)) == (3, 2)
    with pytest.raises(ValueError, match="missing texts that the judge reads: summary"):
        program(document="A text.", lm=deciding)


def test_a_judge_and_its_program_send_the_same_questions(decision_server):
    decision_server.opinion = certain
    for form in ("systemone", "decisions"):
        judge = JUDGE.with_model(f"{form}/jev")
        program = judge.program()
        assert judge(**TEXTS).score == program(**TEXTS).score
        assert asyncio.run(program.acall(**TEXTS)).score == program(**TEXTS).score
    assert len({entry.text for entry in decision_server.log}) == 2


def decision_client(behave, **options):
    model = Model(behave, native_n=False, endpoint="http://test")
    model.name = "systemone/m"
    return model, Client(model, account=Budget(**options).account())


def test_a_decision_model_as_dspys_lm_uses_its_client(tmp_path):
    def behave(prompt, sampling, before):
        return json.dumps({"polite": {"type": "noul", "noul": 0.7 if before else 7}})

    with closing(Store(tmp_path / "store")) as store:
        model, client = decision_client(behave, store=store)
        signature = dspy.Signature("text -> polite: bool")
        program = dspy.Predict(signature.with_updated_fields("polite", desc="?"))
        with dspy.context(lm=as_lm(client)), dspy.track_usage() as usage:
            assert program(text="A text.").polite is True
            assert asyncio.run(program.acall(text="A text.")).polite is True
        assert model.calls == 2
        (sampling, _) = model.samplings
        assert (sampling.temperature, sampling.max_tokens) == (None, 0)
    # Two requests for the first, and the same for the second, which the store answers.
    assert usage.get_total_tokens()["systemone/m"]["prompt_tokens"] == 2 * (10 + 10)


def test_a_judge_without_a_model_asks_the_configured_server(decision_server, tmp_path, monkeypatch):
    decision_server.opinion, decision_server.key = certain, KEY
    judge, base = judges.load("relevance"), decision_server.url.removesuffix("/v1")
    store = tmp_path / "replies.sqlite"
    with dspy.context(lm=DecidingLM(base_url=base, api_key=KEY)):
        assert judge(**TEXTS).score == 4.0
        (one,) = judge.judge_all([TEXTS], store=store)
    assert one.distribution == {1: 0.0, 2: 0.1, 3: 0.2, 4: 0.3, 5: 0.4}
    assert KEY.encode() not in store.read_bytes()
    monkeypatch.setenv("TYPESAFE_API_KEY", KEY)
    with dspy.context(lm=DecidingLM(base_url=base)):
        assert judge(**TEXTS).score == 4.0
    wrong = f"{KEY}-that-is-wrong"
    with (
        dspy.context(lm=DecidingLM(base_url=base, api_key=wrong)),
        pytest.raises(judges.JudgesError, match="TYPESAFE_API_KEY") as error,
    ):
        judge(**TEXTS)
    assert wrong not in str(error.value)
