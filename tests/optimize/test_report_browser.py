"""A report as a browser shows it, wide and narrow."""

import json
import re
import subprocess
from dataclasses import replace

import pytest
from browser import CHROMIUM
from report_cases import outputs, pairs, run_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, and none is on the PATH here"
)
LONG = "unbreakable_" * 20
CASES = {
    "pairs": pairs([("A", "B"), ("B", "B"), ("A", "A")], [("A",), ("B",), ("tie",)]),
    # Every name is 240 letters long.
    "long": outputs(
        [1, 2, 3, 4], [[1, 2], [3, 3], [2, 1], [5, 4]], [LONG, LONG, "b", "b"],
        systems=[LONG, "y"] * 2, annotators=(LONG, "m"), texts={"document": LONG * 3},
    ),
}  # fmt: skip
# Everything unfolded; then what a reader sees takes the place of the page.
LOOK = """<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const wide = document.documentElement.clientWidth;
const seen = {
  overflow: [...document.querySelectorAll("body *")].filter(one =>
    !one.closest(".wide") && !one.closest("svg") && one.getBoundingClientRect().right > wide + 1
  ).map(one => one.outerHTML.slice(0, 80)),
  next: document.querySelector(".next").getBoundingClientRect().bottom,
  miss: document.querySelector("article")?.getBoundingClientRect().top};
document.body.textContent = "seen" + JSON.stringify(seen) + "seen";
</script>"""


def dump_dom(page, width, height, folder):
    """The page's elements after a browser of this size has run its scripts."""
    path = folder / "seen.html"
    path.write_text(page, encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--hide-scrollbars"]
    flags += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    command = [str(CHROMIUM), *flags, f"--window-size={width},{height}", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def look(page, width, height, folder):
    """What a browser shows of a page, whose policy lets no script run but its own."""
    open_page = re.sub("<meta http-equiv=[^>]*>", "", page) + LOOK
    dump = dump_dom(open_page, width, height, folder)
    return json.loads(dump.split("seen")[1].replace("&lt;", "<"))


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
    scores = outputs([1] * 4, [[0]] * 4, list("wxyz"), systems=["new-a", "new-b"] * 2, scale=(0, 1))
    page = re.sub("<meta http-equiv=[^>]*>", "", run_page(scores, tmp_path))
    dump = dump_dom(page + SEARCH, 1280, 900, tmp_path)
    assert json.loads(dump.split("seen")[-2]) == [4, 3, 2, 0, 4]


@pytest.mark.parametrize("name", CASES)
def test_the_page_fits_a_phone_and_its_first_screen_has_the_next_step_and_a_miss(name, tmp_path):
    page = run_page(CASES[name], tmp_path)
    assert look(page, 500, 740, tmp_path)["overflow"] == []
    view = look(page, 1280, 900, tmp_path)
    assert view["next"] < view.get("miss", 899) < 900
