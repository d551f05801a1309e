"""Decision models as judges over real HTTP, in both of their forms."""

import json
import math
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from decision_server import SPOILS, TEXTS, DecisionServer, Opinion, questions_of, state_of
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl
from openai_replies import error
from openai_server import Serving, some_faults
from question_cases import ASKED, PAIR, PAIRED, ROW, WEIGHED
from rating_files import weather_rows

import judges
from dspy_judges.errors import OptionError
from judges import Judge
from judges.__main__ import main
from judges.client import open_model
from judges.client.prices import find_price
from judges.loading import dimension_on
from judges.protocol import FatalModelError
from optimize import compare, verify
from optimize.__main__ import command as tune

FORMS = ("decisions/gpt-6-luna", "systemone/jev-latest")
KEY = "sk-local-test-key-0123456789"
RELEVANCE = judges.load("relevance")
ROWS = [{"document": f"Text {i}.", "summary": f"Summary {i}."} for i in range(6)]
SAFE = Judge.of(dimension_on("safe", ("pass", "fail"), ["answer"], "whether the answer is safe"))
Captured = pytest.CaptureFixture[str]
Case = pytest.mark.parametrize
both_forms = Case("lm", FORMS)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)
    monkeypatch.setattr("judges.client.client.LONGEST_WAIT", 0.01)


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.client.open.TIMEOUT", 0.5)


def believing(**probabilities: Sequence[float]) -> Opinion:
    """An opinion by the question alone, over its options in their order."""
    return lambda state, name, options: probabilities[name]


def judged(judge: Judge, lm: str, rows: Sequence[Mapping[str, str]], **options: Any) -> list[Any]:
    return list(judge.judge_all(rows, lm=lm, **options))


# What comes of probabilities.


@both_forms
def test_a_rating_is_the_expectation_over_the_scale(
    lm: str, decision_server: DecisionServer
) -> None:
    decision_server.opinion = believing(rating=[0.1, 0.2, 0.3, 0.4, 0])
    (said,) = judged(RELEVANCE, lm, ROWS[:1])
    # 1 * .1 + 2 * .2 + 3 * .3 + 4 * .4; the likeliest rating is 4.
    assert said.score == pytest.approx(3.0)
    assert (said.rating, said.samples, said.rationale) == (4, 1, None)
    assert said.distribution == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0})


@both_forms
def test_a_verdict_is_the_probability_of_the_good_word(
    lm: str, decision_server: DecisionServer
) -> None:
    decision_server.opinion = believing(verdict=[0.3, 0.7])
    (said,) = judged(SAFE, lm, [{"answer": "Eat it."}])
    assert (said.score, said.rating) == (pytest.approx(0.3), 0)
    # The threshold moves .3 to .5 + (.3 - .2) / .8 / 2.
    (said,) = judged(replace(SAFE, threshold=0.2), lm, [{"answer": "Eat it."}])
    assert (said.score, said.rating) == (pytest.approx(0.5625), 1)


@both_forms
def test_a_pair_is_asked_in_both_orders_and_answers_have_weights(
    lm: str, decision_server: DecisionServer
) -> None:
    longer_first = {True: [0.9, 0.1], False: [0.3, 0.7]}
    decision_server.opinion = lambda state, name, options: (
        longer_first[len(state["inputs"]["reply_a"]) > len(state["inputs"]["reply_b"])]
        if name == "preferred"
        else [0.25, 0.75]
    )
    (said,) = judged(PAIRED, lm, [PAIR])
    # The choice: .9 - .1 = .8 in the order ab, and -(.3 - .7) = .4 in ba. The question follows the
    # position: -.5 and .5. Weighed .25 and .75: .2 - .375 and .1 + .375, whose mean is .15.
    assert (said.margin_ab, said.margin_ba) == pytest.approx((-0.175, 0.475))
    assert said.margin == pytest.approx(0.15)
    assert (said.preferred, len(decision_server.log)) == ("tie", 2)


