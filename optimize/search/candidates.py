"""Candidates, which are the prompts that a search tries, and the draw of their demonstrations."""

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
# An instruction is rejected as a copy if it shares this many consecutive words with a labelled
# text.
COPIED_WORDS = 8
# The `kind` of a `DemoSet` that shows every labelled output.
EVERYTHING = "all"
_WORD = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSet:
    """Demonstrations for a prompt, and the labelled items that they were made from.

    Attributes:
        demos: The demonstrations; each maps the names of the prompt's fields to values.
        comments: The annotators' comment on each demonstration, or "". If the judge writes a reason
            before its answer, the demonstration shows the comment as the reason.
        ids: The ids of the items that the demonstrations were made from.
        kind: Which items the set shows: "none", `EVERYTHING`, or the size that was asked for.
        documents: The ids of the documents that these items belong to.
    """

    demos: tuple[Demo, ...] = ()
    comments: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    kind: str = "none"
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A judge that the search tries and that may become the tuned judge.

    A candidate is never evaluated on documents that its demonstrations show.

    Attributes:
        instruction: The instruction of the prompt.
        demo_set: The demonstrations in the prompt.
        round: The number of the search round in which the instruction was written; 0 for the
            untuned judge's instruction.
        reasoning: What the judge writes before its answer; None to keep what the untuned judge
            writes.
        questions: The questions that the judge is asked; None to keep the untuned judge's
            questions.
        weights: The weights of the judge's answers in its score; None if the score is the judge's
            rating, verdict or preference alone.
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
        """How the candidate differs from the untuned judge, as a text that groups candidates."""
        instruction_source = "proposed" if self.round else "untuned"
        return f"{instruction_source}, {self.demo_set.kind}, {self.reasoning}"

    # Cached, because hashing a thousand demonstrations takes long.
    @cached_property
    def id(self) -> str:
        """A hash of the prompt; candidates with the same prompt have the same id."""
        hashed_parts: list[object] = [
            self.instruction,
            [dict(demo) for demo in self.demo_set.demos],
        ]
        if any(self.demo_set.comments):
            hashed_parts.append(self.demo_set.comments)
        if self.reasoning is not None:
            hashed_parts.append(self.reasoning)
        if self.questions is not None:
            hashed_parts.append([(field.name, field.description) for field in self.questions])
        return hashlib.sha256(json.dumps(hashed_parts, sort_keys=True).encode()).hexdigest()[:12]

    def prompt(self, untuned: Prompt) -> Prompt:
        """The untuned prompt with this candidate's instruction, demonstrations and questions."""
        prompt = replace(untuned, instruction=self.instruction, demos=self.demo_set.demos)
        if self.questions is not None:
            prompt = with_questions(prompt, self.questions)
        prompt = with_reasoning(prompt, self.reasoning or reasoning_of(untuned.outputs))
        reason_fields = [field.name for field in prompt.outputs if not field.choices]
        demos = (
            {**demo, **dict.fromkeys(reason_fields if comment else (), comment)}
            for demo, comment in zip(prompt.demos, self.demo_set.comments, strict=True)
        )
        return replace(prompt, demos=tuple(demos))


