"""A judge without a client: what it sends and reads is what `judge_all` sends and reads."""

import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import openai
import pytest
from decision_server import DecisionServer
from openai_server import OpenAIServer, some_faults
from page_code import LM, code_under, prepare
from page_code import ROWS as PAGE_ROWS
from processes import run_python
from question_cases import FULL, KINDER, PAIR, PAIRED, ROW, WEIGHED

from dspy_judges.errors import OptionError
from judges import Dimension, Judge, Judgement, Preference, SamplingPlan, load
from judges.scoring import ONE, WEIGHTED

MEAN = SamplingPlan(kind="mean", samples=3, temperature=1.0)
ANSWERS = Dimension(
    name="answers",
    definition="whether the reply answers",
    inputs={"query": "what was asked", "reply": "the reply to judge"},
    anchors={0: "", 1: ""},
    words=("pass", "fail"),
    instruction="Decide: pass or fail.",
)
ROWS: list[dict[str, Any]] = [{"query": f"When is part {i}?", "reply": "Later."} for i in range(6)]
ROWS[2] = {"query": "When?", "reply": None}
ROWS[3] = {"query": 7, "reply": ["By Friday.", "Or later."]}
PAIRS = [{**PAIR, "query": f"When is part {i}?"} for i in range(6)] + [{**PAIR, "reply_b": 1.5}]
CHATTY = Judge.of(replace(ANSWERS, inputs={"input": "before it", "output": "the last turn"}))
TURNS = [{"role": role, "content": f"{role} says"} for role in ("user", "assistant")]
CHATS = [{"messages": TURNS}, {"messages": json.dumps(TURNS * 2)}, {"messages": TURNS[:1]}]
VERDICT = replace(Judge.of(ANSWERS), threshold=0.3)
CHAT = {
    "one": (WEIGHED.with_plan(ONE), ROWS),
    "mean": (WEIGHED.with_plan(MEAN), ROWS),
    "weighted": (WEIGHED.with_plan(WEIGHTED), ROWS),
    "rating alone": (Judge.of(WEIGHED.subject).with_plan(WEIGHTED), ROWS),
    "verdict": (VERDICT.with_plan(ONE), ROWS),
    "verdict by a mean": (VERDICT.with_plan(MEAN), ROWS),
    "conversation": (CHATTY.with_plan(ONE), CHATS),
    "pair": (Judge.of(KINDER).with_plan(ONE), PAIRS),
    "pair with questions": (PAIRED, PAIRS),
    "pair by a mean": (PAIRED.with_plan(MEAN), PAIRS),
}


