"""Candidates: instructions, demonstrations and questions, and which of them may be tried."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, zip_longest

import numpy as np

from judges.client import Redactor
from judges.frozen import MAX_DEMO_BYTES, demo_bytes
from judges.prompt import (
    LETTERS,
    MAX_DEMOS,
    NOT_GIVEN,
    Field,
    Prompt,
    Reasoning,
    Value,
    encodable,
    rating_of,
    reasoning_of,
    with_questions,
    with_reasoning,
)
from judges.questions import AnswerWeights
from optimize.items import Item, Items

LONGEST_INSTRUCTION = 1500
# An instruction that shares this many consecutive words with a labelled text copies it.
COPIED_WORDS = 8
# The kind of a set of demonstrations that shows every labelled output.
EVERYTHING = "all"
_WORD = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSet:
    """Demonstrations with the ids and documents of their items; `kind` says how they were drawn.

    `comments` has people's comment on each demonstration ("" for none). A judge that writes a
    reason is shown the comment as the reason.
    """

    demos: tuple[Demo, ...] = ()
    comments: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    kind: str = "none"
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A judge that may become the tuned one; its scores on documents that it shows do not count.

    `round` is the round that proposed the instruction, 0 for the untuned one. `reasoning` is what
    the judge writes before its answer, None for what the untuned judge writes. `questions` are what
    it answers besides, None for what the untuned judge is asked, and `weights` what the answers are
    worth, None for the rating alone. An output passes with a score of `threshold` or more.
    """

    instruction: str
    demo_set: DemoSet = DemoSet()
    round: int = 0
    reasoning: Reasoning | None = None
    questions: tuple[Field, ...] | None = None
    weights: AnswerWeights | None = None
    threshold: float = 0.5

    @property
    def documents(self) -> frozenset[str]:
        return self.demo_set.documents

    @property
    def kind(self) -> str:
        """The kind of change: whether the instruction is proposed, demonstrations, reasoning."""
        proposed = "proposed" if self.round else "untuned"
        return f"{proposed}, {self.demo_set.kind}, {self.reasoning}"

    # Cached, because hashing a thousand demonstrations takes a while.
    @cached_property
    def id(self) -> str:
        """A digest of the prompt: candidates with the same prompt have the same id."""
        parts: list[object] = [self.instruction, [dict(demo) for demo in self.demo_set.demos]]
        if any(self.demo_set.comments):
            parts.append(self.demo_set.comments)
        if self.reasoning is not None:
            parts.append(self.reasoning)
        if self.questions is not None:
            parts.append([(field.name, field.description) for field in self.questions])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def prompt(self, untuned: Prompt) -> Prompt:
        """The untuned prompt with this candidate's parts."""
        prompt = replace(untuned, instruction=self.instruction, demos=self.demo_set.demos)
        if self.questions is not None:
            prompt = with_questions(prompt, self.questions)
        prompt = with_reasoning(prompt, self.reasoning or reasoning_of(untuned))
        reasons = [field.name for field in prompt.outputs if not field.choices]
        demos = (
            {**demo, **dict.fromkeys(reasons if comment else (), comment)}
            for demo, comment in zip(prompt.demos, self.demo_set.comments, strict=True)
        )
        return replace(prompt, demos=tuple(demos))


