"""Charts: one self-contained SVG each, equal on every run, named, inert, and drawn for any data."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize.figures import abbreviated_names
from optimize.report import charts
from optimize.report.charts import abbreviated
from optimize.statistics.intervals import Interval

NAN = math.nan
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("1")</script> & $\\frac{1}{2}$ \x00\n名'


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def draw(name: str) -> dict[str, Callable[[], str]]:
    """Every chart, with `name` wherever a name can stand."""
    scores, human = np.array([1.0, 2.5, NAN, 4.0]), np.array([1.0, 2.0, 3.0, 5.0])
    return {
        "scatter": lambda: charts.scatter(scores, human, name, rng()),
        "systems": lambda: charts.systems(
            [name, "b"], np.array([1.5, 2.5]), np.array([2.0, 1.0]), name
        ),
        "confusion": lambda: charts.confusion(
            np.array([0, 1, 1, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1]), [name, "b"], name
        ),
        "pareto": lambda: charts.pareto(
            {
                f"1 {name}": (2.5, (0.5, Interval(0.4, 0.6)), True),
                "2 free": (0.0, (0.3, None), True),
                "3 dear": (40.0, (0.4, Interval(0.3, 0.5)), False),
            },
            name,
            "rho",
        ),
        "shares": lambda: charts.shares(
            {name: (0.6, Interval(0.5, 0.7)), "people": (0.7, None)},
            "pairs",
            name,
            "people",
        ),
    }


@pytest.mark.parametrize("chart", draw(""))
def test_a_chart_is_one_named_drawing_that_needs_nothing_else(chart: str) -> None:
    drawn = draw(HOSTILE)[chart]()
    assert drawn == draw(HOSTILE)[chart]()
    root = ET.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    tags = {one.tag.removeprefix(SVG) for one in root.iter()}
    assert not tags & {"script", "image", "foreignObject", "a"}
    # Links within the drawing only, and no colour but the page's own.
    hrefs = [v for one in root.iter() for k, v in one.attrib.items() if k.endswith("href")]
    assert all(href.startswith("#") for href in hrefs)
    assert "http" not in drawn.replace("http://www.w3.org/", "")
    assert "#000000" not in drawn
    assert "var(--" in drawn


def test_names_say_what_the_chart_shows() -> None:
    drawn = draw("fluency")
    assert "fluency: judge's score against mean human rating for 3 outputs" in drawn["scatter"]()
    assert "4 of 6 alike" in drawn["confusion"]()
    assert "fluency 0.600 [0.500, 0.700], people 0.700" in drawn["shares"]()


def test_many_systems_are_cut_to_those_that_differ_most() -> None:
    # Of 60 systems the judge reverses the two ends: they must be among those drawn.
    n = 60
    human = np.arange(n, dtype=float)
    judge = human.copy()
    judge[[0, -1]] = judge[[-1, 0]]
    names = [f"system-{i}" for i in range(n)]
    drawn = charts.systems(names, judge, human, "x")
    assert drawn.count("system-") == charts.MAX_SYSTEMS
    assert "system-0<" in drawn
    assert "system-59<" in drawn


def test_a_label_is_cut_and_no_formula() -> None:
    assert abbreviated(["abcdefghijkl"], 9) == ["abcd…ijkl"]
    assert abbreviated(["$x$\n"]) == [r"\$x\$ "]


@given(st.lists(st.text(st.characters(categories=("L", "N", "P")), max_size=60), max_size=8))
def test_names_that_differ_are_never_cut_to_the_same_label(names: list[str]) -> None:
    short = abbreviated_names(names, 12)
    assert len(set(short)) == len(set(names))
    assert max(map(len, short), default=0) <= 12


@pytest.mark.parametrize(
    "name", ["font-family: zzz", "font: 9px zzz", '#010203 <g id="x"', "<!-- ]]> </metadata>"]
)
@pytest.mark.parametrize("chart", draw(""))
def test_a_name_that_reads_like_markup_is_drawn_as_a_name(chart: str, name: str) -> None:
    root = ET.fromstring(draw(name)[chart]())
    if "xyz" in draw("xyz")[chart]():
        label = root.get("aria-label") or ""
        assert name in label or any(name in "".join(one.itertext()) for one in root.iter())
