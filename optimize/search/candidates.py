"""Candidates, which are the prompts that a search tries, and the draw of their demonstrations."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

import numpy as np

from judges.client import Redactor
from judges.frozen import can_be_saved
from judges.prompt import (
    MAX_DEMOS,
    NOT_GIVEN_TEXT,
    Field,
    FieldValue,
    Prompt,
    Reasoning,
    utf8_text,
    with_questions,
    with_reasoning,
)
from judges.questions import AnswerWeights
from optimize.items import Item, Items

MAX_INSTRUCTION_LENGTH = 1500
MIN_COPIED_WORDS = 8  # so many consecutive words of a labelled text make an instruction a copy
DEMOS_OF_ALL_OUTPUTS = "all"  # the `DemoSet.selection` of a set that shows every labelled output
_WORD_PATTERN = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, FieldValue]


@dataclass(frozen=True)
class DemoSet:
    """Demonstrations for a prompt, and the labelled items that they were made from.

    `selection` is how the items were selected: "none", `DEMOS_OF_ALL_OUTPUTS`, or "levels N" for at
    most N items that show all ratings about equally often.
    """

    demos: tuple[Demo, ...] = ()
    items: tuple[Item, ...] = ()
    selection: str = "none"

    @cached_property
    def comments(self) -> list[str]:
        """Annotators' comments on the items, shown in place of reasons that the judge wrote."""
        return list(map(comment_if_labels_agree, self.items))

    @cached_property
    def documents(self) -> frozenset[str]:
        return frozenset(item.document_id for item in self.items)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A judge that the search tries, always on documents that its demonstrations do not show.

    `reasoning` or `questions` is None if it is the same as the untuned judge's. If `weights` is
    None, answers to questions do not change the score. `round_number` is the round in which the
    instruction was written, or 0 for the untuned judge's. A score of `threshold` or more is a pass.
    """

    instruction: str
    demo_set: DemoSet = DemoSet()
    round_number: int = 0
    reasoning: Reasoning | None = None
    questions: tuple[Field, ...] | None = None
    weights: AnswerWeights | None = None
    threshold: float = 0.5

    @property
    def kind(self) -> str:
        """The kind of change from the untuned judge, which several candidates may share."""
        instruction_source = "proposed" if self.round_number else "untuned"
        return f"{instruction_source}, {self.demo_set.selection}, {self.reasoning}"

    # The id is cached, because hashing a thousand demonstrations takes long.
    @cached_property
    def id(self) -> str:
        """A hash of the prompt: candidates with the same prompt have the same id."""
        hashed_values: list[object] = [self.instruction, self.demo_set.demos]
        if any(self.demo_set.comments):
            hashed_values.append(self.demo_set.comments)
        if self.reasoning is not None:
            hashed_values.append(self.reasoning)
        if self.questions is not None:
            hashed_values.append([(field.name, field.description) for field in self.questions])
        return hashlib.sha256(json.dumps(hashed_values, sort_keys=True).encode()).hexdigest()[:12]

    def unseen(self, items: Items) -> Items:
        """Return the items whose documents this candidate's demonstrations do not show."""
        shown_documents = self.demo_set.documents
        return Items(tuple(item for item in items if item.document_id not in shown_documents))

    def prompt(self, untuned_prompt: Prompt) -> Prompt:
        """Return the untuned prompt with this candidate's instruction, demos and questions."""
        prompt = replace(untuned_prompt, instruction=self.instruction, demos=self.demo_set.demos)
        if self.questions is not None:
            prompt = with_questions(prompt, self.questions)
        prompt = with_reasoning(prompt, self.reasoning or untuned_prompt.reasoning)
        reason_names = _reason_names(prompt)
        demos = []
        for demo, comment in zip(prompt.demos, self.demo_set.comments, strict=True):
            demos.append({**demo, **dict.fromkeys(reason_names, comment)} if comment else demo)
        return replace(prompt, demos=tuple(demos))


def _reason_names(prompt: Prompt) -> list[str]:
    return [field.name for field in prompt.output_fields if not field.choices]


