"""What a plan of labels is worth: python benchmarks/plan.py [--repetitions 500] [--data FOLDER].

Populations are drawn anew in every repetition, so that the truth is known: simulated passes and
fails by three judges, and real outputs (SummEval, Topical-Chat; FOLDER holds them) drawn with
replacement, each a document of its own where nothing else is said. Printed are (1) whether planned
labels reach the width that was asked for; (2) draws within strata beside plain ones; (3) draws by
disagreement after 40 random documents beside random ones of the same number, in one round or two.
Coverage is the share of 95 % intervals that hold the truth: * is outside 93-97 %.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.weights import Draw, document_weights
from judges.recorded import judgement
from optimize.items import Indices, Matrix, Vector
from optimize.plan import figures_of, sizes_of
from optimize.statistics.sampling import draw, per_document

PILOT, DOCUMENTS, MANY = 40, 2000, 100_000
RATES = (0.5, 0.8, 0.95)


class Population(NamedTuple):
    """Labels of all outputs, a row of scores a judge, documents numbered from 0, the scale."""

    label: Vector
    judges: Matrix
    document: Indices
    bounds: tuple[float, float] = (0.0, 1.0)


World = Callable[[np.random.Generator, int], Population]


def simulated(
    rng: np.random.Generator, documents: int, *, rate: float, noise: float, outputs: int = 1
) -> Population:
    """Verdicts on a quality of which a quarter is the document's; .3 is the noise of people."""
    document = np.repeat(np.arange(documents), outputs)
    quality = np.sqrt(0.25) * rng.normal(size=documents)[document]
    quality += np.sqrt(0.75) * rng.normal(size=document.size)
    cut = {0.5: 0.0, 0.8: -0.8416, 0.95: -1.6449}[rate] * np.sqrt(1.09)
    label = quality + 0.3 * rng.normal(size=document.size) > cut
    judges = (
        quality + noise * rng.normal(size=(3, document.size)) > cut * np.hypot(1, noise) / 1.044
    )
    return Population(label.astype(float), judges.astype(float), document)


def resampled(rng: np.random.Generator, documents: int, *, real: Population) -> Population:
    """Documents of a real set, with replacement."""
    of = np.argsort(real.document, kind="stable").reshape(real.document.max() + 1, -1)
    rows = of[rng.integers(0, len(of), documents)] if documents < MANY else of
    document = np.repeat(np.arange(len(rows)), rows.shape[1])
    return Population(real.label[rows.ravel()], real.judges[:, rows.ravel()], document, real.bounds)


class Labels:
    """Documents that were drawn for labels, and what their labels say."""

    def __init__(self, world: World, documents: int, rng: np.random.Generator) -> None:
        self.people, self.n, self.rng = world(rng, documents), documents, rng
        self.draws: dict[Any, Draw] = {}

    def add(self, n: int, by: str = "random") -> None:
        people, sizes = self.people, np.ones(self.n)
        if by == "disagreement":
            label, weight = self.known()
            sizes = sizes_of(label, people.judges, people.document, weight, people.bounds)
        left = np.setdiff1d(np.arange(self.n), [*self.draws])
        order = per_document(people.judges[0], people.document)[left] * (by != "plain")
        rows, chance = draw(sizes[left], order, min(n, left.size), self.rng)
        drawn = zip(left[rows].tolist(), 1 / chance, strict=True)
        self.draws |= {document: (weight, left.size) for document, weight in drawn}

    def known(self) -> tuple[Vector, Vector]:
        """Labels (NaN: none) and weights of all outputs."""
        weight, weights = np.zeros(self.n), document_weights(self.draws)
        weight[[*weights]] = [*weights.values()]
        of = weight[self.people.document]
        return np.where(of > 0, self.people.label, np.nan), of

    def figures(self, target: float = 0.1) -> list[dict[str, Any]]:
        """The mean and the judge's agreement."""
        (label, weight), people = self.known(), self.people
        sides = label, people.judges[0], people.document, weight, people.bounds
        return [*figures_of(*sides, target).values()][:2]


@cache
def truth(world: World) -> list[float]:
    everything = Labels(world, MANY, np.random.default_rng(1))
    people = everything.people
    sides = people.label, people.judges[0], people.document, np.ones(people.label.size)
    return [cell["value"] for cell in figures_of(*sides, people.bounds, 0.1).values()][:2]


def summary(cells: list[dict[str, Any]], value: float) -> tuple[float, float, float]:
    """The mean width, the root of the mean squared error, and the coverage."""
    known = [cell for cell in cells if cell["low"] is not None]
    if 2 * len(known) <= len(cells):
        return np.nan, np.nan, np.nan
    hits = [cell["low"] - 1e-9 <= value <= cell["high"] + 1e-9 for cell in known]
    errors = [(cell["value"] - value) ** 2 for cell in known]
    widths = [cell["high"] - cell["low"] for cell in known]
    return float(np.mean(widths)), float(np.sqrt(np.mean(errors))), float(np.mean(hits))


def covered(share: float) -> str:
    return f"{share:.3f}{' ' if 0.93 <= share <= 0.97 else '*'}"