def rejection_reason(instruction: str, text_hashes: set[int], earlier: Iterable[str]) -> str | None:
    """The reason why the search may not try an instruction; None if it may try the instruction.

    Args:
        instruction: The proposed instruction.
        text_hashes: The hashes of all word runs in the labelled texts (see `word_runs`).
        earlier: The instructions that the search has already tried.
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
    """Yield a hash of every run of `COPIED_WORDS` consecutive words in the text."""
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
    """Draw a set of demonstrations that shows all ratings about equally often.

    The draw goes round the ratings: one item with each rating, then one more with each rating, and
    so on. For each rating, items whose human label is closest to the rating come first.

    Args:
        items: The labelled items to draw from.
        prompt: The prompt that will show the demonstrations.
        size: Upper bound on the number of demonstrations.
        rng: The generator for the draw.
        max_characters: Upper bound on the characters of all texts and comments together.
        share: Upper bound on the share of the documents that the demonstrations come from.
        reasons: Reasons that a judge wrote before a right answer, by item id.

    Returns:
        The set; its `kind` is `EVERYTHING` if it shows every distinct output.
    """
    if prompt.answer.choices == LETTERS:  # a tied pair demonstrates neither A nor B
        items = Items(tuple(item for item in items.items if item.human != 0))
    demos = _fitting_demos(items, prompt, rng, max_characters, share, reasons or {})
    selected = list(islice(demos, min(size, MAX_DEMOS)))
    rng.shuffle(selected)
    n_distinct_outputs = len({tuple(item.texts.values()) for item in items.items})
    shows_everything = selected and len(selected) == n_distinct_outputs
    return DemoSet(
        demos=tuple(demo for _, demo in selected),
        comments=tuple(agreed_comment(item) for item, _ in selected),
        ids=tuple(item.id for item, _ in selected),
        kind=EVERYTHING if shows_everything else f"levels {size}",
        documents=frozenset(item.document_id for item, _ in selected),
    )


def _fitting_demos(
    items: Items,
    prompt: Prompt,
    rng: np.random.Generator,
    characters_left: int,
    share: float,
    reasons: Mapping[str, str],
) -> Iterator[tuple[Item, Demo]]:
    """Yield distinct items with their demonstrations; skip items that would exceed a bound."""
    max_documents = max(1, int(len(items.documents) * share))
    documents_used: set[str] = set()
    seen_contents: set[tuple[str, ...]] = set()
    bytes_left, redactor = MAX_DEMO_BYTES, Redactor()
    for item in _alternating(items, prompt, rng):
        content, comment = tuple(item.texts.values()), agreed_comment(item)
        n_characters = sum(map(len, content)) + len(comment)
        exceeds_documents = (
            item.document_id not in documents_used and len(documents_used) >= max_documents
        )
        if exceeds_documents or content in seen_contents or n_characters > characters_left:
            continue
        demo: dict[str, Value] = {name: encodable(text) for name, text in item.texts.items()}
        demo[prompt.answer.name] = nearest_choice(prompt.answer.choices or (), item.human)
        for field in prompt.outputs:
            if not field.choices:
                demo[field.name] = reasons.get(item.id) or NOT_GIVEN
        n_bytes = demo_bytes(prompt, {**demo, "comment": comment}, redactor)
        if n_bytes is None or n_bytes > bytes_left:
            continue
        yield item, demo
        documents_used.add(item.document_id)
        seen_contents.add(content)
        characters_left, bytes_left = characters_left - n_characters, bytes_left - n_bytes


def nearest_choice(choices: tuple[Value, ...], value: float) -> Value:
    """The choice that is nearest to `value`, which is a mean label or a score.

    A value halfway between two choices gets the lower choice. If the choices are the letters of a
    pair, `value` is a margin and the preferred letter is returned.
    """
    if choices == LETTERS:
        return "A" if value > 0 else "B"

    def distance(choice: Value) -> tuple[float, int]:
        rating = rating_of(choice, choices)
        return abs(rating - value), rating

    return min(choices, key=distance)


def agreed_comment(item: Item) -> str:
    """The annotators' comment on an item if all annotators gave the same label, else "".

    A demonstration shows the mean label. If the labels differ, the comment may explain another
    label.
    """
    return encodable(item.comment) if len({*item.ratings}) == 1 else ""


def _alternating(items: Items, prompt: Prompt, rng: np.random.Generator) -> Iterator[Item]:
    """Yield items in turns: one for each choice, then one more for each choice, and so on.

    For each choice, items whose human label is closest to the choice come first.
    """
    choices = prompt.answer.choices or ()
    by_choice: dict[Value, list[Item]] = {}
    for index in rng.permutation(len(items)):
        item = items.items[index]
        by_choice.setdefault(nearest_choice(choices, item.human), []).append(item)
    for choice, items_of_choice in by_choice.items():
        target_label = (
            {"A": 1, "B": -1}[str(choice)] if choices == LETTERS else rating_of(choice, choices)
        )
        # Distances are rounded to halves, so that items with about the same distance stay shuffled.
        items_of_choice.sort(key=lambda item: round(2 * abs(item.human - target_label)))
    rounds = zip_longest(*(by_choice[choice] for choice in sorted(by_choice, key=str)))
    return filter(None, chain.from_iterable(rounds))
