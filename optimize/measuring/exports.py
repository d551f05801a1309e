"""Declare how the results of other tools are recognised, and where their scores are.

The formats are those of files that the tools wrote; docs/other_tools.md lists the tools' versions.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from judges.labels.cells import first_value, value_at
from judges.tables.text import Record
from optimize.measuring.recorded import SCORE_BY_WORD

# The columns in which tools put a row's id and texts, and a score's metric, value and reason. The
# first of these columns that a row has is read. In "a.b", b is a key of the object in column a.
COLUMNS_BY_CONTENT: dict[str, tuple[str, ...]] = {
    "id": (
        *("id", "name", "example_id", "metadata.id", "vars.id", "inputs.id", "request.id"),
        *("example.inputs.id", "example.id"),
    ),
    "input": ("input", "inputs", "vars", "request", "user_input", "example.inputs"),
    "output": ("output", "outputs", "response", "actualOutput", "run.outputs"),
    "metric": ("assertion.metric", "assertion.type", "assessment_name", "key", "name"),
    "value": ("score", "value", "feedback.value"),
    "verdict": ("success", "pass"),
    "reason": ("reason", "explanation", "rationale"),
    "failure": ("error", "feedback.error.error_message", "metadata.graderError"),
}


@dataclass(frozen=True)
class Tool:
    """A declaration of another tool's results: how a file is recognised, where its scores are.

    Attributes:
        name: The tool's name, for messages.
        columns: Regular expressions. The tool wrote a file if each one matches one of its columns.
        scores: The column that holds a row's scores: a list with an object for each metric, or an
            object with a number or an object for each metric. In "a.b", b is a key in a's object.
        rows: The path to the rows in a JSON object; empty if the file is the list of rows itself.
        words: The scores of further words, beside yes, no, true, false, pass and fail.
        places: The tool's columns by their content, tried before those of `COLUMNS_BY_CONTENT`.
        score_columns: A regular expression for columns that hold one score each, with a group for
            the metric's name; empty for a tool without such columns.
        refusal: Why the tool's files cannot be read, and what to do; empty if they can be read.
    """

    name: str
    columns: tuple[str, ...]
    scores: str = ""
    rows: str = ""
    words: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    score_columns: str = ""
    refusal: str = ""

    @property
    def score_by_word(self) -> dict[str, float]:
        return {**SCORE_BY_WORD, **self.words}

    def matches(self, columns: Collection[str]) -> bool:
        """Return whether the tool wrote a file with these columns."""
        return all(any(re.fullmatch(pattern, name) for name in columns) for pattern in self.columns)

    def columns_of(self, content: str) -> tuple[str, ...]:
        """Return the columns that may hold this content, the tool's own columns first."""
        return (*self.places.get(content, ()), *COLUMNS_BY_CONTENT[content])

    def value_of(self, row: Record, *contents: str) -> object:
        """Return the first of these contents that the row has; None if the row has none of them."""
        return first_value(row, [*chain.from_iterable(map(self.columns_of, contents))])

    def texts_of(self, row: Record, content: str) -> set[str]:
        """Return all texts in the columns that may hold this content, also in nested objects."""
        columns = self.columns_of(content)
        values = [value for column, value in row.items() if column.partition(".")[0] in columns]
        return {*texts_inside([*values, *(value_at(row, column) for column in columns)])}


def texts_inside(value: object) -> Iterator[str]:
    """Yield all texts in a value, which may be a text or nested lists and objects."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict | list):
        inner_values = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(texts_inside, inner_values))


# Each column of a Ragas file is read as a metric, apart from the columns of the sample's texts and
# id: an id may be a number like a score.
_RAGAS_METRICS = "(?!(?:id|user_input|response|reference)$)(.+)"
_PROMPTFOO_ADVICE = "rounds scores; export by `promptfoo eval -o results.json`"
# The last tool that matches a file is used, so a tool that a user appends is tried first.
TOOLS = [
    Tool("Ragas", ("user_input", "response"), score_columns=_RAGAS_METRICS),
    Tool("LangSmith", ("run", "evaluation_results"), "evaluation_results.results"),
    Tool("LangSmith", ("example_id", r"feedback\..+"), score_columns=r"feedback\.(.+)"),
    Tool("MLflow", ("inputs", r".+/v\d/score"), score_columns=r"(.+)/v\d/score"),
    Tool("MLflow", ("trace_id", "assessments"), "assessments"),
    Tool("DeepEval", ("actualOutput", "metricsData"), "metricsData", "testCases"),
    Tool("promptfoo", ("Status", "Grader Reason"), refusal=_PROMPTFOO_ADVICE),
    Tool("promptfoo", ("vars", "success"), "gradingResult.componentResults", "results.results"),
    Tool("Inspect", ("epoch", "scores"), "scores", "samples", {"c": 1, "p": 0.5, "i": 0, "n": 0}),
]
