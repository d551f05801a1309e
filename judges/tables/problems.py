"""The problems of a file. They are collected, so that a check can list all of them."""

import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges import bounds
from dspy_judges.errors import JudgesError


class RowsError(JudgesError, ValueError):
    """Raised if a table cannot be read or written."""


_REPR = reprlib.Repr()
_REPR.maxstring = 60
_REPR.maxother = 60
# Means that there is no value to print; None may itself be a value.
NO_VALUE = object()


class UnreadableError(JudgesError):
    """Raised if a file or a cell cannot be read; `Problems.collect` turns it into a problem.

    The arguments are those of `Problems.add`, which knows the file.
    """

    def __init__(
        self, kind: str, fault: str, advice: str, value: object = NO_VALUE, line: int | None = None
    ) -> None:
        super().__init__(fault)
        self.kind, self.fault, self.advice = kind, fault, advice
        self.value, self.line = value, line


def too_large(fault: str, line: int | None = None) -> UnreadableError:
    """Return the error for a file that exceeds one of the bounds in `dspy_judges.bounds`."""
    advice = "leave out columns that no judge reads, or split the file"
    return UnreadableError("too-large", fault, advice, line=line)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file: where it is, what is wrong, and what to do.

    `kind` is a short code for problems of this kind, such as "no-id". `fault` says what is wrong
    and `advice` what to do. `unit` is what `line` counts: lines or rows. `value` is a printable
    excerpt of the faulty value.
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
    """The problems of one file, in order; with `strict`, the first one raises RowsError.

    `notes` say how the file was read, if that is not obvious. `unit` is what its line numbers
    count, "line" or "row". `delimiter` is that of a CSV file.
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
        """Append a problem with an excerpt of `value`.

        Raises RowsError if `strict`, or if there are too many problems.
        """
        text = None if value is NO_VALUE else excerpt(value)
        problem = Problem(self.file, kind, fault, advice, self.unit, line, field, text)
        self.append(problem)
        if self._strict:
            raise RowsError(str(problem))
        if len(self) > bounds.MAX_PROBLEMS:
            raise RowsError(f"{self[0]} (the first of more than {bounds.MAX_PROBLEMS:,} problems)")

    @contextmanager
    def collect(self, *, line: int | None = None, field: str | None = None) -> Iterator[None]:
        """Turn an UnreadableError that is raised in the block into a problem, and continue."""
        try:
            yield
        except UnreadableError as error:
            line, value = line or error.line, error.value
            self.add(error.kind, error.fault, error.advice, line=line, field=field, value=value)


def excerpt(value: object) -> str:
    """Return a value for a message: short, on one line, with control characters escaped."""
    text = _REPR.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def joined_names(names: Sequence[str]) -> str:
    """Join names from a file for a message: the first dozen, shortened and printable."""
    short = ["".join(c if c.isprintable() else "?" for c in name[:40]) for name in names[:12]]
    return ", ".join([*short, "..."] if len(names) > 12 else short) or "none"


def count(number: int, word: str) -> str:
    """Return a number with its noun: 1 text, 2 texts, 1,000 texts."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