def post(url: str, body: Mapping[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as response:
        return json.loads(response.read())


def in_an_engine(judge: Judge, row: Mapping[str, object], url: str, key: str) -> dict[str, Any]:
    """The judgement of a row by an engine that posts the request itself."""
    outputs = []
    for order in ("ab", "ba") if judge.kind == "pairwise" else ("ab",):
        if (request := judge.request(row, order)) is None:
            return judge.read(row, ())
        messages = {"messages": request["messages"]} if "messages" in request else {}
        fields = request.get("sampling", request)
        answer = post(url, {"model": "judge-1", **messages, **fields})[key]
        outputs.append(answer if key == "choices" else [answer])
    return judge.read(row, *outputs)


def expected(judge: Judge, judgement: Judgement | Preference) -> dict[str, Any]:
    """What `read` gives, from the judgement of our client."""
    failure, answer = judgement.failure, getattr(judgement, "preferred", None)
    distribution = None
    if isinstance(judgement, Judgement):
        answer, distribution = judgement.rating, judgement.as_json()["distribution"]
    if judge.kind == "verdict" and answer is not None:
        answer = ("fail", "pass")[answer]
    return {
        "score": None if failure else judgement.score,
        "preference" if judge.kind == "pairwise" else judge.kind: answer,
        "answers": judgement.answers,
        "distribution": distribution,
        "rationale": getattr(judgement, "rationale", None)
        or getattr(judgement, "comparison", None),
        "failure": failure,
    }


@pytest.mark.parametrize(("judge", "rows"), CHAT.values(), ids=CHAT)
def test_an_engine_sends_the_clients_requests_and_reads_its_judgements(
    judge: Judge, rows: Sequence[Mapping[str, object]], openai_server: OpenAIServer
) -> None:
    judge = pickle.loads(pickle.dumps(judge.with_model("openai/judge-1")))
    judgements = [expected(judge, each) for each in judge.judge_all(rows)]
    assert any(each["score"] is not None for each in judgements)
    sent = openai_server.n_answered
    openai_server.log.clear()
    url = f"{openai_server.url}/chat/completions"
    assert [in_an_engine(judge, row, url, "choices") for row in rows] == judgements
    assert openai_server.n_answered == sent


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_a_decision_model_is_asked_by_its_state_and_questions(
    form: str, decision_server: DecisionServer
) -> None:
    url = f"{decision_server.url}/{form}"
    for judge, rows in (CHAT["one"], CHAT["verdict"], CHAT["pair with questions"]):
        judge = judge.with_model(f"{form}/judge-1")
        judgements = [expected(judge, each) for each in judge.judge_all(rows)]
        assert [in_an_engine(judge, row, url, "answers") for row in rows] == judgements
        damaged = judge.read(rows[0], ["no JSON"], [{"rating": {"type": "score"}}])
        assert damaged["failure"]


@pytest.mark.parametrize("fault", ["empty", "null", "truncated", "filtered", "refusal", "garbage"])
def test_what_holds_no_judgement_fails_for_the_clients_reason(
    fault: str, openai_server: OpenAIServer
) -> None:
    openai_server.fault = some_faults(1.0, [fault], once=False)
    judge = CHAT["one"][0].with_model("openai/judge-1")
    (judgement,) = judge.judge_all(ROWS[:1], max_tokens=512)
    read = in_an_engine(judge, ROWS[0], f"{openai_server.url}/chat/completions", "choices")
    assert read["failure"] == judgement.failure
    assert read["score"] is None


def test_a_row_that_cannot_be_judged_has_no_request_and_says_why() -> None:
    judge = WEIGHED.with_plan(ONE)
    assert judge.request(ROWS[2]) is None
    nothing = dict.fromkeys(("score", "rating", "answers", "distribution", "rationale"))
    assert judge.read(ROWS[2], ()) == {**nothing, "failure": "no reply"}
    assert judge.read(ROW, ()) == {**nothing, "failure": "no reply"}
    assert judge.request({"query": "When?", "reply": " \u200b"}) is None


def test_the_order_of_a_pair_is_the_callers_and_of_one_output_there_is_one() -> None:
    texts = [PAIRED.request(PAIR, order)["messages"][-1]["content"] for order in ("ab", "ba")]
    assert texts[0].index("Good morning") < texts[0].index("\nFriday.")
    assert texts[1].index("\nFriday.") < texts[1].index("Good morning")
    with pytest.raises(OptionError, match="helpful: unknown order 'ba'; use 'ab'"):
        WEIGHED.request(ROW, "ba")
    one_order = Judge.of(KINDER).with_plan(ONE).read(PAIR, ["[[ ## preferred ## ]]\nA"])
    assert one_order["failure"] == "in the order ba: no reply"


def test_a_reply_may_be_a_text_a_dict_or_an_object() -> None:
    message = {"role": "assistant", "content": FULL}
    choices = [FULL, {"message": message}, SimpleNamespace(message=SimpleNamespace(**message))]
    for outputs in (FULL, *([each] for each in choices)):
        assert WEIGHED.read(ROW, outputs)["score"] == 4.0
    assert WEIGHED.with_plan(MEAN).read(ROW, choices)["distribution"] == {"4": 1.0}
    assert "cannot be read" in WEIGHED.read(ROW, [None])["failure"]
    assert "needs log-probabilities" in WEIGHED.with_plan(WEIGHTED).read(ROW, [FULL])["failure"]


def test_what_is_left_to_the_model_is_left_out_and_thoughts_get_tokens() -> None:
    row, plain = {"summary": "A dog barks."}, {"max_tokens": 512, "temperature": 0.0, "seed": 0}
    requests = [load("fluency", lm=f"openai/{lm}").request(row) for lm in ("judge-1", "qwen3-8b")]
    assert [each and each["sampling"] for each in requests] == [
        plain,
        {**plain, "max_tokens": 4096},
    ]


def test_a_judge_without_a_client_loads_no_event_loop() -> None:
    script = """
import pickle, sys
import judges
judge = pickle.loads(pickle.dumps(judges.load("fluency", lm="openai/judge-1")))
assert judge.request({"summary": "A dog barks."})
assert judge.request({"summary": None}) is None
assert judge.read({"summary": "A dog barks."}, ["4"])["score"] == 4
print(sorted({"asyncio", "aiohttp", "dspy", "pandas"} & sys.modules.keys()))
"""
    assert run_python("-c", script).stdout.strip() == "[]"


def test_the_pages_batch_files_are_answered_by_a_provider_and_read(
    openai_server: OpenAIServer, here: Path
) -> None:
    expected = prepare(openai_server)
    openai_server.fault = lambda number, body: "500" if "Room 3 " in str(body) else None
    writing, reading = code_under("Batch files of your own").split("replies = {}")
    names: dict[str, Any] = {"rows": PAGE_ROWS}
    exec(writing, names)
    with openai.OpenAI() as client:
        file = client.files.create(file=Path("requests.jsonl"), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        batch = client.batches.retrieve(batch.id)
        assert batch.output_file_id is not None
        client.files.content(batch.output_file_id).write_to_file("results.jsonl")
    exec(f"replies = {{}}{reading}", names)
    expected[3] |= {"score": None, "failure": "no reply"}
    assert [(each["score"], each["failure"]) for each in names["judged"]] == [
        (each["score"], each["failure"]) for each in expected
    ]


def test_the_pages_example_reads_what_vllm_gives(
    openai_server: OpenAIServer, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = prepare(openai_server, load("relevance", lm=LM).with_plan(WEIGHTED))
    openai_server.models = ("Qwen/Qwen3-8B",)

    def chat(messages: list[Any], parameters: SimpleNamespace) -> list[Any]:
        fields = {**vars(parameters), "logprobs": True, "top_logprobs": parameters.logprobs}
        url = f"{openai_server.url}/chat/completions"
        bodies = [{"model": "Qwen/Qwen3-8B", "messages": each, **fields} for each in messages]
        return [of_vllm(post(url, body)["choices"][0]) for body in bodies]

    vllm: Any = SimpleNamespace(
        LLM=lambda model: SimpleNamespace(chat=chat), SamplingParams=SimpleNamespace
    )
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    names: dict[str, Any] = {"rows": PAGE_ROWS}
    exec(code_under("vLLM without a server"), names)
    assert [(each["score"], each["failure"]) for each in names["judged"]] == [
        (each["score"], each["failure"]) for each in expected
    ]


def of_vllm(choice: Any) -> SimpleNamespace:
    """A choice as vLLM has it; the id of a token is its place among the alternatives."""
    tops = [token["top_logprobs"] for token in choice["logprobs"]["content"]]
    logprobs = [
        {
            n: SimpleNamespace(logprob=a["logprob"], decoded_token=a["token"])
            for n, a in enumerate(top)
        }
        for top in tops
    ]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    output = SimpleNamespace(
        text=text, token_ids=[0] * len(tops), logprobs=logprobs, finish_reason=reason
    )
    return SimpleNamespace(outputs=[output])
