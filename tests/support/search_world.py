"""A small world for the search: its best instruction and best demonstrations are known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from behaving_model import Model

from judges.client.budget import Account
from judges.client.client import Client
from judges.client.protocol import Sampling
from judges.dimension import Dimension
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.choices import OptimizerName
from optimize.search.evaluator import Evaluator, ItemScore, JudgeItems, Pricing, SearchBudget
from optimize.search.gate import SearchResult
from optimize.search.gate import search as search_with
from optimize.search.problem import SearchOptions, SearchProblem
from optimize.search.trial_log import Trial, TrialLog
from optimize.statistics.intervals import stream

SUBJECT = Dimension(
    name="warmth",
    definition="how warm the text is",
    inputs={"text": "a text"},
    anchors={1: "cold", 2: "", 3: "", 4: "", 5: "warm"},
    instruction="Rate the text.",
)
SEED = SUBJECT.prompt()
WORDS = ("kindness", "length", "colour", "rhythm", "candour", "spelling")


def world(documents: int, systems: int = 8, *, first: int = 0, seed: int = 0) -> Items:
    """Texts with six qualities; people value kindness and candour, and say so with some noise."""
    rng = np.random.default_rng([seed, first])
    items = []
    for document in range(first, first + documents):
        for system in range(systems):
            qualities = rng.uniform(0, 1, len(WORDS))
            told = 2.5 * qualities[0] + 2.5 * qualities[4] + rng.normal(0, 0.3)
            shown = " ".join(
                f"{word}={quality:.4f}" for word, quality in zip(WORDS, qualities, strict=True)
            )
            items.append(
                Item(
                    id=f"d{document}s{system}",
                    document_id=f"d{document}",
                    system=f"s{system}",
                    texts={"text": shown},
                    human=round(float(np.clip(1 + told * 0.8, 1, 5)) * 3) / 3,
                )
            )
    return Items(tuple(items))


def shuffled(items: Items, seed: int) -> Items:
    """The same items, people's ratings permuted within each document."""
    rng = np.random.default_rng(seed)
    human = items.human.copy()
    for rows in items.places.values():
        human[rows] = human[rng.permutation(rows)]
    return Items(
        tuple(
            replace(item, human=float(value))
            for item, value in zip(items.items, human, strict=True)
        )
    )


def judge(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
    """Weighs the qualities its instruction names, all if none; demonstrations calm its noise."""
    named = [number for number, word in enumerate(WORDS) if word in prompt.instruction]
    named = named or list(range(len(WORDS)))
    levels = len({demo["rating"] for demo in prompt.demos})
    scored = []
    for item in items:
        values = [float(part.split("=")[1]) for part in item.texts["text"].split()]
        noise = float(stream(0, prompt.instruction, item.id).normal(0, 0.4 / (1 + levels)))
        weighed = sum(values[number] for number in named) / len(named)
        scored.append(ItemScore(score=3 + 2 * (weighed - 0.5) + noise))
    return scored


def write_instruction(prompt: str, sampling: Sampling, before: int) -> str:
    """Names any two of three qualities: the search has to find out which help."""
    first, second = stream(1, sampling.seed).choice(WORDS[::2], 2, replace=False)
    return f"[[ ## instruction ## ]]\nRate the {first} and the {second} of the text."


def search(
    train: Items,
    dev: Items,
    *,
    optimizer: OptimizerName = "rank",
    seed: int = 0,
    calls: float = 20_000,
    options: SearchOptions | None = None,
    by: JudgeItems = judge,
    pricing: Pricing | None = None,
    proposal: float = 1,
    proposer: Model | None = None,
    account: Account | None = None,
) -> tuple[SearchResult, list[Trial], Evaluator]:
    """A search of the optimizer; without a proposer only labels are shown."""
    log = TrialLog()
    budget = SearchBudget(calls, proposal=proposal)
    evaluator = Evaluator(seed=SEED, judge=by, calls_per_item=1, budget=budget, pricing=pricing)
    client = None if proposer is None else Client(proposer, account=account)
    problem = SearchProblem(
        evaluator=evaluator,
        proposer=client,
        train=train,
        dev=dev,
        level="summary",
        options=options or SearchOptions(seed=seed, rounds=8, patience=4),
        log=log,
    )
    result = search_with(optimizer, problem)
    return result, log.trials, evaluator


def written_search(
    train: Items, dev: Items, **settings: Any
) -> tuple[SearchResult, list[Trial], Evaluator]:
    """A search whose instructions `write_instruction` writes."""
    return search(train, dev, proposer=Model(write_instruction), **settings)
