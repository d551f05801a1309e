"""What a split holds for one judge: the texts of every output or pair, and people's number."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from data.columns import only_text
from data.types import LabelError, LabelledPairs, LabelledSet
from judges.dimension import Comparison, Dimension

Vector = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One output with its mean rating, or one pair with its margin, under the judge's names."""

    id: str
    document_id: str
    system: str | None
    texts: Mapping[str, str]
    human: float


@dataclass(frozen=True)
class Items:
    """A split's items in order, and where each document's items stand."""

    items: tuple[Item, ...]
    human: Vector = field(init=False)
    places: Mapping[str, Indices] = field(init=False)

    def __post_init__(self) -> None:
        places: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            places.setdefault(item.document_id, []).append(index)
        object.__setattr__(self, "human", np.array([item.human for item in self.items], float))
        object.__setattr__(self, "places", {k: np.array(v, np.intp) for k, v in places.items()})

    def __len__(self) -> int:
        return len(self.items)

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.places)

    def of_documents(self, documents: Collection[str]) -> "Items":
        selected = set(documents)
        return Items(tuple(item for item in self.items if item.document_id in selected))

    def of_rows(self, rows: Iterable[int]) -> "Items":
        return Items(tuple(self.items[row] for row in rows))

    def without_systems(self, systems: Collection[str]) -> "Items":
        """The items of other systems, and those that name none."""
        return Items(tuple(item for item in self.items if item.system not in systems))

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(sorted({item.system for item in self.items if item.system is not None}))


def rated_items(labelled: LabelledSet, dimension: Dimension) -> Items:
    """The outputs rated on `dimension`; LabelError where one lacks a text it is judged from."""
    items = []
    for output in labelled.outputs:
        if not output.ratings.get(dimension.name):
            continue
        texts = _texts(labelled.name, output.id, output.texts, tuple(dimension.inputs))
        human = output.rating(dimension.name)
        items.append(
            Item(
                id=output.id,
                document_id=output.document_id,
                system=output.system,
                texts=texts,
                human=human,
            )
        )
    return Items(tuple(items))


def compared_items(labelled: LabelledPairs, comparison: Comparison) -> Items:
    """The pairs, their two candidates under the comparison's field names."""
    first, second = comparison.fields
    items = []
    for pair in labelled.pairs:
        shared = _texts(labelled.name, pair.id, pair.texts, tuple(comparison.inputs))
        texts = {**shared, first: pair.response_a, second: pair.response_b}
        items.append(
            Item(
                id=pair.id,
                document_id=pair.document_id,
                system=None,
                texts=texts,
                human=pair.margin,
            )
        )
    return Items(tuple(items))


def _texts(
    name: str, item: str, texts: Mapping[str, str], names: tuple[str, ...]
) -> dict[str, str]:
    missing = [word for word in names if word not in texts]
    if not missing:
        return {word: texts[word] for word in names}
    if (only_name := only_text(texts, names)) is not None:
        return {names[0]: texts[only_name]}
    raise LabelError(
        f"{name}: {item!r} has no text {missing[0]!r}, which the judge reads; it has "
        f"{', '.join(sorted(texts)) or 'none'}: rename one with --map {missing[0]}=COLUMN"
    )
