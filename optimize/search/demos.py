"""Demonstration sets that tell of rank: levels covered, disagreements, contrasts."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.frozen import MAX_DEMO_BYTES, demo_bytes
from judges.prompt import MAX_DEMOS, NOT_GIVEN, Prompt, Value, encodable
from optimize.items import Indices, Items, Vector
from optimize.search.candidates import Demo, DemoSet
from optimize.search.problem import SearchOptions
from optimize.statistics.bootstrap import stream

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


def unscored_source(items: Items, prompt: Prompt, max_characters: int) -> DemoSource:
    """A source whose sets may show every document, before any judge has scored one."""
    items = demonstrable_items(items, prompt)
    scores = np.full(len(items), np.nan)
    return DemoSource(
        items=items, scores=scores, prompt=prompt, max_characters=max_characters, share=1.0
    )


def demo_sets(
    source: DemoSource,
    sizes: Sequence[int],
    rng: np.random.Generator,
    *,
    best: Sequence[str] = (),
    start: int = 0,
) -> Iterator[DemoSet]:
    """One set after another without end, in a fixed cycle over ways of choosing and sizes.

    The kinds in `best` ("levels 16") are drawn first; `start` says where in the cycle to go on.
    """
    orders: dict[str, Callable[[DemoSource, np.random.Generator], list[int]]] = {
        "levels": _order_by_level,
        "contrasts": _order_by_rating_range,
        "disagreements": _order_by_disagreement,
    }
    kinds = itertools.chain(best, itertools.islice(_cycle(list(orders), sizes), start, None))
    for kind in kinds:
        name, _, size = kind.rpartition(" ")
        yield _draw(source, kind, orders[name](source, rng), int(size), rng)


def largest_demo_set(items: Items, prompt: Prompt, options: SearchOptions) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    source = unscored_source(items, prompt, options.longest_demos)
    if not len(source.items):
        return DemoSet()
    rng, kind = stream(options.seed, EVERYTHING), f"levels {max(options.demo_sizes)}"
    demo_set = next(demo_sets(source, (), rng, best=[kind]))
    # Of outputs with the same texts one is shown.
    different = {tuple(item.texts.values()) for item in source.items.items}
    return replace(demo_set, kind=EVERYTHING) if len(demo_set.demos) == len(different) else demo_set


def _cycle(names: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    """Every way at every size, neighbours differing in both; large sets before small ones."""
    kinds = [
        f"{name} {sizes[-1 - (place + shift) % len(sizes)]}"
        for shift in range(len(sizes))
        for place, name in enumerate(names)
    ]
    return itertools.cycle(kinds)


def _draw(
    source: DemoSource, kind: str, order: Sequence[int], size: int, rng: np.random.Generator
) -> DemoSet:
    items = source.items
    most_documents = max(1, int(len(items.documents) * source.share))
    chosen: list[int] = []
    documents: set[str] = set()
    texts_shown: set[tuple[str, ...]] = set()
    characters_left, bytes_left = source.max_characters, MAX_DEMO_BYTES
    for index in order:
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
        kind=kind,
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
    queues = [levels[level] for level in sorted(levels, key=str)]
    return _interleave(queues)


def _order_by_rating_range(source: DemoSource, rng: np.random.Generator) -> list[int]:
    """All rows: documents by the range of their ratings, with noise; of each the extremes first."""
    human = source.items.human
    return _order_extremes_first(source, lambda rows: float(np.ptp(human[rows])), rng)


def _order_by_disagreement(source: DemoSource, rng: np.random.Generator) -> list[int]:
    """The documents whose best and worst outputs the judge confuses most, and those two of each.

    Not the outputs with the largest gaps themselves: those are picked for what chance did to
    their ratings, and teach that.
    """
    human, scores = source.items.human, source.scores
    known = scores[~np.isnan(scores)]
    deviation = float(known.std()) or 1.0 if known.size else 1.0

    def confused(rows: Indices) -> float:
        best, worst = rows[human[rows].argmax()], rows[human[rows].argmin()]
        gap = float(scores[worst] - scores[best]) / deviation
        return 0.0 if np.isnan(gap) or best == worst else gap

    return _order_extremes_first(source, confused, rng)


def _order_extremes_first(
    source: DemoSource, group_score: Callable[[Indices], float], rng: np.random.Generator
) -> list[int]:
    """Documents by their worth, each with its best and worst output, then what lies between."""
    human = source.items.human
    groups = list(source.items.places.values())
    if max(map(len, groups), default=0) < 3:
        # Single outputs have no extremes: the set's own stand for them.
        groups = [np.arange(len(human))]
    values = np.array([group_score(rows) for rows in groups])
    # A little noise, so that another draw shows other documents.
    values = values + rng.normal(0, 0.5 * float(values.std()), len(values))
    queues = []
    for index in np.argsort(-values, kind="stable"):
        rows = groups[index]
        shuffled = rows[rng.permutation(len(rows))]
        queues.append(_extremes_first(shuffled[np.argsort(human[shuffled], kind="stable")]))
    return _interleave(queues, step=2)


def _extremes_first(ranked: Indices) -> list[int]:
    """The last, the first, the middle, then the middles of what is left between them."""
    order = [len(ranked) - 1, 0]
    gaps = [(0, len(ranked) - 1)]
    while gaps:
        low, high = gaps.pop(0)
        middle = (low + high) // 2
        if middle not in (low, high):
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [int(ranked[place]) for place in dict.fromkeys(order)]


def _interleave(queues: Sequence[Sequence[int]], step: int = 1) -> list[int]:
    """The first `step` of every queue, then the next of every queue, and so on."""
    longest_queue = max(map(len, queues), default=0)
    return [
        index
        for start in range(0, longest_queue, step)
        for queue in queues
        for index in queue[start : start + step]
    ]
