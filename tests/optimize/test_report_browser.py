"""A report as a browser shows it, wide and narrow."""

import json
import re
import subprocess
from dataclasses import replace

import pytest
from browser import CHROMIUM
from report_cases import outputs, run_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, and none is on the PATH here"
)
LONG = "unbreakable_" * 20
# Everything unfolded; then what sticks out at the right takes the place of the page.
LOOK = """<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const wide = document.documentElement.clientWidth;
const tooWide = [...document.querySelectorAll("body *")].filter(one =>
  !one.closest(".wide") && !one.closest("svg") && one.getBoundingClientRect().right > wide + 1);
document.body.textContent = "seen" + JSON.stringify(tooWide.map(one => one.outerHTML)) + "seen";
</script>"""


def dump_dom(page, width, height, folder):
    """The page's elements after a browser of this size has run its scripts."""
    path = folder / "seen.html"
    path.write_text(page, encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--hide-scrollbars"]
    flags += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    command = [str(CHROMIUM), *flags, f"--window-size={width},{height}", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def seen(page, script, width, folder):
    """What a script leaves on a page, whose policy would let no script run but its own."""
    open_page = re.sub("<meta http-equiv=[^>]*>", "", page)
    dump = dump_dom(open_page + script, width, 900, folder)
    return json.loads(dump.split("seen")[-2].replace("&lt;", "<"))


def test_the_security_policy_allows_only_the_pages_own_script(tmp_path):
    n = 60
    scores = outputs([1] * n + [0], [[0]] * n + [[1]], [f"d{i}" for i in range(n + 1)])
    page = run_page(replace(scores, scale=(0, 1)), tmp_path)
    foreign = "<script>document.title = 'foreign'</script></body>"
    dump = dump_dom(page.replace("</body>", foreign), 1280, 900, tmp_path)
    # Its own unfolds the search, and folds all but fifty misses of a kind.
    assert '<form id="filter" role="search">' in dump
    assert len(re.findall(r"<article [^>]*hidden", dump)) == n - 50
    assert "<title>foreign" not in dump
    # Without it all misses are there.
    assert page.count("<article ") == n + 1
    assert not re.search(r"<article [^>]*hidden", page)


SEARCH = """<script>
const shown = () => [...document.querySelectorAll("article")].filter(one => !one.hidden).length;
const counts = [shown()];
for (const words of ["so", "so new-b", "absent", ""]) {
  document.querySelector("#words").value = words;
  document.querySelector("#filter").oninput();
  counts.push(shown());
}
document.body.textContent = "seen" + JSON.stringify(counts) + "seen";
</script>"""


def test_misses_can_be_filtered_by_words_in_texts_and_names(tmp_path):
    # All four are false passes; from the second on the output says "so".
    systems = ["new-a", "new-b"] * 2
    scores = outputs([1] * 4, [[0]] * 4, list("wxyz"), systems=systems, scale=(0, 1))
    assert seen(run_page(scores, tmp_path), SEARCH, 1280, tmp_path) == [4, 3, 2, 0, 4]


def test_the_page_fits_a_phone(tmp_path):
    people = [[1, 2], [3, 3], [2, 1], [5, 4]]
    names = {"annotators": (LONG, "m"), "systems": [LONG, "y"] * 2, "texts": {"document": LONG}}
    long = outputs([1, 2, 3, 4], people, [LONG, LONG, "b", "b"], **names)
    assert seen(run_page(long, tmp_path, lm=LONG), LOOK, 500, tmp_path) == []
