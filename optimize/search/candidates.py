"""Candidates: prompts that a search may try, and how their demonstrations are drawn."""

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
# An instruction with this many consecutive words of a labelled text counts as a copy of the text.
COPIED_WORDS = 8
# The `kind` of a set of demonstrations that shows every labelled output.
EVERYTHING = "all"
_WORD = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSet:
    """Demonstrations for a prompt, and the labelled items that they were made from.

    Attributes:
        demos: The demonstrations, as values by field name.
        comments: People's comment on each demonstration, or "". A judge that writes a reason before
            its answer is shown the comment in place of a reason.
        ids: The ids of the items.
        kind: How the items were drawn: "none", EVERYTHING, or the size of the set.
        documents: The ids of the items' documents.
    """

    demos: tuple[Demo, ...] = ()
    comments: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    kind: str = "none"
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A judge that may become the tuned one.

    Its scores on documents that its demonstrations show do not count.

    Attributes:
        instruction: The instruction of the prompt.
        demo_set: The demonstrations in the prompt.
        round: The round that proposed the instruction; 0 for the untuned judge's instruction.
        reasoning: What the judge writes before its answer; None for the untuned judge's reasoning.
        questions: The questions that the judge is asked; None for the untuned judge's questions.
        weights: The weights of the answers in the score; None if the judge's own answer is its
            score.
        threshold: The lowest score with which an output passes.
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
        """What was changed: where the instruction is from, the demonstrations, the reasoning."""
        proposed = "proposed" if self.round else "untuned"
        return f"{proposed}, {self.demo_set.kind}, {self.reasoning}"

    # Cached, because it takes long to hash a thousand demonstrations.
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
        """The untuned prompt with this candidate's instruction, demonstrations and questions."""
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


def fault(instruction: str, text_hashes: set[int], earlier: Iterable[str]) -> str | None:
    """The reason why an instruction may not be tried; None if it may.

    Args:
        instruction: The proposed instruction.
        text_hashes: The hashes of the word runs of all labelled texts (`word_runs`).
        earlier: The instructions that have been tried.
    """
    if not instruction:
        return "empty"
    if len(instruction) > LONGEST_INSTRUCTION:
        return f"{len(instruction)} characters long; {LONGEST_INSTRUCTION} are allowed"
    if not text_hashes.isdisjoint(word_runs(instruction)):
        return f"copies {COPIED_WORDS} words or more of the labelled texts"
    if _words(instruction) in map(_words, earlier):
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
    """Draw a set of demonstrations that shows all ratings equally often.

    The ratings take turns, and the items on which people are clearest come first.

    Args:
        items: The labelled items to draw from.
        prompt: The prompt that will show the demonstrations.
        size: Upper bound on their number.
        rng: The generator for the draw.
        max_characters: Upper bound on the characters of all texts and comments.
        share: The share of the documents to draw from.
        reasons: What a judge wrote before a right answer, by item id.

    Returns:
        The set; its `kind` is EVERYTHING if it shows every distinct output.
    """
    if prompt.answer.choices == LETTERS:  # a pair without a preference is an example of neither
        items = Items(tuple(item for item in items.items if item.human != 0))
    demos = _fitting_demos(items, prompt, rng, max_characters, share, reasons or {})
    selection = list(islice(demos, min(size, MAX_DEMOS)))
    rng.shuffle(selection)
    n_distinct_outputs = len({tuple(item.texts.values()) for item in items.items})
    is_everything = selection and len(selection) == n_distinct_outputs
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
    """Yield distinct items with their demonstrations; skip an item that would exceed a bound."""
    max_documents = max(1, int(len(items.documents) * share))
    documents: set[str] = set()
    seen_contents: set[tuple[str, ...]] = set()
    bytes_left, secrets = MAX_DEMO_BYTES, Redactor()
    for item in _alternating(items, prompt, rng):
        content, comment = tuple(item.texts.values()), agreed_comment(item)
        n_characters = sum(map(len, content)) + len(comment)
        is_full = item.document_id not in documents and len(documents) >= max_documents
        if is_full or content in seen_contents or n_characters > characters_left:
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
        seen_contents.add(content)
        characters_left, bytes_left = characters_left - n_characters, bytes_left - n_bytes


def nearest_choice(choices: tuple[Value, ...], value: float) -> Value:
    """The choice nearest to a mean label or a score; for a margin, the preferred letter.

    A value halfway between two choices gets the lower choice.
    """
    if choices == LETTERS:
        return "A" if value > 0 else "B"

    def distance(choice: Value) -> tuple[float, int]:
        rating = rating_of(choice, choices)
        return abs(rating - value), rating

    return min(choices, key=distance)


def agreed_comment(item: Item) -> str:
    """People's comment on an item if all annotators gave the same label, else "".

    If labels differ, the comment may explain a label other than the mean.
    """
    return encodable(item.comment) if len({*item.ratings}) == 1 else ""


def _alternating(items: Items, prompt: Prompt, rng: np.random.Generator) -> Iterator[Item]:
    """The items, with the choices in turn; those on which people are clearest come first."""
    choices = prompt.answer.choices or ()
    by_choice: dict[Value, list[Item]] = {}
    for index in rng.permutation(len(items)):
        item = items.items[index]
        by_choice.setdefault(nearest_choice(choices, item.human), []).append(item)
    for choice, members in by_choice.items():
        target = (
            {"A": 1, "B": -1}[str(choice)] if choices == LETTERS else rating_of(choice, choices)
        )
        # Distances are rounded to halves, so that items that are about equally clear stay shuffled.
        members.sort(key=lambda item: round(2 * abs(item.human - target)))
    turns = zip_longest(*(by_choice[choice] for choice in sorted(by_choice, key=str)))
    return filter(None, chain.from_iterable(turns))
