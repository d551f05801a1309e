"""A key is written nowhere: not by failures, nor by servers that repeat it, nor by --verbose."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from jsonl import read_jsonl, write_jsonl
from openai_replies import Body, error, follow
from openai_server import OpenAIServer, Serving
from prompts import prompted
from rating_files import weather_rows

from judges import load
from judges.__main__ import main
from judges.client.keys import Redactor, holds_secret, read_key, without_secrets
from judges.client.open import open_model
from judges.frozen import FrozenJudgeError, demo_bytes, digest
from judges.judge import Judge
from judges.protocol import Completion, FatalModelError, Reply, Token
from optimize.__main__ import command as tune
from optimize.verify import command as verify

KEY = "sk-planted-4f9c2b7e1d6a8035"
OTHER = "plain0planted1without2any3look"
KINDS = ("429", "500", "drop", "malformed", "garbage", "empty")

DIMENSION = """
name: liveliness
definition: how lively the reply is
inputs: {context: the talk so far, response: the reply}
scale: [1, 3]
"""


def echoing(body: Body) -> str:
    """A reply that repeats the request's header before it answers as asked."""
    said, header = follow(body), f"Authorization: Bearer {KEY} ({OTHER})"
    if "[[ ##" in said:
        return said.replace("It is", f"{header} is")
    return f"{header}\n{said}"


@dataclass
class Careless(OpenAIServer):
    """Repeats the key it was shown in every error, as some proxies do."""

    def _faulty(self, fault: str, request: web.Request, body: Body) -> web.StreamResponse:
        if fault.isdigit():
            shown = request.headers.get("Authorization", "")
            return error(int(fault), f"Refused: {shown} and {OTHER} too.", "faulty", "0.02")
        return super()._faulty(fault, request, body)


