"""Replies that runs share: the same request in another run is not paid again."""

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from judges.client.cache import FILE, ReplyCache, default_folder, open_cache
from judges.client.journal import describe
from openai_replies import Body
from openai_server import OpenAIServer
from processes import until

import judges
from dspy_judges.errors import OptionError
from judges.__main__ import main
from judges.client.protocol import Completion, Reply
from judges.scoring import SamplingPlan
from optimize.cli.tune import command

ROWS = pd.DataFrame(
    {"document": [f"D{i}." for i in range(6)], "summary": [f"S{i}" for i in "abcdef"]}
)
LM = "openai/judge-1"


def completion(text: str = "4") -> Completion:
    return Completion(replies=(Reply(text=text),), tokens_in=9, tokens_out=1, model="m")


def key(number: int) -> str:
    return f"{number:064x}"


def put(cache: ReplyCache, number: int, text: str = "4") -> None:
    cache.put(key(number), completion(text), endpoint="http://127.0.0.1/v1", model="m")


def scores(cache: Path, **options: Any) -> list[float]:
    """Of each row, by the judge's one reply."""
    return list(judges.load("relevance").score(ROWS, **{"lm": LM, "cache": cache, **options}))


def test_a_request_of_another_run_is_not_paid_again(
    openai_server: OpenAIServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = tmp_path / "rows.jsonl"
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "cache"))
    ROWS.to_json(data, orient="records", lines=True)
    records, outputs = [], []
    for name in ("a.jsonl", "b.jsonl"):
        files = ["--data", str(data), "--out", str(tmp_path / name)]
        assert main(["score", "relevance", *files, "--lm", LM, "--json"]) == 0
        captured = capsys.readouterr()
        records.append(json.loads(captured.out))
        outputs.append((tmp_path / name).read_text())
        line = next(line for line in captured.err.splitlines() if "reply cache" in line)
        assert line.startswith(f"reply cache: {6 * len(outputs) - 6} of 6 requests answered")
    assert len(openai_server.log) == 6
    assert outputs[0] == outputs[1]
    paid = [(record["lm_calls"], record["cached_calls"]) for record in records]
    assert paid == [(6, 0), (0, 6)]
    assert records[1]["tokens"] == {"in": 0, "out": 0}
    # The journal of the second is whole, and tells what was paid.
    summary = describe(tmp_path / "b.jsonl.replies.jsonl")
    assert (summary.n_requests, summary.n_cached) == (6, 6)


def sampled(cache: Path, seed: int = 0) -> list[float]:
    """Each row's mean of five samples."""
    judge = replace(
        judges.load("relevance"), lm=LM, plan=SamplingPlan(kind="mean", samples=5, temperature=1.0)
    )
    rows = ROWS.to_dict("records")
    return [one.score for one in judge.judge_all(rows, cache=cache, concurrency=1, seed=seed)]


@pytest.mark.parametrize("heeds_n", [True, False])
def test_samples_are_the_same_ones_and_another_seed_asks_anew(
    openai_server: OpenAIServer, tmp_path: Path, heeds_n: bool
) -> None:
    numbers = itertools.count()
    openai_server.heeds_n = heeds_n
    openai_server.judge = lambda body: [
        str(next(numbers) % 5 + 1) for _ in range((body.get("n") or 1) if heeds_n else 1)
    ]
    first = sampled(tmp_path)
    n_sent = len(openai_server.log)
    assert sampled(tmp_path) == first
    assert len(openai_server.log) == n_sent
    # Of five replies in a row each rating is one: no sample is a copy of another.
    assert first == [3.0] * len(ROWS)
    sampled(tmp_path, seed=1)
    assert len(openai_server.log) == 2 * n_sent


def test_another_model_limit_or_address_asks_anew(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.models = ("judge-1", "judge-2")
    scores(tmp_path)
    scores(tmp_path, lm="openai/judge-2")
    scores(tmp_path, max_tokens=99)
    scores(tmp_path, api_base=openai_server.url.replace("127.0.0.1", "localhost"))
    assert len(openai_server.log) == 4 * len(ROWS)


@pytest.mark.parametrize("fault", ["garbage", "refusal", "filtered", "empty", "truncated"])
@pytest.mark.filterwarnings("ignore::judges.judge.FailedJudgementWarning")
def test_what_no_rating_could_be_read_from_is_asked_again(
    openai_server: OpenAIServer, tmp_path: Path, fault: str
) -> None:
    openai_server.fault = lambda number, body: fault
    scores(tmp_path)
    openai_server.fault = lambda number, body: None
    n_sent = len(openai_server.log)
    again = scores(tmp_path)
    assert len(openai_server.log) == n_sent + len(ROWS)
    assert all(1 <= score <= 5 for score in again)


def test_the_file_holds_no_request_and_is_its_users_alone(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "cache"
    scores(folder)
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"judge-1" in content
    assert b"D1." not in content
    assert b"sk-local" not in content
    if sys.platform != "win32":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_embedded_model_and_recordings_have_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "cache"))
    judges.load("relevance").score(ROWS)
    assert not (tmp_path / "cache").exists()


