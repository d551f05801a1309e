"""What every refusal has in common: the error that is meant, in one line of a few words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refuses(
    error: type[Exception], words: str, limit: int = 700
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error that says these words (a pattern) in one line of fewer characters."""
    with pytest.raises(error, match=words) as raises:
        yield raises
    assert "\n" not in str(raises.value)
    assert len(str(raises.value)) < limit
