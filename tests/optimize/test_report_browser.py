"""A report as a browser shows it: wide and narrow, light and dark."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from headless_chromium import CHROMIUM, look, opened
from report_cases import outputs, pairs, plain, run_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, and none is on the PATH here"
)
SIZES = {"desktop": (1280, 900, False), "phone": (360, 740, False), "dark": (1280, 900, True)}
LONG = "unbreakable_" * 20
# How far down the first picture reaches.
PICTURE = "document.querySelector('figure .rows').getBoundingClientRect().bottom"
COLOURS = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
MARKS = "[...document.querySelectorAll('circle')].map(one => one.getBoundingClientRect().width)"
CASES = {
    "run": plain(),
    "pairs": pairs([("A", "B"), ("B", "B"), ("A", "A")], [("A",), ("B",), ("tie",)]),
    # Every name is 240 letters long.
    "long": outputs(
        [1, 2, 3, 4], [[1, 2], [3, 3], [2, 1], [5, 4]], [LONG, LONG, "b", "b"],
        systems=[LONG, "y"] * 2, annotators=(LONG, "m"), texts={"document": LONG * 3},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser found on every page at every size."""
    return asyncio.run(_look(tmp_path_factory.mktemp("pages")))


async def _look(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with opened(folder / "profile") as page:
        for name, evidence in CASES.items():
            (folder / name).mkdir()
            run_page(evidence, folder / name, **({"lm": LONG} if name == "long" else {}))
            for size, (width, height, dark) in SIZES.items():
                path = folder / name / "report.html"
                found[f"{name} {size}"] = {
                    **await look(page, path, width, height, dark=dark),
                    "picture": await page.value(PICTURE),
                    "colours": await page.value(COLOURS),
                    "marks": await page.value(MARKS),
                }
    return found


def test_nothing_is_asked_for_and_nothing_complains(seen: dict[str, Any]) -> None:
    assert {name: one["requests"] + one["complaints"] for name, one in seen.items()} == {
        name: [] for name in seen
    }


def test_nothing_is_wider_than_the_window(seen: dict[str, Any]) -> None:
    assert {name: one["overflow"] for name, one in seen.items() if one["overflow"] != [0, []]} == {}


def test_the_answer_the_next_step_and_the_picture_are_on_the_first_screen(
    seen: dict[str, Any],
) -> None:
    for name in ("run desktop", "pairs desktop"):
        assert seen[name]["picture"] <= SIZES["desktop"][1]
        assert all(width >= 8 for width in seen[name]["marks"])


def test_dark_and_light_are_each_legible(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        ink, paper = (_lightness(colour) for colour in one["colours"])
        dark = name.endswith("dark")
        assert (ink > 200 and paper < 40) if dark else (ink < 40 and paper > 240), name


def _lightness(colour: str) -> float:
    numbers = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(numbers) / 3
