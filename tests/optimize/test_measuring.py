"""Measuring from Python: any judge's scores against labels, as objects with their counts."""

import dspy
import numpy as np
import pandas as pd
import pytest
from command_runs import json_of, run
from dspy_engine import Engine, lm_of
from files import write_jsonl
from judge_cases import tuned_on
from rating_files import weather_rows, write_ratings

import data
import judges
import optimize
from judges.client import BudgetSpentError
from judges.frozen import texts_digest
from optimize.verify import command

# Two documents, three outputs each. Within the first the judge reverses people's order (rho -1), in
# the second it agrees (rho 1), so the summary-level mean is 0. Over all six, ranks by people are
# 1 2 3 4 5 6 and by the judge 3 2 1 4 5 6: squared differences 4 + 0 + 4, rho = 1 - 6 * 8 / 210.
HUMAN = [[1, 2, 3], [4, 5, 6]]
JUDGE = [[3, 2, 1], [4, 5, 6]]
DATASET_RHO = 1 - 6 * 8 / 210
SCORES = {f"d{d}s{s}": score for d, row in enumerate(JUDGE) for s, score in enumerate(row)}


@pytest.fixture(autouse=True)
def labels(here):
    write_ratings("labels.jsonl", HUMAN)


def measure(scores, labels="labels.jsonl"):
    return optimize.measure(scores, labels, dimension="charm")


def relevance_of(scores, labels, **options):
    return optimize.measure(scores, labels, dimension="relevance", **options)


def test_scores_by_id_are_measured_at_every_level_the_data_has():
    result = measure(SCORES)
    assert (result.rho.level, result.rho.value) == ("summary", pytest.approx(0))
    assert result.at("dataset").value == pytest.approx(DATASET_RHO)
    assert (result.rho.n_outputs, result.rho.n_documents, result.rho.n_failed) == (6, 2, 0)
    # Three levels times three coefficients; two conventions at one of them.
    assert len(result.summary()["correlations"]) == 12
    assert result.judgements.set_index("id")["score"].to_dict() == SCORES
    labelled = data.read_labels("labels.jsonl", dimensions=["charm"])
    assert measure(pd.Series(SCORES), labelled).summary() == result.summary()
    numbers = {name: np.float32(score) for name, score in SCORES.items()}
    assert measure(numbers, labelled).rho == result.rho


def test_missing_scores_do_not_change_the_level():
    """Four of six have a score, two a document: by what is labelled, it is summary level still."""
    scores = {name: score for name, score in SCORES.items() if name not in ("d0s1", "d1s0")}
    rho = measure(scores).rho
    # Within the first document 3, 1 for 1, 3; within the second in order.
    assert (rho.level, rho.value, rho.n_outputs) == ("summary", pytest.approx(0), 4)
    # The printed result says so, too: 6 - 4.
    text = " ".join(str(measure(scores)).split())
    assert "Measured on 4 outputs of 2 documents" in text
    assert "2 more labelled outputs got no score." in text


FRAME = pd.DataFrame(weather_rows(4, 3)).sample(frac=1, random_state=0)[:10]
NO_IDS = FRAME.drop(columns="id")


def test_judgements_are_a_frame_with_scores_labels_and_texts():
    result = optimize.measure("relevance", FRAME)
    frame = result.judgements
    assert list(frame["id"]) == list(FRAME["id"])
    assert frame["score"].tolist() == result.scored.scores.tolist()
    assert frame["human"].tolist() == FRAME["relevance"].tolist()
    assert list(frame["text_summary"]) == list(FRAME["summary"])
    assert frame["score_failure"].isna().all()


def test_a_flag_in_a_message_is_explained_for_python():
    says = r"In Python, write map=\{'NAME': 'COLUMN'\} for --map"
    with pytest.raises(data.LabelError, match=says):
        optimize.measure("relevance", FRAME, map={"summary": "absent"})


# Ids that are also labels of the index, but of other rows.
OTHER_IDS = NO_IDS.reset_index(drop=True).assign(id=range(1, 11))


@pytest.mark.parametrize("index", [FRAME.index, [*"abcdefghij"], pd.Index([*range(10)], name="n")])
def test_scores_of_a_frame_without_ids_are_joined_on_its_index(index):
    frame = NO_IDS.set_axis(index)
    judge, by_judge = judges.load("relevance"), optimize.measure("relevance", frame)
    scores = judge.score(frame)
    for series in (scores, scores[::-1]):
        assert relevance_of(series, frame).rho == by_judge.rho
    part = relevance_of(scores, frame[2:])
    assert part.scored.scores.tolist() == scores[2:].tolist()
    assert (part.scored.n_unjudged, part.scored.n_unlabelled) == (0, 2)


def test_scores_are_joined_by_row_numbers_or_ids_on_request():
    people, rows = OTHER_IDS["relevance"], NO_IDS.to_dict("records")
    scores = people.set_axis(range(1, 11))
    for result in (
        relevance_of(scores, rows, map={"id": "#row"}),
        relevance_of(scores.to_dict(), OTHER_IDS),
    ):
        assert result.scored.scores.tolist() == people.tolist()


# People prefer A, B and A, and B by two votes of three; the judge errs on the third pair alone.
PAIRS = [
    {"id": f"p{n}", "prompt": f"Q{n}", "response_a": "a", "response_b": "b", "votes": [*votes]}
    | {"tone": 3, "preferred": "A"}
    for n, votes in enumerate(["AAA", "BBB", "AAB", "ABB"])
]
MARGINS = {"p0": 1, "p1": -1, "p2": -1, "p3": -0.5}


