"""Several judges joined in one frozen judge: how scores are joined, frozen and refused."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from judges import frozen
from judges.catalog.summeval import COHERENCE, FLUENCY, RELEVANCE
from judges.catalog.win_rate import TLDR_CONCISE
from judges.cli.command import command
from judges.dimension import Dimension
from judges.frozen import FrozenJudgeError
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.loading import load
from judges.monotone import MonotoneMap
from judges.panel import Member, Panel, PanelError
from judges.protocol import FatalModelError
from judges.ray import JudgeBatch

PAIR_OF_TEXTS = {"document": "A fire broke out in the mill.", "summary": "A fire broke out."}
UNIT = MonotoneMap((1.0, 5.0), (0.0, 1.0))
ODD = MonotoneMap((-1.0, 1.0), (-1.0, 1.0))
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
    return Member(name=name, weight=weight, map=UNIT, judge=judge or Judge.of(RELEVANCE))


def recorded(name: str, scores: dict[str, float] | None = None, weight: float = 1.0) -> Member:
    judgements = None
    if scores is not None:
        judgements = {row: Judgement(score=score) for row, score in scores.items()}
    return Member(name=name, weight=weight, map=UNIT, recorded=judgements)


PANEL = Panel.join(
    RELEVANCE, [asked("relevance", 3.0), asked("coherence", 1.0, Judge.of(COHERENCE))]
)


def test_a_score_is_the_weighted_mean_of_the_mapped_scores() -> None:
    # (3 * (2 - 1) / 4 + 1 * (4 - 1) / 4) / 4 = 0.375
    panel = Panel.join(RELEVANCE, [recorded("a", {"1": 2.0}, 3.0), recorded("b", {"1": 4.0}, 1.0)])
    (judgement,) = panel.judge_all(ROWS[:1])
    assert judgement.score == pytest.approx(0.375)
    assert judgement.members == {"a": 2.0, "b": 4.0}


def test_it_reads_what_any_member_reads() -> None:
    panel = Panel.join(FLUENCY, [asked("own", judge=Judge.of(FLUENCY)), asked("other")])
    assert panel.texts == ("document", "summary")
    assert panel(**{name: ROWS[0][name] for name in panel.texts}).failure is None


def test_frozen_it_scores_without_dspy_row_by_row_and_in_batches_the_same(tmp_path: Path) -> None:
    path = PANEL.save(tmp_path / "judge.json")
    script = (
        "import sys, json, pandas as pd, judges\n"
        f"judge = judges.load({str(path)!r}); rows = {ROWS!r}\n"
        "texts = [{name: row[name] for name in judge.texts} for row in rows]\n"
        "alone = [judge(**row).score for row in texts]\n"
        "print(json.dumps([alone, list(judge.score(pd.DataFrame(rows))),"
        " [said.score for said in judge.judge_all(rows)], 'dspy' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    alone, frame, stream, has_dspy = json.loads(done.stdout)
    expected = [said.score for said in PANEL.judge_all(ROWS)]
    assert alone == frame == stream == expected
    assert len(set(expected)) == len(ROWS)
    assert not has_dspy
    assert load(tmp_path) == PANEL


def test_a_worker_and_a_dataset_get_the_scores_of_a_local_run() -> None:
    expected = [said.score for said in PANEL.judge_all(ROWS)]
    assert list(JudgeBatch(PANEL, workers=1)(pd.DataFrame(ROWS))["relevance"]) == expected
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    assert PANEL.mapper()(columns)["relevance"] == expected


def changed(path: Path, *, redo_digest: bool) -> bytes:
    """The file with one letter of a member's instruction changed."""
    document = json.loads(path.read_text())
    judge = document["members"][0]["judge"]
    judge["subject"]["source"] += "x"
    if redo_digest:
        document["digest"] = frozen.digest(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("redo_digest", "message"),
    [(False, "the digest does not match"), (True, "member 'relevance': the digest does not match")],
)
def test_a_member_altered_by_a_letter_is_refused(
    tmp_path: Path, redo_digest: bool, message: str
) -> None:
    path = PANEL.save(tmp_path / "judge.json")
    path.write_bytes(changed(path, redo_digest=redo_digest))
    with pytest.raises(FrozenJudgeError, match=message):
        load(path)


def test_every_byte_of_a_members_file_is_under_a_digest(tmp_path: Path) -> None:
    raw = PANEL.save(tmp_path / "judge.json").read_bytes()
    start, end = raw.index(b'"members"'), raw.rindex(b'"missing"')
    for place in range(start, end, 97):
        altered = bytearray(raw)
        altered[place] ^= 1
        if json_of(bytes(altered)) == json_of(raw):
            continue
        with pytest.raises(FrozenJudgeError):
            frozen.loads(bytes(altered))


