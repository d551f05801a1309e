"""Parquet files and Hugging Face data sets, both of which are Arrow tables."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.tables.problems import DataError, Problems, RowsError, excerpt, joined_names
from data.tables.text import Row, TableRow, check_columns
from dspy_judges.libraries import naming_libraries

if TYPE_CHECKING:
    import datasets
    import pyarrow

_BATCH = 1000
# Parquet packs repeated values into next to nothing; honest tables unpack to less of their size.
MAX_EXPANSION = 2000
MIN_UNPACKED_LIMIT = 256 * 2**20
MAX_BATCH_SIZE = 32 * 2**20
CELL_BYTES = 32  # what any value takes as an object
HUB = "hf:"
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def parquet_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield a Parquet file's rows; what makes it unreadable goes to `problems`."""
    with naming_libraries():
        import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
        for name in sorted({name for name in names if names.count(name) > 1}):
            # A row as a dictionary would hold the last one alone.
            problems.add("twice", "names two columns", "give every column its own", field=name)
        for number, cells in enumerate(_parquet_cells(path), start=1):
            yield TableRow(number, cells)
    except _UnpacksError as error:
        problems.add("too-long", str(error), "write it anew, or in parts")
    except (pyarrow.ArrowException, OSError) as error:
        fault = f"cannot be read as Parquet ({_first_line(error)})"
        problems.add("bad-parquet", fault, "write it anew, for instance with DataFrame.to_parquet")


class _UnpacksError(DataError, ValueError):
    """A Parquet file that unpacks to far more than a table of its size holds."""


