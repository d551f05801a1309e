"""A key is written nowhere: not by failures, nor by servers that repeat it, nor by --verbose."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web
from files import write_jsonl
from frozen_cases import forge
from judge_cases import reprompt
from openai_replies import Body, error, follow
from openai_server import OpenAIServer
from rating_files import weather_rows
from serving import serving

from judges import load
from judges.__main__ import main
from judges.client.keys import Redactor, read_key, url_has_secret, url_without_secrets
from judges.client.open import open_model
from judges.client.openai import HttpModel
from judges.frozen import FrozenJudgeError, can_be_saved
from judges.judge import Judge
from judges.protocol import FatalModelError, Reply, Token, Usage
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
    text, header = follow(body), f"Authorization: Bearer {KEY} ({OTHER})"
    if "[[ ##" in text:
        return text.replace("It is", f"{header} is")
    return f"{header}\n{text}"


@dataclass
class Careless(OpenAIServer):
    """Repeats the key it was shown in every error, as some proxies do."""

    def _faulty(self, fault: str, request: web.Request, body: Body) -> web.StreamResponse:
        if fault.isdigit():
            header = request.headers.get("Authorization", "")
            return error(int(fault), f"Refused: {header} and {OTHER} too.", "faulty", "0.02")
        return super()._faulty(fault, request, body)


@pytest.fixture
def careless() -> Iterator[OpenAIServer]:
    """Answers with the key it was shown, and fails the first few requests, each in its own way."""
    faults = dict(enumerate(KINDS, start=1))
    with serving(Careless(judge=echoing, fault=lambda number, body: faults.get(number))) as server:
        yield server


@pytest.fixture(autouse=True)
def _files(here: Path) -> None:
    """Labels and a definition in the working folder."""
    write_jsonl("labels.jsonl", weather_rows(9, 3, "liveliness", ("context", "response")))
    Path("own.yaml").write_text(DIMENSION)


MAINS = {"judges": main, "optimize": tune, "optimize.verify": verify}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with keys planted in its environment, as users give them.

    Returns its exit code, what it wrote to files and streams, and the stream of errors alone.
    """
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("SOME_PROXY_TOKEN", OTHER)

    def run(module: str, *arguments: str) -> tuple[int, str, str]:
        code = MAINS[module]([*arguments, "--verbose"])
        out, err = capfd.readouterr()
        return code, files() + out + err, err

    return run


def files() -> str:
    """All that every file under the folder holds."""
    whole = (path.read_bytes() for path in Path().rglob("*") if path.is_file())
    return "\n".join(one.decode("utf-8", "replace") for one in whole)


LABELS = ("own.yaml", "--data", "labels.jsonl")
SCORE = ["judges", "score", *LABELS, "--out", "o.jsonl"]
COMMANDS = {
    "score": [*SCORE, "--reasoning", "brief"],
    "optimize": ["optimize", "--dimension", *LABELS, "--out", "run", "--max-calls=400", "--probes"],
    "verify": ["optimize.verify", *LABELS, "--report", "r.html"],
}


@pytest.mark.parametrize(
    ("name", "lm"),
    [*((name, "openai/judge-1") for name in COMMANDS), ("score", "groq/judge-1")],
)
def test_a_run_among_failures_and_echoes_writes_the_key_nowhere(careless, name, lm, run):
    code, left, err = run(*COMMANDS[name], "--lm", lm, "--api-base", careless.url)
    assert code == 0, err
    assert all(entry.headers["Authorization"] == f"Bearer {KEY}" for entry in careless.log)
    assert {entry.outcome for entry in careless.log} == {"answered", *KINDS}
    assert KEY not in left
    assert OTHER not in left
    # What repeated it was told and kept all the same.
    note = " faulty; attempt 1, the next in" if lm.startswith("openai") else ""
    assert f"Refused: Bearer [key] and [key] too.{note}" in err
    # Replies are kept without it; verify keeps none, only its report.
    assert Path("r.html").exists() == (name == "verify")
    assert ("Authorization: Bearer [key] ([key])" in files()) == (name != "verify")


@pytest.mark.parametrize("lm", ["openai/judge-1", "groq/judge-1"])
def test_a_refused_key_is_told_without_it_and_leaves_nothing(careless, lm, run):
    careless.key = "another"  # the refusal repeats the key it was shown
    code, left, err = run(*SCORE, "--lm", lm, "--api-base", careless.url)
    assert code == 1, err
    assert {entry.outcome for entry in careless.log} == {"401"}
    assert KEY not in left
    assert "Traceback" in err  # --verbose shows where
    assert {path.name for path in Path().iterdir()} == {"labels.jsonl", "own.yaml"}
    last = err.splitlines()[-1]
    assert "was not accepted" in last or "Incorrect API key provided: [key]" in last


