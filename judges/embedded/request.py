"""Read chat messages back into the task they state, its demos and the texts to judge.

Two dialects: the prompts of judges/prompt.py, and those of DSPy's chat and JSON adapters, which
DSPy's own optimizers send. Anything else is a request without fields.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.prompt import Field, Value

Demo = Mapping[str, str]
Dialect = Literal["project", "chat", "json", "free"]
_ROLES: tuple[Literal["input"], Literal["output"]] = ("input", "output")


@dataclass(frozen=True, slots=True)
class Task:
    """What a system message asks for, in the dialect that replies are to follow."""

    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    instruction: str
    dialect: Dialect = "project"

    @property
    def choice(self) -> Field | None:
        """The field that holds the score: the last with choices."""
        return next((field for field in reversed(self.outputs) if field.choices), None)

    @property
    def choices(self) -> tuple[Value, ...]:
        return (self.choice.choices if self.choice else None) or ()

    @property
    def compares(self) -> bool:
        """Whether the choice is between two texts: two letters or words, and texts to compare."""
        numbers = any(isinstance(choice, int) for choice in self.choices)
        return len(self.choices) == 2 and not numbers and len(self.inputs) > 1


_HEADER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_PROJECT = re.compile(
    r"\AYou read:\n(?P<inputs>.*?)\n\nYou write:\n(?P<outputs>.*?)\n\nYour task:\n(?P<task>.*)\Z",
    re.DOTALL,
)
_PROJECT_FIELD = re.compile(
    r"^- (?P<name>\w+)(?: \((?P<choices>[^()\n]*)\))?: "
    r"(?P<description>.*(?:\n(?!- \w+(?: \(.*\))?: ).*)*)",
    re.MULTILINE,
)
_DSPY = re.compile(
    r"Your input fields are:\n(?P<inputs>.*?)\nYour output fields are:\n(?P<outputs>.*?)\n"
    r"All interactions will be structured.*?your objective is:\s*(?P<task>.*)\Z",
    re.DOTALL,
)
_DSPY_FIELD = re.compile(
    r"^\d+\. `(?P<name>\w+)` \((?P<choices>.*?)\):(?P<description>.*(?:\n(?!\d+\. `).*)*)",
    re.MULTILINE,
)
_REMINDER = re.compile(
    r"\n\n(?=Reply with (?:\[\[ ## |the )|Respond with (?:the corresponding|a JSON object))"
)


def read_task(system: str) -> Task:
    """Read one system message; a message in neither dialect is all instruction."""
    if project := _PROJECT.search(system):
        return Task(*_fields(project, _PROJECT_FIELD, _project_choices), project["task"].strip())
    if dspy := _DSPY.search(system):
        lines = [line.strip() for line in dspy["task"].splitlines()]
        dialect: Dialect = "json" if "Outputs will be a JSON object" in system else "chat"
        return Task(*_fields(dspy, _DSPY_FIELD, _dspy_choices), "\n".join(lines).strip(), dialect)
    return Task((), (), system.strip(), "free")


def read_texts(task: Task, content: str) -> dict[str, str]:
    """Cut a user message into its texts, without the reminder at its end."""
    reminders = list(_REMINDER.finditer("\n\n" + content))
    body = content[: max(0, reminders[-1].start() - 2)] if reminders else content
    names = {field.name for field in task.inputs}
    return {name: text for name, text in _sections(body).items() if not names or name in names}


def read_demos(task: Task, messages: Sequence[tuple[str, str]]) -> list[Demo]:
    """The worked examples that follow the system message, from pairs of role and content."""
    return [
        {**read_texts(task, request), **_read_answer(task, answer.strip())}
        for (first_role, request), (second_role, answer) in zip(
            messages[1::2], messages[2::2], strict=False
        )
        if (first_role, second_role) == ("user", "assistant")
    ]


def _fields(
    match: re.Match[str],
    line: re.Pattern[str],
    read_choices: Callable[[str], tuple[Value, ...] | None],
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """The fields that the judge reads and those that it writes."""
    inputs, outputs = (
        tuple(
            Field(
                name=field["name"],
                description=field["description"].strip(),
                role=role,
                choices=read_choices(field["choices"] or ""),
            )
            for field in line.finditer(match[f"{role}s"])
        )
        for role in _ROLES
    )
    return inputs, outputs


def _project_choices(choices: str) -> tuple[Value, ...] | None:
    """The values of "1, 2 or 3"."""
    if not choices:
        return None
    words = re.split(r", | or ", choices)
    return tuple(int(word) if re.fullmatch(r"-?\d{1,9}", word) else word for word in words)


def _dspy_choices(kind: str) -> tuple[Value, ...] | None:
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
    """The text under each header, by field name; the first where a header is repeated."""
    headers = list(_HEADER.finditer(body))
    ends = [*(header.start() for header in headers), len(body)][1:]
    sections: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=True):
        sections.setdefault(header[1], body[header.end() : end].strip())
    return sections


def _read_answer(task: Task, content: str) -> dict[str, str]:
    """A demo's answer by output name, in the dialect of the task; {} where unreadable."""
    if task.dialect == "json":
        try:
            values = json.loads(content)
        except ValueError:
            return {}
        return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}
    sections = _sections(content)
    if not sections and len(task.outputs) == 1:
        return {task.outputs[0].name: content}
    return sections


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of the texts by what they are.

    candidates: the judged text, or the two that are compared. documents: what it was made from.
    turns: what it answers (a query, a dialogue so far). knowledge: facts given to use.
    condenses: whether the judged text is a shorter form of the documents.
    """

    candidates: tuple[str, ...]
    documents: tuple[str, ...]
    turns: tuple[str, ...]
    knowledge: tuple[str, ...]
    is_summary: bool


_JUDGED = re.compile(
    r"\bto (?:be )?(?:judge|rate|score|evaluate|assess|grade)|\b(?:judged|rated)\b"
)
_CANDIDATE = re.compile(
    r"summar(?:y|ies|isation|ization)|respon|answer|output|repl(?:y|ies)|translation|candidate"
    r"|generated|completion|hypothesis|headline|caption|rewrit|paraphrase|essay|story|argument"
)
# "the text that was summarized" names the source, not the summary.
_SOURCE_TEXT = re.compile(r"that (?:was|were|is) |\bsource\b|summari[sz]ed\b|replied to")
_CONDENSED = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURNS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_KNOWLEDGE = re.compile(r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes")
_SIDE = re.compile(r"(?:^|_)(?:a|1|one|first|left)$|(?:^|_)(?:b|2|two|second|right)$")


def read_roles(fields: Sequence[Field], *, compares: bool) -> Roles:
    """Tell by names and descriptions which text is judged; of one text alone, it is that."""
    candidates: tuple[str, ...] = ()
    if compares:
        sides = [field.name for field in fields if _SIDE.search(field.name.lower())]
        candidates = tuple((sides if len(sides) >= 2 else [field.name for field in fields])[-2:])
    elif fields:
        candidates = (max(fields, key=lambda field: _candidacy(field, fields)).name,)
    is_summary = any(_CONDENSED.search(_words(f)) for f in fields if f.name in candidates)
    documents, turns, knowledge = [], [], []
    for field in fields:
        if field.name in candidates:
            continue
        name, words = field.name.lower(), _words(field)
        if _KNOWLEDGE.search(name) or (_KNOWLEDGE.search(words) and not is_summary):
            knowledge.append(field.name)
        elif not is_summary and (_TURNS.search(name) or _TURNS.search(words)):
            turns.append(field.name)
        else:
            documents.append(field.name)
    return Roles(candidates, tuple(documents), tuple(turns), tuple(knowledge), is_summary)


def _words(field: Field) -> str:
    return f"{field.name} {field.description}".lower().replace("_", " ")


def _candidacy(field: Field, fields: Sequence[Field]) -> float:
    """How much a field looks like the judged text; the later of equals wins."""
    name, description = field.name.lower(), field.description.lower()
    judged = _SOURCE_TEXT.search(description) is None
    return (
        4 * bool(_JUDGED.search(description)) * judged
        + 3 * bool(_CANDIDATE.search(name))
        + bool(_CANDIDATE.search(description)) * judged
        - 2 * bool(_TURNS.search(name) or _KNOWLEDGE.search(name))
        + 0.5 * fields.index(field) / len(fields)
    )
