"""The command verify on recorded scores and replies, against published or derived figures."""

import re
from pathlib import Path

import pytest
from command_runs import json_of, run
from files import read_jsonl, write_jsonl
from judge_cases import tuned_on
from rating_files import rating_flags, write_ratings

import data
import judges
from dspy_judges.errors import SettingsError
from optimize import compare, measure
from optimize.__main__ import command as tune
from optimize.estimate import command as estimate
from optimize.items import make_items, texts_digest, tuning_digests
from optimize.measuring.recorded import read_own_scores
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")

FIVE_PEOPLE = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [2, 2, 2]]
FIVE_SCORES = [[1, 2, 3], [3, 2, 1], [2, 2, 2], [1, 4, 5], [1, 2, 3]]


def test_labels_of_which_1_is_the_best_are_told_and_reversed():
    # In each document, the judge gives the output of rank 1 a high score; in some, rank 2 its best.
    rows = [
        {"id": f"{n}-{rank}", "group": f"{n}", "output": f"Say {n} {rank}.", "rank": rank}
        for n in range(20)
        for rank in range(1, 6)
    ]
    numbers = (6 - row["rank"] - 2 * (n % 15 == 0) for n, row in enumerate(rows))
    scores = [{"id": row["id"], "score": n} for row, n in zip(rows, numbers, strict=True)]
    files = ["--data", write_jsonl("l.jsonl", rows), "--scores", write_jsonl("s.jsonl", scores)]
    flag = "--values 1=5,2=4,3=3,4=2,5=1"
    for flags, verdict in (([], "run in opposite directions."), (flag.split(), "it beats a coin")):
        _, out, err = run(command, *files, "--dimension", "rank", *flags)
        assert verdict in " ".join(out.split())
        assert (f"if low ratings are better, reverse them: {flag}" in err) is (not flags)
        assert ("Next: If a low label is the best, reverse" in out) is (not flags)


def test_the_headline_is_rho_by_both_conventions():
    code, out, err = run(command, *rating_flags(FIVE_PEOPLE, s=FIVE_SCORES))
    text = " ".join(out.split())
    # Three pairs in order, three reversed, three tied, three in order: 7.5 of 12 alike.
    assert "ordered as people do: 62%; 25% tied, which count half; a coin" in text
    assert "Summary-level rho: 0.250; " in text
    assert "most papers would print 0.333." in text
    assert "too few for an interval. Rho is undefined on 2 documents (1 counted as 0)." in text
    assert text.rpartition("Next: ")[2].startswith("Label more documents: too few for an interval")
    assert (code, err) == (0, "")


def test_too_many_failures_fall_short():
    judge = [list(row) for row in FIVE_SCORES]
    judge[0][0] = judge[1][0] = None
    result = run(command, *rating_flags(FIVE_PEOPLE, s=judge))
    assert (result.code, "2 outputs got no score." in result.stdout) == (1, True)
    assert "13.3% of the judgements failed (2 of 15); at most 10% may" in result.err
    assert json_of(command, *rating_flags(FIVE_PEOPLE, s=judge), code=1)["short"]
    # One of 15 is within a tenth.
    judge[1][0] = 3
    assert run(command, *rating_flags(FIVE_PEOPLE, s=judge)).code == 0


def test_the_all_flag_prints_every_level_and_coefficient():
    arguments = rating_flags(FIVE_PEOPLE, s=FIVE_SCORES)
    first, everything = (run(command, *arguments, *more).stdout for more in ((), ("--all",)))
    assert everything.startswith(first)
    rest = everything.removeprefix(first).splitlines()
    counts = "15 outputs, 2 undefined"
    assert f"summary-level rho 0.250, n=4 documents, {counts} (1 of them count 0)" in rest
    assert f"summary-level rho 0.333, n=3 documents, {counts}" in rest
    # A figure of system means rests on the systems, which are named before the documents.
    assert sum(", n=3 systems, " in line for line in rest if line.startswith("system-level")) == 3


