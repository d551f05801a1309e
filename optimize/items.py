"""Labels as statistics take them: items with texts and a number, annotators' ratings, scores."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement
from judges.labels.columns import OUTPUTS, only_text
from judges.labels.readers import is_constructed
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from optimize.statistics.correlations import Level

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

OUTPUTS_FOR_SUMMARY_LEVEL = 3
# With fewer documents that have a rho than this share, summary level would rest on the odd ones.
SHARE_FOR_SUMMARY_LEVEL = 0.5

# A vote as a margin for A.
VOTES: Mapping[str, float] = {"A": 1.0, "tie": 0.0, "B": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One output with its mean rating, or one pair with its margin, under the judge's names.

    `ratings` has what each annotator gave, where it is known (1, 0 or -1 for a vote for A, neither
    or B), and `comment` what people wrote beside it. `weight` is that of its document.
    """

    id: str
    document_id: str
    system: str | None
    texts: Mapping[str, str]
    human: float
    ratings: tuple[float, ...] = ()
    comment: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class Items:
    """A split's items in order, and where each document's items stand."""

    items: tuple[Item, ...]
    human: Vector = field(init=False)
    weights: Vector = field(init=False)
    places: Mapping[str, Indices] = field(init=False)

    def __post_init__(self) -> None:
        places: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            places.setdefault(item.document_id, []).append(index)
        object.__setattr__(self, "human", np.array([item.human for item in self.items], float))
        object.__setattr__(self, "weights", np.array([item.weight for item in self.items], float))
        object.__setattr__(self, "places", {k: np.array(v, np.intp) for k, v in places.items()})

    def __len__(self) -> int:
        return len(self.items)

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.places)

    @property
    def is_weighted(self) -> bool:
        """Whether documents count differently, as they were drawn with unequal chances."""
        return np.unique(self.weights).size > 1

    @property
    def document_ids(self) -> list[str]:
        """Each item's document, in order."""
        return [item.document_id for item in self.items]

    @property
    def system_ids(self) -> list[str]:
        """Each item's system, in order; those that name none are one system's, ""."""
        return [item.system or "" for item in self.items]

    def of_documents(self, documents: Collection[str]) -> "Items":
        selected = set(documents)
        return Items(tuple(item for item in self.items if item.document_id in selected))

    def of_rows(self, rows: Iterable[int]) -> "Items":
        return Items(tuple(self.items[row] for row in rows))

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(sorted({item.system for item in self.items if item.system is not None}))


