"""The starter set says what it is, is what is built, and rates what was done to each summary."""

import json
from collections import Counter
from pathlib import Path

import pytest
from starter.documents import STARTER, read_sources
from starter_set import (
    DIMENSIONS,
    Row,
    describe,
    files,
    longer_preferred,
    main,
    n_words,
    rating,
    within_documents,
)

import data

SOURCES = {source.id: source for source in read_sources()}


def _rows(name: str) -> list[Row]:
    lines = (STARTER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


OUTPUTS, PAIRS = _rows("outputs.jsonl"), _rows("pairs.jsonl")


def test_the_readme_says_first_that_no_person_gave_these_ratings():
    first = (STARTER / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert "constructed" in first
    assert "no person" in first


def test_the_readme_shows_what_the_describing_command_prints():
    assert describe() in (STARTER / "README.md").read_text(encoding="utf-8")


def test_the_shipped_files_are_what_is_built(capsys):
    for path, content in files().items():
        assert path.read_text(encoding="utf-8") == content
    assert main([]) == 0
    assert capsys.readouterr().out.count("as built") == 2


def test_a_changed_file_is_noticed_and_left_alone(tmp_path, monkeypatch, capsys):
    changed = tmp_path / "outputs.jsonl"
    changed.write_text("{}\n")
    monkeypatch.setattr("starter_set.files", lambda: {changed: "other\n"})
    assert main([]) == 1
    assert "is not what is built" in capsys.readouterr().err
    assert changed.read_text() == "{}\n"


def test_it_is_read_without_a_remark():
    """Its ratings stand under a name of their own, so that no other column is taken for one."""
    assert data.starter().notes == ()


def test_there_is_enough_of_everything():
    documents = {row["group"]: row["kind"] for row in OUTPUTS}
    assert len(documents) >= 32
    assert len(set(documents.values())) >= 5
    assert len({row["system"] for row in OUTPUTS}) >= 8
    assert len(PAIRS) >= 60


def test_every_system_summarizes_every_document_once_and_no_two_alike():
    systems = {row["system"] for row in OUTPUTS}
    for document in SOURCES:
        rows = [row for row in OUTPUTS if row["group"] == document]
        assert Counter(row["system"] for row in rows) == dict.fromkeys(systems, 1)
        assert len({row["summary"] for row in rows}) == len(rows)


@pytest.mark.parametrize("rows", [OUTPUTS, PAIRS], ids=["outputs", "pairs"])
def test_ids_are_unique(rows):
    assert len({row["id"] for row in rows}) == len(rows)


def test_ratings_are_quarters_on_the_scale():
    for row in OUTPUTS:
        assert tuple(row["ratings"]) == DIMENSIONS
        assert all(1 <= mark <= 5 and mark * 4 % 1 == 0 for mark in row["ratings"].values())


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_ratings_spread_over_the_scale_and_within_every_document(dimension):
    marks = Counter(int(rating(dimension)(row)) for row in OUTPUTS)
    assert all(marks[mark] >= 5 for mark in range(1, 6))
    for document in SOURCES:
        rows = [row for row in OUTPUTS if row["group"] == document]
        assert len({rating(dimension)(row) for row in rows}) >= 3, document


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_length_alone_ranks_badly(dimension):
    assert abs(within_documents(OUTPUTS, n_words, rating(dimension))) < 0.35


def test_untrue_sentences_stand_only_where_consistency_is_lowered():
    for row in OUTPUTS:
        source = SOURCES[row["group"]]
        untrue = [point.wrong for point in source.points]
        untrue += [source.gist.wrong, *source.invented]
        if any(sentence in row["summary"] for sentence in untrue):
            assert row["ratings"]["consistency"] < 5, row["id"]


# Five points weigh 5 4 3 2 1 of 15. The first three: 12/15 = .8, which earns all four.


def test_pairs_favour_neither_a_place_nor_a_length():
    verdicts = Counter(row["preferred"] for row in PAIRS)
    assert abs(verdicts["A"] - verdicts["B"]) <= 4
    assert 3 <= verdicts["tie"] <= len(PAIRS) / 4
    assert 0.4 <= longer_preferred(PAIRS) <= 0.6


def test_pairs_hold_the_systems_own_outputs():
    summaries = {(row["group"], row["system"]): row["summary"] for row in OUTPUTS}
    for row in PAIRS:
        assert row["system_a"] != row["system_b"]
        assert row["summary_a"] == summaries[row["group"], row["system_a"]]
        assert row["summary_b"] == summaries[row["group"], row["system_b"]]
        assert len(row["votes"]) == 3


def test_the_set_stays_small():
    assert sum(path.stat().st_size for path in STARTER.rglob("*") if path.is_file()) < 2_000_000


def test_no_building_block_misses_its_place_in_the_document(tmp_path):
    spoiled = tmp_path / "news.yaml"
    entry = (STARTER / "documents" / "news.yaml").read_text(encoding="utf-8")
    for kind in Path(STARTER / "documents").iterdir():
        (tmp_path / kind.name).write_text(kind.read_text(encoding="utf-8"), encoding="utf-8")
    spoiled.write_text(entry.replace("where: will lose its winter ferry", "where: nowhere"))
    with pytest.raises(ValueError, match="news-ferry: 'nowhere' is in 0 sentences"):
        read_sources(tmp_path)
