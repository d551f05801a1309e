"""Labels on another scale than the judge's: stated by a flag, or named with the way out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from jsonl import read_jsonl, write_jsonl

import data
import judges
from judges.dimension import Dimension
from judges.labels.flags import read_bounds
from optimize.__main__ import command as tune
from optimize.tuning.preparation import prepare
from optimize.tuning.settings import Settings

pytestmark = pytest.mark.usefixtures("here")

STARTER = Path(data.__file__).with_name("starter") / "outputs.jsonl"
ROWS = read_jsonl(STARTER)


def labels(change: Callable[[float], object]) -> str:
    """The starter set with its fluency on another scale."""
    rows = []
    for row in ROWS:
        mark = row["ratings"]["fluency"]
        rows.append({**{k: v for k, v in row.items() if k != "ratings"}, "fluency": change(mark)})
    write_jsonl("labels.jsonl", rows)
    return "labels.jsonl"


# A rating of 1 to 5 on other scales; the way out names the narrowest usual one that fits.
SCALES: dict[str, tuple[Callable[[float], object], str]] = {
    "percent": (lambda mark: round(25 * (mark - 1)), "--scale 0-100"),
    "one to ten": (lambda mark: round(1 + 9 / 4 * (mark - 1)), "--scale 1-10"),
    "yes or no": (lambda mark: int(mark > 3), "--scale 0-1"),
    "worse or better": (lambda mark: (mark > 3.5) - (mark < 2.5), "--scale -1:1"),
    "shares": (lambda mark: (mark - 1) / 4, "--scale any"),
}


@pytest.mark.parametrize("name", SCALES)
def test_labels_off_the_scale_are_told_which_scale_to_state(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, flag = SCALES[name]
    ask = ["--dimension", "fluency", "--data", labels(change), "--max-calls", "300"]
    assert tune([*ask, "--out", "run"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "labels.jsonl, line " in err
    assert "is off the scale 1 to 5" in err
    assert flag in err
    assert not Path("run").exists()
    # Done as told, the labels are read and the judge's scale is theirs.
    told = Settings(dimension="fluency", data="labels.jsonl", scale=flag.split(" ")[1])
    subject = prepare(told).subject
    assert isinstance(subject, Dimension)
    assert (subject.scale[0], subject.scale[-1]) == (read_bounds(flag.split(" ")[1]) or (1, 5))


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        ("5-1", "expected LOW-HIGH, such as 1-5"),
        ("high", "expected LOW-HIGH, such as 1-5"),
        ("0-0.5", "whole numbers, 101 at most; say --scale any"),
        ("0-1000", "whole numbers, 101 at most; say --scale any"),
    ],
)
def test_a_scale_that_is_none_is_refused(
    scale: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(["--dimension", "fluency", "--scale", scale]) == 2
    assert says in capsys.readouterr().err


def test_pairs_take_no_scale(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(["--pairwise", "tldr_concise", "--scale", "0-1"]) == 2
    assert "pairs have votes, not ratings on a scale" in capsys.readouterr().err


def test_anchors_move_with_their_places_and_fall_out_between_two() -> None:
    fluency = judges.load("fluency").subject
    assert isinstance(fluency, Dimension)
    worst, middle, best = (fluency.anchors[rating] for rating in (1, 3, 5))
    # Of 1 to 5, 3 lies halfway: at 4 of 1 to 7, at 50 of 0 to 100, and between 2 and 3 of 1 to 4.
    assert fluency.on_scale(1, 7).anchors == {
        **dict.fromkeys(range(1, 8), ""),
        **{1: worst, 4: middle, 7: best},
    }
    percent = fluency.on_scale(0, 100).anchors
    assert {rating: said for rating, said in percent.items() if said} == {
        0: worst,
        50: middle,
        100: best,
    }
    assert fluency.on_scale(1, 4).anchors == {1: worst, 2: "", 3: "", 4: best}
    assert fluency.on_scale(1, 5) is fluency
