"""Several judges joined in one frozen judge: how scores are joined, frozen and refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prompts import prompted

from judges import frozen
from judges.catalog import COHERENCE, RELEVANCE, TLDR_CONCISE
from judges.dimension import Dimension
from judges.frozen import FrozenJudgeError, PanelFile
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.loading import load
from judges.panel import Member, Panel, PanelError
from judges.protocol import FatalModelError

UNIT: Any = {"slope": 0.25, "intercept": -0.25}  # 1 to 5 onto 0 to 1
DOCUMENT = "A fire broke out in the old mill at night. Nobody was hurt, the owner said."
ROWS = [
    {"id": "1", "document": DOCUMENT, "summary": "A fire broke out in the old mill."},
    {"id": "2", "document": DOCUMENT, "summary": "the owner the owner said mill"},
    {"id": "3", "document": DOCUMENT, "summary": "Nobody was hurt in the fire."},
]
GRADED = Dimension(
    name="helpfulness",
    definition="how much it helps",
    inputs={"summary": "the summary"},
    anchors=dict.fromkeys(range(11), ""),
    instruction="Rate it from 0 to 10.",
)


def asked(name: str, weight: float = 1.0, judge: Judge | None = None) -> Member:
    return Member(name=name, weight=weight, judge=judge or Judge.of(RELEVANCE), **UNIT)


PANEL = Panel.join(
    RELEVANCE, [asked("relevance", 3.0), asked("coherence", 1.0, Judge.of(COHERENCE))]
)


def test_a_score_is_the_weighted_mean_of_the_mapped_scores() -> None:
    # (3 * (2 - 1) / 4 + 1 * (4 - 1) / 4) / 4 = 0.375
    joined = PANEL.combine([Judgement(score=2.0), Judgement(score=4.0)])
    assert joined.score == pytest.approx(0.375)
    assert joined.members == {"relevance": 2.0, "coherence": 4.0}


def test_where_a_member_gives_no_score_the_judgement_fails_and_names_it() -> None:
    joined = PANEL.combine([Judgement(score=2.0), Judgement.failed("no reply")])
    assert joined.failure == "member coherence: no reply"
    assert math.isnan(joined.score)


def test_frozen_it_scores_row_by_row_and_in_batches_the_same(tmp_path: Path) -> None:
    panel = load(PANEL.save(tmp_path / "judge.json"))
    assert panel == PANEL
    alone = [panel(**{name: row[name] for name in panel.texts}).score for row in ROWS]
    assert alone == list(panel.score(pd.DataFrame(ROWS)))
    assert alone == [said.score for said in PANEL.judge_all(ROWS)]
    assert len(set(alone)) == len(ROWS)


def test_a_member_altered_by_a_letter_is_refused(tmp_path: Path) -> None:
    path = PANEL.save(tmp_path / "judge.json")
    document = json.loads(path.read_text())
    document["members"][0]["judge"]["subject"]["name"] += "X"
    path.write_text(json.dumps(document))
    with pytest.raises(FrozenJudgeError, match="the digest does not match"):
        load(path)
    document["digest"] = frozen.digest(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FrozenJudgeError, match=r"at `.*judge\.subject\.name`"):
        load(path)


def test_a_panel_in_a_panel_is_refused_in_code_and_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(PanelError, match="member inner is a panel itself"):
        Panel.join(RELEVANCE, [asked("inner", judge=PANEL)])
    document = json.loads(PANEL.dumps())
    document["members"][0]["judge"] = json.loads(PANEL.dumps())
    document["digest"] = frozen.digest(document)
    with pytest.raises(FrozenJudgeError, match="unknown field `members`"):
        frozen.loads(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "a panel has 1 to 64 members"),
        ([asked("a"), asked("a")], "with different names; this one has 2: a, a"),
        ([asked("a", judge=Judge.of(TLDR_CONCISE))], "member a compares each summary, and the"),
        ([asked("a", judge=Judge.of(GRADED))], "member a rates from 0 to 10, and the"),
        ([asked("a", 0.0)], "member a has the weight 0.0"),
        ([asked("a", math.nan)], "member a has the weight nan"),
        # Of such the sum of products has no digit left.
        ([asked("a", 5e-324)], "member a has the weight 5e-324"),
    ],
)
def test_judges_that_cannot_be_joined_are_refused_in_a_line(
    members: list[Member], message: str
) -> None:
    with pytest.raises(PanelError, match=message) as refusal:
        Panel.join(RELEVANCE, members)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("line", [{"slope": 2.0}, {"intercept": 0.5}, {"slope": -1.0}])
def test_a_line_of_margins_keeps_the_sign_and_the_bounds(line: Any) -> None:
    judge = Judge.of(TLDR_CONCISE)
    with pytest.raises(PanelError, match="has the line"):
        Panel.join(TLDR_CONCISE, [Member(name="a", weight=1.0, judge=judge, **line)])


PAIR = {
    "post": DOCUMENT,
    "summary_a": "A fire broke out in the old mill. Nobody was hurt.",
    "summary_b": "the owner the",
}


def test_margins_are_joined_in_each_order_and_swapping_the_sides_swaps_the_verdict() -> None:
    first = Judge.of(TLDR_CONCISE)
    second = prompted(first, instruction="Which is the more precise and concise summary?")
    members = [
        Member(name=name, weight=weight, judge=judge)
        for name, weight, judge in (("a", 2.0, first), ("b", 1.0, second))
    ]
    panel = Panel.join(TLDR_CONCISE, members)
    verdict = panel(**PAIR)
    singles = [first(**PAIR), second(**PAIR)]
    assert isinstance(verdict, Preference)
    assert verdict.margin == pytest.approx((2 * singles[0].score + singles[1].score) / 3)
    assert verdict.margin == pytest.approx((verdict.margin_ab + verdict.margin_ba) / 2)
    swapped = panel(post=PAIR["post"], summary_a=PAIR["summary_b"], summary_b=PAIR["summary_a"])
    assert isinstance(swapped, Preference)
    assert (verdict.preferred, swapped.preferred) == ("A", "B")
    assert swapped.margin == pytest.approx(-verdict.margin)
    assert isinstance(frozen.loads(panel.dumps().encode()), PanelFile)


@pytest.mark.parametrize(
    ("margins", "preferred"),
    [
        (((1.0, 1.0), (-1.0, 1.0)), "tie"),  # in the order ba A wins by 1, in ab neither
        (((1.0, 1.0), (1.0, -1.0)), "tie"),
        (((1.0, 1.0), (1.0, 1.0)), "A"),
        (((-1.0, -1.0), (-1.0, -1.0)), "B"),
    ],
)
def test_a_choice_of_the_members_that_follows_the_position_is_a_tie(
    margins: tuple[tuple[float, float], ...], preferred: str
) -> None:
    verdicts: list[AnyJudgement] = [
        Preference(margin=(ab + ba) / 2, margin_ab=ab, margin_ba=ba) for ab, ba in margins
    ]
    members = [Member(name=name, weight=1.0, judge=Judge.of(TLDR_CONCISE)) for name in "ab"]
    joined = Panel.join(TLDR_CONCISE, members).combine(verdicts)
    assert isinstance(joined, Preference)
    assert joined.preferred == preferred


def test_a_strangers_file_chooses_no_model_and_no_endpoint() -> None:
    local = replace(Judge.of(RELEVANCE), lm="openai/http://evil/model")
    panel = Panel.join(RELEVANCE, [asked("own"), asked("local", judge=local)])
    loaded = Panel.of_panel_file(frozen.loads(panel.dumps().encode()))  # type: ignore[arg-type]
    with pytest.raises(FatalModelError, match="not a plain PROVIDER/NAME"):
        loaded.check_origins()


def test_an_address_for_openais_protocol_gets_no_other_providers_texts_and_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key")
    members = [
        asked(lm, judge=Judge.of(RELEVANCE).with_model(lm)) for lm in ("openai/own", "azure/other")
    ]
    panel = Panel.join(RELEVANCE, members).with_model(api_base="http://localhost:1/v1")
    with panel.open_client() as client:
        endpoints = [asker.model.endpoint for asker in panel.clients(client)]
    assert endpoints == ["http://localhost:1/v1", "https://me.openai.azure.com"]
