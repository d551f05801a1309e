"""A stranger's files choose no host, no program and no file: a listener of theirs hears nothing."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jsonl import write_jsonl
from openai_server import OpenAIServer, Serving
from rating_files import weather_rows

import judges
from judges.__main__ import main as judges_command
from judges.batch import Batch
from judges.client import Client, Session
from judges.client.keys import endpoint_of
from judges.client.open import is_allowed_in_file, open_model
from judges.frozen import digest
from judges.protocol import FatalModelError
from judges.ray import JudgeBatch
from judges.scoring import SamplingPlan
from optimize import measure
from optimize.__main__ import command as optimize_command
from optimize.check import main as data_command
from optimize.verify import command as verify_command

KEY = "sk-planted-4f9c2b7e1d6a8035"
ROW = {"document": "A private text.", "summary": "Private."}


class Listener:
    """Hears whoever connects to it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.address}/v1"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(1)
                    with suppress(OSError):
                        self.heard.append(connection.recv(4096))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def stranger() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()
    assert not listener.heard


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows and labels, and keys that a stranger would like to have."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI", "AZURE_OPENAI", "GROQ", "HUGGINGFACE"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    write_jsonl("rows.jsonl", [{"id": 1, **ROW}])
    write_jsonl("labels.jsonl", weather_rows(12, 3, "coherence"))
    return tmp_path


def judge_file(lm: str, path: str = "judge.json", **provenance: object) -> Path:
    """A frozen judge as a stranger may write it: valid, with a digest of its own."""
    plan = SamplingPlan(kind="one", temperature=0.0)
    frozen = replace(judges.load("coherence"), plan=plan, provenance=provenance or None)
    document = json.loads(frozen.save(Path(path), overwrite=True).read_text())
    document["lm"] = lm
    document["digest"] = digest(document)
    Path(path).write_text(json.dumps(document))
    return Path(path)


STRANGE = [
    "custom/http://{address}/v1",
    "huggingface/http://{address}/v1",
    "openai/http://{address}/v1",
    "openai/../../{address}",
    "ollama/{address}//x",
    "azure/x?y=http://{address}",
    "azure/x#y",
    "http://{address}/v1",
    "unheard/of",
    "openai/a b",
]


