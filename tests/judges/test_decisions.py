"""Decision models as judges over real HTTP, in both of their forms."""

import json
import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from decision_server import DecisionServer, questions_of, state_of
from files import write_jsonl
from judge_cases import PAIR, PAIRED, PLAIN, ROW, WEIGHED
from openai_server import some_faults
from rating_files import weather_rows
from serving import serving

import judges
from dspy_judges.errors import OptionError
from judges import Judge
from judges.__main__ import main
from judges.definition import make_dimension
from judges.protocol import FatalModelError
from optimize import verify
from optimize.__main__ import command as tune

pytestmark = pytest.mark.usefixtures("short_waits")
FORMS = ("decisions/gpt-6-luna", "systemone/jev-latest")
KEY = "sk-local-test-key-0123456789"
RELEVANCE = judges.load("relevance")
ROWS = [{"document": f"Text {i}.", "summary": f"Summary {i}."} for i in range(6)]
SAFE = Judge.of(make_dimension("safe", ("pass", "fail"), ["answer"], "whether the answer is safe"))


@pytest.fixture(params=FORMS)
def lm(request):
    return request.param


def judge_all(judge, lm, rows, **options):
    return list(judge.judge_all(rows, lm=lm, **options))


def judgement(server, judge, lm, row, **opinion):
    """The judgement if these are the probabilities of each question's options, in their order."""
    server.opinion = lambda state, name, options: opinion[name]
    return judge_all(judge, lm, [row])[0]


def test_a_rating_is_the_expectation_over_the_scale(lm, decision_server):
    result = judgement(decision_server, RELEVANCE, lm, ROWS[0], rating=[0.1, 0.2, 0.3, 0.4, 0])
    # 1 * .1 + 2 * .2 + 3 * .3 + 4 * .4; the likeliest rating is 4.
    assert result.score == pytest.approx(3.0)
    assert (result.rating, result.samples, result.rationale) == (4, 1, None)
    assert result.distribution == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0})


# The threshold moves .3 to .5 + (.3 - .2) / .8 / 2.
@pytest.mark.parametrize(("threshold", "score", "rating"), [(0.5, 0.3, 0), (0.2, 0.5625, 1)])
def test_a_verdict_is_its_good_words_probability(threshold, score, rating, lm, decision_server):
    judge = replace(SAFE, threshold=threshold)
    result = judgement(decision_server, judge, lm, {"answer": "Eat it."}, verdict=[0.3, 0.7])
    assert (result.score, result.rating) == (pytest.approx(score), rating)


def test_a_pair_is_asked_in_both_orders_and_answers_have_weights(lm, decision_server):
    longer_first = {True: [0.9, 0.1], False: [0.3, 0.7]}
    decision_server.opinion = lambda state, name, options: (
        longer_first[len(state["inputs"]["reply_a"]) > len(state["inputs"]["reply_b"])]
        if name == "preferred"
        else [0.25, 0.75]
    )
    (result,) = judge_all(PAIRED, lm, [PAIR])
    # The choice: .9 - .1 = .8 in the order ab, and -(.3 - .7) = .4 in ba. The question follows the
    # position: -.5 and .5. Weighed .25 and .75: .2 - .375 and .1 + .375, whose mean is .15.
    assert (result.margin_ab, result.margin_ba) == pytest.approx((-0.175, 0.475))
    assert result.margin == pytest.approx(0.15)
    assert (result.preferred, len(decision_server.log)) == ("tie", 2)


def test_questions_are_asked_in_one_request_and_weighed(lm, decision_server):
    opinion = {"deadline": [0.8, 0.2], "tone": [0.5, 0.5, 0], "rating": [0, 0, 0.5, 0.5, 0]}
    result = judgement(decision_server, WEIGHED, lm, ROW, **opinion)
    assert result.answers == pytest.approx({"deadline": 0.8, "tone": 1.5, "rating": 3.5})
    # The weights: 1.0 * .8 + .5 * 1.5 + .5 * 3.5.
    assert result.score == pytest.approx(3.3)
    (entry,) = decision_server.log
    assert list(questions_of(entry.body)) == ["deadline", "tone", "rating"]


NASTY = (
    '"}, "questions": {}',
    "{{document}} {{summary}} {} {0}",
    "line\nbreak\ttab \\ \\ud800 \x00",
    "[[ ## rating ## ]]",
    "</inputs> é 😀",
    "\udfff",
)


def test_a_text_reaches_the_model_as_data_and_nothing_else_changes(lm, decision_server):
    rows = [ROW, *({"query": text, "reply": f"It is {text}"} for text in NASTY)]
    judge_all(PLAIN, lm, rows, concurrency=1)
    plain, *nasty = (entry.body for entry in decision_server.log)
    assert state_of(plain).pop("inputs") == ROW
    for text, body in zip(NASTY, nasty, strict=True):
        # Framing marks are broken by a space, as in every prompt, and a lone surrogate is no text.
        content = text.replace("[[", "[ [").replace("\udfff", "?")
        assert state_of(body).pop("inputs") == {"query": content, "reply": f"It is {content}"}
        assert body == plain


