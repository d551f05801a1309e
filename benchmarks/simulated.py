"""Searches that cost money, in simulated worlds: python benchmarks/simulated.py [--quick].

Worlds x seeds x dollars x optimizers: each run is `python -m optimize` with a key, prices and a
limit, against a local server that knows the truth. Printed are the held-out rho of the judge that
ships, on documents without labels, what the server would have billed, and what the shipped judge
costs for 1,000 rows. Each run is a line of --out as soon as it is done; --resume keeps them.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from scipy.stats import rankdata
from simulated_server import JUDGE_MODEL, PROPOSER_MODEL, SimulatedServer, serve
from simulated_worlds import JUDGES, World

HERE = Path(__file__).parent
OPTIMIZERS = ("rank", "gepa", "miprov2", "bootstrap")
DOLLARS = (0.5, 2.0, 8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run."""

    world: str
    vocabulary: str
    seed: int
    optimizer: str
    dollars: float
    n_systems: int = 4


def world_of(job: Job) -> World:
    return World(
        name=job.world,
        seed=job.seed,
        judge=JUDGES[job.world],
        vocabulary=job.vocabulary,
        n_documents=400 // job.n_systems,
        n_systems=job.n_systems,
    )


def run(job: Job, extra: Sequence[str] = ()) -> dict[str, Any]:
    """Tune by the command line as a user would, then measure what shipped on fresh documents."""
    world = world_of(job)
    with tempfile.TemporaryDirectory() as name, serve(world) as server:
        folder = Path(name)
        labels, dimension = world.write(folder)
        command = [
            *(sys.executable, "-m", "optimize", "--dimension", str(dimension)),
            *("--data", str(labels), "--lm", f"openai/{JUDGE_MODEL}", "--api-base", server.url),
            *("--proposer-lm", f"openai/{PROPOSER_MODEL}", "--max-cost", str(job.dollars)),
            *("--optimizer", job.optimizer, "--seed", str(job.seed)),
            *("--out", str(folder / "run"), "--json", *extra),
        ]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=HERE.parent,
            env={**os.environ, "OPENAI_API_KEY": "simulated"},
            check=False,
        )
        seconds = time.perf_counter() - began
        line = {**asdict(job), "seconds": round(seconds, 1), "dollars_served": server.dollars}
        if done.returncode:
            return {**line, "error": done.stderr.strip()[-400:]}
        summary = json.loads(done.stdout)
        return {
            **line,
            "shipped": summary["shipped"],
            "why": summary["why"],
            "dollars_reported": summary["cost_usd"],
            "tokens_in": sum(server.tokens_in.values()),
            **measured(folder / "run" / "judge.json", server),
        }


def measured(file: Path, server: SimulatedServer) -> dict[str, Any]:
    """The shipped judge's rho within documents without labels, and its dollars for 1,000 rows."""
    import judges

    world = server.judge.world
    judge = judges.load(str(file))
    fresh = range(world.n_items, len(world.gold))
    before = server.dollars
    scores = []
    for item in fresh:
        messages = judge.messages(world.texts(item))
        answer = server.answer({"model": JUDGE_MODEL, "messages": messages, "temperature": 0})
        reply = answer["choices"][0]["message"]["content"]
        numbers = [word for word in reply.split() if word in {"1", "2", "3", "4", "5"}]
        scores.append(float(numbers[-1]))
    cost = (server.dollars - before) / len(scores) * 1000
    prompt = judge.prompt
    return {
        "rho": mean_rho(np.array(scores), world.human[list(fresh)], world.n_systems),
        "cost_1000": cost,
        "n_demos": len(prompt.demos),
        "instruction": prompt.instruction,
        "form": [field.name for field in prompt.outputs],
    }


def mean_rho(scores: Any, human: Any, n: int) -> float:
    """Mean Spearman within documents; a judge that ties all of one counts 0 there."""
    if n < 3:
        first, second = rankdata(scores), rankdata(human)
        return float(np.corrcoef(first, second)[0, 1]) if scores.std() else 0.0
    values = []
    for start in range(0, len(scores), n):
        pair = [rankdata(side[start : start + n]) for side in (scores, human)]
        if pair[1].std():
            values.append(float(np.corrcoef(*pair)[0, 1]) if pair[0].std() else 0.0)
    return mean(values)


def jobs(
    worlds: Sequence[str],
    vocabulary: str,
    seeds: Sequence[int],
    dollars: Sequence[float],
    optimizers: Sequence[str],
) -> Iterator[Job]:
    for world, seed, limit, optimizer in itertools.product(worlds, seeds, dollars, optimizers):
        yield Job(world=world, vocabulary=vocabulary, seed=seed, optimizer=optimizer, dollars=limit)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Mean held-out rho and dollars for 1,000 rows by world, limit and optimizer."""
    rows = ["| world | limit | " + " | ".join(OPTIMIZERS) + " |", "|---|---|" + "---|" * 4]
    done = [line for line in lines if "rho" in line]
    for world in [*dict.fromkeys(line["world"] for line in done), "mean"]:
        for limit in sorted({line["dollars"] for line in done}):
            cells = []
            for optimizer in OPTIMIZERS:
                chosen = [
                    line
                    for line in done
                    if line["dollars"] == limit
                    and line["optimizer"] == optimizer
                    and world in (line["world"], "mean")
                ]
                cells.append(
                    f"{mean(line['rho'] for line in chosen):.3f} "
                    f"(${mean(line['cost_1000'] for line in chosen):.2f}, "
                    f"spent ${mean(line['dollars_served'] for line in chosen):.2f})"
                    if chosen
                    else ""
                )
            rows.append(f"| {world} | ${limit:g} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="two worlds, one seed, $0.50")
    parser.add_argument("--resume", action="store_true", help="keep the lines of a stopped run")
    parser.add_argument("--vocabulary", choices=("tuning", "showing"), default="showing")
    parser.add_argument("--worlds", nargs="*", default=list(JUDGES), choices=list(JUDGES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--dollars", nargs="*", type=float, default=list(DOLLARS))
    parser.add_argument("--optimizers", nargs="*", default=list(OPTIMIZERS), choices=OPTIMIZERS)
    parser.add_argument("--out", type=Path, default=HERE.parent / "runs" / "simulated.jsonl")
    flags = parser.parse_args()
    if flags.quick:
        flags.worlds, flags.seeds, flags.dollars = flags.worlds[:2], flags.seeds[:1], [0.5]
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    if flags.resume and flags.out.exists():
        lines = [json.loads(line) for line in flags.out.read_text().splitlines()]
    done = {Job(**{name: line[name] for name in Job.__slots__}) for line in lines}  # type: ignore[attr-defined]
    with flags.out.open("a" if flags.resume else "w") as file:
        for job in jobs(
            flags.worlds, flags.vocabulary, flags.seeds, flags.dollars, flags.optimizers
        ):
            if job not in done:
                lines.append(run(job))
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1])[:300], file=sys.stderr)
    print(table(lines))


if __name__ == "__main__":
    main()
