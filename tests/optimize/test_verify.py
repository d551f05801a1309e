"""The command verify on recorded scores and replies, against published or derived figures."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonl import write_jsonl
from rating_files import write_ratings, write_scores

import data
import judges
from judges.scoring import SamplingPlan
from optimize import compare, measure
from optimize.inputs.flags import SettingsError
from optimize.items import items_of, text_key, tuned_keys
from optimize.verify import command

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="../shared/data, which the repository may not hold, is absent"
)


def of_scores(
    folder: Path, judge: list[list[float | None]], human: list[list[float]] | None = None
) -> list[str]:
    """Arguments that verify these scores against people's (FIVE_PEOPLE)."""
    return [
        *("--scores", write_scores(folder / "s.jsonl", judge), "--dimension", "charm"),
        *("--data", write_ratings(folder / "l.jsonl", human or FIVE_PEOPLE)),
    ]


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    command([*arguments, "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def figure(result: dict[str, Any], level: str, coefficient: str, undefined: str) -> dict[str, Any]:
    (found,) = (
        correlation
        for correlation in result["correlations"]
        if (correlation["level"], correlation["coefficient"], correlation["undefined"])
        == (level, coefficient, undefined)
    )
    return dict(found)


FIVE_PEOPLE: list[list[float]] = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [2, 2, 2]]
FIVE_SCORES: list[list[float | None]] = [[1, 2, 3], [3, 2, 1], [2, 2, 2], [1, 4, 5], [1, 2, 3]]


def test_the_headline_is_spearmans_rho_by_both_conventions_and_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(of_scores(tmp_path, FIVE_SCORES)) == 0
    out, err = capsys.readouterr()
    text = " ".join(out.split())
    # Three pairs in order, three reversed, three tied, three in order: 7.5 of 12 alike.
    assert "Pairs of a document ordered as people do: 62%; a coin reaches 50%." in text
    assert "Summary-level rho: 0.250; 1 is people's ranking, 0 chance;" in text
    assert "most papers would print 0.333." in text
    assert "4 documents; too few for an interval. Rho is undefined on 2 documents, 1 of" in text
    step = "Label more documents: too few for an interval (4 documents), or too alike."
    assert text.endswith(f"Next: {step}")
    assert not err


def test_without_an_interval_a_floor_of_rho_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*of_scores(tmp_path, FIVE_SCORES), "--min-spearman", "0.1"]) == 3
    err = capsys.readouterr().err
    assert "undecided: rho 0.2500 too few for an interval,\n--min-spearman 0.1: label more" in err
    result = verified(capsys, *of_scores(tmp_path, FIVE_SCORES), "--min-spearman", "0.1")
    assert (result["gate"], result["passed"], result["short"]) == ("undecided", False, [])


def test_too_many_failures_fall_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = [list(row) for row in FIVE_SCORES]
    judge[0][0] = judge[1][0] = None
    arguments = of_scores(tmp_path, judge)
    assert command(arguments) == 1
    out, err = capsys.readouterr()
    assert "2 outputs got no score." in out
    assert "13.3% of the judgements failed (2 of 15); at most 10% may" in err.replace("\n", " ")
    assert verified(capsys, *arguments)["short"]
    # One of 15 is within a tenth.
    judge[1][0] = 3
    assert command(of_scores(tmp_path, judge)) == 0


