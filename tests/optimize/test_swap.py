"""The swap of a judge: verify NEW --against OLD, its verdict, its changed rows, its risk."""

import numpy as np
import pytest
from command_runs import json_of, run
from files import read_jsonl, write_jsonl
from judge_cases import tuned_on
from rating_files import rating_flags, verdict_flags

import data
import judges
from optimize.items import make_items, tuning_digests
from optimize.measuring.swap import swap_outcome
from optimize.statistics.intervals import Interval, cautious_interval
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")

AGAINST = ("--against", "old")
PEOPLE = [1, 0] * 200


def flip(*rows):
    """People's labels, but the other word on these rows."""
    return [float(1 - label if n in rows else label) for n, label in enumerate(PEOPLE)]


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.01, 0.2, "better"),
        (-0.02, 0.2, "not worse"),
        (-0.02, -0.01, "not worse"),
        (-0.03, 0.2, "undecided"),
        (-0.2, -0.03, "undecided"),
        (-0.2, -0.04, "worse"),
    ],
)
def test_a_swap_is_decided_by_the_interval_and_the_margin(low, high, outcome):
    assert swap_outcome(Interval(low, high), 0.03) == outcome
    assert swap_outcome(None, 0.03) == "undecided"


def test_changed_verdicts_show_which_judge_agrees_with_people(here):
    """Rows 0 and 2 are passes that the new judge fails, 1 a fail that the old one passes.

    Each is one of 200 of its class: balanced accuracy falls by (2 / 200 - 1 / 200) / 2.
    """
    flags = [*verdict_flags(PEOPLE, new=flip(0, 2), old=flip(1)), *AGAINST]
    result = json_of(command, *flags)
    assert (result["swap"], result["margin"]) == ("not worse", 0.03)
    assert [card["name"] for card in result["judges"]] == ["new", "old"]
    difference = result["difference"]
    assert (difference["value"], difference["n_documents"]) == (pytest.approx(-0.0025), 400)
    assert -0.03 < difference["low"] < -0.0025 < difference["high"]
    assert (result["moved"], result["people_side_with"]) == ({"down": 3}, {"old": 2, "new": 1})
    rows = [(row["id"], row["people_side_with"], row["output"]) for row in result["changed"]]
    sides = zip("021", ("old", "old", "new"), strict=True)
    assert rows == [(f"r{n}", side, f"Because {n}.") for n, side in sides]
    assert result["documents_to_decide"] is None
    printed = run(command, *flags)
    lines = printed.stdout.splitlines()
    assert (printed.code, len(lines) <= 12, max(map(len, lines)) <= 80) == (0, True, True)
    for text in (
        "new is not worse than old by more than 0.03. Of judges that are worse by 0.03, at most 5%",
        "3 outputs change (0 fail → pass, 3 pass → fail); people side with new on 1",
        "pass → fail (people pass) r0: Because 0.",
        "Missed fails: new 0/200, old 1/200; false alarms: new 2/200, old 0/200.",
        "Balanced accuracy of new: 0.995 (0.979 to 0.999); TPR 0.990, TNR 1.000.",
    ):
        assert text in printed.out
    assert "1,000 rows" not in printed.out  # the price of recorded scores is not known
    assert (here / "swap.html").as_uri() in run(command, *flags, "--report", "swap.html").out
    page = (here / "swap.html").read_text(encoding="utf-8")
    assert page.index("is not worse than old by more than 0.03") < page.index("What changes")
    assert page.count("<article ") == 3
    assert "People: <b>pass</b>. Judge: <b>pass → fail</b>." in page
    one = verdict_flags(PEOPLE, new=flip(0), old=PEOPLE)
    assert "\n1 output changes (0 fail" in run(command, *one, *AGAINST).stdout


def test_a_judge_worse_by_the_margin_exits_with_1():
    flags = verdict_flags(PEOPLE, old=PEOPLE, new=flip(*range(80)))
    result = run(command, *flags, *AGAINST)
    assert (result.code, "Next: Keep the old judge" in result.stdout) == (1, True)
    assert (
        "falls short: On documents like these new is worse than old by more than 0.03" in result.err
    )
    assert json_of(command, *flags, "--against", "new")["swap"] == "better"
    # Of 40 lost passes of 200, and 40 fails, balanced accuracy falls by .2.
    (reason,) = json_of(command, *flags, *AGAINST, "--margin", "0.2", code=3)["undecided"]
    assert "new is worse than old; these labels cannot tell whether by more than 0.2." in reason
    assert reason.endswith("Of judges that are not worse, at most 5% would get this verdict.")
    assert json_of(command, *flags, *AGAINST, "--margin", "0.3")["swap"] == "not worse"


