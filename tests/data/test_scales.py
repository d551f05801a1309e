"""Labels on another scale than the judge's: stated by a flag, or named with the way out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from jsonl import read_jsonl, write_jsonl
from label_files import ended

import data
import judges
from judges.dimension import Dimension
from judges.labels.flags import read_bounds
from optimize.__main__ import command as tune
from optimize.tuning.preparation import prepare
from optimize.tuning.settings import Settings

ROWS = read_jsonl(Path(data.__file__).with_name("starter") / "outputs.jsonl")[:60]

# A rating of 1 to 5 on other scales; the way out names the narrowest usual one that fits.
SCALES: dict[str, Callable[[float], object]] = {
    "0-100": lambda mark: round(25 * (mark - 1)),
    "1-10": lambda mark: round(1 + 9 / 4 * (mark - 1)),
    "0-1": lambda mark: int(mark > 3),
    "-1:1": lambda mark: (mark > 3.5) - (mark < 2.5),
    "any": lambda mark: (mark - 1) / 4,
}


@pytest.mark.parametrize("scale", SCALES)
def test_labels_off_the_scale_are_told_which_scale_to_state(scale: str) -> None:
    change = SCALES[scale]
    rows = [{"fluency": change(row.pop("ratings")["fluency"]), **row} for row in map(dict, ROWS)]
    ask = ["--dimension", "fluency", "--data", write_jsonl("labels.jsonl", rows)]
    code, out, err = ended(tune, *ask, "--max-calls", "300", "--out", "run")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "labels.jsonl, line " in err
    assert "is off the scale 1 to 5" in err
    assert f"--scale {scale}" in err
    assert not Path("run").exists()
    # Done as told, the labels are read and the judge's scale is theirs.
    told = Settings(dimension="fluency", data="labels.jsonl", scale=scale)
    subject = prepare(told).subject
    assert isinstance(subject, Dimension)
    assert (subject.scale[0], subject.scale[-1]) == (read_bounds(scale) or (1, 5))


WHOLE = "whole numbers, 101 at most; say --scale any"


@pytest.mark.parametrize(
    ("subject", "scale", "fault"),
    [
        ("--dimension fluency", "5-1", "expected LOW-HIGH, such as 1-5"),
        ("--dimension fluency", "high", "expected LOW-HIGH, such as 1-5"),
        ("--dimension fluency", "0-0.5", WHOLE),
        ("--dimension fluency", "0-1000", WHOLE),
        ("--pairwise tldr_concise", "0-1", "pairs have votes, not ratings on a scale"),
    ],
)
def test_a_scale_that_is_none_is_refused(subject: str, scale: str, fault: str) -> None:
    code, _, err = ended(tune, *subject.split(), "--scale", scale)
    assert code == 2
    assert fault in err


def test_anchors_move_with_their_places_and_fall_out_between_two() -> None:
    fluency = judges.load("fluency").subject
    assert isinstance(fluency, Dimension)
    worst, middle, best = (fluency.anchors[rating] for rating in (1, 3, 5))
    # Of 1 to 5, 3 lies halfway: at 4 of 1 to 7, at 50 of 0 to 100, and between 2 and 3 of 1 to 4.
    for high, anchors in {7: {1: worst, 4: middle, 7: best}, 4: {1: worst, 4: best}}.items():
        assert fluency.on_scale(1, high).anchors == dict.fromkeys(range(1, high + 1), "") | anchors
    percent = fluency.on_scale(0, 100).anchors
    written = {rating: said for rating, said in percent.items() if said}
    assert written == {0: worst, 50: middle, 100: best}
    assert fluency.on_scale(1, 5) is fluency
