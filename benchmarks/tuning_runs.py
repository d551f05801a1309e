"""Runs of the benchmarks: commands in processes of their own, and a line for each run."""

import itertools
import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).parents[1]
# Published labels and recorded judges, which lie beside the project.
SHARED = ROOT.parent / "shared" / "data"
Line = Mapping[str, Any]


def parser_of_runs(doc: str | None) -> ArgumentParser:
    """A parser whose --out is the file that `collect` takes."""
    parser = ArgumentParser(description=doc)
    parser.add_argument("--out", type=Path, help="keeps a line for each run, and goes on")
    return parser


def collect(run: Callable[..., Line], flags: Namespace) -> list[Line]:
    """What `run` measures of each combination of the flags' values, which are its arguments.

    Runs that the file --out has are not repeated.
    """
    axes = {
        name: values if isinstance(values, (list, tuple)) else [values]
        for name, values in vars(flags).items()
    }
    (path,) = axes.pop("out")
    cells = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    texts = path.read_text().splitlines() if path and path.exists() else []
    kept: list[Line] = [json.loads(text) for text in texts]
    lines = []
    for cell in cells:
        line = next((line for line in kept if cell.items() <= line.items()), None)
        if line is None:
            line = {**cell, **run(**cell)}
            print(json.dumps(line)[:300], file=sys.stderr)
            if path:
                with path.open("a") as file:
                    print(json.dumps(line), file=file)
        lines.append(line)
    return lines


def run_python(arguments: Sequence[str], folder: Path) -> str:
    """What a command of this checkout prints, without a cache of an earlier run."""
    environment = os.environ | {
        "OPENAI_API_KEY": "simulated",
        "PYTHONPATH": str(ROOT),
        "DSPY_JUDGES_CACHE": "none",
        "DSPY_CACHEDIR": str(folder / "cache"),
    }
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def tune(folder: Path, url: str, **settings: object) -> dict[str, Any]:
    """The summary of `dspy-judges tune` at this endpoint; its run is in `folder / "run"`."""
    command = ["-m", "dspy_judges", "tune", "--api-base", url, "--out", str(folder / "run")]
    for name, value in settings.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    summary: dict[str, Any] = json.loads(run_python([*command, "--json"], folder))
    return summary


def with_error(values: Sequence[float]) -> str:
    """A mean and its standard error over runs."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{error}"
