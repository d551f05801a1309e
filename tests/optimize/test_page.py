"""The page: what comes from outside is text, and nothing on it leaves it."""

import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from optimize.report.page import (
    Picture,
    Section,
    backticks_as_code,
    column_kinds,
    page,
    section,
    word_difference,
)

ANY = st.text(alphabet=st.sampled_from("<>&\"'`/= abcScriptonerror\n!-{}%#"), max_size=40)


class Reader(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.tags = "", list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def whole(text: str = "x", sections: list[Section] | None = None) -> str:
    """A page with `text` wherever a text can stand."""
    return page(
        title=text,
        about=text,
        answer=[text],
        warnings=[text],
        picture=Picture("<svg></svg>", text),
        steps=["try it"],
        notes=[text],
        quotable=[text],
        sections=sections or [],
    )


# The first page loads and compiles the templates.
@settings(deadline=None)
@given(ANY)
def test_a_section_shows_every_text_as_it_is(text: str) -> None:
    disagreement = {
        "id": text,
        "name": text,
        "judge": 1.0,
        "people": -1.0,
        "comment": text,
        "people_comment": text,
        "labels": text,
        "texts": {text: text},
    }
    group = {"document": text, "shared": {text: text}, "outputs": [disagreement]}
    drawn = section(
        "s",
        "disagreements.html",
        pairs=True,
        unit="pairs",
        level="dataset",
        n=1,
        often=text,
        groups=[group],
    )
    shown = read(str(drawn.html))
    assert set(shown.tags) <= {"h3", "p", "details", "summary", "pre"}
    assert shown.text.count(text) >= 5


@settings(deadline=None)
@given(ANY)
def test_a_page_has_the_same_tags_whatever_its_texts_hold(text: str) -> None:
    shown = read(whole(f"-{text}"))
    assert shown.tags == read(whole("x")).tags
    # Title, heading and five other parts; a caption's line breaks are spaces.
    assert shown.text.count(f"-{text}") >= 7


@given(ANY, ANY)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    shown = word_difference(before, after)
    assert set(read(shown).tags) <= {"ins", "del"}
    for kept, gone in ((after, "del"), (before, "ins")):
        without = re.sub(f"<{gone}>.*?</{gone}>", "", shown, flags=re.DOTALL)
        assert read(without).text.split() == kept.split()


def test_what_hides_letters_or_turns_them_round_is_written_out_on_a_page() -> None:
    shown = read(whole("a\x1b[8mb\u202ec\u2066d"))
    assert "a\\u001b[8mb\\u202ec\\u2066d" in shown.text
    assert not re.search("[\x1b\u202e\u2066]", shown.text)


def test_a_difference_marks_the_words_that_changed() -> None:
    assert word_difference("rate it well", "rate it very well") == "rate it <ins>very</ins> well"


def test_the_policy_forbids_every_request_and_stands_first() -> None:
    drawn = whole("a <b> title")
    assert "<title>a &lt;b&gt; title</title>" in drawn
    policy = drawn.index("default-src 'none'")
    assert policy < drawn.index("<title>")
    assert "http://" not in drawn
    assert "https://" not in drawn


def test_every_section_is_folded_under_its_title() -> None:
    drawn = whole(
        sections=[
            section("Audits?", "provenance.html", judge="x", lm="", data=[], seed=0),
            section("All levels", "provenance.html", judge="x", lm="", data=[], seed=0),
        ]
    )
    assert '<details class="fold"><summary><h2>Audits?</h2></summary>' in drawn
    assert '<section id="audits">' in drawn
    assert '<section id="all-levels">' in drawn


def test_code_in_advice_is_marked_and_a_lone_backtick_stays() -> None:
    assert backticks_as_code("try `read --weighted`") == (
        'try <code>read <span class="glued">--weighted</span></code>'
    )
    assert backticks_as_code("a ` b <") == "a ` b &lt;"


def test_numbers_are_set_right_and_words_left() -> None:
    rows = [("a", "0.5", "x", "y" * 50), ("b", "undefined", "y", "")]
    assert column_kinds(rows, 4) == ["short", "number", "short", "long"]
