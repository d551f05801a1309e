"""DSPy's models as ours, the configured LM with all its arguments; and our client as DSPy's LM."""

import asyncio
import errno
from contextlib import closing

import dspy
import pandas as pd
import pytest
from behaving_model import Model
from dspy import lm15
from dspy.utils.dummies import DummyLM
from judge_cases import RELEVANCE
from openai_replies import completion, error

import judges
from judges.client.budget import Budget
from judges.client.client import Client
from judges.client.dspy import DspyModel, as_lm, open_dspy
from judges.client.store import Store
from judges.frames import FailedJudgementWarning
from judges.modules import RatingJudge
from judges.protocol import Sampling, ThrottledError, TransientError, UnreachableError

KEY = "sk-Zq81LmXv47TbRw93KdPc"
GATE = "Gx47QpLw92VnRt61MzKd"
PROMPT = [
    {"role": "system", "content": "You rate."},
    {"role": "user", "content": "Rate it from 1 to 5."},
]
ROWS = pd.DataFrame({"summary": [f"Summary number {number}." for number in range(8)]})


@pytest.fixture
def server(openai_server):
    openai_server.key = KEY
    return openai_server


def lm_of(server, **arguments):
    return dspy.LM("openai/judge-1", api_key=KEY, api_base=server.url, **arguments)


def test_key_address_limits_and_arguments_go_with_every_request(server):
    arguments = {"temperature": 0.3, "max_tokens": 77, "top_p": 0.9, "presence_penalty": 0.5}
    with dspy.context(lm=lm_of(server, **arguments)):
        assert judges.load("fluency").score(ROWS).notna().all()
    assert len(server.log) == len(ROWS)
    for entry in server.log:
        assert entry.body.pop("messages")
        body = {name.replace("completion_", ""): value for name, value in entry.body.items()}
        assert body == {**arguments, "model": "judge-1"}


# litellm leaves coroutines behind that nobody awaits.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_headers_go_along_and_stay_out_of_what_is_written(server, tmp_path):
    # As careless servers repeat what they were shown.
    refusal = error(400, f"Bearer {GATE} may not ask this", "refused")
    server.habit = lambda number, body: refusal if number else None
    lm = lm_of(server, extra_body={"user": "me"}, extra_headers={"X-Gate": f"Bearer {GATE}"})
    store = tmp_path / "replies.sqlite"
    with dspy.context(lm=lm), pytest.warns(FailedJudgementWarning) as warnings:
        judges.load("fluency").score(ROWS[:2], store=store, concurrency=1)
    assert "may not ask this" in str(warnings[0].message)
    assert GATE not in str(warnings[0].message)
    assert GATE.encode() not in store.read_bytes()
    assert all(GATE in str(entry.headers) for entry in server.log)


def test_other_arguments_are_other_requests_to_a_store(server, tmp_path):
    judge = judges.load("fluency")
    for top_p, expected in ((0.9, 8), (0.9, 8), (0.5, 16)):
        with dspy.context(lm=lm_of(server, top_p=top_p)):
            judge.score(ROWS, store=tmp_path / "replies.sqlite")
        assert len(server.log) == expected


def test_our_own_temperature_is_dropped_if_refused(server, caplog):
    def habit(number, body):
        text = "Unsupported value: 'temperature' does not support 0.0 with this model."
        return error(400, text, "unsupported_value") if "temperature" in body else None

    server.habit = habit
    with dspy.context(lm=lm_of(server)):
        assert judges.load("fluency").score(ROWS).notna().all()
    assert caplog.text.count("openai/judge-1 takes no temperature (requests go without it)") == 1


class ScriptedLM(dspy.BaseLM):
    """As people write their own clients, without an asynchronous call."""

    def __init__(self):
        super().__init__("mine/scripted")

    def forward(self, prompt=None, messages=None, **options):
        from litellm import ModelResponse

        return ModelResponse(**completion({"model": "scripted", "messages": messages}, ["4"]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_clients_of_ones_own_are_asked_as_well():
    for lm in (DummyLM([{"rating": "4"}] * 20), ScriptedLM()):
        with dspy.context(lm=lm):
            assert judges.load("fluency")(summary="A summary.").score == 4


@pytest.mark.parametrize(("fault", "kind"), [("429", ThrottledError), ("500", TransientError)])
def test_a_dspy_models_errors_mean_what_an_endpoints_do(openai_server, fault, kind):
    openai_server.fault = lambda number, body: fault
    model = open_dspy("openai/judge-1", openai_server.url)
    with pytest.raises(kind):
        asyncio.run(model.complete(PROMPT, Sampling()))
    assert len(openai_server.log) == 1  # DSPy's own retries are off


class ReadError(Exception):
    """As DSPy's transport calls a line that broke."""


@pytest.mark.parametrize(
    ("cause", "kind", "is_billed"),
    [
        (OSError(errno.ECONNREFUSED, "refused"), UnreachableError, False),
        (ReadError("reset"), TransientError, True),
    ],
)
def test_what_was_never_sent_is_told_from_what_may_be_billed(cause, kind, is_billed):
    class Broken:
        def complete(self, request):
            raise lm15.TransportError("no answer") from cause

    model = DspyModel(dspy.LM("local/m", engine=Broken()))
    with pytest.raises(kind) as error:
        asyncio.run(model.complete(PROMPT, Sampling()))
    assert type(error.value) is kind
    assert error.value.may_be_billed is is_billed


def test_a_dspy_judge_asks_through_a_client_and_its_store(tmp_path):
    model, judge = Model(lambda *_: "4", native_n=False), RatingJudge(RELEVANCE)
    with closing(Store(tmp_path / "store")) as store:
        client = Client(model, account=Budget(store=store).account())
        with dspy.context(lm=as_lm(client)):
            assert judge(document="d", summary="s").rating == 4
            assert asyncio.run(judge.acall(document="d", summary="s")).rating == 4
    assert model.calls == client.account.total.calls == 1


def test_random_draws_are_replayed_in_a_repeated_run(tmp_path):
    def run():
        model = Model(lambda prompt, sampling, before: f"said with {sampling.seed}")
        with closing(Store(tmp_path / "store")) as store:
            client = Client(model, account=Budget(store=store).account())
            lm = as_lm(client, temperature=1.0, seed=3)
            texts = [lm("propose")[0] for _ in range(3)] + lm("propose", n=2)
        return texts, model.calls

    texts, calls = run()
    assert (len(set(texts)), texts[0], calls) == (5, "said with 3", 5)
    assert run() == (texts, 0)