def test_agreement_is_printed_for_judge_and_annotators_and_among_annotators():
    """The judge gives ann's labels; bob's are larger by one."""
    labels = [[1.0 + (d + s) % 4 for s in range(3)] for d in range(16)]
    flags = rating_flags(labels, s=labels)
    rows = [
        {**row, "ratings": {}, "annotations": {"charm": {"ann": label, "bob": label + 1}}}
        for row in read_jsonl("labels.jsonl")
        for label in row["ratings"].values()
    ]
    write_jsonl("labels.jsonl", rows)
    out = run(command, *flags, "--all").stdout
    # Of 48 outputs 12 have each of 1 to 4: the variance of either is 1.25, the gap 1.
    kappa = 1 - 1 / (1.25 + 1.25 + 1)
    assert "judge and ann: equal labels 100%, weighted kappa 1.000, rho 1.000" in out
    for pair in ("judge and bob", "ann and bob"):
        assert f"{pair}: equal labels 0%, weighted kappa {kappa:.3f}, rho 1.000" in out
    people = json_of(command, *flags)["people"]
    assert [one["annotator"] for one in people["agreement"]["judge"]] == ["ann", "bob"]
    assert people["one_annotator"]["gap"]["value"] == pytest.approx(0)
    assert people["bound"] == pytest.approx(people["reliability"] ** 0.5)
    assert "people" not in json_of(command, *rating_flags(FIVE_PEOPLE, s=FIVE_SCORES))


SUBJECT = judges.load("relevance").subject
STARTER = make_items(data.starter(), "relevance", SUBJECT)


def test_rows_that_the_judge_was_tuned_on_are_left_out(here):
    first = STARTER.of_documents(STARTER.documents[:10]).items
    names = [
        texts_digest({**item.texts, "summary": item.texts["summary"] + "\n"}) for item in first
    ]
    alone = json_of(command, "relevance")
    assert (alone["n_met"], alone["on_met"], alone["tuned_on_these_labels"]) == (0, None, False)
    some = json_of(command, tuned_on(here / "some.json", names))
    assert (some["n_met"], some["tuned_on_these_labels"]) == (len(first), False)
    assert some["data"]["n_outputs"] == alone["data"]["n_outputs"] - len(first)
    assert some["correlations"][0]["n_documents"] == 24
    assert some["on_met"]["n_documents"] == 10
    keys = (texts_digest(item.texts) for item in STARTER.items)
    every = json_of(command, tuned_on(here / "all.json", keys))
    assert every["tuned_on_these_labels"]
    assert every["correlations"] == alone["correlations"]
    assert json_of(command, tuned_on(here / "untuned.json", names, "seed"))["n_met"] == 0
    code, out, _ = run(command, "some.json")
    assert code == 0
    assert f"It was tuned on {len(first)} further outputs; these are not measured." in out


def test_verify_warns_of_new_outputs_on_tuned_documents(here, capsys):
    old = STARTER.of_documents(STARTER.documents[:10])
    path = tuned_on(here / "tuned.json", tuning_digests(old, SUBJECT))
    rows = [
        {"id": item.id, "relevance": item.human, **item.texts, "summary": f"It says {number}."}
        for number, item in enumerate(STARTER.items)
    ]
    labels = ["--data", write_jsonl("new.jsonl", rows)]
    result = json_of(command, path, *labels)
    assert (result["n_met"], result["n_given"]) == (0, len(old))
    note = f"was tuned on documents of {len(old)} of these outputs"
    assert f"It {note}, which may flatter it." in run(command, path, *labels).stdout
    assert compare.command([path, "relevance", *labels, "--out", "run"]) == 0
    assert note in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("level", ["summary", "system"])
