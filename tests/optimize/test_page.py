"""Pages: whole for whole data, honest for poor data, inert for hostile data."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_cases import (
    CLEAN,
    PROBES,
    gain,
    on_split,
    outputs,
    pairs,
    plain,
    reaching,
    run_page,
    text_of,
)

from judges.judgement import Judgement
from judges.labels.types import LabelledSet
from optimize.measuring.injection import ATTACKS, Probes, score_shift
from optimize.measuring.misses import Miss, Remarks, misses, rank_differences
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.verification import Verification
from optimize.report import charts
from optimize.report.answer import Answer, Table, Tile
from optimize.report.misses import Article, MissGroup, miss_groups
from optimize.report.page import (
    Page,
    Section,
    backticks_as_code,
    html,
    sentence_difference,
    successful_attacks,
    write_verification,
)

NAN = math.nan
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`<!-- \x1b[8m\u202e"
TEXT = st.text(alphabet=st.characters(codec="utf-8"))
TITLES = [
    "Answer", "Misses", "What else to do", "Figures", "The prompt that ships",
    "Where it comes from",
]  # fmt: skip
POOR = {
    "one document": outputs([1, 2, 3], [[2], [1], [3]], ["d"] * 3),
    "one output": outputs([3], [[4]], ["d"]),
    "constant people": outputs([1, 2, 3, 4], [[3]] * 4, list("aabb")),
    "constant judge": outputs([3] * 4, [[1], [2], [1], [2]], list("aabb")),
    "all failed": outputs([NAN] * 4, [[1], [2], [1], [2]], list("aabb")),
    "one score": outputs([NAN, 2, NAN, NAN], [[1], [2], [1], [2]], list("aabb")),
    "two systems": outputs(
        [1, 2, 3, 4], [[1], [2], [2], [4]], list("aabb"), systems=["x", "y"] * 2
    ),
    "another scale": outputs([1, 2, 3, 4], [[0], [0.5], [0.2], [1]], list("aabb")),
    "no scale": outputs([0.1, 0.2, 0.3, 0.4], [[1], [2], [5], [1]], list("aabb"), scale=()),
    "0 to 100": outputs([0, 55, 100], [[5], [55], [95]], list("aab"), scale=tuple(range(101))),
    "empty texts": outputs([1, 2], [[1], [2]], ["a", "a"], texts={"summary": ""}),
    "pass and fail": outputs([1, 0.7, 0], [[1], [0], [1]], list("aab"), scale=(0, 1)),
    "one word": outputs([1, 1, NAN], [[1], [1], [1]], list("aab"), scale=(0, 1)),
    "no verdict": outputs([NAN, NAN], [[1], [0]], list("ab"), scale=(0, 1)),
    "pairs": pairs([("A", "B"), ("B", "B"), (None, None)], [("A",), ("B",), ("tie",)]),
    "pairs that all failed": pairs([(None, None)] * 2, [("A",), ("B",)]),
}


class Tags(HTMLParser):
    """The tags of a page, and what would run on it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags += [tag, *(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))]


def page_with(text: str) -> str:
    """A page with a text wherever a text can stand."""
    row = charts.RowChart(rows=[(text, 0, [], text)], ticks=[(0, text)], caption=text)
    dots = charts.DotChart(
        dots=[(1, 1, f"x{text}")], x_ticks=[(0, text)], y_ticks=[(0, text)], band=[], caption=text
    )
    table = Table((text,), [(text,)], f"x{text}")
    remarks = Remarks(
        **dict.fromkeys(("comment", "reason", "decided_by", "output"), f"x{text}"), texts={}
    )
    named = dict.fromkeys(("id", "label", "verdict", "system"), f"x{text}")
    own = Miss(miss="change", **named, score=0.0, remarks=remarks)
    shown = [(text, text)]
    miss = Article("a-1", own, shown, shown, shown)
    new = replace(own, system="y", remarks=replace(remarks, decided_by="y"))
    other = replace(miss, miss=new, people=[("y", "y")])
    tile = Tile(number=text, title=text, interval=text, note=text)
    answer = Answer(
        title=text, headline="h", why=[(f"x{text}", text)], tiles=[tile], measured=f"x{text}",
        steps=["s"],
    )  # fmt: skip
    parts: dict[str, Any] = {
        "facts": [(text, text)],
        "texts": [(text, text)],
        "folded": {text: [(text, text)]},
    }
    return html(
        Page(
            answer=answer,
            groups=[MissGroup(title=text, caption=text, misses=[miss, other])],
            sections=[
                Section(title="Rest", steps=["x"], tables=[table], **parts),
                Section(title="Figures", charts=[row, dots]),
            ],
        )
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT)
def test_a_page_has_the_same_tags_whatever_its_texts_hold(text: str) -> None:
    assert Tags(page_with(f"-{text}")).tags == Tags(page_with("x")).tags


def test_what_hides_letters_or_turns_them_round_is_written_out() -> None:
    page = page_with("a\x1b[8mb\u202ec")
    assert page.count("a\\u001b[8mb\\u202ec") > 15
    assert not re.search("[\x1b\u202e]", page)


