"""Published figures recomputed from recorded replies, and the readers of such files."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from judges.judgement import NoScoreError
from optimize.measuring.recorded import RecordingError
from optimize.measuring.replies import (
    judgement_of_replies,
    preference_of_replies,
    read_choice,
    read_replies,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
SUMMEVAL = range(1, 6)
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data, which the project may read but not ship, is absent"
)


def rows(name: str) -> list[dict[str, Any]]:
    with (DATA / name / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [*map(json.loads, lines)]


def people(name: str) -> pd.DataFrame:
    """Each output's document and its mean human ratings, by the output's id."""
    return pd.DataFrame([row | row["ratings"] for row in rows(name)]).set_index("id")


@cache
def with_rows(file: str, **options: bool):
    """Each row of a file of replies, with the replies that were read from it."""
    with (DATA / file).open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [*zip(rows, read_replies(DATA / file, **options), strict=True)]


def scores_on(dimension: str, replies, scale: Sequence[int], values=None) -> "pd.Series[float]":
    """The scores that were read from the replies on a dimension, by the output's id."""
    read = partial(judgement_of_replies, scale=scale, value_by_word=values)
    chosen = {id_: texts for row, (id_, texts) in replies if row["dimension"] == dimension}
    return pd.Series({id_: read(texts).score for id_, texts in chosen.items()})


LETTERS = dict(zip("ABCDE", SUMMEVAL, strict=True))
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
# Rho of each dimension as published, how far off it may be, and replies that give no score.
# Strictly read, two of GPT-4's 4800 replies give no score and fourteen another one than that
# reading took: it read "2/5", "3/5", "4 out of 5" and a closing "2.5" as 5, and the like.
SUMMEVAL_RHOS = [
    ("gpt-4-0314", "rts", (0.444, 0.555, 0.500, 0.422), 0.001, (0, 2, 0, 0)),
    ("gpt-3.5-turbo-0301", "rts", (0.444, 0.423, 0.285, 0.448), 0.0025, (0, 0, 0, 0)),
    ("gpt-3.5-turbo-0301", "altrts", (0.339, 0.393, 0.290, 0.440), 0.0025, (0, 0, 0, 0)),
    ("gpt-3.5-turbo-0301", "altmcq", (0.430, 0.327, 0.258, 0.244), 0.0025, (0, 0, 0, 0)),
    ("gpt-3.5-turbo-0301", "mcq", (0.424, 0.343, 0.343, 0.384), 0.0025, (0, 0, 0, 0)),
    ("gpt-3.5-turbo-0301", "stareval", (0.418, 0.297, 0.246, 0.393), 0.0025, (0, 0, 0, 0)),
]


@needs_data
@pytest.mark.parametrize(("model", "prompt", "rhos", "tolerance", "failed"), SUMMEVAL_RHOS)
def test_recorded_replies_give_their_published_rho(model, prompt, rhos, tolerance, failed):
    human, values = people("summeval"), LETTERS if "mcq" in prompt else None
    replies = [
        (row, (id_, texts[-1:]))
        for row, (id_, texts) in with_rows(f"summeval_judges/replies_{model}.jsonl")
        if row["prompt"] == prompt
    ]
    for name, rho, n_failed in zip(DIMENSIONS, rhos, failed, strict=True):
        scores = scores_on(name, replies, SUMMEVAL, values)
        assert scores.isna().sum() == n_failed
        result = spearmanr(scores, human.loc[scores.index, name], nan_policy="omit")
        assert result.statistic == pytest.approx(rho, abs=tolerance), name


# Table 2 of Chiang & Lee (2023), the G-Eval prompt: Pearson and mean per-context Kendall. On
# groundedness it has .311 and .566, from digits of years in some twenty replies of 7140.
TOPICAL = {
    "naturalness": (range(1, 4), 0.393, 0.358),
    "coherence": (range(1, 4), 0.468, 0.391),
    "engagingness": (range(1, 4), 0.549, 0.513),
    "groundedness": (range(2), 0.320, 0.591),
}


@needs_data
@pytest.mark.parametrize("dimension", TOPICAL)
def test_twenty_samples_averaged_give_the_published_figures_on_topical_chat(dimension):
    scale, pearson, kendall = TOPICAL[dimension]
    file = "topical_chat_judges/replies_gpt-3.5-turbo_auto_cot_score_only.jsonl"
    table = people("topical_chat").assign(judge=scores_on(dimension, with_rows(file), scale))
    table = table.dropna(subset="judge")
    result = pearsonr(table["judge"], table[dimension])
    assert result.statistic == pytest.approx(pearson, abs=0.01)
    # Where either side is constant, tau has no value.
    groups = table.groupby("group")
    taus = [kendalltau(each["judge"], each[dimension]).statistic for _, each in groups]
    assert np.nanmean(taus) == pytest.approx(kendall, abs=0.01)