def test_a_level_that_labels_lack_is_refused_first(level, here, capsys, monkeypatch):
    rows = [
        {"id": f"{n}", "document": f"D{n}.", "summary": "S.", "ratings": {"fluency": 1 + n % 5}}
        for n in range(12)
    ]
    labels = write_jsonl("l.jsonl", rows)
    monkeypatch.setattr("judges.client.Client.run", lambda *_, **__: pytest.fail("it was asked"))
    flags = ["--data", labels, "--level", level]
    assert command(["fluency", *flags]) == 2
    assert compare.command(["--dimension", "fluency", *flags, "--lm", "embedded", "fluency"]) == 2
    assert capsys.readouterr().err.count("these labels have the levels dataset") == 2
    with pytest.raises(SettingsError, match="these labels have the levels dataset"):
        measure("fluency", labels, level=level)
    assert not (here / "runs").exists()


def test_recorded_replies_need_a_scale_or_values():
    """On each of three documents people rate three outputs 1, 2 and 3."""
    texts = (["Score: 1", "1"], ["B"], ["3"])
    rows = [{"id": f"d{d}s{s}", "replies": texts[s]} for d in range(3) for s in range(3)]
    flags = ["--replies", write_jsonl("r.jsonl", rows), "--dimension", "charm"]
    flags += ["--data", write_ratings("l.jsonl", [[1, 2, 3]] * 3)]
    result = run(command, *flags)
    assert (result.code, "--scale LOW-HIGH" in result.err) == (2, True)
    flags += ["--scale", "1-3"]
    assert json_of(command, *flags, code=1)["correlations"][0]["n_failed"] == 3
    rho = json_of(command, *flags, "--values", "A=1,B=2,C=3")["correlations"][0]
    assert (rho["n_failed"], rho["value"]) == (0, pytest.approx(1))


def test_pairs_lead_with_accuracy_its_interval_n_and_ties():
    # Of every four pairs two are A, one B and one a tie. The judge is right in both orders; for
    # what is shown first (a tie); right in one order, a tie in the other. Together 1, .5 and 1; by
    # orders taken alone (1 + 1 + 0 + 1 + 1 + .5) / 6.
    pair = {"response_a": "a", "response_b": "b"}
    pairs = [
        {"id": f"p{n}", "prompt": f"Q{n}", **pair, "preferred": side}
        for n, side in enumerate(["A", "A", "B", "tie"] * 5)
    ]
    replies = [("A", "B"), ("A", "A"), ("C", "A"), ("A", "B")] * 5
    orders = [{"id": f"p{n}", "order_ab": a, "order_ba": b} for n, (a, b) in enumerate(replies)]
    arguments = ["--replies", write_jsonl("r.jsonl", orders), "--pairwise", "wit"]
    arguments += ["--data", write_jsonl("p.jsonl", pairs), "--values", "C=tie", "--all"]
    out = run(command, *arguments).stdout
    assert "Dataset-level rho: 0.500; " in out
    tile = r"Pairs decided as people do: 83% \(.+\); n=15; 33% tied, which count half; a coin"
    assert re.search(tile, " ".join(out.split()))
    result = json_of(command, *arguments, code=0)
    assert result["accuracy"] == pytest.approx(5 / 6, abs=1e-6)
    assert result["accuracy_mean_of_orders"] == pytest.approx(0.75)


def test_equal_scores_fall_short_of_a_floor():
    flags = [*rating_flags(FIVE_PEOPLE, s=[[4] * 3] * 5), "--min-spearman", "0.3"]
    code, out, err = run(command, *flags)
    assert code == 1
    assert "falls short: outputs that people order all get the same score" in " ".join(err.split())
    assert "undecided" not in err
    assert "Next: Read some replies of the judge" in out


