"""RankOptimizer beside DSPy's ReAnchor on the same labels: python benchmarks/reanchor.py.

Both compile a program with decision types on 25 documents by 12 of SummEval's 16 systems, dealt
anew by each deal. A decision model answers with a recorded rating as probabilities, spread over the
neighbouring levels (`questions.RecordedServer`); the "simulated" one with people's mean rating less
.8 and with a normal error of 1. Printed are figures on the other 75 documents, by systems of the
labels and by new ones. With --pass-fail people pass a rating of 4 or more. ReAnchor is given the
metric whose mean is the balanced accuracy, or 1 - |level - people's rating|. Each run is a line of
--out; --resume keeps them.
"""

import argparse
import contextlib
import copy
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import dspy
import numpy as np
import pandas as pd
from dspy.experimental import Noul, ReAnchor, Score
from first_dollar import ROOT
from panels import SHARED
from questions import N_DOCUMENTS, N_SYSTEMS, QUALITIES, RecordedServer, recorded
from simulated import with_error
from simulated_server import serving

import judges
from optimize import RankOptimizer
from optimize.statistics.balanced import balanced_accuracy
from optimize.statistics.correlations import summary_level

MODELS = ("gpt-4o-mini", "llama-3.1", "simulated")
CELL = ("model", "dimension", "deal", "pass_fail", "spread")
METHODS = ("untuned", "ReAnchor", "RankOptimizer", "RankOptimizer, four outputs")
LEVELS = ("1", "2", "3", "4", "5")
PLACES = ("seen", "unseen")
Line = Mapping[str, Any]