def items_of(
    labelled: LabelledSet | LabelledPairs, dimension: str, subject: Subject | None = None
) -> Items:
    """The outputs rated on a dimension, or the pairs, with the texts that `subject` is judged from.

    Without a subject they have no texts: enough to compare recorded scores with people's. A pair's
    candidates go by the comparison's field names. Raises LabelError where a text is missing.
    """
    if isinstance(labelled, LabelledSet):
        return Items(
            tuple(
                Item(
                    id=output.id,
                    document_id=output.document_id,
                    system=output.system,
                    texts=_texts(labelled.name, output.id, output.texts, subject),
                    human=labelled.label(output, dimension),
                    ratings=output.ratings[dimension],
                    comment=" ".join(output.comments.get(dimension, ())),
                    weight=output.weight,
                )
                for output in labelled.outputs
                if output.ratings.get(dimension)
            )
        )
    items = []
    for pair in labelled.pairs:
        texts = _texts(labelled.name, pair.id, pair.texts, subject)
        if isinstance(subject, Comparison):
            first, second = subject.fields
            texts |= {first: pair.response_a, second: pair.response_b}
        items.append(
            Item(
                id=pair.id,
                document_id=pair.document_id,
                system=None,
                texts=texts,
                human=pair.margin,
                ratings=tuple(VOTES[vote] for vote in pair.votes),
                comment=" ".join(pair.comments),
            )
        )
    return Items(tuple(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCounts:
    """Which labels they are, and how many of what is measured: the `data` of summary.json.

    `n_tied` outputs are left out for a tie among annotators. `weighted`: documents were drawn with
    unequal chances.
    """

    name: str
    sha256: str
    n_documents: int
    n_systems: int
    n_outputs: int
    n_tied: int | None = None
    weighted: bool = False

    @classmethod
    def of(cls, labelled: LabelledSet | LabelledPairs, items: Items) -> "DataCounts":
        return cls(
            name=labelled.name,
            sha256=labelled.sha256,
            n_documents=len(items.documents),
            n_systems=len(items.systems),
            n_outputs=len(items),
            n_tied=n_tied_of(labelled) or None,
            weighted=bool(items.is_weighted),
        )

    @property
    def is_constructed(self) -> bool:
        """Whether the labels come from known faults, so that no figure says anything of people."""
        return is_constructed(self.sha256)


def n_tied_of(labelled: LabelledSet | LabelledPairs) -> int:
    """How many outputs the labels lack for a tie among annotators."""
    return labelled.n_tied if isinstance(labelled, LabelledSet) else 0


def text_key(texts: Mapping[str, str]) -> str:
    """16 hex digits that stand for the texts a judge reads, whatever their whitespace and order."""
    words = sorted(" ".join(text.split()) for text in texts.values())
    return sha256("\0".join(words).encode(errors="surrogatepass")).hexdigest()[:16]


def tuned_keys(items: Items, subject: Subject) -> list[str]:
    """The keys of rows and of documents, by which a judge tells those that it was tuned on."""
    rows = [item.texts for item in items.items]
    given = (given_texts(texts, subject) for texts in rows)
    return sorted({text_key(texts) for texts in (*rows, *given) if texts})


def given_texts(texts: Mapping[str, str], subject: Subject) -> dict[str, str]:
    """What systems were given: all texts but the output, or a pair's two."""
    output = None if isinstance(subject, Comparison) else output_name(subject.texts)
    return {name: texts[name] for name in subject.inputs if name != output}


def output_name(texts: Sequence[str]) -> str | None:
    """Which of the texts is the output under judgement: a usual name, else the last one read."""
    named = [name for name in texts if name in OUTPUTS]
    return named[-1] if named else texts[-1] if texts else None


def scores_of(judgements: Iterable[AnyJudgement]) -> Vector:
    """A score each, a pair's margin; NaN where the judge failed."""
    return np.array([judgement.score for judgement in judgements], float)


def _texts(
    data_name: str, item_id: str, texts: Mapping[str, str], subject: Subject | None
) -> dict[str, str]:
    """The texts that the subject reads; its only text may be the item's only one, of any name."""
    names = () if subject is None else tuple(subject.inputs)
    missing = [name for name in names if name not in texts]
    if not missing:
        return {name: texts[name] for name in names}
    if (only_name := only_text(texts, names)) is not None:
        return {names[0]: texts[only_name]}
    raise LabelError(
        f"{data_name}: {item_id!r} has no text {missing[0]!r}, which the judge reads; it has "
        f"{', '.join(sorted(texts)) or 'none'}: rename one with --map {missing[0]}=COLUMN"
    )


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """(outputs, annotators) ratings, NaN where unrated, and the annotators' names.

    Ratings without names are taken by their order, if every output with several has as many. A
    single rating by nobody named may be a mean: NaN. Raises LabelError where only such are
    known, or who gave a rating is not.
    """
    names_of = [output.annotators.get(dimension, ()) for output in labelled.outputs]
    ratings = [output.ratings.get(dimension, ()) for output in labelled.outputs]
    ratings = [
        values if annotators or len(values) > 1 else ()
        for annotators, values in zip(names_of, ratings, strict=True)
    ]
    sizes = {len(values) for values in ratings if values}
    if max(sizes, default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's, in `annotations` or a long file (--annotations)"
        )
    if not any(names_of) and len(sizes) == 1:
        names_of = [tuple(str(index + 1) for index in range(len(values))) for values in ratings]
    names = tuple(sorted({name for annotators in names_of for name in annotators}))
    matrix = np.full((len(ratings), len(names)), np.nan)
    for row, (annotators, values) in enumerate(zip(names_of, ratings, strict=True)):
        if values and len(annotators) != len(values):
            raise LabelError(
                f"{labelled.name}: output {labelled.outputs[row].id!r} has {len(values)} ratings "
                f"on {dimension!r} and {len(annotators)} annotators' names: say who gave which"
            )
        for name, value in zip(annotators, values, strict=True):
            matrix[row, names.index(name)] = value
    return matrix, names


def is_two_valued(human: Vector) -> bool:
    """Whether people give 1 (pass) and 0 (fail) alone."""
    return bool(human.size and np.isin(human, (0, 1)).all())


def choose_level(items: Items) -> Level:
    """Summary where documents have three outputs or more on average and most have a rho.

    A document that people rate alike has none. Else dataset, and always of pass and fail.
    """
    if is_two_valued(items.human):
        return "dataset"
    documents = max(1, len(items.documents))
    varied = sum(np.ptp(items.human[rows]) > 0 for rows in items.places.values())
    several = len(items) / documents >= OUTPUTS_FOR_SUMMARY_LEVEL
    return "summary" if several and varied > SHARE_FOR_SUMMARY_LEVEL * documents else "dataset"


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels that labels have, the most telling first."""
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)
