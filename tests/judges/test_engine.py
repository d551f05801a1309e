"""The runner as DSPy's engine, and any DSPy model as ours."""

import asyncio
from contextlib import closing
from pathlib import Path

import dspy
import pytest
from behaving_model import Model, echo
from openai_server import OpenAIServer

from judges.catalog import find
from judges.client.budget import Budget, BudgetSpentError
from judges.client.client import Client, Request
from judges.client.dspy import DspyModel, as_lm
from judges.client.protocol import (
    FatalModelError,
    Message,
    RefusedError,
    Sampling,
    ThrottledError,
    TransientError,
)
from judges.client.store import Store
from judges.dimension import Dimension
from judges.modules import RatingJudge

ASKED: list[Message] = [
    {"role": "system", "content": "You rate."},
    {"role": "user", "content": "Rate it from 1 to 5."},
]


def relevance() -> Dimension:
    result = find("relevance")
    assert isinstance(result, Dimension)
    return result


def test_a_dspy_judge_asks_through_a_client_and_its_store(tmp_path: Path) -> None:
    model = Model(lambda *_: "4", native_n=False)
    with closing(Store(tmp_path / "store")) as store:
        client = Client(model, account=Budget(store=store).account())
        judge = RatingJudge(relevance())
        with dspy.context(lm=as_lm(client)):
            for _ in range(3):
                assert judge(document="d", summary="s").rating == 4
            said = asyncio.run(judge.acall(document="d", summary="s"))
    assert said.rating == 4
    assert model.calls == client.account.calls == 1


def test_what_is_drawn_at_random_is_drawn_again_and_replayed_in_a_repeated_run(
    tmp_path: Path,
) -> None:
    def run() -> tuple[list[str], int]:
        model = Model(lambda prompt, sampling, before: f"said with {sampling.seed}")
        with closing(Store(tmp_path / "store")) as store:
            client = Client(model, account=Budget(store=store).account())
            lm = as_lm(client, temperature=1.0, seed=3)
            said = [lm("propose")[0] for _ in range(3)] + lm("propose", n=2)
        return said, model.calls

    first, again = run(), run()
    assert len(set(first[0])) == 5
    assert first[0][0] == "said with 3"
    assert first[1] == 5
    assert again == (first[0], 0)


def test_what_ended_the_run_is_kept_for_whoever_asks_dspy() -> None:
    lm = as_lm(Client(Model(echo), account=Budget(max_calls=0).account()))
    with pytest.raises(Exception, match="budget of 0 calls"):
        lm("hello")
    assert isinstance(lm.engine.stopped, BudgetSpentError)


def test_a_failed_request_is_dspys_own_kind_of_error() -> None:
    def refuse(*_: object) -> str:
        raise RefusedError("context too long")

    with pytest.raises(dspy.LMError, match="context too long"):
        as_lm(Client(Model(refuse)))("hello")


def through_dspy(server: OpenAIServer, **settings: float) -> DspyModel:
    return DspyModel("openai/judge-1", api_base=server.url, **settings)


def test_any_dspy_model_answers_with_tokens_counts_and_probabilities(
    openai_server: OpenAIServer,
) -> None:
    openai_server.judge = lambda body: "4"
    model = through_dspy(openai_server)
    answer = asyncio.run(model.complete(ASKED, Sampling(top_logprobs=3, seed=9)))
    assert answer.replies[0].text == "4"
    assert answer.replies[0].tokens[0].top == pytest.approx(
        {"4": -0.6931, "3": -1.3863, "5": -1.3863}, abs=1e-4
    )
    assert answer.tokens_out == 1
    (seen,) = openai_server.log
    assert seen.body["messages"][0]["content"] == "You rate."
    assert seen.body["seed"] == 9
    assert seen.body["temperature"] == 0.0


def test_samples_of_a_dspy_model_are_asked_together(openai_server: OpenAIServer) -> None:
    openai_server.judge = lambda body: "4"
    openai_server.latency = 0.2
    client = Client(through_dspy(openai_server))
    (answer,) = client.run([Request(ASKED, Sampling(n=5), lambda reply: reply.text)])
    assert answer.parsed == ("4",) * 5
    assert openai_server.max_at_once == 5


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("429", ThrottledError), ("500", TransientError)],
)
def test_a_dspy_models_errors_mean_what_an_endpoints_do(
    openai_server: OpenAIServer, fault: str, kind: type[Exception]
) -> None:
    openai_server.fault = lambda number, body: fault
    with pytest.raises(kind):
        asyncio.run(through_dspy(openai_server).complete(ASKED, Sampling()))
    assert len(openai_server.log) == 1  # DSPy's own retries are off


def test_a_dspy_models_refused_key_is_lasting_and_not_shown(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0011223344556677")
    openai_server.key = "another"
    with pytest.raises(FatalModelError) as caught:
        asyncio.run(through_dspy(openai_server).complete(ASKED, Sampling()))
    assert "planted" not in str(caught.value)
