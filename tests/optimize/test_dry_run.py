"""What a run is planned to take before its first request, and what it then takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

from optimize.__main__ import command
from optimize.run.labels import prepare
from optimize.run.settings import read_settings

LM = "openai/gpt-4.1-mini"
RUN = ["--dimension", "relevance", "--lm", LM]


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert command([*arguments, "--dry-run", "--json"]) == 0
    estimate: dict[str, Any] = json.loads(capsys.readouterr().out)
    return estimate


def test_a_dry_run_needs_no_key_sends_nothing_and_writes_nothing(
    tmp_path: Path,
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command([*RUN, "--max-cost", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for word in ("search", "proposals", "dev", "test", "planned", "choose", "limit: $2.00"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 80
    assert not openai_server.log
    assert not list(tmp_path.iterdir())


def test_more_dollars_are_planned_to_be_spent_and_never_more_than_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = []
    for limit in (0.5, 1.0, 2.0):
        planned.append(dry_run(capsys, *RUN, "--max-cost", str(limit))["cost_usd"]["expected"])
        assert planned[-1] <= limit
    assert planned == sorted(planned)
    without = dry_run(capsys, *RUN)
    assert without["cost_usd"]["expected"] <= without["limits"]["planned_cost_usd"]


def test_without_a_price_dollars_are_null_and_without_a_server_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = dry_run(capsys, "--dimension", "relevance", "--lm", "openai/unheard-of")
    assert unknown["cost_usd"] == {"expected": None}
    assert unknown["tokens_in"]["expected"] > 0
    free = dry_run(capsys, "--dimension", "relevance")
    assert free["cost_usd"] == {"expected": 0}
    assert {"search", "dev", "test", "probes"} <= {row["purpose"] for row in free["spending"]}


def test_pairs_are_asked_in_both_orders(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = dry_run(capsys, "--pairwise", "tldr_concise", "--lm", LM, "--max-calls", "3000")
    rows = {row["purpose"]: row for row in estimate["spending"]}
    # 16 of the starter set's pairs measure: two judges, two orders.
    assert rows["test"]["calls"] == 16 * 2 * 2


def test_what_a_run_would_refuse_a_dry_run_refuses_in_the_same_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unpriced = ["--dimension", "relevance", "--lm", "openai/unheard-of", "--max-cost", "1"]
    lines = []
    for more in ([], ["--dry-run"]):
        assert command([*unpriced, "--out", "nowhere", *more]) == 2
        lines.append(capsys.readouterr().err.splitlines()[-1])
    assert lines[0] == lines[1]
    assert "--max-cost: the price of openai/unheard-of is not known" in lines[0]


def test_documents_are_counted_once_though_unseen_systems_share_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = dry_run(capsys, "--dimension", "relevance")
    settings = read_settings({"dimension": "relevance"})
    measured = prepare(settings).labels.measured
    assert len(measured) == 2
    assert counts["documents"]["test"] == len(measured["test"].documents)
    assert sum(counts["documents"].values()) == counts["data"]["n_documents"]
