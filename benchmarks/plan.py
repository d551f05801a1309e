"""What a plan of labels is worth: python benchmarks/plan.py [--data FOLDER] [--repetitions 500].

Documents are drawn anew in every repetition, so that the truth is known: simulated verdicts of
people and three judges, and real outputs (FOLDER has SummEval and Topical-Chat with recorded
judges), drawn with replacement. Printed are (1) documents in all, width and coverage where a plan
from 40 random documents is followed; (2) draws within strata beside plain ones; (3) draws by
disagreement beside random ones of the same number. Of (2) and (3) a way's figures are its width and
its root mean squared error over the first way's, and its coverage. A first figure is of the rate or
mean, a second of the judge's balanced accuracy or rho. Coverage is the share of 95 % intervals that
hold the truth: * is outside 93-97 %.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from data.weights import document_weights
from judges.recorded import judgement
from optimize.items import Matrix, Vector
from optimize.plan import Labels, figures_of, sizes_of
from optimize.statistics.sampling import draw, per_document

PILOT, DOCUMENTS, MANY = 40, 1000, 50_000
# So wide that nothing more is needed: where no plan is made.
ANY = 100.0
# Where the quality of outputs, with a variance of one, passes.
CUTS = {"50%": 0.0, "80%": -0.842, "95%": -1.645}
WAYS = {
    "2": {"plain": [(150, "plain")], "strata": [(150, "random")]},
    "3": {
        "random": [(PILOT, "random"), (160, "random")],
        "one": [(PILOT, "random"), (160, "disagreement")],
        "two": [(PILOT, "random"), (80, "disagreement"), (80, "disagreement")],
    },
}
# All labels, and a row of scores a judge, of so many documents.
World = Callable[[np.random.Generator, int], tuple[Labels, Matrix]]
Cells = list[dict[str, Any]]


def simulated(
    rng: np.random.Generator, documents: int, *, cut: float, noise: float, outputs: int
) -> tuple[Labels, Matrix]:
    """A quarter of an output's quality is its document's; people are sure of nine tenths."""
    document = np.repeat(np.arange(documents), outputs)
    n, shared = document.size, rng.normal(size=documents)[document]
    quality = 0.95 * (0.5 * shared + 0.866 * rng.normal(size=n))
    label = quality + 0.312 * rng.normal(size=n) > cut
    judges = quality + noise * rng.normal(size=(3, n)) > cut * np.hypot(0.95, noise)
    return labels_of(label, judges, document, (0.0, 1.0))


def resampled(
    rng: np.random.Generator, documents: int, *, labels: Labels, judges: Matrix
) -> tuple[Labels, Matrix]:
    """Documents of a real set, which have as many outputs each, with replacement."""
    of = labels.document.argsort(kind="stable").reshape(np.unique(labels.document).size, -1)
    of = of if documents == MANY else of[rng.integers(0, len(of), documents)]
    document, rows = np.repeat(np.arange(len(of)), of.shape[1]), of.ravel()
    return labels_of(labels.label[rows], judges[:, rows], document, labels.bounds)


def labels_of(
    label: Any, judges: Any, document: Any, bounds: tuple[float, float]
) -> tuple[Labels, Matrix]:
    scores = judges.astype(float)
    return Labels(label.astype(float), scores[0], document, np.ones(label.size), bounds), scores


def drawn(world: World, rounds: list[tuple[int, str]], seed: tuple[int, int]) -> Any:
    """The labels of so many documents, drawn in these ways, and what draws more."""
    rng, draws = np.random.default_rng(seed), dict[Any, tuple[float, ...]]()
    everything, judges = world(rng, DOCUMENTS)
    score = per_document(everything.score, everything.document)

    def known() -> Labels:
        weights = document_weights(draws)
        of = np.array([weights.get(d, 0.0) for d in range(DOCUMENTS)])[everything.document]
        return everything._replace(label=np.where(of > 0, everything.label, np.nan), weight=of)

    def more(n: int, by: str = "random") -> Labels:
        sizes = sizes_of(known(), judges) if by == "disagreement" else np.ones(DOCUMENTS)
        left = np.array([d for d in range(DOCUMENTS) if d not in draws], dtype=int)
        rows, chance = draw(sizes[left], score[left] * (by != "plain"), min(n, left.size), rng)
        draws.update({d: (1 / c, left.size) for d, c in zip(left[rows], chance, strict=True)})
        return known()

    for n, by in rounds:
        labels = more(n, by)
    return labels, more


@cache
def truth(world: World) -> Vector:
    labels, _ = world(np.random.default_rng(1), MANY)
    return np.array([cell["value"] for cell in figures_of(labels, ANY).values()])


def summary(cells: Cells, value: float) -> tuple[float, float, str]:
    """The mean width, the root of the mean squared error, the coverage."""
    sides = [(c["value"], c["low"], c["high"]) for c in cells if c["low"] is not None]
    values, low, high = np.array(sides or [[np.nan] * 3]).T
    share = np.mean((low - 1e-9 <= value) & (value <= high + 1e-9))
    text = f"{share:.3f}{' ' if 0.93 <= share <= 0.97 else '*'}"
    return float(np.mean(high - low)), float(np.sqrt(np.mean((values - value) ** 2))), text


def targets(world: World, target: float, repetitions: int) -> Iterator[str]:
    """Of either figure: documents in all (median), width reached, coverage; how many reach it.

    Where fails are too few for an interval, it is planned again with the labels that give one.
    """
    for place in (0, 1):
        reached, numbers = Cells(), list[int]()
        for repetition in range(repetitions):
            labels, more = drawn(world, [(PILOT, "plain")], (3, repetition))
            while n := (cell := [*figures_of(labels, target).values()][place])["more_documents"]:
                labels = more(n)
                if cell["low"] is not None:
                    break
            if n is not None:
                reached.append([*figures_of(labels, target).values()][place])
                known = labels.document[~np.isnan(labels.label)]
                numbers.append(np.unique(known).size)
        width, _, share = summary(reached, truth(world)[place])
        number = float(np.median(numbers or [0]))
        yield f"{number:.0f} {width:.3f} {share} ({len(reached) / repetitions:.0%})"


def ways(
    world: World, compared: dict[str, list[tuple[int, str]]], repetitions: int
) -> Iterator[str]:
    """Of either figure the first way's coverage; then the others' width and error over its own."""
    found: list[list[Cells]] = []
    for rounds in compared.values():
        labels = (drawn(world, rounds, (4, seed))[0] for seed in range(repetitions))
        found.append([[*figures_of(each, ANY).values()] for each in labels])
    for place in (0, 1):
        first, *others = (
            summary([cells[place] for cells in way if cells[place:]], truth(world)[place])
            for way in found
        )
        width, error = (of or np.nan for of in first[:2])  # where all labels are one
        own = [f"{w / width:.3f} {e / error:.3f} {share}" for w, e, share in others]
        yield " | ".join([first[2], *own])


def real_worlds(folder: Path) -> Iterator[tuple[str, World]]:
    """Ratings by people and recorded judges, and what of them is in the scale's upper part."""

    def lines(file: str) -> list[Any]:
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(file))]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    given = [
        (row["judge"], row["dimension"], row["id"], row["score"])
        for row in lines("summeval_scores/scores_*.jsonl")
    ] + [
        (row["prompt"], row["dimension"], row["id"], judgement(row["replies"], (1, 2, 3)).score)
        for row in lines("topical_chat_judges/replies_*.jsonl")
    ]
    for name, high, passes in (("summeval", 5, 4.0), ("topical_chat", 3, 2.5)):
        rows = {row["id"]: row for row in lines(f"{name}/{name}.jsonl")}
        for dimension in sorted({of for _, of, item, _ in given if item in rows}):
            judges: dict[str, dict[str, float]] = {}
            for judge, of, item, score in given:
                if of == dimension and item in rows:
                    judges.setdefault(judge, {})[item] = score
            items = [item for item in rows if all(item in own for own in judges.values())]
            scores = np.array([[own[item] for item in items] for own in judges.values()], float)
            label = np.array([rows[item]["ratings"][dimension] for item in items])
            group = np.unique([rows[i]["group"] for i in items], return_inverse=True)[1]
            verdicts = (label >= passes, scores >= passes)
            for title, sides, document, bounds in (
                ("ratings", (label, scores), np.arange(label.size), (1.0, float(high))),
                ("passes", verdicts, np.arange(label.size), (0.0, 1.0)),
                ("passes, by document", verdicts, group, (0.0, 1.0)),
            ):
                if np.ptp(np.bincount(document)) == 0:
                    labels, matrix = labels_of(*sides, document, bounds)
                    world = partial(resampled, labels=labels, judges=matrix)
                    yield f"{name} {dimension}, {title}", world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", default="123")
    flags = parser.parse_args()
    began = time.monotonic()
    worlds: dict[str, World] = {
        f"{share} pass, {word} judge, {outputs} a document": partial(
            simulated, cut=cut, noise=noise, outputs=outputs
        )
        for share, cut in CUTS.items()
        for word, noise in (("good", 0.4), ("poor", 1.5))
        for outputs in (1, 4)
    }
    for name, world in worlds.items() if "1" in flags.tables else ():
        for target in (0.1, 0.15):
            print(
                f"(1) {name}, {target}",
                *targets(world, target, flags.repetitions),
                sep=" | ",
                flush=True,
            )
    if flags.data.is_dir():
        worlds |= dict(real_worlds(flags.data))
    else:
        print(f"no real sets: {flags.data} does not exist (--data FOLDER)")
    for table in [table for table in WAYS if table in flags.tables]:
        print(f"({table}) {', '.join(WAYS[table])}")
        for name, world in worlds.items():
            print(name, *ways(world, WAYS[table], flags.repetitions), sep=" | ", flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
