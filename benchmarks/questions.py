"""What a judge gains by questions: recorded models, SummEval: python benchmarks/questions.py.

`dspy-judges tune` gets the labels of 25 documents by 12 of 16 systems, dealt anew by each deal, and
a local server answers as a model was once recorded to (README.md). Printed is what is handed over,
beside the untuned judge, on the other 75 documents: the mean Spearman within documents, or with
--pass-fail the balanced accuracy. With --form the model is a decision model, which gives each
rating that was recorded as probabilities, spread over the neighbouring levels. Each run is a line
of --out as soon as it is done; --resume keeps them.
"""

import argparse
import itertools
import json
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
from first_dollar import ROOT, child
from panels import SHARED
from simulated import with_error
from simulated_server import CHARACTERS_PER_TOKEN, ModelServer, serving
from simulated_worlds import ascending, outputs_of

import judges
from optimize.statistics.balanced import balanced_accuracy, verdicts
from optimize.statistics.correlations import summary_level

MODELS = ("gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3")
QUALITIES = ("coherence", "consistency", "fluency", "relevance")
N_DOCUMENTS, N_SYSTEMS = 25, 12
# Of gpt-4o-mini, for a million tokens.
PRICE = "0.15,0.60"
CELL = (
    "model",
    "dimension",
    "deal",
    "pass_fail",
    "shuffle",
    "documents",
    "systems",
    "form",
    "spread",
)
FORMS = {"chat": "openai", "systemone": "systemone", "decisions": "decisions"}
# Of gpt-6-luna, for a million tokens.
DECISION_PRICE = "0.10,0"
SIDES = ("untuned", "handed")
NOUL = {"noul": "noul", "predicate": "probability"}
# What a proposer may ask in vain.
VAIN = ("names_people", "states_date", "quotes", "starts_with_topic")
Line = Mapping[str, Any]


class RecordedServer(ModelServer):
    """A recorded model, asked for one dimension; `ratings` has those of each quality by summary."""

    def __init__(
        self, ratings: Mapping[str, Mapping[str, int]], dimension: str, spread: float = 0.5
    ) -> None:
        super().__init__()
        self.ratings, self.dimension, self.spread = ratings, dimension, spread

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if "questions" not in body:
            return super().answer(body)
        openai = "input" in body
        state = body["input"][0]["content"][0]["data"] if openai else body["state"]
        summary, questions = state["inputs"]["summary"], body["questions"]
        named = {q["name"]: q for q in questions} if openai else questions
        answers = {name: self.decision(name, each, summary) for name, each in named.items()}
        tokens = math.ceil(len(json.dumps(body, ensure_ascii=False)) / CHARACTERS_PER_TOKEN)
        self.n_requests[body["model"]] += 1
        self.tokens_in[body["model"]] += tokens
        return {
            "model": body["model"],
            "answers": [{"name": name} | each for name, each in answers.items()]
            if openai
            else answers,
            "usage": {"input_tokens": tokens, "output_tokens": 0},
        }

    def decision(self, name: str, question: Mapping[str, Any], summary: str) -> dict[str, Any]:
        """The recorded rating as probabilities; of anything else those of a rating at random."""
        quality = self.dimension if name in ("rating", "verdict") else name
        rating = self.ratings[summary].get(quality)
        rating = rating or random.Random(f"{name} {summary}").randint(1, 5)
        kind, levels = question["type"], question.get("criteria") or question.get("levels") or ()
        n = len(levels) if kind == "score" else 5
        distances = np.abs(np.arange(n) - (rating - 1) / 4 * (n - 1))
        chances = np.exp(-distances / self.spread)
        chances /= chances.sum()
        if kind in ("noul", "predicate"):
            return {"type": kind, NOUL[kind]: float(chances[3:].sum())}
        probabilities: Any = {str(place): float(p) for place, p in enumerate(chances)}
        if "levels" in question:
            pairs = zip(levels, chances, strict=True)
            probabilities = [
                {"value": place, "label": level["label"], "probability": float(p)}
                for place, (level, p) in enumerate(pairs)
            ]
        return {"type": kind, "score": 0.0, "confidence": 0.5, "probabilities": probabilities}

    def replies(self, body: Mapping[str, Any]) -> tuple[list[str], int]:
        system, last = (body["messages"][place]["content"] for place in (0, -1))
        choices = {name: answers for name, answers, _ in outputs_of(system)}
        if any(choices.values()):
            summary = last.partition("[[ ## summary ## ]]\n")[2].partition("\n\nReply with ")[0]
            values = {name: self.said(name, of, summary) for name, of in choices.items()}
        else:
            values = dict.fromkeys(choices, f"Rate it as a careful reader would, {body['seed']}.")
            values["questions"] = "\n".join(f"{name}: does the summary do this" for name in VAIN)
        blocks = [f"[[ ## {name} ## ]]\n{values[name]}" for name in choices]
        text = "\n\n".join([*blocks, "[[ ## completed ## ]]"])
        alone = "".join(values.values())
        return [text if len(choices) > 1 else alone] * int(body.get("n") or 1), 0

    def said(self, name: str, choices: Sequence[str], summary: str) -> str:
        """The recorded rating, moved to these choices; of anything else one of them at random."""
        quality = self.dimension if name in ("rating", "verdict") else name
        rating = self.ratings[summary].get(quality)
        if rating is None or not choices:
            return random.Random(f"{name} {summary}").choice(choices or ["It reads well."])
        return ascending(choices)[round((rating - 1) / 4 * (len(choices) - 1))]


