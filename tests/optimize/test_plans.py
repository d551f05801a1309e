"""The sampling plan of a run: the one that is named, or the model's default."""

from pathlib import Path
from typing import Any

import pytest

from judges import load
from judges.scoring import SamplingPlan
from optimize.__main__ import command
from optimize.inputs.flags import SettingsError
from optimize.tuning.settings import read_settings


def test_the_named_plan_is_followed_and_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--dimension", "relevance", "--max-calls", "400", "--out", "run"]
    assert command([*flags, "--plan", "mean", "--samples", "3"]) == 0
    assert load(tmp_path / "run").plan == SamplingPlan(kind="mean", samples=3, temperature=1.0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"plan": "mean"}, "given together"),
        ({"samples": 3}, "given together"),
        ({"plan": "one", "samples": 3}, "given together"),
        ({"plan": "best"}, "choose from one, mean, weighted"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings({"dimension": "relevance", **flags})


@pytest.mark.parametrize("risk", [0, -0.1, 0.51, True, "much"])
def test_a_risk_is_above_0_and_at_most_one_half(risk: Any) -> None:
    assert read_settings({"dimension": "relevance", "risk": 0.5}).risk == 0.5
    with pytest.raises(SettingsError, match="--risk"):
        read_settings({"dimension": "relevance", "risk": risk})
