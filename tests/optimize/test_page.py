"""Pages: whole for whole data, honest for poor data, inert for hostile data."""

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_cases import gain, on_split, outputs, pairs, plain, run_page, text_of

from judges.judgement import Judgement
from optimize.measuring.injection import ProbeResult
from optimize.measuring.misses import find_misses, outranked_shares
from optimize.measuring.scorecard import Scorecard
from optimize.report import charts
from optimize.report.page import sentence_difference

NAN = math.nan
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`<!-- \x1b[8m\u202e"
TEXT = st.text(alphabet=st.characters(codec="utf-8"))
SECTIONS = re.compile(r'<section [^>]*id="([a-z-]+)"')
POOR = {
    "one document": outputs([1, 2, 3], [[2], [1], [3]], "ddd"),
    "constant people": outputs([1, 2, 3, 4], [[3]] * 4, "aabb"),
    "constant judge": outputs([3] * 4, [[1], [2], [1], [2]], "aabb"),
    "all failed": outputs([NAN] * 4, [[1], [2], [1], [2]], "aabb"),
    "one score": outputs([NAN, 2, NAN, NAN], [[1], [2], [1], [2]], "aabb"),
    "two systems": outputs([1, 2, 3, 4], [[1], [2], [2], [4]], "aabb", systems="xyxy"),
    "no scale": outputs([0.1, 0.2, 0.3, 0.4], [[1], [2], [5], [1]], "aabb", scale=()),
    "empty texts": outputs([1, 2], [[1], [2]], "aa", texts={"summary": ""}),
    "pass and fail": outputs([1, 0.7, 0], [[1], [0], [1]], "aab", scale=(0, 1)),
    "no verdict": outputs([NAN, NAN], [[1], [0]], "ab", scale=(0, 1)),
    "pairs": pairs([("A", "B"), ("B", "B"), (None, None)], [("A",), ("B",), ("tie",)]),
    "pairs that all failed": pairs([(None, None)] * 2, [("A",), ("B",)]),
}


EIGHT = [[rating] for rating in range(1, 9)]


class Tags(HTMLParser):
    """The tags of a page, and what would run on it."""

    def __init__(self, page):
        super().__init__()
        self.tags = list[str]()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags += [tag, *(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))]


def page_with(text, folder):
    """The page of a run with a text wherever a stranger's text can stand."""
    scores = [Judgement(score=score, rationale=text) for score in (1.0, 5.0)]
    texts = {"texts": {f"x{text}": text}, "comments": (text, text)}
    names = {"systems": [text] * 3, "annotators": (text, "b")}
    judgements = [*scores, Judgement.failed(text)]
    people = [[4, 5], [1, 2], [3, 3]]
    evidence = outputs([1, 5, NAN], people, "ddd", judgements=judgements, **texts, **names)
    return run_page(evidence, folder, dimension=text, lm=text, why=text)


@settings(max_examples=15, suppress_health_check=[*HealthCheck])
@given(TEXT)
def test_a_page_has_the_same_tags_whatever_its_texts_hold(tmp_path, text):
    assert Tags(page_with(f"-{text}", tmp_path)).tags == Tags(page_with("x", tmp_path)).tags


def test_hostile_texts_are_escaped(tmp_path):
    page = page_with(HOSTILE, tmp_path)
    tags = Tags(page).tags
    assert not {"img", "img onerror"} & set(tags)
    assert tags.count("script") == 1
    assert not re.search("[\x1b\u202e]", page)
    assert text_of(page).count("alert(1)") > 12


def test_a_run_s_page_has_the_answer_first_then_the_misses(tmp_path):
    page = run_page(plain(), tmp_path, test=on_split(gain(0.1, -0.1, 0.3)))
    first = ["answer", "misses", "what-else-to-do", "figures", "the-prompt-that-ships"]
    assert SECTIONS.findall(page) == [*first, "where-it-comes-from"]
    text = text_of(page)
    for part in (
        "Summary-level rho is 0.400 (0.200 to 0.600): it beats a coin.",
        "1,000 rows will cost $0.5000, untuned $0.2000 (2.5 times).",
        *("Demonstration 1 of ", "1 of 60 have no score"),
        "Can an output talk the judge into a higher score? If scores rise, the judge must not rate",
    ):
        assert part in text
    assert "<ins>Rate it very well.</ins>" in page
    # dev's figure, on which the judge was chosen, flatters it.
    assert "0.987" not in text
    # Its security policy forbids requests, and it has no address.
    assert page.index("default-src 'none'") < page.index("<title>")
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    # A hash tells a reader nothing.
    assert page.index("0" * 64) > page.index('id="where-it-comes-from"')


@pytest.mark.parametrize("name", POOR)
def test_poor_data_give_a_page_without_nan(name, tmp_path):
    card = Scorecard.from_scores(POOR[name], has_verdicts=POOR[name].has_verdicts)
    test = on_split(untuned=card, tuned=card)
    text = text_of(run_page(POOR[name], tmp_path, ProbeResult(reason="not now"), test=test))
    assert not re.search(r"\b(nan|inf)\b|\bNone\b(?! can be)", text)
    assert "Not tried: not now." in text


def test_a_miss_shows_its_text_and_every_annotator(tmp_path):
    names = {"systems": ["old", "new"], "annotators": ("ann", "bob")}
    texts = {"texts": {"document": "Given.", "summary": "s" * 450}}
    comments = ("says it all", "too long")
    evidence = outputs([1, 5], [[4, 5], [1, 2]], "dd", comments=comments, **texts, **names)
    text = text_of(run_page(evidence, tmp_path))
    # The scores alone may contradict the ranks that are compared.
    above = ". People rank it above {} of the document's other outputs, the judge above {}."
    assert f"d/0 old People: 4.5 . Judge: 1 {above.format('100%', '0%')}" in text
    assert f"d/1 new People: 1.5 . Judge: 5 {above.format('0%', '100%')}" in text
    for part in ("Judge: It says what matters.", "ann : 4. says it all", "bob : 5. too long"):
        assert part in text
    # The output's beginning is in sight, and the rest can be unfolded.
    assert f"{'s' * 400} … (50 more characters)" in text
    assert "s" * 450 in text


@pytest.mark.parametrize(
    ("evidence", "differences", "rows"),
    [
        # Ranks of the judge 1, 2, 3 and of people 3, 2, 1; the second output has 3.00 from both.
        (outputs([1, 3, 5], [[5], [3], [2]], "ddd"), [-1, 0, 1], {"too high": [2], "too low": [0]}),
        # People rank it second and the judge first, and both say 3.00.
        (outputs([3, 2, 1], [[3], [4], [1]], "ddd"), None, {"too high": [], "too low": [1]}),
        (outputs([1, 2, 3], [[3]] * 3, "ddd"), [0, 0, 0], {"too high": [], "too low": []}),
        # The judge swaps the first two of five (one place of four), and of eight.
        (outputs([2, 1, 3, 4, 5], EIGHT[:5], "d" * 5), None, {"too high": [0], "too low": [1]}),
        (outputs([2, 1, *range(3, 9)], EIGHT, "d" * 8), None, {"too high": [], "too low": []}),
        (pairs([("A", "A")], [("B",)]), None, {"wrong side": [0]}),
        (pairs([("A", "A")], [("A", "A", "B")]), None, {"wrong side": []}),
        # Where people prefer no side, the judge cannot be on the wrong one.
        (pairs([("A", "A")], [("A", "B")]), None, {"wrong side": []}),
    ],
)
def test_the_worst_miss_comes_first_and_equal_ratings_are_no_miss(evidence, differences, rows):
    misses = find_misses(evidence).items()
    ids = {kind: [miss.id for miss in listed] for kind, listed in misses}
    assert ids == {kind: [evidence.items[row].id for row in worst] for kind, worst in rows.items()}
    if differences is not None:
        judge_shares, human_shares = outranked_shares(evidence)
        assert (judge_shares - human_shares).tolist() == differences


def test_verdicts_and_pairs_are_counted_by_peoples_labels():
    # By people's word, passes first: two of three passes and the one fail are alike.
    verdicts = outputs([1, 0, 1, 0], [[1], [1], [1], [0]], "abcd", scale=(0, 1))
    passes, fails = charts.count_table(verdicts).rows
    assert (passes, fails) == (("pass", "2 (67%)", "1 (33%)"), ("fail", "0 (0%)", "1 (100%)"))
    # By how far people agree.
    votes = [("A",), ("B",), ("B", "B", "A")]
    agree, differ, *_ = charts.count_table(pairs([("A", "A"), ("A", "A"), ("B", "B")], votes)).rows
    assert agree == ("annotators agree", "50%", "2")
    assert differ == ("annotators differ", "100%", "1")


def test_a_comparison_draws_each_figure_with_its_interval():
    figures = {"a": gain(0.75, 0.65, 0.85), "b": gain(NAN)}
    (chart,) = charts.interval_charts(figures, "rho")
    # From .65 - .012 to .85 + .012: .75 is in the middle, .65 and .85 are .10 / .224 from it.
    assert chart.rows == [("a", "0.750", [5.36, 50.0, 94.64])]
    assert chart.ticks[0] == (5.36, "0.65")
    assert charts.interval_charts({"b": figures["b"]}, "rho") == []


@given(TEXT, TEXT)
def test_a_text_difference_marks_only_the_changed_sentences(before, after):
    difference = sentence_difference("Read it. Rate it.", "Read it. Rate it. Say why.")
    assert difference == "Read it. Rate it. <ins>Say why.</ins>"
    difference = sentence_difference(before, after)
    for text, tag in ((after, "del"), (before, "ins")):
        without = re.sub(f"<{tag}>.*?</{tag}>", "", difference, flags=re.DOTALL)
        assert text_of(without).split() == text.split()
