"""Documents drawn with unequal chances: weighted by hand, by repeating documents, by simulation."""

import itertools

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import write_jsonl
from hypothesis import given
from hypothesis import strategies as st

from optimize import estimate, measure, verify
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.correlations import correlation
from optimize.statistics.mean_estimates import estimate_mean
from optimize.statistics.plain_agreement import pairwise_accuracy
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import verdict_agreement

NAN = np.nan
LEVELS = ("summary", "dataset", "system")
RATES = ("base_rate", "judge_rate", "tpr", "tnr", "accuracy", "balanced_accuracy", "kappa")


def test_the_estimate_corrects_the_judges_mean_by_weighted_labels():
    label, score = [1, 0, 1, NAN, NAN, NAN], [1, 0, 0, 1, 1, 0]
    result = estimate_mean(label, score, weight=[1, 3, 1, 9, 9, 9])
    # (1 + 0 + 1) / 5; the judge says 1 / 5 of the labelled and 3 / 6 of all; half are unlabelled.
    assert result.labels_only.value == pytest.approx(0.4)
    assert result.value == pytest.approx(0.4 + 2 * result.weight * (3 / 6 - 1 / 5))
    # What is left is (0.6, -1.2, 0.6) / 5 of the labels, (0.8, -0.6, -0.2) / 5 of the judge, who
    # adds (3, -3, -3, 3, 3, -3) / 36 over all; three documents and six have the factors 3/2, 6/5.
    labels = 1.5**0.5 * np.array([0.6, -1.2, 0.6, 0, 0, 0]) / 5
    judge = 1.2**0.5 * np.array([3, -3, -3, 3, 3, -3]) / 36
    judge -= 1.5**0.5 * np.array([0.8, -0.6, -0.2, 0, 0, 0]) / 5
    assert 2 * result.weight == pytest.approx(min(2, -(labels @ judge) / (judge @ judge)))


small = st.integers(0, 3).map(float)
rows = st.lists(st.tuples(small, small, st.integers(0, 4), st.integers(0, 2)), min_size=3)


