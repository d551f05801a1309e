"""The starter set says what it is, is what is built, and rates what was done to each summary."""

import json
from collections import Counter
from pathlib import Path

import pytest
from starter.compose import Sentence, text
from starter.documents import STARTER, Source, read_sources
from starter.rate import coherence, consistency, fluency, ratings, relevance, votes
from starter_set import (
    DIMENSIONS,
    Row,
    describe,
    files,
    longer_preferred,
    main,
    n_words,
    rating,
    summarize,
    within_documents,
)

import data

SOURCES = {source.id: source for source in read_sources()}
FERRY = SOURCES["news-ferry"]


def _rows(name: str) -> list[Row]:
    lines = (STARTER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


OUTPUTS, PAIRS = _rows("outputs.jsonl"), _rows("pairs.jsonl")


def points(*places: int, source: Source = FERRY) -> tuple[Sentence, ...]:
    return tuple(Sentence(text=source.points[i].says, role="point", covers=(i,)) for i in places)


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


def test_documents_have_the_length_they_claim():
    assert all(120 <= len(source.document.split()) <= 260 for source in SOURCES.values())


def test_building_blocks_are_all_there_and_all_different():
    for source in SOURCES.values():
        assert 4 <= len(source.points) <= 6
        assert len(source.trivia) >= 2
        blocks = [point.says for point in source.points] + [point.wrong for point in source.points]
        blocks += [source.gist.says, source.gist.wrong, *source.trivia, *source.invented]
        assert len(set(blocks)) == len(blocks), source.id
        assert all(block.endswith(".") for block in blocks)


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


def test_the_dimensions_are_four_and_not_one():
    for i, one in enumerate(DIMENSIONS):
        for other in DIMENSIONS[:i]:
            assert within_documents(OUTPUTS, rating(one), rating(other)) < 0.5


def test_untrue_sentences_stand_only_where_consistency_is_lowered():
    for row in OUTPUTS:
        source = SOURCES[row["group"]]
        untrue = [point.wrong for point in source.points]
        untrue += [source.gist.wrong, *source.invented]
        if any(sentence in row["summary"] for sentence in untrue):
            assert row["ratings"]["consistency"] < 5, row["id"]


def test_a_system_varies_from_document_to_document():
    for system in {row["system"] for row in OUTPUTS}:
        rows = [row for row in OUTPUTS if row["system"] == system]
        assert len({tuple(row["ratings"].values()) for row in rows}) >= 10, system


def test_another_seed_makes_other_summaries():
    # The same seed makes the same ones: the shipped files are as built.
    ours, others = summarize(FERRY), summarize(FERRY, seed=1)
    assert any(text(ours[system]) != text(others[system]) for system in ours)


# Five points weigh 5 4 3 2 1 of 15. The first three: 12/15 = .8, which earns all four.
def test_relevance_follows_the_weight_of_what_is_told():
    assert relevance(FERRY, points(0, 1, 2)) == pytest.approx(5)
    assert relevance(FERRY, points(4)) == pytest.approx(1 + 4 / 15 / 0.8)
    trivia = Sentence(text=FERRY.trivia[0], role="trivia")
    assert relevance(FERRY, (*points(0, 1, 2), trivia)) == pytest.approx(5 - 0.6)


def test_consistency_follows_the_share_of_untrue_words():
    true = Sentence(text="one two three", role="point", covers=(0,))
    untrue = Sentence(text="four", role="point", covers=(1,), wrong=True)
    assert consistency((true,)) == 5
    assert consistency((true, untrue)) == pytest.approx(5 - 6 / 4)


def test_fluency_follows_the_mean_severity():
    cut = Sentence(text="The ferry", role="point", covers=(1,), fault="truncated")
    assert fluency(points(0, 1)) == 5
    assert fluency((*points(0), cut)) == pytest.approx(5 - 5 * 0.8 / 2)


def test_coherence_falls_with_disorder_repetition_and_loose_continuations():
    assert coherence(FERRY, points(0, 1, 2)) == 5
    # Order 2 0 1: two pairs of three are inverted, and the main point does not open.
    assert coherence(FERRY, points(2, 0, 1)) == pytest.approx(5 - 2.5 * 2 / 3 - 0.5)
    assert coherence(FERRY, points(0, 1, 1)) == pytest.approx(5 - 0.5)
    linked = Sentence(text=FERRY.points[1].linked, role="point", covers=(1,), linked=True)
    assert coherence(FERRY, (*points(0), linked)) == 5
    # After point 3 the continuation dangles, and the pair 3 1 is one inversion of three.
    assert coherence(FERRY, (*points(0, 3), linked)) < coherence(FERRY, points(0, 3, 1))


def test_a_full_and_faithful_summary_gets_full_marks():
    assert set(ratings(FERRY, points(0, 1, 2, 3, 4)).values()) == {5.0}


def test_voters_agree_on_coverage_and_differ_on_detail():
    trivia = [Sentence(text=detail, role="trivia") for detail in FERRY.trivia]
    assert votes(FERRY, points(0, 1), points(3, 4)) == ("A", "A", "A")
    assert votes(FERRY, points(3, 4), points(0, 1)) == ("B", "B", "B")
    # 12/15 with two details against 9/15: +.1, 0 and -.2 for the three voters.
    assert votes(FERRY, (*points(0, 1, 2), *trivia[:2]), points(0, 1)) == ("A", "tie", "B")


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
