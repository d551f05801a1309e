"""Published figures recomputed from recorded replies, and the readers of such files."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from judges.judgement import NoScoreError
from optimize.measuring.recorded import (
    RecordedReplies,
    RecordingError,
    judgement,
    preference,
    read_choice,
    read_pair_replies,
    read_replies,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
SUMMEVAL = range(1, 6)
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data, which the project may read but not ship, is absent"
)
Ratings = dict[str, tuple[str, dict[str, float]]]


def labels(name: str) -> Ratings:
    """Each output's document and its mean human ratings."""
    return {row["id"]: (row["group"], row["ratings"]) for row in rows(name)}


def rows(name: str) -> Iterator[dict[str, Any]]:
    with (DATA / name / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def summeval() -> Ratings:
    return labels("summeval")


LETTERS = dict(zip("ABCDE", SUMMEVAL, strict=True))


def summeval_scores(file: str, dimension: str, prompt: str) -> dict[str, float]:
    return {
        reply.id: judgement(reply.replies[-1:], SUMMEVAL).score
        for reply in read_replies(DATA / "summeval_judges" / f"replies_{file}.jsonl")
        if reply.dimension == dimension and reply.prompt == prompt
    }


def vectors(
    scores: dict[str, float], human: Ratings, dimension: str
) -> Iterator[tuple[str, float, float]]:
    for name, score in scores.items():
        if score == score:
            yield human[name][0], score, human[name][1][dimension]


def dataset_level(scores: dict[str, float], human: Ratings, dimension: str) -> float:
    _, judge, people = zip(*vectors(scores, human, dimension), strict=True)
    return float(spearmanr(judge, people).statistic)


# Strictly read, two of 4800 replies give no score and fourteen another one than that reading took:
# it read "2/5", "3/5", "4 out of 5" and a closing "2.5" as 5, and the like.
@needs_data
@pytest.mark.parametrize(
    ("dimension", "rho", "failed"),
    [("coherence", 0.444, 0), ("consistency", 0.555, 2), ("fluency", 0.500, 0),
     ("relevance", 0.422, 0)],
)  # fmt: skip
def test_gpt4s_replies_read_strictly_stay_close_to_the_published_rho(
    dimension: str, rho: float, failed: int, summeval: Ratings
) -> None:
    scores = summeval_scores("gpt-4-0314", dimension, "rts")
    assert sum(score != score for score in scores.values()) == failed
    assert dataset_level(scores, summeval, dimension) == pytest.approx(rho, abs=0.001)


DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
GPT35 = {
    "rts": (0.444, 0.423, 0.285, 0.448),
    "mcq": (0.424, 0.343, 0.343, 0.384),
    "stareval": (0.418, 0.297, 0.246, 0.393),
    "altrts": (0.339, 0.393, 0.290, 0.440),
    "altmcq": (0.430, 0.327, 0.258, 0.244),
}


@needs_data
def test_gpt35s_five_prompts_give_their_published_rho_read_strictly(summeval: Ratings) -> None:
    replies = defaultdict(dict)
    for reply in read_replies(DATA / "summeval_judges" / "replies_gpt-3.5-turbo-0301.jsonl"):
        values = LETTERS if "mcq" in str(reply.prompt) else None
        said = judgement(reply.replies[-1:], SUMMEVAL, values=values)
        assert said.failure is None
        replies[reply.prompt, reply.dimension][reply.id] = said.score
    for prompt, expected in GPT35.items():
        for dimension, rho in zip(DIMENSIONS, expected, strict=True):
            result = dataset_level(replies[prompt, dimension], summeval, dimension)
            assert result == pytest.approx(rho, abs=0.0025), (prompt, dimension)


# Table 2 of Chiang & Lee (2023), the G-Eval prompt: Pearson and mean per-context Kendall. On
# groundedness it has .311 and .566, from digits of years in some twenty replies of 7140.
TOPICAL = {
    "naturalness": (range(1, 4), 0.393, 0.358),
    "coherence": (range(1, 4), 0.468, 0.391),
    "engagingness": (range(1, 4), 0.549, 0.513),
    "groundedness": (range(2), 0.320, 0.591),
}


@needs_data
def test_twenty_samples_averaged_give_the_published_figures_on_topical_chat() -> None:
    human = labels("topical_chat")
    file = "replies_gpt-3.5-turbo_auto_cot_score_only.jsonl"
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for reply in read_replies(DATA / "topical_chat_judges" / file):
        assert reply.dimension is not None
        scores[reply.dimension][reply.id] = judgement(
            reply.replies, TOPICAL[reply.dimension][0]
        ).score
    for dimension, (_, pearson, kendall) in TOPICAL.items():
        documents, judge, people = zip(*vectors(scores[dimension], human, dimension), strict=True)
        assert pearsonr(judge, people).statistic == pytest.approx(pearson, abs=0.01)
        taus = []
        for document in dict.fromkeys(documents):
            places = [i for i, other in enumerate(documents) if other == document]
            sides = [[side[i] for i in places] for side in (judge, people)]
            if all(np.ptp(side) for side in sides):
                taus.append(kendalltau(*sides).statistic)
        assert np.mean(taus) == pytest.approx(kendall, abs=0.01), dimension


@needs_data
def test_gpt4s_accuracy_on_llmbar_is_the_published_one_but_for_one_reply() -> None:
    gold = {row["id"]: (row["subset"], row["preferred"]) for row in rows("llmbar")}
    right, asked = Counter(), Counter()
    for pair in read_pair_replies(DATA / "llmbar" / "replies_GPT-4.jsonl"):
        subset, preferred = gold[pair.id]
        # Each order is counted by itself, and a reply without a choice as wrong, as published.
        for text, answer in zip(pair.replies, (preferred, "AB".strip(preferred)), strict=True):
            asked[subset, pair.prompt] += 1
            right[subset, pair.prompt] += _chooses(text, answer)
    cells = json.loads((DATA / "llmbar" / "published_statistics_GPT-4.json").read_text("utf-8"))
    assert len(cells) == 28
    for cell in cells:
        key = cell["subset"], cell["prompt"]
        published = float(cell["correct_average"].rstrip("%"))
        if key == ("CaseStudy_Constraint", "CoT"):
            # "neither Output (a) nor Output (b) is better." counts as b, and right, there.
            published -= 100 / asked[key]
        assert 100 * right[key] / asked[key] == pytest.approx(published, abs=0.01), key


def _chooses(text: str, answer: str) -> bool:
    try:
        return read_choice(text, ["A", "B"]) == answer
    except NoScoreError:
        return False


@needs_data
def test_gpt35_agrees_with_itself_in_both_orders_on_2853_of_4400_pairs() -> None:
    path = DATA / "summeval_judges" / "h2h_gpt-3.5-turbo-0301.jsonl"
    other = {"A": "B", "B": "A", "C": "C"}
    same = total = 0
    for pair in read_pair_replies(path):
        first, second = (read_choice(text, "ABC") for text in pair.replies)
        same += first == other[second]
        total += 1
        assert preference(pair, values={"C": "tie"}).failure is None
    assert (same, total) == (2853, 4400)


def pair(ab: str, ba: str) -> RecordedReplies:
    return RecordedReplies(id="1", dimension=None, prompt=None, replies=(ab, ba))


def test_letters_of_the_swapped_order_name_places_and_verdicts_name_outputs() -> None:
    consistent = preference(pair("A", "B"))
    assert (consistent.preferred, consistent.order_ba, consistent.margin) == ("A", "A", 1)
    positional = preference(pair("A", "A"))
    assert (positional.preferred, positional.order_ba, positional.margin) == ("tie", "B", 0)


def test_a_tie_counts_only_where_it_was_offered() -> None:
    assert preference(pair("C", "B"), values={"C": "tie"}).margin == 0.5
    assert preference(pair("C", "B")).failure is not None


def test_words_count_what_they_are_said_to_count() -> None:
    assert judgement(["B", "Answer: C"], SUMMEVAL, values=LETTERS).score == 2.5
    assert judgement(["B"], SUMMEVAL).failure is not None
    consistent = preference(pair("left", "right"), values={"left": "A", "right": "B"})
    assert (consistent.preferred, consistent.margin) == ("A", 1)


SENTENCES = {
    "It omits the date, resulting in a score of 2 for relevance.": 2,
    "It does not name the goals, so I would give it a score of 4.": 4,
    "The text drifts, scoring a one out of five.": 1, "It lists 12 goals. Final score: 3.5": 3.5,
    "The summary only covers a small part; therefore, it scores 1 out of 5.": 1,
    "The response is somewhat interesting (2).": 2, "It leaves out a fact; 4 out of 5.": 4,
    "I would not give it a 5.": None, "If it were shorter, I would give it a 5.": None,
    "On a scale of 1-10, I rate it 4.": None, "It gets 2 facts right.": None,
    "It earns a 4. It deserves a 5.": None, "Others would give it a 4.": None,
}  # fmt: skip


@pytest.mark.parametrize(("reply", "score"), SENTENCES.items())
def test_a_sentence_that_rates_is_read_and_one_that_supposes_or_denies_is_not(
    reply: str, score: float | None
) -> None:
    said = judgement([reply], SUMMEVAL)
    assert (said.score == score) if score is not None else said.failure is not None


def test_a_sentence_that_prefers_one_is_read() -> None:
    reply = "Output (a) adds well. Output (b) adds badly. Therefore, Output (a) is better."
    assert _chooses(reply, "A")
    assert not _chooses("Neither Output (a) nor Output (b) is better.", "B")


def test_unparsable_samples_are_left_out_and_counted() -> None:
    said = judgement(["4", "no idea", "Final score: 3.5"], SUMMEVAL)
    assert (said.score, said.samples, said.unparsable) == (3.75, 2, 1)
    assert judgement(["no idea", "Final score: 5.5"], SUMMEVAL).failure is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: .* is not JSON"),
        ("[]", r"line 2: \[\] is not a JSON object"),
        ('{"replies": ["1"]}', "line 2: 'id' is missing"),
        ('{"id": "a", "replies": 1}', "line 2: 'replies' must be a text or a list"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"id": "a", "replies": ["1"]}}\n{line}\n', encoding="utf-8")
    with pytest.raises(RecordingError, match=message):
        list(read_replies(path))