@pytest.fixture
def careless() -> Iterator[OpenAIServer]:
    """Answers with the key it was shown, and fails the first few requests, each in its own way."""
    faults = dict(enumerate(KINDS, start=1))
    with Serving(Careless(judge=echoing, fault=lambda number, body: faults.get(number))) as server:
        yield server


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labels and a definition."""
    monkeypatch.chdir(tmp_path)
    rows = weather_rows(9, 3, "liveliness", ("context", "response"))
    write_jsonl("labels.jsonl", rows)
    Path("own.yaml").write_text(DIMENSION)
    return tmp_path


MAINS = {"judges": main, "optimize": tune, "optimize.verify": verify}


class Ended(NamedTuple):
    """A command's exit code, what it wrote to files and streams, and the last."""

    code: int
    left: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with keys planted in its environment, as users give them."""
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("SOME_PROXY_TOKEN", OTHER)

    def run(module: str, *arguments: str) -> Ended:
        code = MAINS[module](list(arguments))
        out, err = capfd.readouterr()
        return Ended(code, files() + out + err, err)

    return run


def files() -> str:
    """All that every file under the folder holds."""
    whole = (path.read_bytes() for path in Path().rglob("*") if path.is_file())
    return "\n".join(one.decode("utf-8", "replace") for one in whole)


SCORE = ["judges", "score", "own.yaml", "--data", "labels.jsonl", "--out", "o.jsonl"]
COMMANDS = {
    "score": [*SCORE, "--reasoning", "brief"],
    "optimize": [
        *("optimize", "--dimension", "own.yaml", "--data", "labels.jsonl", "--out", "run"),
        *("--max-calls", "400", "--probes"),
    ],
    "verify": ["optimize.verify", "own.yaml", "--data", "labels.jsonl", "--report", "r.html"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_among_failures_and_echoes_writes_the_key_nowhere(
    careless: OpenAIServer, name: str, run: Run
) -> None:
    done = run(*COMMANDS[name], "--lm", "openai/judge-1", "--api-base", careless.url, "--verbose")
    assert done.code == 0, done.err
    assert all(seen.headers["Authorization"] == f"Bearer {KEY}" for seen in careless.log)
    assert {seen.done for seen in careless.log} == {"answered", *KINDS}
    assert KEY not in done.left
    assert OTHER not in done.left
    # What repeated it was told and kept all the same.
    assert "Refused: Bearer [key] and [key] too. faulty; attempt 1, the next in" in done.err
    # Replies are kept without it; verify keeps none, only its report.
    assert Path("r.html").exists() == (name == "verify")
    assert ("Authorization: Bearer [key] ([key])" in files()) == (name != "verify")


@pytest.mark.parametrize("lm", ["openai/judge-1", "groq/judge-1"])
def test_a_refused_key_is_told_without_it_and_leaves_nothing(
    careless: OpenAIServer, lm: str, run: Run
) -> None:
    careless.key = "another"  # the refusal repeats the key it was shown
    done = run(*SCORE, "--lm", lm, "--api-base", careless.url, "--verbose")
    assert done.code == 1, done.err
    assert {seen.done for seen in careless.log} == {"401"}
    assert KEY not in done.left
    assert "Traceback" in done.err  # --verbose shows where
    assert {path.name for path in Path().iterdir()} == {"labels.jsonl", "own.yaml"}
    last = done.err.splitlines()[-1]
    assert "was not accepted" in last or "Incorrect API key provided: [key]" in last


def test_dspys_own_clients_write_it_nowhere_either(careless: OpenAIServer, run: Run) -> None:
    done = run(*SCORE, "--lm", "groq/judge-1", "--api-base", careless.url, "--verbose")
    assert done.code == 0, done.err
    assert KEY not in done.left
    assert OTHER not in done.left
    assert "Refused: Bearer [key] and [key] too." in done.err


def completion(reply: Reply) -> Completion:
    return Completion(replies=(reply,), tokens_in=1, tokens_out=1, model=f"m {KEY}")


def test_an_answer_is_kept_without_the_key_and_without_tokens_that_spell_it() -> None:
    tokens = tuple(Token(text, {text: -0.5}) for text in (KEY[:5], KEY[5:], "\n4"))
    reply = Reply(text=f"Key: {KEY}{KEY}\n4", tokens=tokens, finish_reason=KEY)
    cleaned = Redactor([KEY]).redact_completion(completion(reply))
    assert cleaned.replies == (Reply(text="Key: [key][key]\n4", finish_reason="[key]"),)
    assert cleaned.model == "m [key]"
    offered = (Token("4", {"4": -0.1, KEY: -3.0}),)
    cleaned = Redactor([KEY]).redact_completion(completion(Reply(text="4", tokens=offered)))
    assert not cleaned.replies[0].tokens


@pytest.mark.parametrize("value", ["relevance", "not-needed", "EMPTY", "1"])
def test_a_placeholder_for_a_key_is_no_secret(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    assert not Redactor([value]).holds(f"The {value} of it.")


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "HF_TOKEN", "CLIENT_SECRET"])
def test_the_environments_keys_are_found_by_their_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, f" {OTHER}\n")
    monkeypatch.setenv("KEYS", "no1key2here")
    assert Redactor().redact(f"{OTHER}, no1key2here") == "[key], no1key2here"


def test_a_key_with_a_line_end_is_trimmed_and_one_with_a_gap_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NONE_API_KEY", f"{KEY}\n")
    assert read_key("NONE_API_KEY") == KEY
    for broken in (f"{KEY[:8]}\n{KEY[8:]}", "“quoted-key”"):
        monkeypatch.setenv("NONE_API_KEY", broken)
        with pytest.raises(FatalModelError, match="its value cannot be a key") as caught:
            read_key("NONE_API_KEY")
        assert broken not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://me:word@host/v1", True),
        ("http://host/v1?api-key=abc", True),
        ("http://host/v1?api-version=2024", False),
        ("http://host:80/v1", False),
    ],
)
def test_an_address_that_holds_a_password_or_key_is_refused(url: str, secret: bool) -> None:
    assert holds_secret(url) == secret
    if secret:
        assert without_secrets(url) == "http://host/v1"
        with pytest.raises(FatalModelError, match="holds a password or a key") as caught:
            open_model("openai/m", api_base=url)
        assert "word@" not in str(caught.value)
        assert "abc" not in str(caught.value)


def test_the_key_in_use_is_in_no_demonstration_and_no_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = load("own.yaml")
    demo = {"context": "Prose: Bearer certificates.", "response": "Yes.", "rating": 2}
    assert demo_bytes(judge.prompt, demo, Redactor())
    assert demo_bytes(judge.prompt, {**demo, "context": f"It is {KEY}."}, Redactor()) is None
    with pytest.raises(FrozenJudgeError, match="its texts hold the value") as caught:
        prompted(judge, instruction=f"Judge it. {KEY}").dumps()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["--lm", "--api-key-env"])
def test_a_key_in_the_place_of_a_name_is_written_nowhere(name: str, flag: str, run: Run) -> None:
    asked = ["--lm", "openai/judge-1", flag, f"openai/{KEY}" if flag == "--lm" else KEY]
    done = run(*COMMANDS[name], *asked, "--verbose")
    assert done.code in (1, 2)
    assert KEY not in done.left
    assert "key" in done.err


ESCAPES = "\x1b[31mred\x1b[0m \x9b2J \u202eevil\u202c \r gone"


def test_terminal_escapes_in_a_strangers_files_are_shown_and_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject = replace(load("own.yaml").subject, definition=ESCAPES, source=ESCAPES)
    judge = replace(Judge.of(subject), provenance={"note": ESCAPES, "why": ESCAPES})
    judge = prompted(judge, instruction=f"Judge. {ESCAPES}")
    judge.save(Path("theirs.json"))
    document = json.loads(Path("theirs.json").read_text())
    document["lm"] = "openai/\x9b2Jx"
    document["digest"] = digest(document)
    Path("theirs.json").write_text(json.dumps(document))
    rows = read_jsonl("labels.jsonl")
    for row in rows:
        row["system"], row["id"] = row["system"] + ESCAPES, row["id"] + ESCAPES
        row["extra"] = ESCAPES
    write_jsonl("labels.jsonl", rows)
    main(["show", "theirs.json"])
    main(["show", f"no{ESCAPES}such"])
    main(["score", "theirs.json", "--data", "labels.jsonl", "--out", "o.jsonl"])
    main(["score", "own.yaml", "--data", f"{ESCAPES}.jsonl", "--out", "o.jsonl"])
    # A progress line returns the cursor.
    verify(["own.yaml", "--data", "labels.jsonl", "--quiet"])
    out, err = capsys.readouterr()
    for mark in ("\x1b", "\x9b", "\u202e", "\r"):
        assert mark not in out + err
    assert "\\u001b[31mred" in out