def test_the_users_folder_stands_unless_the_environment_or_the_user_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "dspy-judges"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "dspy-judges"
    assert open_cache() is None  # DSPY_JUDGES_CACHE=none, as all tests have it
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "variable"))
    for name, folder in ((None, "variable"), (tmp_path / "named", "named")):
        cache = open_cache(name)
        assert cache is not None
        assert cache.folder == tmp_path / folder
        cache.close()


def test_a_named_folder_that_cannot_be_used_is_refused_and_the_users_own_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"the reply cache .*file cannot be used"):
        open_cache(tmp_path / "file")
    monkeypatch.delenv("DSPY_JUDGES_CACHE")
    monkeypatch.setattr("judges.client.cache.default_folder", lambda: tmp_path / "file")
    assert open_cache() is None


def test_a_damaged_file_costs_replies_and_no_run(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    scores(tmp_path)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content.replace(b'"text":"', b'"text":"1'))
    assert all(1 <= score <= 5 for score in scores(tmp_path))
    assert len(openai_server.log) == 2 * len(ROWS)


def test_beyond_its_size_the_oldest_replies_go(tmp_path: Path) -> None:
    with ReplyCache(tmp_path, max_bytes=400_000) as cache:
        for number in range(100):
            put(cache, number, "x" * 5000)
    with ReplyCache(tmp_path, max_bytes=400_000) as cache:
        kept = [number for number in range(100) if cache.get(key(number))]
        assert kept == list(range(100 - len(kept), 100))
        assert 40 < len(kept) < 80
    oldest, *others = kept
    with ReplyCache(tmp_path, max_bytes=400_000) as cache:
        time.sleep(0.01)
        assert cache.get(key(oldest))
    with ReplyCache(tmp_path, max_bytes=400_000) as cache:
        for number in range(100, 140):
            put(cache, number, "x" * 5000)
    with ReplyCache(tmp_path) as cache:
        assert cache.get(key(oldest))  # of late it was of use
        assert cache.get(key(others[0])) is None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_000_000


WRITER = """
import sys
from pathlib import Path
from judges.client.cache import ReplyCache
from judges.client.protocol import Completion, Reply
cache = ReplyCache(Path(sys.argv[1]))
print("open", flush=True)
for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    replies = (Reply(text=f"reply {number}"),)
    answer = Completion(replies=replies, tokens_in=1, tokens_out=1, model="m")
    cache.put(f"{number:064x}", answer, endpoint="http://127.0.0.1/v1", model="m")
cache.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_processes_share_it_and_a_killed_one_harms_nobody(tmp_path: Path) -> None:
    def start(first: int, count: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(first), str(count)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
        }
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    writers = [start(1000 * number, 300) for number in range(3)]
    victim = start(10_000, 10**6)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "open\n"
    with ReplyCache(tmp_path) as cache:
        until(lambda: cache.get(key(10_000)) is not None)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    with ReplyCache(tmp_path) as cache:
        for number in (0, 299, 1000, 1299, 2000, 2299, 10_000):
            result = cache.get(key(number))
            assert result is not None
            assert result.replies[0].text == f"reply {number}"
        put(cache, 1)


def test_a_second_run_has_the_same_trials_and_pays_nothing(
    openai_server: OpenAIServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DSPY_JUDGES_CACHE", "cache")
    openai_server.models = ("gpt-4.1-mini",)
    flags = ["--dimension", "relevance", "--lm", "openai/gpt-4.1-mini", "--max-calls", "800"]
    summaries, trials = [], []
    for out in ("first", "second"):
        assert command([*flags, "--out", out]) == 0
        summaries.append(json.loads(Path(out, "summary.json").read_text()))
        lines = Path(out, "trials.jsonl").read_text().splitlines()
        trials.append([without_seconds(line) for line in lines])
    assert trials[0] == trials[1]
    n_sent = len(openai_server.log)
    assert summaries[0]["lm_calls"] + summaries[0]["proposer_calls"] == n_sent
    second = summaries[1]
    assert (second["lm_calls"], second["proposer_calls"], second["cost_usd"]) == (0, 0, 0.0)
    assert second["cached_calls"] == n_sent
    for name in ("seed_judge", "tuned_judge", "gain", "shipped", "why"):
        assert second[name] == summaries[0][name]
    assert f"reply cache: {n_sent:,} of {n_sent:,}" in capsys.readouterr().err


def without_seconds(line: str) -> Body:
    trial: Body = json.loads(line)
    return {name: value for name, value in trial.items() if name != "seconds"}


def test_a_batch_queues_nothing_that_an_earlier_run_has_asked(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "rows.jsonl"
    ROWS[:4].to_json(data, orient="records", lines=True)
    flags = ["score", "relevance", "--lm", LM]
    assert main([*flags, "--data", str(data), "--out", str(tmp_path / "few.jsonl")]) == 0
    ROWS.to_json(data, orient="records", lines=True)
    files = ["--data", str(data), "--out", str(tmp_path / "out.jsonl")]
    for step in ("submit", "status", "collect"):
        assert main([*flags, *files, "--batch-api", step]) == 0
    part = tmp_path / "out.jsonl.batch" / "requests.jsonl"
    assert len(part.read_text().splitlines()) == 2
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 6
