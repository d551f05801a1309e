"""What a store of replies holds."""

from collections import Counter
from contextlib import closing
from pathlib import Path

from judges.client.store import ANSWERED, CACHED, Store


def count_answers(path: Path) -> Counter[str]:
    """How many requests of each role the file has answers to."""
    counts = Counter[str]()
    with closing(Store(path)) as store:
        for total in store.totals():
            if total.state in (ANSWERED, CACHED):
                counts[total.role] += total.n_requests
    return counts
