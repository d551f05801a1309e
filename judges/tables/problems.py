"""The problems of a file, which are collected so that a check can list all of them."""

import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges import bounds
from dspy_judges.errors import JudgesError


class RowsError(JudgesError, ValueError):
    """A table cannot be read or written."""


_REPR = reprlib.Repr()
_REPR.maxstring = 60
_REPR.maxother = 60
# Stands for no value, since None may be a value to print.
NO_VALUE = object()


class UnreadableError(JudgesError):
    """A file or a cell cannot be read; `Problems` adds the file's name."""

    def __init__(
        self, kind: str, fault: str, advice: str, value: object = NO_VALUE, line: int | None = None
    ) -> None:
        super().__init__(fault)
        self.kind, self.fault, self.advice = kind, fault, advice
        self.value, self.line = value, line


def beyond(fault: str, line: int | None = None) -> UnreadableError:
    """The error for a file beyond one of the bounds (`dspy_judges.bounds`)."""
    advice = "leave out what no judge reads, or split it"
    return UnreadableError("too-large", fault, advice, line=line)


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a file: its place, what is wrong, and what to do.

    `kind` is a word for all faults of its sort, and `value` is an excerpt that can be printed.
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
        where = [self.file]
        if self.line is not None:
            where.append(f"{self.unit} {self.line}")
        if self.field is not None:
            where.append(f"field {excerpt(self.field)}")
        fault = self.fault if self.value is None else f"{self.value} {self.fault}"
        return f"{', '.join(where)}: {fault}; {self.advice}"


class Problems(list[Problem]):
    """The problems of one file, in order; if `strict`, the first one raises RowsError.

    `notes` say how the file was read where that is not obvious; `unit` is the word for its lines.
    """

    def __init__(self, file: str, *, strict: bool = False) -> None:
        super().__init__()
        self.file = file
        self.unit = "row"
        self.notes: list[str] = []
        self.delimiter = ""
        self._strict = strict

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
        """Append a problem, with an excerpt of `value`."""
        text = None if value is NO_VALUE else excerpt(value)
        problem = Problem(self.file, kind, fault, advice, self.unit, line, field, text)
        self.append(problem)
        if self._strict:
            raise RowsError(str(problem))
        if len(self) > bounds.MAX_PROBLEMS:
            raise RowsError(f"{self[0]} (the first of more than {bounds.MAX_PROBLEMS:,} problems)")

    @contextmanager
    def collect(self, *, line: int | None = None, field: str | None = None) -> Iterator[None]:
        """Add the error that is raised inside: one of the file, or of a cell in line and column."""
        try:
            yield
        except UnreadableError as error:
            line, value = line or error.line, error.value
            self.add(error.kind, error.fault, error.advice, line=line, field=field, value=value)


def excerpt(value: object) -> str:
    """A value for a message: short, on one line, with control characters escaped."""
    text = _REPR.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def joined_names(names: Sequence[str]) -> str:
    """Names from a file for a message: the first dozen, short and printable."""
    short = ["".join(c if c.isprintable() else "?" for c in name[:40]) for name in names[:12]]
    return ", ".join([*short, "..."] if len(names) > 12 else short) or "none"


def count(number: int, word: str) -> str:
    """A number with its noun: 1 text, 2 texts, 1,000 texts."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
