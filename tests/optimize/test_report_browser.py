"""A report as a browser shows it, wide and narrow."""

import json
import re
from dataclasses import replace

import pytest
from browser import chromium, needs_chromium
from report_cases import outputs, run_page

from judges import Judgement

pytestmark = needs_chromium
SHOWN = '[...document.querySelectorAll("article")].filter(one => !one.hidden).length'


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser.page()


def show(tab, page, folder):
    """Open a page, and wait until its own script has run."""
    path = folder / "seen.html"
    path.write_text(page, encoding="utf-8")
    tab.go(path.as_uri())
    tab.until(
        f"location.href === {json.dumps(path.as_uri())} && document.readyState === 'complete'"
    )


def test_the_security_policy_allows_only_the_pages_own_script(tab, tmp_path):
    n = 60
    scores = outputs([1] * n + [0], [[0]] * n + [[1]], [f"d{i}" for i in range(n + 1)])
    page = run_page(replace(scores, scale=(0, 1)), tmp_path)
    foreign = "<script>document.title = 'foreign'</script></body>"
    show(tab, page.replace("</body>", foreign), tmp_path)
    # Its own unfolds the search, and folds all but fifty misses of a kind.
    assert tab.run("!document.querySelector('form#filter').hidden")
    assert tab.run(SHOWN) == 51
    assert tab.run("document.title") != "foreign"
    # Without it all misses are there.
    assert page.count("<article ") == n + 1
    assert not re.search(r"<article [^>]*hidden", page)


def test_misses_can_be_filtered_by_words_by_system_and_by_question(tab, tmp_path):
    # All four are false passes; from the second on the output says "so".
    deciding = ["polite = yes", "polite = yes", "polite = yes", "brief = no"]
    names = {
        "systems": ["new-a", "new-b"] * 2,
        "judgements": [Judgement(score=1, decided_by=question) for question in deciding],
    }
    scores = outputs([1] * 4, [[0]] * 4, list("wxyz"), scale=(0, 1), **names)
    show(tab, run_page(scores, tmp_path), tmp_path)
    for words, system, question, number in (
        *(("so", "", "", 3), ("so new-b", "", "", 2), ("absent", "", "", 0), ("", "", "", 4)),
        *(("so", "new-b", "", 2), ("so", "new-b", "brief = no", 1)),
    ):
        for field, value in (("words", words), ("system", system), ("question", question)):
            tab.run(f"document.querySelector('#{field}').value = {json.dumps(value)}")
        tab.run("document.querySelector('#filter').oninput()")
        assert tab.run(SHOWN) == number


# With everything unfolded, what sticks out at the right.
TOO_WIDE = """(() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  return [...document.querySelectorAll("body *")].filter(one => !one.closest(".wide, svg")
    && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML);
})()"""
LONG = "unbreakable_" * 20


def test_the_page_fits_a_phone(tab, tmp_path):
    people = [[1, 2], [3, 3], [2, 1], [5, 4]]
    names = {"annotators": (LONG, "m"), "systems": [LONG, "y"] * 2, "texts": {"document": LONG}}
    long = outputs([1, 2, 3, 4], people, [LONG, LONG, "b", "b"], **names)
    tab.look(360)
    show(tab, run_page(long, tmp_path, lm=LONG), tmp_path)
    assert tab.run(TOO_WIDE) == []
