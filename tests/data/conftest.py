"""Every test of a reader writes its files into an empty working folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _folder(here: Path) -> None: ...
