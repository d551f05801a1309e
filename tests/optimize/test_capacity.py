"""What a label set can bear: the figures with an interval, the chance of a gain, what to label."""

import numpy as np
import pytest
from command_runs import json_of, output_of
from files import write_jsonl
from hypothesis import assume, given
from hypothesis import strategies as st
from rating_files import rated_items

import data
from optimize.__main__ import command as tune
from optimize.check import command as check
from optimize.report.capacity import capacity_texts, n_missing_for_intervals
from optimize.statistics.correlations import correlation
from optimize.statistics.intervals import random_generator
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import verdict_agreement


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
def test_check_and_a_dry_run_print_the_same_chance_of_a_gain(words, flags, here):
    write_jsonl("a.jsonl", labelled(*["pass", "pass", "fail"] * 20))
    gain = json_of(check, *words)["bearing"]["gain"]
    assert gain in output_of(tune, *flags, "--dry-run")