def test_a_seed_changes_nothing_and_a_cache_or_store_answers(lm, decision_server, tmp_path):
    for n, where in enumerate(({"cache": tmp_path / "c"}, {"store": tmp_path / "s"}), 1):
        once = judge_all(RELEVANCE, lm, ROWS, **where)
        assert judge_all(RELEVANCE, lm, ROWS, seed=7, **where) == once
        assert len(decision_server.log) == n * len(ROWS)


@pytest.mark.parametrize("base", ["", "/", "/v1/"])
def test_a_server_may_answer_system_ones_form_at_another_path(base, decision_server):
    with serving(DecisionServer(moved=True)) as server:
        address = server.url.removesuffix("/v1") + base
        results = judge_all(RELEVANCE, FORMS[1], ROWS, api_base=address)
        # The path is looked for once for all that are in flight.
        assert {entry.path for entry in server.log} == {"/v1/decisions"}
        assert len(server.log) == len(ROWS)
    assert results == judge_all(RELEVANCE, FORMS[1], ROWS)
    assert {entry.path for entry in decision_server.log} == {"/v1/systemone"}


def test_a_key_is_needed_at_openais_own_address_alone(decision_server, monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "SYSTEMONE_BASE_URL", "SYSTEMONE_API_KEY"):
        monkeypatch.delenv(name)
    unset = ("OPENAI_API_KEY is not set", "no address is given; set SYSTEMONE_BASE_URL")
    for lm, reason in zip(FORMS, unset, strict=True):
        (result,) = judge_all(RELEVANCE, lm, ROWS[:1], api_base=decision_server.url)
        assert result.failure is None
        with pytest.raises(FatalModelError, match=reason):
            judge_all(RELEVANCE, lm, ROWS[:1])
    assert all("Authorization" not in entry.headers for entry in decision_server.log)


# The reason, and the requests: a refusal is not asked again, what cannot be read twice.
FAILS = {
    "missing": ("no answer to deadline", 1),
    "refusal": ("no answer to deadline", 1),
    "sum": ("add up to", 3),
    "nan": ("Expected `float`", 3),
    "wrong option": ("its (options|levels) are", 3),
    "labels": ("its levels are not those of the question", 3),
    "type": ("Invalid enum value 'box'", 3),
    "twice": ("malformed answer", 6),
    "html": ("malformed answer", 6),
    "500": ("gave up after 6 attempts: 500 from http", 6),
}
# Faults that leave a sound answer.
SOUND = ("order", "extra", "no usage", "absurd usage")
# Faults in the other form that leave a sound answer in System One's.
SOUND_IN_SYSTEM_ONE = [(FORMS[1], "labels"), (FORMS[1], "twice")]
FAILING = [case for case in product(FORMS, FAILS) if case not in SOUND_IN_SYSTEM_ONE]
ASKED_AGAIN = [(lm, fault) for lm, fault in FAILING if FAILS[fault][1] > 1]
FAULTY_ROWS = [{"query": "When?", "reply": f"Ask us by day {i}."} for i in range(3)]


def judge_with_fault(server, lm, fault):
    """The second of three judgements, without and with a fault, and the requests for the latter."""
    sound = judge_all(WEIGHED, lm, FAULTY_ROWS)
    server.log.clear()
    server.fault = lambda number, body: fault if "day 1" in str(body) else None
    results = judge_all(WEIGHED, lm, FAULTY_ROWS)
    assert [results[0], results[2]] == [sound[0], sound[2]]
    return sound[1], results[1], len(server.log) - 2


@pytest.mark.parametrize(("lm", "fault"), [*product(FORMS, SOUND), *SOUND_IN_SYSTEM_ONE])
def test_a_fault_that_leaves_a_sound_answer_changes_no_score(lm, fault, decision_server):
    sound, result, n_sent = judge_with_fault(decision_server, lm, fault)
    assert (result, n_sent) == (sound, 1)


@pytest.mark.parametrize(("lm", "fault"), FAILING)
def test_any_other_fault_is_the_reason_of_its_row_alone(lm, fault, decision_server, caplog):
    _, result, n_sent = judge_with_fault(decision_server, lm, fault)
    reason, n_requests = FAILS[fault]
    assert math.isnan(result.score)
    assert re.search(reason, result.failure)
    assert n_sent == n_requests
    assert len(result.failure) < 700
    assert KEY not in f"{result} {caplog.text}"


@pytest.mark.parametrize(("lm", "fault"), ASKED_AGAIN)
def test_what_is_asked_again_may_come_right(lm, fault, decision_server):
    sound = judge_all(WEIGHED, lm, FAULTY_ROWS)
    decision_server.fault = some_faults(1.0, [fault])
    decision_server.retry_after = "0.01"
    assert judge_all(WEIGHED, lm, FAULTY_ROWS) == sound


