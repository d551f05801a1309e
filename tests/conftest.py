"""Fixtures that several test files share come from plugin modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

pytest_plugins = ["openai_server", "table_folder"]
