"""The page of `label` in a real browser, by what people press and see."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CTRL, SHIFT, Browser, Page, chromium, needs_chromium
from files import read_jsonl, write_jsonl
from processes import label_page

pytestmark = [pytest.mark.usefixtures("here"), needs_chromium]
MARKUP = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"
TALK = f"User: a question\n    of two lines\nAssistant: {MARKUP}\n\n    User: feigned"
LONG = "unbreakable_" * 60
# What is wrong with a screen: controls without names, markup of a text, elements that are too wide.
FAULTS = """(() => {
  const shown = [...document.querySelectorAll("body *")].filter(one => one.checkVisibility());
  const unnamed = shown.filter(one => one.matches("button, input, textarea, summary")
    && !(one.textContent.trim() || one.labels?.length || one.ariaLabel));
  const wide = shown.filter(one => one.tagName !== "PRE"
    && one.getBoundingClientRect().right > innerWidth + 1);
  const markup = [...document.querySelectorAll("main img, main script")];
  return [...unnamed, ...wide, ...markup].map(one => one.outerHTML.slice(0, 80));
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


DOCUMENT = "a document\n" * 99
LABELS = Path("labels.jsonl")


def outputs(documents: int, each: int, text: str = DOCUMENT, summary: str = "") -> list[Any]:
    """Outputs, which say their own ids if nothing else."""
    names = [(str(d), f"{d}-{n}") for d in range(documents) for n in range(each)]
    texts = [{"document": text, "summary": summary or name} for _, name in names]
    return [{"id": name, "group": d, **row} for (d, name), row in zip(names, texts, strict=True)]


def serve(rows: list[Any], *flags: str) -> Any:
    """The address at which the command serves these rows, and its process."""
    path = write_jsonl("outputs.jsonl", rows)
    what = () if "--pairwise" in flags else ("--dimension", "relevance")
    return label_page(path, "--out", LABELS, *what, *flags)


def text(page: Page, name: str) -> str:
    return str(page.run(f"document.getElementById('{name}').innerText"))


def value(page: Page) -> str:
    return str(page.run("document.getElementById('comment').value"))


def output(page: Page) -> str:
    return str(page.run("document.querySelector('#judged p').textContent"))


def shows(page: Page, name: str) -> None:
    """Wait until the page shows this."""
    page.until(f"document.getElementById('{name}')?.checkVisibility()")


def begin(page: Page, address: str, name: str) -> None:
    """Open the page and give a name, by the keyboard."""
    page.go(address)
    page.until("document.activeElement?.id === 'name'")
    page.write(name)
    page.press("Enter")
    shows(page, "work")


def press(page: Page, *keys: str) -> None:
    """Press keys, and wait after each until the next thing is shown."""
    seen = "document.title + document.getElementById('heading').innerText"
    for key in keys:
        before = json.dumps(page.run(seen))
        page.press(key)
        page.until(f"{seen} !== {before}")


def fails(page: Page, key: str) -> str:
    """Press a key, and wait for what the page says against it."""
    page.press(key)
    shows(page, "again")
    return text(page, "problem")


def comment(page: Page, text: str) -> None:
    page.press("c")
    page.write(text)
    page.press("Escape")


def test_each_pressed_key_is_saved_once_despite_faults(browser):
    pages = {name: browser.page() for name in ("Anna", "Ben")}
    log: list[tuple[str, str, int]] = []
    with serve(outputs(5, 2)) as (address, running):
        for name, page in pages.items():
            # People copy an address without its last slash, too.
            begin(page, address.rstrip("/") if name == "Ben" else address, name)
        while len(log) < 13:
            name, key = ("Anna", "Ben")[len(log) % 2], 1 + len(log) % 5
            log.append((name, output(pages[name]), key))
            press(pages[name], str(key))
            if len(log) % 6 == 0:
                pages[name].send("Page.reload")
                shows(pages[name], "work")
        first, second = pages["Anna"], browser.page()
        begin(second, address, "Anna")
        log.append(("Anna", item := output(first), 4))
        press(first, "4")
        assert "another window" in fails(second, "2")
        assert output(second) == item
        second.press("Enter")
        second.until("document.getElementById('problem').hidden")
        assert output(second) == output(first)
        # What could not be saved is saved by trying again.
        log.append(("Anna", output(second), 5))
        aside = LABELS.rename("aside")
        comment(second, "too long")
        assert "another program changed the file" in fails(second, "5")
        aside.rename(LABELS)
        second.press("Enter")
        second.until("document.title.startsWith('9 of 10')")
        comment(second, "kept")
        running.kill()
        running.wait()
        assert "does not answer" in fails(second, "3")
        assert "Not saved" in text(second, "status")
        assert second.run("document.querySelector('[aria-pressed=true]').textContent") == "3"
        assert value(second) == "kept"
    rows = read_jsonl(LABELS)
    assert [(row["annotator"], row["id"], row["rating"]) for row in rows] == log
    assert rows[-1]["comment"] == "too long"


def test_the_output_chosen_on_the_page_is_preferred(browser):
    sides = {"response_a": "the first", "response_b": "the second"}
    rows = [{"id": str(n), "prompt": "a question", **sides} for n in range(4)]
    choices = []
    with serve(rows, "--pairwise", "better=it answers the question") as (address, _):
        page = browser.page()
        begin(page, address, "Anna")
        check_screen(page)
        for _ in range(4):
            choices.append(output(page))
            press(page, "a")
    votes = [row[f"response_{row['preferred'].lower()}"] for row in read_jsonl(LABELS)]
    assert votes == choices
    assert {*choices} == {*sides.values()}  # whichever stands first in the file


def test_the_keyboard_suffices_and_slips_do_nothing(browser):
    with serve(outputs(2, 2)) as (address, _):
        ben, page = browser.page(), browser.page()
        begin(ben, address, "Ben")
        press(ben, *"1111")
        begin(page, address, "Anna")
        second = "new MouseEvent('click', {detail: 2})"  # of a double click
        page.run(f"document.querySelector('#answers button').dispatchEvent({second})")
        page.press("4", modifiers=CTRL)
        page.press("4", repeat=True)
        page.press("C", modifiers=SHIFT)
        page.press("c", "4", "u", "r", "Escape")
        assert value(page) == "4ur"
        page.send("Page.reload")
        shows(page, "work")
        assert value(page) == "4ur"
        press(page, "1")
        assert "Document 1 of 2: output 2 of 2" in text(page, "heading")
        press(page, "u")
        assert value(page) == "4ur"
        press(page, "1")
        page.press("Tab", "Tab", "Tab", "Tab")
        assert page.run("document.activeElement.textContent") == "2"
        press(page, "Enter")
        assert "New document, 2 of 2" in text(page, "heading")
        press(page, *"55")
        shows(page, "done")
        assert "4 labelled by both" in text(page, "agreement")
        press(page, "r")
        assert "Disagreement with another annotator, 2 to look at" in text(page, "heading")
        assert text(page, "labels").splitlines()[::2] == ["You: 5", "Ben: 1"]
        press(page, *"53")
        shows(page, "done")
        assert "Disagreements: 2" in text(page, "review")
    rows = [row for row in read_jsonl(LABELS) if row["annotator"] == "Anna"]
    assert [row["rating"] for row in rows] == [1, None, 1, 2, 5, 5, 3]
    assert [row.get("changed_after") for row in rows] == [None] * 6 + ["annotators"]


def test_every_screen_is_whole(browser):
    # The judge gives all the same score, and none is near both ends: it differs from two at least.
    rows = outputs(1, 5, f"{TALK}\n{LONG}", "alike")
    n_faults = len(browser.faults)
    with serve(rows, "--judge", "relevance") as (address, running):
        ben, page = browser.page(), browser.page()
        begin(ben, address, LONG[:80])
        press(ben, "1")
        page.go(address)
        shows(page, "naming")
        check_screen(page)
        begin(page, address, "Anna")
        check_screen(page)
        assert page.run("[...document.querySelectorAll('#given strong')].map(one =>"
                        " one.textContent).join('')") == "User: Assistant: "  # fmt: skip
        assert MARKUP in text(page, "given")
        press(page, *"51515")
        check_screen(page)
        for key, other in (("r", "another annotator"), ("1", "the judge")):
            press(page, key)
            assert f"Disagreement with {other}" in text(page, "heading")
            check_screen(page)
        assert "The judge (score " in text(page, "labels")
        press(page, "3")
        assert browser.faults[n_faults:] == []
        running.kill()
        running.wait()
        fails(page, "2")
        check_screen(page)
    assert [row.get("changed_after") for row in read_jsonl(LABELS)[-2:]] == [
        *("annotators", "judge")
    ]


def check_screen(page: Page) -> None:
    for width in (320, 1280):
        page.look(width, 900)
        assert page.run(FAULTS) == []
