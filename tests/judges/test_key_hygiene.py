"""A key is written nowhere: not by failures, nor by servers that repeat it, nor by --verbose."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web
from jsonl import read_jsonl, write_jsonl
from openai_replies import Body, error, follow
from openai_server import OpenAIServer, Serving
from processes import run_python

from data.check import main as check
from judges import load
from judges.__main__ import main
from judges.frozen import demo_bytes, digest
from judges.judge import Judge
from judges.models.redaction import Redactor, environment, holds_secret, read_key
from judges.protocol import Completion, FatalModelError, Reply, Token
from optimize.cli.tune import command as tune
from optimize.cli.verify import command as verify

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
            return error(int(fault), f"Refused: {shown} and {OTHER} too.", "faulty", None)
        return super()._faulty(fault, request, body)


@pytest.fixture
def careless() -> Iterator[OpenAIServer]:
    """Answers with the key it was shown, and fails the first few requests, each in its own way."""
    faults = dict(enumerate(KINDS, start=1))
    with Serving(Careless(judge=echoing, fault=lambda number, body: faults.get(number))) as server:
        yield server


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labels, pairs and a definition."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"d{document}s{system}",
            "group": f"d{document}",
            "system": f"s{system}",
            "context": f"Talk number {document} about the weather in town {document}.",
            "response": f"Reply {system}. " + "It rained and then it cleared up. " * system,
            "ratings": {"liveliness": 1 + (system + document) % 3},
        }
        for document in range(9)
        for system in range(3)
    ]
    pairs = [
        {"id": i, "prompt": f"p{i}", "response_a": f"good {i}", "response_b": f"bad {i}"}
        for i in range(12)
    ]
    for name, lines in (("labels.jsonl", rows), ("pairs.jsonl", pairs)):
        write_jsonl(name, lines)
    Path("own.yaml").write_text(DIMENSION)
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command with keys planted in its environment, as users give them."""
    keys = {"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY, "SOME_PROXY_TOKEN": OTHER}
    return run_python("-m", *arguments, env=keys)


def files() -> str:
    """All that every file under the folder holds."""
    whole = (path.read_bytes() for path in Path().rglob("*") if path.is_file())
    return "\n".join(one.decode("utf-8", "replace") for one in whole)


SCORE = ["judges", "score", "own.yaml", "--data", "labels.jsonl", "--out", "o.jsonl"]
COMMANDS = {
    "score with reasons": [*SCORE, "--rationale"],
    "score by probabilities": [*SCORE, "--weighted"],
    "score by samples": [*SCORE, "--samples", "2", "--temperature", "1"],
    "compare": ["judges", "compare", "tldr_concise", "--data", "pairs.jsonl", "--out", "v.csv"],
    "optimize": [
        *("optimize", "--dimension", "own.yaml", "--data", "labels.jsonl", "--out", "run"),
        *("--max-calls", "400", "--probes"),
    ],
    "verify": [
        *("optimize.verify", "own.yaml", "--data", "labels.jsonl", "--resume", "r.jsonl"),
        *("--report", "r.html"),
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_among_failures_and_echoes_writes_the_key_nowhere(
    careless: OpenAIServer, name: str
) -> None:
    done = run(*COMMANDS[name], "--lm", "openai/judge-1", "--api-base", careless.url, "--verbose")
    assert done.returncode == 0, done.stderr
    assert all(seen.headers["Authorization"] == f"Bearer {KEY}" for seen in careless.log)
    assert {seen.done for seen in careless.log} == {"answered", *KINDS}
    left = files() + done.stdout + done.stderr
    assert KEY not in left
    assert OTHER not in left
    # What repeated it was told and kept all the same.
    assert "Refused: Bearer [key] and [key] too.; attempt 1, the next in" in done.stderr
    assert "Authorization: Bearer [key] ([key])" in files()


@pytest.mark.parametrize(
    ("module", "lm"),
    [("judges", "openai/judge-1"), ("judges", "groq/judge-1"), ("optimize", "openai/judge-1")],
)
def test_a_refused_key_is_told_without_it(careless: OpenAIServer, module: str, lm: str) -> None:
    careless.key = "another"  # the refusal repeats the key it was shown
    ask = {"judges": SCORE, "optimize": COMMANDS["optimize"]}[module]
    done = run(*ask, "--lm", lm, "--api-base", careless.url, "--verbose")
    assert done.returncode == 1, done.stderr
    assert {seen.done for seen in careless.log} == {"401"}
    assert KEY not in files() + done.stdout + done.stderr
    assert "Traceback" in done.stderr  # --verbose shows where
    last = done.stderr.splitlines()[-1]
    assert "was not accepted" in last or "Incorrect API key provided: [key]" in last


def test_dspys_own_clients_write_it_nowhere_either(careless: OpenAIServer) -> None:
    ask = [*SCORE, "--lm", "groq/judge-1", "--api-base", careless.url, "--verbose"]
    done = run(*ask)
    assert done.returncode == 0, done.stderr
    assert KEY not in files() + done.stdout + done.stderr
    assert OTHER not in files() + done.stdout + done.stderr
    assert "Refused: Bearer [key] and [key] too." in done.stderr


def test_without_verbose_nothing_is_said_of_what_was_mended(careless: OpenAIServer) -> None:
    done = run(*SCORE, "--lm", "openai/judge-1", "--api-base", careless.url)
    assert done.returncode == 0
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["estimate", "judging"]


def test_a_placeholder_for_a_key_is_no_secret() -> None:
    # Servers on one's own machine take anything, and "1" is a rating.
    one = Completion(replies=(Reply(text="1"),), tokens_in=1, tokens_out=1, model="m")
    assert Redactor(["1"]).clean(one) == one


def test_tokens_that_spell_a_key_become_one_token() -> None:
    texts = ["Key: ", KEY[:5], KEY[5:20], KEY[20:], "\n", "4"]
    tokens = tuple(Token(text, {text: -0.5, KEY: -1.0}) for text in texts)
    one = Reply(text="".join(texts), tokens=tokens)
    (cleaned,) = Redactor([KEY]).clean(_completion(one)).replies
    assert cleaned.text == "Key: [key]\n4"
    assert "".join(token.text for token in cleaned.tokens) == cleaned.text
    assert [dict(token.top) for token in cleaned.tokens] == [
        {"Key: ": -0.5, "[key]": -1.0},
        {"[key]": 0.0},
        {"\n": -0.5, "[key]": -1.0},
        {"4": -0.5, "[key]": -1.0},
    ]


def test_a_key_cut_short_is_known_for_one() -> None:
    assert Redactor([OTHER]).remove_keys(f"Bearer {OTHER[:15]}") == "Bearer [key]"
    assert Redactor([OTHER]).remove_keys(f"{OTHER}{OTHER}!") == "[key][key]!"


def test_an_answer_without_secrets_is_left_alone() -> None:
    tokens = (Token("4", {"4": -0.1}),)
    one = _completion(Reply(text="Bearer of news sk-learn-models: 4", tokens=tokens))
    assert Redactor([KEY]).clean(one) == one


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "HF_TOKEN", "AZURE_OPENAI_API_KEY"])
def test_the_environments_keys_are_found_by_their_names(name: str) -> None:
    assert environment({name: " x\n", "PATH": "/bin", "KEYS": "y"}) == ["x"]


def test_a_key_with_a_line_end_is_trimmed_and_one_with_a_gap_refused() -> None:
    assert read_key("NONE_API_KEY", f"{KEY}\n") == KEY
    for broken in (f"{KEY[:8]}\n{KEY[8:]}", "“quoted-key”"):
        with pytest.raises(
            FatalModelError, match=r"NONE_API_KEY: holds what no key does"
        ) as caught:
            read_key("NONE_API_KEY", broken)
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
def test_an_address_that_holds_a_password_or_key_is_known(url: str, secret: bool) -> None:
    assert holds_secret(url) == secret


@pytest.mark.parametrize("base", ["http://me:secret@host/v1", "http://host/v1?api_key=secret"])
@pytest.mark.parametrize("ask", [SCORE, COMMANDS["optimize"], COMMANDS["verify"]])
def test_an_address_with_a_secret_is_refused_without_repeating_it(
    ask: list[str], base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = {"judges": main, "optimize": tune, "optimize.verify": verify}[ask[0]]
    assert command([*ask[1:], "--lm", "openai/judge-1", "--api-base", base]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--api-base holds a password or a key" in said
    assert "secret" not in said + files()


IN_TEXT = "The bearer said: sk-proj-a8Kq2Zx7Lm4Vt9Rb3Nc6_Xw5Hd1Jf0"


def secret_labels(share: float) -> None:
    """Labels of which so many hold what may be a key; the others, prose that looks like it."""
    rows = read_jsonl("labels.jsonl")
    for number, row in enumerate(rows):
        row["context"] += " Bearer certificates, sk-learn-compatible-estimators-for-everyone."
        if number < share * len(rows):
            row["context"] += IN_TEXT
    write_jsonl("labels.jsonl", rows)


@pytest.mark.parametrize("optimizer", ["rank", "bootstrap"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_run_on_texts_that_hold_keys_or_look_like_it_ends_with_its_judge(
    optimizer: str, share: float, careless: OpenAIServer
) -> None:
    secret_labels(share)
    careless.fault = lambda number, body: None
    ask = ["--dimension", "own.yaml", "--data", "labels.jsonl", "--out", "run"]
    ask += ["--lm", "openai/judge-1", "--api-base", careless.url, "--optimizer", optimizer]
    assert tune([*ask, "--max-calls", "400"]) == 0
    assert Path("run/report.html").exists()
    text = Path("run/judge.json").read_text()
    assert IN_TEXT not in text
    assert load("run").name == "liveliness"


def test_what_may_be_a_key_is_passed_over_as_a_demonstration() -> None:
    judge = load("own.yaml")
    demo = {"context": "Prose: Bearer certificates.", "response": "Yes.", "rating": 2}
    assert demo_bytes(judge.prompt, demo)
    assert demo_bytes(judge.prompt, {**demo, "context": IN_TEXT}) is None


def test_a_judge_is_written_without_what_may_be_a_key_and_says_so() -> None:
    demo = {"context": "Prose: Bearer certificates.", "response": "Yes.", "rating": 2}
    judge = load("own.yaml").with_prompt(
        instruction=f"Judge it. {IN_TEXT}", demos=[demo, {**demo, "context": IN_TEXT}]
    )
    judge = replace(judge, provenance={"data": {"name": IN_TEXT, "sha256": "0" * 64}})
    written, notes = judge.without_secrets()
    assert written.prompt.demos == (demo,)
    assert len(notes) == 2
    assert notes[0].startswith("1 of 2 demonstrations")
    path = written.save(Path("judge.json"))
    assert "sk-proj" not in path.read_text()
    assert load(path).prompt == written.prompt
    assert load("own.yaml").without_secrets() == (load("own.yaml"), ())


NAMED_KEY = "sk-proj-q7Zk2Xw9Lp4Tn8Vb5Rc3"
NO_KEY_THERE = {
    "a model's name": ["--lm", f"openai/{NAMED_KEY}"],
    "a model's whole name": ["--lm", NAMED_KEY],
    "an address": ["--lm", "openai/judge-1", "--api-base", NAMED_KEY],
    "an address's query": ["--lm", "openai/judge-1", "--api-base", f"http://h/v1?x={NAMED_KEY}"],
    "an address's user": ["--lm", "openai/judge-1", "--api-base", f"http://{NAMED_KEY}@h/v1"],
    "a model that is an address": ["--lm", f"openai/http://me:{NAMED_KEY}@127.0.0.1:9/v1"],
}
PROPOSER = {
    "the proposer's name": ["--proposer-lm", f"openai/{NAMED_KEY}"],
    "the proposer's address": ["--proposer-api-base", f"http://h/v1?key={NAMED_KEY}"],
}


@pytest.mark.parametrize(
    ("name", "ask", "flags"),
    [
        *((name, ask, NO_KEY_THERE[name]) for name in NO_KEY_THERE for ask in COMMANDS),
        *((name, "optimize", PROPOSER[name]) for name in PROPOSER),
    ],
)
def test_a_key_in_the_place_of_a_name_or_an_address_is_written_nowhere(
    name: str, ask: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = {"judges": main, "optimize": tune, "optimize.verify": verify}[COMMANDS[ask][0]]
    assert command([*COMMANDS[ask][1:], *flags, "--verbose"]) in (1, 2)
    out, err = capsys.readouterr()
    assert NAMED_KEY not in files() + out + err
    assert "key" in err


@pytest.mark.parametrize("base", ["http://me:{OTHER}@{host}", "http://{host}?api-key={OTHER}"])
@pytest.mark.parametrize("ask", ["score with reasons", "optimize"])
def test_a_key_inside_the_environments_address_is_written_nowhere(
    careless: OpenAIServer, ask: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = careless.url.removeprefix("http://")
    monkeypatch.setenv("OPENAI_BASE_URL", base.format(OTHER=OTHER, host=host))
    done = run(*COMMANDS[ask], "--lm", "openai/judge-1", "--verbose")
    # A user in the address and a key beside it: a request takes one of them.
    assert done.returncode == ("@" in base), done.stderr
    assert bool(careless.log) != ("@" in base)
    left = files() + done.stdout + done.stderr
    assert KEY not in left
    assert OTHER not in left


ESCAPES = "\x1b[31mred\x1b[0m \x9b2J \u202eevil\u202c \r gone"


def test_terminal_escapes_in_a_strangers_files_are_shown_and_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject = replace(load("own.yaml").subject, definition=ESCAPES, source=ESCAPES)
    judge = replace(Judge.of(subject), provenance={"note": ESCAPES, "why": ESCAPES})
    judge = judge.with_prompt(instruction=f"Judge. {ESCAPES}")
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
    write_jsonl("bad.jsonl", [{**rows[0], "ratings": {ESCAPES: ESCAPES}}])
    main(["show", "theirs.json"])
    main(["show", f"no{ESCAPES}such"])
    main(["score", "theirs.json", "--data", "labels.jsonl", "--out", "o.jsonl"])
    main(["score", "own.yaml", "--data", f"{ESCAPES}.jsonl", "--out", "o.jsonl"])
    main(["score", "own.yaml", "--data", "labels.jsonl", "--map", f"{ESCAPES}=x", "--out", "o.csv"])
    verify(["own.yaml", "--data", "labels.jsonl", "--markdown", "-"])
    verify(["own.yaml", "--data", "bad.jsonl"])
    tune(["--dimension", "own.yaml", "--data", "bad.jsonl"])
    tune(["--dimension", "own.yaml", "--data", "labels.jsonl", "--max-calls", "200"])
    for file in ("labels.jsonl", "bad.jsonl"):
        check(["check", file])
    out, err = capsys.readouterr()
    for mark in ("\x1b", "\x9b", "\u202e", "\r"):
        assert mark not in out + err
    assert "\\u001b[31mred" in out


def _completion(reply: Reply) -> Completion:
    return Completion(replies=(reply,), tokens_in=1, tokens_out=1, model="m")
