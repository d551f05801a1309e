"""Searches that cost money, in simulated worlds: python benchmarks/simulated.py [--quick].

Worlds x seeds x dollars x optimizers: each run is what `python -m optimize` does with prices and a
limit, asking models that know the truth; with --http it is the command itself, with a key, against
a local server. Printed are the held-out rho of the judge that ships, on documents without labels,
what it costs for 1,000 rows, how that compares with the cheapest judge as good, how many ship where
nothing can be gained, and the forms of reasoning that ship. Each run is a line of --out as soon as
it is done; --resume keeps them.
"""

import argparse
import contextlib
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
from unittest.mock import patch

import numpy as np
from scipy.stats import rankdata
from simulated_server import (
    JUDGE_MODEL,
    PROPOSER_MODEL,
    SimulatedModel,
    SimulatedServer,
    serve,
)
from simulated_worlds import JUDGES, World

from judges.errors import JudgesError
from judges.prompt import Prompt

HERE = Path(__file__).parent
MODELS = (JUDGE_MODEL, PROPOSER_MODEL)
OPTIMIZERS = ("rank", "gepa", "miprov2", "bootstrap")
DOLLARS = (0.5, 2.0, 8.0)
# A shipped judge may cost so many times the cheapest one whose true rho is no more than this lower.
MOST_COST_RATIO, AS_GOOD = 1.5, 0.01
# Whether the judge should write reasons before its rating, where the world has an answer.
SHOULD_REASON = {"reasoning helps": True, "reasoning hurts": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run; `shuffled` deals the labels anew within documents, so that nothing can be gained."""

    world: str
    vocabulary: str
    seed: int
    optimizer: str
    dollars: float
    n_systems: int = 4
    shuffled: bool = False


def world_of(job: Job) -> World:
    return World(
        name=job.world,
        seed=job.seed,
        judge=JUDGES[job.world],
        vocabulary=job.vocabulary,
        n_documents=400 // job.n_systems,
        n_systems=job.n_systems,
        shuffled=job.shuffled,
    )


def run(job: Job, *, over_http: bool = False) -> dict[str, Any]:
    """Tune as a user would, then measure what shipped on fresh documents."""
    import judges

    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        world, folder = world_of(job), Path(name)
        labels, dimension = world.write(folder)
        settings: dict[str, Any] = {
            "dimension": str(dimension),
            "data": str(labels),
            "lm": f"openai/{JUDGE_MODEL}",
            "proposer_lm": f"openai/{PROPOSER_MODEL}",
            "max_cost": job.dollars,
            "optimizer": job.optimizer,
            "seed": job.seed,
            "cache": "none",
        }
        server = stack.enter_context(serve(world)) if over_http else SimulatedServer(world)
        finalists: list[Prompt] = []
        began = time.perf_counter()
        try:
            if over_http:
                summary = tuned_by_command({**settings, "api_base": server.url}, folder / "run")
            else:
                summary, finalists = tuned_in_process(settings, folder / "run", server)
        except (JudgesError, subprocess.CalledProcessError) as error:
            summary = {"error": str(getattr(error, "stderr", error))[-400:]}
        line = {
            **asdict(job),
            "seconds": round(time.perf_counter() - began, 1),
            "dollars_served": server.dollars,
        }
        if "error" in summary:
            return {**line, **summary}
        shipped = judges.load(str(folder / "run" / "judge.json")).prompt
        return {
            **line,
            "shipped": summary["shipped"],
            "why": summary["why"],
            "dollars_reported": summary["cost_usd"],
            "tokens_in": sum(server.tokens_in.values()),
            "n_dev_documents": (summary["seed_judge"]["dev"] or {}).get("n_documents"),
            "n_demos": len(shipped.demos),
            "instruction": shipped.instruction,
            "form": [field.name for field in shipped.outputs],
            **measured(shipped, server),
            # The seed's and the finalists', as far as they are known.
            "finalists": [measured(prompt, server) for prompt in finalists],
        }


def tuned_in_process(
    settings: Mapping[str, Any], folder: Path, server: SimulatedServer
) -> tuple[Mapping[str, Any], list[Prompt]]:
    """A whole run on the endpoint's answers, without HTTP and without a report.

    Returns its summary, and the prompts of the seed and the finalists.
    """
    from optimize.run import run_folder
    from optimize.run.active_run import ActiveRun
    from optimize.run.labels import prepare
    from optimize.run.pipeline import run as run_pipeline
    from optimize.run.settings import Settings
    from optimize.search.evaluator import Evaluator
    from optimize.search.finalists import SearchResult

    prepared = prepare(Settings(**settings))
    labels = prepared.labels
    folder.mkdir()
    run_folder.begin(
        folder,
        prepared.settings.to_json(),
        labels.counts(),
        labels.split,
        prepared.settings.endpoints,
    )
    models = {f"openai/{name}": SimulatedModel(server, name) for name in MODELS}
    prompts: list[Prompt] = []
    search = ActiveRun.search

    def recorded_search(self: ActiveRun, evaluator: Evaluator) -> SearchResult:
        result = search(self, evaluator)
        prompts.extend(figures.candidate.prompt(evaluator.seed) for figures in result.finalists)
        return result

    with patch.object(ActiveRun, "search", recorded_search):
        summary, _ = run_pipeline(prepared, folder, lambda line: None, models)
    return summary, prompts


def tuned_by_command(settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The same by the command line, with a key, over HTTP."""
    flags = [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    done = subprocess.run(
        [sys.executable, "-m", "optimize", *flags, "--out", str(folder), "--json"],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        env={**os.environ, "OPENAI_API_KEY": "simulated"},
        check=True,
    )
    summary: Mapping[str, Any] = json.loads(done.stdout)
    return summary


def measured(prompt: Prompt, server: SimulatedServer) -> dict[str, float]:
    """A judge's rho within documents without labels, and its dollars for 1,000 rows."""
    world = server.judge.world
    fresh = range(world.n_items, len(world.gold))
    before = server.dollars
    scores = []
    for item in fresh:
        messages = prompt.messages(world.texts(item))
        answer = server.answer({"model": JUDGE_MODEL, "messages": messages, "temperature": 0})
        reply = answer["choices"][0]["message"]["content"]
        numbers = [word for word in reply.split() if word in {"1", "2", "3", "4", "5"}]
        scores.append(float(numbers[-1]))
    return {
        "rho": mean_rho(np.array(scores), world.human[list(fresh)], world.n_systems),
        "cost_1000": (server.dollars - before) / len(scores) * 1000,
    }


def mean_rho(scores: Any, human: Any, n: int) -> float:
    """Mean Spearman within documents; a judge that ties all of one counts 0 there."""
    size = n if n > 2 else len(scores)
    ranks = [rankdata(np.reshape(side, (-1, size)), axis=1) for side in (scores, human)]
    judge, people = (side - side.mean(axis=1, keepdims=True) for side in ranks)
    lengths = [np.sqrt((side**2).sum(axis=1)) for side in (judge, people)]
    defined, told_apart = lengths[1] > 0, lengths[0] > 0
    products = np.where(told_apart, lengths[0] * lengths[1], 1.0)[defined]
    return float(((judge * people).sum(axis=1)[defined] / products).mean())


def jobs(
    worlds: Sequence[str],
    vocabulary: str,
    seeds: Sequence[int],
    dollars: Sequence[float],
    optimizers: Sequence[str],
    *,
    shuffled: bool = False,
) -> Iterator[Job]:
    for world, seed, limit, optimizer in itertools.product(worlds, seeds, dollars, optimizers):
        yield Job(
            world=world,
            vocabulary=vocabulary,
            seed=seed,
            optimizer=optimizer,
            dollars=limit,
            shuffled=shuffled,
        )


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Mean held-out rho by world, limit and optimizer; the number of judges that ship beside it."""
    done = [line for line in lines if "rho" in line]
    optimizers = [name for name in OPTIMIZERS if any(line["optimizer"] == name for line in done)]
    rows = [
        "| world | limit | " + " | ".join(optimizers) + " |",
        "|---|---|" + "---|" * len(optimizers),
    ]
    for world in [*dict.fromkeys(line["world"] for line in done), "mean"]:
        for limit in sorted({line["dollars"] for line in done}):
            cells = [
                _cell(
                    [
                        line
                        for line in done
                        if line["dollars"] == limit
                        and line["optimizer"] == optimizer
                        and world in (line["world"], "mean")
                    ]
                )
                for optimizer in optimizers
            ]
            rows.append(f"| {world} | ${limit:g} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(lines: Sequence[dict[str, Any]]) -> str:
    """Mean rho and its standard error over runs, how many shipped, dollars for 1,000 rows."""
    if not lines:
        return ""
    values = [line["rho"] for line in lines]
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    shipped = sum(line["shipped"] == "tuned" for line in lines)
    cost = mean(line["cost_1000"] for line in lines)
    return f"{mean(values):.3f}{error} ({shipped} of {len(lines)}, ${cost:.2f})"


def cost_ratios(line: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """How many times as much a shipped judge costs to use as the cheapest that is as good.

    As good is one whose true rho is at most AS_GOOD lower: first among the run's own finalists and
    its seed, then among all that any of `lines` shipped in this world at these dollars.
    """
    same = [other for other in lines if all(other[key] == line[key] for key in _SAME_WORLD)]

    def ratio(others: Sequence[Mapping[str, Any]]) -> float:
        as_good = [other["cost_1000"] for other in others if other["rho"] >= line["rho"] - AS_GOOD]
        return float(line["cost_1000"] / min([line["cost_1000"], *as_good]))

    return ratio(line["finalists"]), ratio(same)


def paired_gain(
    lines: Sequence[Mapping[str, Any]], better: tuple[str, float], worse: tuple[str, float]
) -> str:
    """How much more rho one optimizer's judges have at its limit than another's at its own.

    Mean, standard error and number of runs, over the worlds and seeds that both have run.
    """
    rhos: list[dict[tuple[Any, ...], float]] = [
        {
            tuple(line[key] for key in _SAME_WORLD if key != "dollars"): line["rho"]
            for line in lines
            if (line["optimizer"], line["dollars"]) == side
        }
        for side in (better, worse)
    ]
    gains = [rho - rhos[1][key] for key, rho in rhos[0].items() if key in rhos[1]]
    if len(gains) < 2:
        return ""
    return f"{mean(gains):+.3f} ± {stdev(gains) / len(gains) ** 0.5:.3f} ({len(gains)})"


def gains_table(lines: Sequence[dict[str, Any]]) -> str:
    """Rank's paired gains on the others at equal and at half their dollars, and on less money."""
    done = [line for line in lines if "rho" in line]
    limits = sorted({line["dollars"] for line in done})
    others = OPTIMIZERS[1:]
    rows = [
        "| limit | "
        + " | ".join([f"rank less {name}" for name in others])
        + " | "
        + " | ".join([f"rank with half less {name}" for name in others])
        + " | rank less rank with less money |",
        "|---|" + "---|" * (2 * len(others) + 1),
    ]
    for limit in limits:
        smaller = max((other for other in limits if other < limit), default=0.0)
        cells = [
            *(paired_gain(done, ("rank", limit), (name, limit)) for name in others),
            *(paired_gain(done, ("rank", limit / 2), (name, limit)) for name in others),
            paired_gain(done, ("rank", limit), ("rank", smaller)),
        ]
        rows.append(f"| ${limit:g} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


_SAME_WORLD = ("world", "vocabulary", "seed", "dollars", "n_systems", "shuffled")


def claims(lines: Sequence[dict[str, Any]]) -> str:
    """By optimizer and limit: what shipped judges cost beside others as good, forms, and ships."""
    done = [line for line in lines if "rho" in line]
    rows = [
        f"| optimizer | limit | runs | ship | costs at most {MOST_COST_RATIO:g} x the cheapest "
        "finalist as good | and shipped judge as good | mean ratios | reasons where it should | "
        "largest share of the limit spent | reported less served |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for optimizer, limit in itertools.product(OPTIMIZERS, sorted({x["dollars"] for x in done})):
        part = [x for x in done if (x["optimizer"], x["dollars"]) == (optimizer, limit)]
        if not part:
            continue
        ratios = np.array([cost_ratios(line, done) for line in part])
        within = (ratios <= MOST_COST_RATIO + 1e-9).sum(axis=0)
        forms = [
            (len(line["form"]) > 1) == SHOULD_REASON[line["world"]]
            for line in part
            if line["world"] in SHOULD_REASON
        ]
        ships = sum(line["shipped"] == "tuned" for line in part)
        spent = max(line["dollars_served"] / limit for line in part)
        apart = max(abs(line["dollars_reported"] - line["dollars_served"]) for line in part)
        rows.append(
            f"| {optimizer} | ${limit:g} | {len(part)} | {ships} | {within[0]} | {within[1]} | "
            f"{ratios[:, 0].mean():.2f}, {ratios[:, 1].mean():.2f} | "
            f"{sum(forms)} of {len(forms)} | {spent:.0%} | ${apart:.6f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="two worlds, one seed, $0.50")
    parser.add_argument("--http", action="store_true", help="by the command, over HTTP")
    parser.add_argument("--shuffled", action="store_true", help="labels dealt anew: no gain")
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
            flags.worlds,
            flags.vocabulary,
            flags.seeds,
            flags.dollars,
            flags.optimizers,
            shuffled=flags.shuffled,
        ):
            if job not in done:
                lines.append(run(job, over_http=flags.http))
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1])[:300], file=sys.stderr)
    print(table(lines), gains_table(lines), claims(lines), sep="\n\n")


if __name__ == "__main__":
    main()