def _parquet_cells(path: Path) -> Iterator[Row]:
    """Yield a Parquet file's rows, unpacking little of it at a time; raises _UnpacksError."""
    from pyarrow.parquet import ParquetFile

    limit = max(MIN_UNPACKED_LIMIT, MAX_EXPANSION * path.stat().st_size)
    with ParquetFile(path) as parquet:
        texts = _check_metadata(parquet.metadata, limit)
    size = 0
    # Texts that repeat stay one text until they are rows.
    with ParquetFile(path, read_dictionary=texts) as parquet:
        for batch in parquet.iter_batches(batch_size=_BATCH):
            batch_size = sum(_unpacked(column) for column in batch.columns)
            size += batch_size
            if size > limit:
                raise _UnpacksError(_unpacks(size, limit))
            step = max(1, batch.num_rows * MAX_BATCH_SIZE // max(batch_size, 1))
            for start in range(0, batch.num_rows, step):
                yield from batch.slice(start, step).to_pylist(maps_as_pydicts="lossy")


def _check_metadata(metadata: "pyarrow.parquet.FileMetaData", limit: int) -> list[str]:
    """Refuse what the file itself says is too much; returns the paths of its columns of texts."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    n_values = max(metadata.num_rows, sum(chunk.num_values for chunk in chunks))
    size = max(CELL_BYTES * n_values, sum(group.total_byte_size for group in groups))
    if size > limit:
        raise _UnpacksError(_unpacks(size, limit))
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.logical_type.type in {"STRING", "NONE", "JSON"}
    ]


def _unpacks(size: int, limit: int) -> str:
    return (
        f"unpacks to {size / 2**20:,.0f} MiB or more; from a file of its size at most "
        f"{limit / 2**20:,.0f} MiB are read"
    )


def _unpacked(column: "pyarrow.Array") -> int:
    """About how many bytes a column's values take as rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)):
            return CELL_BYTES * len(column)
        lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
        return CELL_BYTES * len(column) + int(pc.sum(pc.cast(lengths, "int64")).as_py() or 0)
    if pa.types.is_map(kind):
        return _unpacked(column.keys) + _unpacked(column.items)
    if pa.types.is_struct(kind):
        return sum(_unpacked(part) for part in column.flatten())
    if pa.types.is_nested(kind):
        return CELL_BYTES * len(column) + _unpacked(column.flatten())
    return max(CELL_BYTES * len(column), int(column.nbytes))


class ParquetSink:
    """Writes rows in batches; the first batch settles the types."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        with naming_libraries():
            # Now, and not once the first batch was judged.
            import pyarrow.parquet  # noqa: F401

        self._path = path
        self._columns = columns
        self._batch: list[Row] = []
        self._writer: Any = None

    def write(self, row: Row) -> None:
        check_columns(row, self._columns)
        self._batch.append(row)
        if len(self._batch) >= _BATCH:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        """Write the rows that wait; those of the first batch settle the types of the columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        cells = {name: [row.get(name) for row in self._batch] for name in self._columns}
        self._batch = []
        try:
            if self._writer is None:
                # A column that is empty in the first batch holds text later, if anything.
                schema = pa.schema(
                    [
                        field.with_type(pa.string()) if pa.types.is_null(field.type) else field
                        for field in pa.table(cells).schema
                    ]
                )
                self._writer = pq.ParquetWriter(self._path, schema)
            self._writer.write_table(pa.table(cells, schema=self._writer.schema))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise RowsError(
                f"{self._path}: a column changes its type ({str(error).splitlines()[0]}); "
                "write JSONL instead"
            ) from error


def dataset_rows(path: str, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a folder made by `Dataset.save_to_disk`, or of `hf:owner/name`.

    `:split` at the end picks a split.
    """
    dataset = _load_dataset(path, problems)
    if dataset is None:
        return
    number = 0
    # As Arrow, since nothing here needs the pictures or sounds that iterating would decode.
    for batch in dataset.with_format("arrow").iter(batch_size=_BATCH):
        for cells in batch.to_pylist(maps_as_pydicts="lossy"):
            number += 1
            yield TableRow(number, cells)


def is_dataset(path: str) -> bool:
    """Whether a path names a Hugging Face data set: on the hub, or a folder."""
    return path.startswith(HUB) or Path(_name_and_split(path)[0]).is_dir()


def _name_and_split(path: str) -> tuple[str, str | None]:
    """Take the split off a path, unless what looks like one belongs to a folder's name."""
    name, colon, split = path.removeprefix(HUB).rpartition(":")
    if colon and split.replace("_", "").replace("-", "").isalnum() and not Path(path).exists():
        return name, split
    return path.removeprefix(HUB), None


def _load_dataset(path: str, problems: Problems) -> "datasets.Dataset | None":
    """The split that `path` names; None, and a problem, where it cannot be loaded."""
    with naming_libraries():
        import datasets
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    name, split = _name_and_split(path)
    if path.startswith(HUB) and (not HUB_NAME.fullmatch(name) or Path(name).exists()):
        # The library would take another name for an address, a folder or a reader of any files.
        fault = "is no data set of the hub" if not Path(name).exists() else "is a file or a folder"
        problems.add("bad-dataset", fault, f"write {HUB}owner/name, or the folder's own path")
        return None
    try:
        if path.startswith(HUB):
            with _quiet():
                dataset = datasets.load_dataset(name)
        else:
            dataset = datasets.load_from_disk(name)
    except (
        OSError,
        ValueError,
        datasets.exceptions.DatasetsError,
        HfHubHTTPError,
        httpx.HTTPError,
    ) as error:
        fault = f"cannot be loaded ({type(error).__name__}: {_first_line(error)})"
        advice = "give a folder made by Dataset.save_to_disk, or hf:owner/name"
        problems.add("bad-dataset", fault, advice)
        return None
    return _select_split(dataset, split, problems)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the hub's library log errors only, not each of its own retries."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _select_split(
    dataset: "datasets.Dataset | datasets.DatasetDict", split: str | None, problems: Problems
) -> "datasets.Dataset | None":
    """The split of this name, or the only one there is; None, and a problem, where neither is."""
    if not isinstance(dataset, Mapping):
        if split is None:
            return dataset
        problems.add("no-split", f"has no splits, so none is {split!r}", "leave the split out")
        return None
    names = sorted(str(name) for name in dataset)
    if split is None and len(names) == 1:
        split = names[0]
    if split in dataset:
        return dataset[split]
    missing = "none is named" if split is None else f"none is {split!r}"
    advice = f"add one to its name, as in {problems.file.partition(':')[0]}:{names[0]}"
    if problems.file.startswith(HUB):
        advice = "add one to its name, as in hf:owner/name:" + names[0]
    problems.add("no-split", f"has the splits {joined_names(names)}, and {missing}", advice)
    return None


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [""])[0]
    return line if len(line) <= 100 and line.isprintable() else excerpt(line)
