"""SummEval's labels (arXiv:2007.12626, MIT), recorded judges of it, and a server that is one."""

import json
import random
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from simulated_models import ascending, blocks, outputs_of
from simulated_server import ModelServer, count_tokens
from tuning_runs import SHARED

MODELS = ("gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3")
QUALITIES = ("coherence", "consistency", "fluency", "relevance")
SUMMEVAL = SHARED / "summeval" / "summeval.jsonl"
DECISION_OF_A_PASS = {"noul": "noul", "predicate": "probability"}
# What a proposer may ask in vain.
VAIN = ("names_people", "states_date", "quotes", "starts_with_topic")


def labelled(dimension: str) -> pd.DataFrame:
    """The outputs, with people's mean rating as `human`."""
    rows = pd.read_json(SUMMEVAL, lines=True)
    return rows.assign(human=[float(ratings[dimension]) for ratings in rows["ratings"]])


def recorded(model: str) -> pd.DataFrame:
    """The ratings that a model gave, with a row for each output and a column for each quality."""
    scores = pd.read_json(SHARED / "summeval_scores" / f"scores_{model}.jsonl", lines=True)
    return scores.pivot(index="id", columns="dimension", values="score")


def recorded_ratings(model: str) -> dict[str, dict[str, float]]:
    """The ratings of each quality by summary; of several recordings of one text, the last."""
    texts, by_id = pd.read_json(SUMMEVAL, lines=True), recorded(model).to_dict("index")
    return {text: by_id[each] for each, text in zip(texts["id"], texts["summary"], strict=True)}


def dealt(
    dimension: str, deal: int, pass_fail: bool, documents: int = 25, systems: int = 12
) -> tuple[pd.DataFrame, np.random.Generator]:
    """The outputs: `taught` are of documents with labels, `seen` by systems with labels.

    `mean` is people's mean rating, and `human` what is learned: the mean, or a pass from 4 on.
    """
    rows, rng = labelled(dimension), np.random.default_rng(deal)
    rows["mean"] = rows["human"]
    if pass_fail:
        rows["human"] = (rows["mean"] >= 4).astype(float)
    rows["taught"] = rows["group"].isin(rng.permutation(rows["group"].unique())[:documents])
    rows["seen"] = rows["system"].isin(rng.permutation(rows["system"].unique())[:systems])
    return rows, rng


def add_deal_flags(parser: ArgumentParser, models: Sequence[str]) -> None:
    """Add the flags that say which models judge what, on which labels."""
    parser.add_argument("--models", dest="model", nargs="*", default=models, choices=models)
    names = QUALITIES
    parser.add_argument("--dimensions", dest="dimension", nargs="*", default=names, choices=names)
    parser.add_argument("--deals", dest="deal", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--pass-fail", action="store_true", help="labels of 4 or more are a pass")


class RecordedServer(ModelServer):
    """A recorded model, asked for one dimension; `ratings` has those of each quality by summary.

    As a decision model it spreads a rating over the levels beside it: `spread` of them.
    """

    def __init__(
        self, ratings: Mapping[str, Mapping[str, float]], dimension: str, spread: float = 0.5
    ) -> None:
        super().__init__()
        self.ratings, self.dimension, self.spread = ratings, dimension, spread

    def rating(self, name: str, summary: str) -> float | None:
        quality = self.dimension if name in ("rating", "verdict") else name
        return self.ratings[summary].get(quality)

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if "questions" not in body:
            return super().answer(body)
        is_openai = "input" in body
        state = body["input"][0]["content"][0]["data"] if is_openai else body["state"]
        summary, questions = state["inputs"]["summary"], body["questions"]
        named = {each["name"]: each for each in questions} if is_openai else questions
        answers: Any = {name: self.decision(name, each, summary) for name, each in named.items()}
        if is_openai:
            answers = [{"name": name} | each for name, each in answers.items()]
        tokens = count_tokens(json.dumps(body, ensure_ascii=False))
        self.book(body["model"], tokens, 0)
        usage = {"input_tokens": tokens, "output_tokens": 0}
        return {"model": body["model"], "answers": answers, "usage": usage}

    def decision(self, name: str, question: Mapping[str, Any], summary: str) -> dict[str, Any]:
        """The recorded rating as probabilities; of anything else those of a rating at random."""
        rating = self.rating(name, summary) or random.Random(f"{name} {summary}").randint(1, 5)
        kind, levels = question["type"], question.get("criteria") or question.get("levels") or ()
        n = len(levels) if kind == "score" else 5
        chances = np.exp(-np.abs(np.arange(n) - (rating - 1) / 4 * (n - 1)) / self.spread)
        chances /= chances.sum()
        if kind in DECISION_OF_A_PASS:
            return {"type": kind, DECISION_OF_A_PASS[kind]: float(chances[3:].sum())}
        probabilities: Any = {str(place): float(p) for place, p in enumerate(chances)}
        if "levels" in question:
            probabilities = [
                {"value": place, "label": level["label"], "probability": float(chances[place])}
                for place, level in enumerate(levels)
            ]
        return {"type": kind, "score": 0.0, "confidence": 0.5, "probabilities": probabilities}

    def replies(self, body: Mapping[str, Any]) -> tuple[list[str], int]:
        system, last = (body["messages"][place]["content"] for place in (0, -1))
        choices = {name: answers for name, answers, _ in outputs_of(system)}
        if any(choices.values()):
            summary = last.partition("[[ ## summary ## ]]\n")[2].partition("\n\nReply with ")[0]
            values = {name: self.reply(name, of, summary) for name, of in choices.items()}
        else:
            values = dict.fromkeys(choices, f"Rate it as a careful reader would, {body['seed']}.")
            if "questions" in values:
                asked = (f"{name}: does the summary do this" for name in VAIN)
                values["questions"] = "\n".join(asked)
        text = blocks(values) if len(choices) > 1 else "".join(values.values())
        return [text] * int(body.get("n") or 1), 0

    def reply(self, name: str, choices: Sequence[str], summary: str) -> str:
        """The recorded rating, moved to these choices; of anything else one of them at random."""
        rating = self.rating(name, summary)
        if rating is None or not choices:
            return random.Random(f"{name} {summary}").choice(choices or ["It reads well."])
        return ascending(choices)[round((rating - 1) / 4 * (len(choices) - 1))]