def json_of(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def test_a_panel_in_a_panel_is_refused_in_code_and_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(PanelError, match="member inner is a panel itself"):
        Panel.join(RELEVANCE, [asked("inner", judge=PANEL)])
    document = json.loads(PANEL.dumps())
    document["members"][0]["judge"] = json.loads(PANEL.dumps())
    document["digest"] = frozen.digest(document)
    with pytest.raises(FrozenJudgeError, match="Invalid enum value 'panel'"):
        frozen.loads(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "a panel has 1 to 64 members, not 0"),
        ([asked("a"), asked("a")], "two members are called 'a'"),
        ([asked("a", judge=Judge.of(TLDR_CONCISE))], "member a compares two outputs, and the"),
        ([asked("a", judge=Judge.of(GRADED))], "member a rates helpfulness from 0 to 10, and the"),
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


def test_a_map_of_margins_keeps_the_sign_and_the_bounds() -> None:
    judge = Judge.of(TLDR_CONCISE)
    for knots in (((-1.0, 1.0), (-1.0, 0.5)), ((-1.0, 1.0), (-2.0, 2.0))):
        with pytest.raises(PanelError, match="changes its sign"):
            Panel.join(
                TLDR_CONCISE, [Member(name="a", weight=1.0, map=MonotoneMap(*knots), judge=judge)]
            )


def test_a_missing_member_fails_the_judgement_or_leaves_it_to_the_others() -> None:
    panel = Panel.join(RELEVANCE, [recorded("a", {"1": 2.0, "2": 3.0}), recorded("b", {"1": 4.0})])
    first, second = panel.judge_all(ROWS[:2])
    assert first.failure is None
    assert second.failure == "member b: no record of id '2'"
    assert math.isnan(second.score)
    both, alone, neither = replace(panel, missing="renormalise").judge_all(ROWS)
    assert both.score == first.score
    assert alone.score == UNIT(3.0)
    assert neither.failure == "member a: no record of id '3'; member b: no record of id '3'"


def test_a_recording_that_was_not_given_ends_the_run_before_any_call() -> None:
    panel = Panel.join(RELEVANCE, [asked("own"), recorded("b")])
    with pytest.raises(PanelError, match=r"its member b is a recording.*--scores b\.jsonl"):
        list(panel.judge_all(ROWS))
    rest = list(replace(panel, missing="renormalise").judge_all(ROWS))
    assert [said.failure for said in rest] == [None] * 3
    with pytest.raises(PanelError, match="no recorded member is called 'c'; there are b"):
        panel.with_recorded({"c": {}})
    huge = Judgement(score=1e308)
    (first, *_) = panel.recordings
    with pytest.raises(PanelError, match=r"scores '1' 1e\+308; rescale scores beyond 1e\+09"):
        panel.with_recorded({first: {"1": huge}})


def test_recordings_stay_out_of_the_file() -> None:
    panel = Panel.join(RELEVANCE, [recorded("b", {"1": 3.5})])
    assert "3.5" not in panel.dumps()
    loaded = Panel.from_panel_file(frozen.loads(panel.dumps().encode()))  # type: ignore[arg-type]
    assert loaded.recordings == ("b",)


PAIR = {
    "post": DOCUMENT,
    "summary_a": "A fire broke out in the old mill. Nobody was hurt.",
    "summary_b": "the owner the",
}


def test_margins_are_joined_in_each_order_and_swapping_the_sides_swaps_the_verdict() -> None:
    first = Judge.of(TLDR_CONCISE)
    second = first.with_prompt(instruction="Which is the more precise and concise summary?")
    members = [
        Member(name=name, weight=weight, map=ODD, judge=judge)
        for name, weight, judge in (("a", 2.0, first), ("b", 1.0, second))
    ]
    panel = Panel.join(TLDR_CONCISE, members)
    verdict = panel(**PAIR)
    singles = [first(**PAIR), second(**PAIR)]
    assert isinstance(verdict, Verdict)
    assert verdict.margin == pytest.approx((2 * singles[0].score + singles[1].score) / 3)
    assert verdict.margin == pytest.approx((verdict.margin_ab + verdict.margin_ba) / 2)
    swapped = panel(post=PAIR["post"], summary_a=PAIR["summary_b"], summary_b=PAIR["summary_a"])
    assert isinstance(swapped, Verdict)
    assert (verdict.preferred, swapped.preferred) == ("A", "B")
    assert swapped.margin == pytest.approx(-verdict.margin)
    assert frozen.loads(panel.dumps().encode()).kind == "panel"


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
        Verdict(margin=(ab + ba) / 2, margin_ab=ab, margin_ba=ba) for ab, ba in margins
    ]
    members = [
        Member(name=name, weight=1.0, map=ODD, judge=Judge.of(TLDR_CONCISE)) for name in "ab"
    ]
    joined = Panel.join(TLDR_CONCISE, members).joined(verdicts)
    assert isinstance(joined, Verdict)
    assert joined.preferred == preferred


