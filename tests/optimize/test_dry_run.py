"""What a run is said to take before its first request, and what it then takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

from optimize.cli.tune import command

LM = "openai/gpt-4.1-mini"
RUN = ["--dimension", "relevance", "--lm", LM]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert command([*arguments, "--dry-run", "--json"]) == 0
    estimate: dict[str, Any] = json.loads(capsys.readouterr().out)
    return estimate


def test_a_dry_run_needs_no_key_sends_nothing_and_writes_nothing(
    here: Path,
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command([*RUN, "--max-cost", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for word in ("search", "proposals", "dev", "test", "expected", "at most", "limit: $2.00"):
        assert word in out
    assert "choose" in out
    assert "requests at a time and 0.5 to 3 s each" in out
    assert max(map(len, out.splitlines())) <= 80
    assert not openai_server.log
    assert not list(here.iterdir())


def test_a_run_stays_within_what_was_said_before_it(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.models = ("gpt-4.1-mini",)
    estimate = dry_run(capsys, *RUN, "--max-cost", "1")
    assert command([*RUN, "--max-cost", "1", "--out", "run"]) == 0
    err = capsys.readouterr().err
    assert "expected: about " in err.partition("round 1")[0]
    assert "of $1.00\n" in err
    summary = json.loads((here / "run" / "summary.json").read_text(encoding="utf-8"))
    cost = estimate["cost_usd"]
    assert cost["low"] <= cost["expected"] <= cost["high"] <= 1
    assert cost["low"] <= summary["cost_usd"] <= cost["high"]
    calls = summary["lm_calls"] + summary["proposer_calls"]
    assert estimate["calls"]["low"] <= calls <= estimate["calls"]["high"]
    # Those that are certain are exact: both judges on test, where a tuned one is measured.
    by_purpose = {row["purpose"]: row["calls"] for row in estimate["spending"]}
    spent = {row["purpose"]: row["calls"] for row in summary["spending"]}
    assert spent["test"] in (by_purpose["test"], by_purpose["test"] // 2)


def test_the_sums_by_purpose_are_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = dry_run(capsys, *RUN, "--max-calls", "2000")
    rows = estimate["spending"]
    for name in ("calls", "tokens_in", "tokens_out"):
        assert sum(row[name] for row in rows) == estimate[name]["expected"]
    assert estimate["cost_usd"]["expected"] == pytest.approx(
        sum(row["cost_usd"] for row in rows), abs=1e-5
    )
    assert estimate["calls"]["high"] <= 2000
    assert estimate["limits"]["max_calls"] == 2000
    assert estimate["limits"]["max_cost"] is None


def test_more_dollars_are_expected_to_be_spent_and_never_more_than_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spent = []
    for limit in (0.5, 1.0, 2.0):
        cost = dry_run(capsys, *RUN, "--max-cost", str(limit))["cost_usd"]
        assert cost["expected"] <= cost["high"] <= limit
        spent.append(cost["expected"])
    assert spent == sorted(spent)


def test_a_free_judges_proposer_is_expected_to_take_no_more_than_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = ("--dimension", "relevance", "--lm", "openai/own", "--price", "0,0", "--proposer-lm", LM)
    limit = dry_run(capsys, *own)["cost_usd"]["expected"] / 2
    cost = dry_run(capsys, *own, "--max-cost", str(limit))["cost_usd"]
    assert cost["low"] <= cost["expected"] <= cost["high"] <= limit


def test_without_a_price_dollars_are_null_and_without_a_server_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = dry_run(capsys, "--dimension", "relevance", "--lm", "openai/unheard-of")
    assert unknown["cost_usd"] == {"expected": None, "low": None, "high": None}
    assert unknown["tokens_in"]["expected"] > 0
    free = dry_run(capsys, "--dimension", "relevance")
    assert free["cost_usd"] == {"expected": 0, "low": 0, "high": 0}
    assert free["concurrency"] == 1
    assert {"search", "dev", "test", "probes"} <= {row["purpose"] for row in free["spending"]}


def test_without_a_limit_the_planned_dollars_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = dry_run(capsys, *RUN)
    planned = estimate["limits"]["planned_cost_usd"]
    assert estimate["cost_usd"]["expected"] <= planned
    assert command([*RUN, "--dry-run"]) == 0
    assert f"limit: none given, planned for ${planned:.2f}" in capsys.readouterr().out


def test_pairs_are_asked_in_both_orders(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = dry_run(capsys, "--pairwise", "tldr_concise", "--lm", LM, "--max-calls", "3000")
    rows = {row["purpose"]: row for row in estimate["spending"]}
    # 16 of the starter set's pairs measure: two judges, two orders.
    assert rows["test"]["calls"] == 16 * 2 * 2


def test_what_a_run_would_refuse_a_dry_run_refuses_in_the_same_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = []
    for more in ([], ["--dry-run"]):
        assert command(["--dimension", "relevance", "--lm", "openai/unheard-of", "--max-cost", "1",
                        "--out", "nowhere", *more]) == 2  # fmt: skip
        lines.append(capsys.readouterr().err.splitlines()[-1])
    assert lines[0] == lines[1]
    assert "--max-cost: the price of openai/unheard-of is not known" in lines[0]


def test_a_run_that_was_begun_is_estimated_with_its_own_settings(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.models = ("gpt-4.1-mini",)
    assert command([*RUN, "--max-calls", "900", "--seed", "3", "--out", "run"]) == 0
    asked = len(openai_server.log)
    capsys.readouterr()
    before = sorted((path, path.stat().st_mtime_ns) for path in (here / "run").iterdir())
    larger = dry_run(capsys, "--resume", "--out", "run", "--max-calls", "1200")
    assert larger == dry_run(capsys, *RUN, "--max-calls", "1200", "--seed", "3")
    assert len(openai_server.log) == asked
    assert sorted((path, path.stat().st_mtime_ns) for path in (here / "run").iterdir()) == before