@pytest.mark.parametrize("form", [pd.DataFrame, list, data.read_pairs])
@pytest.mark.parametrize("name", ["votes", "kinder", "tldr_concise"])
def test_scores_of_pairs_are_measured_under_any_name(form, name):
    result = optimize.measure(MARGINS, form(PAIRS), dimension=name)
    assert (result.summary()["accuracy"], result.summary()["n_pairs"]) == (0.75, 4)


def test_another_column_holds_the_votes_only_if_the_caller_says_so():
    result = optimize.measure(MARGINS, PAIRS, dimension="preferred", map={"votes": "preferred"})
    # By `preferred`, A is better in all four.
    assert result.summary()["accuracy"] == 0.25


def test_the_only_text_may_have_another_name():
    rows = [{"output": row["summary"], "fluency": row["relevance"]} for row in weather_rows(4, 3)]
    by_set = optimize.measure("fluency", data.read_labels(rows, dimensions=["fluency"]))
    assert by_set.scored.scores.tolist() == optimize.measure("fluency", rows).scored.scores.tolist()


def test_a_judge_is_measured_as_the_command_measures_it():
    frozen = judges.load("fluency").save("fluency.json")
    result = optimize.measure(frozen, seed=3)
    assert json_of(command, frozen, "--seed", 3) == result.summary()
    assert run(command, frozen, "--seed", 3).stdout == f"{result}\n"


def test_measure_uses_the_lm_configured_in_dspy_and_obeys_max_calls(capsys):
    path, engine = write_jsonl("weather.jsonl", weather_rows(5, 4)), Engine(lambda _: "3")
    with dspy.context(lm=lm_of(engine)):
        result = optimize.measure("relevance", path)
        assert (result.scored.scores.tolist(), len(engine.requests)) == ([3.0] * 20, 20)
        with pytest.raises(BudgetSpentError, match="5 calls"):
            optimize.measure("relevance", path, max_calls=5, cache="none")
    assert capsys.readouterr().err == ""


DOUBLED = pd.Series([1, 2], ["d0s0", "d0s0"])
# The index of a Series begins at 0, row numbers at 1: joined, scores would be one row off.
INDEXED = pd.Series(range(10))
NOT_CLEAR = r"no ids, by which scores could be joined; .*'id': '#row'"
IN_VOTES = "votes on pairs are in 'votes', not in '(tone|preferred)'; write dimension='votes'"


@pytest.mark.parametrize(
    ("scores", "labelled", "name", "says"),
    [
        ({"x": 1.0}, "labels.jsonl", "charm", "no record's id is the id of a labelled output"),
        (DOUBLED, "labels.jsonl", "charm", "an id has two scores"),
        (INDEXED, NO_IDS.to_dict("records"), "relevance", NOT_CLEAR),
        (INDEXED, data.read_labels(NO_IDS), "relevance", NOT_CLEAR),
        (INDEXED, pd.concat([NO_IDS] * 2), "relevance", NOT_CLEAR),
        (INDEXED, OTHER_IDS, "relevance", r"in its column 'id'; pass .*set_axis\(frame\['id'\]\)"),
        (MARGINS, PAIRS, "tone", IN_VOTES),
        (MARGINS, PAIRS, "preferred", IN_VOTES),
        (
            MARGINS,
            data.read_pairs(PAIRS),
            "relevance",
            "has pairs, but relevance is judged on outputs",
        ),
    ],
)
def test_scores_are_not_joined_to_labels_that_may_be_others(scores, labelled, name, says):
    with pytest.raises(data.LabelError, match=says):
        optimize.measure(scores, labelled, dimension=name)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: optimize.measure(3), TypeError, "its name or file, or scores"),
        (lambda: optimize.measure({}), TypeError, "needs dimension=NAME"),
        (lambda: measure("fluency"), TypeError, r"map=\{'fluency': COLUMN\}"),
        (lambda: measure({"d0s0": "4"}), TypeError, "score of 'd0s0' is '4'; it must be a number"),
        (
            lambda: optimize.measure("fluency", level="word"),
            optimize.SettingsError,
            "level word: these labels have the levels summary, dataset, system",
        ),
        (lambda: optimize.measure("fluency", scale=5), TypeError, "'0-100'"),
    ],
)
def test_wrong_arguments_raise_errors_that_say_what_is_needed(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_a_judges_series_says_on_which_rows_it_was_tuned(tmp_path):
    rows = [
        {"document": f"Ask {n}?", "summary": f"Say {n}.", "relevance": 1 + n % 5} for n in range(60)
    ]
    frame = pd.DataFrame(rows).sample(frac=1, random_state=0)
    keys = (texts_digest({"d": row["document"], "s": row["summary"]}) for row in rows[:20])
    judge = judges.load(tuned_on(tmp_path / "judge.json", keys))
    scores = judge.score(frame)
    assert sorted(scores.attrs["tuned_on"]) == [*range(20)]
    assert "tuned_on" not in judges.load("relevance").score(frame).attrs
    for measured in (judge, scores):
        summary = optimize.measure(measured, frame, dimension="relevance").summary()
        assert (summary["n_met"], summary["data"]["n_outputs"]) == (20, 40)
