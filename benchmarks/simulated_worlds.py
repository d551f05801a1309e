"""Simulated chat models for searches that cost money: worlds of known truth, without a network.

A world has documents, outputs with hidden qualities, and people who rate them by some of these
qualities. Its judge knows every output's qualities, weighs them as the prompt makes it weigh them,
errs, and crowds the top of the scale; its proposer sees which labelled outputs stand in a prompt,
and what people wrote of them, and guesses from these alone which qualities people go by. What a
prompt does to the judge is the world's truth (`Judge` below): whether wording matters, or
demonstrations, or reasoning.

No reply depends on anything but the request and the world, so runs repeat.
"""

import hashlib
import itertools
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Form = Literal["direct", "brief", "steps"]
Messages = Sequence[Mapping[str, str]]

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
# fmt: off
WORDS = [
    "the", "a", "council", "river", "plan", "report", "market", "school", "after", "before",
    "people", "said", "year", "city", "found", "water", "public", "house", "new", "cost",
    "change", "early", "study", "team", "open", "road", "power", "local", "health", "group",
    "work", "large", "week", "project", "second", "value", "court", "paper", "north",
    "train", "south", "music", "light", "field", "storm", "price", "farm", "energy",
    "season", "budget", "bridge", "museum", "office", "driver", "garden", "winter",
    "island", "engine", "letter",
]
# fmt: on
ITEM = re.compile(r"\bItem (\d+):")
HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
# A line on what a judge writes: a name, its answers if it has any, and what it means.
OUTPUT = re.compile(r"^- (\w+)(?: \(([^()\n]+)\))?: .*$", re.MULTILINE)
FIELD_IN_JSON = re.compile(r"`(\w+)`")
# A critique's own words, whatever prompt it stands in.
COMMENT = re.compile(r"What (?:speaks for|is wrong with) it: ([^.\n]+)")
REASONING = re.compile(
    r"\b(reasoning|rationale|explanation|analysis|thoughts?|steps?|sub_?questions?)\b", re.I
)
STEPS = re.compile(r"step[s ]|each (point|question)|one by one")
WORDS_OF_THOUGHT: Mapping[Form, int] = {"direct": 5, "brief": 25, "steps": 120}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
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
    judge: Judge
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the judge makes of the part of a prompt that is the same for all items."""

    weights: Vector
    error: float
    edges: Vector
    form: Form
    headers: Sequence[str]
    digest: bytes
    # The name of each question, its answers and the qualities that it names.
    questions: Sequence[tuple[str, Sequence[str], Sequence[int]]]


class SimulatedJudge:
    """Answers a judge's prompts as its world has it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._readings: dict[bytes, Reading] = {}

    def reply(self, messages: Messages, *, temperature: float = 0.0, draw: int = 0) -> str:
        """The reply to a prompt; `draw` tells samples of one request apart."""
        items = [int(number) for number in ITEM.findall(messages[-1]["content"])]
        if not items:
            raise ValueError("no item stands in the last message")
        reading, item = self._reading(messages), items[-1]
        value = float(self.world.qualities[item] @ reading.weights)
        value += reading.error * self._noise(reading.digest, item, "error", 0)
        value /= math.hypot(1, reading.error)
        value += temperature * self._noise(reading.digest, item, "draw", draw)
        rating = 1 + int(np.searchsorted(reading.edges, value))
        return self._written(reading, item, rating, self._answers(reading, items))

    def _answers(self, reading: Reading, items: Sequence[int]) -> dict[str, str]:
        """What it says to each question: what the item has of the qualities named, and an error."""
        answers = {}
        for name, choices, named in reading.questions:
            values = self.world.qualities[:, named].sum(axis=1) / math.sqrt(len(named) or 1)
            first, *_, last = (
                float(values[item] - np.median(values))
                + reading.error * self._noise(reading.digest, item, name, 0)
                for item in (items[0], *items)
            )
            value = (first - last) / math.sqrt(2) if choices == ["A", "B"] else last
            share = NORMAL.cdf(value / math.hypot(bool(named), reading.error))
            answers[name] = ascending(choices)[int(share * len(choices))]
        return answers

    def _noise(self, digest: bytes, item: int, kind: str, draw: int) -> float:
        """A standard normal number; errors of two prompts on one item are alike by half."""
        key, values = f"{kind} {item} {draw}".encode(), []
        for part in (key, digest + key):
            number = int.from_bytes(hashlib.blake2b(part, digest_size=8).digest(), "big")
            values.append(NORMAL.inv_cdf((number + 0.5) / 2**64))
        return sum(values) / math.sqrt(2)

    def _reading(self, messages: Messages) -> Reading:
        # Behind the item's own text the last message asks for a form.
        key = json.dumps([dict(m) for m in messages[:-1]]) + form_part(messages)
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        if digest not in self._readings:
            self._readings[digest] = self._read(messages, digest)
        return self._readings[digest]

    def _read(self, messages: Messages, digest: bytes) -> Reading:
        world, judge = self.world, self.world.judge
        headers, told = headers_of(messages), system_of(messages)
        system = told or messages[0]["content"]
        # To be asked a narrow question does not change what the broad one means.
        questions = [output for output in outputs_of(system) if output[1]][:-1]
        for *_, line in questions:
            system = system.replace(line, "")
        named = np.array([any(word in system.lower() for word in words) for words in QUALITIES])
        weights = world.own_weights + judge.wording * 3 * named / max(1.0, math.sqrt(named.sum()))
        items, ratings = shown_items(messages)
        top_share = judge.crowding
        if items:
            strength = judge.demos * 3 * len(items) / (len(items) + 6)
            marks = np.array(ratings, float)
            learned = (marks - 3.2) @ world.qualities[items] / len(items)
            length = float(np.linalg.norm(learned)) or 1.0
            weights = weights + strength * learned / length
            # Demonstrations of every level show how the scale is used.
            counts = np.bincount(marks.astype(int), minlength=6)[1:] / len(items)
            evenness = 1 - float(np.abs(counts - 0.2).sum()) / 1.6
            top_share += (world.top_share - judge.crowding) * max(0.0, evenness)
        form: Form = "direct"
        if before := [name for name in headers[:-1] if REASONING.search(name)]:
            form = "steps" if len(before) > 1 or STEPS.search(told) else "brief"
        return Reading(
            weights=weights / np.linalg.norm(weights),
            error=judge.error * judge.reasoning[form],
            edges=thresholds(top_share),
            form=form,
            headers=headers,
            digest=digest,
            questions=[
                (name, choices, np.flatnonzero(times_named([line])).tolist())
                for name, choices, line in questions
            ],
        )

    def _written(self, reading: Reading, item: int, rating: int, answers: Mapping[str, str]) -> str:
        said = self.world.said(rating)
        if not reading.headers:
            return said
        thought = self.world.prose("thought", item, WORDS_OF_THOUGHT[reading.form])
        *before, last = reading.headers
        return blocks({**{name: answers.get(name, thought) for name in before}, last: said})


