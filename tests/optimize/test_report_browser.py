"""The report of the README's own command, as a browser shows it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from headless_chromium import CHROMIUM, look, opened
from optimize.cli import compare
from report_cases import PROBES, outputs, pairs, result

from optimize.__main__ import command
from optimize.report import compare_report, verification_report

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, and none is on the PATH here"
)
SIZES = {"desktop": (1280, 900, False), "phone": (360, 740, False), "dark": (1280, 900, True)}
LONG = "unbreakable_" * 20

CHARTS = """
[...document.querySelectorAll("svg")].map(one => ({
  role: one.getAttribute("role"), name: one.getAttribute("aria-label"),
  title: one.querySelector("title").textContent,
  width: one.getBoundingClientRect().width, height: one.getBoundingClientRect().height}))
"""
IDS = "[...document.querySelectorAll('[id]')].map(one => one.id)"
CONTRAST = (
    "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run's report, a pairwise judge's, and one whose every name is long."""
    here = tmp_path_factory.mktemp("reports")
    run = here / "run"
    few = ["--max-calls", "800"]  # a report of a shorter run looks the same
    assert command(["--dimension", "relevance", *few, "--out", str(run)]) == 0
    compared = pairs([("A", "B"), ("B", "B"), ("A", "A")], [("A",), ("B",), ("tie",)])
    long = outputs(
        [1, 2, 3, 4], [[1, 2], [3, 3], [2, 1], [5, 4]], [LONG, LONG, "b", "b"],
        systems=[LONG, "y"] * 2, annotators=(LONG, "m"), dimension=LONG,
        texts={"document": LONG * 3, "summary": LONG},
    )  # fmt: skip
    found = {"run": run / "report.html"}
    for name, evidence in (("pairs", compared), ("long", long)):
        found[name] = here / f"{name}.html"
        told = {**result(evidence, LONG), "judge": LONG}
        page = verification_report.render(told, evidence, PROBES)
        found[name].write_text(page, encoding="utf-8")
    found["compared"] = _compared(here)
    return found


def _compared(here: Path) -> Path:
    """Two judges, one of them with a price, a place off the front and a long name."""
    out = here / "compared"
    flags = ["--dimension", "relevance", "--lm", "embedded", f"{LONG}=relevance"]
    assert compare.command([*flags, "--out", str(out)]) == 0
    result = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    result["judges"][1] |= {"cost_per_1000_rows": 1.25, "on_front": False}
    page = out / "report.html"
    page.write_text(compare_report.render(result), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def seen(pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser found on every page at every size."""
    return asyncio.run(_look(pages, tmp_path_factory.mktemp("profile")))


async def _look(pages: dict[str, Path], profile: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with opened(profile) as page:
        for name, path in pages.items():
            for size, (width, height, dark) in SIZES.items():
                found[f"{name} {size}"] = {
                    **await look(page, path, width, height, dark=dark),
                    "charts": await page.value(CHARTS),
                    "ids": await page.value(IDS),
                    "colours": await page.value(CONTRAST),
                }
    return found


def test_no_request_leaves_the_page(seen: dict[str, Any]) -> None:
    assert {name: one["requests"] for name, one in seen.items() if one["requests"]} == {}


def test_no_word_of_a_drawing_is_cut_or_lies_on_another(seen: dict[str, Any]) -> None:
    for fault in ("cut", "overlaps"):
        assert {name: one[fault] for name, one in seen.items() if one[fault]} == {}, fault


def test_what_comes_before_the_folds_is_three_screens_at_most(seen: dict[str, Any]) -> None:
    # Names of 240 letters are no report that anybody reads.
    for name, one in seen.items():
        if name.endswith("desktop") and not name.startswith("long"):
            assert one["first part"] <= 3 * SIZES["desktop"][1], name


def test_the_console_stays_empty(seen: dict[str, Any]) -> None:
    assert {name: one["complaints"] for name, one in seen.items() if one["complaints"]} == {}


def test_nothing_is_wider_than_the_window(seen: dict[str, Any]) -> None:
    assert {name: one["overflow"] for name, one in seen.items() if one["overflow"] != [0, []]} == {}


def test_every_chart_has_a_name_of_its_own_and_a_size(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        fewest = {"run": 3, "compared": 1}.get(name.split()[0], 2)
        assert len(one["charts"]) >= fewest, name
        for chart in one["charts"]:
            assert chart["role"] == "img"
            assert chart["name"] == chart["title"] != ""
            assert min(chart["width"], chart["height"]) > 100, (name, chart)
        names = [chart["name"] for chart in one["charts"]]
        assert len(set(names)) == len(names)


def test_no_id_is_on_the_page_twice(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        assert len(set(one["ids"])) == len(one["ids"]), name


def test_dark_and_light_are_each_legible(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        ink, paper = (_lightness(colour) for colour in one["colours"])
        dark = name.endswith("dark")
        assert (ink > 200 and paper < 40) if dark else (ink < 40 and paper > 240), name


def _lightness(colour: str) -> float:
    numbers = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(numbers) / 3
