"""Read and write Parquet files, and load Hugging Face data sets."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dspy_judges import bounds
from judges.tables.problems import (
    Problems,
    RowsError,
    UnreadableError,
    check_unique,
    excerpt,
    joined_names,
    size_error,
)
from judges.tables.text import Record, TableRow

HUB_PREFIX = "hf:"
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def parquet_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a Parquet file; raises UnreadableError for a damaged or too large file."""
    import pyarrow.parquet

    row_number = 0
    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as parquet:
            check_unique(parquet.schema_arrow.names)
            row_groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
            # Parquet stores a repeated text only once in each row group. So a single row may unpack
            # to as many bytes as its whole row group has.
            max_row_bytes = max((group.total_byte_size for group in row_groups), default=0)
            batch_size = min(max(bounds.MAX_BYTES // (4 * max_row_bytes + 1), 1), 100)
            for batch in parquet.iter_batches(batch_size=batch_size):
                if batch.nbytes > bounds.MAX_BYTES:
                    raise size_error(f"has a row of more than {bounds.MAX_BYTES >> 20} MiB")
                for cells in batch.to_pylist(maps_as_pydicts="lossy"):
                    row_number += 1
                    bounds.estimate_memory(cells)  # raises ValueError for deeply nested cells
                    yield TableRow(row_number, cells)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        fault = f"cannot be read as Parquet ({excerpt(str(error))})"
        advice = "write the file again, for instance with DataFrame.to_parquet"
        raise UnreadableError("bad-parquet", fault, advice) from error


class ParquetSink:
    """Collects all rows, and writes them on `close`: a column's type depends on all its cells."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._cells_by_column: dict[str, list[object]] = {name: [] for name in columns}

    def write(self, row: Record) -> None:
        for column, cells in self._cells_by_column.items():
            cells.append(row.get(column))

    def close(self) -> None:
        """Write the collected rows. Raises RowsError if a column has values of several types."""
        import pyarrow as pa
        import pyarrow.parquet

        array_by_column = {}
        for column, cells in self._cells_by_column.items():
            try:
                array_by_column[column] = pa.array(cells)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise RowsError(
                    f"{self._path}: the column {column!r} holds values of several types, which "
                    f"Parquet cannot hold ({excerpt(str(error))}); write .csv or .jsonl"
                ) from error
        pyarrow.parquet.write_table(pa.table(array_by_column), self._path)


def load_dataset(path: str) -> object:
    """Load the Hugging Face data set `hf:owner/name` or `hf:owner/name:split`."""
    import datasets

    name, _, split = path.removeprefix(HUB_PREFIX).partition(":")
    # The library logs a warning for each retry of a request, so its warnings are turned off.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        if not _HUB_NAME.fullmatch(name) or Path(name).exists():
            # Only a name on the hub may be read, but the library would also read URLs and folders.
            raise ValueError("not the name of a data set on the hub")
        dataset = datasets.load_dataset(name, split=split or None)
    except Exception as error:
        fault = f"cannot be loaded ({type(error).__name__}: {excerpt(str(error))})"
        raise UnreadableError("bad-dataset", fault, "give hf:owner/name") from error
    if isinstance(dataset, Mapping) and len(dataset) > 1:
        fault = f"has the splits {joined_names(sorted(dataset))}"
        advice = f"add one of the splits to the name, as in {HUB_PREFIX}{name}:{min(dataset)}"
        raise UnreadableError("no-split", fault, advice)
    return next(iter(dataset.values())) if isinstance(dataset, Mapping) else dataset
