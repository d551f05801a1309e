"""RankOptimizer beside DSPy's ReAnchor on the same labels: python benchmarks/reanchor.py.

Both compile a program with decision types on 25 documents by 12 of SummEval's 16 systems, dealt
anew by each deal. The model answers with a recorded rating as probabilities; the "simulated" one
with people's mean rating less .8 and with a normal error of 1. Printed are figures on the other 75
documents, by systems of the labels and by new ones. README.md explains the metrics.
"""

import contextlib
import copy
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import dspy
import numpy as np
import pandas as pd
from dspy.experimental import Noul, ReAnchor, Score
from simulated_server import serving
from summeval import QUALITIES, RecordedServer, add_deal_flags, dealt, recorded_ratings
from tuning_runs import Line, collect, parser_of_runs, with_error

import judges
from optimize import RankOptimizer
from optimize.statistics.balanced import balanced_accuracy
from optimize.statistics.correlations import summary_level

MODELS = ("gpt-4o-mini", "llama-3.1", "simulated")
METHODS = ("untuned", "ReAnchor", "RankOptimizer", "RankOptimizer, four outputs")
LEVELS = ("1", "2", "3", "4", "5")
FIGURES = tuple(itertools.product(("rho", "decided"), ("seen", "unseen")))


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


def simulated_ratings(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """What the simulated model finds each summary worth, by quality."""
    rng = np.random.default_rng(0)
    return {
        summary: {quality: people[quality] - 0.8 + rng.normal() for quality in QUALITIES}
        for summary, people in zip(rows["summary"], rows["ratings"], strict=True)
    }


def program(dimension: str, pass_fail: bool, others: Sequence[str]) -> dspy.Predict:
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
    predictions = [compiled(**each) for each in texts]
    scores = [each.get("score") for each in predictions]
    has_scores = scores[0] is not None
    if pass_fail:
        verdicts = [each.verdict.value for each in predictions]
        passes = [score >= 0.5 for score in scores] if has_scores else verdicts
        decided = balanced_accuracy(np.array(passes, float), rows["human"])
        values = [each.verdict.probability for each in predictions]
    else:
        levels = np.array([level_of(each) for each in predictions])
        decided = float(1 - np.abs(levels - rows["human"]).mean())
        values = [each.rating.value for each in predictions]
    rho = summary_level(scores if has_scores else values, rows["mean"], rows["group"])
    return {"rho": rho.value, "decided": decided}


def run(model: str, dimension: str, deal: int, pass_fail: bool) -> Line:
    """Compile the program in each way, and measure it where nothing was learned."""
    rows, _ = dealt(dimension, deal, pass_fail)
    ratings = simulated_ratings(rows) if model == "simulated" else recorded_ratings(model)
    labels = rows[rows["taught"] & rows["seen"]]
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
    line: dict[str, Any] = {}
    with serving(RecordedServer(ratings, dimension)) as server:
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
                for place in ("seen", "unseen"):
                    here = rows[~rows["taught"] & (rows["seen"] == (place == "seen"))]
                    measured = figures(compiled, here, pass_fail)
                    line |= {f"{method} {name} {place}": x for name, x in measured.items()}
    return line


def print_table(lines: Sequence[Line]) -> None:
    """Print means over qualities and deals, by model and method, and gains over the untuned."""
    heads = "rho, seen | gain | unseen | gain | decided, seen | gain | unseen | gain"
    print(f"| model | method | {heads} | shipped | requests |\n" + "|---" * 12 + "|")
    for model in dict.fromkeys(line["model"] for line in lines):
        here = [line for line in lines if line["model"] == model]
        for method in METHODS:
            cells = []
            for name, place in FIGURES:
                key = f"{name} {place}"
                gains = [each[f"{method} {key}"] - each[f"untuned {key}"] for each in here]
                cells.append(f"{mean(each[f'{method} {key}'] for each in here):.3f}")
                cells.append("" if method == "untuned" else with_error(gains))
            shipped = [each[f"{method} shipped"] for each in here if f"{method} shipped" in each]
            cells.append(f"{sum(shipped)} of {len(shipped)}" if shipped else "")
            cells.append(f"{mean(each[f'{method} requests'] for each in here):.0f}")
            print(f"| {model} | {method} | {' | '.join(cells)} |")


def main() -> None:
    parser = parser_of_runs((__doc__ or "").partition("\n")[0])
    add_deal_flags(parser, MODELS)
    os.environ["DSPY_JUDGES_CACHE"] = "none"
    print_table(collect(run, parser.parse_args()))


if __name__ == "__main__":
    main()
