"""A judge without a client: what it sends and reads is what `judge_all` sends and reads."""

import json
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace
from urllib.request import Request, urlopen

import pytest
from judge_cases import FULL, KINDER, PAIR, PAIRED, ROW, WEIGHED
from page_code import LM, code_under, prepare
from page_code import ROWS as PAGE_ROWS
from processes import run_python

from dspy_judges.errors import OptionError
from judges import Judge, SamplingPlan, load
from judges.definition import make_dimension
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN

MEAN = SamplingPlan(kind="mean", samples=3, temperature=1.0)
ANSWERS = make_dimension("answers", ("pass", "fail"), ["query", "reply"], "whether it answers")
ROWS = [{"query": f"When is part {i}?", "reply": "Later."} for i in range(6)]
ROWS[2] = {"query": "When?", "reply": None}
ROWS[3] = {"query": 7, "reply": ["By Friday.", "Or later."]}
PAIRS = [{**PAIR, "query": f"When is part {i}?"} for i in range(6)] + [{**PAIR, "reply_b": 1.5}]
CHATTY = Judge.of(replace(ANSWERS, inputs={"input": "before it", "output": "the last turn"}))
TURNS = [{"role": role, "content": f"{role} says"} for role in ("user", "assistant")]
CHATS = [{"messages": TURNS}, {"messages": json.dumps(TURNS * 2)}, {"messages": TURNS[:1]}]
VERDICT = replace(Judge.of(ANSWERS), threshold=0.3)
CHAT = {
    "one": (WEIGHED.with_plan(ONE_REPLY_PLAN), ROWS),
    "mean": (WEIGHED.with_plan(MEAN), ROWS),
    "weighted": (WEIGHED.with_plan(WEIGHTED_PLAN), ROWS),
    "rating alone": (Judge.of(WEIGHED.subject).with_plan(WEIGHTED_PLAN), ROWS),
    "verdict": (VERDICT.with_plan(ONE_REPLY_PLAN), ROWS),
    "verdict by a mean": (VERDICT.with_plan(MEAN), ROWS),
    "conversation": (CHATTY.with_plan(ONE_REPLY_PLAN), CHATS),
    "pair": (Judge.of(KINDER).with_plan(ONE_REPLY_PLAN), PAIRS),
    "pair with questions": (PAIRED, PAIRS),
    "pair by a mean": (PAIRED.with_plan(MEAN), PAIRS),
}


def post(url, body):
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as response:
        return json.loads(response.read())


def in_an_engine(judge, row, url, key):
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


def fields_of(judge, judgement):
    """What `read` gives, from the judgement of our client."""
    pairwise, distribution = judge.kind == "pairwise", getattr(judgement, "distribution", None)
    answer = judgement.preferred if pairwise else judgement.rating
    if judge.kind == "verdict" and answer is not None:
        answer = ("fail", "pass")[answer]
    return {
        "score": None if judgement.failure else judgement.score,
        "preference" if pairwise else judge.kind: answer,
        "answers": judgement.answers,
        "distribution": distribution and {str(r): p for r, p in distribution.items()},
        "rationale": judgement.comparison if pairwise else judgement.rationale,
        "failure": judgement.failure,
    }


@pytest.mark.parametrize(("judge", "rows"), CHAT.values(), ids=CHAT)
def test_an_engine_sends_the_clients_requests_and_reads_its_judgements(judge, rows, openai_server):
    judge = pickle.loads(pickle.dumps(judge.with_model("openai/judge-1")))
    judgements = [fields_of(judge, each) for each in judge.judge_all(rows)]
    assert any(each["score"] is not None for each in judgements)
    requests = openai_server.n_answered
    openai_server.log.clear()
    url = f"{openai_server.url}/chat/completions"
    assert [in_an_engine(judge, row, url, "choices") for row in rows] == judgements
    assert openai_server.n_answered == requests


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_a_decision_model_is_asked_by_its_state_and_questions(form, decision_server):
    url = f"{decision_server.url}/{form}"
    for judge, rows in (CHAT["one"], CHAT["verdict"], CHAT["pair with questions"]):
        judge = judge.with_model(f"{form}/judge-1")
        judgements = [fields_of(judge, each) for each in judge.judge_all(rows)]
        assert [in_an_engine(judge, row, url, "answers") for row in rows] == judgements
        judgement = judge.read(rows[0], ["no JSON"], [{"rating": {"type": "score"}}])
        assert judgement["failure"]


