"""Fixtures that several test files share come from plugin modules beside them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# The starter set's generator is a script of the repository, and no part of what is installed.
sys.path.insert(0, str(TESTS / "support"))

pytest_plugins = ["openai_server", "decision_server", "table_folder"]

# Hypothesis uses the same 33 examples in each run, so only a change of the code can make a test
# fail. With HYPOTHESIS_PROFILE=random, it draws 100 other examples in each run.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=33)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# The longest, to be begun first: a worker that begins one last leaves the others idle.
LONGEST = (
    *("test_notebooks", "test_goes_on", "test_rows", "test_label_page", "test_optimizers"),
    *("test_recorded", "test_rank_decisions", "test_rank_optimizer", "test_decisions"),
    *("test_kills", "test_search"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; with --no-loadscope-reorder workers take them in this order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


# Replies of one test are kept from another, and all of them out of the user's own folders; a
# terminal is of the usual kind and width.
SETTINGS = {"DSPY_JUDGES_CACHE": "none", "TERM": "xterm", "COLUMNS": "80"}
# Ends of the names under which an environment keeps a provider's key or address, and how many CI
# systems have mypy colour what it prints into a pipe.
FORGOTTEN = ("_API_KEY", "_BASE_URL", "_API_BASE", "_ENDPOINT", "FORCE_COLOR")


@pytest.fixture(autouse=True, scope="session")
def _settings() -> Iterator[None]:
    """Set what whoever runs the tests would decide; no test may ask a real provider."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.endswith(FORGOTTEN)]:
            patch.delenv(name)
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo what a test, or a library it calls, leaves in the environment for the next one."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that fails is sent again almost at once."""
    monkeypatch.setattr("judges.client.sender.FIRST_WAIT_SECONDS", 0.002)
    monkeypatch.setattr("judges.client.sender.MAX_WAIT_SECONDS", 0.01)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
