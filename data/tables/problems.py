"""What is wrong with a file: one problem each, collected, so that a check can tell all at once."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


class DataError(Exception):
    """What is wrong with a table or with labels: file, line, field and value, and the way out."""


class RowsError(DataError, ValueError):
    """A table that cannot be read or written; the message names file, line and the way out."""


Unit = Literal["line", "row"]

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = 60
_SHOWN.maxother = 60


class _Nothing:
    """No value to show, where None is one."""


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of a file: where it is, what it is, and the way out.

    `kind` is one word for what is wrong, the same for all faults of the sort; `value` is already
    fit to print.
    """

    file: str
    kind: str
    what: str
    way_out: str
    unit: Unit = "line"
    line: int | None = None
    field: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        where = [self.file]
        if self.line is not None:
            where.append(f"{self.unit} {self.line}")
        if self.field is not None:
            where.append(f"field {shown(self.field)}")
        what = self.what if self.value is None else f"{self.value} {self.what}"
        return f"{', '.join(where)}: {what}; {self.way_out}"


class Problems(list[Problem]):
    """The problems of one file, in the order they were met."""

    def __init__(self, file: str, unit: Unit = "line") -> None:
        super().__init__()
        self.file, self.unit = file, unit

    def add(
        self,
        kind: str,
        what: str,
        way_out: str,
        *,
        line: int | None = None,
        field: str | None = None,
        value: object = NOTHING,
    ) -> None:
        """Append one; `value` is shown shortened and escaped."""
        self.append(
            Problem(
                file=self.file,
                kind=kind,
                what=what,
                way_out=way_out,
                unit=self.unit,
                line=line,
                field=field,
                value=None if value is NOTHING else shown(value),
            )
        )


def shown(value: object) -> str:
    """A value as a message may carry it: short, on one line, control characters escaped."""
    return _SHOWN.repr(value)


def listed(names: Sequence[str]) -> str:
    """A file's own names as a message may carry them: the first dozen, short and printable."""
    short = ["".join(c if c.isprintable() else "?" for c in name[:40]) for name in names[:12]]
    return ", ".join([*short, "..."] if len(names) > 12 else short) or "none"


def count(number: int, word: str) -> str:
    """A number and its noun: 1 text, 2 texts, 1,000 texts."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
