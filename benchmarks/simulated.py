"""Searches that cost money, in simulated worlds: python benchmarks/simulated.py [--quick].

Worlds x seeds x dollars x optimizers. Each run is `python -m optimize` with a key and a limit,
against a local server whose models know the truth. Printed are the held-out rho of the judge that
ships, on documents without labels, how many ship, and what the judge costs for 1,000 rows; then how
often a tuned judge ships by its true gain, which those documents show. Each run is a line of --out
as soon as it is done; --resume keeps them.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from scipy.stats import rankdata, t
from simulated_server import JUDGE_MODEL, PROPOSER_MODEL, SimulatedServer, serve
from simulated_worlds import JUDGES, World

import judges
from judges.prompt import reasoning_of

ROOT = Path(__file__).parents[1]
OPTIMIZERS = ("rank", "gepa")
DOLLARS = (0.5, 2.0, 8.0)
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run; `shuffled` deals the labels anew within documents, so that nothing can be gained.

    `skill` is the proposer's eye for what goes with people's ratings.
    """

    world: str
    seed: int
    optimizer: str
    dollars: float
    shuffled: bool = False
    two_values: bool = False
    critiques: bool = False
    skill: float = 1.0
    objective: str = "auto"
    risk: float = 0.1
    n_documents: int = 100
    n_systems: int = 4

    def simulated(self) -> World:
        return World(
            name=self.world,
            seed=self.seed,
            judge=JUDGES[self.world],
            n_documents=self.n_documents,
            n_systems=self.n_systems,
            shuffled=self.shuffled,
            two_values=self.two_values,
            critiques=self.critiques,
        )


def run(job: Job) -> Line:
    """Tune as a user would, then measure what shipped on fresh documents."""
    with tempfile.TemporaryDirectory() as name, serve(job.simulated(), job.skill) as server:
        folder = Path(name)
        labels, dimension = server.judge.world.write(folder)
        command = [sys.executable, "-m", "optimize", "--dimension", str(dimension)]
        command += ["--data", str(labels), "--lm", f"openai/{JUDGE_MODEL}"]
        command += ["--proposer-lm", f"openai/{PROPOSER_MODEL}", "--api-base", server.url]
        command += ["--max-cost", str(job.dollars), "--optimizer", job.optimizer]
        command += ["--risk", str(job.risk), "--seed", str(job.seed)]
        if job.two_values:
            command += ["--objective", job.objective]
        command += ["--out", str(folder / "run"), "--json"]
        environment = os.environ | {"OPENAI_API_KEY": "simulated", "DSPY_JUDGES_CACHE": "none"}
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
        )
        line = asdict(job) | {"seconds": round(time.perf_counter() - began, 1)}
        if done.returncode:
            return line | {"error": done.stderr[-400:]}
        summary = json.loads(done.stdout)
        spent = server.dollars
        return line | {
            "shipped": summary["shipped"],
            "why": summary["why"],
            "dollars_served": spent,
            "dollars_reported": summary["cost_usd"],
            **figures(folder, str(dimension), server),
        }


def figures(folder: Path, dimension: str, server: SimulatedServer) -> dict[str, Any]:
    """What is handed over, beside the untuned judge and the one that tuning has found."""
    shipped = measured(judges.load(str(folder / "run")), server)
    untuned = measured(judges.load(dimension), server)
    path = folder / "run" / "tuned.json"
    tuned = measured(judges.load(str(path)), server) if path.exists() else shipped
    return shipped | {"untuned": untuned["rho"], "true_gain": tuned["rho"] - untuned["rho"]}


def measured(judge: judges.Judge, server: SimulatedServer) -> dict[str, Any]:
    """A judge's rho within documents without labels, its dollars for 1,000 rows and its form."""
    world = server.judge.world
    fresh, before = range(world.n_items, len(world.gold)), server.dollars
    judge = judge.with_model(f"openai/{JUDGE_MODEL}")
    scores = server.scores(judge, [world.texts(item) for item in fresh])
    human = world.human[list(fresh)]
    if world.two_values:
        balanced = np.mean([np.mean((scores[human == value] >= 0.5) == value) for value in (0, 1)])
        return {"rho": float(balanced), "cost_1000": 0.0}
    return {
        "rho": mean_rho(scores, human, world.n_systems),
        "cost_1000": (server.dollars - before) / len(scores) * 1000,
        "reasoning": reasoning_of(judge.prompt.outputs),
    }


def mean_rho(scores: Any, human: Any, n: int) -> float:
    """Mean Spearman within documents; a judge that ties all of one counts 0 there."""
    ranks = [rankdata(np.reshape(side, (-1, n)), axis=1) for side in (scores, human)]
    judge, people = (side - side.mean(axis=1, keepdims=True) for side in ranks)
    lengths = [np.sqrt((side**2).sum(axis=1)) for side in (judge, people)]
    defined, told_apart = lengths[1] > 0, lengths[0] > 0
    products = np.where(told_apart, lengths[0] * lengths[1], 1.0)[defined]
    return float(((judge * people).sum(axis=1)[defined] / products).mean())


