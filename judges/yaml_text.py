"""Read YAML as plain data, bounded in size."""

from pathlib import Path

import yaml

from dspy_judges.errors import JudgesError


class YamlTextError(JudgesError, ValueError):
    """A file that is no such YAML; the message says at which line."""


def read_yaml(path: Path, *, max_bytes: int) -> object:
    """The one document of a file; raises YamlTextError, or OSError where it cannot be read."""
    if not path.is_file():
        raise YamlTextError("not a regular file" if path.exists() else "no such file")
    if path.stat().st_size > max_bytes:
        raise YamlTextError(f"more than {max_bytes:,} bytes")
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except RecursionError as error:
        raise YamlTextError("nested too deeply") from error
    # YAMLError, and what the parser lets through of values that it cannot make: dates, numbers.
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise YamlTextError(f"not YAML: {' '.join(str(error).split())[:300]}") from error
