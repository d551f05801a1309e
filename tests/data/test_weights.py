"""Documents drawn with unequal chances: the weighted mean of labels is that of all documents."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

import data
from judges.labels.weights import AT_RANDOM, Draw, document_weights

VALUES = {"a": 1.0, "b": 0.0, "c": 4.0, "d": 2.0, "e": 7.0, "f": 1.0, "g": 5.0}


def weighted_mean(draws: Mapping[str, Draw], values: Mapping[str, float]) -> float:
    weights = document_weights(draws)
    return sum(weight * values[name] for name, weight in weights.items()) / len(weights)


def next_draws(draws: Mapping[str, Draw]) -> Iterator[dict[str, Draw]]:
    """Every outcome, all equally likely, of a draw of one document from each of two strata.

    Which strata is decided by the labels so far, and their documents' chances differ.
    """
    left = [name for name in VALUES if name not in draws]
    first = 1 + (sum(VALUES[name] for name in draws) > 5) * (len(left) > 3)
    strata = left[:first], left[first:]
    for drawn in product(*strata):
        sizes = (float(len(stratum)) for stratum in strata)
        yield {**draws} | {n: (w, float(len(left))) for n, w in zip(drawn, sizes, strict=True)}


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_over_all_outcomes_the_mean_is_that_of_all_documents(rounds: int) -> None:
    pairs = [*combinations(VALUES, 2)]
    outcomes: list[tuple[float, dict[str, Draw]]]
    outcomes = [(1 / len(pairs), dict.fromkeys(pair, AT_RANDOM)) for pair in pairs]
    for _ in range(rounds):
        outcomes = [
            (chance / len(after), draws)
            for chance, before in outcomes
            for after in [[*next_draws(before)]]
            for draws in after
        ]
    means = [chance * weighted_mean(draws, VALUES) for chance, draws in outcomes]
    assert sum(means) == pytest.approx(sum(VALUES.values()) / len(VALUES), abs=1e-12)


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.one_of(
            st.just(AT_RANDOM), st.tuples(st.floats(0.01, 100), st.sampled_from([10.0, 50.0, 70.0]))
        ),
        min_size=1,
    )
)
def test_weights_are_positive_and_1_on_average(draws: dict[str, Draw]) -> None:
    weights = document_weights(draws)
    assert weights.keys() == draws.keys()
    assert min(weights.values()) > 0
    assert np.mean([*weights.values()]) == pytest.approx(1)


def output(item: str, **cells: object) -> dict[str, object]:
    """An output of the document that its id begins with."""
    return {"id": item, "group": item[0], "document": f"Text {item[0]}.", "summary": item} | cells


def drawn(weight: object, size: object) -> dict[str, object]:
    return {"sampling_weight": weight, "sampling_from": size}


OUTPUTS = [
    *(output("a1", **drawn(None, None)), output("a2")),
    *(output("b1", **drawn(2, 8)), output("c1", **drawn("6.0", "8")), output("c2", **drawn(6, 8))),
    *(output("d1", **drawn(4, 8)), output("e1")),
]
RATINGS = {"a1": 1, "a2": 2, "b1": 3, "c1": 4, "c2": 5}
# Of 3 labelled documents 2 are drawn from 8, and a is before them, so that all are 9. It counts
# 3 (1/3 + 2/3 * 1/9); b and c 3 * 2/3 * 8/9 in the ratio of 2 to 6.
WEIGHTS = {"a": 11 / 9, "b": 4 / 9, "c": 12 / 9}


def test_the_labelled_documents_of_a_file_weigh_by_its_columns(tmp_path: Path) -> None:
    labels = [
        {"id": row["id"], "dimension": "good", "annotator": "x", "rating": RATINGS[str(row["id"])]}
        | {name: row[name] for name in row if name.startswith("sampling")}
        for row in OUTPUTS
        if row["id"] in RATINGS
    ]
    long = write_jsonl(tmp_path / "labels.jsonl", labels)
    plain = [{n: c for n, c in row.items() if not n.startswith("sampling")} for row in OUTPUTS]
    rated = [row | {"good": RATINGS.get(str(row["id"]))} for row in OUTPUTS]
    sets = [
        data.read_labels(rated, dimensions=["good"]),
        data.read_labels(plain, annotations=long),
        data.read_labels(OUTPUTS, annotations=long),
    ]
    for labelled in sets:
        weights = {o.document_id: o.weight for o in labelled.outputs if o.ratings}
        assert weights == pytest.approx(WEIGHTS)
        assert labelled.outputs[2].texts == {"document": "Text b.", "summary": "b1"}
        assert any("drawn with unequal chances" in note for note in labelled.notes)


def test_without_the_columns_every_document_weighs_1() -> None:
    labelled = data.read_labels([output("a1", good=1), output("b1", good=2)], dimensions=["good"])
    assert [one.weight for one in labelled.outputs] == [1, 1]
    assert labelled.notes == ()


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        ((2, 8), (0, 8), "line 2: [0, 8] are not two numbers above 0; correct sampling_weight and"),
        ((2, 8), (-1, 8), "[-1, 8] are not two numbers above 0"),
        ((2, 8), ("inf", 8), "['inf', 8] are not two numbers above 0"),
        ((2, 8), ("two", 8), "['two', 8] are not two numbers above 0"),
        ((2, 8), (2, None), "[2, None] are not two numbers above 0"),
        ((2, 8), (None, 8), "[None, 8] are not two numbers above 0"),
        (
            (2, 8),
            (3, 8),
            "line 2: [3, 8] differ from another row of the document 'a'; correct sampling_weight",
        ),
    ],
)
def test_nonsense_is_refused_with_its_line_and_a_way_out(
    first: tuple[object, ...], second: tuple[object, ...], fault: str, tmp_path: Path
) -> None:
    rows = [output(f"a{n}", good=n, **drawn(*cells)) for n, cells in enumerate([first, second])]
    path = write_jsonl(tmp_path / "labels.jsonl", rows)
    with pytest.raises(data.LabelError, match=re.escape(fault)) as caught:
        data.read_labels(path, dimensions=["good"])
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert "or remove both: then all documents count alike" in str(caught.value)
