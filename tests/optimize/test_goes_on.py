"""A stopped run goes on by the same command: it ends as if it had never been stopped."""

import errno
import json
import random
import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_runs import run
from files import read_jsonl, write_jsonl
from openai_replies import follow
from openai_server import some_faults
from processes import start_command, wait_for_requests
from rating_files import weather_rows

from dspy_judges.__main__ import main
from judges.loading import load
from judges.tables.atomic_write import exclusive_lock
from optimize.tuning import folder as run_folder
from optimize.tuning.folder import RunConfig, Trials, open_run

DOCUMENTS, SYSTEMS, CONCURRENCY = 16, 5, 8
LM, ANOTHER = "openai/gpt-4.1-mini", "openai/gpt-4.1-nano"
# What differs between a run that was killed and one that was not: its bill and its time.
OF_THE_RUN = {
    *("seconds", "folder", "lm_calls", "proposer_calls", "cached_calls", "tokens", "spending"),
    *("cost_usd", "cost_unconfirmed_usd", "seconds_per_1000_rows", "latency_seconds"),
    *("started", "digest"),
}


def opinion(model, text):
    """What the summary is worth of 1, with an error that depends on the model and the prompt."""
    (worth,) = re.findall(r"Worth (\d) of 5", text)[-1:] or ["3"]
    error = random.Random(f"{model} {text}").randint(-2, 2)
    return min(0.9, max(0.1, (int(worth) + error) / 5 - 0.1))


@pytest.fixture
def server(openai_server, here, short_waits):
    """Two judges that err, and the labels that they are measured on."""
    worth = np.random.default_rng(5).integers(1, 6, size=(DOCUMENTS, SYSTEMS))
    fire = "Of {}: a fire broke out in the mill at night. Nobody was hurt."
    rows = [
        {"id": f"{d}-{s}", "group": f"d{d}", "system": f"s{s}", "relevance": int(worth[d, s])}
        | {"document": fire.format(d), "summary": f"A fire, says {s}. Worth {worth[d, s]} of 5."}
        for d in range(DOCUMENTS)
        for s in range(SYSTEMS)
    ]
    write_jsonl("labels.jsonl", rows)
    openai_server.models = ("gpt-4.1-mini", "gpt-4.1-nano")
    openai_server.judge = lambda body: follow(body, partial(opinion, body["model"]))
    return openai_server


LABELLED = ["--dimension", "relevance", "--data", "labels.jsonl"]
SEARCH = [*LABELLED, "--concurrency", str(CONCURRENCY)]
TUNE = [*SEARCH, "--lm", LM]
COMPARE = [*SEARCH, "--lm", LM, "--lm", ANOTHER]
PANEL = [*SEARCH, f"relevance@{LM}", f"relevance@{ANOTHER}"]
OF_COMMAND = {"tune": LABELLED, "compare": COMPARE, "panel": PANEL}


def error_of(command, *arguments, code=0):
    """The words of stderr of a command that ends with this code."""
    result = run(main, command, *arguments)
    assert result.code == code, result.stderr
    return result.err


def kill(server, number, *words):
    """Start a command, and kill -9 it once the server has seen so many requests in all."""
    running = start_command(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_requests(server, number, running)
    running.kill()
    running.wait()


def kill_at(server, command, *arguments, shares):
    """The summaries of a run that nothing stopped, and of one killed at these shares of it."""
    error_of(command, *arguments, "--out", "whole")
    total = len(server.log)
    server.log.clear()
    server.tokens_in = server.tokens_out = 0
    server.latency = 0.01
    for share in shares:
        kill(server, max(1, int(share * total)), command, *arguments, "--out", "killed")
    server.latency = 0.0
    error_of(command, *arguments, "--out", "killed")
    # What a kill caught on its way was answered and never read.
    assert server.n_answered.total() - len(server.n_answered) <= len(shares) * CONCURRENCY
    return summary("whole"), summary("killed")


def summary(folder):
    return json.loads(Path(folder, "summary.json").read_text())


def without_bill(value):
    """A summary, at any depth, without what depends on how often the run was started."""
    if isinstance(value, Mapping):
        return {k: without_bill(v) for k, v in value.items() if k not in OF_THE_RUN}
    return [without_bill(one) for one in value] if isinstance(value, list) else value


def test_a_killed_run_resumes_to_the_same_trials_and_judge(server):
    limit = ["--max-calls", "700"]
    whole, other = kill_at(server, "tune", *TUNE, *limit, shares=(0.02, 0.6))
    assert without_bill(other) == without_bill(whole)
    killed_trials, trials = (read_jsonl(f"{folder}/trials.jsonl") for folder in ("killed", "whole"))
    assert without_bill(killed_trials) == without_bill(trials)
    assert load("killed").prompt == load("whole").prompt
    files = [Path(folder, "judgements.jsonl").read_bytes() for folder in ("killed", "whole")]
    assert files[0] == files[1]
    # A request that was booked and not yet sent when the process died is counted all the same.
    n_calls = other["lm_calls"] + other["proposer_calls"]
    assert len(server.log) <= n_calls <= min(700, len(server.log) + 3 * CONCURRENCY)
    assert n_calls == sum(row["calls"] for row in other["spending"])


@pytest.mark.parametrize(
    ("command", "flags", "share"),
    [("compare", COMPARE, 0.7), ("panel", PANEL, 0.4)],
)
def test_a_killed_comparison_or_panel_resumes_to_the_same_figures(server, command, flags, share):
    server.fault, server.retry_after = some_faults(0.1, ("429", "500", "503", "drop")), "0.02"
    whole, other = kill_at(server, command, *flags, shares=(share,))
    assert without_bill(other) == without_bill(whole)
    if "judges" in whole:
        # Each counts the calls that were sent for it.
        n = DOCUMENTS * SYSTEMS
        assert min(row["lm_calls"] for row in whole["judges"]) >= n
        assert sum(row["lm_calls"] for row in other["judges"]) >= len(server.log)


def test_without_out_the_newest_unfinished_run_with_these_settings_continues(server):
    for seed in ("0", "1", "0", "2"):
        error_of("tune", *LABELLED, "--seed", seed)
    for number in (1, 2, 3):
        Path(f"runs/relevance-00{number}/report.html").unlink()
    Path("runs/relevance-004/config.json").write_text("{")
    for folder in ("003", "001", "005"):
        result = run(main, "tune", *LABELLED)
        assert result.out.endswith(f"Its errors: runs/relevance-{folder}/report.html")
        assert ("continues with" in result.err) == (folder != "005")


def test_runs_that_start_at_the_same_moment_have_different_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def start(number):
        config = RunConfig(command=f"command {number}", settings={}, data={})
        with open_run(None, "relevance", config, print) as folder:
            return folder

    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(start, range(40))}) == 40


