"""Simulated worlds for searches that cost money: documents, outputs and people's ratings.

An output has hidden qualities, and people rate it by some of these qualities. `JudgeTraits` says
what a prompt does to the judge of a world: whether wording matters, or demonstrations, or
reasoning. `simulated_models.py` has the models that answer as a world has it.
"""

import hashlib
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Form = Literal["direct", "brief", "steps"]

NORMAL = NormalDist()
# What people may mind in a text, with the words by which an instruction may name it.
QUALITIES = (
    ("polite", "courte", "rude"),
    ("answer the question", "on topic", "evade"),
    ("example", "illustrat", "concrete case"),
    ("number", "figure", "quantit"),
    ("reason", "justif", "because"),
    ("warn", "caveat", "limitation"),
    ("spelling", "typo", "misspel"),
    ("ending", "conclusion", "closing"),
    ("tone", "formal", "register"),
    ("cite", "attribut", "who said"),
)
WORD_LIST = """
the a council river plan report market school after before people said year city found water
public house new cost change early study team open road power local health group work large week
project second value court paper north train south music light field storm price farm energy
season budget bridge museum office driver garden winter island engine letter
"""
WORDS = WORD_LIST.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTraits:
    """What a prompt does to a judge, in standard deviations of the gold quality.

    `wording` and `demos` are how far an instruction's words and sixteen good demonstrations move
    the judge's weights from its own to those named or shown; `error` the spread of its errors, and
    `reasoning` what multiplies that for each form. `crowding` is the share of top ratings, from
    which demonstrations of all levels lead it away, to what people give.
    """

    wording: float
    demos: float
    error: float
    reasoning: Mapping[Form, float] = field(
        default_factory=lambda: {"direct": 1.0, "brief": 1.0, "steps": 1.0}
    )
    crowding: float = 0.45
    sampling_error: float = 0.25