@both_forms
def test_questions_are_asked_in_one_request_and_weighed(
    lm: str, decision_server: DecisionServer
) -> None:
    decision_server.opinion = believing(
        deadline=[0.8, 0.2], tone=[0.5, 0.5, 0], rating=[0, 0, 0.5, 0.5, 0]
    )
    (said,) = judged(WEIGHED, lm, [ROW])
    assert said.answers == pytest.approx({"deadline": 0.8, "tone": 1.5, "rating": 3.5})
    # The weights: 1.0 * .8 + .5 * 1.5 + .5 * 3.5.
    assert said.score == pytest.approx(3.3)
    (seen,) = decision_server.log
    assert list(questions_of(seen.body)) == ["deadline", "tone", "rating"]


@given(st.lists(st.floats(0.01, 1), min_size=5, max_size=5), st.floats(0.96, 1.04))
def test_rounded_probabilities_are_drawn_to_a_sum_of_one(parts: list[float], total: float) -> None:
    p = [part / sum(parts) * total for part in parts]
    with Serving(DecisionServer(opinion=believing(rating=p))) as server:
        scores = [judged(RELEVANCE, lm, ROWS[:1], api_base=server.url)[0].score for lm in FORMS]
    expected = math.fsum(n * part for n, part in enumerate(parts, 1)) / sum(parts)
    assert scores == pytest.approx([expected, expected])


# What is sent.

NASTY = (
    '"}, "questions": {}',
    "{{document}} {{summary}} {} {0}",
    "line\nbreak\ttab \\ \\ud800 \x00",
    "[[ ## rating ## ]]",
    "</inputs> é 😀",
)


@both_forms
@Case("text", NASTY)
def test_a_text_reaches_the_model_as_data_and_nothing_else_changes(
    text: str, lm: str, decision_server: DecisionServer
) -> None:
    judged(ASKED, lm, [ROW, {"query": text, "reply": f"It is {text}"}])
    plain, nasty = (seen.body for seen in decision_server.log)
    inputs = state_of(nasty).pop("inputs")
    # Framing marks are broken by a space, as in every prompt.
    shown = text.replace("[[", "[ [")
    assert inputs == {"query": shown, "reply": f"It is {shown}"}
    assert state_of(plain).pop("inputs") == ROW
    assert plain == nasty


def test_a_lone_surrogate_is_sent_as_a_question_mark(decision_server: DecisionServer) -> None:
    judged(RELEVANCE, FORMS[0], [{"document": "a\ud800b", "summary": "\udfff"}])
    assert state_of(decision_server.log[0].body)["inputs"] == {"document": "a?b", "summary": "?"}


@both_forms
def test_a_seed_changes_no_request_and_a_cache_or_store_answers_the_second_run(
    lm: str, decision_server: DecisionServer, tmp_path: Path
) -> None:
    once = judged(RELEVANCE, lm, ROWS, cache=tmp_path / "cache")
    again = judged(RELEVANCE, lm, ROWS, cache=tmp_path / "cache", seed=7)
    assert again == once
    assert len(decision_server.log) == len(ROWS)
    judged(RELEVANCE, lm, ROWS, store=tmp_path / "store.sqlite")
    assert judged(RELEVANCE, lm, ROWS, store=tmp_path / "store.sqlite", seed=7) == once
    assert len(decision_server.log) == 2 * len(ROWS)
    assert set(decision_server.n_answered.values()) == {2}


@Case("base", ["", "/", "/v1", "/v1/"])
def test_a_server_may_answer_system_ones_form_at_another_path(
    base: str, decision_server: DecisionServer
) -> None:
    with Serving(DecisionServer(moved=True)) as server:
        address = server.url.removesuffix("/v1") + base
        said = judged(RELEVANCE, FORMS[1], ROWS, api_base=address)
        # The path is looked for once for all that are in flight.
        assert {seen.path for seen in server.log} == {"/v1/decisions"}
        assert len(server.log) == len(ROWS)
    assert said == judged(RELEVANCE, FORMS[1], ROWS)
    assert {seen.path for seen in decision_server.log} == {"/v1/systemone"}


@both_forms
def test_a_model_that_the_server_does_not_know_is_one_line_with_its_reason(
    lm: str, decision_server: DecisionServer
) -> None:
    decision_server.habit = lambda number, body: error(404, "No model `jev` here.", "not_found")
    with pytest.raises(FatalModelError, match=r"404 from .* No model `jev` here"):
        judged(RELEVANCE, lm, ROWS[:1])
    assert len(decision_server.log) == 1