@needs_data
def test_recorded_choices_give_their_published_accuracy():
    gold = {row["id"]: (row["subset"], row["preferred"]) for row in rows("llmbar")}
    right, total = Counter(), Counter()
    for row, (id_, replies) in with_rows("llmbar/replies_GPT-4.jsonl", is_pairwise=True):
        subset, choice = gold[id_]
        # Each order is counted by itself, and a reply without a choice as wrong, as published.
        for text, answer in zip(replies, (choice, "AB".strip(choice)), strict=True):
            total[subset, row["prompt"]] += 1
            right[subset, row["prompt"]] += _chooses(text, answer)
    cells = json.loads((DATA / "llmbar" / "published_statistics_GPT-4.json").read_text("utf-8"))
    assert len(cells) == 28
    for cell in cells:
        key = cell["subset"], cell["prompt"]
        accuracy = float(cell["correct_average"].rstrip("%"))
        if key == ("CaseStudy_Constraint", "CoT"):
            # "neither Output (a) nor Output (b) is better." counts as b, and right, there.
            accuracy -= 100 / total[key]
        assert 100 * right[key] / total[key] == pytest.approx(accuracy, abs=0.01), key


def _chooses(text: str, answer: str) -> bool:
    try:
        return read_choice(text, ["A", "B"]) == answer
    except NoScoreError:
        return False


@needs_data
def test_gpt35_prefers_alike_in_both_orders_on_2853_pairs():
    path = DATA / "summeval_judges" / "h2h_gpt-3.5-turbo-0301.jsonl"
    other, same = {"A": "B", "B": "A", "C": "C"}, []
    for _, replies in read_replies(path, is_pairwise=True):
        first, second = (read_choice(text, "ABC") for text in replies)
        same.append(first == other[second])
        assert preference_of_replies(replies, value_by_word={"C": "tie"}).failure is None
    assert (sum(same), len(same)) == (2853, 4400)


@pytest.mark.parametrize(
    ("replies", "values", "verdict"),
    [
        # Letters of the swapped order name places, and verdicts name outputs.
        (("A", "B"), None, ("A", "A", 1)),
        (("A", "A"), None, ("tie", "B", 0)),
        (("left", "right"), {"left": "A", "right": "B"}, ("A", "A", 1)),
        # A tie counts only where it was offered.
        (("C", "B"), {"C": "tie"}, ("tie", "A", 0.5)),
        (("C", "B"), None, None),
    ],
)
def test_a_pairs_replies_give_a_verdict(replies, values, verdict):
    result = preference_of_replies(replies, values or {})
    assert (result.failure is None) == (verdict is not None)
    if verdict is not None:
        assert (result.preferred, result.order_ba, result.margin) == verdict


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


SAMPLES = [
    # A word counts as the number that the values give it.
    (["B", "Answer: C"], LETTERS, 2.5, 0),
    (["B"], None, None, 1),
    # Unparsable samples are left out and counted.
    (["4", "no idea", "Final score: 3.5"], None, 3.75, 1),
    (["no idea", "Final score: 5.5"], None, None, 2),
    # A sentence that rates is read, and one that supposes or denies is not.
    *(([text], None, score, int(score is None)) for text, score in SENTENCES.items()),
]


@pytest.mark.parametrize(("replies", "values", "score", "unparsable"), SAMPLES)
def test_samples_are_read_or_counted(replies, values, score, unparsable):
    result = judgement_of_replies(replies, SUMMEVAL, value_by_word=values)
    assert (None if result.failure else result.score) == score
    assert (result.samples, result.unparsable) == (len(replies) - unparsable, unparsable)


def test_a_sentence_that_prefers_one_is_read():
    reply = "Output (a) adds well. Output (b) adds badly. Therefore, Output (a) is better."
    assert _chooses(reply, "A")
    assert not _chooses("Neither Output (a) nor Output (b) is better.", "B")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: .* is not JSON"),
        ("[]", r"line 2: \[\] is not a JSON object"),
        ('{"replies": ["1"]}', "line 2: 'id' is missing"),
        ('{"id": "a", "replies": 1}', "line 2: 'replies' must be a text or a list"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"id": "a", "replies": ["1"]}}\n{line}\n', encoding="utf-8")
    with pytest.raises(RecordingError, match=message):
        list(read_replies(path))