def test_a_row_that_cannot_be_judged_has_no_request():
    judge = WEIGHED.with_plan(ONE_REPLY_PLAN)
    assert judge.request(ROWS[2]) is None
    nothing = dict.fromkeys(("score", "rating", "answers", "distribution", "rationale"))
    assert judge.read(ROWS[2], ()) == {**nothing, "failure": "no reply"}
    assert judge.read(ROW, ()) == {**nothing, "failure": "no reply"}
    assert judge.request({"query": "When?", "reply": " \u200b"}) is None


def test_the_caller_chooses_the_order_of_a_pair():
    texts = [PAIRED.request(PAIR, order)["messages"][-1]["content"] for order in ("ab", "ba")]
    assert texts[0].index("Good morning") < texts[0].index("\nFriday.")
    assert texts[1].index("\nFriday.") < texts[1].index("Good morning")
    with pytest.raises(OptionError, match="helpful: unknown order 'ba'; use 'ab'"):
        WEIGHED.request(ROW, "ba")
    one_order = Judge.of(KINDER).with_plan(ONE_REPLY_PLAN).read(PAIR, ["[[ ## preferred ## ]]\nA"])
    assert one_order["failure"] == "in the order ba: no reply"


def test_a_reply_may_be_a_text_a_dict_or_an_object():
    message = {"role": "assistant", "content": FULL}
    choices = [FULL, {"message": message}, SimpleNamespace(message=SimpleNamespace(**message))]
    for outputs in (FULL, *([each] for each in choices)):
        assert WEIGHED.read(ROW, outputs)["score"] == 4.0
    assert WEIGHED.with_plan(MEAN).read(ROW, choices)["distribution"] == {"4": 1.0}
    assert "cannot be read" in WEIGHED.read(ROW, [None])["failure"]
    assert (
        "needs log-probabilities" in WEIGHED.with_plan(WEIGHTED_PLAN).read(ROW, [FULL])["failure"]
    )


@pytest.mark.parametrize(("lm", "max_tokens"), [("judge-1", 512), ("qwen3-8b", 4096)])
def test_defaults_are_left_out_and_reasoning_models_get_more_tokens(lm, max_tokens):
    request = load("fluency", lm=f"openai/{lm}").request({"summary": "A dog barks."})
    assert request["sampling"] == {"max_tokens": max_tokens, "temperature": 0.0, "seed": 0}


def test_a_judge_without_a_client_loads_no_event_loop():
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


def outcomes(judgements):
    return [(each["score"], each["failure"]) for each in judgements]


def test_the_pages_example_reads_what_vllm_gives(openai_server, here, monkeypatch):
    expected = prepare(openai_server, load("relevance", lm=LM).with_plan(WEIGHTED_PLAN))
    openai_server.models = ("Qwen/Qwen3-8B",)

    def chat(messages, parameters):
        fields = {**vars(parameters), "logprobs": True, "top_logprobs": parameters.logprobs}
        url = f"{openai_server.url}/chat/completions"
        bodies = [{"model": "Qwen/Qwen3-8B", "messages": each, **fields} for each in messages]
        return [of_vllm(post(url, body)["choices"][0]) for body in bodies]

    llm = SimpleNamespace(chat=chat)
    vllm = SimpleNamespace(LLM=lambda model: llm, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    names = {"rows": PAGE_ROWS}
    exec(code_under("vLLM without a server"), names)
    assert outcomes(names["judged"]) == outcomes(expected)


def of_vllm(choice):
    """A choice as vLLM has it; the id of a token is its place among the alternatives."""
    tops = [token["top_logprobs"] for token in choice["logprobs"]["content"]]

    def alternative(a):
        return SimpleNamespace(logprob=a["logprob"], decoded_token=a["token"])

    output = SimpleNamespace(
        text=choice["message"]["content"],
        token_ids=[0] * len(tops),
        logprobs=[dict(enumerate(map(alternative, top))) for top in tops],
        finish_reason=choice["finish_reason"],
    )
    return SimpleNamespace(outputs=[output])
