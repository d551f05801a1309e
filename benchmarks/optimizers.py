"""Our optimizer against DSPy's, at equal calls: python benchmarks/optimizers.py [--resume].

Eight tasks x three seeds x three budgets x four optimizers, with the embedded model as judge and
as proposer. Every optimizer gets the same labels, proposer, demonstration pool, budget and gate,
so that only the search differs. Prints a section of benchmarks/README.md. Each run is a line of
--out as soon as it is done; --resume keeps the lines that the same code has made.
"""

import argparse
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "data"
SUMMEVAL, TALK = SHARED / "summeval/summeval.jsonl", SHARED / "topical_chat/topical_chat.jsonl"
# Task -> dimension and labels.
TASKS: Mapping[str, tuple[str, Path]] = {
    **{
        f"summeval {name}": (name, SUMMEVAL)
        for name in ("coherence", "consistency", "fluency", "relevance")
    },
    **{
        f"topical_chat {name}": (f"{HERE / 'topical_chat.yaml'}:{name}", TALK)
        for name in ("naturalness", "coherence", "engagingness", "groundedness")
    },
}
OPTIMIZERS = ("rank", "gepa", "miprov2", "bootstrap")
BUDGETS = (1_000, 4_000, 16_000)
# Where else rank is measured, to see with how few calls it reaches what the others do.
FEWER = (500, 2_000, 5_000)
SEEDS = (0, 1, 2)
QUICK = ("summeval fluency", "topical_chat groundedness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One search. `shuffled`: labels dealt anew within documents, so that there is no gain."""

    task: str
    seed: int
    optimizer: str
    budget: int
    shuffled: bool = False


def jobs(tasks: Sequence[str], seeds: Sequence[int], budgets: Sequence[int]) -> Iterator[Job]:
    """All searches, task by task, since a process keeps what it measured of a task's texts."""
    for task, seed in itertools.product(tasks, seeds):
        for optimizer, budget in itertools.product(OPTIMIZERS, budgets):
            yield Job(task=task, seed=seed, optimizer=optimizer, budget=budget)
        for budget in FEWER:
            if budget < max(budgets):
                yield Job(task=task, seed=seed, optimizer="rank", budget=budget)
        yield Job(task=task, seed=seed, optimizer="rank", budget=max(budgets), shuffled=True)


@cache
def prepared(task: str, seed: int) -> Any:
    """The task's judge, labels and model, with the texts' features measured already."""
    from judges.define import read_subject
    from judges.inference.runner import Runner
    from judges.judge import Judge
    from judges.models import open_model
    from judges.scoring import default_plan
    from optimize.run import labels
    from optimize.run.models import RunModels, make_item_scorer
    from optimize.run.settings import Settings

    spec, data = TASKS[task]
    judge = Judge.of(read_subject(spec))
    split = labels.split_labels(Settings(dimension=spec, data=str(data), seed=seed), judge.subject)
    model = open_model("embedded")
    models = RunModels(judge=Runner(model), proposer=Runner(model), plan=default_plan(model))
    list(make_item_scorer(judge, models, seed, _ignore)(judge.prompt, split.everything.items))
    return judge, split, models


def _ignore(_: object) -> None:
    pass


def run(job: Job) -> dict[str, Any]:
    """Search, then measure the seed and the tuned judge on test and on unseen systems."""
    from optimize.run.models import instruction_proposer, make_item_scorer
    from optimize.run.run_budget import search_options
    from optimize.run.settings import Settings
    from optimize.search.evaluator import Evaluator, SearchBudget
    from optimize.search.objective import choose_level
    from optimize.search.optimizers import search
    from optimize.search.problem import SearchProblem

    judge, labels, models = prepared(job.task, job.seed)
    train, dev = labels.train, labels.dev
    if job.shuffled:
        train, dev = shuffled(train, job), shuffled(dev, job)
    level = choose_level(train)
    evaluator = Evaluator(
        seed=judge.prompt,
        judge=make_item_scorer(judge, models, job.seed, _ignore),
        calls_per_item=models.calls_per_item(judge),
        budget=SearchBudget(job.budget),
    )
    began = time.process_time()
    result = search(
        job.optimizer,
        SearchProblem(
            evaluator=evaluator,
            propose=instruction_proposer(judge, models, job.seed),
            train=train,
            dev=dev,
            level=level,
            options=search_options(Settings(dimension=judge.name, seed=job.seed)),
        ),
    )
    seconds = time.process_time() - began
    return {
        **asdict(job),
        "shipped": result.choice.ship,
        "why": result.choice.why,
        "calls": result.calls,
        "n_tried": result.n_tried,
        "n_demos": len(result.tuned.demo_set.demos),
        "instructed": result.tuned.instruction != judge.prompt.instruction,
        "seconds": round(seconds, 3),
        "test": measured(evaluator, result.tuned, labels.test, level, job.seed),
        "unseen": measured(evaluator, result.tuned, labels.unseen, level, job.seed),
    }


def shuffled(items: Any, job: Job) -> Any:
    """The items with people's ratings dealt anew within each document."""
    from optimize.statistics.bootstrap import stream

    human = items.human.copy()
    rng = stream(job.seed, "shuffled", job.task)
    for rows in items.places.values():
        human[rows] = human[rng.permutation(rows)]
    return type(items)(
        tuple(replace(one, human=float(h)) for one, h in zip(items.items, human, strict=True))
    )


def measured(
    evaluator: Any, tuned: Any, items: Any, level: Any, seed: int
) -> dict[str, Any] | None:
    """Both judges' rho on a split, and the tuned one's gain with its interval over documents."""
    from optimize.run.final_table import gain
    from optimize.search.candidates import Candidate
    from optimize.search.evaluator import SearchBudget
    from optimize.search.objective import objective

    if items is None:
        return None
    base = Candidate(instruction=evaluator.seed.instruction)
    evaluator.budget = SearchBudget(2 * len(items) * 100)
    tuned_scores, base_scores = evaluator.scores(tuned, items), evaluator.scores(base, items)
    return {
        "seed": objective(base_scores, items, level),
        "tuned": objective(tuned_scores, items, level),
        "gain": gain(tuned_scores, base_scores, items, level, seed),
    }


def code() -> str:
    """What the figures depend on: a digest of the three packages' sources and of this file."""
    digest = hashlib.sha256()
    root = HERE.parent
    sources = [
        path for name in ("judges", "data", "optimize") for path in root.glob(f"{name}/**/*.py")
    ]
    for path in [*sorted(sources), Path(__file__), HERE / "topical_chat.yaml"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="two tasks, one seed, 1,000 calls")
    parser.add_argument("--resume", action="store_true", help="go on where a run was stopped")
    parser.add_argument("--processes", type=int, default=2, help="one thread each (2)")
    parser.add_argument("--out", type=Path, default=HERE.parent / "runs" / "optimizers.jsonl")
    flags = parser.parse_args()
    if not SUMMEVAL.exists():
        sys.exit(f"the labels are not at {SHARED}")
    wanted = (
        jobs(QUICK, SEEDS[:1], BUDGETS[:1]) if flags.quick else jobs(list(TASKS), SEEDS, BUDGETS)
    )
    version = code()
    lines = _kept(flags.out, version) if flags.resume else []
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    flags.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    existing_keys = {_key(line) for line in lines}
    left = [job for job in wanted if _key(asdict(job)) not in existing_keys]
    lines += _run_all(left, flags.processes, flags.out, version)

    from optimizers_page import page

    print(page(lines))


def _run_all(
    left: Sequence[Job], processes: int, out: Path, version: str
) -> Iterator[dict[str, Any]]:
    """Run in processes of one thread each, and write every line as it comes."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(processes) as pool, out.open("a") as file:
        for number, line in enumerate(pool.imap_unordered(run, left), start=1):
            line |= {"code": version, "wall": round(time.perf_counter() - began, 1)}
            print(json.dumps(line), file=file, flush=True)
            print(f"\r{number} of {len(left)}, {line['wall']:.0f} s", end="", file=sys.stderr)
            yield line
        pool.close()
        pool.join()
    print(file=sys.stderr)


def _kept(out: Path, version: str) -> list[dict[str, Any]]:
    """Whole lines of a stopped run made by the same code."""
    lines = []
    for text in out.read_text().splitlines() if out.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["code"] == version:
            lines.append(line)
    return lines


def _key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("task", "seed", "optimizer", "budget", "shuffled"))


if __name__ == "__main__":
    main()
