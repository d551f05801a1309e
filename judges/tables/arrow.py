"""Reads and writes Parquet files, and loads Hugging Face data sets."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dspy_judges import bounds
from judges.tables.problems import (
    Problems,
    RowsError,
    UnreadableError,
    excerpt,
    joined_names,
    too_large,
)
from judges.tables.text import Row, TableRow

HUB = "hf:"
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def parquet_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a Parquet file; raises UnreadableError if it is damaged or too large."""
    import pyarrow.parquet

    number = 0
    try:
        # The metadata of columns is not read, since in a damaged file it may crash the process.
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
            # A text that rows repeat is stored once, so each row may unpack to its group's size.
            largest_group = max((group.total_byte_size for group in groups), default=0)
            batch_size = min(max(bounds.MAX_BYTES // (4 * largest_group + 1), 1), 1000)
            names = Counter(parquet.schema_arrow.names)
            if duplicates := [name for name, n in names.items() if n > 1]:
                advice = "give every column its own name"
                raise UnreadableError("twice", "names two columns", advice, min(duplicates))
            if len(names) > bounds.MAX_COLUMNS:
                raise too_large(f"has more than {bounds.MAX_COLUMNS:,} columns")
            for batch in parquet.iter_batches(batch_size=batch_size):
                if batch.nbytes > bounds.MAX_BYTES:
                    raise too_large(
                        f"has a row that unpacks to more than {bounds.MAX_BYTES >> 20} MiB"
                    )
                for cells in batch.to_pylist(maps_as_pydicts="lossy"):
                    number += 1
                    bounds.memory_of(cells)  # raises ValueError if they are nested too deeply
                    yield TableRow(number, cells)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        fault = f"cannot be read as Parquet ({excerpt(str(error))})"
        advice = "write it again, for instance with DataFrame.to_parquet"
        raise UnreadableError("bad-parquet", fault, advice) from error


class ParquetSink:
    """Collects rows, and writes them when it is closed and the types of all cells are known."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._cells: dict[str, list[object]] = {name: [] for name in columns}

    def write(self, row: Row) -> None:
        for name, cells in self._cells.items():
            cells.append(row.get(name))

    def close(self) -> None:
        """Write the rows; raises RowsError if a column has values of several types."""
        import pyarrow as pa
        import pyarrow.parquet

        arrays = {}
        for name, cells in self._cells.items():
            try:
                arrays[name] = pa.array(cells)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise RowsError(
                    f"{self._path}: the column {name!r} holds values of several types, which "
                    f"Parquet cannot hold ({excerpt(str(error))}); write .csv or .jsonl"
                ) from error
        pyarrow.parquet.write_table(pa.table(arrays), self._path)


def load_dataset(path: str) -> object:
    """Load the Hugging Face data set `hf:owner/name` or `hf:owner/name:split`.

    Raises UnreadableError if it cannot be loaded, or has several splits and none is named.
    """
    import datasets

    name, _, split = path.removeprefix(HUB).partition(":")
    # The library logs each of its retries.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        if not _HUB_NAME.fullmatch(name) or Path(name).exists():
            # The library would take such a name for a URL or a folder.
            raise ValueError("not the name of a data set on the hub")
        loaded = datasets.load_dataset(name)
    except Exception as error:
        fault = f"cannot be loaded ({type(error).__name__}: {excerpt(str(error))})"
        raise UnreadableError("bad-dataset", fault, "give hf:owner/name") from error
    splits: Mapping[str, object] = loaded if isinstance(loaded, Mapping) else {"": loaded}
    split = split or (min(splits) if len(splits) == 1 else "")
    if split not in splits:
        fault = f"has the splits {joined_names(sorted(splits))}, but not {split!r}"
        advice = f"add one to its name, as in {HUB}{name}:{min(splits)}"
        raise UnreadableError("no-split", fault, advice)
    return splits[split]