def blocks(sections: Mapping[str, str]) -> str:
    """A reply with a block for each section."""
    texts = [f"[[ ## {name} ## ]]\n{section}" for name, section in sections.items()]
    return "\n\n".join([*texts, "[[ ## completed ## ]]"])


def headers_of(messages: Messages) -> list[str]:
    """The sections that the last paragraph asks for."""
    return [name for name in HEADER.findall(form_part(messages)) if name != "completed"]


def system_of(messages: Messages) -> str:
    return " ".join(m["content"] for m in messages if m["role"] in ("system", "developer"))


def form_part(messages: Messages) -> str:
    """The last paragraph, where the form of the reply is asked for."""
    return messages[-1]["content"].rstrip().rpartition("\n\n")[2]


def outputs_of(system: str) -> list[tuple[str, list[str], str]]:
    """What a judge is told to write: the name of each field, its answers and the whole line."""
    written = system.partition("\nYou write:\n")[2].partition("\n\nYour task:\n")[0]
    lines = OUTPUT.finditer(written)
    return [(line[1], re.split(", | or ", line[2]) if line[2] else [], line[0]) for line in lines]


def ascending(choices: Sequence[str]) -> Sequence[str]:
    """Answers, the best last; of two words the good one comes first."""
    return choices if choices[0].isdigit() else choices[::-1]


def times_named(texts: Sequence[str]) -> Vector:
    """In how many of the texts each quality is named."""
    lower = [text.lower() for text in texts]
    return np.array([sum(any(w in text for w in words) for text in lower) for words in QUALITIES])


def shown_items(messages: Messages) -> tuple[list[int], list[int]]:
    """The items demonstrated before the last message, and the rating each is shown with."""
    items, ratings = [], []
    for request, answer in itertools.pairwise(messages):
        if answer["role"] == "assistant" and (numbers := ITEM.findall(request["content"])):
            shown = re.findall(r"(?<![\w.])(?:[1-5]|pass|fail)(?![\w.])", answer["content"])
            if shown:
                items.append(int(numbers[-1]))
                ratings.append({"pass": 4, "fail": 2}.get(shown[-1]) or int(shown[-1]))
    return items, ratings


# How a proposer presents its instruction.
PROPOSER_FORMS = ("bare", "fenced", "analysed", "quoted", "long")
OPENINGS = ("Judge how good the reply is.", "Rate the reply.", "Decide what the reply deserves.")