@given(rows, st.lists(st.integers(1, 3), min_size=5, max_size=5))
def test_integer_weights_equal_copies_of_documents(outputs, weights):
    judge, human, document, system = map(np.array, zip(*outputs, strict=True))
    weight = np.array(weights)[document]
    times = np.repeat(np.arange(document.size), weight)
    copy = np.concatenate([np.arange(n) for n in weight])
    copies = document[times] * 10 + copy
    copies_of = (judge[times], human[times], copies)

    def same(one, other):
        assert one.value == pytest.approx(other.value, abs=1e-9, nan_ok=True)

    for level, coefficient in itertools.product(LEVELS, ("spearman", "pearson")):
        how = {"coefficient": coefficient}
        one = correlation(level, judge, human, document, system, weight=weight, **how)
        same(one, correlation(level, *copies_of, system[times], **how))
    for level in LEVELS[:2] if np.unique(document).size < document.size else ():
        alike = pairwise_accuracy(scored_rows(judge, human, document, weight=weight), level=level)
        same(alike, pairwise_accuracy(scored_rows(*copies_of), level=level))
    card = verdict_agreement(scored_rows(judge // 2, human // 2, document, weight=weight))
    other = verdict_agreement(scored_rows(judge[times] // 2 > 0, human[times] // 2 > 0, copies))
    for name in RATES:
        same(getattr(card, name), getattr(other, name))
    if np.unique(document).size > 1:
        mean = estimate_mean(human, judge, document, weight=weight)
        same(mean.labels_only, estimate_mean(human[times], judge[times], copies).labels_only)


def draw(rng, cuts, documents, n):
    """Ratings, labels of about `n`, scores, weights; a kind judge's errors are drawn more often."""
    quality = rng.normal(size=documents)
    human = np.searchsorted(cuts, quality).astype(float)
    score = np.searchsorted(cuts, quality + 0.3 + 0.8 * rng.normal(size=documents)).astype(float)
    doubt = np.clip(np.abs(score - human) / len(cuts) + 0.2 * rng.normal(size=documents), 0, 1)
    chance = np.minimum(n * (1 + 5 * doubt) / (1 + 5 * doubt).sum(), 1)
    return human, np.where(rng.random(documents) < chance, human, NAN), score, 1 / chance


@pytest.mark.parametrize(
    "cuts", [(-0.84,), (-1.64,), (-1.3, -0.5, 0.5, 1.3)], ids=["80%", "95%", "1-5"]
)
def test_intervals_for_weighted_samples_cover_only_if_the_weights_are_used(cuts):
    rng, bounds = np.random.default_rng(1), (0.0, float(len(cuts)))
    truth = np.searchsorted(cuts, np.random.default_rng(2).normal(size=1_000_000)).mean()
    hits = []
    for _ in range(300):
        human, label, score, weight = draw(rng, cuts, 600, 120)
        both = [estimate_mean(label, score, weight=w, bounds=bounds) for w in (weight, None)]
        held = [truth in each.interval for each in both]
        hits.append([*held, human.mean() in both[0].given_interval])
    weighted, unweighted, given = np.mean(hits, axis=0)
    # 300 hits at 95 % have a standard deviation of 1.3 points.
    assert 0.93 - 0.013 <= weighted <= 0.97 + 0.013
    assert 0.93 - 0.013 <= given <= 0.97 + 0.026
    assert unweighted < 0.88


def test_weighted_rho_estimates_rho_of_all_documents_and_its_interval_covers():
    def world(documents, n):
        easy = rng.random(documents) < 0.5
        human = rng.normal(size=(documents, 3)).round(1)
        score = human + np.where(easy, 0.3, 3)[:, None] * rng.normal(size=(documents, 3))
        chance = np.where(easy, 1, 6) * n / (3.5 * documents)
        rows = np.repeat(rng.random(documents) < chance, 3)
        names, weights = np.repeat(np.arange(documents), 3), np.repeat(1 / chance, 3)
        return score.ravel()[rows], human.ravel()[rows], names[rows], weights[rows]

    rng = np.random.default_rng(3)
    for level in LEVELS[:2]:
        *sides, weight = world(60_000, 15_000)
        truth = correlation(level, *sides, weight=weight).value
        assert truth > correlation(level, *sides).value + 0.1
        hits = []
        for _ in range(200):
            *sides, weight = world(400, 100)
            hits.append(truth in correlation(level, *sides, weight=weight).interval)
        assert 0.92 <= np.mean(hits) <= 0.985


def measured(weights):
    """A judge that orders the two outputs of the first document alike, and of others not."""
    documents = [(d, s) for d in range(3) for s in range(2)]
    rows = [
        {"id": f"d{d}s{s}", "group": f"d{d}", "system": f"s{s}", "text": f"{d} {s}"}
        | {"charm": [1 + 2 * s] * 2, "sampling_weight": weights[d], "sampling_from": 3}
        for d, s in documents
    ]
    scores = {f"d{d}s{s}": 1.0 + (s if d < 1 else 1 - s) for d, s in documents}
    return measure(scores, rows, dimension="charm", scale="1-5", level="summary")


def test_verify_prints_only_weighted_figures():
    result = measured((2, 1, 1))
    summary = result.summary()
    # rho is 1, -1, -1 on the documents, of which the first counts 2 of 4; so are pairs.
    assert result.rho.value == pytest.approx(0)
    assert summary["order"]["value"] == pytest.approx(0.5)
    assert summary["data"]["weighted"]
    assert "documents, drawn with unequal chances;" in str(result)
    figures = {(cell["level"], cell["coefficient"]) for cell in summary["correlations"]}
    every = set(itertools.product(LEVELS, COEFFICIENTS))
    assert every - figures == {("dataset", "kendall")}  # the only one without a weighted form
    # Tau-b is 1, -1, -1 on the documents, too.
    assert result.at("summary", "kendall").value == pytest.approx(0)
    assert summary["scales"] is None
    assert "people" not in summary
    alike = measured((1, 1, 1))
    assert alike.rho.value == pytest.approx(-1 / 3)
    assert "weighted" not in alike.summary()["data"]
    assert {"people", "scales"} <= alike.summary().keys()


@pytest.fixture
def files(here):
    """The outputs without a label; labels in a file, fails drawn with thrice the chance; scores."""
    texts = [{"id": f"o{n}", "group": f"g{n}", "question": f"q{n}"} for n in range(200)]
    fields = {"dimension": "helpful", "annotator": "Anna", "sampling_from": 200}
    sample = [n for n in range(200) if n % 2 == 0 and (n % 5 == 0 or n % 3 == 0)]
    words = {True: {"rating": "fail", "sampling_weight": 2}}
    words[False] = {"rating": "pass", "sampling_weight": 6}
    labels = [{**texts[n], **fields, **words[n % 5 == 0]} for n in sample]
    scores = [{"id": f"o{n}", "score": 0.2 if n % 35 % 7 % 5 == 0 else 0.8} for n in range(200)]
    return [
        *("--data", write_jsonl("outputs.jsonl", texts)),
        *("--annotations", write_jsonl("labels.jsonl", labels)),
        *("--scores", write_jsonl("scores.jsonl", scores), "--dimension", "helpful"),
    ]


def test_estimate_weighs_labels_of_a_second_file(files):
    result = json_of(estimate.command, *files)
    mean = result["estimates"]["mean"]
    # 20 fails weigh 2 each, 27 passes 6: a fifth fails of all, and of the labels 20 of 47.
    assert mean["labels_only"]["value"] == pytest.approx(162 / 202)
    assert mean["low"] < 0.8 < mean["high"]
    assert (result["weighted"], mean["n_labels"], mean["n_judgements"]) == (True, 47, 153)
    line = "Weighted: documents were drawn with unequal chances."
    assert line in output_of(estimate.command, *files)


def test_verify_measures_labels_without_their_outputs(files):
    data = ["--data", files[3], *files[4:]]
    result = run(estimate.command, *data)
    assert (result.code, "--annotations FILE" in result.err) == (1, True)
    assert "153 scores are of outputs that the file lacks" in result.err
    remark = "Left out at dataset level: tau-b (no weighted form)."
    assert remark in output_of(verify.command, *data, "--all")
    # The floor is held by the weighted rate.
    tpr = json_of(verify.command, *data, "--min-tpr", "0.999", code=1)["tpr"]
    assert run(verify.command, *data, "--min-tpr", tpr["low"] - 1e-6).code == 0
