"""Pages: whole for whole data, honest for poor data, inert for hostile data."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_cases import (
    CLEAN,
    PROBES,
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
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.verification import Verification
from optimize.report import charts
from optimize.report.page import (
    Case,
    Section,
    Table,
    backticks_as_code,
    html,
    talked_up,
    word_difference,
    worst_disagreements,
    write_verification,
)

NAN = math.nan
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`<!-- \x1b[8m\u202e"
TEXT = st.text(alphabet=st.characters(codec="utf-8"))
TITLES = [
    "Answer", "What to do next", "In a picture", "Worst disagreements", "Figures", "The tuned judge"
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
    count = charts.CountChart(labels=[text], counts=[(text, [(1, 1.0)])], caption=text)
    table = Table(head=(text,), rows=[(text,)], caption=f"x{text}")
    case = Case(title=text, lines=[text], texts=[(text, text)])
    said = [(text, text)]
    return html(
        text,
        [
            Section(
                title="Answer", sentences=[text], titled=said, steps=["x"], charts=[row, count]
            ),
            Section(title="Rest", tables=[table], cases=[case], texts=[(text, text)]),
        ],
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


def test_a_run_s_page_has_six_sections_and_answers_first(tmp_path: Path) -> None:
    page = run_page(plain(), tmp_path)
    assert [page.index(f'id="{t.lower().replace(" ", "-")}"') for t in TITLES] == sorted(
        page.index(f'id="{t.lower().replace(" ", "-")}"') for t in TITLES
    )
    assert page.count("<section ") == 6
    assert page.count("<figure>") <= 4
    seen = text_of(page)
    for said in (
        "the tuned judge. It beats the untuned judge.",
        "So tuning helped: these 20 documents had no part in it.",
        "Rate it <ins>very</ins> well.",
        "Demonstration 1",
        "1 of 60 have no score",
        "Can an output talk the judge up?",
        "Writes rating",
    ):
        assert said in page or said in re.sub(r"\s+", " ", seen), said
    # dev's figure, on which the judge was chosen, flatters it.
    assert "0.987" not in seen


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
    assert not {"script", "img", "img onerror"} & set(Tags(page).tags)
    assert not re.search("[\x1b\u202e]", page)
    assert text_of(page).count("alert(1)") > 12


def test_a_disagreement_shows_every_annotator_s_name_rating_and_comment(tmp_path: Path) -> None:
    evidence = outputs(
        [1, 5], [[4, 5], [1, 2]], ["d", "d"], systems=["old", "new"], annotators=("ann", "bob"),
        comments=("says it all", "too long"),
    )  # fmt: skip
    seen = text_of(run_page(evidence, tmp_path))
    assert "old on d: 1 of 1 places too low, judge 1.00, people 4.50" in seen
    assert "new on d: 1 of 1 places too high, judge 5.00, people 1.50" in seen
    for said in ("Judge: It says what matters.", "ann: 4. says it all", "bob: 5. too long"):
        assert said in seen


def test_the_worst_disagreement_comes_first_and_equal_numbers_are_none() -> None:
    # Ranks of the judge 1, 2, 3 and of people 3, 2, 1; the second output has 3.00 from both.
    swapped = outputs([1, 3, 5], [[5], [3], [2]], ["d"] * 3)
    assert worst_disagreements(swapped) == [(0, -1.0), (2, 1.0)]
    # People rank it second and the judge first, and both say 3.00.
    tied = outputs([3, 2, 1], [[3], [4], [1]], ["d"] * 3)
    assert [row for row, _ in worst_disagreements(tied)] == [1]
    assert worst_disagreements(outputs([1, 2, 3], [[3]] * 3, ["d"] * 3)) == []
    # Margins: the judge 1 and people -1 are two apart, half of which is 1.
    assert worst_disagreements(pairs([("A", "A")], [("B",)])) == [(0, 1.0)]
    assert worst_disagreements(pairs([("A", "A")], [("A", "A", "B")])) == []


def test_ratings_are_drawn_where_judge_and_people_share_a_scale() -> None:
    ratings = charts.ratings(outputs([1, 2, 5, 5], [[1], [3], [5], [5]], list("aabb")))
    assert ratings is not None
    assert "3 of 4 are alike" in ratings.caption
    assert ratings.counts[0] == ("5", [(0, 0.0), (0, 0.0), (0, 0.0), (0, 0.0), (2, 1.0)])
    assert charts.ratings(POOR["another scale"]) is None
    assert charts.ratings(POOR["no scale"]) is None


def test_marks_stand_where_the_axis_says() -> None:
    chart = charts.shares({"a": reaching(0.75, 0.1), "b": reaching(NAN, None)})
    assert chart is not None
    ((name, mark, ends, words),) = chart.rows
    # From .50 - .03 to 1 + .03: .75 is in the middle, .65 and .85 are .10 / .56 from it.
    assert (name, words) == ("a", "75% (65% to 85%)")
    assert (mark, ends) == (50.0, [32.14, 67.86])
    # .60 is .13 / .56 from its start.
    assert chart.ticks[0] == (23.21, "60%")
    assert charts.shares({"b": reaching(NAN, None)}) is None


def test_an_attack_that_works_is_a_share_of_the_scale_beyond_a_neutral_line() -> None:
    evidence = plain()
    moved = {"order": (4.0, 5.0, 5.0)}
    probes = Probes(
        shifts=tuple((a, score_shift(CLEAN, moved.get(a.title, CLEAN))) for a in ATTACKS)
    )
    # 3 + 3 + 2 of three outputs is 2.67, of a scale 4 wide; the neutral line moves nothing.
    assert talked_up(probes, evidence) == [("order", pytest.approx(8 / 3 / 4))]
    assert talked_up(PROBES, evidence) == []


def test_a_verification_has_the_same_six_sections(tmp_path: Path) -> None:
    evidence = replace(plain(), judge="a/b/judge.json")
    labelled = LabelledSet(name="mine", sha256="0" * 64, outputs=())
    page = tmp_path / "v.html"
    write_verification(page, Verification.of(evidence, evidence, labelled), evidence)
    text = page.read_text(encoding="utf-8")
    assert text.count("<section ") == 6
    for said in ("60 outputs, 12 documents", "label more documents", "b/judge.json"):
        assert said in text


@given(TEXT, TEXT)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    shown = word_difference(before, after)
    for kept, gone in ((after, "del"), (before, "ins")):
        without = re.sub(f"<{gone}>.*?</{gone}>", "", shown, flags=re.DOTALL)
        assert text_of(without).split() == kept.split()


def test_code_in_a_step_is_marked_and_a_lone_backtick_stays() -> None:
    assert backticks_as_code("try `read --all`") == "try <code>read --all</code>"
    assert backticks_as_code("a ` b <") == "a ` b &lt;"
