"""Read rows from JSONL, CSV, TSV and Parquet files one by one, so that size is no matter."""

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

Row = dict[str, object]

FORMATS: Mapping[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
UTF8 = "save the file as UTF-8"


class RowsError(ValueError):
    """A table that cannot be read or written; the message names file, line and the way out."""


def format_of(path: Path) -> str:
    """jsonl, csv, tsv or parquet, by the name's ending."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise RowsError(
            f"{path}: its ending says no known format; use one of {', '.join(FORMATS)}"
        ) from None


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; raises RowsError, or OSError where it cannot be opened."""
    form = format_of(path)
    if path.is_dir():
        raise RowsError(f"{path}: a folder; give a file")
    if form == "jsonl":
        return _read_jsonl(path)
    if form == "parquet":
        return _read_parquet(path)
    return _read_separated(path, None if form == "csv" else DELIMITERS[form])


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = _decoded(path, number, raw).strip()
            if not line:
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise RowsError(f"{path}, line {number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise RowsError(f"{path}, line {number}: no mapping from column to value")
            yield row


def _decoded(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise RowsError(
            f"{path}, line {number}: not UTF-8 text (byte {error.start}); {UTF8}"
        ) from error


def _read_separated(path: Path, delimiter: str | None) -> Iterator[Row]:
    """Without a delimiter, the one that the header has most of: a comma, semicolon or tab."""
    # The limit is the process's own, and far below the length of a document.
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter or ",", strict=True)
        try:
            if delimiter is None:
                found = max(",;\t", key=file.readline().count)
                file.seek(0)
                reader = csv.reader(file, delimiter=found, strict=True)
            names = next(reader, None)
            if not names:
                raise RowsError(f"{path}: empty; the first line names the columns")
            if len(set(names)) != len(names):
                raise RowsError(f"{path}: two columns have the same name")
            for values in reader:
                if not values:
                    continue
                if len(values) != len(names):
                    raise RowsError(
                        f"{path}, line {reader.line_num}: {len(values)} values for {len(names)} "
                        "columns"
                    )
                yield dict(zip(names, values, strict=True))
        except csv.Error as error:
            raise RowsError(f"{path}, line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise RowsError(f"{path}: not UTF-8 text (byte {error.start}); {UTF8}") from error


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1000):
                yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise RowsError(f"{path}: no Parquet file: {str(error).splitlines()[0]}") from error