def recorded(shared: Path, model: str) -> dict[str, dict[str, int]]:
    """The ratings of each quality by summary; of several recordings of one text, the last."""
    scores = pd.read_json(shared / "summeval_scores" / f"scores_{model}.jsonl", lines=True)
    by_id = scores.pivot(index="id", columns="dimension", values="score").to_dict("index")
    texts = pd.read_json(shared / "summeval" / "summeval.jsonl", lines=True)
    return {text: by_id[id] for id, text in zip(texts["id"], texts["summary"], strict=True)}


def verdict(dimension: str, path: Path) -> Path:
    """The dimension as pass or fail, in a file with questions for ratings of the qualities."""
    subject = judges.load(dimension).subject
    questions = {
        other.name: {"text": other.definition, "answers": [1, 5]}
        for other in (judges.load(name).subject for name in QUALITIES)
    }
    inputs = dict(judges.load("relevance").subject.inputs)
    about = {"name": dimension, "definition": subject.definition, "inputs": inputs}
    path.write_text(json.dumps({**about, "scale": ["pass", "fail"], "questions": questions}))
    return path


def run(
    model: str,
    dimension: str,
    deal: int,
    pass_fail: bool,
    shuffle: bool,
    n_documents: int,
    n_systems: int,
    form: str,
    spread: float,
    shared: Path,
) -> Line:
    """Tune as a user would, then measure what is handed over where nothing was learned."""
    rows = pd.read_json(shared / "summeval" / "summeval.jsonl", lines=True)
    rows["human"] = [ratings[dimension] for ratings in rows["ratings"]]
    if pass_fail:
        rows["human"] = (rows["human"] >= 4).astype(float)
    rng = np.random.default_rng(deal)
    taught = rows["group"].isin(rng.permutation(rows["group"].unique())[:n_documents])
    seen = rows["system"].isin(rng.permutation(rows["system"].unique())[:n_systems])
    labels = rows[taught & seen][["id", "group", "system", "document", "summary"]]
    human = rows["human"].map({1.0: "pass", 0.0: "fail"}) if pass_fail else rows["human"]
    labels[dimension] = human[taught & seen]
    if shuffle:
        labels[dimension] = rng.permutation(labels[dimension])
    cell = (model, dimension, deal, pass_fail, shuffle, n_documents, n_systems, form, spread)
    line: dict[str, Any] = dict(zip(CELL, cell, strict=True))
    server = RecordedServer(recorded(shared, model), dimension, spread)
    with tempfile.TemporaryDirectory() as name, serving(server):
        folder = Path(name)
        labels.to_json(folder / "labels.jsonl", orient="records", lines=True)
        subject = str(verdict(dimension, folder / "verdict.yaml")) if pass_fail else dimension
        command = ["-m", "dspy_judges", "tune", "--dimension", subject, "--seed", str(deal)]
        command += ["--data", str(folder / "labels.jsonl"), "--lm", f"{FORMS[form]}/{model}"]
        command += ["--api-base", server.url]
        command += ["--price", PRICE if form == "chat" else DECISION_PRICE]
        summary = json.loads(child([*command, "--out", str(folder / "run"), "--json"], folder))
        line |= {"calls": server.n_requests.total(), "dollars": summary["cost_usd"]}
        shipped = "tuned" if summary["shipped"] == "tuned" else "seed"
        line["per_1000_rows"] = summary["cost_per_1000_rows"][f"{shipped}_judge"]
        judge = judges.load(str(folder / "run"))
        untuned = replace(judges.Judge.of(judge.subject, lm=judge.lm), plan=judge.plan)
        if seen.all():  # new systems are then those that tuning itself has held out
            split = json.loads((folder / "run" / "splits.json").read_text())
            seen = ~rows["system"].isin(split["held_out_systems"])
        for place, systems in (("seen", seen), ("unseen", ~seen)):
            fresh = rows[~taught & systems]
            for which, each in zip(SIDES, (untuned, judge), strict=True):
                scores = server.scores(each, fresh.to_dict("records"))
                line[f"{which}_{place}"] = (
                    balanced_accuracy(verdicts(scores), fresh["human"])
                    if pass_fail
                    else summary_level(scores, fresh["human"], fresh["group"]).value
                )
    return line | {
        "shipped": summary["shipped"] == "tuned",
        "questions": [field.name for field in judge.prompt.questions],
    }


