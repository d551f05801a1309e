"""Ways of putting scores on people's scale: python benchmarks/score_maps.py (no model is asked).

Recorded scores of SummEval (three models, four dimensions) and of Topical-Chat (UniEval): maps
learned on some documents, and judged on the others, over 20 draws. In people's standard deviations:
the gap of the means and the mean absolute error; and the ratio of the standard deviations.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from optimize.statistics.score_map import fit_score_map

SHARED = Path(__file__).parents[2] / "shared" / "data"
N_DRAWS = 20
N_TRAIN = (10, 25, 40)
Vector = npt.NDArray[np.float64]
Map = Callable[[Vector], Vector]


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def cases() -> dict[str, tuple[Vector, Vector, npt.NDArray[np.str_]]]:
    """Scores, ratings and documents, by judge and dimension."""
    found = {}
    for folder, recordings in (
        ("summeval", sorted((SHARED / "summeval_scores").glob("scores_*.jsonl"))),
        ("topical_chat", [SHARED / "topical_chat" / "unieval_scores.jsonl"]),
    ):
        labels: list[dict] = read(SHARED / folder / f"{folder}.jsonl")  # type: ignore[type-arg]
        for path in recordings:
            scores: dict[str, dict[str, float]] = defaultdict(dict)
            for row in read(path):
                by_dimension = row.get("scores") or {row["dimension"]: row["score"]}
                for name, score in by_dimension.items():  # type: ignore[attr-defined]
                    scores[name][str(row["id"])] = float(score)
            for name, by_id in scores.items():
                rows = [row for row in labels if row["id"] in by_id and name in row["ratings"]]
                if rows:
                    found[f"{path.stem} {name}"] = (
                        np.array([by_id[row["id"]] for row in rows]),
                        np.array([row["ratings"][name] for row in rows], float),
                        np.array([row["group"] for row in rows]),
                    )
    return found


def regression(x: Vector, y: Vector) -> Map:
    slope = float(np.cov(x, y, bias=True)[0, 1] / x.var())
    return lambda scores: y.mean() + slope * (scores - x.mean())


def moments(x: Vector, y: Vector) -> Map:
    return lambda scores: y.mean() + y.std() / x.std() * (scores - x.mean())


def equated(x: Vector, y: Vector) -> Map:
    fitted = fit_score_map(x, y)
    assert fitted is not None
    return lambda scores: np.array(fitted.all([float(score) for score in scores]))


MAPS: dict[str, Callable[[Vector, Vector], Map]] = {
    "as they are": lambda x, y: lambda scores: scores,
    "linear regression": regression,
    "means and SDs": moments,
    "equated (ours)": equated,
}


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rng = np.random.default_rng(0)
    everything = cases()
    for n_train in N_TRAIN:
        figures: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for scores, ratings, documents in everything.values():
            names = np.unique(documents)
            for _ in range(N_DRAWS):
                n = min(n_train, int(len(names) * 0.6))
                is_train = np.isin(documents, rng.permutation(names)[:n])
                x, y, sd = scores[is_train], ratings[is_train], ratings.std()
                if np.ptp(x) == 0 or np.ptp(y) == 0:
                    continue
                for name, fit in MAPS.items():
                    mapped, people = fit(x, y)(scores[~is_train]), ratings[~is_train]
                    gap = abs(mapped.mean() - people.mean()) / sd
                    error = float(np.abs(mapped - people).mean() / sd)
                    figures[name].append((gap, mapped.std() / people.std(), error))
        print(f"{n_train} documents to learn from, {len(everything)} judges and dimensions")
        for name, rows in figures.items():
            gap, spread, error = np.mean(rows, axis=0)
            print(
                f"  {name:<18} mean off by {gap:.2f} SD, SD ratio {spread:.2f}, MAE {error:.2f} SD"
            )


if __name__ == "__main__":
    main()