def test_a_reply_is_kept_without_the_key():
    tokens = tuple(Token(text, {text: -0.5}) for text in (KEY[:5], KEY[5:], "\n4"))
    reply = Reply(text=f"Key: {KEY}{KEY}\n4", tokens=tokens, finish_reason=KEY)
    other = Reply(text="4", tokens=(Token("4", {"4": -0.1, KEY: -3.0}),))
    model = HttpModel("m", "http://test", "TEST_KEY", api_key=KEY)
    completion = model.make_completion([reply, other], f"m {KEY}", Usage(1, 1))
    assert completion.replies[0] == Reply(text="Key: [key][key]\n4", finish_reason="[key]")
    assert completion.replies[1] == Reply(text="4")
    assert completion.model == "m [key]"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "HF_TOKEN", "CLIENT_SECRET"])
def test_keys_are_found_by_their_variables_names(name, monkeypatch):
    monkeypatch.setenv(name, f" {OTHER}\n")
    monkeypatch.setenv("KEYS", "no1key2here")
    assert Redactor().redact(f"{OTHER}, no1key2here") == "[key], no1key2here"
    for placeholder in ("relevance", "not-needed", "EMPTY", "1"):
        monkeypatch.setenv(name, placeholder)
        assert not Redactor([placeholder]).has_secret(f"The {placeholder} of it.")


def test_a_key_with_a_gap_is_refused(monkeypatch):
    monkeypatch.setenv("NONE_API_KEY", f"{KEY}\n")
    assert read_key("NONE_API_KEY") == KEY
    for value in (f"{KEY[:8]}\n{KEY[8:]}", "“quoted-key”"):
        monkeypatch.setenv("NONE_API_KEY", value)
        with pytest.raises(FatalModelError, match="its value cannot be a key") as error:
            read_key("NONE_API_KEY")
        assert value not in str(error.value)


@pytest.mark.parametrize("url", ["http://me:word@host/v1", "http://host/v1?api-key=word"])
def test_an_address_that_holds_a_password_or_key_is_refused(url):
    assert url_has_secret(url)
    assert url_without_secrets(url) == "http://host/v1"
    with pytest.raises(FatalModelError, match="holds a password or a key") as error:
        open_model("openai/m", api_base=url)
    assert "word" not in str(error.value).replace("password", "")
    assert not url_has_secret("http://host:80/v1?api-version=2024")


def test_the_key_in_use_is_in_no_demonstration_and_no_judge(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = load("own.yaml")
    demo = {"context": "Prose: Bearer certificates.", "response": "Yes.", "rating": 2}
    assert can_be_saved(judge.prompt, demo, Redactor())
    assert not can_be_saved(judge.prompt, {**demo, "context": f"It is {KEY}."}, Redactor())
    with pytest.raises(FrozenJudgeError, match="its texts hold the value") as error:
        reprompt(judge, instruction=f"Judge it. {KEY}").dumps()
    assert KEY not in str(error.value)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["--lm", "--api-key-env"])
def test_a_key_in_the_place_of_a_name_is_written_nowhere(name, flag, run):
    value = f"openai/{KEY}" if flag == "--lm" else KEY
    code, left, err = run(*COMMANDS[name], "--lm", "openai/judge-1", flag, value)
    assert code in (1, 2)
    assert KEY not in left
    assert "key" in err


ESCAPES = "\x1b[31mred\x1b[0m \x9b2J \u202eevil\u202c \r gone"


def test_a_strangers_terminal_escapes_are_shown_and_not_sent(capsys):
    subject = replace(load("own.yaml").subject, definition=ESCAPES, source=ESCAPES)
    judge = replace(Judge.of(subject), provenance={"note": ESCAPES, "why": ESCAPES})
    judge = reprompt(judge, instruction=f"Judge. {ESCAPES}")
    theirs = forge(judge, lambda document: document.update(lm="openai/\x9b2Jx"))
    Path("theirs.json").write_bytes(theirs)
    main(["show", "theirs.json"])
    main(["show", f"no{ESCAPES}such"])
    main(["score", "theirs.json", "--data", "labels.jsonl", "--out", "o.jsonl"])
    out, err = capsys.readouterr()
    assert not {*"\x1b\x9b\u202e\r"} & {*out, *err}
    assert "\\u001b[31mred" in out
