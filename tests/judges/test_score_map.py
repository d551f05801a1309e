"""A frozen judge's map of scores onto people's scale: in its file, in its scores, and left out."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frozen_cases import KINDS, TEXTS
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

import judges
import optimize
from judges.__main__ import main
from judges.frozen import FrozenJudgeError, digest
from judges.judge import Judge, ScoreMapWarning
from judges.judgement import Judgement
from judges.monotone import MonotoneMap
from optimize.items import Item, Items
from optimize.run.score_map import choose, mapped_in_folds
from optimize.statistics.score_map import fit_score_map

MAPPED = KINDS["with a score map"]
RAW = replace(MAPPED, score_map=None)
ROWS = [
    TEXTS,
    {"document": TEXTS["document"], "summary": "A fire broke out."},
    {"document": TEXTS["document"], "summary": "It rains frogs in Peru."},
]


def judge(one: Judge, **options: Any) -> list[Judgement]:
    return [j for j in one.judge_all(ROWS, **options) if isinstance(j, Judgement)]


def test_scores_are_mapped_and_what_the_model_said_is_not() -> None:
    assert MAPPED.score_map is not None
    raw = judge(RAW)
    # Outputs of different scores, or the order below would hold of anything.
    assert len({j.score for j in raw}) == len(ROWS)
    for mapped, own in zip(judge(MAPPED), raw, strict=True):
        assert mapped == replace(own, score=MAPPED.score_map(own.score))
        assert mapped.score != own.score
        assert (mapped.rating, mapped.distribution) == (own.rating, own.distribution)


def test_every_way_to_a_score_maps_it() -> None:
    score = judge(MAPPED)[0].score
    one = MAPPED(**TEXTS)
    assert isinstance(one, Judgement)
    assert one.score == score
    assert MAPPED.score(pd.DataFrame(ROWS))[0] == score
    assert MAPPED.mapper()(TEXTS)["relevance"] == score


def test_a_user_may_have_the_models_own_scores() -> None:
    assert judge(MAPPED, score_map=False) == judge(RAW)


def test_a_failed_judgement_stays_missing() -> None:
    (failed,) = MAPPED.judge_all([{"document": "Text.", "summary": ""}])
    assert isinstance(failed, Judgement)
    assert pd.isna(failed.score)
    assert failed.failure


def test_a_map_holds_for_its_model_plan_and_prompt_alone(tmp_path: Path) -> None:
    assert MAPPED.with_plan(MAPPED.plan).score_map == MAPPED.score_map
    assert MAPPED.with_plan(None).score_map is None
    assert MAPPED.with_prompt(instruction="Rate it.").score_map is None
    file = MAPPED.save(tmp_path / "judge.json")
    assert judges.load(file, lm="embedded").score_map == MAPPED.score_map
    with pytest.warns(ScoreMapWarning, match="scores of openai/gpt-4.1-nano are not mapped"):
        assert judges.load(file, lm="openai/gpt-4.1-nano").score_map is None


def document(change: Mapping[str, Any]) -> bytes:
    content = {**json.loads(MAPPED.dumps()), **change}
    return json.dumps({**content, "digest": digest(content)}).encode()


@pytest.mark.parametrize(
    "knots",
    [
        {"inputs": [1, 2], "outputs": [2, 1]},
        {"inputs": [1, 1], "outputs": [1, 2]},
        {"inputs": [1], "outputs": [1]},
        {"inputs": [1, 2, 3], "outputs": [1, 2]},
        {"inputs": [1, 1e300], "outputs": [1, 2]},
        {"inputs": [1, "x"], "outputs": [1, 2]},
        {"inputs": [1, 2]},
        {"inputs": [1, 2], "outputs": [1, 2], "code": "1"},
        [1, 2],
    ],
)
def test_a_file_with_another_map_than_an_increasing_one_is_refused(knots: Any) -> None:
    with pytest.raises(FrozenJudgeError):
        Judge.loads(document({"score_map": knots}))


def test_a_map_is_part_of_what_the_digest_covers() -> None:
    changed = MAPPED.dumps().replace("4.25", "4.75")
    assert changed != MAPPED.dumps()
    with pytest.raises(FrozenJudgeError, match="digest does not match"):
        Judge.loads(changed.encode())


def test_a_comparison_has_none() -> None:
    entry = json.loads(MAPPED.dumps())["score_map"]
    content = {**json.loads(KINDS["pairwise"].dumps()), "score_map": entry}
    with pytest.raises(FrozenJudgeError, match="score map"):
        Judge.loads(json.dumps({**content, "digest": digest(content)}).encode())
    with pytest.raises(judges.JudgesError, match="score_map"):
        replace(KINDS["pairwise"], score_map=MonotoneMap((0, 1), (0, 1)))


def test_a_judge_without_one_has_no_key_of_it_in_its_file() -> None:
    assert "score_map" not in json.loads(RAW.dumps())


def test_score_writes_mapped_scores_unless_the_models_own_are_asked_for(tmp_path: Path) -> None:
    file, rows = MAPPED.save(tmp_path / "judge.json"), tmp_path / "rows.jsonl"
    write_jsonl(rows, [TEXTS])
    for flags, expected in ((), judge(MAPPED)[0]), (("--raw-scores",), judge(RAW)[0]):
        out = tmp_path / f"out{len(flags)}.jsonl"
        assert main(["score", str(file), "--data", str(rows), "--out", str(out), *flags]) == 0
        written = json.loads(out.read_text())["judgements"]["relevance"]
        assert written["score"] == pytest.approx(expected.score)
        assert written["rating"] == expected.rating


# Ten outputs of each rating, scored one higher than the last: every score is its rating's place.
EVEN = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 10)


def test_scores_that_are_shifted_and_squeezed_are_put_back() -> None:
    score_map = fit_score_map(3 + EVEN / 10, EVEN)
    assert score_map is not None
    assert score_map.all([3.1, 3.3, 3.5]) == pytest.approx([1, 3, 5])


def test_a_map_never_leaves_peoples_scale() -> None:
    score_map = fit_score_map(1 + EVEN / 2, EVEN, judge_ends=(1, 5), human_ends=(1, 5))
    assert score_map is not None
    mapped = score_map.all([float(x) for x in np.linspace(1, 5, 81)])
    assert min(mapped) >= 1
    assert max(mapped) <= 5


@pytest.mark.parametrize(
    ("scores", "ratings"),
    [([], []), ([3, 3, 3], [1, 2, 3]), ([1, 2, 3], [4, 4, 4]), ([np.nan, np.nan], [1, 2])],
)
def test_what_is_all_alike_equates_nothing(scores: list[float], ratings: list[float]) -> None:
    assert fit_score_map(scores, ratings) is None


numbers = st.floats(0, 6, allow_nan=False).map(lambda x: round(x, 2))


@given(st.lists(st.tuples(numbers, st.integers(1, 5)), min_size=2, max_size=60))
def test_no_order_is_changed_and_no_scores_are_tied(rows: list[tuple[float, int]]) -> None:
    scores, ratings = (np.array(side, float) for side in zip(*rows, strict=True))
    score_map = fit_score_map(scores, ratings, judge_ends=(0, 6), human_ends=(1, 5))
    if score_map is None:
        return
    mapped = np.array(score_map.all([float(x) for x in scores]))
    assert (
        np.sign(np.subtract.outer(mapped, mapped)) == np.sign(np.subtract.outer(scores, scores))
    ).all()
    assert mapped.min() >= 1 - 1e-9
    assert mapped.max() <= 5 + 1e-9


@given(st.lists(st.tuples(numbers, st.integers(1, 5)), min_size=30, max_size=60))
def test_a_map_gives_the_scores_it_was_learned_on_peoples_mean(
    rows: list[tuple[float, int]],
) -> None:
    scores, ratings = (np.array(side, float) for side in zip(*rows, strict=True))
    score_map = fit_score_map(scores, ratings)
    if score_map is None:
        return
    mapped = np.mean(score_map.all([float(x) for x in scores]))
    # Blocks have people's means; within a block, lines bend by less than a rating.
    assert abs(mapped - ratings.mean()) < 0.75


# Forty outputs of ten documents, and of four ratings; every fifth document is a fold.
RATINGS = np.tile([1.0, 2.0, 3.0, 4.0], 10)
ENDS = {"judge_ends": (1, 5), "human_ends": (1, 5)}


def outputs(human: np.ndarray) -> Items:
    return Items(
        tuple(
            Item(id=f"{i}", document_id=f"d{i % 10}", system=None, texts={}, human=float(rating))
            for i, rating in enumerate(human)
        )
    )


def test_a_document_is_mapped_as_other_folds_documents_are() -> None:
    scores = RATINGS + 1
    mapped = mapped_in_folds(outputs(RATINGS), scores, ENDS)
    assert mapped is not None
    # Each fold leaves all four ratings to the others; the ends' rise of 0.008 is all that differs.
    assert mapped == pytest.approx(RATINGS, abs=0.01)
    # A fifth of the documents rated 5, whatever they score: no other fold knows of that.
    human = np.where(np.arange(40) % 5 == 4, 5.0, RATINGS)
    without = mapped_in_folds(outputs(human), scores, ENDS)
    assert without is not None
    assert without[4::5] == pytest.approx(RATINGS[4::5], abs=0.01)
    whole = fit_score_map(scores, human, **ENDS)
    assert whole is not None
    assert np.abs(np.array(whole.all(scores[4::5].tolist())) - RATINGS[4::5]).mean() > 0.2


def test_dev_ships_a_map_that_it_was_held_out_from_and_that_helps() -> None:
    dev = outputs(RATINGS)
    for shift, used in ((1.0, True), (0.0, False)):
        scores = RATINGS + shift
        score_map = fit_score_map(scores, RATINGS, **ENDS)
        mapped = mapped_in_folds(dev, scores, ENDS)
        made = choose("dev", score_map, dev, scores, mapped, n_learned=40)
        assert (made.score_map is not None) == used
        assert made.to_json()["dev_mean_absolute_error"]["raw"] == shift
        assert "on dev, by folds of documents" in made.why


def test_a_search_that_pays_for_its_calls_learns_one_on_dev(tmp_path: Path) -> None:
    run = optimize.tune("fluency", out=tmp_path / "run", max_calls=300, quiet=True)
    choice = run.summary["score_map"]
    assert choice["learned_on"] == "dev"
    assert choice["n_learned"] == choice["n_dev"] >= 38
    assert choice["used"] == (run.judge.score_map is not None)


def test_a_run_learns_one_where_it_helps_and_its_figures_stay(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    out = tmp_path_factory.mktemp("mapped") / "run"
    run = optimize.tune("fluency", out=out, max_calls=900, quiet=True)
    choice, judge = run.summary["score_map"], run.judge
    assert choice["used"] == (judge.score_map is not None)
    errors = choice["dev_mean_absolute_error"]
    if choice["used"]:
        assert errors["mapped"] < errors["raw"]
    else:
        assert choice["why"].startswith("no score map")
    people = (judge.provenance or {})["people"]
    assert isinstance(people, dict)
    assert 1 <= people["mean"] <= 5
    raw = replace(judge, score_map=None)
    mapped, own = optimize.measure(judge), optimize.measure(raw)
    # The order is the same, so that every rank correlation is.
    assert mapped.rho == own.rho


def frozen_with(people: Mapping[str, object], folder: Path) -> Path:
    provenance = {
        "data": {"name": "labels", "sha256": "0" * 64},
        "people": {"sd": 1.0, "low": 1, "high": 5, "n_outputs": 400, **people},
    }
    path = folder / "judge.json"
    replace(RAW, provenance=provenance).save(path, overwrite=True)
    return path


def score_rows(judge: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """What `score --json` prints of forty rows alike in threes, and its warnings."""
    rows = write_jsonl(judge.parent / "rows.jsonl", ROWS * 13)
    out = judge.parent / "scored.jsonl"
    words = ["score", str(judge), "--data", str(rows), "--out", str(out), "--force"]
    assert main([*words, "--lm", "embedded", "--quiet"]) == 0
    text = capsys.readouterr()
    assert main([*words, "--lm", "embedded", "--quiet", "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)["judges"].values()
    return {**figures, "text": text.out}, text.err


def test_score_prints_peoples_mean_and_spread_and_warns_where_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = np.array([one.score for one in judge(RAW)])
    far = float(raw.mean()) - 1
    figures, warned = score_rows(frozen_with({"mean": far}, tmp_path), capsys)
    assert figures["mean"] == pytest.approx(raw.mean())
    assert figures["sd"] == pytest.approx(raw.std())
    assert figures["people"] == {"mean": far, "sd": 1.0, "n": 400}
    assert f"  people   mean {far:.3f}  sd 1.000  n=400 it was tuned on" in figures["text"]
    assert f"its mean is {raw.mean():.2f}, people's {far:.2f} (1.00 higher)" in warned
    assert warned.startswith(f"warning: {RAW.name}: ")
    assert figures["warning"] in warned
    # Three quarters of a warning's quarter of a standard deviation apart, and as spread out.
    like = {"mean": float(raw.mean()) - 0.75 * 0.25 * raw.std(), "sd": float(raw.std())}
    figures, warned = score_rows(frozen_with(like, tmp_path), capsys)
    assert (figures["warning"], warned) == (None, "")
    assert "  people" in figures["text"]


def test_ratings_of_another_scale_are_not_beside_scores_that_no_map_puts_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, warned = score_rows(
        frozen_with({"mean": 70.0, "sd": 20.0, "high": 100}, tmp_path), capsys
    )
    assert (figures["people"], figures["warning"], warned) == (None, None, "")
    assert "people" not in figures["text"]


def test_a_judge_sure_to_the_last_digits_has_a_map_that_ties_no_scores() -> None:
    # Probabilities of 1 - 1e-12 and the like: neighbouring blocks are no 1e-9 apart.
    rng = np.random.default_rng(3)
    sure = np.concatenate([5 - 10 ** rng.uniform(-13, -8, 100), 1 + 10 ** rng.uniform(-13, -1, 60)])
    people = np.where(sure > 3, rng.integers(3, 6, 160), rng.integers(1, 4, 160)).astype(float)
    score_map = fit_score_map(sure, people, judge_ends=(1, 5), human_ends=(1, 5))
    assert score_map is not None
    mapped = np.array(score_map.all(np.unique(sure).tolist()))
    assert (np.diff(mapped) > 0).all()
    assert mapped.min() >= 1
    assert mapped.max() <= 5
    # Nothing but such digits is one score.
    assert fit_score_map(5 - 10 ** rng.uniform(-13, -8, 50), people[:50]) is None
