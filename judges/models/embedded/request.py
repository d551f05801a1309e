"""Read chat messages back into the task they state, its demos and the texts to judge.

Two dialects: the prompts of judges/prompt.py, and those of DSPy's chat and JSON adapters, which
DSPy's own optimizers send. Anything else is a request without fields.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.models.protocol import Message
from judges.prompt import Field, Value

Style = Literal["ours", "chat", "json", "free"]


@dataclass(frozen=True, slots=True)
class Task:
    """What a system message asks for."""

    reads: tuple[Field, ...]
    writes: tuple[Field, ...]
    instruction: str
    style: Style

    @property
    def choice(self) -> Field | None:
        """The field that holds the score: the last with choices."""
        return next((field for field in reversed(self.writes) if field.choices), None)

    @property
    def compares(self) -> bool:
        """Whether the choice is between two texts: two letters or words, and texts to compare."""
        choices = self.choice.choices if self.choice else None
        words = choices is not None and not any(isinstance(one, int) for one in choices)
        return words and choices is not None and len(choices) == 2 and len(self.reads) > 1


Demo = Mapping[str, str]

_HEADER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_OURS = re.compile(
    r"\AYou read:\n(?P<reads>.*?)\n\nYou write:\n(?P<writes>.*?)\n\nYour task:\n(?P<task>.*)\Z",
    re.DOTALL,
)
_TOLD = re.compile(r"reads:\n(?P<reads>.*?)\n[^\n]*writes:\n(?P<writes>.*)\Z", re.DOTALL)
_LINE = re.compile(
    r"^- (?P<name>\w+)(?: \((?P<choices>[^()\n]*)\))?: "
    r"(?P<what>.*(?:\n(?!- \w+(?: \(.*\))?: ).*)*)",
    re.MULTILINE,
)
_DSPY = re.compile(
    r"Your input fields are:\n(?P<reads>.*?)\nYour output fields are:\n(?P<writes>.*?)\n"
    r"All interactions will be structured.*?your objective is:\s*(?P<task>.*)\Z",
    re.DOTALL,
)
_NUMBERED = re.compile(
    r"^\d+\. `(?P<name>\w+)` \((?P<kind>.*?)\):(?P<what>.*(?:\n(?!\d+\. `).*)*)", re.MULTILINE
)
_TAIL = re.compile(
    r"\n\n(?=Reply with (?:\[\[ ## |the )|Respond with (?:the corresponding|a JSON object))"
)


def read_task(system: str) -> Task:
    """Read one system message; a message in neither dialect is all instruction."""
    ours = _OURS.search(system)
    if ours:
        return Task(
            tuple(_our_fields(ours["reads"], "input")),
            tuple(_our_fields(ours["writes"], "output")),
            ours["task"].strip(),
            "ours",
        )
    dspy = _DSPY.search(system)
    if dspy:
        style: Style = "json" if "Outputs will be a JSON object" in system else "chat"
        return Task(
            tuple(_dspy_fields(dspy["reads"], "input")),
            tuple(_dspy_fields(dspy["writes"], "output")),
            "\n".join(line.strip() for line in dspy["task"].splitlines()).strip(),
            style,
        )
    return Task((), (), system.strip(), "free")


def read_described(text: str) -> Task:
    """Read a task as a proposer is told of it: what the judge reads and what it writes."""
    found = _TOLD.search(text)
    if not found:
        return Task((), (), text.strip(), "free")
    return Task(
        tuple(_our_fields(found["reads"], "input")),
        tuple(_our_fields(found["writes"], "output")),
        "",
        "ours",
    )


def read_texts(task: Task, content: str) -> dict[str, str]:
    """Cut a user message into its texts; what a text lacks is ""."""
    tails = list(_TAIL.finditer("\n\n" + content))
    body = content[: max(0, tails[-1].start() - 2)] if tails else content
    names = {field.name for field in task.reads}
    return {name: text for name, text in _sections(body).items() if not names or name in names}


def read_demos(task: Task, messages: Sequence[Message]) -> list[Demo]:
    """The worked examples between the system message and the last one."""
    demos: list[Demo] = []
    for user, assistant in zip(messages[1:-1:2], messages[2:-1:2], strict=False):
        if user["role"] == "user" and assistant["role"] == "assistant":
            demos.append({**read_texts(task, user["content"]), **_answers(task, assistant)})
    return demos


def _our_fields(block: str, role: Literal["input", "output"]) -> list[Field]:
    return [
        Field(
            name=line["name"],
            description=line["what"].strip(),
            role=role,
            choices=_either(line["choices"]) if line["choices"] else None,
        )
        for line in _LINE.finditer(block)
    ]


def _either(choices: str) -> tuple[Value, ...]:
    return tuple(_value(word) for word in re.split(r", | or ", choices))


def _value(word: str) -> Value:
    return int(word) if re.fullmatch(r"-?\d{1,9}", word) else word


def _dspy_fields(block: str, role: Literal["input", "output"]) -> list[Field]:
    return [
        Field(
            name=line["name"],
            description=line["what"].strip(),
            role=role,
            choices=_literal(line["kind"]),
        )
        for line in _NUMBERED.finditer(block)
    ]


def _literal(kind: str) -> tuple[Value, ...] | None:
    """The values of "Literal[1, 2, 3]"; other types have none, but a truth has two."""
    if kind == "bool":
        return ("True", "False")
    if not kind.startswith("Literal["):
        return None
    try:
        values = ast.literal_eval(kind.removeprefix("Literal"))
    except (ValueError, SyntaxError):
        return None
    return tuple(value if isinstance(value, int) else str(value) for value in values) or None


def _sections(body: str) -> dict[str, str]:
    headers = list(_HEADER.finditer(body))
    ends = [*(header.start() for header in headers), len(body)][1:]
    sections: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=True):
        sections.setdefault(header[1], body[header.end() : end].strip())
    return sections


def _answers(task: Task, message: Message) -> dict[str, str]:
    content = message["content"].strip()
    if task.style == "json":
        try:
            told = json.loads(content)
        except ValueError:
            return {}
        return {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}
    found = _sections(content)
    if not found and len(task.writes) == 1:
        return {task.writes[0].name: content}
    return found
