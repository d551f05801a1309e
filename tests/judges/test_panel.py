"""Several judges joined in one frozen judge: how scores are joined, frozen and refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
from judge_cases import COHERENCE, RELEVANCE, TLDR_CONCISE, reprompt
from refusals import refuses

from judges.client import Client, open_model
from judges.judge import Judge
from judges.judgement import Judgement, Preference
from judges.loading import load
from judges.panel import Member, Panel, PanelError
from judges.protocol import FatalModelError

UNIT: Any = {"slope": 0.25, "intercept": -0.25}  # 1 to 5 onto 0 to 1
DOCUMENT = "A fire broke out in the old mill at night. Nobody was hurt, the owner said."
ROWS = [
    {"document": DOCUMENT, "summary": "A fire broke out in the old mill."},
    {"document": DOCUMENT, "summary": "the owner the owner said mill"},
    {"document": DOCUMENT, "summary": "Nobody was hurt in the fire."},
]
RATES, COMPARES = Judge.of(RELEVANCE), Judge.of(TLDR_CONCISE)


def member(name: str, weight: float = 1.0, judge: Any = RATES, **line: float) -> Member:
    return Member(name=name, weight=weight, judge=judge, **(line or UNIT))


def pair_member(name: str, weight: float = 1.0, judge: Any = COMPARES, **line: float) -> Member:
    return Member(name=name, weight=weight, judge=judge, **line)


# Another definition of the same dimension, which reads the same texts.
COHERENT = Judge.of(replace(COHERENCE, name="relevance"))
MEMBERS = [member("relevance", 3.0), member("coherence", 1.0, COHERENT)]
PANEL = Panel.join(RELEVANCE, MEMBERS)


def test_a_panels_score_is_the_weighted_mean_of_its_members():
    # (3 * (2 - 1) / 4 + 1 * (4 - 1) / 4) / 4 = 0.375
    result: Any = PANEL.combine([Judgement(score=2.0), Judgement(score=4.0)])
    assert result.score == pytest.approx(0.375)
    assert result.members == {"relevance": 2.0, "coherence": 4.0}
    failure: Any = PANEL.combine([Judgement(score=2.0), Judgement.failed("no reply")])
    assert failure.failure == "member coherence: no reply"
    assert math.isnan(failure.score)


REFUSED = [
    (RELEVANCE, [], "a panel has 1 to 64 members"),
    (RELEVANCE, [member("a"), member("a")], "with different names; this one has 2: a, a"),
    (RELEVANCE, [member("inner", judge=PANEL)], "inner is Panel.* not a Judge; join the members"),
    (RELEVANCE, [member("a", judge=Judge.of(COHERENCE))], "member a rates coherence, and the"),
    (RELEVANCE, [member("a", judge=COMPARES)], "member a compares each summary by"),
    (RELEVANCE, [member("a", math.nan)], "member a has the weight nan"),
    # Of such the sum of products has no digit left.
    (RELEVANCE, [member("a", 5e-324)], "member a has the weight 5e-324"),
    # Margins keep their sign and their bounds.
    (TLDR_CONCISE, [pair_member("a", slope=2.0)], "and the line"),
    (TLDR_CONCISE, [pair_member("a", intercept=0.5)], "and the line"),
]


@pytest.mark.parametrize(("subject", "members", "why"), REFUSED)
def test_judges_that_cannot_be_joined_are_refused_in_a_line(subject, members, why):
    with refuses(PanelError, why):
        Panel.join(subject, members)


def test_swapping_the_sides_swaps_a_panels_verdict():
    good, bad = "A fire broke out in the old mill. Nobody was hurt.", "the owner the"
    second = reprompt(COMPARES, instruction="Which is the more precise and concise summary?")
    panel: Any = Panel.join(TLDR_CONCISE, [pair_member("a", 2.0), pair_member("b", 1.0, second)])
    judges: Any = (panel, COMPARES, second)
    verdict, *singles = (each(post=DOCUMENT, summary_a=good, summary_b=bad) for each in judges)
    assert verdict.margin == pytest.approx((2 * singles[0].score + singles[1].score) / 3)
    assert verdict.margin == pytest.approx((verdict.margin_ab + verdict.margin_ba) / 2)
    mirror = panel(post=DOCUMENT, summary_a=bad, summary_b=good)
    assert (verdict.preferred, mirror.preferred) == ("A", "B")
    assert mirror.margin == pytest.approx(-verdict.margin)


@pytest.mark.parametrize(
    ("margins", "preferred"),
    [
        (((1.0, 1.0), (-1.0, 1.0)), "tie"),  # in the order ba A wins by 1, in ab neither
        (((1.0, 1.0), (1.0, 1.0)), "A"),
    ],
)
def test_members_that_follow_the_position_make_a_tie(margins, preferred):
    verdicts = [Preference(margin=(ab + ba) / 2, margin_ab=ab, margin_ba=ba) for ab, ba in margins]
    panel = Panel.join(TLDR_CONCISE, [pair_member("a"), pair_member("b")])
    result: Any = panel.combine(verdicts)
    assert result.preferred == preferred


def test_a_strangers_file_chooses_no_model_and_no_endpoint(tmp_path):
    local = member("local", judge=replace(RATES, lm="openai/http://evil/model"))
    panel: Any = load(Panel.join(RELEVANCE, [member("own"), local]).save(tmp_path / "judge.json"))
    with pytest.raises(FatalModelError, match="not a plain PROVIDER/NAME"):
        panel.check_destination()


def test_members_at_two_addresses_are_not_asked_by_one_client():
    here, there = (
        RATES.with_model("openai/m", api_base=f"http://localhost:{port}/v1") for port in (1, 2)
    )
    panel = Panel.join(RELEVANCE, [member("a", judge=here), member("b", judge=there)])
    with pytest.raises(PanelError, match="asks several models"):
        panel.clients(Client(open_model("openai/m", api_base="http://localhost:1/v1")))


def test_an_openai_address_gets_no_other_providers_key(monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key")
    members = [member(lm, judge=RATES.with_model(lm)) for lm in ("openai/own", "azure/other")]
    panel = Panel.join(RELEVANCE, members).with_model(api_base="http://localhost:1/v1")
    with panel.open_client() as client:
        endpoints = [asker.model.endpoint for asker in panel.clients(client)]
    assert endpoints == ["http://localhost:1/v1", "https://me.openai.azure.com"]
