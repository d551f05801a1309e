"""Reads and splits human labels, and defines their types and the starter set."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from judges.labels.readers import read_labels as read_labels
    from judges.labels.readers import read_pairs as read_pairs
    from judges.labels.readers import starter as starter
    from judges.labels.readers import starter_pairs as starter_pairs
    from judges.labels.splits import Splits as Splits
    from judges.labels.splits import split as split
    from judges.labels.splits import with_ratings as with_ratings
    from judges.labels.types import LabelError as LabelError
    from judges.labels.types import LabelledOutput as LabelledOutput
    from judges.labels.types import LabelledPair as LabelledPair
    from judges.labels.types import LabelledPairs as LabelledPairs
    from judges.labels.types import LabelledSet as LabelledSet
    from judges.labels.types import Vote as Vote

__getattr__, __dir__ = lazy_names(__name__)