def test_the_policy_forbids_every_request_and_no_address_stands_on_a_page() -> None:
    page = page_with("x")
    assert page.index("default-src 'none'") < page.index("<title>")
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")


def test_a_run_s_page_has_the_answer_first_then_the_misses(tmp_path: Path) -> None:
    test = on_split(gain(0.1, -0.1, 0.3))
    page = run_page(plain(), tmp_path, test=test)
    places = [page.index(f'id="{t.lower().replace(" ", "-")}"') for t in TITLES]
    assert places == sorted(places)
    assert page.count("<section ") == len(TITLES)
    seen = re.sub(r"\s+", " ", text_of(page))
    for said in (
        "Use it: it orders outputs as people do, clearly more often than a coin.",
        "1,000 rows will cost $0.5000, untuned $0.2000 (2.5 times).",
        "<ins>Rate it very well.</ins>",
        "Demonstration 1",
        "1 of 60 have no score",
        "Can an output talk the judge into a higher score?",
        "Writes rating",
    ):
        assert said in page or said in seen, said
    # dev's figure, on which the judge was chosen, flatters it.
    assert "0.987" not in seen
    # A hash tells a reader nothing.
    assert page.index("0" * 64) > places[-1]


@pytest.mark.parametrize("name", POOR)
def test_poor_data_give_a_page_without_a_stray_nan(name: str, tmp_path: Path) -> None:
    card = Scorecard.brief(POOR[name])
    test = on_split(untuned=card, tuned=card)
    seen = text_of(run_page(POOR[name], tmp_path, Probes(reason="not now"), test=test))
    assert not re.search(r"\b(nan|inf)\b|\bNone\b(?! can be)", seen)
    assert "Not tried: not now." in seen


def test_hostile_names_comments_texts_and_reasons_stay_text(tmp_path: Path) -> None:
    judged = [
        Judgement(score=1.0, rationale=HOSTILE),
        Judgement(score=5.0, rationale=HOSTILE),
        Judgement.failed(HOSTILE),
    ]
    evidence = outputs(
        [1, 5, NAN], [[4, 5], [1, 2], [3, 3]], ["d"] * 3, systems=[HOSTILE] * 3,
        annotators=(HOSTILE, "b"), comments=(HOSTILE, HOSTILE), texts={HOSTILE: HOSTILE},
        judgements=judged,
    )  # fmt: skip
    page = run_page(evidence, tmp_path, dimension=HOSTILE, lm=HOSTILE, why=HOSTILE)
    tags = Tags(page).tags
    assert not {"img", "img onerror"} & set(tags)
    assert tags.count("script") == 1
    assert not re.search("[\x1b\u202e]", page)
    assert text_of(page).count("alert(1)") > 12


def test_a_miss_shows_its_text_and_every_annotator_s_name_rating_and_comment(
    tmp_path: Path,
) -> None:
    evidence = outputs(
        [1, 5], [[4, 5], [1, 2]], ["d", "d"], systems=["old", "new"], annotators=("ann", "bob"),
        comments=("says it all", "too long"), texts={"document": "Given.", "summary": "s" * 450},
    )  # fmt: skip
    seen = re.sub(r"\s+", " ", text_of(run_page(evidence, tmp_path)))
    assert "d/0 old People: 4.50 . Judge: 1.00 ." in seen
    assert "d/1 new People: 1.50 . Judge: 5.00 ." in seen
    for said in ("Judge: It says what matters.", "ann : 4. says it all", "bob : 5. too long"):
        assert said in seen
    # The output's beginning is in sight, and the rest can be unfolded.
    assert f"{'s' * 400} … (50 more characters)" in seen
    assert "s" * 450 in seen


def test_misses_of_pass_and_fail_are_all_there_by_their_own_ids() -> None:
    n = 120
    judged = outputs([1, 0] * n, [[0], [1]] * n, [f"d{i}" for i in range(2 * n)], scale=(0, 1))
    false_passes, false_alarms = miss_groups(judged)
    assert false_passes.title == "False passes: 120 outputs"
    assert [len(group.misses) for group in (false_passes, false_alarms)] == [n, n]
    assert false_passes.misses[0].miss.id == "d0/0"
    assert (false_alarms.misses[0].miss.label, false_alarms.misses[0].miss.verdict) == (
        "pass",
        "fail",
    )


def test_only_what_is_a_quarter_of_the_places_off_is_a_miss_of_a_rating() -> None:
    # Of five places the judge swaps the first two, which is one place of four.
    swapped = outputs([2, 1, 3, 4, 5], [[1], [2], [3], [4], [5]], ["d"] * 5)
    high, low = miss_groups(swapped)
    assert [article.miss.id for article in (*high.misses, *low.misses)] == ["d/0", "d/1"]
    near = outputs([2, 1, *range(3, 9)], [[r] for r in range(1, 9)], ["d"] * 8, scale=())
    assert not any(group.misses for group in miss_groups(near))