def with_error(values: Sequence[float]) -> str:
    """A mean and its standard error over runs."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{error}"


def table(lines: Sequence[Line], *, critiques: bool = False) -> str:
    """Held-out rho by world, limit and optimizer or critiques, how many ship, and paired gains."""
    done = [line for line in lines if "rho" in line]
    name, sides = ("critiques", (True, False)) if critiques else ("optimizer", OPTIMIZERS)
    heads = ("with critiques", "without") if critiques else OPTIMIZERS
    rows = [
        f"| world | limit | {' | '.join(heads)} | {' less '.join(heads)} |",
        "|---" * (3 + len(heads)) + "|",
    ]
    for world in [*dict.fromkeys(line["world"] for line in done), "mean"]:
        for limit in sorted({line["dollars"] for line in done}):
            here = [
                line
                for line in done
                if line["dollars"] == limit and world in (line["world"], "mean")
            ]
            by_side = [
                {
                    (line["world"], line["seed"], critiques and line["optimizer"]): line
                    for line in here
                    if line[name] == side
                }
                for side in sides
            ]
            cells = [_cell(list(some.values())) for some in by_side]
            cells.append(paired_gain(*by_side))
            rows.append(f"| {world} | ${limit:g} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(lines: Sequence[Line]) -> str:
    if not lines:
        return ""
    shipped = sum(line["shipped"] == "tuned" for line in lines)
    cost = mean(line["cost_1000"] for line in lines)
    rho = with_error([line["rho"] for line in lines])
    return f"{rho} ({shipped} of {len(lines)}, ${cost:.2f})"


def by_true_gain(lines: Sequence[Line]) -> Iterator[str]:
    """How many tuned judges shipped, by what they truly gain, and what users get for it."""
    done = [line for line in lines if "rho" in line]
    for low, high in itertools.pairwise((-1.0, 0.0, 0.05, 0.15, 1.0)):
        here = [line for line in done if low < line["true_gain"] <= high]
        if here:
            shipped = sum(line["shipped"] == "tuned" for line in here)
            yield (
                f"true gain {low:+.2f} to {high:+.2f}: {shipped} of {len(here)} shipped; rho "
                f"{mean(line['rho'] for line in here):.3f} for "
                f"{mean(line['untuned'] for line in here):.3f} untuned"
            )
    shares = [
        mean(line["shipped"] == "tuned" for line in done if line["world"] == world)
        for world in dict.fromkeys(line["world"] for line in done)
    ]
    if len(shares) > 1:
        half_width = t.ppf(0.975, len(shares) - 1) * stdev(shares) / len(shares) ** 0.5
        yield (
            f"shipped in all: {mean(shares):.3f} ± {half_width:.3f} (95 %, over {len(shares)} "
            f"worlds), {len(done)} runs"
        )


def paired_gain(better: Mapping[Any, Line], worse: Mapping[Any, Line]) -> str:
    """How much more rho the one side has over the runs that both have, with its 95 % interval."""
    gains = [better[key]["rho"] - worse[key]["rho"] for key in better.keys() & worse.keys()]
    if len(gains) < 2:
        return ""
    half_width = t.ppf(0.975, len(gains) - 1) * stdev(gains) / len(gains) ** 0.5
    low, high = mean(gains) - half_width, mean(gains) + half_width
    return f"{mean(gains):+.3f} [{low:+.3f}, {high:+.3f}] ({len(gains)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two worlds, one seed, $0.50")
    about = "people and judge say pass or fail; rho is then the balanced accuracy"
    parser.add_argument("--two-values", action="store_true", help=about)
    about = "each run also with critiques, which say what people go by; prints the difference"
    parser.add_argument("--critiques", action="store_true", help=about)
    about = "how well the proposer sees what goes with ratings; 0: critiques alone tell it"
    parser.add_argument("--skill", type=float, default=1.0, help=about)
    parser.add_argument("--objective", default="auto", help="of pass and fail")
    parser.add_argument("--shuffled", action="store_true", help="labels dealt anew: no gain")
    parser.add_argument("--resume", action="store_true", help="keep the lines of a stopped run")
    parser.add_argument("--risk", type=float, default=0.1)
    parser.add_argument("--systems", type=int, default=4, help="outputs of a document")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--worlds", nargs="*", default=list(JUDGES), choices=list(JUDGES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--dollars", nargs="*", type=float, default=list(DOLLARS))
    parser.add_argument("--optimizers", nargs="*", default=list(OPTIMIZERS), choices=OPTIMIZERS)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "simulated.jsonl")
    flags = parser.parse_args()
    if flags.quick:
        flags.worlds, flags.seeds, flags.dollars = flags.worlds[:2], flags.seeds[:1], [0.5]
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    if flags.resume and flags.out.exists():
        lines = [json.loads(line) for line in flags.out.read_text().splitlines()]
    done = {tuple(line[name] for name in Job.__slots__) for line in lines}  # type: ignore[attr-defined]
    with flags.out.open("a" if flags.resume else "w") as file:
        for world, seed, dollars, optimizer, critiques in itertools.product(
            flags.worlds,
            flags.seeds,
            flags.dollars,
            flags.optimizers,
            (False, True) if flags.critiques else (False,),
        ):
            job = Job(
                world=world,
                seed=seed,
                optimizer=optimizer,
                dollars=dollars,
                shuffled=flags.shuffled,
                two_values=flags.two_values,
                critiques=critiques,
                skill=flags.skill,
                objective=flags.objective,
                risk=flags.risk,
                n_documents=flags.documents,
                n_systems=flags.systems,
            )
            if tuple(asdict(job).values()) not in done:
                lines.append(run(job))
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1])[:300], file=sys.stderr)
    print(table(lines, critiques=flags.critiques))
    print(*by_true_gain(lines), sep="\n")


if __name__ == "__main__":
    main()