def test_what_a_single_judge_does_alone_is_refused_in_a_line() -> None:
    for refused in (PANEL.template, PANEL.program, PANEL.resolved_plan):
        with pytest.raises(PanelError, match="relevance is a panel and has no"):
            refused()
    with pytest.raises(PanelError, match=r"members ask embedded: .* cannot ask openai"):
        list(PANEL.judge_all(ROWS, lm="openai/gpt-4.1"))
    with pytest.raises(FrozenJudgeError, match="a panel of several judges"):
        Judge.loads(PANEL.dumps().encode())


def test_a_stranger_s_file_chooses_no_model_and_no_endpoint() -> None:
    local = replace(Judge.of(RELEVANCE), lm="openai/http://evil/model")
    panel = Panel.join(RELEVANCE, [asked("own"), asked("local", judge=local)])
    loaded = Panel.from_panel_file(frozen.loads(panel.dumps().encode()))  # type: ignore[arg-type]
    with pytest.raises(FatalModelError, match="no plain PROVIDER/NAME"):
        loaded.model_to_ask()
    assert loaded.with_model("openai/http://evil/model").model_to_ask() == (
        "openai/http://evil/model",
        None,
    )
    base = "http://localhost:1/v1"
    bound = loaded.with_model("openai/http://evil/model", base)
    assert [part.api_base for part in bound.parts] == [None, base]


def test_commands_score_it_with_its_recordings_and_say_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panel = Panel.join(RELEVANCE, [asked("own"), recorded("b")])
    path = str(panel.save(tmp_path / "judge.json"))
    data, out, scores = (tmp_path / name for name in ("rows.jsonl", "out.jsonl", "b.jsonl"))
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    lines = [{"id": row, "dimension": "relevance", "score": 3.0} for row in ("1", "2")]
    scores.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(*flags: str) -> tuple[int, str]:
        code = command(["score", path, "--data", str(data), "--out", str(out), "--force", *flags])
        return code, capsys.readouterr().err

    assert run("--scores", str(scores))[0] == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    said = [row["judgements"]["relevance"] for row in rows]
    assert [entry["failure"] for entry in said] == [None, None, "member b: no record of id '3'"]
    expected = panel.with_recorded({"b": {"1": Judgement(score=3.0)}})
    assert said[0]["score"] == next(expected.judge_all(ROWS)).score
    assert said[0]["members"]["b"] == 3.0
    code, error = run()
    assert code == 1
    assert "its member b is a recording" in error
    code, error = run("--missing", "renormalise")
    assert code == 0
    code, error = run("--scores", f"c={scores}")
    assert code == 2
    assert "has no recorded member c; there are b" in error
    code, error = run("--scores", str(scores), "--lm", "openai/gpt-4.1")
    assert code == 1
    assert "cannot ask openai/gpt-4.1" in error
    code, error = run("--scores", str(scores), "--samples", "5")
    assert code == 2
    assert "members have plans of their own" in error
    scores.write_text(json.dumps(lines[0]) + "\n" + json.dumps(lines[0]) + "\n")
    code, error = run("--scores", str(scores))
    assert code == 1
    assert "b.jsonl, line 2: '1' has a score already" in error
    assert command(["export", path, "--to", "messages"]) == 1
    assert "is a panel of several judges" in capsys.readouterr().err
    assert command(["show", path]) == 0
    shown = capsys.readouterr().out
    assert "a panel of 2" in shown
    assert "1.000  b (recorded)" in shown


def test_its_scores_stand_on_people_s_scale_where_it_carries_a_map(tmp_path: Path) -> None:
    panel = replace(PANEL, score_map=MonotoneMap((0.0, 1.0), (1.0, 5.0)))
    path = panel.save(tmp_path / "judge.json")
    raw, mapped = PANEL(**PAIR_OF_TEXTS).score, load(path)(**PAIR_OF_TEXTS).score
    assert mapped == pytest.approx(1 + 4 * raw)
    (without,) = load(path).judge_all([PAIR_OF_TEXTS], score_map=False)
    assert without.score == raw