class SimulatedProposer:
    """Writes instructions from the labelled outputs in its prompt and people's comments alone."""

    # How well it sees which qualities go with the labels.
    skill = 1.0

    def __init__(self, world: World) -> None:
        self.world = world

    def reply(self, messages: Messages, draw: int = 0) -> str:
        text = "\n".join(m["content"] for m in messages)
        rng = rng_of(f"{draw} {text}")
        named = self._qualities(text, rng)
        instruction = self._instruction(named, rng)
        form = PROPOSER_FORMS[int(rng.integers(len(PROPOSER_FORMS)))]
        last, headers = form_part(messages), headers_of(messages)
        if "JSON object" in last:
            fields = {
                name: instruction if "instruction" in name.lower() else self._remark(named)
                for name in FIELD_IN_JSON.findall(last)
            }
            fence = "```" if form == "fenced" else ""
            return f"{fence}{json.dumps(fields)}{fence}"
        if headers and rng.random() < 0.85:
            sections = dict.fromkeys(headers, self._remark(named))
            sections |= {name: instruction for name in headers if "instruction" in name.lower()}
            if "questions" in sections:
                sections["questions"] = self._questions(named, rng)
            return blocks(sections)
        if form == "fenced" or ("```" in last and rng.random() < 0.85):
            return f"Here is a better instruction:\n\n```\n{instruction}\n```"
        if form == "analysed":
            return f"{self._remark(named)}\n\n```\n{instruction}\n```\n\nIt stays general."
        if form == "quoted":
            return f'New instruction: "{instruction}"'
        if form == "long":
            return instruction + " " + " ".join([self._remark(named)] * 12)
        return instruction

    def _qualities(self, text: str, rng: np.random.Generator) -> list[int]:
        """The qualities that seem to go with people's ratings of the outputs in the prompt."""
        world = self.world
        items = sorted({int(number) for number in ITEM.findall(text)})
        items = [item for item in items if item < world.n_items]
        scores = rng.normal(size=len(QUALITIES)) + self._prior(text)
        if len(items) > 2:
            values, marks = world.qualities[items], world.human[items]
            centred = values - values.mean(axis=0), marks - marks.mean()
            spread = np.linalg.norm(centred[0], axis=0) * np.linalg.norm(centred[1]) + 1e-9
            correlation = centred[1] @ centred[0] / spread
            # An eye for what goes with what, the surer the more there is to look at.
            scores = scores + self.skill * correlation * math.sqrt(len(items)) * 1.5
        if comments := COMMENT.findall(text):
            # What people say in words needs no eye for it.
            shares = times_named(comments) / len(comments)
            scores = scores + shares * math.sqrt(len(comments)) * 3
        n_named = int(rng.integers(2, 5))
        return [int(index) for index in np.argsort(-scores)[:n_named]]

    def _prior(self, text: str) -> Vector:
        """What speaks for each quality beside the labels and comments: nothing."""
        return np.zeros(len(QUALITIES))

    def _instruction(self, named: Sequence[int], rng: np.random.Generator) -> str:
        words = [QUALITIES[index][int(rng.integers(3))] for index in named]
        opening = OPENINGS[int(rng.integers(len(OPENINGS)))]
        rules = [f"Attend to this above all: {word}." for word in words[:1]]
        rules += [f"Consider also: {word}." for word in words[1:]]
        return " ".join([opening, *rules, "Use the whole scale."])

    def _questions(self, named: Sequence[int], rng: np.random.Generator) -> str:
        """A line for each quality that seems to matter, and for others, four in all."""
        others = [int(index) for index in rng.permutation(len(QUALITIES)) if index not in named]
        words = [QUALITIES[index][0] for index in [*named, *others][:4]]
        return "\n".join(f"shows_{w.replace(' ', '_')}: does it do well here: {w}?" for w in words)

    def _remark(self, named: Sequence[int]) -> str:
        words = ", ".join(QUALITIES[index][0] for index in named)
        return f"People seem to go by these: {words}."


DIRECT_HELPS: Mapping[Form, float] = {"direct": 1.0, "brief": 1.5, "steps": 2.2}
REASONING_HELPS: Mapping[Form, float] = {"direct": 1.0, "brief": 0.75, "steps": 0.5}
# The four kinds of truth.
JUDGES: Mapping[str, Judge] = {
    "wording": Judge(wording=1.0, demos=0.1, error=0.9),
    "demos": Judge(wording=0.1, demos=1.0, error=0.9),
    "reasoning helps": Judge(wording=0.5, demos=0.4, error=1.4, reasoning=REASONING_HELPS),
    "reasoning hurts": Judge(wording=0.5, demos=0.4, error=0.9, reasoning=DIRECT_HELPS),
}