def table(lines: Sequence[Line]) -> str:
    """Means over deals by cell, over all of them, and of the cell with the least gain on "seen"."""
    cells: dict[str, list[Line]] = {}
    for line in lines:
        cells.setdefault(f"{line['model']} | {line['dimension']}", []).append(line)
    worst = min(cells, key=lambda cell: mean(gains(cells[cell], "seen")))
    heads = "seen: untuned | handed over | gain | unseen: untuned | handed over | gain"
    costs = "shipped | calls | dollars | $ per 1,000 rows"
    rows = [f"| model | dimension | {heads} | {costs} | questions kept |"]
    rows.append("|---" * 13 + "|")
    everything = {"all | mean": list(lines), f"worst: {worst}": cells[worst]}
    for cell, here in (cells | everything).items():
        figures = []
        for place in ("seen", "unseen"):
            both = (mean(line[f"{which}_{place}"] for line in here) for which in SIDES)
            figures += [*(f"{value:.3f}" for value in both), with_error(gains(here, place))]
        names = "calls", "dollars", "per_1000_rows"
        calls, dollars, rows_cost = (mean(line[name] for line in here) for name in names)
        shipped = sum(line["shipped"] for line in here)
        kept = Counter(name for line in here for name in line["questions"]).most_common()
        figures += [
            f"{shipped} of {len(here)}",
            f"{calls:.0f}",
            f"{dollars:.3f}",
            f"{rows_cost:.3f}",
        ]
        figures.append(", ".join(f"{name} {count}" for name, count in kept))
        rows.append(f"| {cell} | {' | '.join(figures)} |")
    return "\n".join(rows)


def gains(lines: Sequence[Line], place: str) -> list[float]:
    return [line[f"handed_{place}"] - line[f"untuned_{place}"] for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--dimensions", nargs="*", default=list(QUALITIES), choices=QUALITIES)
    parser.add_argument("--deals", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--documents", type=int, default=N_DOCUMENTS)
    parser.add_argument("--systems", type=int, default=N_SYSTEMS)
    parser.add_argument("--pass-fail", action="store_true", help="labels of 4 or more are a pass")
    parser.add_argument("--shuffle", action="store_true", help="shuffle the labels that teach")
    parser.add_argument("--form", choices=FORMS, default="chat", help="how the model is asked")
    about = "levels over which a decision spreads a rating: .2 is sharp, 2 is flat"
    parser.add_argument("--spread", type=float, default=0.5, help=about)
    parser.add_argument("--resume", action="store_true", help="keep the lines of a stopped run")
    parser.add_argument("--shared", type=Path, default=SHARED, help="labels and recordings")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "questions.jsonl")
    flags = parser.parse_args()
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    if flags.resume and flags.out.exists():
        lines = [json.loads(line) for line in flags.out.read_text().splitlines()]
    done = {tuple(line[key] for key in CELL) for line in lines}
    kinds = [flags.pass_fail], [flags.shuffle], [flags.documents], [flags.systems]
    kinds = *kinds, [flags.form], [flags.spread]
    cells = list(itertools.product(flags.models, flags.dimensions, flags.deals, *kinds))
    with flags.out.open("a" if flags.resume else "w") as file:
        for cell in cells:
            if cell not in done:
                lines.append(run(*cell, flags.shared))
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1]), file=sys.stderr)
    print(table([line for line in lines if tuple(line[key] for key in CELL) in cells]))


if __name__ == "__main__":
    main()
