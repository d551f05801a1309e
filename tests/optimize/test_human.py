"""The human ceiling, Krippendorff's alpha and the alternative-annotator test."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from optimize.statistics.bootstrap import ratio_interval
from optimize.statistics.ceiling import (
    MIN_DOCUMENTS,
    alternative_test,
    human_ceiling,
    krippendorff_alpha,
    mean_of_others,
)
from optimize.statistics.coefficients import Matrix, Vector
from optimize.statistics.levels import Level
from scipy import stats

SHARED = Path(__file__).parents[3] / "shared" / "data"
NAN = math.nan


def experts(dimension: str) -> tuple[Matrix, list[str], list[str]]:
    """The three experts' marks on all 1,600 summaries, with documents and systems."""
    if not SHARED.exists():
        pytest.skip("needs ../shared/data")
    marks: dict[str, list[float]] = {}
    with (SHARED / "summeval" / "expert_annotations.jsonl").open() as lines:
        for row in map(json.loads, lines):
            if row["dimension"] == dimension:
                marks.setdefault(row["id"], []).append(row["rating"])
    with (SHARED / "summeval" / "summeval.jsonl").open() as lines:
        rows = list(map(json.loads, lines))
    matrix = np.array([marks[row["id"]] for row in rows], dtype=float)
    return matrix, [row["group"] for row in rows], [row["system"] for row in rows]


@pytest.mark.parametrize(
    ("dimension", "lowest", "highest", "alpha"),
    [
        ("coherence", 0.61, 0.715, 0.576),
        ("consistency", 0.80, 0.82, 0.899),
        ("fluency", 0.635, 0.66, 0.738),
        ("relevance", 0.44, 0.50, 0.493),
    ],
)
def test_ceilings_of_summevals_experts_are_the_published_ones(
    dimension: str, lowest: float, highest: float, alpha: float
) -> None:
    marks, document, system = experts(dimension)
    ceiling = human_ceiling(
        marks[:, 0],
        marks,
        document,
        rng=np.random.default_rng(0),
        # As published: documents that either side rates alike are left out.
        undefined="left_out",
        resamples=200,
    )
    assert all(lowest <= one.value <= highest for one in ceiling.left_out)
    # The README's alpha is over the 1,200 abstractive rows.
    abstractive = [name not in {"M0", "M1", "M2", "M5"} for name in system]
    assert krippendorff_alpha(marks[abstractive]) == pytest.approx(alpha, abs=0.0006)


def people(rng: np.random.Generator, documents: int = 40) -> tuple[Vector, Matrix, Vector, Vector]:
    """A judge and four annotators with the same noise around six systems' qualities."""
    document, system = np.repeat(np.arange(documents), 6), np.tile(np.arange(6), documents)
    quality = 3 + 0.2 * system + rng.normal(size=document.size)
    marks = np.round(quality[:, None] + rng.normal(0, 0.7, (document.size, 4)))
    judge = quality + rng.normal(0, 0.7, document.size)
    return judge, marks, document, system


def test_an_annotator_used_as_judge_reaches_their_own_part_of_the_ceiling() -> None:
    _, marks, document, _ = people(np.random.default_rng(0))
    marks[3, 1], marks[:12, 2] = NAN, NAN
    ceiling = human_ceiling(marks[:, 0], marks, document, rng=np.random.default_rng(0))
    own = ceiling.left_out[0]
    assert own.value == own.judge
    others = mean_of_others(marks, 0)
    expected = [
        stats.spearmanr(marks[document == d, 0], others[document == d]).statistic
        for d in np.unique(document)
    ]
    assert own.value == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("level", ["dataset", "summary", "system"])
def test_a_judge_as_good_as_a_person_has_the_whole_ceiling(level: Level) -> None:
    judge, marks, document, system = people(np.random.default_rng(1), 200)
    ceiling = human_ceiling(
        judge, marks, document, level=level, system=system, rng=np.random.default_rng(0)
    )
    assert ceiling.share_interval is not None
    # The judge has the same noise as each annotator, but for their rounding.
    assert ceiling.share == pytest.approx(1, abs=0.06)
    assert ceiling.share == pytest.approx(ceiling.judge / ceiling.human)


def test_an_annotator_who_guesses_agrees_least_and_a_kind_one_is_biased() -> None:
    rng = np.random.default_rng(2)
    judge, marks, document, _ = people(rng)
    marks[:, 3] = rng.integers(2, 6, document.size)
    marks[:, 0] += 1
    ceiling = human_ceiling(judge, marks, document, rng=rng)
    assert min(ceiling.left_out, key=lambda one: one.value).annotator == 3
    assert ceiling.left_out[0].bias == pytest.approx(1, abs=0.2)