def test_undecided_swaps_exit_with_3_and_say_how_many_labels_decide():
    """It is the least number of which labels that repeat these decide."""
    old, new = flip(*range(30)), flip(*range(20, 54))
    flags = [*verdict_flags(PEOPLE, new=new, old=old), *AGAINST]
    result = run(command, *flags)
    assert result.code == 3
    assert "undecided: These labels cannot tell whether new is worse than old" in result.err
    number = json_of(command, *flags, code=3)["documents_to_decide"]
    assert f"Next: Label more: about {number:,} documents in all would decide" in result.stdout
    for times, code in ((number // 400 - 1, 3), (number // 400, 0)):
        flags = verdict_flags(PEOPLE * times, new=new * times, old=old * times)
        result = json_of(command, *flags, *AGAINST, code=code)
    assert result["documents_to_decide"] is None


def test_for_ratings_the_rows_with_the_largest_changes_are_shown():
    """In twenty documents of four the new judge turns the order of the last one round."""
    people = [[1, 2, 3, 4]] * 20
    flags = [*rating_flags(people, new=[*people[:19], [4, 3, 2, 1]], old=people), *AGAINST]
    result = json_of(command, *flags, code=3)
    # Rho is -1 in place of 1 in one document of twenty.
    assert result["difference"]["value"] == pytest.approx(-0.1)
    moves = [(row["id"], row["old"], row["new"]) for row in result["changed"]]
    assert moves[:2] == [("d19s0", 1, 4), ("d19s3", 4, 1)]
    assert result["people_side_with"] == {"old": 4}
    assert "1 → 4 (people 1) d19s0: Summary 0 of 19." in run(command, *flags).stdout


@pytest.mark.parametrize(("documents", "each", "code"), [(90, 1, 3), (110, 1, 0), (90, 5, 3)])
def test_equal_judges_of_pairs_pass_by_the_rule_of_three(documents, each, code):
    """The rule of three: what was met on none of n may be met on 3 / n; 3 / .03 is 100.

    Five pairs of one document may change at once: n counts documents.
    """
    names = [{"id": f"p{n}", "group": f"T{n % documents}"} for n in range(documents * each)]
    pair = {"response_a": "A.", "preferred": "A"}
    pairs = [{**name, **pair, "response_b": f"B{n}."} for n, name in enumerate(names)]
    flags = ["--pairwise", "help", "--data", write_jsonl("pairs.jsonl", pairs)]
    margins = [{"id": name["id"], "dimension": "help", "score": 1.0} for name in names]
    write_jsonl("margins.jsonl", margins)
    flags += ["--scores", "new=margins.jsonl", "--scores", "old=margins.jsonl"]
    result = json_of(command, *flags, *AGAINST, code=code)
    assert result["n_changed"] == 0
    assert result["difference"]["low"] == pytest.approx(-3 / documents, rel=0.05)
    # Repeated once, 90 are 180.
    assert result["documents_to_decide"] == (180 if code else None)


@pytest.mark.parametrize(("documents", "code"), [(95, 3), (110, 0)])
def test_equal_judges_of_ratings_pass_by_the_rule_of_three(documents, code):
    """Where rho falls from 1 to chance it loses 24 / 23 of it: 23 of 24 orders of four are wrong.

    What was met on none of n documents may be met on 3 / n: 3 x 24 / 23 / .03 is 104.
    """
    people = [[1, 2, 3, 4]] * documents
    result = json_of(command, *rating_flags(people, new=people, old=people), *AGAINST, code=code)
    assert result["difference"]["low"] == pytest.approx(-3 * 24 / 23 / documents, rel=0.05)


def test_a_swap_refuses_weighted_labels_and_says_what_to_do():
    flags = [*verdict_flags(PEOPLE, new=flip(0), old=PEOPLE), *AGAINST]
    rows = read_jsonl("rows.jsonl")
    for number, row in enumerate(rows[:90]):
        row |= {"sampling_weight": 1 + number % 3, "sampling_from": 310}
    write_jsonl("rows.jsonl", rows)
    code, _, err = run(command, *flags)
    assert (code, "drawn with unequal chances" in err) == (2, True)
    assert "leave out the rows with a sampling_weight, or verify each judge by itself" in err
    # The rows that are left were drawn at random.
    write_jsonl("rows.jsonl", rows[90:])
    assert run(command, *flags).code == 0


@pytest.mark.parametrize(("number", "code"), [(40, 0), (41, 1)])
def test_failures_on_a_tenth_leave_a_swap_undecided(number, code):
    new = [None] * number + PEOPLE[number:]
    status, out, err = run(command, *verdict_flags(PEOPLE, new=new, old=PEOPLE), *AGAINST)
    assert status == code
    assert ("Failed and left out: 40 of new." in out.replace("\n", " ")) == (code == 0)
    assert ("new has no score for 41 of 400 labels" in err) == (code == 1)


def test_a_swap_leaves_out_rows_that_either_judge_was_tuned_on(here):
    subject = judges.load("relevance").subject
    items = make_items(data.starter(), "relevance", subject)
    some, every = (
        tuned_on(
            here / f"{n}.json", tuning_digests(items.of_documents(items.documents[:n]), subject)
        )
        for n in (10, len(items.documents))
    )
    for old, new in ((some, "relevance"), ("relevance", some)):
        result = json_of(command, new, "--against", old, "--margin", "0.5", code=0)
        assert (result["swap"], result["difference"]["n_documents"]) == ("not worse", 24)
    result = json_of(command, "relevance", "--against", every, "--margin", "0.5", code=3)
    assert result["undecided"][0].endswith(f"{len(items.documents)}.json.")
    assert result["judges"][1]["tuned_on_these_labels"]


@pytest.mark.parametrize("change", [0.03, 0.1, 0.4])
def test_a_judge_worse_by_the_margin_passes_in_5_percent(change):
    """A share of pairs changes, so that accuracy falls by .03; 1,000 draws: an error of .007."""
    rng = np.random.default_rng(0)
    for number in (60, 120, 240):
        draws = rng.random((1000, number))
        worse = (change + 0.03) / 2
        contributions = np.where(draws < worse, -1.0, np.where(draws < change, 1.0, 0.0))
        intervals = [cautious_interval(row, 1.0) for row in contributions]
        share = np.mean([each is not None and each.low > -0.03 for each in intervals])
        assert share <= 0.05 + 2 * 0.007