def test_all_prints_every_level_and_coefficient_below_the_first_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = of_scores(tmp_path, FIVE_SCORES)
    assert command(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert command([*arguments, "--all"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert everything[: len(lines)] == lines
    rest = everything[len(lines) :]
    assert (
        "summary-level rho 0.250, n=4 documents, 15 outputs, 2 undefined (1 of them count 0)"
        in rest
    )
    assert "summary-level rho 0.333, n=3 documents, 15 outputs, 2 undefined" in rest
    # A figure of system means rests on the systems, which are named before the documents.
    of_systems = [line for line in rest if line.startswith("system-level")]
    assert [", n=3 systems, " in line for line in of_systems] == [True] * 3


def people_labels(path: Path) -> tuple[str, list[list[float | None]]]:
    """Labels of two annotators who always differ by one, and the first one's as a judge's."""
    rows = [
        {
            "id": f"d{d}s{s}",
            "group": f"d{d}",
            "system": f"s{s}",
            "annotations": {"charm": {"ann": 1.0 + (d + s) % 4, "bob": 2.0 + (d + s) % 4}},
        }
        for d in range(16)
        for s in range(3)
    ]
    return write_jsonl(path, rows), [[1.0 + (d + s) % 4 for s in range(3)] for d in range(16)]


def test_the_judge_stands_beside_each_annotator_and_they_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, judge = people_labels(tmp_path / "l.jsonl")
    arguments = ["--scores", write_scores(tmp_path / "s.jsonl", judge), "--dimension", "charm"]
    arguments += ["--data", data]
    assert command(arguments) == 0
    out = capsys.readouterr().out
    # Of 48 outputs 12 have each of 1 to 4: the variance of either is 1.25, the gap 1.
    kappa = 1 - 1 / (1.25 + 1.25 + 1)
    assert "judge and ann: equal labels 100%, kappa 1.000, rho 1.000" in out
    assert f"judge and bob: equal labels 0%, kappa {kappa:.3f}, rho 1.000" in out
    assert f"ann and bob: equal labels 0%, kappa {kappa:.3f}, rho 1.000" in out
    people = verified(capsys, *arguments)["people"]
    assert [one["annotator"] for one in people["agreement"]["judge"]] == ["ann", "bob"]
    assert people["one_annotator"]["gap"]["value"] == pytest.approx(0)
    assert people["bound"] == pytest.approx(people["reliability"] ** 0.5)
    assert "people" not in verified(capsys, *of_scores(tmp_path, FIVE_SCORES))


@needs_shared
def test_a_first_screen_with_annotators_is_twelve_lines_of_eighty_columns_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [
        *("--scores", str(SHARED / "summeval_scores" / "scores_gpt-4o-mini.jsonl")),
        *("--data", str(SHARED / "summeval" / "summeval.jsonl"), "--dimension", "coherence"),
        *("--annotations", str(SHARED / "summeval" / "expert_annotations.jsonl")),
    ]
    assert command(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    assert sum("Its scores follow length more than" in line for line in lines) == 1
    # Three annotators do not fit one by one, and share a line.
    assert sum(line.startswith("judge and e") for line in lines) == 0
    assert sum(line.startswith("judge and annotators, 3 pairs: equal ") for line in lines) == 1
    assert sum(line.startswith("annotators, 3 pairs: equal labels 3") for line in lines) == 1
    assert sum(line.startswith("One annotator's rho with others: ") for line in lines) == 1
    assert command([*arguments, "--all"]) == 0
    out = capsys.readouterr().out
    assert "judge and e0: equal labels" in out
    assert "e0 and e1: equal labels" in out


def test_rows_that_the_judge_was_tuned_on_are_counted_and_set_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = judges.load("relevance")
    items = items_of(data.starter(), "relevance", judge.subject)
    first = [item for item in items.items if item.document_id in items.documents[:10]]
    met = [text_key({**item.texts, "summary": item.texts["summary"] + "\n"}) for item in first]

    def frozen(name: str, keys: list[str], shipped: str = "tuned") -> str:
        origin = {"tuned_on": keys, "shipped": shipped}
        plan = SamplingPlan(kind="weighted")
        return str(replace(judge, plan=plan, provenance=origin).save(tmp_path / name))

    alone = verified(capsys, "relevance")
    assert (alone["n_met"], alone["on_met"], alone["tuned_on_these_labels"]) == (0, None, False)
    some = verified(capsys, frozen("some.json", met))
    assert (some["n_met"], some["tuned_on_these_labels"]) == (len(first), False)
    assert some["data"]["n_outputs"] == alone["data"]["n_outputs"] - len(first)
    assert some["correlations"][0]["n_documents"] == 24
    assert some["on_met"]["n_documents"] == 10
    every = verified(capsys, frozen("all.json", [text_key(item.texts) for item in items.items]))
    assert every["tuned_on_these_labels"]
    assert every["correlations"] == alone["correlations"]
    untuned = verified(capsys, frozen("untuned.json", met, "seed"))
    assert untuned["n_met"] == 0
    assert command([frozen("again.json", met)]) == 0
    out = capsys.readouterr().out
    assert f"It was tuned on {len(first)} more outputs, which are set apart." in out


def test_new_outputs_on_documents_that_the_judge_was_tuned_on_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = judges.load("relevance")
    items = items_of(data.starter(), "relevance", judge.subject)
    old = items.of_documents(items.documents[:10])
    origin = {"tuned_on": tuned_keys(old, judge.subject), "shipped": "tuned"}
    plan = SamplingPlan(kind="weighted")
    path = str(replace(judge, plan=plan, provenance=origin).save(tmp_path / "tuned.json"))
    rows = [
        {"id": item.id, "relevance": item.human, **item.texts, "summary": f"It says {number}."}
        for number, item in enumerate(items.items)
    ]
    labels = write_jsonl(tmp_path / "new.jsonl", rows)
    result = verified(capsys, path, "--data", labels)
    assert (result["n_met"], result["n_given"]) == (0, len(old))
    assert command([path, "--data", labels]) == 0
    told = f"It was tuned on documents of {len(old)} of these outputs, which may flatter it."
    assert told in capsys.readouterr().out
    run = ["--data", labels, "--out", str(tmp_path / "run")]
    assert compare.command([path, "relevance", *run]) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    assert f"was tuned on documents of {len(old)} of these outputs" in out


def test_a_level_that_the_labels_lack_is_refused_before_a_model_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": f"{n}", "document": f"D{n}.", "summary": "S.", "ratings": {"fluency": 1 + n % 5}}
        for n in range(12)
    ]
    labelled = write_jsonl(tmp_path / "l.jsonl", rows)

    def ask(*_: object, **__: object) -> None:
        raise AssertionError("a model was asked")

    monkeypatch.setattr("judges.client.Client.run", ask)
    monkeypatch.chdir(tmp_path)
    for level in ("summary", "system"):
        assert command(["fluency", "--data", labelled, "--level", level]) == 2
        arguments = ["--dimension", "fluency", "--data", labelled, "--level", level]
        assert compare.command([*arguments, "--lm", "embedded", "fluency"]) == 2
        assert capsys.readouterr().err.count("these labels have the levels dataset") == 2
        with pytest.raises(SettingsError, match="these labels have the levels dataset"):
            measure("fluency", labelled, level=level)  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_what_says_how_a_file_is_read_is_refused_without_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags in (["--map", "relevance=mine"], ["--values", "up=1"], ["--annotations", "a.jsonl"]):
        assert command(["relevance", *flags]) == 2
        assert "say how a file is read: name the file (--data)" in capsys.readouterr().err


def test_an_id_that_is_recorded_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = [{"id": "d0s0", "dimension": "fluency", "replies": [reply]} for reply in ("1", "5")]
    rows = [{"id": "d0s0", "summary": "S.", "ratings": {"fluency": 3}}]
    arguments = ["--data", write_jsonl(tmp_path / "l.jsonl", rows), "--dimension", "fluency"]
    assert command([*arguments, "--replies", write_jsonl(tmp_path / "r.jsonl", twice)]) == 1
    assert "r.jsonl: 'd0s0' is recorded 2 times; give it once" in capsys.readouterr().err


def test_words_of_recorded_replies_count_what_values_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [
        {"id": f"d{d}s{s}", "dimension": "charm", "replies": [reply]}
        for d in range(3)
        for s, reply in enumerate(["A", "2", "C"])
    ]
    arguments = ["--replies", write_jsonl(tmp_path / "r.jsonl", replies), "--dimension", "charm"]
    arguments += ["--data", write_ratings(tmp_path / "l.jsonl", [[1, 2, 3]] * 3), "--scale", "1-3"]
    assert verified(capsys, *arguments)["correlations"][0]["n_failed"] == 6
    result = verified(capsys, *arguments, "--values", "A=1,B=2,C=3")
    assert result["correlations"][0]["n_failed"] == 0
    assert result["correlations"][0]["value"] == pytest.approx(1)


def pair_files(folder: Path, replies: list[dict[str, Any]]) -> list[str]:
    """Arguments that verify recorded pair replies, of every four pairs two A, one B and a tie."""
    pairs = [
        {"id": f"p{n}", "prompt": f"Q{n}", "response_a": "a", "response_b": "b", "preferred": side}
        for n, side in enumerate(["A", "A", "B", "tie"] * 5)
    ]
    return [
        *("--replies", write_jsonl(folder / "r.jsonl", replies)),
        *("--data", write_jsonl(folder / "p.jsonl", pairs), "--pairwise", "wit"),
    ]


def test_pairs_lead_with_accuracy_its_interval_n_and_ties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Right in both orders; for what is shown first (a tie); right in one order, a tie in the other.
    # Together 1, .5 and 1; by orders taken alone (1 + 1 + 0 + 1 + 1 + .5) / 6.
    told = [("A", "B"), ("A", "A"), ("C", "A"), ("A", "B")] * 5
    arguments = pair_files(
        tmp_path, [{"id": f"p{n}", "order_ab": a, "order_ba": b} for n, (a, b) in enumerate(told)]
    )
    arguments += ["--values", "C=tie", "--all"]
    assert command(arguments) == 0
    out = capsys.readouterr().out
    assert "Dataset-level rho: 0.500; " in out
    assert re.search(r"Pairs decided as people do: 83% \(.+\); n=15; a coin reaches 50%", out)
    result = verified(capsys, *arguments)
    assert result["accuracy"] == pytest.approx(5 / 6, abs=1e-6)
    assert result["accuracy_mean_of_orders"] == pytest.approx(0.75)


def test_replies_need_a_scale_where_the_catalogue_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = write_jsonl(
        tmp_path / "r.jsonl",
        [
            {"id": f"d{d}s{s}", "dimension": "charm", "replies": [f"Score: {s + 1}", f"{s + 1}"]}
            for d in range(3)
            for s in range(3)
        ],
    )
    arguments = ["--replies", replies, "--dimension", "charm"]
    arguments += ["--data", write_ratings(tmp_path / "l.jsonl", [[1, 2, 3]] * 3)]
    assert command(arguments) == 2
    assert "--scale LOW-HIGH" in capsys.readouterr().err
    result = verified(capsys, *arguments, "--scale", "1-3")
    assert figure(result, "summary", "spearman", "judge_zero")["value"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "JUDGE, --replies FILE or --scores FILE"),
        (["relevance", "--scores", "s.jsonl"], 2, "one thing to verify"),
        (["--scores", "s.jsonl"], 2, "--dimension NAME"),
        (["relevance", "--dimension", "fluency"], 2, "relevance is about 'relevance' (rating)"),
        (["relevance", "--pairwise", "relevance"], 2, "relevance is about 'relevance' (rating)"),
        (["relevanse"], 2, "relevance"),
        (["--scores", "none.jsonl", "--dimension", "charm", "--data", "l.jsonl"], 1, "none.jsonl"),
        (["--scores", "s.jsonl", "--dimension", "wit", "--data", "l.jsonl"], 1, "field 'wit'"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_ratings(tmp_path / "l.jsonl", [[1, 2, 3]] * 3)
    write_scores(tmp_path / "s.jsonl", [[1, 2, 3]] * 3)
    assert command(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_constructed_labels_stay_marked(capsys: pytest.CaptureFixture[str]) -> None:
    named = verified(capsys, "relevance", "--dimension", "relevance", "--data", "starter")
    assert named == verified(capsys, "relevance")
    assert command(["relevance", "--data", "starter"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Do not use it: its labels were made from known faults")
    assert command(["relevance", "--data", "starter_pairs"]) == 1
    assert "starter_pairs: holds pairs of candidates" in capsys.readouterr().err


def test_results_of_another_tool_are_verified_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 passes and 20 fails, found by their texts; DeepEval lets 2 fails through."""
    rows = [
        {"input": f"Q{n}?", "output": f"A{n}.", "correct": "pass" if n < 20 else "fail"}
        for n in range(40)
    ]
    cases = [
        {
            "name": f"test_case_{n}",
            "input": row["input"],
            "actualOutput": row["output"],
            # A pass from .8 on: .6 would be one of ours.
            "metricsData": [
                {
                    "name": "Correct [GEval]",
                    "score": 0.9 if n < 22 else 0.6,
                    "success": n < 22,
                    "reason": f"Reason {n}.",
                }
            ],
        }
        for n, row in enumerate(rows)
    ]
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"testCases": cases}), encoding="utf-8")
    flags = ["--data", write_jsonl(tmp_path / "l.jsonl", rows), "--dimension", "correct"]
    result = verified(capsys, "--scores", str(run), *flags)
    assert (result["tpr"]["value"], result["tnr"]["value"]) == (1, 0.9)
    assert command(["--scores", str(run), *flags]) == 0
    printed = capsys.readouterr()
    assert "false pass 21: A20. | judge: Reason 20." in printed.out
    assert "matched 40 of 40 labelled rows, 0 by id and 40 by their texts" in printed.err
    other = write_jsonl(tmp_path / "o.jsonl", [{**row, "output": "Other."} for row in rows])
    assert command(["--scores", str(run), "--data", other, *flags[2:]]) == 1
    assert "run.json (DeepEval): no row has a labelled row's id" in capsys.readouterr().err