def targets(world: World, target: float, repetitions: int) -> Iterator[str]:
    """What the plan says, and what its labels reach: of the mean, then of the agreement.

    Where fails are too few for an interval, it is asked again after the labels that give one.
    """
    for place in (0, 1):
        reached, numbers = list[dict[str, Any]](), list[int]()
        for repetition in range(repetitions):
            labels = Labels(world, DOCUMENTS, np.random.default_rng((3, repetition)))
            labels.add(PILOT, "plain")
            cell = labels.figures(target)[place]
            while cell["low"] is None and cell["more_documents"]:
                labels.add(cell["more_documents"])
                cell = labels.figures(target)[place]
            if (more := cell["more_documents"]) is not None and cell["low"] is not None:
                labels.add(more)
                reached.append(labels.figures(target)[place])
                numbers.append(len(labels.draws))
        width, _, share = summary(reached, truth(world)[place])
        number = np.median(numbers or [0])
        yield f"{number:>5.0f} {width:.3f} {covered(share)} {len(reached) / repetitions:>4.0%}"


def ways(world: World, rounds: dict[str, list[tuple[int, str]]], repetitions: int) -> Iterator[str]:
    """Of the mean, then of the agreement: each way's width and error over the first's, coverage."""
    found = dict[str, list[list[dict[str, Any]]]]()
    for name, draws in rounds.items():
        for repetition in range(repetitions):
            labels = Labels(world, DOCUMENTS, np.random.default_rng((4, repetition)))
            for n, by in draws:
                labels.add(n, by)
            found.setdefault(name, []).append(labels.figures())
    for place in (0, 1):
        figures = [
            summary([each[place] for each in cells], truth(world)[place])
            for cells in found.values()
        ]
        width, error, share = figures[0]
        yield f"| {covered(share)}"
        for own in figures[1:]:
            yield f"{own[0] / width:.3f} {own[1] / error:.3f} {covered(own[2])}"


def real_worlds(folder: Path) -> Iterator[tuple[str, World]]:
    """SummEval by three recorded models, Topical-Chat by two prompts; the scale's upper part passes."""
    rows = _lines(folder / "summeval/summeval.jsonl")
    for name in ("coherence", "consistency", "fluency", "relevance"):
        judges = [
            {r["id"]: r["score"] for r in _lines(path) if r["dimension"] == name}
            for path in sorted((folder / "summeval_scores").glob("scores_*.jsonl"))
        ]
        yield from _worlds(f"SummEval {name}", rows, judges, name, (1, 5), 4)
    rows = _lines(folder / "topical_chat/topical_chat.jsonl")
    for name in ("naturalness", "coherence", "engagingness"):
        judges = []
        for path in sorted((folder / "topical_chat_judges").glob("replies_*.jsonl")):
            mine = (row for row in _lines(path) if row["dimension"] == name)
            judges.append({r["id"]: judgement(r["replies"], (1, 2, 3)).score for r in mine})
        yield from _worlds(f"Topical-Chat {name}", rows, judges, name, (1, 3), 2.5)


def _worlds(
    title: str, rows: list[Any], judges: list[Any], name: str, scale: tuple[int, int], passes: float
) -> Iterator[tuple[str, World]]:
    rows = [row for row in rows if all(row["id"] in judge for judge in judges)]
    label = np.array([row["ratings"][name] for row in rows], float)
    scores = np.array([[judge[row["id"]] for row in rows] for judge in judges], float)
    bounds = float(scale[0]), float(scale[1])
    scores = np.clip(scores, *bounds)
    each, groups = (
        np.arange(label.size),
        np.unique([row["group"] for row in rows], return_inverse=True)[1],
    )
    verdicts = (label >= passes).astype(float), (scores >= passes).astype(float)
    yield f"{title}, ratings", partial(resampled, real=Population(label, scores, each, bounds))
    yield f"{title}, passes", partial(resampled, real=Population(*verdicts, each))
    if np.ptp(np.bincount(groups)) == 0:
        several = Population(*verdicts, groups)
        yield f"{title}, passes, by document", partial(resampled, real=several)


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", default="123")
    flags = parser.parse_args()
    began, n = time.monotonic(), flags.repetitions
    worlds: dict[str, World] = {
        f"{rate:.0%} pass, {word} judge, {outputs} a document": partial(
            simulated, rate=rate, noise=noise, outputs=outputs
        )
        for rate in RATES
        for word, noise in (("good", 0.4), ("poor", 1.5))
        for outputs in (1, 4)
    }
    if "1" in flags.tables:
        print("(1) documents in all, width reached, coverage; the rate, then balanced accuracy")
        for name, world in worlds.items():
            for target in (0.1, 0.15):
                print(f"{name:<34} {target:<4}", *targets(world, target, n), sep=" | ", flush=True)
    if flags.data.is_dir():
        worlds |= dict(real_worlds(flags.data))
    else:
        print(f"no real sets: {flags.data} does not exist (--data)")
    if "2" in flags.tables:
        print("(2) 150 documents, plain: coverage; strata: width and error over plain's, coverage")
        rounds = {"plain": [(150, "plain")], "strata": [(150, "random")]}
        for name, world in worlds.items():
            print(f"{name:<44}", *ways(world, rounds, n), flush=True)
    if "3" in flags.tables:
        print("(3) 40 + 160 documents, the same by disagreement, 40 + 80 + 80 by disagreement")
        first, by = (PILOT, "random"), "disagreement"
        rounds = {
            "random": [first, (160, "random")],
            "one": [first, (160, by)],
            "two": [first, (80, by), (80, by)],
        }
        for name, world in worlds.items():
            print(f"{name:<44}", *ways(world, rounds, n), flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
