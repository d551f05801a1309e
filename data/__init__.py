"""Human labels: types, readers, splits and the starter set."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from data.readers import read_labels as read_labels
    from data.readers import read_pairs as read_pairs
    from data.readers import starter as starter
    from data.readers import starter_pairs as starter_pairs
    from data.splits import Splits as Splits
    from data.splits import split as split
    from data.splits import with_ratings as with_ratings
    from data.types import LabelError as LabelError
    from data.types import LabelledOutput as LabelledOutput
    from data.types import LabelledPair as LabelledPair
    from data.types import LabelledPairs as LabelledPairs
    from data.types import LabelledSet as LabelledSet
    from data.types import Vote as Vote

__getattr__, __dir__ = lazy_names(__name__)
