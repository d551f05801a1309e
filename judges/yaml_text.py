"""Read YAML as plain data: no objects, no aliases, no doubled keys, bounded in size and depth."""

from pathlib import Path
from typing import Any

import yaml

MOST_DEPTH = 12


class YamlTextError(ValueError):
    """A file that is no such YAML; the message says at which line."""


def read_yaml(path: Path, *, most_bytes: int) -> object:
    """The one document of a file; raises YamlTextError, or OSError where it cannot be read."""
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise YamlTextError(f"more than {most_bytes:,} bytes")
    try:
        return yaml.load(raw.decode("utf-8-sig"), Loader=_PlainLoader)
    except UnicodeDecodeError as error:
        raise YamlTextError(f"not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise YamlTextError(_told(error)) from error
    except (RecursionError, ValueError) as error:
        raise YamlTextError(f"not plain YAML: {error}") from error


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader without aliases (they can grow without end), with unique keys and little depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise self._refuse("an alias (*), which is not taken here")
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self._refuse("nested too deeply")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _refuse(self, problem: str) -> yaml.MarkedYAMLError:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _told(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {problem}" if mark else f"not YAML: {problem}"