def coarse(
    rng: np.random.Generator, annotators: int, documents: int = 31
) -> tuple[Vector, Matrix, Vector]:
    """A judge and 0/1 labels like FED's "understandable": nearly all 1, alpha below .2."""
    document = np.repeat(np.arange(documents), 6)
    good = rng.random(document.size) < 0.95
    shape = (document.size, annotators)
    marks = np.where(good[:, None], rng.random(shape) < 0.97, rng.random(shape) < 0.6)
    return good + rng.normal(0, 1, document.size), marks.astype(float), document


@pytest.mark.parametrize("annotators", [3, 4, 5])
def test_coarse_labels_of_little_agreement_have_no_high_ceiling(annotators: int) -> None:
    alphas, published, primary = [], [], []
    for seed in range(12):
        judge, marks, document = coarse(np.random.default_rng(seed), annotators)
        alphas.append(krippendorff_alpha(marks))
        for ceilings, undefined, fewest in (
            (published, "left_out", 1),
            (primary, "judge_zero", MIN_DOCUMENTS),
        ):
            ceiling = human_ceiling(
                judge,
                marks,
                document,
                rng=np.random.default_rng(0),
                undefined=undefined,
                fewest_documents=fewest,
                resamples=50,
            )
            ceilings.append(ceiling.human)
            assert math.isnan(ceiling.human) == (ceiling.n_defined < fewest)
    assert np.mean(alphas) < 0.2
    # The few documents in which both sides vary are those in which they happened to agree.
    assert max(published) > 0.6
    given = [one for one in primary if one == one]
    assert given
    assert max(given) < 0.3