def fault(text: str, text_hashes: set[int], earlier: Iterable[str]) -> str | None:
    """Why an instruction may not be tried; None if it may. The hashes are of labelled texts."""
    if not text:
        return "empty"
    if len(text) > LONGEST_INSTRUCTION:
        return f"{len(text)} characters long; {LONGEST_INSTRUCTION} are allowed"
    if not text_hashes.isdisjoint(word_runs(text)):
        return f"copies {COPIED_WORDS} words or more of the labelled texts"
    if _words(text) in map(_words, earlier):
        return "known already"
    return None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def word_runs(text: str) -> Iterator[int]:
    """Yield a hash of each run of `COPIED_WORDS` consecutive words."""
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
    """Draw at most `size` demonstrations, every level in turn, people's clearest cases first.

    They come from a `share` of the documents, and their texts and comments have at most
    `max_characters`. `reasons` has what a judge wrote before the right answer, by item id. The
    set's `kind` is EVERYTHING if it shows each distinct output.
    """
    if prompt.answer.choices == LETTERS:  # a pair on which people are tied teaches neither letter
        items = Items(tuple(item for item in items.items if item.human != 0))
    demos = _fitting_demos(items, prompt, rng, max_characters, share, reasons or {})
    selection = list(islice(demos, min(size, MAX_DEMOS)))
    rng.shuffle(selection)
    n_distinct = len({tuple(item.texts.values()) for item in items.items})
    is_everything = selection and len(selection) == n_distinct
    return DemoSet(
        demos=tuple(demo for _, demo in selection),
        comments=tuple(agreed_comment(item) for item, _ in selection),
        ids=tuple(item.id for item, _ in selection),
        kind=EVERYTHING if is_everything else f"levels {size}",
        documents=frozenset(item.document_id for item, _ in selection),
    )


def _fitting_demos(
    items: Items,
    prompt: Prompt,
    rng: np.random.Generator,
    characters_left: int,
    share: float,
    reasons: Mapping[str, str],
) -> Iterator[tuple[Item, Demo]]:
    """Yield distinct items with their demonstrations, skipping those that exceed a bound."""
    max_documents = max(1, int(len(items.documents) * share))
    documents: set[str] = set()
    contents: set[tuple[str, ...]] = set()
    bytes_left, secrets = MAX_DEMO_BYTES, Redactor()
    for item in _by_level(items, prompt, rng):
        content, comment = tuple(item.texts.values()), agreed_comment(item)
        n_characters = sum(map(len, content)) + len(comment)
        is_full = item.document_id not in documents and len(documents) >= max_documents
        if is_full or content in contents or n_characters > characters_left:
            continue
        demo: dict[str, Value] = {name: encodable(text) for name, text in item.texts.items()}
        demo[prompt.answer.name] = nearest_choice(prompt.answer.choices or (), item.human)
        for field in prompt.outputs:
            if not field.choices:
                demo[field.name] = reasons.get(item.id) or NOT_GIVEN
        n_bytes = demo_bytes(prompt, {**demo, "comment": comment}, secrets)
        if n_bytes is None or n_bytes > bytes_left:
            continue
        yield item, demo
        documents.add(item.document_id)
        contents.add(content)
        characters_left, bytes_left = characters_left - n_characters, bytes_left - n_bytes


def nearest_choice(choices: tuple[Value, ...], value: float) -> Value:
    """The rating or word nearest to a mean or score; of a margin, the letter that it favours.

    A value halfway between two choices gets the lower one.
    """
    if choices == LETTERS:
        return "A" if value > 0 else "B"

    def distance(choice: Value) -> tuple[float, int]:
        rating = rating_of(choice, choices)
        return abs(rating - value), rating

    return min(choices, key=distance)


def agreed_comment(item: Item) -> str:
    """People's comment if all gave the same label; else "", since its author may have differed."""
    return encodable(item.comment) if len({*item.ratings}) == 1 else ""


def _by_level(items: Items, prompt: Prompt, rng: np.random.Generator) -> Iterator[Item]:
    """The items, every level in turn, people's clearest cases first."""
    choices = prompt.answer.choices or ()
    levels: dict[Value, list[Item]] = {}
    for index in rng.permutation(len(items)):
        item = items.items[index]
        levels.setdefault(nearest_choice(choices, item.human), []).append(item)
    for level, members in levels.items():
        exact = {"A": 1, "B": -1}[str(level)] if choices == LETTERS else rating_of(level, choices)
        # Rounded to halves, so that chance decides among cases that are about as clear.
        members.sort(key=lambda item: round(2 * abs(item.human - exact)))
    turns = zip_longest(*(levels[level] for level in sorted(levels, key=str)))
    return filter(None, chain.from_iterable(turns))