@pytest.mark.parametrize("command", OF_COMMAND)
def test_finished_runs_and_runs_with_other_settings_are_not_touched(server, command):
    flags = [*OF_COMMAND[command], "--out", "run"]
    error_of(command, *flags)

    def refuse(message, *changes):
        before = {path: path.read_bytes() for path in Path("run").iterdir()}
        n_sent = len(server.log)
        assert message in error_of(command, *flags, *changes, code=1)
        assert {path: path.read_bytes() for path in Path("run").iterdir()} == before
        assert len(server.log) == n_sent

    refuse("run holds a finished run: name another --out")
    Path("run/report.html").unlink()
    way_out = "name another --out, or delete the folder"
    refuse(f"with other settings (--seed was 0 and is 3): {way_out}", "--seed", "3")
    rows = Path("labels.jsonl").read_text().splitlines(keepends=True)
    Path("labels.jsonl").write_text("".join([*rows[1:], rows[0]]))
    refuse(f"(it had other labels): {way_out}")
    config = json.loads(Path("run/config.json").read_text())
    for other, message in (
        (config | {"command": "another"}, f"(it was started by another): {way_out}"),
        ({"command": "optimize.tune", "settings": 3}, ": run"),
    ):
        Path("run/config.json").write_text(json.dumps(other))
        refuse(message)


RUNS = ("run", "whole")


def test_after_a_full_disk_the_run_resumes_to_the_same_result(here, monkeypatch):
    flags = ["--dimension", "relevance", "--max-calls", "400"]
    flags += ["--data", write_jsonl("few.jsonl", weather_rows(18, 5))]
    write = run_folder.write_atomically

    def full(path, content, *, overwrite):
        if path.name == "summary.json":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, content, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_atomically", full)
        result = run(main, "tune", *flags, "--out", "run")
    assert result.code == 1
    last = result.stderr.splitlines()[-1]
    assert last == "dspy-judges tune: run/summary.json: No space left on device"
    with Path("run/trials.jsonl").open("a") as trials:
        trials.write('{"trial": 1, "sta')  # as a kill within a write leaves it
    with exclusive_lock(Path("run")):
        assert "is in use by another run" in error_of("tune", *flags, "--out", "run", code=1)
    assert "continues with run" in error_of("tune", *flags, "--out", "run")
    error_of("tune", *flags, "--out", "whole")
    assert without_bill(summary("run")) == without_bill(summary("whole"))
    judges = [without_bill(json.loads(Path(name, "judge.json").read_text())) for name in RUNS]
    assert judges[0] == judges[1]
    assert len({Path(name, "trials.jsonl").read_bytes() for name in RUNS}) == 1
    # What the embedded model says is kept nowhere.
    assert not Path("run/replies.sqlite").exists()


def test_trials_are_not_written_through_a_link(tmp_path):
    (victim := tmp_path / "victim").write_text("kept")
    (path := tmp_path / "trials.jsonl").symlink_to(victim)
    Trials(path).record("search")
    assert (victim.read_text(), path.read_text().count("search")) == ("kept", 1)