def test_another_tools_result_file_can_be_verified_directly():
    """20 passes and 20 fails, found by their texts; Ragas lets 2 fails through."""
    texts = [(f"Q{n}?", f"A{n}.") for n in range(40)]
    rows = [
        {"input": question, "output": answer, "correct": ("pass", "fail")[n >= 20]}
        for n, (question, answer) in enumerate(texts)
    ]
    results = [
        {"user_input": question, "response": answer, "correct": int(n < 22)}
        for n, (question, answer) in enumerate(texts)
    ]
    flags = ["--scores", write_jsonl("run.jsonl", results), "--dimension", "correct", "--data"]
    result = json_of(command, *flags, write_jsonl("l.jsonl", rows))
    assert (result["tpr"]["value"], result["tnr"]["value"]) == (1, 0.9)
    code, out, err = run(command, *flags, "l.jsonl")
    assert (code, "false pass 21: A20." in out) == (0, True)
    assert "matched 40 of 40 labelled rows" in err
    write_jsonl("o.jsonl", [{**row, "output": "Other."} for row in rows])
    code, _, err = run(command, *flags, "o.jsonl")
    assert (code, "run.jsonl (Ragas): no row has a labelled row's id" in err) == (1, True)


@pytest.mark.parametrize("flat", [True, False])
def test_verify_reads_the_output_of_winrate_as_margins(flat):
    preferences = {"a": "A", "b": "B", "c": "tie", "d": None}
    rows = [{"id": name, "verdict": {"preferred": vote}} for name, vote in preferences.items()]
    if flat:
        rows = [{"id": name, "verdict_preferred": vote} for name, vote in preferences.items()]
    read = read_own_scores(Path(write_jsonl("w.jsonl", rows)), "preference", is_pairwise=True)
    assert [read.judgement_by_id[name].preferred for name in "abcd"] == ["A", "B", "tie", None]
    # The margins say more than the preferences, and may all prefer A. People's column is not read.
    margins = {"a": 0.3, "b": 1}
    rows = [
        {"id": name, "verdict": "B", "verdict_preferred": "A", "verdict_margin": margin}
        if flat
        else {"id": name, "verdict": {"preferred": "A", "margin": margin}}
        for name, margin in margins.items()
    ]
    read = read_own_scores(Path(write_jsonl("m.jsonl", rows)), "preference", is_pairwise=True)
    assert [read.judgement_by_id[name].score for name in "ab"] == [*margins.values()]


@pytest.mark.parametrize("column", ["verdict", "score", "label"])
def test_scores_may_be_the_words_of_the_labels(column):
    labels = [{"id": n, "output": f"A{n}.", "label": ("gut", "schlecht")[n % 2]} for n in range(8)]
    scores = [{"id": n, column: ("Gut", "schlecht")[n in (1, 3, 4)]} for n in range(8)]
    flags = ["--scores", write_jsonl("s.jsonl", scores), "--data", write_jsonl("l.jsonl", labels)]
    result = json_of(command, *flags, "--dimension", "label")
    # Of 0, 2, 4 and 6 the judge fails one; of 1, 3, 5 and 7 it passes two.
    assert (result["tpr"]["value"], result["tnr"]["value"]) == (0.75, 0.5)


def test_scores_of_pairs_are_votes_or_margins_and_no_shares():
    pairs = [
        {"id": n, "response_a": f"a{n}", "response_b": f"b{n}", "preferred": "AB"[n % 2]}
        for n in range(8)
    ]
    flags = ["--pairwise", "wit", "--data", write_jsonl("p.jsonl", pairs), "--scores"]
    for votes in (["A", "B", "tie", "A"] * 2, [1, -1, 0, 1] * 2):
        rows = [{"id": n, "preferred": vote} for n, vote in enumerate(votes)]
        # Right, right, half right (a tie) and wrong.
        assert json_of(command, *flags, write_jsonl("s.jsonl", rows))["accuracy"] == 0.625
    shares = [{"id": n, "score": share} for n, share in enumerate([1, 0, 0.5, 1] * 2)]
    code, _, err = run(command, *flags, write_jsonl("shares.jsonl", shares))
    assert (code, "these are 0 to 1: write 1, -1 and 0, or A, B and tie" in err) == (1, True)


