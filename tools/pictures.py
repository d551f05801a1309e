"""Draw the concept pages' pictures from figures: `python tools/pictures.py` writes docs/images/.

An SVG has a background of its own in both colour schemes, so it reads on light and dark pages.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import norm

import data
import optimize

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images"
STYLE = """
  .back { fill: #fbfbfd; stroke: #d5d8e0 }
  text { fill: #23262f; font: 13px system-ui, sans-serif }
  .small { font-size: 11px }
  .line { stroke: #8a90a0; fill: none }
  .a { fill: #3f66c9 } .b { fill: #c4622d } .c { fill: #4c9a6a } .d { fill: #8a90a0 }
  .none { fill: #d5d8e0 }
  .curve { fill: none; stroke-width: 2.5 } .sa { stroke: #3f66c9 } .sb { stroke: #c4622d }
  @media (prefers-color-scheme: dark) {
    .back { fill: #1d2029; stroke: #3a3f4d }
    text { fill: #e4e7ef }
    .line { stroke: #868da0 }
    .a { fill: #7f9ff0 } .b { fill: #e8925f } .c { fill: #74c493 } .d { fill: #868da0 }
    .none { fill: #3a3f4d }
    .sa { stroke: #7f9ff0 } .sb { stroke: #e8925f }
  }
"""

# Within each document the judge is the wrong way round; over all six outputs it agrees.
JUDGE, PEOPLE, DOCUMENT = [3, 2, 1, 6, 5, 4], [1, 2, 3, 4, 5, 6], [1, 1, 1, 2, 2, 2]
# `python -m optimize.alternative` on SummEval, gpt-4o-mini's recorded scores (docs/figures.md).
CEILING = {
    "coherence": (0.678, 0.467),
    "consistency": (0.750, 0.483),
    "fluency": (0.595, 0.342),
    "relevance": (0.473, 0.425),
}
# A gain's standard error with some 40 documents on dev, and the gate's one-sided tail.
ERROR, TAIL = 0.10, 0.025
MOST_CANDIDATES = 50


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    )


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    shapes = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">\n  <title>{title}</title>\n  <style>{STYLE}  </style>\n'
        f'  <rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{shapes}\n</svg>\n"
    )


def levels() -> str:
    """Six outputs as points, each document's rank line going down, the line over all going up."""
    summary = optimize.summary_level(JUDGE, PEOPLE, DOCUMENT).value
    dataset = optimize.dataset_level(JUDGE, PEOPLE).value
    left, bottom, step = 60.0, 270.0, 38.0

    def place(rating: float, score: float) -> tuple[float, float]:
        return left + step * rating, bottom - step * score

    parts = [line(left, bottom, left + 6.6 * step, bottom), line(left, bottom, left, 20)]
    parts.append(text(left + 3.3 * step, bottom + 34, "people's rating", anchor="middle"))
    parts.append(text(left - 30, 16, "judge's score"))
    for value in range(1, 7):
        parts.append(text(left + step * value, bottom + 16, str(value), anchor="middle"))
        parts.append(text(left - 10, bottom - step * value + 4, str(value), anchor="end"))
    for document, kind in ((1, "a"), (2, "b")):
        points = [
            place(rating, score)
            for rating, score, name in zip(PEOPLE, JUDGE, DOCUMENT, strict=True)
            if name == document
        ]
        parts.append(line(*points[0], *points[-1], f"curve s{kind}"))
        parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>' for x, y in points]
    parts += [
        f'<circle class="a" cx="352" cy="70" r="6"/>{text(366, 74, "first document")}',
        f'<circle class="b" cx="352" cy="94" r="6"/>{text(366, 98, "second document")}',
        text(346, 140, "within each document (summary level)"),
        text(346, 160, f"rho = {summary:.0f}"),
        text(346, 196, "over all six (dataset level)"),
        text(346, 216, f"rho = 19/35 = +{dataset:.2f}"),
    ]
    return picture(640, 320, "Summary level and dataset level", parts)


def splits() -> str:
    """The starter set's documents and systems as a run with seed 0 deals them."""
    labelled = data.starter()
    dealt = data.split(labelled, by="both", seed=0)
    unseen = dealt.held_out_systems
    systems = [name for name in labelled.systems if name not in unseen] + list(unseen)
    parts, row, x0, width, height = [], 0, 120.0, 26.0, 7.0
    for name, part, kind in (
        ("train", dealt.train, "a"),
        ("dev", dealt.dev, "c"),
        ("test", dealt.test, "b"),
    ):
        documents = part.documents
        middle = 56 + height * (row + len(documents) / 2)
        parts.append(text(x0 - 12, middle, f"{name}: {len(documents)}", anchor="end"))
        for _ in documents:
            for column, system in enumerate(systems):
                used = kind if system not in unseen else ("d" if name == "test" else "none")
                parts.append(
                    box(x0 + column * width, 50 + row * height, width - 2, height - 2, used)
                )
            row += 1
        row += 1
    end, n_known = x0 + len(systems) * width, len(systems) - len(unseen)
    known, held = x0 + n_known * width / 2, x0 + (n_known + len(unseen) / 2) * width
    parts.append(text(x0 - 12, 40, "documents", anchor="end", kind="small"))
    parts.append(text(known, 40, f"{n_known} systems", anchor="middle"))
    parts.append(text(held, 40, f"{len(unseen)} held out", anchor="middle"))
    legend = (
        ("a", "teaches"),
        ("c", "chooses"),
        ("b", "measured once"),
        ("d", "unseen systems, measured once"),
        ("none", "used for nothing"),
    )
    for index, (kind, words) in enumerate(legend):
        parts.append(box(end + 24, 58 + index * 26, 14, 14, kind))
        parts.append(text(end + 46, 70 + index * 26, words))
    title = f"How {len(labelled.documents)} documents by {len(systems)} systems are dealt"
    return picture(int(end) + 280, int(66 + row * height), title, parts)


def largest_of(count: int) -> float:
    """Mean of the largest of `count` standard normal errors (by the trapezoid rule)."""
    x = np.linspace(-6, 6, 2401)
    return float(np.trapezoid(x * count * norm.pdf(x) * norm.cdf(x) ** (count - 1), x))


def gate() -> str:
    """What the best of K worthless candidates shows, and what it has to show to ship."""
    counts = range(1, MOST_CANDIDATES + 1)
    best = [ERROR * largest_of(count) for count in counts]
    asked = [ERROR * float(norm.ppf((1 - TAIL) ** (1 / count))) for count in counts]
    left, bottom, width, scale = 70.0, 260.0, 400.0, 620.0

    def place(count: int, gain: float) -> str:
        return (
            f"{left + width * (count - 1) / (MOST_CANDIDATES - 1):.1f},{bottom - scale * gain:.1f}"
        )

    def curve(gains: Sequence[float], kind: str) -> str:
        points = " ".join(place(count, gain) for count, gain in zip(counts, gains, strict=True))
        return f'<polyline class="curve {kind}" points="{points}"/>'

    parts = [line(left, bottom, left + width, bottom), line(left, bottom, left, 30)]
    for gain in (0.0, 0.1, 0.2, 0.3):
        parts.append(text(left - 8, bottom - scale * gain + 4, f"+{gain:.1f}", anchor="end"))
    for count in (1, 10, 20, 30, 40, 50):
        x = left + width * (count - 1) / (MOST_CANDIDATES - 1)
        parts.append(text(x, bottom + 18, str(count), anchor="middle"))
    parts += [
        curve(best, "sa"),
        curve(asked, "sb"),
        text(left - 40, 18, "gain in rho on dev"),
        text(
            left + width / 2, bottom + 38, "candidates that are no better at all", anchor="middle"
        ),
        text(left + width + 8, bottom - scale * best[-1] + 4, f"the best of them: +{best[-1]:.2f}"),
        text(left + width + 8, bottom - scale * asked[-1] + 4, f"asked of it: +{asked[-1]:.2f}"),
    ]
    return picture(660, 312, "The best of many candidates that are no better", parts)


def ceiling() -> str:
    """Two bars a dimension: an expert against the others, the judge against the same."""
    left, scale, parts = 110.0, 480.0, []
    for index, (dimension, (people, judge)) in enumerate(CEILING.items()):
        y = 46 + index * 58
        parts.append(text(left - 10, y + 24, dimension, anchor="end"))
        parts += [
            box(left, y, scale * people, 16, "d"),
            box(left, y + 19, scale * judge, 16, "a"),
            text(left + scale * people + 6, y + 13, f"{people:.3f}"),
            text(left + scale * judge + 6, y + 32, f"{judge:.3f}: {judge / people:.0%}"),
        ]
    parts += [
        box(left, 18, 14, 14, "d"),
        text(left + 20, 30, "one expert against the other two"),
        box(left + 262, 18, 14, 14, "a"),
        text(left + 282, 30, "gpt-4o-mini against the same two"),
    ]
    return picture(640, 290, "The human ceiling on SummEval, summary-level rho", parts)


PICTURES: Mapping[str, Callable[[], str]] = {
    "levels": levels,
    "splits": splits,
    "gate": gate,
    "ceiling": ceiling,
}


def stale() -> Iterator[str]:
    """The pictures whose stored file is not what is drawn now."""
    for name, draw in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        if not path.exists() or path.read_text(encoding="utf-8") != draw():
            yield name


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
    sys.stdout.write(f"{len(PICTURES)} pictures in {FOLDER.relative_to(ROOT)}\n")
