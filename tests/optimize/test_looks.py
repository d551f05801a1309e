"""What labels can bear: intervals, floors at several looks, and how many labels to add."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import write_jsonl
from hypothesis import assume, given
from hypothesis import strategies as st
from rating_files import rated_items
from scipy.stats import norm

import data
from optimize.__main__ import command as tune
from optimize.check import command as check
from optimize.items import n_missing_for_intervals
from optimize.plan import command as plan
from optimize.report.capacity import capacity_texts
from optimize.statistics.correlations import correlation, dataset_level
from optimize.statistics.floor import interval_for_looks, labels_to_decide, round_up_to_two_digits
from optimize.statistics.intervals import cautious_interval, random_generator
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import (
    MIN_OUTPUTS_FOR_RATES,
    Rate,
    verdict_agreement,
    wilson_interval,
)
from optimize.verify import command as verify

pytestmark = pytest.mark.usefixtures("here")
FLOORS = {"tpr": 0.8, "tnr": 0.8}


def sheet(n: int, wrong: int = 10) -> list[str]:
    """Flags of `n` rows of which every fourth fails; the judge errs on each `wrong`th."""
    rows = [{"id": f"r{i}", "output": f"Text {i}.", "safe": int(i % 4 > 0)} for i in range(n)]
    scores = [{"id": f"r{i}", "score": int(i % 4 > 0) ^ (i % wrong == 0)} for i in range(n)]
    data = ["--data", write_jsonl("labels.jsonl", rows)]
    return ["--dimension", "safe", *data, "--scores", write_jsonl(f"{wrong}.jsonl", scores)]


def test_each_looks_error_rate_is_sidaks():
    """1 - .025 = .975 is the chance that four independent looks all hold at .975 to the 1/4."""
    z = norm.ppf(0.975**0.25)
    assert z == pytest.approx(2.494, abs=0.001)
    for share, n in ((0.0, 30), (0.8, 60), (1.0, 30)):
        rate = Rate(share, wilson_interval(share, n), n)
        assert interval_for_looks(rate, 1) is rate.interval
        four = interval_for_looks(rate, 4)
        assert four
        # Wilson's ends e have (share - e)^2 = z^2 e (1 - e) / n.
        for end in (four.low, four.high):
            assert (share - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n)
    rng = np.random.default_rng(0)
    human = rng.normal(size=4000)
    rho = dataset_level(human + rng.normal(size=4000), human)
    one, four = (interval_for_looks(rho, looks) for looks in (1, 4))
    # On Fisher's z, with t of so many documents about normal.
    ends = (math.atanh(rho.value) - math.atanh(each.low) for each in (one, four))
    assert 1 / np.divide(*ends) == pytest.approx(z / norm.ppf(0.975), rel=0.001)
    contributions = rng.normal(size=4000)
    reach = [each.half_width for n in (1, 4) if (each := cautious_interval(contributions, 1.0, n))]
    assert reach[1] / reach[0] == pytest.approx(norm.ppf(0.95**0.25) / norm.ppf(0.95), rel=0.001)


def test_more_looks_can_leave_a_floor_undecided():
    gate = [*sheet(400), "--min-tpr", "0.895"]
    one, result = json_of(verify, *gate), run(verify, *gate, "--looks", "4", "--json")
    four = json.loads(result.stdout)
    assert (one["gate"], one["looks"]) == ("holds", 1)
    assert (result.code, four["gate"], four["looks"]) == (3, "undecided", 4)
    # The figure's own interval is that of one look.
    assert one["tpr"] == four["tpr"]
    assert "of 4 looks, --min-tpr 0.895: about " in result.err
    answer = run(verify, *gate[:-1], "0.91").out
    assert "Next: Label more documents; then verify again with --looks 2" in answer


def test_looks_widen_the_interval_of_a_swap():
    swap = [*sheet(400, wrong=40), "--against", "80", *sheet(400, wrong=80)[4:], "--margin"]
    one, four = json_of(verify, *swap, "0.055"), run(verify, *swap, "0.055", "--looks", "4")
    assert (one["swap"], one["looks"]) == ("not worse", 1)
    assert (four.code, "90% interval of 4 looks, n=" in four.out) == (3, True)
    wide = [*swap, "0.2", "--looks", "4"]
    four, out = json_of(verify, *wide), output_of(verify, *wide)
    assert (four["swap"], four["looks"]) == ("not worse", 4)
    assert four["difference"]["low"] < one["difference"]["low"]
    assert "5% would get this verdict in any of 4 looks." in out


@pytest.mark.parametrize("fails", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("errors", [0.5, 0.75])
def test_the_planned_number_of_labels_decides_nine_times_of_ten(fails, errors):
    """Within 10 % of what a simulation needs: a tenth fewer decide less often, a tenth more do."""
    floor, rng = 0.8, np.random.default_rng(2)
    n = labels_to_decide(FLOORS, fails, errors)

    def power(number: int) -> float:
        of_fails, hits = rng.binomial(number, fails, 4000), np.ones(4000, bool)
        for sizes in (of_fails, number - of_fails):
            right = rng.binomial(sizes, 1 - errors * (1 - floor))
            p, square = right / np.maximum(sizes, 1), 1.959964**2 / np.maximum(sizes, 1)
            reach = np.sqrt(square * p * (1 - p) + square**2 / 4)
            hits &= ((p + square / 2 - reach) / (1 + square) >= floor) & (
                sizes >= MIN_OUTPUTS_FOR_RATES
            )
        return float(hits.mean())

    assert power(round(0.9 * n)) < 0.89 < power(n) < 0.92 < power(round(1.15 * n))


@pytest.mark.parametrize("page", ["README.md", "docs/ci.md"])
def test_the_documentation_has_the_computed_numbers_of_labels(page):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    for rate, errors in (("9", 0.5), ("85", 0.75)):
        row = re.search(rf"\| true rates of \.{rate} \|(.*)\|\n", text)
        assert row
        cells = [int(cell.replace(",", "")) for cell in row[1].split("|")]
        numbers = [labels_to_decide(FLOORS, fails, errors) for fails in (0.05, 0.2, 0.5)]
        assert cells == [round_up_to_two_digits(number) for number in numbers if number]


def test_check_and_plan_give_the_same_number_of_labels():
    """A fourth of the labels are fails; the numbers are those of `labels_to_decide`, rounded up."""
    least, more = (labels_to_decide(FLOORS, 0.25, errors) for errors in (0.5, 0.75))
    assert (least, more) == (556, 2483)
    rows = [{"id": f"r{i}", "output": f"Text {i}.", "safe": int(i % 4 > 0)} for i in range(200)]
    line = (
        "Floors of TPR 0.8 and TNR 0.8 take 560 labels for a judge of TPR 0.9 and TNR 0.9, 2,500 "
        "labels for a judge of TPR 0.85 and TNR 0.85 (25% fails, a chance of 90%"
    )
    labels = write_jsonl("labels.jsonl", rows)
    assert f"floors {line}" in output_of(check, labels)
    outputs = [{"id": f"r{i}", "output": f"Text {i}."} for i in range(1000)]
    words = [write_jsonl("outputs.jsonl", outputs), "--min-tnr", ".8"]
    out = output_of(plan, *words, "--labels", labels, "--min-tpr", ".8")
    assert out.startswith(f"Labelled: 200 of 1,000 documents, 200 of 1,000 outputs. {line}")
    assert " outputs.next.jsonl: 356 docu" in out
    # Without labels no base rate is known, and a random round comes first.
    first = json_of(plan, *words, "--out", "first.jsonl")
    assert [each["fails"] for each in first["decisions"]] == [0.05, 0.2, 0.5]
    assert first["n_next"] == 30
    assert run(plan, *words, "--labels", labels, "--min-tpr", "2").code == 2
    rated = write_jsonl("rated.jsonl", [row | {"safe": n % 5 + 1} for n, row in enumerate(rows)])
    result = run(plan, *words, "--labels", rated, "--scale", "1-5")
    assert (result.code, "need labels that say pass or fail" in result.err) == (2, True)


# What a label set can bear: figures with an interval, the chance of a gain, what to label.
def labelled(*words):
    return [
        {"id": i, "input": f"Ask {i}.", "output": f"Say {i}.", "label": word}
        for i, word in enumerate(words)
    ]


DOCUMENTS = st.lists(
    st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.0]), min_size=1, max_size=4), min_size=1, max_size=40
)


@pytest.mark.parametrize("level", ["summary", "dataset"])
@given(DOCUMENTS)
def test_check_asks_for_documents_exactly_if_rho_has_no_interval(level, documents):
    labels = rated_items(documents)
    scores = labels.human + random_generator(0, "judge").normal(0, 2, len(labels))
    cell = correlation(level, scores, labels.human, labels.document_ids)
    # A rho of 1 in each of 15 documents with two outputs has no interval for another reason.
    assume(level == "dataset" or abs(cell.value) != 1)
    n_missing = n_missing_for_intervals(labels, level, has_verdicts=False)
    assert (cell.interval is not None) == (n_missing == {f"{level}-level rho": 0})


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=3), min_size=1))
def test_check_asks_for_labels_exactly_if_a_rate_has_no_interval(documents):
    labels = rated_items(documents)
    figures = verdict_agreement(scored_rows(labels.human, labels.human, labels.document_ids))
    n_missing = n_missing_for_intervals(labels, "dataset", has_verdicts=True)
    assert (figures.tpr.interval is not None) == (n_missing["TPR"] == 0)
    assert (figures.tnr.interval is not None) == (n_missing["TNR"] == 0)


def test_check_says_how_many_rare_fails_are_missing():
    words = ["fail" if i % 5 == 0 else "pass" for i in range(60)]
    texts = capacity_texts(data.read_labels(labelled(*words)), "label")
    assert texts["labels"] == "label: 80% pass, 20% fail"
    # A quarter of 55 is ten or more in nine deals of ten (binomial), and 12 are there.
    assert texts["collect"].startswith("43 more fail outputs for an interval of TNR on test; ")
    more = data.read_labels(labelled(*words, *["fail"] * 43))
    assert "more fail" not in capacity_texts(more, "label")["collect"]
    assert texts["intervals"].startswith("verify on all 60 documents: TPR, TNR; tune on test, 15")
    assert texts["contrast"].startswith("none within documents")


def test_with_few_documents_check_asks_for_documents_and_not_outputs():
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"{d}-{i}", "group": f"g{d}", "document": f"D {d}.", "summary": f"S {i}."}
        | {"annotations": {"relevance": rng.integers(1, 6, 2).tolist()}}
        for d in range(24)
        for i in range(6)
    ]
    texts = capacity_texts(data.read_labels(rows), "relevance")
    # Of 24 documents 6 are in test: 9 more there are 36 more in all.
    assert texts["collect"].startswith(
        "36 more documents (not more outputs of the same) for an interval"
    )
    assert texts["contrast"] == "people tell outputs apart in 24 of 24 documents"
    assert texts["people"].startswith("two annotators say the same in ")
    assert "of 144 cases, weighted kappa " in texts["people"]
    assert "second annotator" not in texts["collect"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["starter", "--dimension", "relevance"], ["--dimension", "relevance"]),
        (["starter_pairs"], ["--pairwise", "tldr_concise", "--data", "starter_pairs"]),
        (["a.jsonl"], ["--dimension", "label", "--data", "a.jsonl"]),
    ],
)
def test_check_and_dry_runs_print_the_same_chance(words, flags, here):
    write_jsonl("a.jsonl", labelled(*["pass", "pass", "fail"] * 20))
    gain = json_of(check, *words)["bearing"]["gain"]
    assert gain in output_of(tune, *flags, "--dry-run")