def test_scores_are_found_by_the_name_made_of_a_column(here):
    name = "Q3: How useful? (1=bad, 5=great)"
    rows = [{"id": n, "input": f"Q{n}?", "output": f"A{n}.", name: 1 + n % 5} for n in range(40)]
    data_file = write_jsonl("l.jsonl", rows)
    refusal = run(tune, "--data", data_file, "--dry-run").err
    assert "no judge 'q3_how_useful_1_bad_5_great' in the catalogue: say in one line" in refusal
    column = "q3_how_useful_1_bad_5_great"
    scores = [{"id": n, column: 1 + n % 5, f"{column}_failure": None} for n in range(40)]
    flags = ["--scores", write_jsonl("s.jsonl", scores), "--data", data_file]
    assert "Measured on 40 rows" in run(command, *flags).out


def test_scores_join_labels_without_ids_by_equal_texts(here):
    rows = [{"output": f"A{n}.", "charm": 1 + n % 3} for n in range(20)]
    write_jsonl("l.jsonl", rows)
    scores = [{**row, "id": n, "score": n % 4} for n, row in enumerate(rows, 1)]
    flags = ["--dimension", "charm", "--data", "l.jsonl", "--scores"]
    assert run(command, *flags, write_jsonl("s.jsonl", scores)).code == 0
    swapped = [{**row, "output": f"A{20 - row['id']}."} for row in scores]
    numbered = [{"id": row["id"], "score": row["score"]} for row in scores]
    for others, code, says in (
        (swapped, 1, "'output' is not the text of label number 1"),
        (numbered, 0, "joined to the labels, which have no ids, by their numbers"),
        (numbered[:19], 1, "19 rows, the first with the id 1; the 20 labels have no ids"),
        ([{**row, "id": row["id"] - 1} for row in numbered], 1, "20 rows, the first with the id 0"),
    ):
        result = run(command, *flags, write_jsonl("other.jsonl", others))
        assert (result.code, says in result.err) == (code, True)


MARKED = {"id": "a", "charm": 1, "charm_failure": None, "charm_tuned_on": True}


@pytest.mark.parametrize(
    ("row", "is_tuned_on"),
    [
        (MARKED, True),
        # A second judge's scores stand in further columns, and it was tuned on nothing.
        ({**MARKED, "charm_judge": 2, "charm_judge_failure": None}, False),
        ({"id": "a", "judgements": {"charm": {"score": 1, "tuned_on": True}}}, True),
        ({"id": "a", "judgements": {"charm": {"score": 1}}}, False),
        ({"id": "a", "verdict": {"preferred": "A", "tuned_on": True}}, True),
        ({"id": "a", "verdict_preferred": "B", "verdict_tuned_on": True}, True),
        ({"id": "a", "verdict_margin": 0.5, "verdict_tuned_on": True}, True),
    ],
)
def test_a_mark_counts_for_the_scores_that_it_stands_beside(row, is_tuned_on):
    path, pairwise = Path(write_jsonl("s.jsonl", [row])), "charm" not in str(row)
    recording = read_own_scores(path, "charm", is_pairwise=pairwise)
    assert (recording.tuned_ids == {"a"}) is is_tuned_on


def test_tuned_on_rows_are_left_out_of_an_estimate():
    labels = [
        {"id": n, "group": n, "output": f"A{n}.", "charm": 1 + n % 5 if n < 30 else None}
        for n in range(60)
    ]
    scores = [{"id": n, "score": 3, "tuned_on": n < 10 or None} for n in range(60)]
    files = ["--data", write_jsonl("l.jsonl", labels), "--scores", write_jsonl("s.jsonl", scores)]
    result = run(estimate, *files, "--dimension", "charm", "--scale", "1-5")
    assert "10 scores left out: the judge was tuned on them" in result.err
    assert "20 outputs with labels, 30 without" in result.out
