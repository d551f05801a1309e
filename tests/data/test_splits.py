"""Splits are disjoint, complete where they say so, and the same for any order of the rows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import data

Outputs = list[data.LabelledOutput]


def output(document: str, system: str | None, text: str = "") -> data.LabelledOutput:
    return data.LabelledOutput(
        id=f"{document}::{system}",
        document_id=document,
        system=system,
        texts={"document": text or f"Text of {document}.", "summary": "Short."},
        ratings={"relevance": (3.0,)},
    )


def split(outputs: Outputs, seed: int = 0) -> data.Splits[data.LabelledSet]:
    labelled = data.LabelledSet(name="made", sha256="0" * 64, outputs=tuple(outputs))
    return data.split(labelled, seed=seed)


def grid(documents: int, systems: int) -> Outputs:
    return [output(f"d{d}", f"s{s}") for d in range(documents) for s in range(systems)]


def parts(splits: data.Splits[data.LabelledSet]) -> list[data.LabelledSet]:
    return [splits.train, splits.dev, splits.test]


def ids(*outputs: Iterable[data.LabelledOutput]) -> Counter[str]:
    return Counter(one.id for each in outputs for one in each)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(documents=st.integers(6, 120), systems=st.integers(1, 4), seed=seeds)
def test_by_document_no_document_is_in_two_parts(documents, systems, seed):
    outputs = grid(documents, systems)
    splits = split(outputs, seed)
    assert splits.by == "document"
    assert ids(*(part.outputs for part in parts(splits))) == ids(outputs)
    sets = [set(part.documents) for part in parts(splits)]
    assert sum(map(len, sets)) == documents == len(set.union(*sets))
    assert all(len(one) >= 2 for one in sets)


@given(documents=st.integers(6, 60), systems=st.integers(8, 20), seed=seeds)
def test_by_both_new_systems_meet_test_documents(documents, systems, seed):
    splits = split(grid(documents, systems), seed)
    assert splits.by == "both"
    new = splits.test_unseen_systems
    assert new is not None
    assert set(new.systems) == set(splits.held_out_systems)
    assert set(new.documents) == set(splits.test.documents)
    assert not any({*part.systems} & {*splits.held_out_systems} for part in parts(splits))
    assert len(splits.held_out_systems) == max(3, round(systems / 4))
    n_used = sum(len(part.outputs) for part in [*parts(splits), new])
    assert n_used + splits.n_unused == documents * systems


def test_documents_with_the_same_text_stay_together_even_in_a_chain():
    rows = [output(f"d{place}", "s", f"Text {place // 2}.") for place in range(20)]
    # d1 and d2 share nothing but a second output of each with one text: 0-1-2-3 is one chain.
    rows += [output("d1", "t", "Shared."), output("d2", "t", "Shared.")]
    for seed in range(30):
        splits = split(rows, seed)
        home = {name: place for place, part in enumerate(parts(splits)) for name in part.documents}
        assert len({home[f"d{place}"] for place in range(4)}) == 1
        assert all(home[f"d{place}"] == home[f"d{place + 1}"] for place in range(4, 20, 2))


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (grid(1, 16), r"made: 1 document is too few.*at least 6 are needed"),
        (grid(5, 16), "5 documents are too few"),
        (
            [output(f"d{place}", "s", "One text.") for place in range(50)],
            "1 document is too few .*that share a text count as one; .* --map input=COLUMN, or",
        ),
    ],
)
def test_too_few_documents_are_refused_with_a_way_out(rows, fault):
    with pytest.raises(data.LabelError, match=fault):
        split(rows)


def test_if_equal_answers_join_documents_naming_the_question_tells_them_apart():
    rows = [
        {"case_id": n, "Kundenfrage": f"Wo ist mein Paket {n}, das ich so lange erwarte?"}
        | {"Antwort": "Es kommt bald.", "relevance": n % 5 + 1}
        for n in range(20)
    ]
    with pytest.raises(data.LabelError, match="them apart with --map input=COLUMN, or"):
        data.split(data.read_labels(rows), seed=0)
    labelled = data.read_labels(rows, map={"input": "Kundenfrage"})
    assert len(data.split(labelled, seed=0).train.documents) == 7


@pytest.mark.parametrize(
    "rows",
    [grid(10, 7), [*grid(10, 8), output("d0", None)], [output(f"d{n}", f"s{n}") for n in range(8)]],
    ids=["few", "unnamed", "of documents of their own"],
)
def test_systems_are_not_held_out_where_they_are(rows):
    splits = split(rows)
    assert (splits.by, splits.held_out_systems, splits.n_unused) == ("document", (), 0)
    assert ids(*(part.outputs for part in parts(splits))) == ids(rows)


def test_pairs_without_a_source_are_split_by_all_texts():
    # 40 documents with 20 different pairs, so that two documents each stay together.
    sides = {"prompt": "Why?", "response_b": "So.", "system_a": "s", "system_b": "t"}
    rows = [
        {"id": n, "group": f"d{n}", "response_a": f"A{n % 20}", **sides, "preferred": "A"}
        for n in range(40)
    ]
    labelled = data.read_pairs(rows)
    pairs = [replace(pair, texts={"task": "Why?"}) for pair in labelled.pairs]
    splits = data.split(replace(labelled, pairs=tuple(pairs)), seed=3)
    texts = [{one.response_a for one in part.pairs} for part in (splits.train, splits.dev)]
    assert [len(one) for one in texts] == [7, 8]
    assert not set.intersection(*texts)
    assert splits.by == "document"
