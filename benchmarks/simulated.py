"""Searches that cost money, in simulated worlds: python benchmarks/simulated.py.

Worlds x seeds x dollars x optimizers. Each run is `dspy-judges tune` with a limit, against a local
server whose models know the truth. Printed are the held-out rho of the judge that ships, on
documents without labels, how many ship, and what the judge costs for 1,000 rows; then how often a
tuned judge ships by its true gain, which those documents show.
"""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import t
from simulated_server import JUDGE_MODEL, MODELS, SimulatedServer, serving
from simulated_worlds import TRAITS_BY_WORLD, World
from tuning_runs import Line, collect, parser_of_runs, tune, with_error

import judges
from optimize.statistics.balanced import balanced_accuracy, verdicts
from optimize.statistics.correlations import summary_level

OPTIMIZERS = ("rank", "gepa")


def run(
    world: str,
    seed: int,
    dollars: float,
    optimizer: str,
    objective: str | None,
    shuffled: bool,
    documents: int,
    systems: int,
) -> Line:
    """Tune as a user would, then measure what shipped on fresh documents."""
    truth = World(
        name=world,
        seed=seed,
        judge=TRAITS_BY_WORLD[world],
        n_documents=documents,
        n_systems=systems,
        shuffled=shuffled,
        two_values=objective is not None,
    )
    with tempfile.TemporaryDirectory() as name, serving(SimulatedServer(truth)) as server:
        folder = Path(name)
        labels, dimension = truth.write(folder)
        settings: dict[str, Any] = {"max_cost": dollars, "optimizer": optimizer, "seed": seed}
        settings |= {"objective": objective} if objective else {}
        summary = tune(folder, server.url, dimension=dimension, data=labels, **MODELS, **settings)
        tuned = folder / "run" / "tuned.json"
        shipped, cost = measured(judges.load(str(folder / "run")), server)
        untuned, _ = measured(judges.load(str(dimension)), server)
        best, _ = measured(judges.load(str(tuned)), server) if tuned.exists() else (shipped, cost)
    return {
        "shipped": summary["shipped"] == "tuned",
        "rho": shipped,
        "cost": cost,
        "untuned": untuned,
        "true_gain": best - untuned,
    }


def measured(judge: judges.Judge, server: SimulatedServer) -> tuple[float, float]:
    """A judge's rho on documents without labels, or its balanced accuracy; dollars for 1,000."""
    world, before = server.world, server.dollars
    judge = judge.with_model(f"openai/{JUDGE_MODEL}")
    scores = server.scores(judge, map(world.texts, world.fresh))
    cost = (server.dollars - before) / len(scores) * 1000
    human = world.human[world.fresh]
    if world.two_values:
        return balanced_accuracy(verdicts(scores), human), cost
    documents = [item // world.n_systems for item in world.fresh]
    return summary_level(scores, human, documents).value, cost


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Held-out rho by world, limit and optimizer, how many ship, and the cost of 1,000 rows."""
    yield "| world | limit | rank | gepa |"
    yield "|---|---|---|---|"
    for world in [*dict.fromkeys(line["world"] for line in lines), "mean"]:
        for limit in sorted({line["dollars"] for line in lines}):
            cells = []
            for optimizer in OPTIMIZERS:
                key = limit, optimizer
                here = [each for each in lines if (each["dollars"], each["optimizer"]) == key]
                here = [each for each in here if world in (each["world"], "mean")]
                shipped, cost = (sum(each[name] for each in here) for name in ("shipped", "cost"))
                how = f"({shipped} of {len(here)}, ${cost / max(len(here), 1):.2f})"
                rho = [each["rho"] for each in here]
                cells.append(f"{with_error(rho)} {how}" if here else "")
            yield f"| {world} | ${limit:g} | {' | '.join(cells)} |"


def by_true_gain(lines: Sequence[Line]) -> Iterator[str]:
    """How many tuned judges shipped, by what they truly gain, and what users get for it."""
    for low, high in itertools.pairwise((-1.0, 0.0, 0.05, 0.15, 1.0)):
        here = [line for line in lines if low < line["true_gain"] <= high]
        if here:
            shipped = sum(line["shipped"] for line in here)
            rho, untuned = (mean(line[name] for line in here) for name in ("rho", "untuned"))
            gain = f"true gain {low:+.2f} to {high:+.2f}"
            ships = f"{shipped} of {len(here)} shipped"
            yield f"{gain}: {ships}; rho {rho:.3f} for {untuned:.3f} untuned"
    worlds = dict.fromkeys(line["world"] for line in lines)
    shares = [mean(line["shipped"] for line in lines if line["world"] == each) for each in worlds]
    if len(shares) > 1:
        half_width = t.ppf(0.975, len(shares) - 1) * stdev(shares) / len(shares) ** 0.5
        runs = f"(95 %, over {len(shares)} worlds), {len(lines)} runs"
        yield f"shipped in all: {mean(shares):.3f} ± {half_width:.3f} {runs}"


def main() -> None:
    parser = parser_of_runs(__doc__)
    about = "people and judge say pass or fail; rho is then the balanced accuracy"
    parser.add_argument("--objective", choices=("balanced", "spearman"), help=about)
    parser.add_argument("--shuffled", action="store_true", help="labels dealt anew: no gain")
    parser.add_argument("--systems", type=int, default=4, help="outputs of a document")
    parser.add_argument("--documents", type=int, default=100)
    worlds = list(TRAITS_BY_WORLD)
    parser.add_argument("--worlds", dest="world", nargs="*", default=worlds, choices=worlds)
    parser.add_argument("--seeds", dest="seed", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--dollars", nargs="*", type=float, default=[0.5, 2.0, 8.0])
    names = OPTIMIZERS
    parser.add_argument("--optimizers", dest="optimizer", nargs="*", default=names, choices=names)
    lines = collect(run, parser.parse_args())
    print(*table(lines), *by_true_gain(lines), sep="\n")


if __name__ == "__main__":
    main()
