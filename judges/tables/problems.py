"""Collect all problems of a file of labels, so that the command `check` can list all of them."""

import reprlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges import bounds
from dspy_judges.errors import JudgesError


class RowsError(JudgesError, ValueError):
    """Raised if a table cannot be read or written."""


_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxstring = 60
_SHORT_REPR.maxother = 60
# Marks a problem without a faulty value. None cannot mark it, since None may be the value.
NO_VALUE = object()


class UnreadableError(JudgesError):
    """Raised if a file or a cell cannot be read; `Problems.collect` turns it into a `Problem`."""

    def __init__(
        self, kind: str, fault: str, advice: str, value: object = NO_VALUE, line: int | None = None
    ) -> None:
        super().__init__(fault)
        self.kind, self.fault, self.advice = kind, fault, advice
        self.value, self.line = value, line


def size_error(fault: str, line: int | None = None) -> UnreadableError:
    """Return the error for a file that exceeds a limit in `dspy_judges.bounds`."""
    advice = "leave out columns that no judge reads, or split the file"
    return UnreadableError("too-large", fault, advice, line=line)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file: where it is, what is wrong, and what to do about it.

    `kind` is a short code that all problems of one sort share, such as "no-id". `fault` says what
    is wrong, and `advice` what to do. `line` is the number of the faulty line or row, and `unit`
    says which of the two it counts. `value` is a printable excerpt of the faulty value.
    """

    file: str
    kind: str
    fault: str
    advice: str
    unit: str = "line"
    line: int | None = None
    field: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        location_parts = [self.file]
        if self.line is not None:
            location_parts.append(f"{self.unit} {self.line}")
        if self.field is not None:
            location_parts.append(f"field {excerpt(self.field)}")
        fault = self.fault if self.value is None else f"{self.value} {self.fault}"
        return f"{', '.join(location_parts)}: {fault}; {self.advice}"


def problem_lines(problems: Iterable[Problem]) -> list[str]:
    """Return a line for each kind of problem in a column: the first problem, and the other rows."""
    similar_problems: dict[tuple[str | None, ...], list[Problem]] = defaultdict(list)
    for problem in problems:
        key = problem.file, problem.kind, problem.field, problem.advice
        similar_problems[key].append(problem)
    lines: list[str] = []
    for first, *others in similar_problems.values():
        line = str(first)
        if others:
            rows = [f"{other.line}{_difference(other, first)}" for other in others[:12]]
            n_text = count_text(len(others), f"more {first.unit}")
            line += f" (also in {n_text}: {'; '.join(rows)}{'; ...' * (len(others) > 12)})"
        lines.append(line)
    return lines


def _difference(problem: Problem, first: Problem) -> str:
    """Return a problem's value, or its value and fault, if the first problem has others."""
    if problem.fault == first.fault:
        return "" if problem.value == first.value else f": {problem.value}"
    return ": " + " ".join(filter(None, (problem.value, problem.fault)))


class Problems(list[Problem]):
    """The problems of one file, in the order in which they were found.

    `notes` are messages on how the file was read. `unit` says whether a problem's `line` counts
    lines or rows. `delimiter` stands between the cells of a CSV file.
    """

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.unit = "row"
        self.notes: list[str] = []
        self.delimiter = ""

    def add(
        self,
        kind: str,
        fault: str,
        advice: str,
        *,
        line: int | None = None,
        field: str | None = None,
        value: object = NO_VALUE,
    ) -> None:
        """Append a problem, with an excerpt of the faulty `value` if there is one."""
        value_excerpt = None if value is NO_VALUE else excerpt(value)
        self.append(Problem(self.file, kind, fault, advice, self.unit, line, field, value_excerpt))
        if len(self) > bounds.MAX_PROBLEMS:
            raise RowsError(f"{self[0]} (the first of more than {bounds.MAX_PROBLEMS:,} problems)")

    def lines_text(self, lines: Sequence[int]) -> str:
        """Return the numbers of lines or rows for a message, such as "rows 2, 3"."""
        return f"{self.unit}{'s' * (len(lines) > 1)} {joined_names([*map(str, lines)])}"

    @contextmanager
    def collect(self, *, line: int | None = None, field: str | None = None) -> Iterator[None]:
        """Turn an UnreadableError that is raised within this context into a problem."""
        try:
            yield
        except UnreadableError as error:
            line, value = line or error.line, error.value
            self.add(error.kind, error.fault, error.advice, line=line, field=field, value=value)


def check_unique(names: Iterable[str], line: int | None = None) -> None:
    """Raise UnreadableError if two columns have the same name."""
    for name, n_columns in Counter(names).most_common(1):
        if n_columns > 1:
            advice = "give every column its own name, in one header row"
            raise UnreadableError("twice", "names two columns", advice, name, line)


def excerpt(value: object) -> str:
    """Return the `repr` of a value for a message, shortened to at most 80 characters."""
    text = _SHORT_REPR.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def joined_names(names: Sequence[str]) -> str:
    """Join names for a message: at most twelve names, each of at most 40 printable characters."""
    shown_names = ["".join(filter(str.isprintable, name[:40])) for name in names[:12]]
    if len(names) > 12:
        shown_names.append("...")
    return ", ".join(shown_names) or "none"


def count_text(number: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless the number is 1: "1,000 texts"."""
    ending = "es" if noun.endswith("ss") else "s"
    return f"{number:,} {noun}{ending * (number != 1)}"