def rejection_reason(
    instruction: str, text_hashes: set[int], earlier_instructions: Iterable[str]
) -> str:
    """Return why an instruction must not be tried; "" if it may be.

    `text_hashes` are the `word_run_hashes` of all labelled texts.
    """
    if not instruction:
        return "empty"
    if len(instruction) > MAX_INSTRUCTION_LENGTH:
        return f"{len(instruction)} characters long; {MAX_INSTRUCTION_LENGTH} are allowed"
    if not text_hashes.isdisjoint(word_run_hashes(instruction)):
        return f"copies {MIN_COPIED_WORDS} words or more of the labelled texts"
    if _words(instruction) in map(_words, earlier_instructions):
        return "known already"
    return ""


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD_PATTERN.findall(text)]


def word_run_hashes(text: str) -> Iterator[int]:
    """Yield a hash of every run of `MIN_COPIED_WORDS` consecutive words in the text."""
    words = _words(text)
    for start in range(len(words) - MIN_COPIED_WORDS + 1):
        yield hash(tuple(words[start : start + MIN_COPIED_WORDS]))


def draw_demo_set(
    items: Items,
    prompt: Prompt,
    size: int,
    rng: np.random.Generator,
    *,
    max_characters: int,
    document_share: float = 1.0,
    reason_by_id: Mapping[str, str] | None = None,
) -> DemoSet:
    """Draw at most `size` demonstrations that show all ratings about equally often.

    The demonstrations have at most `max_characters`, and show at most `document_share` of all
    documents. `reason_by_id` has a judge's reasons for right answers, by item id.
    """
    if prompt.answer_field.is_pairwise:  # a tied pair demonstrates neither A nor B
        items = items.of_rows(np.flatnonzero(items.human).tolist())
    max_documents = max(1, int(len(items.documents) * document_share))
    shown_documents, shown_texts = set[str](), set[tuple[str, ...]]()
    characters_left, redactor = max_characters, Redactor()
    items_with_demos: list[tuple[Item, Demo]] = []
    for item in _alternate_choices(items, prompt, rng):
        if len(items_with_demos) == min(size, MAX_DEMOS):
            break
        texts, comment = tuple(item.texts.values()), comment_if_labels_agree(item)
        if texts in shown_texts or len(shown_documents | {item.document_id}) > max_documents:
            continue
        demo = _demo_of(item, prompt, reason_by_id)
        n_characters = sum(map(len, texts)) + len(comment)
        is_safe = can_be_saved(prompt, {**demo, "comment": comment}, redactor)
        if not is_safe or n_characters > characters_left:
            continue
        items_with_demos.append((item, demo))
        shown_documents.add(item.document_id)
        shown_texts.add(texts)
        characters_left -= n_characters
    rng.shuffle(items_with_demos)
    all_texts = {tuple(item.texts.values()) for item in items}
    shows_everything = items_with_demos and shown_texts == all_texts
    selection = DEMOS_OF_ALL_OUTPUTS if shows_everything else f"levels {size}"
    demos = tuple(demo for _, demo in items_with_demos)
    return DemoSet(demos, tuple(item for item, _ in items_with_demos), selection)


def _demo_of(item: Item, prompt: Prompt, reason_by_id: Mapping[str, str] | None) -> Demo:
    demo: dict[str, FieldValue] = {name: utf8_text(text) for name, text in item.texts.items()}
    demo[prompt.answer_field.name] = prompt.answer_field.nearest_choice(item.human)
    reason = (reason_by_id or {}).get(item.id) or NOT_GIVEN_TEXT
    return demo | dict.fromkeys(_reason_names(prompt), reason)


def comment_if_labels_agree(item: Item) -> str:
    """Return an item's comment; "" if its labels differ, since it is unclear which one is meant."""
    return utf8_text(item.comment) if len({*item.ratings}) == 1 else ""


def _alternate_choices(items: Items, prompt: Prompt, rng: np.random.Generator) -> Iterator[Item]:
    """Yield items of each choice in turn; those with the label closest to it come first."""
    field = prompt.answer_field
    items_by_choice = {choice: list[Item]() for choice in sorted(field.allowed_values, key=str)}
    for index in rng.permutation(len(items)):
        item = items[index]
        items_by_choice[field.nearest_choice(item.human)].append(item)
    for choice, items_of_choice in items_by_choice.items():
        choice_number = field.number_by_choice[choice]
        # Distances are rounded to halves, so that items with about the same distance stay shuffled.
        items_of_choice.sort(key=lambda item: round(2 * abs(item.human - choice_number)))
    return filter(None, chain.from_iterable(zip_longest(*items_by_choice.values())))
