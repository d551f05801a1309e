"""Simulated chat models: a judge and a proposer that answer as their world has it.

The judge knows every output's qualities, weighs them as the prompt makes it weigh them, errs, and
crowds the top of the scale. The proposer sees which labelled outputs stand in a prompt, and what
people wrote of them, and guesses from these alone which qualities people go by.

No reply depends on anything but the request and the world, so runs repeat.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from simulated_worlds import NORMAL, QUALITIES, Form, Vector, World, rng_of, thresholds

Messages = Sequence[Mapping[str, str]]

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
