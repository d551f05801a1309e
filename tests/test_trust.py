"""A stranger's files choose no host, no program and no file: a listener of theirs hears nothing."""

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from command_runs import run
from files import file_of, write_jsonl
from rating_files import weather_rows
from serving import AnyPath, serving

import judges
from judges.__main__ import main as judges_command
from judges.batch import Batch
from judges.client import Client, Session
from judges.client.keys import endpoint_of
from judges.client.open import is_allowed_in_file, open_model
from judges.frozen import json_digest
from judges.protocol import FatalModelError
from judges.ray import JudgeBatch
from judges.scoring import ONE_REPLY_PLAN
from optimize import measure
from optimize.__main__ import command as optimize_command
from optimize.check import command as data_command
from optimize.verify import command as verify_command

KEY = "sk-planted-4f9c2b7e1d6a8035"
ROW = {"document": "A private text.", "summary": "Private."}


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a listener that nobody connects to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture(autouse=True)
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with rows and labels, and keys that a stranger would like to have."""
    for name in ("OPENAI", "AZURE_OPENAI", "GROQ", "HUGGINGFACE"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    write_jsonl("rows.jsonl", [{"id": 1, **ROW}])
    write_jsonl("labels.jsonl", weather_rows(12, 3, "coherence"))


def judge_file(lm: str, endpoint: str) -> Path:
    """A frozen judge as a stranger may write it: valid, with a digest of its own."""
    origin = {"endpoint": f"http://{endpoint}/v1"}
    frozen = replace(judges.load("coherence").with_plan(ONE_REPLY_PLAN), provenance=origin)
    document = {**json.loads(frozen.save("judge.json").read_text()), "lm": lm}
    del document["digest"]
    return file_of(json.dumps(document | {"digest": json_digest(document)}), "judge.json")


@pytest.mark.parametrize(
    "lm",
    [
        *("custom/http://{}/v1", "huggingface/http://{}/v1", "openai/http://{}/v1", "http://{}/v1"),
        *("openai/../../{}", "ollama/{}//x", "azure/x?y=http://{}", "azure/x#y", "openai/a b"),
        "unheard/of",
    ],
)
def test_a_strangers_judge_that_names_a_host_is_not_asked(lm, stranger):
    path = judge_file(lm.format(stranger), stranger)
    judge = judges.load(path)
    for ask in (
        lambda: judge(**ROW),
        lambda: list(judge.judge_all([ROW])),
        lambda: measure(judge, "labels.jsonl"),
        lambda: JudgeBatch(judge, workers=1)({name: [text] for name, text in ROW.items()}),
    ):
        with pytest.raises(FatalModelError, match="file sets the model"):
            ask()
    score = ["score", path, "--data", "rows.jsonl", "--out", "out.jsonl"]
    for result in (
        run(judges_command, *score),
        run(judges_command, *score, "--batch-api", "submit"),
        run(verify_command, path, "--data", "labels.jsonl"),
    ):
        assert (result.code, result.stderr.count("\n")) == (1, 1)
        assert "name the model yourself: --lm" in result.stderr
    assert not Path("out.jsonl").exists()


def test_a_strangers_judge_does_not_choose_the_endpoint(stranger):
    """Nor to the provider's own place in silence: the user says where."""
    judge = judges.load(judge_file("openai/judge-1", stranger))
    with pytest.raises(FatalModelError, match=r"tuned at another address, .*--api-base URL"):
        judge(**ROW)


@pytest.mark.parametrize("step", ["submit", "collect"])
def test_a_strangers_state_of_a_batch_sends_no_key(step, stranger):
    state = {"run": "r", "lm": "openai/judge-1", "endpoint": f"http://{stranger}/v1"}
    file_of(json.dumps(state), "out.jsonl.batch.json")
    ask = ["score", "coherence", "--lm", "openai/judge-1", "--batch-api", step]
    result = run(judges_command, *ask, "--data", "rows.jsonl", "--out", "out.jsonl")
    assert result.code == 1
    assert f"at http://{stranger}/v1: name both (--lm, --api-base)" in result.stderr


