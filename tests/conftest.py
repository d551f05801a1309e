"""Fixtures that several test files share come from plugin modules beside them."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent
# The starter set's generator is a script of the repository, and no part of what is installed.
sys.path[:0] = [str(TESTS), str(TESTS.parent / "tools")]

pytest_plugins = ["openai_server", "table_folder"]