@pytest.mark.parametrize("lm", STRANGE)
def test_a_strangers_judge_that_names_a_host_or_a_file_loads_and_is_not_asked(
    lm: str, stranger: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    path = judge_file(lm.format(address=stranger.address), endpoint=stranger.url)
    judge = judges.load(path)
    for ask in (
        lambda: judge(**ROW),
        lambda: list(judge.judge_all([ROW])),
        lambda: measure(judge, "labels.jsonl"),
        lambda: JudgeBatch(judge, workers=1)({name: [text] for name, text in ROW.items()}),
    ):
        with pytest.raises(FatalModelError, match="its file names the model"):
            ask()
    score = ["score", str(path), "--data", "rows.jsonl", "--out", "out.jsonl"]
    for batch_api in ([], ["--batch-api", "submit"]):
        assert judges_command([*score, *batch_api]) == 1
    assert verify_command([str(path), "--data", "labels.jsonl"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert all("name it yourself: --lm" in line for line in said)
    assert not Path("out.jsonl").exists()


def test_a_strangers_judge_that_names_an_endpoint_does_not_send_there(stranger: Listener) -> None:
    """Nor to the provider's own place in silence: the user says where."""
    judge = judges.load(judge_file("openai/judge-1", endpoint=stranger.url))
    with pytest.raises(FatalModelError, match=rf"{stranger.url}.*--api-base URL"):
        judge(**ROW)


@pytest.mark.parametrize("address", ["", " "])
def test_an_empty_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="api_base is empty"):
        judges.load("coherence", lm="openai/judge-1", api_base=address)
    with pytest.raises(ValueError, match="api_base is empty"):
        next(judges.load("coherence").judge_all([ROW], lm="openai/judge-1", api_base=address))


def test_a_strangers_state_of_a_batch_sends_no_key(
    stranger: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {"run": "r", "lm": "openai/judge-1", "endpoint": stranger.url}
    Path("out.jsonl.batch.json").write_text(json.dumps(state))
    for step in ("submit", "collect"):
        ask = ["score", "coherence", "--lm", "openai/judge-1", "--batch-api", step]
        assert judges_command([*ask, "--data", "rows.jsonl", "--out", "out.jsonl"]) == 1
        assert f"at {stranger.url}: name them (--lm, --api-base)" in capsys.readouterr().err


def test_a_strangers_definitions_and_labels_reach_no_host_and_no_file(
    stranger: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = [
        "!!python/object/apply:os.system ['curl {url}']",
        "!!python/name:os.system",
        "!include http://{url}",
        "!!python/object/new:subprocess.Popen [['touch', 'ran']]",
    ]
    for tag in tags:
        text = f"name: x\ndefinition: {tag.format(url=stranger.url)}\ninputs: [document]\n"
        Path("theirs.yaml").write_text(text + "scale: [1, 5]\n")
        with pytest.raises(ValueError, match=r"theirs\.yaml: .*line 2"):
            judges.load("theirs.yaml")
    label = {"id": stranger.url, "group": f"file://{stranger.url}", "document": stranger.url}
    rows = [
        {**label, "summary": f"hf:{stranger.url}{i}", "ratings": {"coherence": 1 + i % 5}, "id": i}
        for i in range(12)
    ]
    write_jsonl("theirs.jsonl", rows)
    data_command(["check", "theirs.jsonl"])
    verify_command(["coherence", "--data", "theirs.jsonl", "--report", "r.html"])
    assert not Path("ran").exists()
    page = Path("r.html").read_text() if Path("r.html").exists() else ""
    assert f'href="http://{stranger.address}' not in page
    assert f'src="http://{stranger.address}' not in page
    capsys.readouterr()


@pytest.mark.parametrize("name", ["../x", "http://{address}/x", "json", "./folder", "a/b/c", "/x"])
def test_a_data_set_of_the_hub_has_an_owner_and_a_name(
    name: str, stranger: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    file = f"hf:{name.format(address=stranger.address)}"
    assert data_command(["check", file]) == 1
    assert "hf:owner/name" in capsys.readouterr().out


@pytest.mark.parametrize(
    "lm",
    [
        *("embedded", "embedded-1", "openai/gpt-4.1-mini", "openai/ft:gpt-4o:org::id"),
        *("azure/my-deployment", "anthropic/claude-sonnet-4-5", "ollama_chat/llama3.1:8b"),
        *("openrouter/meta-llama/llama-3-70b:free", "vertex_ai/claude-3@20240229"),
        "bedrock/anthropic.claude-3-sonnet-v1:0",
    ],
)
def test_a_known_providers_model_is_plain(lm: str) -> None:
    assert is_allowed_in_file(lm)


@pytest.mark.parametrize("lm", ["openai/m", "azure/m", "groq/m", "embedded"])
@pytest.mark.parametrize("base", [None, "http://127.0.0.1:9/v1/"])
def test_an_opened_model_answers_where_it_is_said_to(
    lm: str, base: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
    assert endpoint_of(lm, base) == open_model(lm, api_base=base).endpoint


# One's own judges and runs, at a private server.


@pytest.fixture
def private() -> Iterator[OpenAIServer]:
    with Serving(OpenAIServer(models=("judge-1", "proposer-1"))) as server:
        yield server


TUNE = ["--dimension", "coherence", "--data", "labels.jsonl", "--out", "run", "--max-calls", "500"]
MODELS = ["--lm", "openai/judge-1", "--proposer-lm", "openai/proposer-1"]


def models_of(server: OpenAIServer) -> set[str]:
    return {seen.body["model"] for seen in server.log}


def test_an_endpoint_that_is_given_holds_for_the_judge_and_the_proposer(
    private: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert optimize_command([*TUNE, *MODELS, "--api-base", private.url]) == 0
    assert models_of(private) == {"judge-1", "proposer-1"}
    # To go on with it, and to ask its judge, takes that address again; nothing else is asked.
    n = len(private.log)
    Path("run/report.html").unlink()
    assert optimize_command([*TUNE, *MODELS]) == 1
    assert f"the address of the judge was {private.url}" in capsys.readouterr().err.splitlines()[-1]
    assert optimize_command([*TUNE, *MODELS, "--api-base", private.url]) == 0
    judge = judges.load("run")
    score = ["score", "run", "--data", "rows.jsonl", "--out", "out.jsonl"]
    capsys.readouterr()
    assert judges_command(score) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert private.url in said
    with pytest.raises(FatalModelError, match="api_base="):
        judge(**ROW)
    assert len(private.log) == n
    assert judges_command([*score, "--api-base", private.url]) == 0
    assert judges.load("run", api_base=private.url)(**ROW).failure is None
    assert len(private.log) == n + 2


def test_on_labels_of_another_scale_a_judge_is_asked_at_its_address(private: OpenAIServer) -> None:
    judge = judges.load("coherence", lm="openai/judge-1", api_base=private.url)
    measure(judge, "labels.jsonl", scale="0-9")
    assert models_of(private) == {"judge-1"}
    assert "7, 8 or 9" in private.log[0].asked


def test_a_saved_judge_holds_no_address(private: OpenAIServer) -> None:
    judge = judges.load("coherence", lm="openai/judge-1", api_base=private.url)
    assert private.url not in judge.save("mine.json").read_text()
    assert judges.load("mine.json").api_base is None


# Redirects.


def redirecting(to: str) -> ThreadingHTTPServer:
    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(307)
            self.send_header("Location", f"{to}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *said: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@pytest.mark.parametrize("lm", ["openai/judge-1", "azure/judge-1"])
def test_a_redirect_takes_no_text_to_another_host(lm: str, stranger: Listener) -> None:
    server = redirecting(f"http://{stranger.address}")
    try:
        base = f"http://127.0.0.1:{server.server_port}/v1"
        with pytest.raises(FatalModelError, match=r"307 from .*: it redirects"):
            list(judges.load("coherence").judge_all([ROW], lm=lm, api_base=base))
        if lm.startswith("openai/"):
            with Session(store="replies.sqlite") as session:
                batch = Batch(Path("out.jsonl"), lm, session, api_base=base)
                list(judges.load("coherence").judge_rows([ROW], Client(batch)))
                batch.begin()
                with pytest.raises(FatalModelError, match="Error code: 307"):
                    batch.submit()
    finally:
        server.shutdown()
        server.server_close()