def test_a_strangers_labels_reach_no_host(stranger):
    url = f"http://{stranger}/v1"
    own = {"group": f"file://{url}", "document": url}
    rows = [{**own, "id": i, "summary": f"hf:{url}{i}", "coherence": 1 + i % 5} for i in range(12)]
    path = write_jsonl("theirs.jsonl", rows)
    run(data_command, path)
    run(verify_command, "coherence", "--data", path, "--report", "r.html")
    assert not re.search(rf'(href|src)="?http://{stranger}', Path("r.html").read_text())


@pytest.mark.parametrize("name", ["../x", "http://{}/x", "json", "./folder", "a/b/c", "/x"])
def test_a_set_of_the_hub_has_an_owner_and_a_name(name, stranger):
    result = run(data_command, f"hf:{name.format(stranger)}")
    assert result.code == 1
    assert "hf:owner/name" in result.stdout


PLAIN = """
    embedded embedded-1 openai/gpt-4.1-mini openai/ft:gpt-4o:org::id azure/my-deployment
    anthropic/claude-sonnet-4-5 ollama_chat/llama3.1:8b openrouter/meta-llama/llama-3-70b:free
    vertex_ai/claude-3@20240229 bedrock/anthropic.claude-3-sonnet-v1:0
"""


def test_a_known_providers_model_is_plain():
    assert [lm for lm in PLAIN.split() if not is_allowed_in_file(lm)] == []


@pytest.mark.parametrize("lm", ["openai/m", "azure/m", "groq/m", "embedded"])
@pytest.mark.parametrize("base", [None, "http://127.0.0.1:9/v1/"])
def test_an_opened_model_answers_where_it_is_said_to(lm, base, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
    assert endpoint_of(lm, base) == open_model(lm, api_base=base).endpoint


TUNE = ["--dimension", "coherence", "--data", "labels.jsonl", "--out", "run", "--max-calls", "500"]
MODELS = ["--lm", "openai/judge-1", "--proposer-lm", "openai/proposer-1"]


def test_an_endpoint_holds_for_the_judge_and_the_proposer(openai_server, monkeypatch):
    private = openai_server
    private.models = ("judge-1", "proposer-1")
    monkeypatch.delenv("OPENAI_BASE_URL")
    there = ["--api-base", private.url]
    assert run(optimize_command, *TUNE, *MODELS, *there).code == 0
    assert {entry.body["model"] for entry in private.log} == {*private.models}
    # To go on with it, and to ask its judge, takes that address again; nothing else is asked.
    n = len(private.log)
    Path("run/report.html").unlink()
    again = run(optimize_command, *TUNE, *MODELS)
    assert again.code == 1
    assert f"the address of the judge was {private.url}" in again.last
    assert run(optimize_command, *TUNE, *MODELS, *there).code == 0
    score = ["score", "run", "--data", "rows.jsonl", "--out", "out.jsonl"]
    result = run(judges_command, *score)
    assert (result.code, result.stderr.count("\n")) == (1, 1)
    assert "it was tuned at another address" in result.stderr
    assert private.url not in Path("run/judge.json").read_text()
    with pytest.raises(FatalModelError, match="api_base="):
        judges.load("run")(**ROW)
    assert len(private.log) == n
    assert run(judges_command, *score, *there).code == 0
    assert judges.load("run", api_base=private.url)(**ROW).failure is None
    assert len(private.log) == n + 2


@pytest.mark.parametrize("lm", ["openai/judge-1", "azure/judge-1"])
def test_a_redirect_takes_no_text_to_another_host(lm, stranger):
    headers = {"Location": f"http://{stranger}/v1"}
    with serving(AnyPath(lambda *_: web.Response(status=307, headers=headers))) as server:
        base = server.url
        with pytest.raises(FatalModelError, match=r"307 from .*: the endpoint redirects"):
            list(judges.load("coherence").judge_all([ROW], lm=lm, api_base=base))
        if lm.startswith("azure/"):
            return
        with Session(store="replies.sqlite") as session:
            batch = Batch(Path("out.jsonl"), lm, session, api_base=base)
            list(judges.load("coherence").judge_rows([ROW], Client(batch)))
            batch.book_requests()
            with pytest.raises(FatalModelError, match="Error code: 307"):
                batch.submit()
