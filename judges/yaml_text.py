"""Read YAML as plain data: no tags, aliases or doubled keys, bounded in size and depth."""

from pathlib import Path
from typing import Any

import yaml

from judges.errors import JudgesError

MAX_DEPTH = 12
MAX_VALUES = 20_000  # about two seconds' work for the parser


class YamlTextError(JudgesError, ValueError):
    """A file that is no such YAML; the message says at which line."""


def read_yaml(path: Path, *, max_bytes: int) -> object:
    """The one document of a file; raises YamlTextError, or OSError where it cannot be read."""
    if path.exists() and not path.is_file():
        raise YamlTextError("not a regular file")
    with path.open("rb") as file:
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise YamlTextError(f"more than {max_bytes:,} bytes")
    try:
        return yaml.load(raw.decode("utf-8-sig"), Loader=_PlainLoader)
    except UnicodeDecodeError as error:
        raise YamlTextError(f"not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise YamlTextError(_problem(error)) from error
    except RecursionError as error:
        raise YamlTextError("nested too deeply") from error
    # What the parser lets through of values it cannot make: dates, numbers, keys that are lists.
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise YamlTextError(f"not plain YAML: {' '.join(str(error).split())[:200]}") from error


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader without tags and aliases (they grow without end), with unique keys and bounds."""

    depth = 0
    size = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse("an alias (*), which is not taken here")
        if getattr(event, "tag", None) is not None:
            raise self._refuse(f"a tag ({event.tag[:40]!r}), which is not taken here")
        self.size += 1
        if self.size > MAX_VALUES:
            raise self._refuse(f"more than {MAX_VALUES:,} values")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._refuse("nested too deeply")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _refuse(self, problem: str) -> yaml.MarkedYAMLError:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problem = "a list or mapping as a key, where a word belongs"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            if key.value in keys:
                problem = f"the key {key.value[:60]!r} stands twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    problem = " ".join(problem.split())[:200]
    if problem == "mapping values are not allowed here":
        problem = "a second ': ', or a line set in too far; a value with ': ' goes in quotes"
    return f"line {mark.line + 1}: {problem}" if mark else f"not YAML: {problem}"
