"""What every refusal has in common: the error that is meant, in one line of a few words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(
    error: type[Exception], words: str, limit: int = 700
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error that says these words (a pattern) in one line of fewer characters."""
    with pytest.raises(error, match=words) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < limit
