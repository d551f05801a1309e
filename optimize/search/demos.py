"""Sets of demonstrations that show every level of the scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.frozen import MAX_DEMO_BYTES, demo_bytes
from judges.prompt import MAX_DEMOS, NOT_GIVEN, Prompt, Value, encodable
from optimize.items import Items, Vector
from optimize.search.candidates import Demo, DemoSet
from optimize.search.problem import SearchOptions
from optimize.statistics.intervals import stream

# Demonstrations may come from so much of train; the race needs the rest to judge them on.
LARGEST_SHARE = 0.5
# How a set was chosen that shows everything.
EVERYTHING = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSource:
    """Train items with the scores the judge gave them, and how much of them a set may show.

    A set holds at most `max_characters` of texts and what a frozen judge can hold, and
    comes from `share` of the documents.
    """

    items: Items
    scores: Vector
    prompt: Prompt
    max_characters: int
    share: float = LARGEST_SHARE
    # What the judge wrote before its answer, by item id; demonstrations keep it where it was right.
    comments: Mapping[str, str] = field(default_factory=dict)


def largest_demo_set(items: Items, prompt: Prompt, options: SearchOptions) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    items, size = demonstrable_items(items, prompt), max(options.demo_sizes, default=0)
    if not len(items) or not size:
        return DemoSet()
    source = DemoSource(
        items=items,
        scores=np.full(len(items), np.nan),
        prompt=prompt,
        max_characters=options.longest_demos,
        share=1.0,
    )
    demo_set = draw_demo_set(source, size, stream(options.seed, EVERYTHING))
    # Of outputs with the same texts one is shown.
    different = {tuple(item.texts.values()) for item in items.items}
    return replace(demo_set, kind=EVERYTHING) if len(demo_set.demos) == len(different) else demo_set


def draw_demo_set(source: DemoSource, size: int, rng: np.random.Generator) -> DemoSet:
    """At most `size` demonstrations, every level in turn, in random order."""
    items = source.items
    most_documents = max(1, int(len(items.documents) * source.share))
    chosen: list[int] = []
    documents: set[str] = set()
    texts_shown: set[tuple[str, ...]] = set()
    characters_left, bytes_left = source.max_characters, MAX_DEMO_BYTES
    for index in _order_by_level(source, rng):
        item = items.items[index]
        texts = tuple(item.texts.values())
        length = sum(map(len, texts))
        full = item.document_id not in documents and len(documents) >= most_documents
        if full or texts in texts_shown or length > characters_left:
            continue
        size_in_file = demo_bytes(source.prompt, demonstration(source, index))
        if size_in_file is None or size_in_file > bytes_left:
            continue
        bytes_left -= size_in_file
        chosen.append(index)
        documents.add(item.document_id)
        texts_shown.add(texts)
        characters_left -= length
        if len(chosen) == min(size, MAX_DEMOS):
            break
    rng.shuffle(chosen)
    return DemoSet(
        demos=tuple(demonstration(source, index) for index in chosen),
        ids=tuple(items.items[index].id for index in chosen),
        kind=f"levels {size}",
        documents=frozenset(documents),
    )


def demonstration(source: DemoSource, index: int) -> Demo:
    """One item with people's answer, and the judge's own comment where it gave the same."""
    item = source.items.items[index]
    answer = source.prompt.answer
    values: dict[str, Value] = {name: encodable(text) for name, text in item.texts.items()}
    values[answer.name] = nearest_choice(answer.choices or (), item.human)
    score = float(source.scores[index])
    agrees = score != 0 and not np.isnan(score)
    agrees = agrees and nearest_choice(answer.choices or (), score) == values[answer.name]
    comment = source.comments.get(item.id, "") if agrees else ""
    values |= {f.name: comment or NOT_GIVEN for f in source.prompt.outputs if not f.choices}
    return values


def nearest_choice(choices: tuple[Value, ...], value: float) -> Value:
    """The rating nearest to a mean or score, or the letter that a margin is on the side of."""
    if choices == ("A", "B"):
        return "A" if value > 0 else "B"
    ratings = [rating for rating in choices if isinstance(rating, int)]
    return min(ratings, key=lambda rating: (abs(rating - value), rating))


def demonstrable_items(items: Items, prompt: Prompt) -> Items:
    """What can be shown: a pair that people left undecided teaches neither letter."""
    if prompt.outputs[-1].choices == ("A", "B"):
        return Items(tuple(item for item in items.items if item.human != 0))
    return items


def _order_by_level(source: DemoSource, rng: np.random.Generator) -> list[int]:
    """Every level in turn, people's clearest cases first, documents spread."""
    human = source.items.human
    choices = source.prompt.outputs[-1].choices or ()
    levels: dict[Value, list[int]] = {}
    for index in rng.permutation(len(human)):
        levels.setdefault(nearest_choice(choices, float(human[index])), []).append(int(index))
    for level, members in levels.items():
        exact = level if isinstance(level, int) else math.copysign(1, 1 if level == "A" else -1)
        # To the half, so that chance still decides among cases about as clear.
        members.sort(key=lambda index: round(2 * abs(float(human[index]) - exact)))
    return _interleave([levels[level] for level in sorted(levels, key=str)])


def _interleave(queues: Sequence[Sequence[int]]) -> list[int]:
    """The first of every queue, then the second of every queue, and so on."""
    longest_queue = max(map(len, queues), default=0)
    return [
        queue[place] for place in range(longest_queue) for queue in queues if place < len(queue)
    ]