class RecordedLM:
    """The server as an LM of DSPy's that keeps its answers, as dspy.experimental.TypeSafe does.

    RankOptimizer asks its address. (TypeSafe opens a client for each request, which takes long.)
    """

    supports_decision_requests = True
    cache = True

    def __init__(self, server: RecordedServer) -> None:
        self.server, self.model, self.api_key = server, "recorded", "recorded"
        self.base_url = server.url.removesuffix("/v1")
        self.kept: dict[str, Any] = {}

    def __call__(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> Any:
        key = json.dumps([state, questions])
        if key not in self.kept:
            body = {"model": self.model, "state": state, "questions": questions}
            self.kept[key] = self.server.answer(body)["answers"]
        return copy.deepcopy(self.kept[key])


def simulated(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """What the simulated model finds each summary worth, by quality."""
    rng = np.random.default_rng(0)
    return {
        summary: {quality: people[quality] - 0.8 + rng.normal() for quality in QUALITIES}
        for summary, people in zip(rows["summary"], rows["ratings"], strict=True)
    }


def program(dimension: str, pass_fail: bool, others: Sequence[str] = ()) -> dspy.Predict:
    """A program that decides on the dimension, and rates other qualities beside it."""
    subject = judges.load(dimension).subject
    fields: dict[str, Any] = {name: (str, dspy.InputField()) for name in ("document", "summary")}
    for name in others:
        asked = judges.load(name).subject.definition
        fields[name] = Score[LEVELS], dspy.OutputField(desc=asked)
    answer = ("verdict", Noul) if pass_fail else ("rating", Score[LEVELS])
    fields[answer[0]] = answer[1], dspy.OutputField(desc=subject.definition)
    return dspy.Predict(dspy.Signature(fields, subject.instruction))


def level_of(prediction: dspy.Prediction) -> float:
    """The rating, from 1 to 5, that a program gives: of several outputs, their rounded score."""
    score = prediction.get("score")
    return 1 + prediction.rating.level if score is None else float(round(score))


def figures(compiled: dspy.Module, rows: pd.DataFrame, pass_fail: bool) -> dict[str, float]:
    """The rank correlation of what a program finds of these rows, and what it decides."""
    texts = rows[["document", "summary"]].to_dict("records")
    said = [compiled(**each) for each in texts]
    joined = said[0].get("score") is not None
    if pass_fail:
        scores = [each.score if joined else each.verdict.probability for each in said]
        passes = [each.score >= 0.5 if joined else each.verdict.value for each in said]
        decided = balanced_accuracy(np.array(passes, float), rows["human"])
        people = rows["mean"]
    else:
        scores = [each.score if joined else each.rating.value for each in said]
        levels = np.array([level_of(each) for each in said])
        decided = float(1 - np.abs(levels - rows["human"]).mean())
        people = rows["human"]
    return {"rho": summary_level(scores, people, rows["group"]).value, "decided": decided}


def run(
    model: str, dimension: str, deal: int, pass_fail: bool, spread: float, shared: Path
) -> Line:
    """Compile the program in each way, and measure it where nothing was learned."""
    rows = pd.read_json(shared / "summeval" / "summeval.jsonl", lines=True)
    ratings: Any = simulated(rows) if model == "simulated" else recorded(shared, model)
    rows["mean"] = [each[dimension] for each in rows["ratings"]]
    rows["human"] = (rows["mean"] >= 4).astype(float) if pass_fail else rows["mean"]
    rng = np.random.default_rng(deal)
    taught = rows["group"].isin(rng.permutation(rows["group"].unique())[:N_DOCUMENTS])
    seen = rows["system"].isin(rng.permutation(rows["system"].unique())[:N_SYSTEMS])
    labels = rows[taught & seen]
    trainset = [
        dspy.Example(**row).with_inputs("document", "summary")
        for row in labels[["document", "summary", "group", "system", "human"]].to_dict("records")
    ]
    passing = labels["human"].mean()

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        if not pass_fail:
            return float(1 - abs(level_of(prediction) - example.human))
        # The mean over all examples is the balanced accuracy.
        share = passing if example.human else 1 - passing
        return float(prediction.verdict.value == bool(example.human)) / share / 2

    others = [name for name in QUALITIES if name != dimension]
    line: dict[str, Any] = dict(zip(CELL, (model, dimension, deal, pass_fail, spread), strict=True))
    server = RecordedServer(ratings, dimension, spread)
    with serving(server):
        lm = RecordedLM(server)
        with dspy.context(lm=lm, disable_history=True):
            for method in METHODS:
                lm.kept.clear()
                server.n_requests.clear()
                compiled = program(dimension, pass_fail, others if "four" in method else ())
                if method == "ReAnchor":
                    with contextlib.redirect_stdout(sys.stderr):  # its progress
                        anchor = ReAnchor(metric, num_threads=1)
                        compiled = anchor.compile(compiled, trainset=trainset)
                elif method != "untuned":
                    answer = "verdict" if pass_fail else "rating"
                    optimizer = RankOptimizer(
                        label="human", group="group", output=answer, seed=deal, quiet=True
                    )
                    compiled = optimizer.compile(compiled, trainset=trainset)
                    shipped = compiled.detailed_results.summary["shipped"]
                    line[f"{method} shipped"] = shipped == "tuned"
                line[f"{method} requests"] = server.n_requests.total()
                for place, systems in zip(PLACES, (seen, ~seen), strict=True):
                    here = figures(compiled, rows[~taught & systems], pass_fail)
                    line |= {f"{method} {name} {place}": each for name, each in here.items()}
    return line


def table(lines: Sequence[Line]) -> str:
    """Means over qualities and deals, by model and method, and the gains over the untuned."""
    heads = "rho, seen | gain | unseen | gain | decided, seen | gain | unseen | gain"
    rows = [f"| model | method | {heads} | shipped | requests |", "|---" * 12 + "|"]
    for model in dict.fromkeys(line["model"] for line in lines):
        here = [line for line in lines if line["model"] == model]
        for method in METHODS:
            cells = []
            for name, place in itertools.product(("rho", "decided"), PLACES):
                key = f"{name} {place}"
                gains = [each[f"{method} {key}"] - each[f"untuned {key}"] for each in here]
                cells.append(f"{mean(each[f'{method} {key}'] for each in here):.3f}")
                cells.append("" if method == "untuned" else with_error(gains))
            shipped = [each[f"{method} shipped"] for each in here if f"{method} shipped" in each]
            cells.append(f"{sum(shipped)} of {len(shipped)}" if shipped else "")
            cells.append(f"{mean(each[f'{method} requests'] for each in here):.0f}")
            rows.append(f"| {model} | {method} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--dimensions", nargs="*", default=list(QUALITIES), choices=QUALITIES)
    parser.add_argument("--deals", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--pass-fail", action="store_true", help="labels of 4 or more are a pass")
    about = "levels over which a decision spreads a rating: .2 is sharp, 2 is flat"
    parser.add_argument("--spread", type=float, default=0.5, help=about)
    parser.add_argument("--resume", action="store_true", help="keep the lines of a stopped run")
    parser.add_argument("--shared", type=Path, default=SHARED, help="labels and recordings")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "reanchor.jsonl")
    flags = parser.parse_args()
    os.environ["DSPY_JUDGES_CACHE"] = "none"
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    if flags.resume and flags.out.exists():
        lines = [json.loads(line) for line in flags.out.read_text().splitlines()]
    done = {tuple(line[key] for key in CELL) for line in lines}
    kinds = [flags.pass_fail], [flags.spread]
    cells = list(itertools.product(flags.models, flags.dimensions, flags.deals, *kinds))
    with flags.out.open("a" if flags.resume else "w") as file:
        for cell in sorted(cells, key=lambda cell: cell[2]):
            if cell not in done:
                lines.append(run(*cell, flags.shared))
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1]), file=sys.stderr)
    print(table([line for line in lines if tuple(line[key] for key in CELL) in cells]))


if __name__ == "__main__":
    main()