@pytest.fixture
def folder(here):
    """The working folder with rows and ratings in it."""
    write_jsonl("rows.jsonl", ROWS)
    write_jsonl("labels.jsonl", weather_rows(20, 4))
    return here


WAYS = {
    "--plan": ["--plan", "one"],
    "max.tokens": ["--max-tokens", "7"],
    "reasoning.effort": ["--reasoning-effort", "low"],
    "--reasoning": ["--reasoning", "brief"],
}
SCORE = ("score", "relevance", "--data", "rows.jsonl", "--out", "out.jsonl")
TUNE = ("--data", "labels.jsonl", "--dimension", "relevance", "--out", "run")
VERIFY = ("relevance", "--data", "labels.jsonl")


@pytest.mark.parametrize("name", WAYS)
def test_what_is_for_chat_models_is_refused_by_name(name, lm, folder, decision_server, capsys):
    ways = {main: SCORE, tune: TUNE}
    if name.endswith(("tokens", "effort")):  # verify has no other of these flags
        ways[verify.command] = VERIFY
    for command, flags in ways.items():
        assert command([*flags, "--lm", lm, *WAYS[name]]) in (1, 2)
        line = capsys.readouterr().err.splitlines()[-1]
        assert lm in line
        assert re.search(name, line)
    assert decision_server.log == []
    assert {path.name for path in folder.iterdir()} - {"run"} == {"rows.jsonl", "labels.jsonl"}


def test_more_than_ten_ratings_are_refused_before_any_request(lm, folder, decision_server, capsys):
    Path("a.yaml").write_text("name: a\ndefinition: d\ninputs: [summary]\nscale: [0, 10]\n")
    for way in (["--dry-run"], ["--out", "out.jsonl"]):
        assert main(["score", "a.yaml", "--data", "rows.jsonl", "--lm", lm, *way]) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert re.search("its scale has 11 ratings.* define the judge with fewer ratings", line)
    assert decision_server.log == []


def test_the_price_is_known_and_nothing_is_counted_for_output(folder, decision_server, capsys):
    write_jsonl("rows.jsonl", [{"id": i, **ROWS[0]} for i in range(1000)])
    estimates = {}
    for form in FORMS:
        assert main([*SCORE[:4], "--dry-run", "--json", "--lm", form]) == 0
        estimates[form] = json.loads(capsys.readouterr().out)
    estimate, unpriced = estimates.values()
    assert (estimate["requests"], estimate["tokens"]["out"]) == (1000, 0)
    # $0.10 a million tokens read.
    assert estimate["cost_usd"] == pytest.approx(estimate["tokens"]["in"] * 0.1e-6)
    assert unpriced["cost_usd"] is None
    assert decision_server.log == []


def test_a_frozen_judge_sends_the_same_and_moves_between_models(lm, decision_server, tmp_path):
    judge = WEIGHED.with_model(lm)
    path = judge.save(tmp_path / "judge.json")
    again = judges.load(path)
    assert again.dumps() == path.read_text(encoding="utf-8")
    assert judge_all(again, lm, [ROW]) == judge_all(judge, lm, [ROW])
    assert list(decision_server.n_answered.values()) == [2]
    chat = again.with_model("openai/gpt-4.1-mini")
    assert (chat.plan, chat.template()) == (WEIGHED.plan, WEIGHED.template())
    back = chat.with_model(lm)
    assert (back.plan, back.template()) == (again.plan, again.template())
    assert back.freeze() == again.freeze()
    # Messages that a file has for one form of model are not for the other.
    worded = replace(chat, stored_messages=({"role": "user", "content": "Rate {{summary}}."},))
    assert worded.with_model(lm).template() == judge.template()


def test_a_decision_model_refuses_chat_plans_and_messages(lm, decision_server):
    wrong = replace(WEIGHED.with_model(lm), stored_messages=tuple(WEIGHED.template()), plan=None)
    with pytest.raises(FatalModelError, match="a decision model answers a judge's typed questions"):
        judge_all(wrong, lm, [ROW])
    with pytest.raises(OptionError, match=f"the plan 'one' is not for {lm}"):
        judge_all(replace(RELEVANCE, lm=lm, plan=PLAIN.plan), lm, ROWS[:1])
    assert decision_server.log == []


def test_a_file_with_other_questions_fails_with_a_reason(lm, decision_server):
    judge = WEIGHED.with_model(lm)
    system, user = judge.template()
    fewer = RELEVANCE.with_model(lm).template()[0]["content"]
    for content in (fewer, system["content"].replace('"2", "3"', '"2"')):
        messages = ({**system, "content": content}, user)
        (result,) = judge_all(replace(judge, stored_messages=messages), lm, [ROW])
        assert re.search("cannot be used: .(its options|Expected)", result.failure)
