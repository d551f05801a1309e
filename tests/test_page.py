"""The page: what comes from outside is text, and nothing on it leaves it."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from optimize.report import page

ANY = st.text(alphabet=st.sampled_from("<>&\"'`/= abcScriptonerror\n!-"), max_size=40)


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


@given(ANY)
def test_every_part_shows_its_text_as_it_is(text: str) -> None:
    for part, tags in (
        (page.paragraph(text), ["p"]),
        (page.heading(text), ["h2"]),
        (page.block(text), ["pre"]),
        (page.figure("<svg></svg>", text), ["figure", "svg", "figcaption"]),
    ):
        found = read(part)
        assert found.text == text
        assert found.tags == tags


@given(ANY, ANY)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    shown = page.difference(before, after)
    assert set(read(shown).tags) <= {"pre", "ins", "del"}
    for kept, gone in ((after, "del"), (before, "ins")):
        without = re.sub(f"<{gone}>.*?</{gone}>", "", shown, flags=re.DOTALL)
        assert read(without).text.split() == kept.split()


def test_a_difference_marks_the_words_that_changed() -> None:
    assert page.difference("rate it well", "rate it very well") == (
        "<pre>rate it <ins>very</ins> well</pre>"
    )


def test_the_policy_forbids_every_request_and_stands_first() -> None:
    whole = page.page("a <b> title", [page.section("One", [page.paragraph("x")])])
    assert "<title>a &lt;b&gt; title</title>" in whole
    policy = whole.index("default-src 'none'")
    assert policy < whole.index("<title>")
    assert "http://" not in whole
    assert "https://" not in whole


def test_contents_lead_to_every_section() -> None:
    whole = page.page(
        "t", [page.contents(), page.section("What next?", []), page.section("All levels", [])]
    )
    assert '<a href="#what-next">What next?</a>' in whole
    assert '<section id="what-next">' in whole
    assert '<a href="#all-levels">' in whole


def test_code_in_advice_is_marked_and_a_lone_backtick_stays() -> None:
    assert page.listed(["try `--weighted`"]) == "<ul><li>try <code>--weighted</code></li></ul>"
    assert page.listed(["a ` b <"]) == "<ul><li>a ` b &lt;</li></ul>"


def test_numbers_are_set_right_and_words_left() -> None:
    table = page.table(("name", "value", "note"), [("a", "0.5", "x"), ("b", "undefined", "y")])
    assert table.count('class="number"') == 3