def test_the_worst_miss_comes_first_and_equal_numbers_are_none() -> None:
    # Ranks of the judge 1, 2, 3 and of people 3, 2, 1; the second output has 3.00 from both.
    swapped = outputs([1, 3, 5], [[5], [3], [2]], ["d"] * 3)
    assert rank_differences(swapped).tolist() == [-1, 0, 1]
    assert misses(swapped) == {"too high": [2], "too low": [0]}
    # People rank it second and the judge first, and both say 3.00.
    tied = outputs([3, 2, 1], [[3], [4], [1]], ["d"] * 3)
    assert misses(tied) == {"too high": [], "too low": [1]}
    assert not rank_differences(outputs([1, 2, 3], [[3]] * 3, ["d"] * 3)).any()
    # Margins: the judge 1 and people -1 are two apart, half of which is 1.
    assert rank_differences(pairs([("A", "A")], [("B",)])).tolist() == [1]
    assert misses(pairs([("A", "A")], [("A", "A", "B")])) == {"wrong side": []}


def test_verdicts_are_counted_by_people_s_word_passes_first() -> None:
    judged = outputs([1, 0, 1, 0], [[1], [1], [1], [0]], list("abcd"), scale=(0, 1))
    # Two of three passes and the one fail are alike.
    rows = [("pass", "2 (67%)", "1 (33%)"), ("fail", "0 (0%)", "1 (100%)")]
    assert charts.count_table(judged).rows == rows


def test_ratings_are_dots_with_a_diagonal_where_judge_and_people_share_a_scale() -> None:
    dots, systems = charts.dot_charts(
        outputs([1, 2, 5, 4], [[1], [3], [5], [5]], list("aabb"), systems=["x", "y"] * 2)
    )
    assert isinstance(dots, charts.DotChart)
    assert isinstance(systems, charts.DotChart)
    # From 1 - .24 to 5 + .24: 1 stands at .24 of 4.48, and both sides on one scale.
    assert dots.dots[0] == (5.36, 5.36, "")
    assert len(dots.band) == 4
    assert [name for *_, name in systems.dots] == ["x", "y"]
    (other,) = charts.dot_charts(POOR["another scale"])
    assert isinstance(other, charts.DotChart)
    assert not other.band


def test_pairs_are_counted_by_how_far_people_agree() -> None:
    judged = pairs([("A", "A"), ("A", "A"), ("B", "B")], [("A",), ("B",), ("B", "B", "A")])
    rows = [*charts.count_table(judged).rows]
    assert rows[:2] == [("annotators agree", "50%", "2"), ("annotators differ", "100%", "1")]


def test_marks_stand_where_the_axis_says() -> None:
    unknown = ("b", reaching(NAN, None), "free")
    (chart,) = charts.cost_charts([("a", reaching(0.75, 0.1), "free"), unknown], "rho")
    ((name, mark, ends, words),) = chart.rows
    # From .65 - .012 to .85 + .012: .75 is in the middle, .65 and .85 are .10 / .224 from it.
    assert (name, words) == ("a", "0.750, free")
    assert (mark, ends) == (50.0, [5.36, 94.64])
    assert chart.ticks[0] == (5.36, "0.65")
    assert charts.cost_charts([unknown], "rho") == []


def test_an_attack_that_works_is_a_share_of_the_scale_beyond_a_neutral_line() -> None:
    evidence = plain()
    moved = {"order": (4.0, 5.0, 5.0)}
    probes = Probes(
        shifts=tuple((a, score_shift(CLEAN, moved.get(a.title, CLEAN))) for a in ATTACKS)
    )
    # 3 + 3 + 2 of three outputs is 2.67, of a scale 4 wide; the neutral line moves nothing.
    assert successful_attacks(probes, evidence) == [("order", pytest.approx(8 / 3 / 4))]
    assert successful_attacks(PROBES, evidence) == []


def test_a_verification_has_the_same_sections(tmp_path: Path) -> None:
    evidence = replace(plain(), judge="a/b/judge.json")
    labelled = LabelledSet(name="mine", sha256="0" * 64, outputs=())
    page = tmp_path / "v.html"
    write_verification(page, Verification.of(evidence, evidence, labelled), evidence)
    text = page.read_text(encoding="utf-8")
    assert text.count("<section ") == 4
    for said in (
        "12 documents, 5 systems, 60 outputs of mine",
        "Label more documents",
        "b/judge.json",
    ):
        assert said in text


def test_only_the_sentences_that_tuning_changed_are_marked() -> None:
    shown = sentence_difference("Read it. Rate it.", "Read it. Rate it. Say why.")
    assert shown == "Read it. Rate it. <ins>Say why.</ins>"


@given(TEXT, TEXT)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    shown = sentence_difference(before, after)
    for kept, gone in ((after, "del"), (before, "ins")):
        without = re.sub(f"<{gone}>.*?</{gone}>", "", shown, flags=re.DOTALL)
        assert text_of(without).split() == kept.split()


def test_code_in_a_step_is_marked_and_a_lone_backtick_stays() -> None:
    assert backticks_as_code("try `read --all`") == "try <code>read --all</code>"
    assert backticks_as_code("a ` b <") == "a ` b &lt;"