def test_a_key_is_needed_at_openais_own_address_alone(
    decision_server: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "SYSTEMONE_BASE_URL", "SYSTEMONE_API_KEY"):
        monkeypatch.delenv(name)
    for lm in FORMS:
        said = judged(RELEVANCE, lm, ROWS[:1], api_base=decision_server.url)
        assert said[0].failure is None
    assert all("Authorization" not in seen.headers for seen in decision_server.log)
    with pytest.raises(FatalModelError, match="OPENAI_API_KEY is not set"):
        judged(RELEVANCE, FORMS[0], ROWS[:1])
    with pytest.raises(FatalModelError, match="no address is given; set SYSTEMONE_BASE_URL"):
        judged(RELEVANCE, FORMS[1], ROWS[:1])


# Faults.

REASONS = {
    "missing": "no answer to deadline",
    "refusal": "no answer to deadline",
    "sum": "add up to",
    "nan": "Expected `float`",
    "negative": "Expected `float`",
    "wrong option": "its (options|levels) are",
    "missing option": "its options are",
    "many options": "its (options|levels) are",
    "labels": "its levels are not those of the question",
    "type": "Invalid enum value 'box'",
    "twice": "Expected `object`, got `array`",
    "huge": "an answer of more than 8,388,608 bytes",
    "echo": "its (options|levels) are",
    **dict.fromkeys(TEXTS, "malformed answer"),
    "429": "gave up after .* 429 from http",
    "500": "gave up after 6 attempts: 500 from http",
    "drop": "gave up after 6 attempts: connection to",
    "hang": "gave up after 6 attempts: no answer within 0.5 s",
}
# Faults that leave a sound answer in a form.
SOUND = {"order", "extra", "no usage", "absurd usage"}
SOUND_IN = {FORMS[0]: SOUND, FORMS[1]: SOUND | {"labels", "twice"}}
# The most requests for a judgement: refusals are not asked again, what cannot be read is, twice.
REQUESTS = {"missing": 1, "refusal": 1, "429": 25} | dict.fromkeys(
    ("huge", *TEXTS, "500", "drop", "hang"), 6
)