@dataclass(frozen=True, kw_only=True)
class World:
    """Documents, outputs, people and a judge; `seed` draws all of them.

    Item i is output i % n_systems of document i // n_systems; items past `n_items` have no label
    in the label file and are what a shipped judge is measured on. Where the labels are `shuffled`,
    each document's are dealt anew among its outputs: nothing can be learned from them. With
    `two_values` people and the judge say pass for a rating of 4 or more, else fail. `top_share` is
    the share of people's ratings that are 5; 1 to 3 share two fifths of the rest.
    """

    name: str
    seed: int
    judge: JudgeTraits
    n_documents: int = 100
    n_systems: int = 4
    n_fresh_documents: int = 250
    words: tuple[int, int] = (220, 60)
    people_error: float = 0.55
    n_annotators: int = 3
    n_true: int = 3
    shuffled: bool = False
    two_values: bool = False
    top_share: float = 0.25

    @property
    def n_items(self) -> int:
        return self.n_documents * self.n_systems

    @property
    def fresh(self) -> range:
        """The items without labels."""
        return range(self.n_items, len(self.gold))

    def rng(self, *parts: object) -> np.random.Generator:
        return rng_of(json.dumps([self.name, self.seed, *map(str, parts)]))

    @cached_property
    def qualities(self) -> Vector:
        """Every item's hidden qualities, shape (items, qualities), each of mean 0 and spread 1."""
        rng, documents = self.rng("qualities"), self.n_documents + self.n_fresh_documents
        shared = np.repeat(rng.normal(size=(documents, len(QUALITIES))), self.n_systems, axis=0)
        return np.sqrt(0.2) * shared + np.sqrt(0.8) * rng.normal(size=shared.shape)

    @cached_property
    def true_weights(self) -> Vector:
        """What people go by: a few of the qualities, of unequal weight, of length 1."""
        rng = self.rng("weights")
        weights = np.zeros(len(QUALITIES))
        chosen = rng.permutation(len(QUALITIES))[: self.n_true]
        weights[chosen] = rng.uniform(0.5, 1.0, self.n_true)
        return weights / np.linalg.norm(weights)

    @cached_property
    def own_weights(self) -> Vector:
        """What the judge goes by when nothing tells it more: a bit of everything."""
        weights = self.rng("prior").uniform(0.2, 1.0, len(QUALITIES))
        return weights / np.linalg.norm(weights)

    @cached_property
    def gold(self) -> Vector:
        return self.qualities @ self.true_weights

    @cached_property
    def ratings(self) -> NDArray[np.int64]:
        """What each annotator gave each item, shape (items, annotators)."""
        error = self.rng("people").normal(size=(len(self.gold), self.n_annotators))
        marks = (self.gold[:, None] + self.people_error * error) / math.hypot(1, self.people_error)
        ratings = 1 + np.searchsorted(thresholds(self.top_share), marks)
        if self.shuffled:
            rng = self.rng("shuffled")
            for start in range(0, self.n_items, self.n_systems):
                rows = slice(start, start + self.n_systems)
                ratings[rows] = rng.permutation(ratings[rows])
        return ratings

    @cached_property
    def human(self) -> Vector:
        if self.two_values:
            return np.asarray((self.ratings >= 4).mean(axis=1) > 0.5, float)
        return np.asarray(self.ratings.mean(axis=1), float)

    def said(self, rating: int) -> str:
        if self.two_values:
            return "pass" if rating >= 4 else "fail"
        return str(rating)

    def texts(self, item: int) -> dict[str, str]:
        """What the judge reads of an item."""
        document = item // self.n_systems
        source, reply = self.words
        return {
            "source": f"Source {document}. {self.prose('source', document, source)}",
            "reply": f"Item {item}: {self.prose('reply', item, reply)}",
        }

    def prose(self, kind: str, number: int, n_words: int) -> str:
        """Words without meaning, as many as real texts have: they are paid for."""
        rng = random.Random(f"{self.name} {self.seed} {kind} {number}")
        words = rng.choices(WORDS, k=max(1, round(rng.gauss(n_words, n_words**0.5))))
        return " ".join(words).capitalize() + "."

    def label(self, item: int) -> dict[str, object]:
        if self.two_values:
            return {"quality": "pass" if self.human[item] else "fail"}
        return {"annotations": {"quality": self.ratings[item].tolist()}}

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The label file, and a YAML file with the dimension, whose words name no quality."""
        labels, dimension = folder / "labels.jsonl", folder / "quality.yaml"
        rows = [
            {
                "id": f"{item}",
                "group": f"{item // self.n_systems}",
                "system": f"system-{item % self.n_systems}",
                **self.texts(item),
                **self.label(item),
            }
            for item in range(self.n_items)
        ]
        folder.mkdir(parents=True, exist_ok=True)
        labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
        scale, asked = "anchors: {1: bad, 3: fair, 5: very good}", "Judge how good the reply is."
        if self.two_values:
            scale, asked = "scale: [pass, fail]", "Judge whether the reply is good enough."
        dimension.write_text(
            "name: quality\n"
            "definition: how good the reply is as readers of this service see it\n"
            "inputs: {source: what the reply was written from, reply: the reply to judge}\n"
            f"{scale}\ninstruction: {asked}\n"
        )
        return labels, dimension


def rng_of(text: str) -> np.random.Generator:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def thresholds(top_share: float) -> Vector:
    """Where ratings 1|2, 2|3, 3|4 and 4|5 part, on the judge's own scale."""
    shares = np.array([0.04, 0.15, 0.40, 1.0]) * (1 - top_share)
    return np.array([NORMAL.inv_cdf(float(share)) for share in shares])


DIRECT_HELPS: Mapping[Form, float] = {"direct": 1.0, "brief": 1.5, "steps": 2.2}
REASONING_HELPS: Mapping[Form, float] = {"direct": 1.0, "brief": 0.75, "steps": 0.5}
# The four kinds of truth.
TRAITS_BY_WORLD: Mapping[str, JudgeTraits] = {
    "wording": JudgeTraits(wording=1.0, demos=0.1, error=0.9),
    "demos": JudgeTraits(wording=0.1, demos=1.0, error=0.9),
    "reasoning helps": JudgeTraits(wording=0.5, demos=0.4, error=1.4, reasoning=REASONING_HELPS),
    "reasoning hurts": JudgeTraits(wording=0.5, demos=0.4, error=0.9, reasoning=DIRECT_HELPS),
}
