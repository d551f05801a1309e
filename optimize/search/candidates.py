"""A candidate is an instruction with demonstrations: what it holds, and which may be tried."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

import numpy as np

from judges.client import Redactor
from judges.frozen import MAX_DEMO_BYTES, demo_bytes
from judges.prompt import (
    LETTERS,
    MAX_DEMOS,
    NOT_GIVEN,
    Prompt,
    Reasoning,
    Value,
    encodable,
    rating_of,
    reasoning_of,
    with_reasoning,
)
from optimize.items import Item, Items

LONGEST_INSTRUCTION = 1500
# So many words in a row that stand in a labelled text are copied.
COPIED_WORDS = 8
# How a set of demonstrations was chosen that shows every label.
EVERYTHING = "all"
_WORD = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSet:
    """Demonstrations with the ids and documents of their items; `kind` is how they were chosen.

    `comments` are people's on each, which stand for the reason where a judge writes one.
    """

    demos: tuple[Demo, ...] = ()
    comments: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    kind: str = "none"
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What may become the tuned judge; its scores on documents that it shows do not count.

    `round` is the one that proposed the instruction; 0 where nobody did. `reasoning` is what the
    judge writes before its answer (None: as the untuned judge does), `threshold` the score from
    which on an output passes.
    """

    instruction: str
    demo_set: DemoSet = DemoSet()
    round: int = 0
    reasoning: Reasoning | None = None
    threshold: float = 0.5

    @property
    def documents(self) -> frozenset[str]:
        return self.demo_set.documents

    # Kept, since a thousand demonstrations take a while to hash.
    @cached_property
    def id(self) -> str:
        """A digest of the prompt, whatever way led to it."""
        shown = self.demo_set
        parts: list[object] = [self.instruction, [dict(demo) for demo in shown.demos]]
        if any(shown.comments):
            parts.append(shown.comments)
        if self.reasoning is not None:
            parts.append(self.reasoning)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def prompt(self, untuned: Prompt) -> Prompt:
        """The untuned prompt with this candidate's parts."""
        shown = self.demo_set
        prompt = replace(untuned, instruction=self.instruction, demos=shown.demos)
        prompt = with_reasoning(prompt, self.reasoning or reasoning_of(untuned))
        reasons = [field.name for field in prompt.outputs if not field.choices]
        demos = (
            {**demo, **dict.fromkeys(reasons if said else (), said)}
            for demo, said in zip(prompt.demos, shown.comments, strict=True)
        )
        return replace(prompt, demos=tuple(demos))


def fault(text: str, runs: set[int], known: Iterable[str]) -> str | None:
    """Why an instruction may not be tried; None if it may. `runs` are the labelled texts'."""
    if not text:
        return "empty"
    if len(text) > LONGEST_INSTRUCTION:
        return f"{len(text)} characters long; {LONGEST_INSTRUCTION} are allowed"
    if not runs.isdisjoint(word_runs(text)):
        return f"copies {COPIED_WORDS} words or more of the labelled texts"
    if _words(text) in map(_words, known):
        return "known already"
    return None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def word_runs(text: str) -> Iterator[int]:
    """A number for each run of so many words; a clash of two is less likely than a bad disk."""
    words = _words(text)
    for start in range(len(words) - COPIED_WORDS + 1):
        yield hash(tuple(words[start : start + COPIED_WORDS]))


def draw_demo_set(
    items: Items,
    prompt: Prompt,
    size: int,
    rng: np.random.Generator,
    *,
    max_characters: int,
    share: float = 1.0,
    reasons: Mapping[str, str] | None = None,
) -> DemoSet:
    """At most `size` demonstrations of at most so many characters, every level in turn.

    They come from a `share` of the documents. `reasons` are what a judge wrote before the right
    answer, by item id. `kind` is EVERYTHING where each different output is shown.
    """
    if prompt.answer.choices == LETTERS:  # what people left undecided teaches neither letter
        items = Items(tuple(item for item in items.items if item.human != 0))
    most_documents = max(1, int(len(items.documents) * share))
    demos: dict[int, Demo] = {}
    documents: set[str] = set()
    shown: set[tuple[str, ...]] = set()
    characters_left, bytes_left, secrets = max_characters, MAX_DEMO_BYTES, Redactor()
    for index in _order_by_level(items, prompt, rng):
        if len(demos) == min(size, MAX_DEMOS):
            break
        item = items.items[index]
        texts = tuple(item.texts.values())
        length = sum(map(len, texts)) + len(agreed_comment(item))
        full = item.document_id not in documents and len(documents) >= most_documents
        if full or texts in shown or length > characters_left:
            continue
        demo = _demonstration(item, prompt, (reasons or {}).get(item.id))
        n_bytes = demo_bytes(prompt, {**demo, "comment": agreed_comment(item)}, secrets)
        if n_bytes is None or n_bytes > bytes_left:
            continue
        demos[index] = demo
        documents.add(item.document_id)
        shown.add(texts)
        characters_left, bytes_left = characters_left - length, bytes_left - n_bytes
    chosen = list(demos)
    rng.shuffle(chosen)
    different = {tuple(item.texts.values()) for item in items.items}
    return DemoSet(
        demos=tuple(demos[index] for index in chosen),
        comments=tuple(agreed_comment(items.items[index]) for index in chosen),
        ids=tuple(items.items[index].id for index in chosen),
        kind=EVERYTHING if chosen and len(chosen) == len(different) else f"levels {size}",
        documents=frozenset(documents),
    )


def nearest_choice(choices: tuple[Value, ...], value: float) -> Value:
    """The rating or word nearest to a mean or score, or the letter that a margin is on the side of.

    What lies in the middle is the lower one.
    """
    if choices == LETTERS:
        return "A" if value > 0 else "B"

    def distance(choice: Value) -> tuple[float, int]:
        rating = rating_of(choice, choices)
        return abs(rating - value), rating

    return min(choices, key=distance)


def agreed_comment(item: Item) -> str:
    """What people wrote of a label, where all gave the same; else whoever wrote it may differ."""
    return encodable(item.comment) if len({*item.ratings}) == 1 else ""


def _demonstration(item: Item, prompt: Prompt, reason: str | None) -> Demo:
    """One item with people's answer."""
    values: dict[str, Value] = {name: encodable(text) for name, text in item.texts.items()}
    values[prompt.answer.name] = nearest_choice(prompt.answer.choices or (), item.human)
    values |= {field.name: reason or NOT_GIVEN for field in prompt.outputs if not field.choices}
    return values


def _order_by_level(items: Items, prompt: Prompt, rng: np.random.Generator) -> list[int]:
    """Every level in turn, people's clearest cases first."""
    choices = prompt.answer.choices or ()
    levels: dict[Value, list[int]] = {}
    for index in rng.permutation(len(items)):
        level = nearest_choice(choices, float(items.human[index]))
        levels.setdefault(level, []).append(int(index))
    for level, members in levels.items():
        exact = {"A": 1, "B": -1}[str(level)] if choices == LETTERS else rating_of(level, choices)
        # To the half, so that chance still decides among cases about as clear.
        members.sort(key=lambda index: round(2 * abs(float(items.human[index]) - exact)))
    turns = zip_longest(*(levels[level] for level in sorted(levels, key=str)))
    return [index for turn in turns for index in turn if index is not None]