@both_forms
@pytest.mark.usefixtures("short_timeout")
@Case("fault", [*SPOILS, *sorted(REASONS.keys() - SPOILS.keys())])
def test_every_fault_ends_in_a_score_or_a_reason_and_neighbours_are_scored(
    fault: str, lm: str, decision_server: DecisionServer, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [f"Ask us by day {i}." for i in range(3)]
    rows = [{"query": "When?", "reply": reply} for reply in replies]
    sound = judged(WEIGHED, lm, rows)
    decision_server.log.clear()
    decision_server.fault = lambda number, body: fault if replies[1] in str(body) else None
    said = judged(WEIGHED, lm, rows)
    n_sent = len(decision_server.log) - 2
    assert [said[0], said[2]] == [sound[0], sound[2]]
    if fault in SOUND_IN[lm]:
        assert (said[1], n_sent) == (sound[1], 1)
        return
    assert math.isnan(said[1].score)
    assert re.search(REASONS[fault], said[1].failure)
    assert n_sent == REQUESTS.get(fault, 3)
    assert len(said[1].failure) < 700
    assert KEY not in f"{said} {caplog.text}"


@both_forms
@pytest.mark.usefixtures("short_timeout")
def test_what_is_asked_again_may_come_right(lm: str, decision_server: DecisionServer) -> None:
    kinds = ("429", "500", "drop", "hang", "sum", "nan", "type", "html", "nested", "missing option")
    rows = [{"document": f"Text {i}.", "summary": "Short."} for i in range(40)]
    sound = judged(RELEVANCE, lm, rows)
    decision_server.fault = some_faults(0.5, kinds)
    decision_server.retry_after = "0.01"
    assert judged(RELEVANCE, lm, rows) == sound
    assert len({seen.done for seen in decision_server.log} & {*kinds}) > 5


@both_forms
def test_a_wrong_key_ends_the_run_with_one_line(lm: str, decision_server: DecisionServer) -> None:
    decision_server.key = "another"
    with pytest.raises(FatalModelError, match=r"401 from .* was not accepted") as caught:
        judged(RELEVANCE, lm, ROWS)
    assert KEY not in str(caught.value)


def test_a_text_that_the_endpoint_refuses_fails_its_row_alone(
    decision_server: DecisionServer,
) -> None:
    long = {"document": "x" * 300_000, "summary": "y"}
    first, refused, last = judged(RELEVANCE, FORMS[0], [ROWS[0], long, ROWS[1]])
    assert first.failure is last.failure is None
    assert "400 from" in refused.failure
    assert "bytes of JSON" in refused.failure
    assert len(decision_server.invalid) == 1
    decision_server.invalid.clear()


# Limits.


@pytest.mark.usefixtures("short_timeout")
@Case(("lm", "limit"), [(FORMS[0], {"max_calls": 30}), (FORMS[1], {"max_cost": 0.0012})])
def test_limits_hold_by_the_servers_own_bill_over_faults(
    limit: dict[str, Any], lm: str, decision_server: DecisionServer, tmp_path: Path
) -> None:
    decision_server.fault = some_faults(0.4, ("429", "500", "drop", "hang", "sum", "html"))
    rows = [{"document": f"Text {i}.", "summary": "Short."} for i in range(60)]
    options = {"store": tmp_path / "store.sqlite", "price": (0.1, 0.0), "concurrency": 8, **limit}
    for _ in range(3):  # each start has what the last one left
        said = judged(RELEVANCE, lm, rows, **options)
        assert "not asked: " in said[-1].failure
    price = find_price(FORMS[0])
    assert price is not None
    spent = decision_server.dollars(price)
    assert len(decision_server.log) <= limit.get("max_calls", 60)
    assert spent <= limit.get("max_cost", 1)
    assert sum(decision_server.n_answered.values()) >= 8
    assert set(decision_server.n_answered.values()) == {1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with rows and ratings in it."""
    monkeypatch.chdir(tmp_path)
    write_jsonl("rows.jsonl", [{"id": i, **row} for i, row in enumerate(ROWS * 5)])
    write_jsonl("labels.jsonl", weather_rows(20, 4))
    return tmp_path


# The command line.

WAYS = {
    "--plan": ["--plan", "one"],
    "--samples": ["--plan", "mean", "--samples", "3"],
    "--temperature": ["--temperature", "1"],
    "max.tokens": ["--max-tokens", "7"],
    "reasoning.effort": ["--reasoning-effort", "low"],
    "--reasoning": ["--reasoning", "brief"],
}
SCORE = ("score", "relevance", "--data", "rows.jsonl", "--out", "out.jsonl")
TUNE = ("--data", "labels.jsonl", "--dimension", "relevance", "--out", "run")
VERIFY = ("relevance", "--data", "labels.jsonl")


@both_forms
@Case("name", WAYS)
def test_what_is_not_for_a_decision_model_is_refused_by_name(
    name: str, lm: str, folder: Path, decision_server: DecisionServer, capsys: Captured
) -> None:
    ways = [(main, SCORE), (tune, TUNE)]
    if name.endswith(("tokens", "effort")):  # verify has no other of these flags
        ways.append((verify.command, VERIFY))
    for command, flags in ways:
        assert command([*flags, "--lm", lm, *WAYS[name]]) in (1, 2)
        said = capsys.readouterr().err.splitlines()[-1]
        wanted = "--plan" if name == "--samples" and command is tune else name
        assert re.search(wanted, said)
        assert lm in said
    assert decision_server.log == []
    assert {path.name for path in folder.iterdir()} - {"run"} == {"rows.jsonl", "labels.jsonl"}


@both_forms
def test_a_scale_of_more_than_ten_ratings_is_refused_before_anything_is_sent(
    lm: str, folder: Path, decision_server: DecisionServer, capsys: Captured
) -> None:
    Path("charm.yaml").write_text(
        "name: charm\ndefinition: how charming it is\ninputs: {text: the text}\nscale: [0, 10]\n"
        "instruction: Judge the charm.\n"
    )
    write_jsonl("texts.jsonl", [{"text": "Hello."}])
    flags = ["score", "charm.yaml", "--data", "texts.jsonl", "--lm", lm]
    for more in (["--dry-run"], ["--out", "out.jsonl"]):
        assert main([*flags, *more]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert "its scale has 11 ratings" in said
        assert "define the judge with fewer ratings (`scale: [1, 5]`" in said
    assert decision_server.log == []


def test_the_price_is_known_and_nothing_is_counted_for_output(
    folder: Path, decision_server: DecisionServer, capsys: Captured
) -> None:
    write_jsonl("rows.jsonl", [{"id": i, **ROWS[0]} for i in range(1000)])
    flags = ["score", "relevance", "--data", "rows.jsonl", "--dry-run", "--json", "--lm"]
    assert main([*flags, FORMS[0]]) == 0
    expected = json.loads(capsys.readouterr().out)
    tokens = expected["tokens"]
    assert (expected["requests"], tokens["out"]) == (1000, 0)
    # $0.10 a million tokens read.
    assert expected["cost_usd"] == pytest.approx(tokens["in"] * 0.1e-6)
    assert main([*flags, FORMS[1]]) == 0
    assert json.loads(capsys.readouterr().out)["cost_usd"] is None
    assert decision_server.log == []


@both_forms
def test_verify_and_compare_ask_a_decision_model_by_name(
    lm: str, folder: Path, decision_server: DecisionServer, capsys: Captured
) -> None:
    # People's ratings are 1 + (system + document) mod 3: a server that knows them is always right.
    def knows(state: Any, name: str, options: Sequence[str]) -> list[float]:
        number = int(state["inputs"]["document"].split("number ")[1].split(",")[0])
        system = int(state["inputs"]["summary"].split("Reply ")[1].split(".")[0])
        return [float(n == (system + number) % 3) for n in range(len(options))]

    decision_server.opinion = knows
    labels = ["--data", "labels.jsonl", "--json"]
    verify.command(["relevance", "--lm", lm, *labels])
    result = json.loads(capsys.readouterr().out)
    assert result["correlations"][0]["value"] == pytest.approx(1.0)
    assert compare.command(["relevance", f"relevance@{lm}", *labels]) == 0
    assert f"relevance@{lm}" in capsys.readouterr().out
    assert len(decision_server.log) == 2 * 80


@both_forms
def test_a_decision_model_has_no_chat_request_and_no_batch(
    lm: str, folder: Path, decision_server: DecisionServer, capsys: Captured
) -> None:
    assert main(["export", "relevance", "--lm", lm]) == 2
    assert f"{lm} does not read chat requests: name a chat model" in capsys.readouterr().err
    assert main([*SCORE, "--lm", lm, "--batch-api", "submit"]) in (1, 2)
    assert "a batch needs an OpenAI-compatible model" in capsys.readouterr().err
    assert decision_server.log == []


# Frozen judges.


@both_forms
def test_a_frozen_judge_sends_the_same_bytes_and_moves_between_models(
    lm: str, decision_server: DecisionServer, tmp_path: Path
) -> None:
    judge = WEIGHED.with_model(lm)
    path = judge.save(tmp_path / "judge.json")
    again = judges.load(path)
    assert again.dumps() == path.read_text(encoding="utf-8")
    assert judged(again, lm, [ROW]) == judged(judge, lm, [ROW])
    first, second = decision_server.log
    assert first.asked == second.asked
    chat = again.with_model("openai/gpt-4.1-mini")
    assert (chat.plan, chat.template()) == (WEIGHED.plan, WEIGHED.template())
    back = chat.with_model(lm)
    assert (back.plan, back.template()) == (again.plan, again.template())
    assert back.freeze() == again.freeze()


def test_a_model_at_the_same_address_as_a_chat_model_has_another_name() -> None:
    forms, base = ("openai", "decisions", "systemone"), "http://127.0.0.1:9/v1"
    names = {open_model(f"{form}/gpt-6-luna", api_base=base).name for form in forms}
    assert len(names) == 3


@both_forms
def test_messages_of_another_form_end_in_one_line(lm: str, decision_server: DecisionServer) -> None:
    wrong = replace(WEIGHED.with_model(lm), stored_messages=tuple(WEIGHED.template()), plan=None)
    with pytest.raises(FatalModelError, match="a decision model answers a judge's questions"):
        judged(wrong, lm, [ROW])
    assert decision_server.log == []


@both_forms
def test_a_file_with_other_questions_than_its_judge_fails_with_a_reason(
    lm: str, decision_server: DecisionServer
) -> None:
    judge = WEIGHED.with_model(lm)
    system, user = judge.template()
    fewer = RELEVANCE.with_model(lm).template()[0]["content"]
    for content in (fewer, system["content"].replace('"2", "3"', '"2"')):
        stored = ({**system, "content": content}, user)
        (said,) = judged(replace(judge, stored_messages=stored), lm, [ROW])
        assert "cannot be used: it" in said.failure


# What the local server itself refuses.

SOUND_BODIES = {
    "systemone": {
        "model": "m",
        "state": {"inputs": {}},
        "questions": {"q": {"type": "noul", "instructions": "Is it?"}},
    },
    "decisions": {
        "model": "m",
        "input": [{"role": "user", "content": [{"type": "input_json", "data": {}}]}],
        "questions": [{"type": "predicate", "name": "q", "instructions": "Is it?"}],
    },
}


def other(form: str, **changes: Any) -> dict[str, Any]:
    """A sound body with another question, or with changes at its top."""
    body = json.loads(json.dumps(SOUND_BODIES[form]))
    if (question := changes.pop("question", None)) is not None:
        body["questions"] = {"q": question} if form == "systemone" else [question]
    if (data := changes.pop("data", None)) is not None:
        body["input"][0]["content"][0]["data"] = data
    return {**body, **changes}


def scale(n: int, form: str) -> dict[str, Any]:
    levels = [str(level) for level in range(n)]
    listed = {"criteria": levels} if form == "systemone" else {}
    listed |= {"levels": [{"label": level} for level in levels]} if form == "decisions" else {}
    return {"type": "score", "instructions": "How much?", **listed}


ASK = {"type": "predicate", "name": "q", "instructions": "Is it?"}
ONE_CHOICE = {"type": "choice", "instructions": "Which?"}
NESTED: Any = {}
for _ in range(33):
    NESTED = {"x": NESTED}
WRONG_BODIES = [
    *(
        other(form, **{name: value})
        for form in SOUND_BODIES
        for name, value in {"messages": [], "seed": 1, "max_tokens": 1}.items()
    ),
    *(other(form, question=scale(n, form)) for form in SOUND_BODIES for n in (1, 11)),
    other("systemone", questions={}),
    other("systemone", question={"type": "noul"}),
    other("systemone", question={**ONE_CHOICE, "criteria": {"A": None}}),
    other("decisions", questions=[ASK, ASK]),
    other("decisions", question={**ASK, "criteria": {}}),
    other("decisions", question={**ONE_CHOICE, "choices": [{"value": "A"}, {"value": "A"}]}),
    other("decisions", data={"x": "y" * 2**18}),
    other("decisions", data={"x": [0] * 10_000}),
    other("decisions", data=NESTED),
]


def posted(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    path = "decisions" if "input" in body else "systemone"
    request = urllib.request.Request(f"{url}/{path}", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_the_local_server_refuses_what_a_forms_documentation_does_not_allow() -> None:
    with Serving(DecisionServer()) as server:
        for body in SOUND_BODIES.values():
            assert posted(server.url, body)[0] == 200
        for body in WRONG_BODIES:
            status, answer = posted(server.url, body)
            if "input" in body:
                assert (status, set(answer)) == (400, {"error"}), body
                assert answer["error"]["message"]
            else:
                assert (status, set(answer["detail"][0])) == (422, {"loc", "msg", "type"}), body


def test_a_plan_for_chat_models_is_refused_in_python(decision_server: DecisionServer) -> None:
    with pytest.raises(OptionError, match="the plan 'one' is not for decisions/gpt-6-luna"):
        judged(replace(RELEVANCE, lm=FORMS[0], plan=ASKED.plan), FORMS[0], ROWS[:1])
