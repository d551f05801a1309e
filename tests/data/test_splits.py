"""Splits are disjoint, complete where they say so, and the same for any order of the rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import data


def output(
    document: str, system: str | None, text: str | None = None, item: str | None = None
) -> data.LabelledOutput:
    return data.LabelledOutput(
        id=item or f"{document}::{system}",
        document_id=document,
        system=system,
        texts={"document": text or f"Text of {document}.", "summary": "Short."},
        ratings={"relevance": (3.0,)},
    )


def a_set(outputs: Sequence[data.LabelledOutput]) -> data.LabelledSet:
    return data.LabelledSet(name="made", sha256="0" * 64, outputs=tuple(outputs))


def grid(documents: int, systems: int) -> list[data.LabelledOutput]:
    return [output(f"d{d}", f"s{s}") for d in range(documents) for s in range(systems)]


def parts(splits: data.Splits[data.LabelledSet]) -> list[data.LabelledSet]:
    return [splits.train, splits.dev, splits.test]


def ids(*labelled: data.LabelledSet) -> Counter[str]:
    return Counter(one.id for part in labelled for one in part.outputs)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(documents=st.integers(6, 120), systems=st.integers(1, 4), seed=seeds)
def test_by_document_is_complete_and_no_document_is_in_two_parts(
    documents: int, systems: int, seed: int
) -> None:
    labelled = a_set(grid(documents, systems))
    splits = data.split(labelled, seed=seed)
    assert splits.by == "document"
    assert ids(*parts(splits)) == ids(labelled)
    held = [set(part.documents) for part in parts(splits)]
    assert sum(map(len, held)) == documents == len(set.union(*held))
    assert all(len(one) >= 2 for one in held)


@given(documents=st.integers(6, 60), systems=st.integers(8, 20), seed=seeds)
def test_by_both_new_systems_meet_only_test_documents_and_nothing_is_unaccounted_for(
    documents: int, systems: int, seed: int
) -> None:
    labelled = a_set(grid(documents, systems))
    splits = data.split(labelled, seed=seed)
    assert splits.by == "both"
    new = splits.test_unseen_systems
    assert new is not None
    assert set(new.systems) == set(splits.held_out_systems)
    assert set(new.documents) == set(splits.test.documents)
    for part in parts(splits):
        assert not set(part.systems) & set(splits.held_out_systems)
    assert len(splits.held_out_systems) == max(3, round(systems / 4))
    assert sum(ids(*parts(splits), new).values()) + splits.n_unused == len(labelled.outputs)


def test_documents_with_the_same_text_stay_together_even_in_a_chain() -> None:
    rows = [output(f"d{place}", "s", text=f"Text {place // 2}.") for place in range(20)]
    # d1 and d2 share nothing but a second output of each with one text: 0-1-2-3 is one chain.
    rows += [output("d1", "t", text="Shared."), output("d2", "t", text="Shared.")]
    for seed in range(30):
        splits = data.split(a_set(rows), seed=seed)
        home = {name: place for place, part in enumerate(parts(splits)) for name in part.documents}
        assert len({home[f"d{place}"] for place in range(4)}) == 1
        assert all(home[f"d{place}"] == home[f"d{place + 1}"] for place in range(4, 20, 2))


def test_the_same_text_without_a_source_stays_in_one_part() -> None:
    rows = [
        replace(output(f"d{place}", "s"), texts={"summary": f"Text {place % 20}."})
        for place in range(40)
    ]
    splits = data.split(a_set(rows), seed=0)
    assert sum(map(len, (part.outputs for part in parts(splits)))) == 40
    texts = [{one.texts["summary"] for one in part.outputs} for part in parts(splits)]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 20


def test_too_few_documents_are_refused_with_a_way_out() -> None:
    with pytest.raises(
        data.LabelError, match=r"made: 1 document is too few.*at least 6 are needed"
    ):
        data.split(a_set(grid(1, 16)), seed=0)
    with pytest.raises(data.LabelError, match="5 documents are too few"):
        data.split(a_set(grid(5, 16)), seed=0)
    same = [output(f"d{place}", "s", text="One text.") for place in range(50)]
    with pytest.raises(data.LabelError, match="1 document is too few"):
        data.split(a_set(same), seed=0)


def test_systems_are_not_held_out_where_they_are_few_unnamed_or_of_documents_of_their_own() -> None:
    own = [output(f"d{place}", f"s{place}") for place in range(8)]
    for rows in (grid(10, 7), [*grid(10, 8), output("d0", None)], own):
        splits = data.split(a_set(rows), seed=0)
        assert (splits.by, splits.held_out_systems, splits.n_unused) == ("document", (), 0)
        assert ids(*parts(splits)) == ids(a_set(rows))


def test_pairs_split_by_document_alone() -> None:
    pairs = tuple(
        data.LabelledPair(
            id=f"p{place}",
            document_id=f"d{place // 2}",
            texts={"prompt": f"Prompt {place // 2}"},
            response_a="x",
            response_b="y",
            system_a="s",
            system_b="t",
            votes=("A",),
        )
        for place in range(40)
    )
    labelled = data.LabelledPairs(name="made", sha256="0" * 64, pairs=pairs)
    splits = data.split(labelled, seed=3)
    held = [set(part.documents) for part in (splits.train, splits.dev, splits.test)]
    assert [len(one) for one in held] == [7, 8, 5]
    assert len(set.union(*held)) == 20
    assert splits.by == "document"