def test_a_ceiling_of_few_documents_is_withheld_with_its_reason() -> None:
    # As in FED's "understandable": the annotators rate nearly all documents alike.
    document = np.repeat(np.arange(31), 5)
    marks = np.ones((155, 5))
    for number, (who, output) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        marks[5 * (number // 2) + output, who] = 0
    judge = np.random.default_rng(0).normal(size=155)
    ceiling = human_ceiling(judge, marks, document, rng=np.random.default_rng(0))
    assert math.isnan(ceiling.human)
    assert math.isnan(ceiling.share)
    assert "both tell outputs apart in 2 of 31 documents, and 10 are needed" in ceiling.why
    # Left out where either side is alike, the rhos of those two documents were the ceiling.
    old = human_ceiling(
        judge,
        marks,
        document,
        rng=np.random.default_rng(0),
        undefined="left_out",
        fewest_documents=1,
    )
    assert old.human > 0.9


def test_people_and_judge_are_measured_on_the_same_documents() -> None:
    # Annotator 0 rates document 1 alike, the others do not: 0 for the annotator, a rho for the
    # judge. The others rate document 2 alike: nothing for either.
    marks = np.array([[1, 1, 1], [2, 2, 2], [3, 1, 1], [3, 2, 2], [1, 2, 2], [2, 2, 2]], float)
    judge, document = [1, 2, 1, 2, 1, 2], [0, 0, 1, 1, 2, 2]
    ceiling = human_ceiling(
        judge, marks, document, rng=np.random.default_rng(0), fewest_documents=1
    )
    own = ceiling.left_out[0]
    assert (own.value, own.judge) == (pytest.approx(1 / 2), pytest.approx(1))
    assert (own.n_documents, own.n_defined) == (2, 1)


def test_a_share_of_a_ceiling_that_may_be_0_is_withheld() -> None:
    rng = np.random.default_rng(4)
    document = np.repeat(np.arange(30), 6)
    marks = rng.integers(1, 6, (180, 3)).astype(float)
    ceiling = human_ceiling(rng.normal(size=180), marks, document, rng=rng)
    assert ceiling.human_interval is not None
    assert 0 in ceiling.human_interval
    assert (math.isnan(ceiling.share), ceiling.share_interval) == (True, None)
    assert "cannot be told from 0" in ceiling.why


def test_the_interval_of_a_share_covers() -> None:
    # Per document a rho of people's about .3 and of a judge's about .2, correlated: the share is
    # 2/3. What a bootstrap of documents would draw is drawn directly.
    rng = np.random.default_rng(5)
    held = bounded = 0
    for _ in range(600):
        people = rng.normal(0.3, 0.5, 40)
        judges = 0.2 + 0.6 * (people - 0.3) + rng.normal(0, 0.4, 40)
        weights = rng.multinomial(40, np.full(40, 1 / 40), size=400) / 40
        result = ratio_interval(
            weights @ judges,
            weights @ people,
            judges.mean() / people.mean(),
            people.mean(),
            40,
        )
        if result is not None:
            bounded += 1
            held += 0.2 / 0.3 in result
    # Withheld where people's own interval reaches 0, a twentieth; .95 +- two standard errors.
    assert bounded > 500
    assert held / bounded == pytest.approx(0.95, abs=0.02)


def test_failed_judgements_are_left_out_of_both_sides() -> None:
    judge, marks, document, _ = people(np.random.default_rng(3))
    judge[::10] = NAN
    ceiling = human_ceiling(judge, marks, document, rng=np.random.default_rng(0), resamples=50)
    kept = ~np.isnan(judge)
    same = human_ceiling(
        judge[kept], marks[kept], document[kept], rng=np.random.default_rng(0), resamples=50
    )
    assert (ceiling.human, ceiling.judge, ceiling.n_failed) == (same.human, same.judge, 24)


def test_one_annotator_has_no_ceiling() -> None:
    with pytest.raises(ValueError, match="two annotators"):
        human_ceiling([1, 2], [[1], [2]], [1, 1], rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="no output was rated by two"):
        human_ceiling([1, 2], [[1, NAN], [NAN, 2]], [1, 1], rng=np.random.default_rng(0))


def test_alpha_of_krippendorffs_own_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", part C: four observers,
    # twelve units, missing data: nominal .743, interval .849.
    marks = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
    assert krippendorff_alpha(np.transpose(marks), "nominal") == pytest.approx(0.743, abs=0.0005)
    assert krippendorff_alpha(np.transpose(marks)) == pytest.approx(0.849, abs=0.0005)


def test_alpha_does_not_exist_without_two_ratings_or_any_difference() -> None:
    assert math.isnan(krippendorff_alpha([[1, NAN], [NAN, 2]]))
    assert math.isnan(krippendorff_alpha([[3, 3], [3, 3]]))


# Against the mean of annotators 2 and 3, which are both 3: the judge is nearer than annotator 1
# twice, as near once, farther once: advantages 3/4 and 2/4.
JUDGE = np.array([3.0, 3.0, 4.0, 5.0])
MARKS = np.array([[1.0, 3, 3], [4, 3, 3], [2, 3, 3], [3, 3, 3]])


def test_advantages_are_counted_by_hand() -> None:
    first = alternative_test(JUDGE, MARKS, fewest=2).annotators[0]
    assert (first.judge, first.human) == (0.75, 0.5)
    # Gaps human - judge are -1, -1, 0, 1: mean -1/4, against epsilon 0.2.
    expected = stats.ttest_1samp([-1, -1, 0, 1], 0.2, alternative="less").pvalue
    assert first.p_value == pytest.approx(expected)


def test_p_values_and_discoveries_equal_scipys() -> None:
    judge, marks, _, _ = people(np.random.default_rng(5))
    marks[5, 2] = NAN
    judge[7] = NAN
    test = alternative_test(judge, marks, epsilon=0.0)
    p_values = []
    for annotator in range(4):
        usable = ~np.isnan(judge + marks[:, annotator])
        others = np.delete(marks, annotator, 1)[usable]
        near = [
            np.sqrt(np.nanmean((side[usable, None] - others) ** 2, axis=1))
            for side in (judge, marks[:, annotator])
        ]
        gaps = (near[1] <= near[0] + 1e-9).astype(float) - (near[0] <= near[1] + 1e-9)
        p_values.append(stats.ttest_1samp(gaps, 0.0, alternative="less").pvalue)
    assert [one.p_value for one in test.annotators] == pytest.approx(p_values)
    adjusted = stats.false_discovery_control(p_values, method="by")
    assert [one.won for one in test.annotators] == [p <= 0.05 for p in adjusted]
    assert test.n_failed == 1


def test_clustering_by_document_does_not_pretend_to_more_data() -> None:
    # Every output twice: the clustered test sees as many documents as before.
    judge, marks, _, _ = people(np.random.default_rng(7), 20)
    once = alternative_test(judge, marks, np.arange(judge.size))
    twice = alternative_test(
        np.tile(judge, 2), np.tile(marks, (2, 1)), np.tile(np.arange(judge.size), 2)
    )
    assert [annotator.p_value for annotator in twice.annotators] == pytest.approx(
        [annotator.p_value for annotator in once.annotators]
    )


def test_annotators_with_few_outputs_are_left_out_and_counted() -> None:
    judge, marks, _, _ = people(np.random.default_rng(8))
    marks[29:, 1] = NAN
    test = alternative_test(judge, marks)
    assert [annotator.annotator for annotator in test.annotators] == [0, 2, 3]
    assert test.n_annotators_left_out == 1
    nobody = alternative_test([1.0, 2.0], [[1, 2], [2, 1]])
    assert math.isnan(nobody.winning_rate)
    assert not nobody.passed


def test_a_ceiling_of_0_has_no_share() -> None:
    # Squared rank differences of 1 2 3 4 and 2 4 1 3 sum to 10: rho = 1 - 6 * 10 / (4 * 15) = 0.
    first, second = np.tile([1.0, 2, 3, 4], 12), np.tile([2.0, 4, 1, 3], 12)
    result = human_ceiling(
        first,
        np.stack([first, second], axis=1),
        np.repeat(np.arange(12), 4),
        rng=np.random.default_rng(0),
        resamples=200,
    )
    assert result.human == 0
    assert math.isnan(result.share)
    assert result.share_interval is None
    assert "cannot be told from 0" in result.why
