"""Write rows to JSONL, CSV, TSV or Parquet; the file gets its name only when it is whole."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from data.tables.atomic_write import land
from data.tables.formats import WRITABLE, Format
from data.tables.problems import RowsError
from data.tables.text import Row


class RowWriter:
    """Takes rows into `PATH.partial`, which becomes PATH when all went well.

    `columns` are all a flat format's columns, in order; JSONL needs none. `inert`: cells of CSV and
    TSV that a spreadsheet would run as formulas are written with an apostrophe before them.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[str],
        overwrite: bool = False,
        inert: bool = False,
    ) -> None:
        sink = written_format(path).sink
        assert sink is not None
        self.path = path
        self.partial = partial_of(path)
        self.written = 0
        self._overwrite = overwrite
        self._sink = sink(self.partial, columns, inert)

    def write(self, row: Row) -> None:
        with self._named():
            self._sink.write(row)
        self.written += 1

    @contextmanager
    def _named(self) -> Iterator[None]:
        """An error of writing says which file it was."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EIO, reason, str(self.partial)) from error

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._named():
                self._sink.close()
            land(self.partial, self.path, overwrite=self._overwrite)
            return
        # What went wrong is said already, and a full disk fails here once more.
        with suppress(OSError, RowsError):
            self._sink.close()
        if self.written == 0:
            self.partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def written_format(path: Path) -> Format:
    """The format by the name's ending; RowsError where none is written under it."""
    try:
        return WRITABLE[path.suffix.lower()]
    except KeyError:
        raise RowsError(
            f"{path}: its ending says no known format; use one of {', '.join(WRITABLE)}"
        ) from None
